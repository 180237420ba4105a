//! Section "OpenAI-compatible services".

use clap::Args;

use crate::cli::values::{integer, whole};
use crate::data::{PromptForm, PromptSpec, TokenLength};
use crate::plan::{MAX_CONCURRENCY, OpenAiPlan};

/// What is asked of services of the OpenAI kind.
#[derive(Args, Debug)]
#[command(next_help_heading = "OpenAI-compatible services (--service-kind openai)")]
pub struct OpenAiArgs {
    /// Path of the endpoint below the server's URL, such as `v1/chat/completions`, `v1/completions` or `v1/embeddings`.
    /// Default: none, but needed there
    #[arg(long, value_name = "PATH", value_parser = endpoint)]
    endpoint: Option<String>,

    /// Generates payloads in place of --input-data: prompts of so many tokens, normally distributed. Words stand for tokens.
    /// Default: off
    #[arg(long, value_name = "MEAN[:STDDEV]", value_parser = tokens)]
    prompt_tokens: Option<TokenLength>,

    /// Most tokens of the outputs of generated payloads, their `max_tokens`. Default: as the server has it
    #[arg(long, value_name = "MEAN[:STDDEV]", value_parser = tokens)]
    output_tokens: Option<TokenLength>,

    /// How many different payloads are generated
    #[arg(long, value_name = "N", default_value = "100", value_parser = whole::<u32>(1, 10_000_000))]
    num_prompts: u32,

    /// Plays conversations, so many at a time and each once: payloads of the same `session_id` are turns that follow each other,
    /// `delay` milliseconds after the answer before. Each turn sends all that was said before. Default: off
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1, u64::from(MAX_CONCURRENCY)))]
    session_concurrency: Option<u32>,
}

impl OpenAiArgs {
    /// Conversations at a time, if that is asked for.
    pub fn sessions(&self) -> Option<u32> {
        self.session_concurrency
    }

    /// What should be known of generated payloads.
    pub fn note(&self) -> Option<String> {
        let TokenLength { mean, .. } = self.prompt_tokens?;
        Some(format!(
            "--prompt-tokens: prompts are of {mean} words on average; how many tokens these are the server's tokenizer decides"
        ))
    }

    /// The payloads that are to be generated, if any.
    pub fn prompts(&self) -> Option<PromptSpec> {
        let path = self.endpoint.as_deref().unwrap_or_default().split('?').next().unwrap_or_default();
        let form = match path.rsplit('/').next().unwrap_or_default() {
            "embeddings" => PromptForm::Input,
            "completions" if !path.ends_with("chat/completions") => PromptForm::Prompt,
            _ => PromptForm::Messages,
        };
        self.prompt_tokens.map(|prompt| PromptSpec {
            prompt,
            output: self.output_tokens,
            count: self.num_prompts,
            form,
        })
    }

    /// What is asked; with `streaming`, streams.
    pub fn plan(&self, streaming: bool) -> OpenAiPlan {
        let endpoint = self.endpoint.clone().unwrap_or_default();
        OpenAiPlan { endpoint, streaming, sessions: self.session_concurrency.is_some() }
    }
}

/// `MEAN` or `MEAN:STDDEV`.
fn tokens(text: &str) -> Result<TokenLength, String> {
    const MOST: u64 = 10_000_000;
    let (mean, deviation) = text.split_once(':').unwrap_or((text, "0"));
    Ok(TokenLength { mean: integer(mean, 1, MOST)?, deviation: integer(deviation, 0, MOST)? })
}

/// A path, without the slash in front.
fn endpoint(text: &str) -> Result<String, String> {
    let path = text.trim_start_matches('/');
    if path.is_empty() {
        return Err("it must be a path such as v1/chat/completions".to_owned());
    }
    if path.chars().any(|c| c.is_whitespace() || c.is_control() || c == '#') || !path.is_ascii() {
        return Err("a path holds no blanks, no # and nothing beyond ASCII: write these as %XX".to_owned());
    }
    if path.contains("://") {
        return Err("the server's address belongs to -u, only the path below it here".to_owned());
    }
    Ok(path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_have_a_mean_and_perhaps_a_deviation() {
        assert_eq!(tokens("550:150"), Ok(TokenLength { mean: 550, deviation: 150 }));
        assert_eq!(tokens("5"), Ok(TokenLength { mean: 5, deviation: 0 }));
        assert!(["", "0", "5:", ":5", "a", "5:-1", "1:2:3", "1.5"].iter().all(|text| tokens(text).is_err()));
    }

    #[test]
    fn endpoints_are_paths() {
        assert_eq!(endpoint("/v1/completions?api-version=1").as_deref(), Ok("v1/completions?api-version=1"));
        assert!(["", "/", "a b", "a\r\nX: y", "http://h/v1", "é", "a#b"].iter().all(|text| endpoint(text).is_err()));
    }
}
