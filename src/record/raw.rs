//! Everything about one request, for the export of raw records. Made only where such an export was asked for.

use crate::backend::{OutputView, Response};
use crate::clock::Stamp;
use crate::data::PayloadId;
use crate::model::DataType;

/// One request that is over.
#[derive(Clone, Debug, PartialEq)]
pub struct RawRecord {
    /// When it was sent.
    pub sent: Stamp,
    /// When it should have been sent, in open loops.
    pub intended: Option<Stamp>,
    /// Correlation ID; 0 where it belongs to no sequence.
    pub sequence_id: u64,
    /// What it carried.
    pub payload: PayloadId,
    /// Every response in order, an empty one that only ends the request included.
    pub responses: Vec<RawResponse>,
    /// Whether it failed.
    pub failed: bool,
}

/// One response.
#[derive(Clone, Debug, PartialEq)]
pub struct RawResponse {
    /// When it came.
    pub at: Stamp,
    /// Its outputs, copied; none where it only ends the request.
    pub outputs: Vec<OwnedOutput>,
}

impl RawResponse {
    /// Copies a response while its outputs are there.
    pub fn copy(response: &Response<'_>) -> Self {
        let mut outputs = Vec::new();
        response.outputs.visit(&mut |output| outputs.push(OwnedOutput::from(output)));
        Self { at: response.at, outputs }
    }
}

/// One output of a response, copied.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnedOutput {
    /// Name in the model.
    pub name: String,
    /// Element type.
    pub datatype: DataType,
    /// Packed elements.
    pub bytes: Vec<u8>,
}

impl From<OutputView<'_>> for OwnedOutput {
    fn from(view: OutputView<'_>) -> Self {
        Self { name: view.name.to_owned(), datatype: view.datatype, bytes: view.bytes.to_vec() }
    }
}
