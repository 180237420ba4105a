//! Which recorded and generated sessions are played, and how.

use std::path::PathBuf;

use crate::AgentSpec;

/// Sessions of whole calls, and how they are played.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionTrace {
    /// Where they are.
    pub sources: Vec<TraceSource>,
    /// Sessions that are generated, before those.
    pub agents: Vec<AgentSpec>,
    /// How.
    pub options: TraceOptions,
    /// The file of the tokenizer by which rebuilt prompts are counted; words if absent.
    pub tokenizer: Option<PathBuf>,
}

/// A file of recorded sessions, or a folder of such files.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceSource {
    /// Its format.
    pub format: TraceFormat,
    /// Its path.
    pub path: PathBuf,
}

/// The format of recorded sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceFormat {
    /// OpenTelemetry spans, which hold what was said.
    OpenTelemetry,
    /// Weka's traces, which hold how long it was and which blocks of it are equal.
    Weka,
}

impl TraceFormat {
    /// All.
    pub const ALL: [Self; 2] = [Self::OpenTelemetry, Self::Weka];

    /// The word before a path of this format, as in `otel:PATH`.
    pub fn word(self) -> &'static str {
        match self {
            Self::OpenTelemetry => "otel",
            Self::Weka => "weka",
        }
    }
}

/// A model that sessions were recorded with, and the one that is asked instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelName {
    /// The name in the recording.
    pub recorded: String,
    /// The name that requests have.
    pub name: String,
}

/// How recorded sessions are replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceOptions {
    /// Longest pause before a turn, in milliseconds.
    pub max_wait_ms: u64,
    /// Limit on output tokens where none were recorded.
    pub default_tokens: u64,
    /// Whether calls that failed are replayed, too.
    pub errors: bool,
    /// Whether files and rows that cannot be used are left out.
    pub skip_invalid: bool,
    /// Whether turns send what the server has answered, and not what was recorded; if absent, they do where the recording
    /// holds what was said.
    pub live_answers: Option<bool>,
    /// Whether the model is made to call the tools that were called, and none where none was.
    pub forces_tools: bool,
    /// Whether a call that is to be one of tools has room for more tokens than were recorded.
    pub room_for_tools: bool,
    /// Only sessions are replayed whose longest call, with its answer, has fewer tokens; all if absent.
    pub below_tokens: Option<u64>,
    /// Only so many sessions are read, the first ones; all if absent.
    pub first: Option<u32>,
    /// How many sessions there are to be: those that were recorded are repeated; as recorded if absent.
    pub sessions: Option<u32>,
    /// Whether every session with recorded texts begins with a text of its own, and not only a repeated one.
    pub tags_all: bool,
    /// Models that are asked instead of recorded ones; the model of the run instead of all others.
    pub models: Vec<ModelName>,
    /// Longest time between the beginnings of two calls of a session in Weka's format, in milliseconds; any if absent.
    pub idle_gap_ms: Option<u64>,
    /// Whether a call in Weka's format waits as long as its client then thought, and not as long as the times tell.
    pub think_time: bool,
    /// Tokens of a block where a trace in Weka's format does not say.
    pub block_tokens: u32,
}

impl Default for TraceOptions {
    /// As inference-perf 0.7 has them.
    fn default() -> Self {
        Self {
            max_wait_ms: 15_000,
            default_tokens: 1000,
            errors: true,
            skip_invalid: false,
            live_answers: None,
            forces_tools: true,
            room_for_tools: true,
            below_tokens: None,
            first: None,
            sessions: None,
            tags_all: false,
            models: Vec::new(),
            idle_gap_ms: Some(60_000),
            think_time: false,
            block_tokens: 64,
        }
    }
}
