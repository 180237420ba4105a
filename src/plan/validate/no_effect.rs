//! Flags that have no effect in a run, and why. They are reported but never refused: tools that call us pass their own
//! defaults. What they would set is taken out of the plan where something else follows from it.

use std::time::Duration;

use crate::model::{DataType, ModelSpec};
use crate::terms::StageLoad;
use crate::validate::facts::{lacks_levels, on_network};
use crate::validate::service::{is_grpc, json_formats};
use crate::{Calls, DataSource, Decision, Draft, ModelNote, Pages, Plan, ServiceKind};

/// Flags that have an effect only under some condition.
struct Row {
    flags: Flags,
    no_effect: NoEffect,
}

struct Flags {
    names: &'static [&'static str],
    /// What they are for.
    rule: &'static str,
}

/// When flags have no effect.
enum NoEffect {
    /// The flags alone decide.
    Plan(fn(&Draft) -> bool),
    /// No model of the run has this property.
    Unless(fn(&ModelSpec) -> bool),
}

const fn flags(names: &'static [&'static str], rule: &'static str) -> Flags {
    Flags { names, rule }
}

impl Flags {
    const fn when(self, has_no_effect: fn(&Draft) -> bool) -> Row {
        Row { flags: self, no_effect: NoEffect::Plan(has_no_effect) }
    }

    const fn unless(self, used: fn(&ModelSpec) -> bool) -> Row {
        Row { flags: self, no_effect: NoEffect::Unless(used) }
    }
}

const TABLE: &[Row] = &[
    flags(&["-c"], "it ends the range of -d, which is not given").when(|draft| !draft.given.has("-d")),
    flags(&["--request-distribution"], "it says how the requests of a rate are spaced, as with --request-rate-range")
        .when(|draft| !draft.plan.load.mode.has_rate()),
    flags(&["--latency-to"], "only synchronous requests of a concurrency have a thread each that wakes up")
        .when(|draft| draft.plan.load.calls == Calls::Asynchronous),
    flags(&["--latency-from"], "only a rate and a schedule say when a request is due")
        .when(|draft| !draft.plan.load.mode.has_schedule()),
    flags(&["--decoupled-latency"], "no model of this run answers with several responses")
        .unless(|model| model.decoupled),
    flags(&["--ranks"], "it is about the processes of --enable-mpi, which is not given")
        .when(|draft| !draft.plan.load.ranks.mpi),
    flags(&["--request-period"], "it is for --periodic-concurrency-range")
        .when(|draft| !draft.plan.load.mode.is_periodic()),
    flags(
        &["--request-count", "--warmup-request-count", "--warmup-duration"],
        "every conversation of --session-concurrency is played once",
    )
    .when(|draft| draft.plan.load.mode.sessions().is_some()),
    flags(
        &["--request-count", "--warmup-request-count"],
        "--periodic-concurrency-range begins on an idle server, and says itself how many requests are sent",
    )
    .when(|draft| draft.plan.load.mode.is_periodic()),
    flags(&["--binary-search"], "--request-intervals is a single level")
        .when(|draft| draft.plan.load.mode.is_intervals()),
    flags(
        &["--num-of-sequences", "--sequence-length", "--sequence-length-variation"],
        "the steps of a fixed schedule are one sequence",
    )
    .when(|draft| draft.plan.load.mode.is_fixed_schedule()),
    flags(
        &["--num-of-sequences", "--serial-sequences"],
        "--concurrency-range says how many streams there are, and --paced when each of them sends",
    )
    .when(|draft| draft.plan.load.mode.pace().is_some()),
    flags(
        &["--num-of-sequences", "--serial-sequences"],
        "with a fixed concurrency, each outstanding request belongs to its own sequence",
    )
    .when(|draft| draft.plan.load.mode.is_closed()),
    flags(
        &[
            "--sequence-length",
            "--sequence-length-variation",
            "--sequence-id-range",
            "--sequence-id-type",
            "--num-of-sequences",
            "--serial-sequences",
        ],
        "no model of this run takes sequences",
    )
    .unless(|model| model.sequences),
    flags(&["--string-length", "--string-data"], "strings are generated only without input data of one's own").when(
        |draft| {
            matches!(draft.plan.data.source, DataSource::Directory(_) | DataSource::Files(_) | DataSource::Lines(..))
        },
    ),
    flags(&["--string-length"], "--string-data says what strings are").when(|draft| draft.given.has("--string-data")),
    flags(&["--string-length", "--string-data"], "no model of this run has an input of type BYTES")
        .unless(|model| model.inputs.iter().any(|input| input.datatype == DataType::Bytes)),
    // In process it is the size of a slot's buffer, whatever memory that is in.
    flags(&["--output-shared-memory-size"], "it is the size of outputs in --shared-memory")
        .when(|draft| on_network(draft) && !draft.plan.data.shared_memory),
    flags(&["--undecided", "--gate-time", "--junit"], "it is about what --require says, which is not given")
        .when(|draft| draft.plan.gate.requirements.is_empty()),
    flags(&["--baseline"], "no --require compares with it, as p99<+5% does, and no report shows it")
        .when(|draft| !draft.plan.gate.needs_baseline() && draft.plan.output.pages == Pages::default()),
    flags(&["--breakdown"], "it breaks down the levels of a Triton, and this run has none")
        .when(|draft| !draft.plan.target.service.is_triton() || lacks_levels(draft)),
    flags(
        &["--trace-rate", "--trace-count"],
        "nothing is traced without --breakdown, --trace-export or --trace-level TIMESTAMPS",
    )
    .when(|draft| draft.plan.target.service.is_embedded() && !draft.plan.tracing.wants_traces()),
    flags(
        &["--rounds", "--order", "--margin"],
        "it is about variants, of which there are none without --variant or --matrix",
    )
    .when(|draft| draft.plan.rounds.is_none()),
    flags(&["--precision", "--max-level-time"], "a round of variants has one window: --rounds says how many there are")
        .when(|draft| draft.plan.rounds.is_some()),
    flags(&["--gate-time"], "nothing is measured further with --undecided pass or fail")
        .when(|draft| matches!(draft.plan.gate.undecided, Some(Decision::Pass | Decision::Fail))),
    flags(&["--baseline"], "changes are compared with the first variant").when(|draft| draft.plan.rounds.is_some()),
    flags(&["--goodput"], "it is a figure of levels, and this run has none").when(lacks_levels),
    flags(&["--report-prefix", "--report-parts"], "it is about the files of --report-dir, which is not given")
        .when(|draft| draft.plan.output.folder.is_none()),
    flags(&["--verbose-csv"], "it adds columns to the file of -f, which is not given")
        .when(|draft| draft.plan.output.csv.is_none()),
    flags(
        &["--triton-server-directory", "--model-repository"],
        "only Triton in this process, --service-kind triton_c_api, has a use for that",
    )
    .when(|draft| !draft.plan.target.service.is_embedded()),
    flags(&["--model-signature-name"], "it is for TensorFlow Serving, --service-kind tfserving")
        .when(|draft| draft.plan.target.service != ServiceKind::TfServing),
    flags(&["--endpoint"], "it is for services of the OpenAI kind, --service-kind openai")
        .when(|draft| draft.plan.target.service != ServiceKind::OpenAi),
    flags(&["--grpc-method"], "it is for other gRPC services, --service-kind dynamic_grpc")
        .when(|draft| !is_dynamic_grpc(draft)),
    flags(&["-i"], "services of --service-kind dynamic_grpc are always reached over gRPC")
        .when(|draft| is_dynamic_grpc(draft) && draft.given.value("-i").is_some_and(is_http)),
    flags(&["--input-tensor-format", "--output-tensor-format"], "gRPC's tensors are always binary")
        .when(|draft| is_grpc(draft) && !json_formats(draft).is_empty()),
    flags(
        &["-u", "-i", "-H", "--grpc-compression-algorithm", "--input-tensor-format", "--output-tensor-format"],
        "only a server on the network, --service-kind triton, has a use for that",
    )
    .when(|draft| !on_network(draft) && draft.plan.matrix.is_none()),
];

/// Notes on flags without effect, each named once: those that follow from the flags, and those that depend on the
/// model.
pub fn notes(draft: &Draft) -> (Vec<String>, Vec<ModelNote>) {
    let (mut named_flags, mut notes, mut open) = (Vec::new(), Vec::new(), Vec::new());
    let left = |row: &Row, named_flags: &[&str]| -> Vec<&'static str> {
        draft.given.among(row.flags.names).into_iter().filter(|flag| !named_flags.contains(flag)).collect()
    };
    // Certain cases come first, so that the model does not matter for them.
    for row in TABLE {
        if let NoEffect::Plan(has_no_effect) = row.no_effect
            && has_no_effect(draft)
        {
            let flags = left(row, &named_flags);
            notes.extend(sentence(&flags, row.flags.rule));
            named_flags.extend(flags);
        }
    }
    for row in TABLE {
        if let NoEffect::Unless(used) = row.no_effect {
            open.extend(sentence(&left(row, &named_flags), row.flags.rule).map(|text| ModelNote { used, text }));
        }
    }
    (notes, open)
}

/// Takes out of a plan what flags without effect have set, so that neither the run nor its report goes by it.
pub fn drop_without_effect(plan: &mut Plan) {
    let (mode, measurement) = (&plan.load.mode, &mut plan.measurement);
    let session_stages = mode.stages().iter().any(|stage| matches!(stage.load, StageLoad::Sessions { .. }));
    let plays_sessions = mode.sessions().is_some() || session_stages;
    if plays_sessions || mode.is_periodic() {
        (measurement.request_count, measurement.warmup_requests) = (None, 0);
    }
    if plays_sessions {
        measurement.warmup = Duration::ZERO;
    }
    if mode.is_intervals() {
        measurement.binary_search = false;
    }
}

fn is_dynamic_grpc(draft: &Draft) -> bool {
    draft.plan.target.service == ServiceKind::DynamicGrpc
}

fn is_http(protocol: &str) -> bool {
    protocol.eq_ignore_ascii_case("http")
}

fn sentence(flags: &[&str], rule: &str) -> Option<String> {
    let verb = if flags.len() == 1 { "has" } else { "have" };
    (!flags.is_empty()).then(|| format!("{} {verb} no effect here: {rule}", flags.join(" and ")))
}
