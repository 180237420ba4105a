//! What a backend reports, and to whom.

use std::fmt;

use crate::backend::{Request, SlotId};
use crate::clock::Stamp;
use crate::data::OutputValues;
use crate::model::DataType;

/// Called on whichever thread completes a request; see the module's contract.
pub trait CompletionSink: Send + Sync {
    /// A response came. Called for every response, in order, if the client was opened with `watch_responses`.
    fn response(&self, slot: SlotId, response: &Response<'_>);

    /// The slot is free again. The answer says what it does next.
    fn complete(&self, slot: SlotId, completion: &Completion<'_>) -> Next;
}

/// What a slot does after a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Send this request at once.
    Issue(Request),
    /// Nothing, until its worker submits again.
    Idle,
}

/// A request that is over.
#[derive(Clone, Copy, Debug)]
pub struct Completion<'a> {
    /// Just before it was handed to the server or to the transport.
    pub sent: Stamp,
    /// When handing it over had ended, where the backend took that stamp.
    pub send_end: Option<Stamp>,
    /// When its first response that carries data, or an error, came (began to come, over a network).
    pub first_response: Stamp,
    /// When its last response that carries data, or an error, had come.
    pub last_response: Stamp,
    /// Responses that carried data.
    pub responses: u32,
    /// Why it failed, if it did. With several responses: the first error.
    pub error: Option<&'a InferError>,
}

/// One response of a request that is still under way.
pub struct Response<'a> {
    /// When it came.
    pub at: Stamp,
    /// Whether it only ends the request and carries nothing.
    pub empty: bool,
    /// Its outputs; none where it failed or is empty.
    pub outputs: &'a dyn Outputs,
    /// Why it failed, if it did.
    pub error: Option<&'a InferError>,
}

/// The outputs of a response.
pub trait Outputs {
    /// Visits every output in the response's order.
    fn visit(&self, visitor: &mut dyn FnMut(OutputView<'_>));
}

/// One output of a response. The bytes are valid during the visit only.
#[derive(Clone, Copy, Debug)]
pub struct OutputView<'a> {
    /// Name in the model.
    pub name: &'a str,
    /// Element type.
    pub datatype: DataType,
    /// Full shape, the batch dimension included.
    pub shape: &'a [i64],
    /// Packed elements, in host memory (copied there if they were on a device).
    pub bytes: &'a [u8],
}

impl OutputView<'_> {
    /// A copy that outlives the visit, to be validated later.
    pub fn to_values(&self) -> OutputValues {
        OutputValues {
            name: self.name.into(),
            datatype: self.datatype,
            shape: Some(self.shape.to_vec()),
            bytes: self.bytes.to_vec(),
        }
    }
}

/// Why an inference failed: the server's code word and text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct InferError {
    /// A short stable word for grouping, such as `Internal` or `Connection reset`.
    pub code: String,
    /// The server's own text.
    pub message: String,
}

impl InferError {
    /// The code word of requests that were given up, the same over every transport.
    pub const CANCELLED: &str = "Cancelled";

    /// The code word of responses that are not of the model that was asked ([`ReplyForm`](crate::backend::ReplyForm)).
    pub const MISFIT: &str = "Unexpected response";

    /// Whether the request was given up.
    pub fn is_cancelled(&self) -> bool {
        self.code == Self::CANCELLED
    }
}

impl fmt::Display for InferError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for InferError {}
