//! `api`: the format of requests.

use serde_json::{Value as Json, json};

use crate::config::fields::{Fields, boolean, text};
use crate::config::flags::Flags;
use crate::config::yaml::{Fault, Node};

const COMPLETIONS: &str = "v1/completions";
/// The types, and the endpoint of each.
const TYPES: [(&str, &str); 4] = [
    ("completion", COMPLETIONS),
    ("chat", "v1/chat/completions"),
    ("anthropic_messages", "v1/messages"),
    ("embeddings", "v1/embeddings"),
];

/// Reads the section.
///
/// # Errors
/// What is not theirs, or has no counterpart.
pub fn api(node: Option<&Node>, flags: &mut Flags) -> Result<(), Fault> {
    let Some(node) = node else {
        flags.add("endpoint", COMPLETIONS);
        return Ok(());
    };
    let mut api = Fields::new("api", node)?;
    let names: Vec<&str> = TYPES.iter().map(|(name, _)| *name).collect();
    let kind = api.choice("type", &names)?.unwrap_or("completion");
    let endpoint = TYPES.iter().find(|(name, _)| *name == kind).map_or(COMPLETIONS, |(_, endpoint)| endpoint);
    flags.at_key(&api, "type").add("endpoint", endpoint);
    let has = |name: &str| flags.settings.iter().any(|setting| setting.name == name);
    if kind == "anthropic_messages" && has("session-trace") {
        api.refuse("type", "recorded calls are sent as OpenAI's chats: use type chat")?;
    }
    if kind == "embeddings" && api.peek("streaming").and_then(boolean) == Some(true) {
        api.refuse("streaming", "an embedding arrives whole: leave it out")?;
    }
    // There, such requests do not have them either.
    if matches!(kind, "anthropic_messages" | "embeddings") {
        flags.remove("--request-parameter=ignore_eos:");
    }
    if kind == "embeddings" {
        flags.remove("--output-tokens=");
    }
    if api.switch("streaming")? == Some(true) {
        flags.at_key(&api, "streaming").switch("streaming");
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
        .extend(["slo_unit", "slo_tpot_header", "slo_ttft_header"].iter().filter_map(|key| api.no_effect(key, limits)));
    if let Some(format) = response_format(&mut api)? {
        flags.at_key(&api, "response_format").add("response-format", format);
    }
    let plays_sessions =
        flags.settings.iter().any(|setting| ["conversations", "session-trace"].contains(&setting.name.as_str()));
    if plays_sessions && let Some(name) = api.text("session_id_header_key")? {
        flags.at_key(&api, "session_id_header_key").add("session-header", name);
    }
    let alone = "no effect: requests on their own belong to no session";
    flags.notes.extend(api.no_effect("session_id_header_key", alone));
    let rule = "no effect: what a server says in its header is not sent back to it";
    flags.notes.extend(api.no_effect("session_token_header_key", if plays_sessions { rule } else { alone }));
    api.finish()
}

/// The field of every payload that asks for structured output; the order of a schema counts for some servers.
fn response_format(api: &mut Fields<'_>) -> Result<Option<String>, Fault> {
    let at = api.place("response_format");
    let Some(mut format) = api.section("response_format")? else { return Ok(None) };
    let kind = format.choice("type", &["json_schema", "json_object"])?.unwrap_or("json_schema");
    let name = format.text("name")?.unwrap_or("structured_output");
    let schema = format.take("json_schema");
    format.finish()?;
    if kind == "json_object" {
        return Ok(Some(json!({ "type": kind }).to_string()));
    }
    let missing = || Fault::new(at, "'api.response_format' of the type json_schema needs 'json_schema'");
    let schema = schema.ok_or_else(missing)?.json();
    let name = Json::from(name);
    Ok(Some(format!(r#"{{"type":"{kind}","json_schema":{{"name":{name},"schema":{schema}}}}}"#)))
}
