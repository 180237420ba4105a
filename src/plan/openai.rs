//! What is asked of services of the OpenAI kind.

use std::path::PathBuf;

/// What is asked of services of the OpenAI kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenAiPlan {
    /// Path of the endpoint below the server's URL, without a slash in front, such as `v1/chat/completions`.
    pub endpoint: String,
    /// Payloads that do not say whether they want a stream ask for one, and for its usage.
    pub streaming: bool,
    /// The file of the tokenizer that counts the tokens of answers, where the server tells none.
    pub tokenizer: Option<PathBuf>,
    /// Payloads are turns of conversations, which begin with all that was said before.
    pub sessions: bool,
}
