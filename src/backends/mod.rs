//! The ways to reach a server; each implements [`crate::backend::Backend`]. Only [`connect`] knows the kinds.

pub mod c_api;
pub mod dynamic_grpc;
mod extensions;
mod grpc_body;
mod json;
pub mod kserve_grpc;
pub mod kserve_http;
mod metrics;
pub mod null;
pub mod openai;
mod prepared;
pub mod regions;
pub mod tfserving;
pub mod tokens;
pub mod torchserve;
pub mod traces;

use std::sync::Arc;
use std::time::Duration;

use crate::backend::Backend;
use crate::backends::traces::{ChangedTraces, TraceControl};
use crate::error::Result;
use crate::plan::{Plan, Protocol, ServiceKind, Target};
use crate::{processes, program};

/// A server that was reached.
pub struct Connected {
    /// The way to it.
    pub backend: Arc<dyn Backend>,
    /// What was changed there for the run.
    pub traces: Option<ChangedTraces>,
}

impl From<Arc<dyn Backend>> for Connected {
    fn from(backend: Arc<dyn Backend>) -> Self {
        Self { backend, traces: None }
    }
}

/// How the server that a plan names is reached: [`connect`], or what another crate has for a service of its own.
pub type Connect = fn(&Plan) -> Result<Connected>;

/// How long servers on the network are asked to forget regions by a program that leaves at once.
const FORGET_LIMIT: Duration = Duration::from_millis(500);

/// Reaches the server that the plan names, and makes its model ready.
///
/// # Errors
/// Where the server or the model cannot be had, with the server's own reason.
pub fn connect(plan: &Plan) -> Result<Connected> {
    let connected = reach(plan)?;
    Ok(match &plan.target.tokens_from {
        None => connected,
        Some(output) => {
            Connected { backend: Arc::new(tokens::CountedTokens::new(connected.backend, output)), ..connected }
        }
    })
}

fn reach(plan: &Plan) -> Result<Connected> {
    let (target, batches) = (&plan.target, plan.data.batch_given);
    let here = |backend: Arc<dyn Backend>| Ok(backend.into());
    match target.service {
        ServiceKind::TritonCApi => here(Arc::new(c_api::TritonInProcess::start(target)?)),
        ServiceKind::DynamicGrpc => here(Arc::new(dynamic_grpc::DynamicGrpc::connect(target)?)),
        ServiceKind::TfServing => here(tfserving::connect(plan)?),
        ServiceKind::TorchServe => here(Arc::new(torchserve::TorchServe::connect(plan)?)),
        ServiceKind::Null => here(Arc::new(null::NullBackend)),
        ServiceKind::OpenAi => here(Arc::new(openai::OpenAiBackend::connect(target)?)),
        ServiceKind::Triton => match target.connection.protocol {
            Protocol::Http { .. } => traced(
                target,
                Arc::new(
                    kserve_http::HttpBackend::connect(&target.connection, metrics_url(target))?.with_batches(batches),
                ),
            ),
            Protocol::Grpc { .. } => traced(
                target,
                Arc::new(
                    kserve_grpc::GrpcBackend::connect(&target.connection, metrics_url(target))?.with_batches(batches),
                ),
            ),
        },
    }
}

fn traced<B: Backend + TraceControl + 'static>(target: &Target, backend: Arc<B>) -> Result<Connected> {
    let change = |settings| ChangedTraces::make(backend.clone(), &target.model.name, settings);
    let traces = target.trace.as_ref().map(change).transpose()?;
    Ok(Connected { backend, traces })
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
    regions::forget_all(FORGET_LIMIT);
    c_api::hold_still();
    processes::end_all();
    c_api::unlink_python_regions();
}

fn metrics_url(target: &Target) -> Option<&str> {
    target.metrics.as_ref().and_then(|metrics| metrics.url.as_deref())
}
