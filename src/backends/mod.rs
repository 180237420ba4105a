//! The ways to reach a server; each implements [`crate::backend::Backend`]. Only [`connect`] knows the kinds.

pub mod c_api;
pub mod grpc;
pub mod http;
pub mod net;
pub mod null;
pub mod processes;
pub mod program;

use std::sync::Arc;
use std::time::Duration;

use crate::backend::Backend;
use crate::error::{Error, Result};
use crate::plan::{Plan, Protocol, ServiceKind, Target, TraceSettings};

/// How long servers on the network are asked to forget regions by a program that leaves at once.
const FORGET_LIMIT: Duration = Duration::from_millis(500);

/// Reaches the server that the plan names, and makes its model ready.
///
/// # Errors
/// Where the server or the model cannot be had, with the server's own reason.
pub fn connect(plan: &Plan) -> Result<Arc<dyn Backend>> {
    match plan.target.service {
        ServiceKind::TritonCApi => Ok(Arc::new(c_api::TritonInProcess::start(&plan.target)?)),
        ServiceKind::Null => Ok(Arc::new(null::NullBackend)),
        ServiceKind::Triton => match plan.target.connection.protocol {
            Protocol::Http { .. } => connect_http(&plan.target),
            Protocol::Grpc { .. } => connect_grpc(&plan.target),
        },
    }
}

/// Stops every server that this process started, in itself or as a program. `waiting` is told what the wait is for; it has no
/// end of its own. Returns whether nothing of them is left in this process that could still run.
pub fn stop_servers(waiting: &dyn Fn(String)) -> bool {
    program::ask_to_stop();
    let stopped = c_api::stop_servers(waiting);
    program::await_stops(waiting);
    stopped
}

/// Ends what servers started below this process, with the shared memory of python models, for an exit that waits for
/// nobody. Regions that servers on the network know are unregistered, as far as that is possible at once.
pub fn abandon_servers() {
    net::regions::forget_all(FORGET_LIMIT);
    c_api::hold_still();
    processes::end_all();
    c_api::unlink_python_regions();
}

fn connect_http(target: &Target) -> Result<Arc<dyn Backend>> {
    let backend = http::HttpBackend::connect(&target.connection, metrics_url(target))?;
    if let Some(settings) = &target.trace {
        backend.set_trace(&target.model, settings).map_err(|error| explained(error, settings))?;
    }
    Ok(Arc::new(backend))
}

fn connect_grpc(target: &Target) -> Result<Arc<dyn Backend>> {
    let backend = grpc::GrpcBackend::connect(&target.connection, metrics_url(target))?;
    if let Some(settings) = &target.trace {
        backend.set_trace(&target.model, settings).map_err(|error| explained(error, settings))?;
    }
    Ok(Arc::new(backend))
}

/// Triton refuses trace settings in words that do not say why: there is no trace file, or the traces are used up.
fn explained(error: Error, settings: &TraceSettings) -> Error {
    if settings.levels.is_some() && error.to_string().contains("invalid trace setting") {
        return error.advice(
            "a server traces only if it was started with a trace file (--trace-config=triton,file=FILE), and no further than \
             its trace count: if that is used up, give a new one with --trace-count",
        );
    }
    error
}

fn metrics_url(target: &Target) -> Option<&str> {
    target.metrics.as_ref().and_then(|metrics| metrics.url.as_deref())
}
