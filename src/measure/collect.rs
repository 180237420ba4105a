//! Reads the server's metrics while a level is measured, and keeps the readings of each window separate.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;

use crate::backend::Backend;
use crate::error::{Error, Result};
use crate::metrics::{MetricsFold, Page};
use crate::stdio::note;

/// A thread that reads the metrics at the start of every window and every interval after that. Dropping it waits for a
/// reading that is under way.
pub struct Collector {
    shared: Arc<Shared>,
    model: String,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    /// Readings of the open window.
    open: Mutex<MetricsFold>,
    stop: AtomicBool,
}

impl Collector {
    /// Reads the metrics once, so that a wrong address is found before anything is measured, and starts to poll.
    ///
    /// # Errors
    /// If the metrics cannot be read, or the server's answer contains none.
    pub fn start(backend: Arc<dyn Backend>, interval: Duration, model: &str) -> Result<Self> {
        let unread = |error: Error| error.context("--collect-metrics");
        let page = read(backend.as_ref(), model).map_err(unread)?;
        // Triton answers any wrong path with nothing.
        if !page.is_metrics() {
            let reason = "the answer contains no metrics in Prometheus' text format; give their URL with --metrics-url";
            return Err(unread(Error::server(reason)));
        }
        if page.lacks_gpus() {
            note!("--collect-metrics: the server reports no GPU metrics; GPU figures are left out");
        }
        Self::begin(backend, interval, model)
    }

    /// The same for a server of language models, of which many have no such page: then that is noted, and nothing is collected.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start_if_offered(backend: Arc<dyn Backend>, interval: Duration, model: &str) -> Result<Option<Self>> {
        match read(backend.as_ref(), model) {
            Err(error) => {
                note!(
                    "--collect-metrics: {error}; the server's load is left out (vLLM and TGI offer it, SGLang with \
                     --enable-metrics; --metrics-url names another page)"
                );
                return Ok(None);
            }
            // Some servers list a figure only once it has had a value.
            Ok(page) if !page.reports_load() => note!(
                "--collect-metrics: the page has no figures of vLLM's, SGLang's or TGI's load so far; if it has none later, \
                 either, they are left out (--metrics-url names another page)"
            ),
            Ok(_) => {}
        }
        Self::begin(backend, interval, model).map(Some)
    }

    fn begin(backend: Arc<dyn Backend>, interval: Duration, model: &str) -> Result<Self> {
        let shared = Arc::new(Shared { open: Mutex::new(MetricsFold::new(model)), stop: AtomicBool::new(false) });
        let poll = {
            let (shared, model) = (Arc::clone(&shared), model.to_owned());
            move || poll(backend.as_ref(), interval, &model, &shared)
        };
        let failed = |error| Error::machine(format!("a thread for --collect-metrics cannot be started: {error}"));
        let thread = thread::Builder::new().name("metrics".to_owned()).spawn(poll).map_err(failed)?;
        Ok(Self { shared, model: model.to_owned(), thread: Some(thread) })
    }

    /// Ends the open window and begins the next: returns the readings since the last call.
    pub fn advance(&self) -> MetricsFold {
        let readings = std::mem::replace(&mut *self.shared.open.lock(), MetricsFold::new(self.model.as_str()));
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
        readings
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A reading that panicked has said so on standard error; the level's figures do without it.
            let _ = thread.join();
        }
    }
}

/// One reading, whole or not at all.
fn read(backend: &dyn Backend, model: &str) -> Result<Page> {
    let mut page = Page::new(model);
    backend.metrics(&mut |line| page.line(line))?;
    Ok(page)
}

fn poll(backend: &dyn Backend, interval: Duration, model: &str, shared: &Shared) {
    let (mut warned, mut doubted) = (false, false);
    while !shared.stop.load(Ordering::Relaxed) {
        match read(backend, model) {
            Ok(page) => {
                if let Some((name, value)) = page.out_of_range().filter(|_| !doubted) {
                    doubted = true;
                    note!("--collect-metrics: {name} of {value:e} is out of range; such values are left out");
                }
                shared.open.lock().absorb(&page.fold());
            }
            Err(error) if !warned => {
                warned = true;
                note!("--collect-metrics: {error}; figures from that time are left out");
            }
            Err(_) => {}
        }
        thread::park_timeout(interval);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::backend::null::NullBackend;
    use crate::backend::{Capabilities, Client, ClientSpec, CompletionSink};
    use crate::clock::Stamp;
    use crate::model::statistics::StatisticsSnapshot;
    use crate::model::{ModelId, ModelSpec};

    /// Answers with a load of 0.1 more each time; fails on the second reading.
    struct Rising(AtomicUsize);

    impl Backend for Rising {
        fn capabilities(&self) -> Capabilities {
            NullBackend.capabilities()
        }

        fn model(&self, id: &ModelId) -> Result<ModelSpec> {
            NullBackend.model(id)
        }

        fn statistics(&self, id: &ModelId) -> Result<StatisticsSnapshot> {
            NullBackend.statistics(id)
        }

        fn metrics(&self, line: &mut dyn FnMut(&str)) -> Result<()> {
            match self.0.fetch_add(1, Ordering::Relaxed) {
                1 => return Err(Error::server("busy")),
                number => line(&format!("nv_cpu_utilization {}", number as f64 / 10.0)),
            }
            Ok(())
        }

        fn open_client(&self, spec: ClientSpec, sink: Arc<dyn CompletionSink>) -> Result<Box<dyn Client>> {
            NullBackend.open_client(spec, sink)
        }
    }

    /// Readings up to the next non-empty one.
    fn next(collector: &Collector) -> f64 {
        let patience = Stamp::now().plus_duration(Duration::from_secs(10));
        while Stamp::now() < patience {
            if let Some(share) = collector.advance().host().cpu_utilization {
                return share;
            }
            thread::sleep(Duration::from_millis(1));
        }
        panic!("no reading in ten seconds");
    }

    #[test]
    fn windows_keep_their_readings_apart_and_a_failed_reading_is_passed_over() {
        let backend = Arc::new(Rising(AtomicUsize::new(0)));
        let collector = Collector::start(backend, Duration::from_secs(3600), "m").unwrap();
        let (first, second) = (next(&collector), next(&collector));
        assert!(first >= 0.2 && second > first, "{first} {second}");
    }

    #[test]
    fn metrics_that_cannot_be_read_are_an_error_before_the_start() {
        let refused = Collector::start(Arc::new(NullBackend), Duration::from_secs(1), "m").err().unwrap();
        assert!(refused.to_string().starts_with("--collect-metrics: "), "{refused}");
    }
}
