//! Rules of gRPC services of any kind, in perf_analyzer's words where it has the rule, too.

use crate::validate::{Rule, made, rule};
use crate::{DataSource, Draft, ServiceKind};

fn is_it(draft: &Draft) -> bool {
    draft.plan.target.service == ServiceKind::DynamicGrpc
}

/// Flags about things that these services do not know.
const FOREIGN: &[&str] = &[
    "-x",
    "--model-mix",
    "--bls-composing-models",
    "--shared-memory",
    "--request-parameter",
    "--priority",
    "--request-timeout-us",
];

/// Those that were given and ask for something.
fn unsupported(draft: &Draft) -> Vec<&'static str> {
    let mut flags = draft.given.among(FOREIGN);
    flags.retain(|flag| draft.given.value(flag).is_none_or(|word| !["none", "0", "", "-1"].contains(&word)));
    flags
}

/// Rules of gRPC services of any kind.
pub(super) const RULES: &[Rule] = &[
    rule(
        |draft| is_it(draft) && draft.plan.target.dynamic_grpc.method.is_none(),
        "Must supply --grpc-method for dynamic gRPC service kind. For example, \"package.Service/Method\".",
    ),
    rule(
        |draft| is_it(draft) && !matches!(draft.plan.data.source, DataSource::Files(_) | DataSource::Directory(_)),
        "Must supply --input-data for dynamic gRPC service kind. Its steps say what is sent",
    ),
    rule(
        |draft| is_it(draft) && draft.plan.data.batch_size > 1,
        "Dynamic gRPC does not support multi-batch at the moment. Leave out {-b}",
    ),
    rule(
        |draft| is_it(draft) && draft.plan.target.metrics.is_some(),
        "Server-side metric collection is only supported with Triton client backend. Leave out --collect-metrics",
    ),
    rule(
        |draft| is_it(draft) && draft.given.has("--streaming"),
        "--streaming: with --service-kind dynamic_grpc every call may be a stream: leave it out",
    ),
    made(|draft| {
        let flags: Vec<String> = unsupported(draft).iter().map(|flag| draft.given.show(flag)).collect();
        (is_it(draft) && !flags.is_empty())
            .then(|| format!("{}: --service-kind dynamic_grpc has no use for that: leave it out", flags.join(" and ")))
    }),
    rule(
        |draft| draft.given.has("--proto-include") && !draft.given.has("--proto"),
        "{--proto-include} needs --proto FILE",
    ),
];
