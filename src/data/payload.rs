//! What one request carries, ready to be handed to a server without a copy.

use std::sync::Arc;

use crate::data::Parameter;
use crate::model::DataType;
use crate::shm::Region;

/// Index of a [`Payload`] in the table that a client was opened with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PayloadId(pub u32);

/// The inputs of one request: one step of a stream, or as many consecutive steps as the batch size.
#[derive(Clone, Debug)]
pub struct Payload {
    /// Which of the client's models it is for.
    pub model: usize,
    /// Batch elements that it holds.
    pub batch: u64,
    /// Stream that it is taken from.
    pub stream: u32,
    /// First step that it is taken from.
    pub step: u32,
    /// Inputs in the model's order; optional ones may be absent.
    pub inputs: Vec<InputTensor>,
    /// Request parameters of its own: those of an entry of a mix, or of a row of a trace. One of the same name in
    /// [`RequestOptions`](crate::backend::RequestOptions) gives way.
    pub parameters: Vec<Parameter>,
    /// What the outputs must be, where validation data were given.
    pub expected: Option<Arc<Expected>>,
}

/// One input tensor, contiguous in a region.
#[derive(Clone, Debug)]
pub struct InputTensor {
    /// Name in the model.
    pub name: Arc<str>,
    /// Element type.
    pub datatype: DataType,
    /// Full shape as sent, the batch dimension included where the model batches.
    pub shape: Vec<i64>,
    /// Memory that holds the elements: little-endian, row-major, packed.
    pub region: Arc<Region>,
    /// Where in the region they start, in bytes.
    pub offset: usize,
    /// How many bytes they take.
    pub len: usize,
}

impl InputTensor {
    /// Address of the first element; on a device where the region is.
    pub fn address(&self) -> usize {
        self.region.address() + self.offset
    }
}

/// Expected outputs of one request: a list of responses (one for models that are not decoupled).
#[derive(Clone, Debug, PartialEq)]
pub struct Expected {
    /// In the order in which the responses must come.
    pub responses: Vec<Vec<OutputValues>>,
}

/// Expected value of one output.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputValues {
    /// Name in the model.
    pub name: Arc<str>,
    /// Element type.
    pub datatype: DataType,
    /// Full shape, the batch dimension included where the model batches; `None` where none was given.
    pub shape: Option<Vec<i64>>,
    /// Little-endian, row-major, packed elements of the whole batch.
    pub bytes: Vec<u8>,
}
