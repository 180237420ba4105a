//! Input data: from flags and files to [`Payload`]s, request bodies that are packed once, before the run.
//!
//! A [`Corpus`] holds streams of steps, one batch element each, read from JSON, NumPy and raw files or generated.
//! [`Corpus::pack`] turns it into the [`PayloadTable`]: everything that a run will send, in the memory that it is sent
//! from. [`validate`] compares responses with the expected outputs in the data.

#![deny(unsafe_code, clippy::print_stderr, clippy::print_stdout)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![warn(missing_docs)]

mod agents;
mod attached;
mod batches;
mod columns;
mod conversations;
mod corpus;
mod dataset;
mod directory;
mod documents;
#[cfg(fuzzing)]
pub mod fuzzing;
mod json;
mod layout;
mod lengths;
mod lines;
mod literal;
mod media;
mod members;
mod npy;
mod npz;
mod pack;
mod parameter;
mod payload;
mod prompts;
mod range;
mod replay;
mod session_trace;
mod shapes;
mod source;
mod spec;
mod steps;
mod strings;
mod synthetic;
mod text;
mod tokenizer;
mod validate;

use ::{model, shm};
use ::stats::seed;
use base::error;

pub use agents::{AgentSpec, Compaction};
pub use corpus::Corpus;
pub use json::timestamps;
pub use lengths::{
    Blocks, ConversationSpec, ConversationTurns, Dataset, Delay, LengthShape, MAX_DELAY_SECONDS, MAX_TOKENS,
    PromptLength, SharedPrefix, TokenCounts, TokenLength,
};
pub use lines::is_lines;
pub use media::{Coding, Frame, MediaKind, MediaSpec, VideoCoding};
pub use members::Members;
pub use pack::{Packing, PayloadTable};
pub use parameter::{Parameter, ParameterValue, hide_values, is_hidden};
pub use payload::{Expected, ExpectedStep, InputTensor, OutputValues, OutputView, Payload, PayloadId, Responses};
pub use range::{Bound, RandomRange};
pub use replay::{ModelName, SessionTrace, TraceFormat, TraceOptions, TraceSource};
pub use spec::{CorpusSpec, DataSource, OptionalInputs, PromptCount, PromptForm, PromptSpec};
pub use strings::{count as count_strings, elements as string_elements, pack_element};
pub use text::{fault_in_line, plain_text, read_text, text_of, whole_number};
pub use tokenizer::Tokenizer;
pub use validate::{Difference, Mismatch, Tolerance, validate};
