//! Rules of the data and of the server.

use crate::backend::{Parameter, ParameterValue};
use crate::exit::Codes;
use crate::flags::{FLAGS, FlagTraits};
use crate::shm::Placement;
use crate::validate::facts::{named, on_network};
use crate::validate::{Rule, made, rule};
use crate::{DataSource, Draft, Protocol, ServiceKind};

/// An unsigned request parameter that does not fit a signed one.
fn beyond_signed(draft: &Draft) -> Option<&Parameter> {
    let mixed = draft.plan.target.mix.iter().flat_map(|entry| &entry.parameters);
    let too_large =
        |parameter: &&Parameter| matches!(parameter.value, ParameterValue::Uint(n) if i64::try_from(n).is_err());
    draft.plan.data.parameters.iter().chain(mixed).find(too_large)
}

/// Rules of the data.
pub(super) const DATA_RULES: &[Rule] = &[
    rule(
        |draft| draft.given.has("-z") && draft.plan.data.source != DataSource::Zero,
        "-z asks for zeros and cannot go with --input-data: choose one",
    ),
    rule(
        |draft| draft.plan.load.mode.is_fixed_schedule() && !matches!(draft.plan.data.source, DataSource::Files(_)),
        "--fixed-schedule needs the timestamps of JSON input data: add --input-data FILE.json",
    ),
    rule(
        |draft| draft.plan.load.mode.is_fixed_schedule() && draft.plan.data.batch_size > 1,
        "--fixed-schedule sends each step by itself, at its time: leave out {-b}",
    ),
    rule(
        |draft| !draft.plan.data.random_ranges.is_empty() && draft.plan.data.source != DataSource::Random,
        "{--random-range} bounds random input data, but --input-data asks for others",
    ),
    made(|draft| {
        let Parameter { name, value: ParameterValue::Uint(number) } = beyond_signed(draft)? else { return None };
        (!on_network(draft)).then(|| {
            format!(
                "the request parameter {name} is {number}, but Triton's own are signed and end at {}: send it as a \
                 string",
                i64::MAX
            )
        })
    }),
    rule(
        |draft| {
            draft.plan.data.tolerance.is_some()
                && matches!(draft.plan.data.source, DataSource::Zero | DataSource::Random)
        },
        "{--validate-tolerance} needs expected outputs: add --input-data with a file or directory",
    ),
    rule(
        |draft| draft.plan.data.shared_memory && !draft.given.among(&["--input-memory", "--output-memory"]).is_empty(),
        "--shared-memory says where tensors live: leave out --input-memory and --output-memory",
    ),
    rule(
        |draft| on_network(draft) && !draft.given.among(&["--input-memory", "--output-memory"]).is_empty(),
        "{--input-memory|--output-memory} is for Triton in this process; over the network use --shared-memory",
    ),
    rule(
        |draft| {
            draft.given.has("--cuda-device")
                && !(draft.plan.data.shared_memory && matches!(draft.plan.data.input_placement, Placement::Cuda(_)))
        },
        "{--cuda-device} needs --shared-memory cuda",
    ),
    made(|draft| {
        let shares: f64 = draft.plan.target.mix.iter().map(|entry| entry.share).sum();
        (!draft.plan.target.mix.is_empty() && (shares - 1.0).abs() > 1e-6)
            .then(|| format!("the shares of --model-mix must sum to 1, but sum to {}", (shares * 1e6).round() / 1e6))
    }),
    rule(
        |draft| !draft.plan.target.mix.is_empty() && (draft.given.has("-m") || draft.given.has("-x")),
        "--model-mix names the models: leave out -m and -x",
    ),
];

/// Triton would run in this process, and has no models.
fn is_without_repository(draft: &Draft) -> bool {
    draft.plan.target.service.is_embedded() && draft.plan.target.server.repositories.is_empty()
}

/// Rules of the server.
pub(super) const SERVER_RULES: &[Rule] = &[
    rule(
        |draft| {
            let implied = draft.plan.target.service.is_embedded() && !draft.given.has("--service-kind");
            implied && draft.plan.matrix.is_none() && draft.given.has("-u")
        },
        "{-u} is a server on the network, --model-repository measures in this process: leave one out",
    ),
    // Variants may be in process and over the network in one run; perf_analyzer's callers give both.
    rule(
        |draft| {
            let elsewhere = !draft.plan.target.service.is_embedded() && draft.given.has("--model-repository");
            elsewhere && draft.codes == Codes::Own && draft.plan.matrix.is_none() && draft.plan.rounds.is_none()
        },
        "{--service-kind} is not in this process, where --model-repository measures: leave one out",
    ),
    rule(
        |draft| draft.plan.target.service == ServiceKind::TfServing && draft.given.has("--streaming"),
        "perf_analyzer does not support streaming for TensorFlow Serving. Leave out --streaming",
    ),
    made(|draft| {
        let also = match draft.codes {
            Codes::Own => ", or use it with --service-kind openai",
            Codes::PerfAnalyzers => "",
        };
        (draft.given.has("--collect-metrics") && !has_metrics(draft)).then(|| {
            format!(
                "Server-side metric collection is only supported with Triton client backend. Leave out \
                 --collect-metrics{also}"
            )
        })
    }),
    made(|draft| {
        (draft.plan.target.version_label.is_some() && !has_labels(draft.plan.target.service)).then(|| {
            let label = draft.given.value("-x").unwrap_or_default();
            format!(
                "-x '{label}': it must be a whole number from 1 to {}; other versions are for --service-kind tfserving or \
                 torchserve",
                i64::MAX
            )
        })
    }),
    made(|draft| {
        let flag = misplaced(draft).filter(|_| draft.plan.matrix.is_none())?;
        let kinds = flag.services.iter().filter(|&&kind| kind != ServiceKind::Null).map(|kind| kind.name());
        let (flag, kinds) = (draft.given.show(flag.name), kinds.collect::<Vec<_>>().join(" or "));
        Some(format!("{flag} is for --service-kind {kinds}: leave it out, or choose that kind"))
    }),
    rule(
        |draft| draft.given.has("--management-key") && !draft.given.has("--management-url"),
        "--management-key is for the server's management port: name it with --management-url",
    ),
    rule(
        |draft| draft.plan.target.service == ServiceKind::TorchServe && draft.plan.data.batch_size != 1,
        "{-b}: a request of TorchServe carries one file, and the server makes batches of requests itself (its \
         batch_size): leave it out, and keep more requests outstanding (--concurrency-range)",
    ),
    rule(
        |draft| draft.plan.target.service == ServiceKind::TorchServe && !is_http(draft),
        "-i grpc: TorchServe is measured over HTTP; leave it out",
    ),
    rule(
        |draft| {
            draft.plan.target.service == ServiceKind::TorchServe
                && !matches!(draft.plan.data.source, DataSource::Files(_))
        },
        "--input-data should be provided with a json file with input data for torchserve. Its TORCHSERVE_INPUT \
         names files",
    ),
    rule(
        |draft| is_without_repository(draft) && !draft.given.has("--service-kind"),
        "{--matrix} starts from Triton in this process: name the directory that holds the model with --model-repository, \
         or a server that runs with -u",
    ),
    rule(
        |draft| is_without_repository(draft) && draft.given.has("--service-kind"),
        "--service-kind triton_c_api needs --model-repository: the directory that holds the model",
    ),
    made(|draft| {
        let flags = named(draft.given.which(|flag| flag.embedded))?;
        (!draft.plan.target.service.is_embedded())
            .then(|| format!("{flags} sets up the embedded server: use it with --service-kind triton_c_api"))
    }),
    made(|draft| {
        let flags = named(draft.given.which(|flag| flag.network))?;
        (!on_network(draft) && draft.plan.matrix.is_none())
            .then(|| format!("{flags} is for a server on the network: use it with --service-kind triton"))
    }),
    rule(
        |draft| draft.plan.target.service == ServiceKind::Triton && is_http(draft) && draft.given.has("--streaming"),
        "--streaming needs gRPC: add -i grpc",
    ),
    rule(
        |draft| on_network(draft) && is_http(draft) && asks_compression(draft, "--grpc-compression-algorithm"),
        "{--grpc-compression-algorithm} needs gRPC: add -i grpc, or use --http-compression",
    ),
    rule(
        |draft| on_network(draft) && !is_http(draft) && asks_compression(draft, "--http-compression"),
        "{--http-compression} needs HTTP: use --grpc-compression-algorithm",
    ),
    made(|draft| {
        let flags = named(json_formats(draft))?;
        (draft.codes == Codes::Own && is_grpc(draft)).then(|| format!("{flags} json needs HTTP: use -i http"))
    }),
    rule(
        |draft| {
            draft.plan.target.metrics.is_none()
                && draft.plan.target.service != ServiceKind::TorchServe
                && !draft.given.among(&["--metrics-url", "--metrics-interval"]).is_empty()
        },
        "{--metrics-url|--metrics-interval} needs --collect-metrics",
    ),
    rule(
        |draft| {
            draft.plan.target.metrics.is_some()
                && draft.plan.target.service.is_embedded()
                && !draft.plan.target.server.metrics
        },
        "--collect-metrics needs the metrics that --server-metrics off switches off: leave one out",
    ),
];

/// The first flag that does not apply to the draft's kind of service. A flag whose value asks for nothing applies to all.
fn misplaced(draft: &Draft) -> Option<&'static FlagTraits> {
    let service = draft.plan.target.service;
    let asks = |flag: &FlagTraits| {
        let value = draft.given.value(flag.name).unwrap_or_default();
        let is_ignored = draft.codes == Codes::PerfAnalyzers && flag.ignored_elsewhere;
        let is_nothing = ["none", "binary"].iter().any(|nothing| value.eq_ignore_ascii_case(nothing));
        draft.given.has(flag.name) && !is_ignored && !is_nothing
    };
    FLAGS.iter().find(|flag| !flag.services.is_empty() && !flag.services.contains(&service) && asks(flag))
}

/// Whether the server's metrics can be collected. perf_analyzer does not know those of servers of language models.
fn has_metrics(draft: &Draft) -> bool {
    let service = draft.plan.target.service;
    service.is_triton() || (service == ServiceKind::OpenAi && draft.codes == Codes::Own)
}

/// Whether versions may have names that are not numbers.
fn has_labels(service: ServiceKind) -> bool {
    matches!(service, ServiceKind::TfServing | ServiceKind::TorchServe)
}

fn asks_compression(draft: &Draft, flag: &str) -> bool {
    draft.given.value(flag).is_some_and(|word| !word.eq_ignore_ascii_case("none"))
}

/// Flags that ask for tensors as JSON.
pub(super) fn json_formats(draft: &Draft) -> Vec<&'static str> {
    let mut flags = draft.given.among(&["--input-tensor-format", "--output-tensor-format"]);
    flags.retain(|flag| draft.given.value(flag).is_some_and(|word| word.eq_ignore_ascii_case("json")));
    flags
}

/// Whether requests go over gRPC.
pub(super) fn is_grpc(draft: &Draft) -> bool {
    on_network(draft) && !is_http(draft)
}

fn is_http(draft: &Draft) -> bool {
    matches!(draft.plan.target.connection.protocol, Protocol::Http { .. })
}
