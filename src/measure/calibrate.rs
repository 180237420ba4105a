//! The cost of the instrument: the program's own time per request.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::backend::null::NullBackend;
use crate::backend::{Backend, ClientSpec};
use crate::clock::Stamp;
use crate::data::{Payload, PayloadId};
use crate::error::Result;
use crate::load::input_source::{EntryAssignment, InputSource, PayloadIndex};
use crate::load::mix::Mix;
use crate::load::{ClosedLoop, LoadContext, start};
use crate::model::ModelId;
use crate::record::{Recorder, RecorderSpec};

/// Rounds of a calibration, of which the fastest counts: whatever else the machine does can only add.
const ROUNDS: usize = 5;
/// Requests of a round; a few milliseconds.
const ROUND_REQUESTS: u64 = 40_000;
/// No round begins after that: five take 20 ms, but five times as long where the program is built without optimisation.
const LAST_START: Duration = Duration::from_millis(30);

/// Nanoseconds that the client itself spends on a request.
///
/// # Errors
/// If a worker cannot be started.
pub fn client_cost_ns() -> Result<f64> {
    let limit = Stamp::now().plus_duration(LAST_START);
    let rounds = (0..ROUNDS).take_while(|number| *number == 0 || Stamp::now() < limit).map(|_| round(null_load()?));
    Ok(rounds.collect::<Result<Vec<_>>>()?.into_iter().fold(f64::INFINITY, f64::min))
}

/// A load of one slot, re-issued in its own completion, against a server that does nothing.
///
/// # Errors
/// None that are known.
pub fn null_load() -> Result<LoadContext> {
    let backend: Arc<dyn Backend> = Arc::new(NullBackend);
    let models: Arc<[_]> = [backend.model(&ModelId::latest("null"))?].into();
    let payload =
        Payload { model: 0, batch: 1, stream: 0, step: 0, inputs: Vec::new(), parameters: Vec::new(), expected: None };
    let index = PayloadIndex { cycle: vec![PayloadId(0)], streams: Vec::new() };
    let input_source = InputSource::independent(vec![index], Mix::single(), 1, EntryAssignment::OnDemand, 0)?;
    let recorder = Arc::new(Recorder::new(RecorderSpec::default(), 1));
    let context = LoadContext::new(backend, ClientSpec::new(models, [payload].into()), input_source, recorder);
    Ok(LoadContext { quota: Some(ROUND_REQUESTS), ..context })
}

fn round(context: LoadContext) -> Result<f64> {
    let load = start(context, ClosedLoop { concurrency: 1, max_threads: 1, synchronous: false })?;
    let started = load.started();
    while !load.is_finished() {
        thread::sleep(Duration::from_micros(200));
    }
    let ended = load.ended().unwrap_or_else(Stamp::now);
    load.stop()?;
    Ok(ended.since(started) as f64 / ROUND_REQUESTS as f64)
}
