//! Observers under load: they never block the load.

use std::io::Read;
use std::path::Path;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::*;
use crate::backend::Response;
use crate::clock::WallAnchor;
use crate::load::pace::DEFAULT_SPIN;
use crate::load::schedule::Arrivals;
use crate::load::{BatchBook, ClosedLoop, LoadContext, LoadShape, OpenLoop, PeriodicLoop, start};
use crate::measure::calibrate::null_load;
use crate::report::export::{ExportSpec, ExportWriter};
use crate::result::summary::{Headline, sample};
use crate::terms::{GapDistribution, LoadMode, Stage, StageEdges, StageLength, StageLoad};

const REQUESTS: u64 = 50_000;

/// A load of this many requests on the null backend.
fn context(requests: u64) -> LoadContext {
    let mut context = null_load().unwrap();
    context.quota = Some(requests);
    context.client.watch_responses = true;
    context
}

fn closed(synchronous: bool) -> LoadShape {
    ClosedLoop { concurrency: 1, max_threads: 1, synchronous }.into()
}

fn run(context: LoadContext, shape: LoadShape) -> LoadReport {
    let running = start(context, shape).unwrap();
    while !running.is_finished() {
        thread::sleep(std::time::Duration::from_millis(1));
    }
    running.stop().unwrap()
}

/// The export's writer into `path`.
fn writer(path: &Path, context: &LoadContext) -> ExportWriter {
    ExportWriter::create(ExportSpec {
        path: path.to_owned(),
        anchor: WallAnchor::take(),
        payloads: Arc::clone(&context.client.payloads),
        outputs: vec!["OUTPUT0".to_owned()],
        service_kind: "NULL",
        as_upstream: false,
        endpoint: String::new(),
        headline: Headline::ServiceTime,
        entries: Vec::new(),
        unnumbered: false,
        interrupts: crate::interrupt::counter(),
    })
    .unwrap()
}

/// Exports a load into a pipe that is not read until the load has ended and its level is closed. What the export holds
/// and what it is said to lack, and what the report says.
fn into_a_stalled_pipe(most_bytes: usize) -> (u64, u64, String) {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let (go_on, wait) = mpsc::channel::<()>();
    let reader = thread::spawn({
        let pipe = pipe.clone();
        move || {
            let mut file = std::fs::File::open(pipe).unwrap();
            let _ = wait.recv();
            let mut text = String::new();
            file.read_to_string(&mut text).map(|_| text).unwrap()
        }
    });
    let mut context = context(REQUESTS);
    let observers = Observers::start(vec![Box::new(writer(&pipe, &context))], None, most_bytes).unwrap().unwrap();
    observers.begin(LevelLoad::Concurrency(1));
    context.observer = Some(observers.of_level(&context.recorder));
    let recorder = Arc::clone(&context.recorder);
    let report = run(context, closed(false));
    assert_eq!((report.completed, report.failed, report.outstanding), (REQUESTS, 0, 0), "nobody waited for the reader");
    assert_eq!(recorder.close().requests, REQUESTS);
    observers.end_with(None, || Value::Null);
    let remarks = observers.take_remarks();
    go_on.send(()).unwrap();
    observers.finish().unwrap();
    let value: Value = serde_json::from_str(&reader.join().unwrap()).unwrap();
    let experiment = &value["experiments"][0];
    let held = experiment["requests"].as_array().unwrap().len() as u64;
    (held, experiment["missing_requests"].as_u64().unwrap_or(0), remarks)
}

#[test]
fn a_stalled_pipe_does_not_hold_the_load_back_and_what_is_lost_is_said() {
    let (held, missing, remarks) = into_a_stalled_pipe(1 << 20);
    assert!(missing > 0 && held > 100 && held + missing == REQUESTS, "{held} held, {missing} missing");
    let line = format!("Concurrency 1: {missing} requests are missing from --profile-export-file or --requests-file");
    assert!(remarks.to_lowercase().contains(&line.to_lowercase()), "{remarks}");
}

#[test]
fn what_fits_into_memory_is_not_lost_however_long_nobody_reads() {
    assert_eq!(into_a_stalled_pipe(256 << 20), (REQUESTS, 0, String::new()));
}

#[test]
fn loads_that_belong_to_no_level_are_not_exported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.json");
    let observers = Observers::start(vec![Box::new(writer(&path, &context(1)))], None, 1 << 20).unwrap().unwrap();
    let observe = |requests| {
        let mut context = context(requests);
        context.observer = Some(observers.of_level(&context.recorder));
        run(context, closed(false));
    };
    observe(7);
    observers.begin(LevelLoad::Concurrency(1));
    observe(3);
    observers.end_with(None, || Value::Null);
    observe(5);
    observers.finish().unwrap();
    let value: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(value["experiments"][0]["requests"].as_array().map(Vec::len), Some(3));
    assert_eq!(value["experiments"][0].get("missing_requests"), None);
}

/// The concurrencies in an export of these measurements, and the requests of each, where levels come to an end like that.
fn exported(measured: &[(u32, u64, Ending)], mode: LoadMode) -> Vec<(u64, usize)> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.json");
    let observers = Observers::start(vec![Box::new(writer(&path, &context(1)))], None, 1 << 20).unwrap().unwrap();
    let setup = Setup { mode, ..crate::result::setup::sample::setup() };
    for (concurrency, requests, ending) in measured {
        let load = LevelLoad::Concurrency(*concurrency);
        observers.begin(load);
        let mut context = context(*requests);
        context.observer = Some(observers.of_level(&context.recorder));
        run(context, closed(false));
        let level = LevelSummary { ending: *ending, ..sample::level(load, *requests, 1_000) };
        observers.end(vec![Stamp(0), Stamp(1)], &level, &setup);
    }
    observers.finish().unwrap();
    let value: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let about = |experiment: &Value| {
        (experiment["experiment"]["value"].as_u64().unwrap(), experiment["requests"].as_array().unwrap().len())
    };
    value["experiments"].as_array().unwrap().iter().map(about).collect()
}

#[test]
fn a_level_that_was_measured_again_is_exported_as_it_is_reported() {
    let range = || crate::result::setup::sample::setup().mode;
    assert!(range().stages().is_empty());
    let again = [(1, 4, Ending::Unstable), (2, 5, Ending::Stable), (1, 6, Ending::Stable)];
    assert_eq!(exported(&again, range()), [(1, 6), (2, 5)]);
    let broken_off = [(1, 4, Ending::Unstable), (2, 5, Ending::Stable), (1, 3, Ending::Interrupted)];
    assert_eq!(exported(&broken_off, range()), [(1, 4), (2, 5)], "the first measurement counts then");
    let stage = Stage { load: StageLoad::Concurrency(1), length: StageLength::Requests(9), pause: Duration::ZERO };
    let stages = LoadMode::Stages {
        stages: vec![stage],
        distribution: GapDistribution::Constant,
        edges: StageEdges::Drain,
        trace: None,
    };
    assert_eq!(exported(&again, stages), [(1, 4), (2, 5), (1, 6)], "stages may repeat a load");
}

/// Looks whether a request has been recorded when it is shown.
struct Witness {
    recorder: Arc<Recorder>,
    completed: AtomicUsize,
    unrecorded: AtomicUsize,
}

impl Observer for Witness {
    fn reserve(&self, _request_streams: usize) {}

    fn response(&self, _request_stream: usize, _response: &Response<'_>) {}

    fn complete(&self, _request_stream: usize, _finished: &Finished<'_>) {
        let count = self.completed.fetch_add(1, Ordering::Relaxed) + 1;
        let recorded = self.recorder.completed().all() as usize >= count;
        self.unrecorded.fetch_add(usize::from(!recorded), Ordering::Relaxed);
    }
}

#[test]
fn a_request_is_recorded_before_anybody_sees_it() {
    let open = || OpenLoop {
        arrivals: Arrivals::at_rate(20_000.0, GapDistribution::Constant).unwrap(),
        seed: 1,
        threads: 1,
        max_outstanding: 8,
        serial: false,
        part: crate::ranks::Part::WHOLE,
        until: None,
        spin: DEFAULT_SPIN,
    };
    let periodic = PeriodicLoop {
        start: 4,
        end: 100,
        step: 4,
        period: 1,
        book: Arc::new(BatchBook::new(100)),
        part: crate::ranks::Part::WHOLE,
        progress: Arc::default(),
    };
    for shape in [closed(true), closed(false), open().into(), periodic.into()] {
        let mut context = context(100);
        let recorder = Arc::clone(&context.recorder);
        let witness = Arc::new(Witness { recorder, completed: AtomicUsize::new(0), unrecorded: AtomicUsize::new(0) });
        context.observer = Some(Arc::clone(&witness) as Arc<dyn Observer>);
        let name = format!("{shape:?}").chars().take(40).collect::<String>();
        run(context, shape);
        let counts = (witness.completed.load(Ordering::Relaxed), witness.unrecorded.load(Ordering::Relaxed));
        assert_eq!(counts, (100, 0), "{name}");
    }
}
