//! What one request carries, ready to be handed to a server without a copy.

use std::ops::Range;
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
    /// Full shape as sent, the batch dimension included where the model batches; shared by tensors of the same shape.
    pub shape: Arc<[i64]>,
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

/// Outputs of the responses that must come for one step, in order: one response for models that are not decoupled.
pub type Responses = Arc<[Vec<Arc<OutputValues>>]>;

/// What must come back for one step.
#[derive(Clone, Debug)]
pub struct ExpectedStep {
    /// Stream of the step.
    pub stream: u32,
    /// Its number in the stream.
    pub step: u32,
    /// What must come; shapes are without the batch dimension. None where nothing is said of the step.
    pub responses: Responses,
}

/// What must come back for one request: as many steps of a cycle as it has batch elements, one after the other.
#[derive(Clone, Debug)]
pub struct Expected {
    /// All steps of the data, shared by all requests.
    pub steps: Arc<[ExpectedStep]>,
    /// Those that batches go round.
    pub cycle: Range<usize>,
    /// The step of the first batch element.
    pub first: usize,
    /// Whether outputs have a batch dimension.
    pub batched: bool,
}

impl Expected {
    /// The steps of a batch of so many.
    pub fn members(&self, batch: u64) -> impl Iterator<Item = &ExpectedStep> + Clone {
        let Range { start, end } = self.cycle;
        (0..batch as usize).map(move |member| &self.steps[start + (self.first - start + member) % (end - start)])
    }
}

/// Values of one output of a step, as they must come.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputValues {
    /// Name in the model.
    pub name: Arc<str>,
    /// Element type.
    pub datatype: DataType,
    /// Shape; `None` where none was given.
    pub shape: Option<Vec<i64>>,
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
