//! Rules of traces.

use crate::validate::{Rule, rule};
use crate::{Draft, ServiceKind, TraceLevel};

fn is_embedded(draft: &Draft) -> bool {
    draft.plan.target.service.is_embedded() && draft.plan.matrix.is_none()
}

/// Whether the run makes a server on the network trace, into a file that may be readable here.
fn lets_server_trace(draft: &Draft) -> bool {
    let levels = draft.plan.target.trace.as_ref().and_then(|trace| trace.levels.as_deref());
    let timestamps = levels.is_some_and(|levels| levels.contains(&TraceLevel::Timestamps));
    timestamps && draft.plan.target.service == ServiceKind::Triton && draft.plan.matrix.is_none()
}

/// Rules of traces.
pub(super) const RULES: &[Rule] = &[
    rule(
        |draft| !is_embedded(draft) && draft.given.has("--trace-file"),
        "--trace-file: a server takes the name of its trace file only at its own start; start it with \
         --trace-config=triton,file=FILE and leave this flag out",
    ),
    rule(
        |draft| !is_embedded(draft) && !lets_server_trace(draft) && draft.plan.tracing.export.is_some(),
        "{--trace-export} needs traces of single requests: use --service-kind triton_c_api, or let a Triton on this \
         machine trace with --trace-level TIMESTAMPS",
    ),
    rule(
        |draft| {
            let levels = draft.plan.target.trace.as_ref().and_then(|trace| trace.levels.as_deref());
            is_embedded(draft) && levels.is_some_and(|levels| levels.contains(&TraceLevel::Tensors))
        },
        "--trace-level TENSORS is for a server on the network: in this process only TIMESTAMPS are traced",
    ),
];
