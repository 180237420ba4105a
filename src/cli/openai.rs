//! Section "OpenAI-compatible services".

use std::path::PathBuf;

use clap::Args;

use crate::cli::lengths::{length, prompt_length};
use crate::cli::values::whole;
use crate::data::{PromptForm, PromptLength, PromptSpec, TokenLength};
use crate::plan::{MAX_CONCURRENCY, OpenAiPlan};

/// What is asked of services of the OpenAI kind.
#[derive(Args, Debug)]
#[command(next_help_heading = "OpenAI-compatible services (--service-kind openai)")]
pub struct OpenAiArgs {
    /// Path of the endpoint below the server's URL, such as `v1/chat/completions`, `v1/completions` or `v1/embeddings`.
    /// Default: none, but needed there
    #[arg(long, value_name = "PATH", value_parser = endpoint)]
    endpoint: Option<String>,

    /// Generates payloads in place of --input-data: prompts of so many tokens, for which words stand. Normally distributed, or
    /// as in `lognormal:MEAN:STDDEV[:MIN:MAX]` (also normal, skew-normal with a third number, poisson:MEAN, uniform:MIN:MAX), or
    /// as recorded in `trace:FILE.csv`, with its outputs. Default: off
    #[arg(long, value_name = "MEAN[:STDDEV]", value_parser = prompt_length)]
    prompt_tokens: Option<PromptLength>,

    /// Most tokens of the outputs of generated payloads, their `max_tokens`; distributed as those of --prompt-tokens can be.
    /// Default: as recorded, or as the server has it
    #[arg(long, value_name = "MEAN[:STDDEV]", value_parser = length)]
    output_tokens: Option<TokenLength>,

    /// A model's tokenizer.json, by which tokens are counted: those of generated payloads, and those of answers of which the server
    /// tells no usage. Default: none, a word stands for a token of a payload, and a chunk for one of a stream
    #[arg(long, value_name = "FILE")]
    tokenizer: Option<PathBuf>,

    /// How many different payloads are generated. Default: 100, or as many as are recorded
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1, 10_000_000))]
    num_prompts: Option<u32>,

    /// Plays conversations, so many at a time and each once: payloads of the same `session_id` are turns that follow each other,
    /// `delay` milliseconds after the answer before. Each turn sends all that was said before. Default: off
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1, u64::from(MAX_CONCURRENCY)))]
    session_concurrency: Option<u32>,
}

impl OpenAiArgs {
    /// Number of conversations at a time, if asked for.
    pub fn sessions(&self) -> Option<u32> {
        self.session_concurrency
    }

    /// A note on generated payloads.
    pub fn note(&self) -> Option<String> {
        let length = match self.prompt_tokens.as_ref()? {
            PromptLength::Drawn(length) => length.to_string(),
            PromptLength::Recorded(_) => "as many words as tokens are recorded".to_owned(),
        };
        if self.tokenizer.is_some() {
            return None;
        }
        Some(format!(
            "--prompt-tokens: prompts are of {length}; how many tokens these are the server's tokenizer decides (--tokenizer)"
        ))
    }

    /// The payloads to generate, if any.
    pub fn prompts(&self) -> Option<PromptSpec> {
        let path = self.endpoint.as_deref().unwrap_or_default().split('?').next().unwrap_or_default();
        let form = match path.rsplit('/').next().unwrap_or_default() {
            "embeddings" => PromptForm::Input,
            "completions" if !path.ends_with("chat/completions") => PromptForm::Prompt,
            _ => PromptForm::Messages,
        };
        self.prompt_tokens.clone().map(|prompt| PromptSpec {
            prompt,
            output: self.output_tokens,
            count: self.num_prompts,
            form,
            tokenizer: self.tokenizer.clone(),
        })
    }

    /// The settings of the service; with `streaming`, streams.
    pub fn plan(&self, streaming: bool) -> OpenAiPlan {
        let endpoint = self.endpoint.clone().unwrap_or_default();
        let (tokenizer, sessions) = (self.tokenizer.clone(), self.session_concurrency.is_some());
        OpenAiPlan { endpoint, streaming, tokenizer, sessions }
    }
}

/// A path, without the leading slash.
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
    fn endpoints_are_paths() {
        assert_eq!(endpoint("/v1/completions?api-version=1").as_deref(), Ok("v1/completions?api-version=1"));
        assert!(["", "/", "a b", "a\r\nX: y", "http://h/v1", "é", "a#b"].iter().all(|text| endpoint(text).is_err()));
    }
}
