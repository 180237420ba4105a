//! A single request before the first round: what its answer tells of the model.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::app::job::Job;
use crate::app::runner::Runner;
use crate::backend::Response;
use crate::clock::Stamp;
use crate::error::Result;
use crate::load::{LoadContext, prepare};
use crate::record::{Finished, Observer};

/// Whoever takes longer to answer one request is measured without its outputs' size.
const PATIENCE: Duration = Duration::from_secs(60);

/// Adds up the bytes of outputs.
#[derive(Default)]
struct Outputs(AtomicU64);

impl Observer for Outputs {
    fn reserve(&self, _request_streams: usize) {}

    fn response(&self, _request_stream: usize, response: &Response<'_>) {
        response.outputs.visit(&mut |output| {
            self.0.fetch_add(output.bytes.len() as u64, Relaxed);
        });
    }

    fn complete(&self, _request_stream: usize, _finished: &Finished<'_>) {}
}

/// Bytes of the output tensors of an inference; none if the request brought none, or no answer came in time.
///
/// # Errors
/// If it cannot be sent.
pub fn output_bytes(runner: &Runner<'_>, batch_size: u64) -> Result<Option<f64>> {
    let job = Job::burst(runner.session, 1);
    let (outputs, recorder) = (Arc::new(Outputs::default()), runner.level_run(&job).recorder);
    let observer: Arc<dyn Observer> = Arc::<Outputs>::clone(&outputs);
    let context = runner.session.context(job.request_streams, &recorder, Some(observer))?;
    let running = prepare(LoadContext { quota: Some(1), ..context }, job.shape)?.go();
    runner.let_run(&running, Stamp::now().plus_duration(PATIENCE));
    if !running.is_finished() {
        return running.abandon().map(|_| None);
    }
    running.stop()?;
    let bytes = outputs.0.load(Relaxed);
    Ok((bytes > 0).then(|| bytes as f64 / batch_size.max(1) as f64))
}
