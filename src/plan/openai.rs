//! Settings of runs on OpenAI-compatible services.

use std::path::PathBuf;

/// Settings of runs on OpenAI-compatible services.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenAiPlan {
    /// Path of the endpoint below the server's URL, without a leading slash, such as `v1/chat/completions`.
    pub endpoint: String,
    /// Whether payloads that do not say ask for a stream, and for its usage.
    pub streaming: bool,
    /// The file of the tokenizer that counts the tokens of answers, where the server tells none.
    pub tokenizer: Option<PathBuf>,
    /// Whether payloads are turns of conversations, which begin with the whole conversation so far.
    pub sessions: bool,
}
