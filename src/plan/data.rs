//! The inputs of requests.

use std::sync::Arc;
use std::time::Duration;

use crate::backend::{Parameter, ReplyRule};
use crate::shm::{Allowance, Placement, Placements};
use ::data::{CorpusSpec, DataSource, OptionalInputs, RandomRange};

/// The inputs of requests.
#[derive(Clone, Debug)]
pub struct DataPlan {
    /// Batch elements per request; of several sizes, the first.
    pub batch_size: u64,
    /// Every size that is measured, ascending.
    pub batch_sizes: Vec<u64>,
    /// Whether the user gave it.
    pub batch_given: bool,
    /// Where values come from.
    pub source: DataSource,
    /// Shapes for inputs with free dimensions.
    pub shapes: Vec<(String, Vec<i64>)>,
    /// Which optional inputs generated data has.
    pub optional_inputs: OptionalInputs,
    /// Length of random strings.
    pub string_length: usize,
    /// The string that synthetic BYTES tensors repeat.
    pub string_data: Option<String>,
    /// Bounds of random numbers.
    pub random_ranges: Vec<RandomRange>,
    /// Custom parameters of every request.
    pub parameters: Vec<Parameter>,
    /// Priority; 0 is the model's default.
    pub priority: u64,
    /// Server-side timeout in microseconds; 0 is the model's default.
    pub timeout_us: u64,
    /// Requests are cancelled this long after they were sent.
    pub cancel_after: Option<Duration>,
    /// Where inputs live.
    pub input_placement: Placement,
    /// Where outputs go.
    pub output_placement: Placement,
    /// Tensors are in regions registered with the server (`--shared-memory`), not merely in that kind of memory.
    pub shared_memory: bool,
    /// CUDA devices that shared regions are on; the placements name the first, and slots take turns.
    pub cuda_devices: Vec<u32>,
    /// Bytes per output and batch element for outputs of variable size.
    pub output_bytes: usize,
    /// Which responses count as successes.
    pub replies: ReplyRule,
    /// Limit on the bytes of input data; `None` derives it from the free memory.
    pub max_input_memory: Option<u64>,
    /// How far floats may be from the expected ones: relative, absolute.
    pub tolerance: Option<(f64, f64)>,
}

impl DataPlan {
    /// Where outputs go, slot by slot.
    pub fn output_placements(&self) -> Placements {
        let others = match self.output_placement {
            Placement::Cuda(_) if self.shared_memory => self.cuda_devices.get(1..).unwrap_or_default(),
            _ => &[],
        };
        Placements::new(self.output_placement, others.iter().copied().map(Placement::Cuda))
    }

    /// The parameters of the corpus; `seed` and `memory` are the run's.
    pub fn corpus_spec<'a>(&'a self, seed: u64, memory: &'a Arc<Allowance>) -> CorpusSpec<'a> {
        CorpusSpec {
            source: &self.source,
            shapes: &self.shapes,
            optional: &self.optional_inputs,
            string_length: self.string_length,
            string_data: self.string_data.as_deref(),
            random_ranges: &self.random_ranges,
            lengths: &[],
            blocks: None,
            requests: None,
            stages: 1,
            seed,
            memory,
        }
    }
}
