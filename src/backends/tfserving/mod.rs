//! TensorFlow Serving.
//!
//! ```text
//! grpc          readiness, metadata; opens clients            request, answer   tensors as messages and back
//! service       a client's slots over gRPC                    proto             the other messages
//! rest          the same over HTTP and in JSON
//! signature     what is sent and what comes, as a model       datatype          TensorFlow's types and ours
//! ```

mod answer;
mod datatype;
#[cfg(fuzzing)]
pub mod fuzzing;
mod grpc;
mod proto;
mod request;
mod rest;
#[cfg(test)]
mod sample;
mod service;
mod signature;

use std::sync::Arc;

use crate::backend::Backend;
use crate::error::Result;
use crate::plan::{Plan, Protocol};

/// How reports name the service.
const SERVICE_KIND: &str = "TENSORFLOW_SERVING";

/// A client for the server that the plan names.
///
/// # Errors
/// If the plan cannot be followed.
pub fn connect(plan: &Plan) -> Result<Arc<dyn Backend>> {
    Ok(match plan.target.connection.protocol {
        Protocol::Grpc { .. } => Arc::new(grpc::TfServingGrpc::new(plan)?),
        Protocol::Http { .. } => Arc::new(rest::TfServingRest::new(plan)?),
    })
}
