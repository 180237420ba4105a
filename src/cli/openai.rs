//! Section "OpenAI-compatible services".

use clap::Args;

use crate::plan::OpenAiPlan;

/// What is asked of services of the OpenAI kind.
#[derive(Args, Debug)]
#[command(next_help_heading = "OpenAI-compatible services (--service-kind openai)")]
pub struct OpenAiArgs {
    /// Path of the endpoint below the server's URL, such as `v1/chat/completions`, `v1/completions` or `v1/embeddings`.
    /// Default: none, but needed there
    #[arg(long, value_name = "PATH", value_parser = endpoint)]
    endpoint: Option<String>,
}

impl OpenAiArgs {
    /// What is asked; with `streaming`, streams.
    pub fn plan(&self, streaming: bool) -> OpenAiPlan {
        OpenAiPlan { endpoint: self.endpoint.clone().unwrap_or_default(), streaming }
    }
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
    fn endpoints_are_paths() {
        assert_eq!(endpoint("/v1/completions?api-version=1").as_deref(), Ok("v1/completions?api-version=1"));
        assert!(["", "/", "a b", "a\r\nX: y", "http://h/v1", "é", "a#b"].iter().all(|text| endpoint(text).is_err()));
    }
}
