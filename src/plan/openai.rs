//! Settings of runs on OpenAI-compatible services.

use std::path::PathBuf;

/// Settings of runs on OpenAI-compatible services.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenAiPlan {
    /// Path of the endpoint below the server's URL, without a leading slash, such as `v1/chat/completions`.
    pub endpoint: String,
    /// Whether payloads that do not say ask for a stream, and for its usage.
    pub streaming: bool,
    /// Whether such streams are not asked for their usage: perf_analyzer sends what its caller wrote.
    pub without_usage: bool,
    /// The file of the tokenizer that counts the tokens of answers, where the server tells none.
    pub tokenizer: Option<PathBuf>,
    /// The field `response_format` of every payload: the form that answers are held to, as JSON.
    pub response_format: Option<String>,
    /// Whether payloads are turns of conversations, which begin with the whole conversation so far.
    pub sessions: bool,
    /// The header field that names a turn's session.
    pub session_header: Option<String>,
}
