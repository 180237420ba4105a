//! Settings of runs on OpenAI-compatible services.

/// Settings of runs on OpenAI-compatible services.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenAiPlan {
    /// Path of the endpoint below the server's URL, without a leading slash, such as `v1/chat/completions`.
    pub endpoint: String,
    /// Whether payloads that do not say ask for a stream, and for its usage.
    pub streaming: bool,
    /// Whether payloads are turns of conversations, which begin with the whole conversation so far.
    pub sessions: bool,
}
