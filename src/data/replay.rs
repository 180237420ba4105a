//! Which recorded sessions are replayed, and how.

use std::path::PathBuf;

/// Recorded sessions, and how they are replayed.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionTrace {
    /// Files, or folders of such files.
    pub paths: Vec<PathBuf>,
    /// How.
    pub options: TraceOptions,
}

/// How recorded sessions are replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceOptions {
    /// Longest pause before a turn, in milliseconds.
    pub max_wait_ms: u64,
    /// Limit on output tokens where none were recorded.
    pub default_tokens: u64,
    /// Whether calls that failed are replayed, too.
    pub errors: bool,
    /// Whether files that cannot be used are left out.
    pub skip_invalid: bool,
    /// Whether turns send what the server has answered, and not what was recorded.
    pub live_answers: bool,
    /// Only sessions are replayed whose longest call, with its answer, has fewer tokens; all if absent.
    pub below_tokens: Option<u64>,
    /// How many sessions there are to be: those that were recorded are repeated; as recorded if absent.
    pub sessions: Option<u32>,
}

impl Default for TraceOptions {
    fn default() -> Self {
        Self {
            max_wait_ms: 15_000,
            default_tokens: 1000,
            errors: true,
            skip_invalid: false,
            live_answers: true,
            below_tokens: None,
            sessions: None,
        }
    }
}
