//! Reads the servers' metrics while a level is measured, and keeps the readings of each window separate.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;

use crate::backend::Backend;
use crate::error::{Error, Result};
use crate::metrics::{MetricsFold, Page};
use crate::stdio::{note, shown};

/// A thread that reads the metrics at the start of every window and every interval after that. Dropping it waits for a
/// reading that is under way.
pub struct Collector {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    /// Readings of the open window.
    open: Mutex<MetricsFold>,
    stop: AtomicBool,
}

/// What servers offer at first.
struct Offered {
    /// Those whose pages have no GPUs.
    lacking: Vec<usize>,
    /// Those whose pages cannot be read, and why.
    unread: Vec<(usize, Error)>,
}

impl Offered {
    fn by(sources: &Sources) -> Self {
        let mut offered = Self { lacking: Vec::new(), unread: Vec::new() };
        for (server, page) in sources.read().into_iter().enumerate() {
            match page.and_then(recognized) {
                Ok(page) if page.lacks_gpus() => offered.lacking.push(server),
                Ok(_) => {}
                Err(error) => offered.unread.push((server, error)),
            }
        }
        offered
    }
}

impl Collector {
    /// Reads the metrics once, so that a wrong address is found before anything is measured, and starts to poll. Of several
    /// servers one that does not answer is noted.
    ///
    /// # Errors
    /// If the metrics cannot be read, or the server's answer contains none; of several servers, if that is true of all.
    pub fn start(backend: Arc<dyn Backend>, interval: Duration, model: &str) -> Result<Self> {
        let sources = Sources { backend, model: model.to_owned() };
        let mut offered = Offered::by(&sources);
        if offered.unread.len() == sources.count() {
            return Err(offered.unread.swap_remove(0).1.context("--collect-metrics"));
        }
        Self::begin_with(sources, interval, &offered)
    }

    /// The same where no server need answer: each that does not is noted.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start_anyway(backend: Arc<dyn Backend>, interval: Duration, model: &str) -> Result<Self> {
        let sources = Sources { backend, model: model.to_owned() };
        let offered = Offered::by(&sources);
        Self::begin_with(sources, interval, &offered)
    }

    fn begin_with(sources: Sources, interval: Duration, Offered { lacking, unread }: &Offered) -> Result<Self> {
        for (server, error) in unread {
            let of_server = sources.named(*server);
            note!("--collect-metrics: {of_server}{error}; its figures are left out until it answers");
        }
        match lacking.len() {
            0 => {}
            1 if sources.count() == 1 => {
                note!("--collect-metrics: the server reports no GPU metrics; GPU figures are left out");
            }
            all if all == sources.count() => {
                note!("--collect-metrics: the servers report no GPU metrics; GPU figures are left out");
            }
            _ => {
                let names: Vec<_> = lacking.iter().map(|server| sources.address(*server)).collect();
                note!("--collect-metrics: without GPU metrics, whose figures are left out: {}", names.join(", "));
            }
        }
        Self::begin(sources, interval, &unread.iter().map(|(server, _)| *server).collect::<Vec<_>>())
    }

    /// The same for servers of language models, of which many have no such page: then that is noted, and if none has one,
    /// nothing is collected.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start_if_offered(backend: Arc<dyn Backend>, interval: Duration, model: &str) -> Result<Option<Self>> {
        let sources = Sources { backend, model: model.to_owned() };
        let mut unread = Vec::new();
        for (server, page) in sources.read().into_iter().enumerate() {
            let of_server = sources.named(server);
            match page {
                Err(error) => {
                    unread.push(server);
                    note!(
                        "--collect-metrics: {of_server}{error}; the server's load is left out (vLLM and TGI offer it, SGLang with \
                         --enable-metrics; --metrics-url names another page)"
                    );
                }
                // Some servers list a figure only once it has had a value.
                Ok(page) if !page.reports_load() => note!(
                    "--collect-metrics: {of_server}the page has no figures of vLLM's, SGLang's or TGI's load so far; if it has \
                     none later, either, they are left out (--metrics-url names another page)"
                ),
                Ok(_) => {}
            }
        }
        if unread.len() == sources.count() {
            return Ok(None);
        }
        Self::begin(sources, interval, &unread).map(Some)
    }

    /// Starts to poll. Nothing more is said of the servers in `noted` if they do not answer.
    fn begin(sources: Sources, interval: Duration, noted: &[usize]) -> Result<Self> {
        let shared = Arc::<Shared>::default();
        let warned = (0..sources.count()).map(|server| noted.contains(&server)).collect();
        let poll = {
            let shared = Arc::clone(&shared);
            move || poll(&sources, interval, warned, &shared)
        };
        let failed = |error| Error::machine(format!("a thread for --collect-metrics cannot be started: {error}"));
        let thread = thread::Builder::new().name("metrics".to_owned()).spawn(poll).map_err(failed)?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Ends the open window and begins the next: returns the readings since the last call.
    pub fn advance(&self) -> MetricsFold {
        let readings = std::mem::take(&mut *self.shared.open.lock());
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

/// What is read: a page of each server.
struct Sources {
    backend: Arc<dyn Backend>,
    /// The model whose queue counts.
    model: String,
}

impl Sources {
    /// Number of servers.
    fn count(&self) -> usize {
        self.backend.servers().len().max(1)
    }

    fn address(&self, server: usize) -> String {
        self.backend.servers().get(server).map(|address| shown(address).to_string()).unwrap_or_default()
    }

    /// What notes of a server begin with, if there are several.
    fn named(&self, server: usize) -> String {
        if self.count() > 1 { format!("{}: ", self.address(server)) } else { String::new() }
    }

    /// The pages of all servers, at the same time: one that does not answer must not delay the others.
    fn read(&self) -> Vec<Result<Page>> {
        thread::scope(|scope| {
            let begin = |server| thread::Builder::new().spawn_scoped(scope, move || self.read_one(server));
            let further: Vec<_> = (1..self.count()).map(begin).collect();
            let unread = |reason: String| Error::machine(format!("its metrics cannot be read: {reason}"));
            let further = further.into_iter().map(|begun| match begun.map(thread::ScopedJoinHandle::join) {
                Ok(Ok(page)) => page,
                Ok(Err(_)) => Err(unread("the thread has failed".to_owned())),
                Err(error) => Err(unread(error.to_string())),
            });
            let first = self.read_one(0);
            std::iter::once(first).chain(further).collect()
        })
    }

    /// One page, whole or not at all.
    fn read_one(&self, server: usize) -> Result<Page> {
        let mut page = Page::new(&self.model);
        self.backend.metrics(server, &mut |line| page.line(line))?;
        Ok(page)
    }
}

/// The page, if it is one of metrics: Triton answers any wrong path with nothing.
fn recognized(page: Page) -> Result<Page> {
    let reason = "the answer contains no metrics in Prometheus' text format; give their URL with --metrics-url";
    if page.is_metrics() { Ok(page) } else { Err(Error::server(reason)) }
}

fn poll(sources: &Sources, interval: Duration, mut warned: Vec<bool>, shared: &Shared) {
    let mut doubted = vec![false; warned.len()];
    while !shared.stop.load(Ordering::Relaxed) {
        let mut pages = Vec::with_capacity(warned.len());
        for (server, page) in sources.read().into_iter().enumerate() {
            if let Ok(page) = &page
                && let Some((name, value)) = page.out_of_range().filter(|_| !doubted[server])
            {
                doubted[server] = true;
                let of_server = sources.named(server);
                note!("--collect-metrics: {of_server}{name} of {value:e} is out of range; such values are left out");
            }
            if let Err(error) = &page
                && !std::mem::replace(&mut warned[server], true)
            {
                let of_server = sources.named(server);
                note!("--collect-metrics: {of_server}{error}; figures from that time are left out");
            }
            pages.push(page.ok());
        }
        shared.open.lock().absorb(&MetricsFold::of(pages));
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

        fn metrics(&self, _: usize, line: &mut dyn FnMut(&str)) -> Result<()> {
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
        assert!(Collector::start_anyway(Arc::new(NullBackend), Duration::from_secs(1), "m").is_ok());
    }
}
