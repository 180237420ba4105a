//! TensorFlow Serving.
//!
//! ```text
//! grpc          readiness, metadata; opens clients            request, answer   tensors as messages and back
//! service       a client's slots over gRPC                    proto             the other messages
//! signature     what is sent and what comes, as a model       datatype          TensorFlow's types and ours
//! ```

mod answer;
mod datatype;
#[cfg(fuzzing)]
pub mod fuzzing;
mod grpc;
mod proto;
mod request;
mod service;
mod signature;

use std::sync::Arc;

use crate::backend::Backend;
use crate::error::Result;
use crate::plan::Plan;

/// How reports name the service.
const SERVICE_KIND: &str = "TENSORFLOW_SERVING";

/// The way to the server that the plan names.
///
/// # Errors
/// Where the plan cannot be followed.
pub fn connect(plan: &Plan) -> Result<Arc<dyn Backend>> {
    Ok(Arc::new(grpc::TfServingGrpc::new(plan)?))
}
