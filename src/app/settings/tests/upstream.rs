//! The shape of our reports against what upstream's program was seen to print (`tests/fixtures/upstream`).

use std::sync::Arc;
use std::time::Duration;

use super::plan_of;
use crate::app::settings::settings;
use crate::backend::{ClientTimes, OutputView, Response};
use crate::backends::triton_json;
use crate::clock::{Stamp, WallAnchor};
use crate::data::{InputTensor, Payload, PayloadId};
use crate::measure::server::Models;
use crate::model::statistics::{CountedTime, ModelStatistics};
use crate::model::{DataType, ModelId, ModelSpec, Scheduler};
use crate::plan::{Plan, ServiceKind};
use crate::record::{RawRecord, TestOutputs};
use crate::report::export::{ExperimentEnd, ExportSpec, ExportWriter, RequestFile};
use crate::report::scratch::{NEVER, Scratch};
use crate::report::tests::printed;
use crate::report::{console, csv};
use crate::result::Setup;
use crate::result::setup::sample as plans;
use crate::result::summary::{
    DecoupledSummary, GpuMetrics, Headline, LevelLoad, LevelSummary, OpenLoopSummary, ServerSummary, sample,
};
use crate::shm::{Placement, Region};
use crate::terms::{GapDistribution, LoadMode, Range, WindowRule};

macro_rules! fixture {
    ($name:literal) => {
        include_str!(concat!("../../../../tests/fixtures/upstream/", $name))
    };
}

/// A run as the fixtures' were: what was asked for, and what came out, with any numbers.
struct Run {
    setup: Setup,
    service: ServiceKind,
    levels: Vec<LevelSummary>,
    /// Lines of windows, where they are listed.
    windows: usize,
    /// What is printed before the settings.
    preface: String,
}

fn model(name: &str, cached: bool, composing: Vec<ServerSummary>) -> ServerSummary {
    let time = CountedTime { count: 89, ns: 89 * 5_000 };
    let delta = ModelStatistics {
        success: time,
        queue: time,
        compute_input: time,
        compute_infer: time,
        compute_output: time,
        ..ModelStatistics::default()
    };
    ServerSummary { name: name.to_owned(), version: "1".to_owned(), delta, cached, several_versions: false, composing }
}

/// One level of concurrency over HTTP.
fn plain() -> Run {
    let mut level = sample::level(LevelLoad::Concurrency(1), 89, 11_001_855);
    level.server = Some(model("ident", false, Vec::new()));
    Run { setup: plans::setup(), service: ServiceKind::Triton, levels: vec![level], windows: 3, preface: String::new() }
}

impl Run {
    fn of(change: impl FnOnce(&mut Self)) -> Self {
        let mut run = plain();
        change(&mut run);
        run
    }

    fn verbose(change: impl FnOnce(&mut Self)) -> Self {
        Self::of(|run| {
            run.setup.detail.verbosity = 1;
            run.setup.detail.verbose_csv = true;
            change(run);
        })
    }

    fn server(&mut self, server: ServerSummary) {
        self.levels[0].server = Some(server);
    }

    fn rates(&mut self, start: f64, end: f64, distribution: GapDistribution) {
        self.setup.mode = LoadMode::RequestRate { range: Range::with_step(start, Some(end), 1.0), distribution };
        self.levels[0].load = LevelLoad::RequestRate(start);
        self.levels[0].client.open_loop = Some(OpenLoopSummary {
            response_time: sample::distribution(89, 11_001_855),
            service_time: sample::distribution(89, 11_001_855),
            schedule_delay: sample::distribution(89, 1_000),
            requested_rate: 89.0,
            achieved_rate: 89.0,
            completed_rate: 89.0,
        });
    }

    fn second_level(&mut self, load: LevelLoad) {
        let mut second = self.levels[0].clone();
        second.load = load;
        self.levels.push(second);
    }

    fn plan(&self) -> Plan {
        let mut plan = plan_of(&self.setup);
        plan.target.service = self.service;
        plan
    }

    fn report(&self) -> String {
        let mut text = self.preface.clone() + &settings(&self.plan(), &self.setup);
        for level in &self.levels {
            text += &printed(&self.setup, level, self.windows);
        }
        text + &console::summary(&plans::result(&self.setup, &self.levels))
    }

    fn tables(&self) -> Vec<String> {
        let scratch = Scratch::new(&format!("shape-{:?}", std::thread::current().id()));
        let mut setup = self.setup.clone();
        setup.detail.as_upstream = true;
        csv::write(&scratch.path().join("x.csv"), &NEVER, &plans::result(&setup, &self.levels)).unwrap();
        // The main file's name sorts after those of composing models here.
        let names = scratch.names();
        names.iter().map(|name| std::fs::read_to_string(scratch.path().join(name)).unwrap()).collect()
    }
}

/// Every number as `N`, unless it is a part of a word.
fn shape(text: &str) -> String {
    let mut out = String::new();
    let mut characters = text.chars().peekable();
    let mut word = false;
    while let Some(character) = characters.next() {
        if character.is_ascii_digit() && !word {
            out.push('N');
            while characters.next_if(|next| next.is_ascii_digit() || *next == '.').is_some() {}
        } else {
            out.push(character);
        }
        word = character.is_alphanumeric() || character == '_';
    }
    out
}

/// Lines that upstream does not have.
const OURS: [&str; 13] = [
    "Highest level within ",
    "  avg latency ",
    "  Random seed:",
    "  Requests leave when",
    "  Latency: ",
    "  Inputs in ",
    "    Requested rate:",
    "    Response time",
    "    Service time",
    "    Schedule delay",
    "    Time to first response",
    "    Time between responses",
    "    Time to last response",
];

/// Our report with what is ours taken out: lines of our own, the reasons under a verdict, and half of the overhead's line.
fn ours(run: &Run) -> String {
    let mut text = String::new();
    let mut verdict = false;
    for line in shape(&run.report()).lines() {
        verdict = line.starts_with("  Verdict:") || (verdict && !line.is_empty());
        if verdict || OURS.iter().any(|prefix| line.starts_with(prefix)) {
            continue;
        }
        if line.starts_with("    Avg client overhead:") {
            if run.setup.detail.verbosity > 0 {
                text += "    Avg client overhead: N%\n";
            }
            continue;
        }
        text += line;
        text.push('\n');
    }
    text
}

/// Upstream's report with what we say otherwise put our way: the rate's header as of later versions, and what an
/// asynchronous run is stabilised on, which upstream's line has wrong.
fn theirs(fixture: &str) -> String {
    fixture
        .replace("inference requests per seconds", "inference requests per second")
        .replace("using average throughput", "using average latency and throughput")
}

#[track_caller]
fn same_report(fixture: &str, run: &Run) {
    assert_eq!(ours(run), theirs(fixture));
}

#[test]
fn plain_reports() {
    let range = |end| LoadMode::Concurrency(Range::with_step(1, Some(end), 1));
    same_report(
        fixture!("http.txt"),
        &Run::of(|run| {
            run.setup.mode = range(2);
            run.second_level(LevelLoad::Concurrency(2));
        }),
    );
    same_report(fixture!("http_async_verbose.txt"), &Run::verbose(|run| run.setup.synchronous = false));
    same_report(
        fixture!("http_percentile_verbose.txt"),
        &Run::verbose(|run| run.setup.measurement.percentile = Some(95.0)),
    );
    same_report(fixture!("http_percentile.txt"), &Run::of(|run| run.setup.measurement.percentile = Some(42.0)));
    same_report(fixture!("count_windows.txt"), &Run::of(|run| run.setup.measurement.window = WindowRule::Count(20)));
    same_report(
        fixture!("binary_search.txt"),
        &Run::of(|run| {
            run.setup.mode = range(8);
            run.setup.measurement.binary_search = true;
            run.setup.measurement.latency_threshold = Some(Duration::from_secs(1));
            run.second_level(LevelLoad::Concurrency(8));
        }),
    );
    // Upstream prints the level's header for the warm-up, too.
    let twice = "Request concurrency: N\nRequest concurrency: N\n";
    same_report(
        &fixture!("request_count.txt").replace(twice, "Request concurrency: N\n"),
        &Run::of(|run| {
            run.setup.measurement.warmup_requests = 3;
            run.setup.measurement.request_count = Some(20);
        }),
    );
}

#[test]
fn other_transports() {
    let grpc = |run: &mut Run| run.setup.client_times = Some(ClientTimes::GRPC);
    same_report(
        fixture!("grpc_batch.txt"),
        &Run::of(|run| {
            grpc(run);
            run.setup.batch_size = 2;
        }),
    );
    same_report(
        fixture!("grpc_async_verbose.txt"),
        &Run::verbose(|run| {
            grpc(run);
            run.setup.synchronous = false;
        }),
    );
    same_report(fixture!("c_api_verbose.txt"), &in_process());
}

fn in_process() -> Run {
    Run::verbose(|run| {
        run.service = ServiceKind::TritonCApi;
        run.setup.service_kind = "TRITON_C_API".to_owned();
        run.setup.client_times = None;
    })
}

fn ensemble(cached: bool) -> ServerSummary {
    let other = if cached { "cached" } else { "ident2" };
    let mut parts = vec![model(other, cached, Vec::new()), model("ident", cached, Vec::new())];
    parts.sort_by(|a, b| a.name.cmp(&b.name));
    model("ens", cached, parts)
}

#[test]
fn ensembles_and_caches() {
    let nested = |cached| model("outer", cached, vec![ensemble(cached), model("ident", cached, Vec::new())]);
    same_report(fixture!("ensemble.txt"), &Run::of(|run| run.server(ensemble(false))));
    same_report(fixture!("ensemble_nested.txt"), &Run::of(|run| run.server(nested(false))));
    same_report(fixture!("ensemble_nested_cached.txt"), &Run::of(|run| run.server(nested(true))));
    same_report(fixture!("ensemble_cached_verbose.txt"), &Run::verbose(|run| run.server(ensemble(true))));
    let four_windows = |run: &mut Run| {
        run.server(model("cached", true, Vec::new()));
        run.windows = 4;
    };
    same_report(fixture!("cached_verbose.txt"), &Run::verbose(four_windows));
}

fn decoupled() -> Run {
    Run::verbose(|run| {
        run.setup.synchronous = false;
        run.setup.decoupled = true;
        run.setup.headline = Headline::FirstResponse;
        let times = || sample::distribution(89, 11_001_855);
        run.levels[0].client.decoupled =
            Some(DecoupledSummary { first_response: times(), gap: times(), last_response: times() });
    })
}

#[test]
fn decoupled_and_sequence_models() {
    same_report(fixture!("decoupled_verbose.txt"), &decoupled());
    same_report(
        fixture!("sequences_verbose.txt"),
        &Run::verbose(|run| {
            run.setup.synchronous = false;
            run.setup.sequences = true;
            run.preface = " Successfully read data for 1 stream/streams with 3 step/steps.\n".to_owned();
        }),
    );
}

#[test]
fn rates() {
    same_report(
        fixture!("rate.txt"),
        &Run::of(|run| {
            run.rates(20.0, 40.0, GapDistribution::Constant);
            run.second_level(LevelLoad::RequestRate(40.0));
        }),
    );
    let late = Run::verbose(|run| {
        run.rates(300.0, 301.0, GapDistribution::Constant);
        run.levels[0].client.delayed = 88;
    });
    same_report(fixture!("rate_late_verbose.txt"), &late);
    let poisson = Run::of(|run| run.rates(20.0, 20.0, GapDistribution::Poisson));
    assert!(ours(&poisson).starts_with(&theirs(fixture!("poisson.txt"))));
}

#[test]
fn metrics() {
    let with_metrics = Run::of(|run| run.levels[0].gpus = Some(Vec::new()));
    // Upstream leaves no empty line between the metrics and what follows.
    let report = ours(&with_metrics).replace("Total GPU Memory:\n\n", "Total GPU Memory:\n");
    assert_eq!(report, theirs(fixture!("metrics.txt")));
}

/// Our table must begin with upstream's columns, and have nothing more unless it is verbose.
#[track_caller]
fn same_columns(fixture: &str, table: &str, verbose: bool) {
    let (theirs, ours) = (fixture.lines().next().unwrap(), table.lines().next().unwrap());
    if verbose {
        assert!(ours.starts_with(&format!("{theirs},")), "{ours}\n{theirs}");
    } else {
        assert_eq!(ours, theirs);
    }
}

#[test]
fn columns() {
    same_columns(fixture!("http.csv"), &plain().tables()[0], false);
    let row = fixture!("http.csv").lines().last().unwrap();
    assert_eq!(shape(&plain().tables()[0]).lines().last(), Some(row));
    let percentile = |run: &mut Run| run.setup.measurement.percentile = Some(42.0);
    same_columns(fixture!("http_percentile.csv"), &Run::of(percentile).tables()[0], false);
    same_columns(fixture!("http_async_verbose.csv"), &Run::verbose(|_| {}).tables()[0], true);
    let verbose = Run::verbose(|run| run.setup.measurement.percentile = Some(95.0));
    same_columns(fixture!("http_percentile_verbose.csv"), &verbose.tables()[0], true);
    same_columns(fixture!("c_api_verbose.csv"), &in_process().tables()[0], true);
    same_columns(fixture!("decoupled_verbose.csv"), &decoupled().tables()[0], true);
    let gpu = || GpuMetrics { uuid: "G".to_owned(), ..GpuMetrics::default() };
    same_columns(
        fixture!("metrics.csv"),
        &Run::verbose(|run| run.levels[0].gpus = Some(vec![gpu()])).tables()[0],
        true,
    );
    same_columns(
        fixture!("rate.csv"),
        &Run::of(|run| run.rates(20.0, 40.0, GapDistribution::Constant)).tables()[0],
        false,
    );
    let cached = Run::verbose(|run| run.server(ensemble(true))).tables();
    same_columns(fixture!("ensemble_cached_verbose.csv"), &cached[2], true);
    assert_eq!(shape(&cached[0]), fixture!("ensemble_cached_part.csv"));
    let plain = Run::of(|run| run.server(ensemble(false))).tables();
    same_columns(fixture!("ensemble.csv"), &plain[2], false);
    assert_eq!(shape(&plain[0]), fixture!("ensemble_part.csv"));
}

/// The export of experiments of two requests each, with numbers as `N` and lists of them cut to one.
fn export(service_kind: &'static str, loads: &[LevelLoad], sequence_id: u64, strings: &[&str]) -> String {
    let scratch = Scratch::new(&format!("export-{:?}", std::thread::current().id()));
    let path = scratch.path().join("p.json");
    let tensors: Vec<_> = (0..2).map(|index| tensor(strings.get(index).copied())).collect();
    let payloads: Vec<_> =
        tensors.iter().enumerate().map(|(step, (datatype, bytes))| payload(step, *datatype, bytes)).collect();
    let (anchor, outputs) = (WallAnchor::take(), vec!["OUT".to_owned()]);
    let mut writer = Box::new(
        ExportWriter::create(ExportSpec {
            path: path.clone(),
            anchor,
            payloads: payloads.into(),
            outputs,
            service_kind,
            as_upstream: false,
            endpoint: String::new(),
            headline: Headline::ServiceTime,
            entries: Vec::new(),
            unnumbered: false,
            interrupts: &NEVER,
        })
        .unwrap(),
    );
    for &load in loads {
        writer.begin_experiment(load).unwrap();
        for (index, (datatype, bytes)) in tensors.iter().enumerate() {
            let outputs = TestOutputs(vec![OutputView { name: "OUT", datatype: *datatype, shape: &[1], bytes }]);
            let payload = PayloadId(index as u32);
            let mut record = RawRecord::default();
            (record.sent, record.sequence_id, record.payload) = (Stamp(5), sequence_id, payload);
            record.add(&Response { at: Stamp(9), empty: false, outputs: &outputs, error: None });
            writer.record(&record).unwrap();
        }
        let end =
            ExperimentEnd { boundaries: Some(vec![Stamp(0), Stamp(9)]), figures: serde_json::Value::Null, missing: 0 };
        writer.end_experiment(&end).unwrap();
    }
    writer.finish().unwrap();
    let text = shape(&std::fs::read_to_string(&path).unwrap()).replace("N,N", "N").replace("N,N", "N");
    // The last key is ours, of each experiment and of the file.
    let text = text.replace(",\"summary\":null}", "}").replace(",\"latency\":\"service_time\"}", "}");
    text.replace("\"version\":\"N\"", "\"version\":\"VERSION\"") + "\n"
}

fn tensor(string: Option<&str>) -> (DataType, Vec<u8>) {
    match string {
        Some(text) => (DataType::Bytes, [&u32::try_from(text.len()).unwrap().to_le_bytes(), text.as_bytes()].concat()),
        None => (DataType::Fp32, [0.5_f32, 1.5, 2.5, 3.5].map(f32::to_le_bytes).concat()),
    }
}

fn payload(step: usize, datatype: DataType, bytes: &[u8]) -> Payload {
    let region = Arc::new(Region::filled(Placement::Pageable, bytes).unwrap());
    let input = InputTensor { name: "IN".into(), datatype, shape: [1].into(), region, offset: 0, len: bytes.len() };
    Payload {
        model: 0,
        batch: 1,
        stream: 0,
        step: step as u32,
        inputs: vec![input],
        parameters: Vec::new(),
        expected: None,
    }
}

#[test]
fn exports() {
    let concurrency = LevelLoad::Concurrency(1);
    let rates = [LevelLoad::RequestRate(20.0), LevelLoad::RequestRate(40.0)];
    assert_eq!(export("TRITON", &[concurrency, concurrency], 0, &[]), fixture!("http.json"));
    assert_eq!(export("TRITON", &rates, 0, &[]), fixture!("rate.json"));
    assert_eq!(export("TRITON_C_API", &[concurrency], 0, &[]), fixture!("c_api_verbose.json"));
    assert_eq!(export("TRITON", &[concurrency], 2, &["hello", "w\"orld"]), fixture!("sequences_verbose.json"));
}

fn spec(name: &str, composing: &[&str], response_cache: bool) -> ModelSpec {
    ModelSpec {
        versions: vec!["1".to_owned()],
        max_batch_size: 8,
        scheduler: if composing.is_empty() { Scheduler::Default } else { Scheduler::Ensemble },
        response_cache,
        composing: composing.iter().map(|part| ModelId::latest(*part)).collect(),
        ..ModelSpec::plain(&ModelId::latest(name), Vec::new(), Vec::new())
    }
}

/// The server's own statistics before and after a run of upstream's, and what it printed of them: the same numbers.
#[test]
fn server_figures_are_upstreams() {
    let specs = [
        spec("outer", &["ens", "ident"], false),
        spec("ens", &["ident", "cached"], false),
        spec("ident", &[], false),
        spec("cached", &[], true),
    ];
    for (model, fixture) in [("ident", fixture!("statistics_ident.json")), ("outer", fixture!("statistics_outer.json"))]
    {
        let fixture: serde_json::Value = serde_json::from_str(fixture).unwrap();
        let snapshot = |key: &str| triton_json::statistics(&fixture[key]).unwrap();
        let delta = snapshot("after").since(&snapshot("before"));
        let summary = Models { roots: &[], specs: &specs, bls: &[] }.summary(&delta, &ModelId::latest(model)).unwrap();
        let run = Run::of(|run| run.server(summary));
        let report = run.report();
        let printed = fixture["printed"].as_str().unwrap();
        assert!(report.contains(printed), "{report}\n---\n{printed}");
    }
}
