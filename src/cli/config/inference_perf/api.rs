//! `api`: the format of requests.

use crate::cli::config::fields::{Fields, text};
use crate::cli::config::flags::Flags;
use crate::cli::config::yaml::{Fault, Node};

const COMPLETIONS: &str = "v1/completions";

/// Reads the section.
///
/// # Errors
/// What is not theirs, or has no counterpart.
pub fn api(node: Option<&Node>, flags: &mut Flags) -> Result<(), Fault> {
    let Some(node) = node else {
        flags.add("endpoint", COMPLETIONS);
        return Ok(());
    };
    let mut api = Fields::of("api", node)?;
    if api.peek("type").and_then(text) == Some("anthropic_messages") {
        api.refuse(
            "type",
            "no service kind speaks Anthropic's messages; servers that offer them offer OpenAI's chat, too: use type chat",
        )?;
    }
    let kind = api.word("type", &["completion", "chat"])?.unwrap_or("completion");
    flags.of(&api, "type").add("endpoint", if kind == "chat" { "v1/chat/completions" } else { COMPLETIONS });
    if api.switch("streaming")? == Some(true) {
        flags.of(&api, "streaming").switch("streaming");
    }
    if let Some(headers) = api.take("headers") {
        for (name, value) in headers.map()? {
            let text =
                text(value).ok_or_else(|| Fault::new(value.at, format!("the header '{}' takes a text", name.name)))?;
            flags.at(value.at).add("header", format!("{}:{text}", name.name));
        }
    }
    let limits = "no effect: headers are sent as they are, and --goodput judges requests by limits of its own";
    flags
        .notes
        .extend(["slo_unit", "slo_tpot_header", "slo_ttft_header"].iter().filter_map(|key| api.idle(key, limits)));
    api.refuse("response_format", "write response_format into the payloads of --input-data")?;
    let sessions = "no effect: requests on their own belong to no session";
    flags
        .notes
        .extend(["session_id_header_key", "session_token_header_key"].iter().filter_map(|key| api.idle(key, sessions)));
    api.finish()
}
