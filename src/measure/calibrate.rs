//! The price of the instrument: what the program itself spends on a request.

use std::thread;
use std::time::Duration;

use crate::clock::Stamp;
use crate::error::Result;
use crate::load::{ClosedLoop, LoadContext, start};

/// Rounds of a calibration, of which the fastest counts: whatever else the machine does can only add.
pub const ROUNDS: usize = 5;
/// Requests of a round; a few milliseconds.
pub const ROUND_REQUESTS: u64 = 40_000;

/// Runs `context`, whose backend completes at once and whose quota is `requests`, and returns nanoseconds per request.
///
/// # Errors
/// Where a worker cannot be started.
pub fn client_cost_ns(context: LoadContext, requests: u64) -> Result<f64> {
    let load = start(context, ClosedLoop { concurrency: 1, max_threads: 1, synchronous: false })?;
    let started = load.started();
    while !load.is_finished() {
        thread::sleep(Duration::from_micros(200));
    }
    let ended = load.ended().unwrap_or_else(Stamp::now);
    load.stop()?;
    Ok(ended.since(started) as f64 / requests as f64)
}
