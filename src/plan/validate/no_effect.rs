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
    flags: &'static [&'static str],
    no_effect: NoEffect,
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

const TABLE: &[Row] = &[
    Row {
        flags: &["-c"],
        no_effect: NoEffect::Plan(|draft| !draft.given.has("-d")),
        rule: "it ends the range of -d, which is not given",
    },
    Row {
        flags: &["--request-distribution"],
        no_effect: NoEffect::Plan(|draft| !draft.plan.load.mode.has_rate()),
        rule: "it says how the requests of a rate are spaced, as with --request-rate-range",
    },
    Row {
        flags: &["--latency-to"],
        no_effect: NoEffect::Plan(|draft| draft.plan.load.calls == Calls::Asynchronous),
        rule: "only synchronous requests of a concurrency have a thread each that wakes up",
    },
    Row {
        flags: &["--latency-from"],
        no_effect: NoEffect::Plan(|draft| !draft.plan.load.mode.has_schedule()),
        rule: "only a rate and a schedule say when a request is due",
    },
    Row {
        flags: &["--decoupled-latency"],
        no_effect: NoEffect::Unless(|model| model.decoupled),
        rule: "no model of this run answers with several responses",
    },
    Row {
        flags: &["--ranks"],
        no_effect: NoEffect::Plan(|draft| !draft.plan.load.ranks.mpi),
        rule: "it is about the processes of --enable-mpi, which is not given",
    },
    Row {
        flags: &["--request-period"],
        no_effect: NoEffect::Plan(|draft| !draft.plan.load.mode.is_periodic()),
        rule: "it is for --periodic-concurrency-range",
    },
    Row {
        flags: &["--request-count", "--warmup-request-count", "--warmup-duration"],
        no_effect: NoEffect::Plan(|draft| draft.plan.load.mode.sessions().is_some()),
        rule: "every conversation of --session-concurrency is played once",
    },
    Row {
        flags: &["--request-count", "--warmup-request-count"],
        no_effect: NoEffect::Plan(|draft| draft.plan.load.mode.is_periodic()),
        rule: "--periodic-concurrency-range begins on an idle server, and says itself how many requests are sent",
    },
    Row {
        flags: &["--binary-search"],
        no_effect: NoEffect::Plan(|draft| draft.plan.load.mode.is_intervals()),
        rule: "--request-intervals is a single level",
    },
    Row {
        flags: &["--num-of-sequences", "--sequence-length", "--sequence-length-variation"],
        no_effect: NoEffect::Plan(|draft| draft.plan.load.mode.is_fixed_schedule()),
        rule: "the steps of a fixed schedule are one sequence",
    },
    Row {
        flags: &["--num-of-sequences", "--serial-sequences"],
        no_effect: NoEffect::Plan(|draft| draft.plan.load.mode.pace().is_some()),
        rule: "--concurrency-range says how many streams there are, and --paced when each of them sends",
    },
    Row {
        flags: &["--num-of-sequences", "--serial-sequences"],
        no_effect: NoEffect::Plan(|draft| draft.plan.load.mode.is_closed()),
        rule: "with a fixed concurrency, each outstanding request belongs to its own sequence",
    },
    Row {
        flags: &[
            "--sequence-length",
            "--sequence-length-variation",
            "--sequence-id-range",
            "--sequence-id-type",
            "--num-of-sequences",
            "--serial-sequences",
        ],
        no_effect: NoEffect::Unless(|model| model.sequences),
        rule: "no model of this run takes sequences",
    },
    Row {
        flags: &["--string-length", "--string-data"],
        no_effect: NoEffect::Plan(|draft| {
            matches!(draft.plan.data.source, DataSource::Directory(_) | DataSource::Files(_) | DataSource::Lines(..))
        }),
        rule: "strings are generated only without input data of one's own",
    },
    Row {
        flags: &["--string-length"],
        no_effect: NoEffect::Plan(|draft| draft.given.has("--string-data")),
        rule: "--string-data says what strings are",
    },
    Row {
        flags: &["--string-length", "--string-data"],
        no_effect: NoEffect::Unless(|model| model.inputs.iter().any(|input| input.datatype == DataType::Bytes)),
        rule: "no model of this run has an input of type BYTES",
    },
    Row {
        flags: &["--output-shared-memory-size"],
        // In process it is the size of a slot's buffer, whatever memory that is in.
        no_effect: NoEffect::Plan(|draft| on_network(draft) && !draft.plan.data.shared_memory),
        rule: "it is the size of outputs in --shared-memory",
    },
    Row {
        flags: &["--undecided", "--gate-time", "--junit"],
        no_effect: NoEffect::Plan(|draft| draft.plan.gate.requirements.is_empty()),
        rule: "it is about what --require says, which is not given",
    },
    Row {
        flags: &["--baseline"],
        no_effect: NoEffect::Plan(|draft| {
            !draft.plan.gate.needs_baseline() && draft.plan.output.pages == Pages::default()
        }),
        rule: "no --require compares with it, as p99<+5% does, and no report shows it",
    },
    Row {
        flags: &["--breakdown"],
        no_effect: NoEffect::Plan(|draft| !draft.plan.target.service.is_triton() || lacks_levels(draft)),
        rule: "it breaks down the levels of a Triton, and this run has none",
    },
    Row {
        flags: &["--trace-rate", "--trace-count"],
        no_effect: NoEffect::Plan(|draft| {
            draft.plan.target.service.is_embedded() && !draft.plan.tracing.wants_traces()
        }),
        rule: "nothing is traced without --breakdown, --trace-export or --trace-level TIMESTAMPS",
    },
    Row {
        flags: &["--rounds", "--order", "--margin"],
        no_effect: NoEffect::Plan(|draft| draft.plan.rounds.is_none()),
        rule: "it is about variants, of which there are none without --variant or --matrix",
    },
    Row {
        flags: &["--precision", "--max-level-time"],
        no_effect: NoEffect::Plan(|draft| draft.plan.rounds.is_some()),
        rule: "a round of variants has one window: --rounds says how many there are",
    },
    Row {
        flags: &["--gate-time"],
        no_effect: NoEffect::Plan(|draft| matches!(draft.plan.gate.undecided, Some(Decision::Pass | Decision::Fail))),
        rule: "nothing is measured further with --undecided pass or fail",
    },
    Row {
        flags: &["--baseline"],
        no_effect: NoEffect::Plan(|draft| draft.plan.rounds.is_some()),
        rule: "changes are compared with the first variant",
    },
    Row {
        flags: &["--goodput"],
        no_effect: NoEffect::Plan(lacks_levels),
        rule: "it is a figure of levels, and this run has none",
    },
    Row {
        flags: &["--report-prefix", "--report-parts"],
        no_effect: NoEffect::Plan(|draft| draft.plan.output.folder.is_none()),
        rule: "it is about the files of --report-dir, which is not given",
    },
    Row {
        flags: &["--verbose-csv"],
        no_effect: NoEffect::Plan(|draft| draft.plan.output.csv.is_none()),
        rule: "it adds columns to the file of -f, which is not given",
    },
    Row {
        flags: &["--triton-server-directory", "--model-repository"],
        no_effect: NoEffect::Plan(|draft| !draft.plan.target.service.is_embedded()),
        rule: "only Triton in this process, --service-kind triton_c_api, has a use for that",
    },
    Row {
        flags: &["--model-signature-name"],
        no_effect: NoEffect::Plan(|draft| draft.plan.target.service != ServiceKind::TfServing),
        rule: "it is for TensorFlow Serving, --service-kind tfserving",
    },
    Row {
        flags: &["--endpoint"],
        no_effect: NoEffect::Plan(|draft| draft.plan.target.service != ServiceKind::OpenAi),
        rule: "it is for services of the OpenAI kind, --service-kind openai",
    },
    Row {
        flags: &["--grpc-method"],
        no_effect: NoEffect::Plan(|draft| !is_dynamic_grpc(draft)),
        rule: "it is for other gRPC services, --service-kind dynamic_grpc",
    },
    Row {
        flags: &["-i"],
        no_effect: NoEffect::Plan(|draft| is_dynamic_grpc(draft) && draft.given.value("-i").is_some_and(is_http)),
        rule: "services of --service-kind dynamic_grpc are always reached over gRPC",
    },
    Row {
        flags: &["--input-tensor-format", "--output-tensor-format"],
        no_effect: NoEffect::Plan(|draft| is_grpc(draft) && !json_formats(draft).is_empty()),
        rule: "gRPC's tensors are always binary",
    },
    Row {
        flags: &["-u", "-i", "-H", "--grpc-compression-algorithm", "--input-tensor-format", "--output-tensor-format"],
        no_effect: NoEffect::Plan(|draft| !on_network(draft) && draft.plan.matrix.is_none()),
        rule: "only a server on the network, --service-kind triton, has a use for that",
    },
];

/// Notes on flags without effect, each named once: those that follow from the flags, and those that depend on the
/// model.
pub fn notes(draft: &Draft) -> (Vec<String>, Vec<ModelNote>) {
    let (mut named_flags, mut notes, mut open) = (Vec::new(), Vec::new(), Vec::new());
    let left = |row: &Row, named_flags: &[&str]| -> Vec<&'static str> {
        draft.given.among(row.flags).into_iter().filter(|flag| !named_flags.contains(flag)).collect()
    };
    // Certain cases come first, so that the model does not matter for them.
    for row in TABLE {
        if let NoEffect::Plan(has_no_effect) = row.no_effect
            && has_no_effect(draft)
        {
            let flags = left(row, &named_flags);
            notes.extend(sentence(&flags, row.rule));
            named_flags.extend(flags);
        }
    }
    for row in TABLE {
        if let NoEffect::Unless(used) = row.no_effect {
            open.extend(sentence(&left(row, &named_flags), row.rule).map(|text| ModelNote { used, text }));
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
