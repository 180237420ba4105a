//! Section "OpenAI-compatible services".

use std::path::PathBuf;

use clap::Args;

use crate::cli::lengths::{length, prompt_length};
use crate::cli::values::whole;
use crate::data::{PromptForm, PromptLength, PromptSpec, SharedPrefix, TokenLength};
use crate::plan::{MAX_CONCURRENCY, OpenAiPlan};

/// What is asked of services of the OpenAI kind.
#[derive(Args, Debug)]
#[command(next_help_heading = "OpenAI-compatible services (--service-kind openai)")]
pub struct OpenAiArgs {
    /// Path of the endpoint below the server's URL, such as `v1/chat/completions`, `v1/completions` or `v1/embeddings`.
    /// Default: none, but needed there
    #[arg(long, value_name = "PATH", value_parser = endpoint)]
    endpoint: Option<String>,

    /// Generates payloads instead of --input-data: prompts of this many tokens, made of words. Normally distributed, or
    /// as in `lognormal:MEAN:STDDEV[:MIN:MAX]` (also normal, skew-normal with a third number, poisson:MEAN,
    /// uniform:MIN:MAX), or as recorded in `trace:FILE`, with its outputs, or the prompts of `dataset:FILE.json`, as
    /// long as its answers; `dataset:MIN:MAX:FILE.json` takes those of MIN to MAX tokens, a second pair bounds the answers. Default:
    /// off
    #[arg(long, value_name = "MEAN[:STDDEV]", value_parser = prompt_length)]
    prompt_tokens: Option<PromptLength>,

    /// Begins each generated prompt with one of --num-prefixes shared texts of this many tokens, before --prompt-tokens;
    /// takes the same distributions. Default: none
    #[arg(long, value_name = "MEAN[:STDDEV]", value_parser = length)]
    prefix_tokens: Option<TokenLength>,

    /// How many different prefixes there are, each of equally many prompts
    #[arg(long, value_name = "N", default_value = "1", value_parser = whole::<u32>(1, 10_000_000))]
    num_prefixes: u32,

    /// Maximum output tokens of generated payloads, their `max_tokens`; takes the same distributions as
    /// --prompt-tokens. Default: as recorded, or the server's default
    #[arg(long, value_name = "MEAN[:STDDEV]", value_parser = length)]
    output_tokens: Option<TokenLength>,

    /// A model's tokenizer.json, used to count the tokens of generated payloads, and of answers for which the server
    /// reports no usage. Default: none; each word of a payload, and each chunk of a stream, counts as one token
    #[arg(long, value_name = "FILE")]
    tokenizer: Option<PathBuf>,

    /// How many different payloads to generate. Default: 100, or as many as are recorded
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1, 10_000_000))]
    num_prompts: Option<u32>,

    /// Plays this many conversations at a time, each once: payloads with the same `session_id` are its turns, each sent
    /// `delay` milliseconds after the previous answer. Each turn includes the conversation so far. Default: off
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
            PromptLength::Recorded(_) => "as many words as recorded tokens".to_owned(),
            PromptLength::Dataset(_) => "the words of the data set, whose answers have as many".to_owned(),
        };
        if self.tokenizer.is_some() {
            return None;
        }
        Some(format!(
            "--prompt-tokens: prompts have {length}; how many tokens that is depends on the server's tokenizer \
                (--tokenizer)"
        ))
    }

    /// Where in the payload prompts are.
    pub fn form(&self) -> PromptForm {
        let path = self.endpoint.as_deref().unwrap_or_default().split('?').next().unwrap_or_default();
        match path.rsplit('/').next().unwrap_or_default() {
            "embeddings" => PromptForm::Input,
            "completions" if !path.ends_with("chat/completions") => PromptForm::Prompt,
            _ => PromptForm::Messages,
        }
    }

    /// The payloads to generate, if any.
    pub fn prompts(&self) -> Option<PromptSpec> {
        let form = self.form();
        self.prompt_tokens.clone().map(|prompt| PromptSpec {
            prompt,
            prefix: self.prefix_tokens.map(|length| SharedPrefix { length, count: self.num_prefixes }),
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
