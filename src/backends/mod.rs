//! The ways to reach a server; each implements [`crate::backend::Backend`]. Only [`connect`] knows the kinds.

pub mod c_api;
pub mod grpc;
pub mod http;
pub mod net;
pub mod null;
pub mod program;
pub mod traces;

use std::sync::Arc;

use crate::backend::Backend;
use crate::backends::traces::{ChangedTraces, TraceControl};
use crate::error::Result;
use crate::plan::{Plan, Protocol, ServiceKind, Target};

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

/// Reaches the server that the plan names, and makes its model ready.
///
/// # Errors
/// Where the server or the model cannot be had, with the server's own reason.
pub fn connect(plan: &Plan) -> Result<Connected> {
    let target = &plan.target;
    let here = |backend: Arc<dyn Backend>| Ok(backend.into());
    match target.service {
        ServiceKind::TritonCApi => here(Arc::new(c_api::TritonInProcess::start(target)?)),
        ServiceKind::Null => here(Arc::new(null::NullBackend)),
        ServiceKind::Triton => match target.connection.protocol {
            Protocol::Http { .. } => {
                traced(target, Arc::new(http::HttpBackend::connect(&target.connection, metrics_url(target))?))
            }
            Protocol::Grpc { .. } => {
                traced(target, Arc::new(grpc::GrpcBackend::connect(&target.connection, metrics_url(target))?))
            }
        },
    }
}

fn traced<B: Backend + TraceControl + 'static>(target: &Target, backend: Arc<B>) -> Result<Connected> {
    let change = |settings| ChangedTraces::make(backend.clone(), &target.model.name, settings);
    let traces = target.trace.as_ref().map(change).transpose()?;
    Ok(Connected { backend, traces })
}

fn metrics_url(target: &Target) -> Option<&str> {
    target.metrics.as_ref().and_then(|metrics| metrics.url.as_deref())
}
