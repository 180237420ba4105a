//! `data.conversation_replay` and `data.otel_trace_replay`: conversations that are generated, or were recorded.

use crate::config::fields::{Fields, text};
use crate::config::flags::Flags;
use crate::config::inference_perf::distribution::length;
use crate::config::yaml::{Fault, Node, Place, Value};

/// Tokens of the system prompt that all conversations share.
const SHARED: u64 = 8359;

/// Conversations of drawn lengths.
///
/// # Errors
/// What is not theirs, or has no counterpart.
pub fn replay(data: &mut Fields<'_>, node: &Node, flags: &mut Flags) -> Result<(), Fault> {
    let missing = || Fault::new(node.at, "the type conversation_replay needs 'data.conversation_replay'");
    let mut fields = data.section("conversation_replay")?.ok_or_else(missing)?;
    let seed = fields.whole("seed", 0)?.unwrap_or(42);
    let count = fields.whole("num_conversations", 1)?.unwrap_or(200);
    flags.at_key(&fields, "num_conversations").add("conversations", count);
    let shared = fields.whole("shared_system_prompt_len", 0)?.unwrap_or(SHARED);
    if shared > 0 {
        flags.at_key(&fields, "shared_system_prompt_len").add("prefix-tokens", shared);
    }
    for (key, usual, flag) in [
        ("dynamic_system_prompt_len", None, "system-tokens"),
        ("turns_per_conversation", Some("10"), "turns"),
        ("input_tokens_per_turn", Some("512"), "prompt-tokens"),
        ("output_tokens_per_turn", Some("256"), "output-tokens"),
    ] {
        match fields.take(key) {
            Some(node) => flags.at(node.at).add(flag, length(&fields.name(key), node)?.0),
            None => usual.into_iter().for_each(|usual| flags.at_key(&fields, key).add(flag, usual)),
        }
    }
    if let Some(node) = fields.take("tool_call_latency_sec")
        && !is_nothing(node)
    {
        flags.at(node.at).add("turn-delay", length(&fields.name("tool_call_latency_sec"), node)?.0);
    }
    let uncut = "no effect: a conversation is sent whole, and one that is too long for the model fails";
    flags.notes.extend(fields.no_effect("max_model_len", uncut));
    if flags.settings.iter().any(|setting| setting.name == "seed" && setting.arguments == ["--seed=time"]) {
        flags.settings.retain(|setting| setting.name != "seed");
        flags.at_key(&fields, "seed").add("seed", seed);
    }
    fields.finish()
}

/// Whether a distribution has no other value than 0.
fn is_nothing(node: &Node) -> bool {
    let Value::Map(entries) = &node.value else { return false };
    let value_of = |name: &str| entries.iter().find(|(key, _)| key.name == name).and_then(|(_, node)| text(node));
    value_of("max").is_some_and(|most| most.parse() == Ok(0.0))
}

/// Recorded sessions.
///
/// # Errors
/// What is not theirs, or has no counterpart; that a data set must be downloaded.
pub fn otel(data: &mut Fields<'_>, node: &Node, flags: &mut Flags) -> Result<(), Fault> {
    let missing = || Fault::new(node.at, "the type otel_trace_replay needs 'data.otel_trace_replay'");
    let mut fields = data.section("otel_trace_replay")?.ok_or_else(missing)?;
    if let Some(node) = fields.take("hf_dataset_path") {
        return Err(to_download(node.at, hub_name(node), "data.otel_trace_replay.trace_files"));
    }
    let mut paths: Vec<(&str, Place)> = fields
        .peek("trace_directory")
        .map(|node| node.at)
        .into_iter()
        .flat_map(|at| fields.peek("trace_directory").and_then(text).map(|path| (path, at)))
        .collect();
    fields.take("trace_directory");
    paths.extend(fields.list("trace_files")?.iter().filter_map(|node| Some((text(node)?, node.at))));
    if paths.is_empty() {
        return Err(Fault::new(node.at, "'data.otel_trace_replay' needs 'trace_files' or 'trace_directory'"));
    }
    paths.iter().for_each(|(path, at)| flags.at(*at).add("session-trace", format!("otel:{path}")));
    let options = options(&mut fields)?;
    if !options.is_empty() {
        flags.at_key(&fields, "max_wait_ms").add("session-trace-options", options.join(","));
    }
    model(&mut fields, flags)?;
    left_out(&mut fields, flags)?;
    fields.finish()
}

/// Settings of `--session-trace-options`.
fn options(fields: &mut Fields<'_>) -> Result<Vec<String>, Fault> {
    let mut all = Vec::new();
    all.extend(fields.whole("max_wait_ms", 0)?.map(|wait| format!("max-wait={wait}ms")));
    all.extend(fields.whole("default_max_tokens", 1)?.map(|tokens| format!("default-tokens={tokens}")));
    all.extend(fields.switch("include_errors")?.map(|on| format!("errors={on}")));
    all.extend(fields.switch("skip_invalid_files")?.map(|on| format!("skip-invalid={on}")));
    all.extend(fields.switch("disable_output_substitution")?.filter(|on| *on).map(|_| "answers=recorded".to_owned()));
    all.extend(fields.whole("duplicate_sessions_target", 1)?.map(|count| format!("sessions={count}")));
    let code = fields.peek("filter").and_then(text);
    if let Some(most) = code.and_then(most_tokens) {
        fields.take("filter");
        all.push(format!("below-tokens={most}"));
    }
    let rule = "only a bound on 'max_tokens' is understood of code in Python: leave out what it filters out of the files, and it";
    fields.refuse("filter", rule)?;
    Ok(all)
}

/// The bound of a filter such as `lambda x: x['max_tokens'] < 28000`.
fn most_tokens(code: &str) -> Option<u64> {
    let plain: String = code.chars().filter(|c| !c.is_whitespace()).map(|c| if c == '"' { '\'' } else { c }).collect();
    let (operand, bound) = plain.split_once('<')?;
    let is_bound =
        ["lambdax:x['max_tokens']", "lambdax:x.get('max_tokens',0)", "lambdax:x.get('max_tokens')"].contains(&operand);
    bound.parse().ok().filter(|_| is_bound)
}

/// The model that calls are for, whichever they were for then.
fn model(fields: &mut Fields<'_>, flags: &mut Flags) -> Result<(), Fault> {
    let (is_static, name) = (fields.switch("use_static_model")? == Some(true), fields.text("static_model_name")?);
    match name.filter(|name| is_static && !name.is_empty()) {
        Some(name) => {
            flags.settings.retain(|setting| setting.name != "model");
            flags.at_key(fields, "static_model_name").add("model", name);
        }
        None => flags.note("data.otel_trace_replay: calls are for the model of the run (-m), not for those recorded"),
    }
    fields.take("model_mapping");
    Ok(())
}

/// What is not done of a replay.
fn left_out(fields: &mut Fields<'_>, flags: &mut Flags) -> Result<(), Fault> {
    if fields.switch("inject_random_session_id")? == Some(true) {
        let rule =
            "sessions are sent as recorded, so a server may answer from its cache: give each its own text in the file";
        let at = fields.place("inject_random_session_id");
        return Err(Fault::new(
            at,
            format!("'data.otel_trace_replay.inject_random_session_id: true' has no counterpart: {rule}"),
        ));
    }
    let tools = "no effect: calls of tools are sent as recorded";
    flags.notes.extend(fields.no_effect("bad_tool_call_handling", tools));
    let always = "no effect: a call that was to be one of tools has room for 4096 tokens or more";
    flags.notes.extend(fields.no_effect("override_tool_call_max_tokens", always));
    let waits = "no effect: load.request_timeout limits the calls that are waited for";
    flags.notes.extend(fields.no_effect("predecessor_wait_timeout_sec", waits));
    for key in ["attribute_to_header_map", "attribute_to_label_map"] {
        flags.notes.extend(fields.no_effect(key, "no effect: attributes of spans are not read"));
    }
    Ok(())
}

/// A data set of a hub, which is a text or a mapping with its path.
fn hub_name(node: &Node) -> &str {
    match &node.value {
        Value::Map(entries) => {
            entries.iter().find(|(key, _)| key.name == "path").and_then(|(_, node)| text(node)).unwrap_or_default()
        }
        _ => text(node).unwrap_or_default(),
    }
}

/// What to download, and where to name it.
pub fn to_download(at: Place, name: &str, key: &str) -> Fault {
    Fault::new(
        at,
        format!(
            "the data set {name} (Hugging Face) must be here: download it as JSON lines, and name the file in '{key}'"
        ),
    )
}
