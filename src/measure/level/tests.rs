mod joint;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use parking_lot::Mutex;

use super::*;
use crate::backend::null::NullBackend;
use crate::backend::{Backend, Capabilities, Client, ClientSpec, CompletionSink, InferError, Response};
use crate::blocks::Block;
use crate::breaker::Breaker;
use crate::data::PayloadId;
use crate::disturbance::sample::Quota;
use crate::error::BROKEN_OFF;
use crate::gate::Questions;
use crate::load::input_source::{EntryAssignment, InputSource, PayloadIndex};
use crate::load::mix::Mix;
use crate::load::pace::DEFAULT_SPIN;
use crate::load::schedule::Arrivals;
use crate::load::{LoadContext, OpenLoop, start};
use crate::machine::host_monitor::HostMonitor;
use crate::measurement::{Moment, Watcher};
use crate::model::statistics::{ModelStatistics, StatisticsSnapshot};
use crate::model::{ModelId, ModelSpec};
use crate::record::{Finished, Observer, Recorder, RecorderSpec, Source};
use crate::result::disturbance::Disturbance;
use crate::result::summary::{Headline, LevelLoad, sample};
use crate::result::tensors::TensorBytes;
use crate::seed::hash;
use crate::server::Models;
use crate::terms::{GapDistribution, MeasurementPlan, WindowRule};
use crate::waterfall::Tracing;
use crate::window_summary::WindowFacts;

/// Delays in milliseconds, between these two, from a seed.
struct Delays {
    least_ms: u64,
    most_ms: u64,
    seed: u64,
    drawn: AtomicU64,
}

impl Delays {
    fn new(seed: u64, most_ms: u64) -> Self {
        Self { least_ms: 0, most_ms, seed, drawn: AtomicU64::new(0) }
    }

    fn wait(&self) {
        let number = self.drawn.fetch_add(1, Ordering::Relaxed);
        let spread = (self.most_ms - self.least_ms) * 1_000 + 1;
        thread::sleep(Duration::from_micros(self.least_ms * 1_000 + hash(self.seed, number) % spread));
    }
}

/// Completes at once, and takes its time to tell its counters, which count every reading as an execution.
struct Slow {
    delays: Delays,
    readings: AtomicU64,
}

impl Backend for Slow {
    fn capabilities(&self) -> Capabilities {
        Capabilities { statistics: true, ..NullBackend.capabilities() }
    }

    fn model(&self, id: &ModelId) -> Result<ModelSpec> {
        NullBackend.model(id)
    }

    fn statistics(&self, id: &ModelId) -> Result<StatisticsSnapshot> {
        self.delays.wait();
        let executions = self.readings.fetch_add(1, Ordering::Relaxed);
        let counters = ModelStatistics { executions, ..ModelStatistics::default() };
        Ok(StatisticsSnapshot { models: [((id.name.clone(), "1".to_owned()), counters)].into() })
    }

    fn metrics(&self, _: usize, line: &mut dyn FnMut(&str)) -> Result<()> {
        NullBackend.metrics(0, line)
    }

    fn open_client(&self, spec: ClientSpec, sink: Arc<dyn CompletionSink>) -> Result<Box<dyn Client>> {
        NullBackend.open_client(spec, sink)
    }
}

/// Remembers when every request ended.
#[derive(Default)]
struct Log(Mutex<Vec<Stamp>>);

impl Observer for Log {
    fn reserve(&self, _: usize) {}

    fn response(&self, _: usize, _: &Response<'_>) {}

    fn complete(&self, _: usize, finished: &Finished<'_>) {
        self.0.lock().push(finished.end);
    }
}

/// Remembers the windows, and takes its time with each.
struct Windows {
    delays: Delays,
    windows: Mutex<Vec<ClientSummary>>,
}

impl Watcher for Windows {
    fn window(&self, _: usize, window: &ClientSummary, _: Option<Disturbance>) {
        self.windows.lock().push(window.clone());
        self.delays.wait();
    }

    fn block(&self, _: &Block) {}

    fn progress(&self, _: &dyn Fn() -> Moment) {}
}

const RATE: f64 = 2_000.0;

fn load(backend: &Arc<dyn Backend>, recorder: &Arc<Recorder>, log: &Arc<Log>) -> RunningLoad {
    let index = PayloadIndex { cycle: vec![PayloadId(0)], streams: Vec::new() };
    let client = ClientSpec { watch_responses: true, ..ClientSpec::new([].into(), [].into()) };
    let input_source = InputSource::independent(vec![index], Mix::single(), 1, EntryAssignment::InStep, 0).unwrap();
    let context = LoadContext {
        observer: Some(Arc::clone(log) as Arc<dyn Observer>),
        ..LoadContext::new(Arc::clone(backend), client, input_source, Arc::clone(recorder))
    };
    let shape = OpenLoop {
        arrivals: Arrivals::at_rate(RATE, GapDistribution::Constant).unwrap(),
        seed: 0,
        threads: 1,
        max_outstanding: 100,
        serial: false,
        part: ::ranks::Part::WHOLE,
        until: None,
        spin: DEFAULT_SPIN,
    };
    start(context, shape).unwrap()
}

/// What takes its time while a level is measured.
struct Slowness {
    /// Reading the server's counters.
    reading: Delays,
    /// Settling, in milliseconds at most.
    settling: u64,
    /// Closing a window, in milliseconds at most.
    closing: u64,
}

/// Measures eight windows as `rule` has them.
fn measured(seed: u64, rule: WindowRule, slowness: Slowness) -> (MeasuredLevel, Vec<ClientSummary>, Vec<Stamp>) {
    // No two windows agree so closely.
    let plan = MeasurementPlan { window: rule, stability: 1e-12, max_trials: 8, ..sample::plan() };
    measured_on(None, seed, &plan, slowness)
}

/// Measures as in `plan`, on the machine described by `host_monitor`.
fn measured_on(
    host_monitor: Option<&dyn HostMonitor>,
    seed: u64,
    plan: &MeasurementPlan,
    slowness: Slowness,
) -> (MeasuredLevel, Vec<ClientSummary>, Vec<Stamp>) {
    let Slowness { reading, settling, closing } = slowness;
    let slow = Arc::new(Slow { delays: reading, readings: AtomicU64::new(0) });
    let backend: Arc<dyn Backend> = slow;
    let roots = [ModelId::latest("null")];
    let specs = [backend.model(&roots[0]).unwrap()];
    let recorder = Arc::new(Recorder::new(RecorderSpec { open_loop: true, ..RecorderSpec::default() }, 1));
    let log = Arc::new(Log::default());
    let watcher = Windows { delays: Delays::new(seed + 1, closing), windows: Mutex::default() };
    let settling = Delays::new(seed + 2, settling);
    // A validator comes to the load's first request only when it is waited for.
    let (theirs, first) = (Arc::clone(&log), std::sync::Once::new());
    let judge = || {
        let end = theirs.0.lock()[0];
        recorder.mismatch(Source { writer: 0, part: 0 }, end, end, &InferError::new("Validation", "another output"));
    };
    let settle = || {
        settling.wait();
        first.call_once(judge);
    };
    let run = LevelRun {
        load: LevelLoad::RequestRate(RATE),
        recorder: Arc::clone(&recorder),
        facts: WindowFacts {
            batch_size: 1,
            tensors: TensorBytes::default(),
            headline: Headline::ResponseTime,
            requested_rate: Some(RATE),
            shares: [].into(),
            models: [].into(),
            issuers: 1,
            client_cost_ns: 0.0,
            wakeups_apart: false,
        },
        ramp: 1,
        finite: false,
        requests: None,
        baseline: None,
        gap_variation: 0.0,
        sending: None,
        tracing: Tracing::default(),
        questions: Questions::default(),
    };
    let measurement = Measurement {
        plan,
        backend: backend.as_ref(),
        models: Models { roots: &roots, specs: &specs, bls: &[] },
        interrupts: &AtomicUsize::new(0),
        metrics: None,
        host_monitor,
        breaker: Breaker::new(&[]),
        watcher: &watcher,
        settle: &settle,
        ranks: None,
    };
    let running = load(&backend, &recorder, &log);
    while log.0.lock().is_empty() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let level = measure(&measurement, &run, running).unwrap();
    let ends = log.0.lock().clone();
    (level, watcher.windows.into_inner(), ends)
}

/// A window counts exactly the requests that ended between its two ends, whatever was slow meanwhile. (A writer that was
/// stopped in the middle of recording adds to a later one.)
#[test]
fn windows_count_what_ended_in_them_whatever_is_slow() {
    const STOPPED: u64 = 3;
    let rules = [WindowRule::Time(Duration::from_millis(50)), WindowRule::Count(100)];
    let cases = rules.into_iter().flat_map(|rule| [(1, rule, 1), (2, rule, 40), (3, rule, 200)]);
    for (seed, rule, most_ms) in cases {
        let slowness = Slowness { reading: Delays::new(seed, most_ms), settling: most_ms / 3, closing: most_ms / 3 };
        let (level, windows, ends) = measured(seed, rule, slowness);
        assert_eq!((windows.len(), level.boundaries.len()), (8, 9), "{rule:?} {most_ms}");
        for (window, edges) in windows.iter().zip(level.boundaries.windows(2)) {
            assert_eq!((window.start, window.start.plus_duration(window.duration)), (edges[0], edges[1]));
            let truth = ends.iter().filter(|end| (edges[0]..edges[1]).contains(end)).count() as u64;
            let off = window.requests.abs_diff(truth);
            assert!(off <= STOPPED, "{rule:?} {most_ms}: {} for {truth} in {:?}", window.requests, window.duration);
        }
        assert!(windows.iter().all(|window| window.failed == 0), "it had ended before the first window");
        let result = &level.summary.client;
        let last: Duration = windows[5..].iter().map(|window| window.duration).sum();
        assert_eq!(result.duration, last, "the last three make the result");
        assert_eq!(result.requests, windows[5..].iter().map(|window| window.requests).sum::<u64>());
        assert!(level.requests.adds_up());
    }
}

/// The server's counters are read beside the windows: these end on time, and counters of another time are said to be.
#[test]
fn timed_slow_counters_hold_up_no_window() {
    let rule = WindowRule::Time(Duration::from_millis(50));
    let reading = Delays { least_ms: 400, ..Delays::new(7, 400) };
    let (level, windows, _) = measured(7, rule, Slowness { reading, settling: 0, closing: 0 });
    let lengths: Vec<Duration> = windows.iter().map(|window| window.duration).collect();
    let on_time = lengths.iter().filter(|length| **length == Duration::from_millis(50)).count();
    assert!(on_time >= 6, "{lengths:?}");
    let server = level.summary.server.expect("two readings there were");
    assert!(server.delta.executions >= 1);
    assert!(level.summary.server_span.is_some(), "readings of 400 ms do not meet windows of 50 ms");
}

/// Disturbed windows are measured again, and only what was not disturbed makes the result.
#[test]
fn timed_disturbed_windows_are_not_in_the_result() {
    let rule = WindowRule::Time(Duration::from_millis(50));
    let plan = MeasurementPlan { window: rule, stability: 1e6, max_trials: 8, ..sample::plan() };
    let at_once = || Slowness { reading: Delays::new(1, 0), settling: 0, closing: 0 };
    let quota = Quota::stopping(&[true, false, true]);
    let (level, windows, _) = measured_on(Some(&quota), 1, &plan, at_once());
    let found = level.summary.disturbances;
    assert_eq!((windows.len(), found.windows, found.disturbed, found.replaced), (6, 3, 0, 2));
    assert_eq!((level.summary.client.start, level.summary.ending), (level.boundaries[3], Ending::Stable));
    let quota = Quota::stopping(&[true; 8]);
    let (level, windows, _) = measured_on(Some(&quota), 1, &plan, at_once());
    let found = level.summary.disturbances;
    assert_eq!((windows.len(), found.windows, found.disturbed, found.replaced), (6, 6, 6, 0));
    assert_eq!(level.summary.ending, Ending::Stable);
    let (level, windows, _) = measured_on(None, 1, &plan, at_once());
    assert_eq!((windows.len(), level.summary.disturbances.worst), (3, None));
}

#[test]
fn what_fails_for_an_interrupt_alone_is_no_failure() {
    let (broken_off, real) = (Error::server(format!("x: {}", BROKEN_OFF)), Error::server("the server is gone"));
    let told = |is_interrupted, ended, stopped| {
        let (ending, error) = outcome(is_interrupted, ended, stopped);
        (ending, error.map(|error| error.to_string()))
    };
    let gone = || Some("the server is gone".to_owned());
    for is_interrupted in [true, false] {
        assert_eq!(told(is_interrupted, Ok(Ending::Interrupted), Some(&broken_off)), (Ending::Interrupted, None));
        // A client that the interrupt broke looks like one that failed, until it is asked why.
        assert_eq!(told(is_interrupted, Ok(Ending::Failed), Some(&broken_off)), (Ending::Interrupted, None));
        assert_eq!(told(is_interrupted, Ok(Ending::Stable), Some(&broken_off)), (Ending::Stable, None));
        assert_eq!(told(is_interrupted, Err(broken_off.clone()), None), (Ending::Interrupted, None));
        assert_eq!(told(is_interrupted, Ok(Ending::Stable), Some(&real)), (Ending::Failed, gone()));
    }
    assert_eq!(told(true, Err(real.clone()), None), (Ending::Interrupted, gone()));
    assert_eq!(told(false, Err(real.clone()), None), (Ending::Failed, gone()));
}
