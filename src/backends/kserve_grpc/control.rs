//! The control plane's calls, with their messages.

use std::time::Duration;

use crate::backend::InferError;
use crate::engine::calls::Questions;
use crate::engine::calls::status::{self, BROKEN};
use crate::kserve_grpc::proto::Answer;

/// Time limit of a call during setup. No call waits for an inference, but the server may be busy with them.
pub const CALL_LIMIT: Duration = Duration::from_secs(10);
/// Time limit of a call between windows, and when a run ends: a dead server must not hold up the report.
pub const SAMPLE_LIMIT: Duration = Duration::from_millis(1500);

/// Makes the control plane's calls.
pub struct Control(pub Questions);

impl Control {
    /// Calls `method` and waits for its answer, for at most `limit`.
    ///
    /// # Errors
    /// The server's error, or why there is no answer.
    pub fn call<Q: prost::Message, A: Answer>(
        &self,
        method: &str,
        request: &Q,
        limit: Duration,
    ) -> Result<A, InferError> {
        let message = self.0.ask(method, &request.encode_to_vec(), A::MOST, limit)?;
        A::read(&message).map_err(|reason| status::error(BROKEN, format!("the server's answer {reason}")))
    }
}
