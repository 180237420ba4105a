//! What one request carries, ready to be passed to a server without a copy.

use std::ops::Range;
use std::sync::Arc;

use crate::Parameter;
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
    /// Number of batch elements.
    pub batch: u64,
    /// Stream that it is taken from.
    pub stream: u32,
    /// First step that it is taken from.
    pub step: u32,
    /// Inputs in the model's order; optional ones may be absent.
    pub inputs: Vec<InputTensor>,
    /// Its own request parameters: those of an entry of a mix, or of a row of a trace. They override parameters of the
    /// same name in `backend::RequestOptions`.
    pub parameters: Vec<Parameter>,
    /// Expected outputs, if validation data were given.
    pub expected: Option<Arc<Expected>>,
}

/// One input tensor, contiguous in a region.
#[derive(Clone, Debug)]
pub struct InputTensor {
    /// Name in the model.
    pub name: Arc<str>,
    /// Element type.
    pub datatype: DataType,
    /// Full shape as sent, including the batch dimension if the model batches; shared by tensors of the same shape.
    pub shape: Arc<[i64]>,
    /// Memory that holds the elements: little-endian, row-major, packed.
    pub region: Arc<Region>,
    /// Their offset in the region, in bytes.
    pub offset: usize,
    /// Their length in bytes.
    pub len: usize,
}

impl InputTensor {
    /// Address of the first element; on a device if the region is.
    #[inline]
    pub fn address(&self) -> usize {
        self.region.address() + self.offset
    }
}

/// Expected outputs of the responses for one step, in order: one response for models that are not decoupled.
pub type Responses = Arc<[Vec<Arc<OutputValues>>]>;

/// The expectation for one step.
#[derive(Clone, Debug)]
pub struct ExpectedStep {
    /// Stream of the step.
    pub stream: u32,
    /// Its number in the stream.
    pub step: u32,
    /// The expected responses; shapes are without the batch dimension. Empty if nothing is expected of the step.
    pub responses: Responses,
}

/// The expectation for one request: as many consecutive steps of a cycle as it has batch elements.
#[derive(Clone, Debug)]
pub struct Expected {
    /// All steps of the data, shared by all requests.
    pub steps: Arc<[ExpectedStep]>,
    /// The steps that batches cycle through.
    pub cycle: Range<usize>,
    /// The step of the first batch element.
    pub first: usize,
    /// Whether outputs have a batch dimension.
    pub batched: bool,
}

impl Expected {
    /// The steps of a batch of that size.
    pub fn members(&self, batch: u64) -> impl Iterator<Item = &ExpectedStep> + Clone {
        let Range { start, end } = self.cycle;
        (0..batch as usize).map(move |member| &self.steps[start + (self.first - start + member) % (end - start)])
    }
}

/// Expected values of one output of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputValues {
    /// Name in the model.
    pub name: Arc<str>,
    /// Element type.
    pub datatype: DataType,
    /// Shape; `None` if none was given.
    pub shape: Option<Vec<i64>>,
    /// Whether it has no batch dimension, and is in a response once for the whole batch.
    pub shape_tensor: bool,
    /// Little-endian, row-major, packed elements.
    pub bytes: Vec<u8>,
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
