//! `data.otel_trace_replay` and `data.weka_trace_replay`: sessions that were recorded.

use std::collections::HashSet;
use std::path::Path;

use glob::{MatchOptions, glob_with};

use crate::config::fields::{Fields, text};
use crate::config::flags::Flags;
use crate::config::inference_perf::OUTPUT_TOKENS;
use crate::config::yaml::{Fault, Node, Place, Value};

/// OpenTelemetry spans.
///
/// # Errors
/// What is not theirs, or has no counterpart; that a data set must be downloaded.
pub fn otel(data: &mut Fields<'_>, node: &Node, flags: &mut Flags) -> Result<(), Fault> {
    let section = "otel_trace_replay";
    let missing = || Fault::new(node.at, format!("the type {section} needs 'data.{section}'"));
    let mut fields = data.section(section)?.ok_or_else(missing)?;
    if let Some(node) = fields.take("hf_dataset_path") {
        return Err(to_download(node.at, hub_name(node), "it as JSON lines", &fields.name("trace_files")));
    }
    sources(&mut fields, node, "otel", flags)?;
    let mut options = shared_options(&mut fields, flags)?;
    options.extend(fields.switch("include_errors")?.map(|on| format!("errors={on}")));
    options
        .extend(fields.switch("disable_output_substitution")?.filter(|on| *on).map(|_| "answers=recorded".to_owned()));
    let tools = fields.choice("tool_choice_mode", &["force_recorded", "as_recorded"])?;
    options.extend(tools.filter(|mode| *mode == "as_recorded").map(|_| "tools=free".to_owned()));
    let has_room = fields.switch("override_tool_call_max_tokens")?;
    options.extend(has_room.filter(|has_room| !has_room).map(|_| "tool-tokens=recorded".to_owned()));
    options.extend(models(&mut fields, flags)?);
    options.extend(fields.switch("inject_random_session_id")?.filter(|on| *on).map(|_| "tags=all".to_owned()));
    add(&options, &fields, flags);
    let notes = [
        ("bad_tool_call_handling", "no effect: calls of tools are sent as recorded"),
        ("predecessor_wait_timeout_sec", WAITS),
        ("attribute_to_header_map", "no effect: attributes of spans are not read"),
        ("attribute_to_label_map", "no effect: attributes of spans are not read"),
    ];
    flags.notes.extend(notes.iter().filter_map(|(key, why)| fields.no_effect(key, why)));
    fields.finish()
}

/// What is said of a limit on how long a call waits for others.
const WAITS: &str = "no effect: load.request_timeout limits the calls that are waited for";
/// What is said of settings about calls of tools.
const NO_TOOLS: &str = "no effect: these traces hold no calls of tools";

/// Weka's traces.
///
/// # Errors
/// What is not theirs; that a data set must be downloaded.
pub fn weka(data: &mut Fields<'_>, node: &Node, flags: &mut Flags) -> Result<(), Fault> {
    let section = "weka_trace_replay";
    let missing = || Fault::new(node.at, format!("the type {section} needs 'data.{section}'"));
    let mut fields = data.section(section)?.ok_or_else(missing)?;
    if let Some(node) = fields.take("hf_dataset_path") {
        return Err(to_download(node.at, hub_name(node), "its traces.jsonl", &fields.name("trace_files")));
    }
    sources(&mut fields, node, "weka", flags)?;
    let mut options = options_of_weka(&mut fields, flags)?;
    options.extend(models(&mut fields, flags)?);
    add(&options, &fields, flags);
    flags.note(
        "data.weka_trace_replay: answers stay as they are rebuilt, so that blocks keep their places; inference-perf 0.7 sends the \
         live ones instead, as --session-trace-options answers=live does",
    );
    let notes = [
        ("include_errors", "no effect: these traces hold no failed calls"),
        ("override_tool_call_max_tokens", NO_TOOLS),
        ("tool_choice_mode", NO_TOOLS),
        ("bad_tool_call_handling", NO_TOOLS),
        ("datagen_workers", "no effect: this process rebuilds the prompts"),
        (
            "inject_random_session_id",
            "no effect: each session has texts of its own, and other ones with another load.base_seed",
        ),
        ("predecessor_wait_timeout_sec", WAITS),
    ];
    flags.notes.extend(notes.iter().filter_map(|(key, why)| fields.no_effect(key, why)));
    fields.finish()
}

/// Settings of `--session-trace-options`, except for models.
fn options_of_weka(fields: &mut Fields<'_>, flags: &mut Flags) -> Result<Vec<String>, Fault> {
    let mut options = shared_options(fields, flags)?;
    if fields.switch("ignore_trace_delays")? == Some(true) {
        options.retain(|setting| !setting.starts_with("max-wait="));
        options.push("max-wait=0ms".to_owned());
        flags.note(format!(
            "{}: calls do not pause, which inference-perf 0.7 lets them do",
            fields.name("ignore_trace_delays")
        ));
    }
    if fields.switch("use_think_time_only")? == Some(true) {
        options.push("think-time=true".to_owned());
        flags.note(format!(
            "{}: pauses are the recorded think_time, as the key says; inference-perf 0.7 takes them from the times of calls",
            fields.name("use_think_time_only")
        ));
    }
    let gap = fields.number("trace_idle_gap_cap_seconds", f64::MIN)?;
    options.extend(gap.map(|most| if most > 0.0 { format!("idle-gap={most}s") } else { "idle-gap=none".to_owned() }));
    options.extend(fields.whole("default_block_size", 1)?.map(|tokens| format!("block-tokens={tokens}")));
    if let Some(count) = fields.whole("num_dataset_entries", 1)? {
        options.push(format!("first={count}"));
        flags.note(format!(
            "{}: {count}: the first sessions of the files that are named here; inference-perf counts only those that it \
             downloads",
            fields.name("num_dataset_entries")
        ));
    }
    Ok(options)
}

/// The files that are named.
fn sources(fields: &mut Fields<'_>, node: &Node, format: &str, flags: &mut Flags) -> Result<(), Fault> {
    let path = |node| text(node).ok_or_else(|| Fault::new(node.at, "a trace is named by its path, which is a text"));
    let (folder, files) = (fields.take("trace_directory"), fields.list("trace_files")?);
    if let Some(node) = folder {
        flags.at(node.at).add("session-trace", format!("{format}:{}", path(node)?));
    }
    let mut named = HashSet::new();
    for node in files {
        for file in matching(path(node)?).map_err(|rule| Fault::new(node.at, rule))? {
            if named.insert(file.clone()) {
                flags.at(node.at).add("session-trace", format!("{format}:{file}"));
            }
        }
    }
    match folder.is_none() && files.is_empty() {
        true => {
            Err(Fault::new(node.at, format!("'data.{format}_trace_replay' needs 'trace_files' or 'trace_directory'")))
        }
        false => Ok(()),
    }
}

/// The files that a path with `*` and `?` means, in the order of their names; `**` are folders of any depth. Any other path is
/// one file.
fn matching(path: &str) -> Result<Vec<String>, String> {
    if !path.contains(['*', '?']) || Path::new(path).exists() {
        return Ok(vec![path.to_owned()]);
    }
    let options =
        MatchOptions { require_literal_separator: true, require_literal_leading_dot: true, ..MatchOptions::new() };
    let paths = glob_with(path, options).map_err(|error| format!("'{path}' is no pattern of paths: {error}"))?;
    let files = paths.flatten().filter(|found| found.is_file());
    let mut files: Vec<String> = files.filter_map(|found| found.to_str().map(str::to_owned)).collect();
    files.sort();
    match files.is_empty() {
        true => Err(format!("there is no file that '{path}' matches: give the path of one, or another pattern")),
        false => Ok(files),
    }
}

/// How long an answer may be of whose length nothing is said: `default_max_tokens` says so, but inference-perf 0.7 does not read it.
///
/// # Errors
/// If the key's value is none.
pub fn usual_tokens(fields: &mut Fields<'_>, flags: &mut Flags) -> Result<String, Fault> {
    if let Some(tokens) = fields.whole("default_max_tokens", 1)?.filter(|tokens| *tokens != u64::from(OUTPUT_TOKENS)) {
        flags.note(format!(
            "{}: {tokens}: no effect, as in inference-perf 0.7: an answer of unknown length gets {OUTPUT_TOKENS} tokens \
             (--session-trace-options default-tokens)",
            fields.name("default_max_tokens")
        ));
    }
    Ok(format!("default-tokens={OUTPUT_TOKENS}"))
}

/// Settings of `--session-trace-options` that both formats have.
fn shared_options(fields: &mut Fields<'_>, flags: &mut Flags) -> Result<Vec<String>, Fault> {
    let mut all = Vec::new();
    all.extend(fields.whole("max_wait_ms", 0)?.map(|wait| format!("max-wait={wait}ms")));
    all.push(usual_tokens(fields, flags)?);
    all.extend(fields.switch("skip_invalid_files")?.map(|on| format!("skip-invalid={on}")));
    all.extend(fields.whole("duplicate_sessions_target", 1)?.map(|count| format!("sessions={count}")));
    if let Some(most) = fields.peek("filter").and_then(text).and_then(most_tokens) {
        fields.take("filter");
        all.push(format!("below-tokens={most}"));
    }
    let rule = "only a bound on 'max_tokens' is understood of code in Python: leave out what it filters out of the files, and it";
    fields.refuse("filter", rule)?;
    Ok(all)
}

fn add(options: &[String], fields: &Fields<'_>, flags: &mut Flags) {
    if !options.is_empty() {
        flags.at_key(fields, "max_wait_ms").add("session-trace-options", options.join(","));
    }
}

/// The bound of a filter such as `lambda x: x['max_tokens'] < 28000`.
fn most_tokens(code: &str) -> Option<u64> {
    let plain: String = code.chars().filter(|c| !c.is_whitespace()).map(|c| if c == '"' { '\'' } else { c }).collect();
    let (operand, bound) = plain.split_once('<')?;
    let is_bound =
        ["lambdax:x['max_tokens']", "lambdax:x.get('max_tokens',0)", "lambdax:x.get('max_tokens')"].contains(&operand);
    bound.parse().ok().filter(|_| is_bound)
}

/// The models that are asked instead of recorded ones, as options; one for all calls is the model of the run.
///
/// # Errors
/// What is no name of a model.
pub fn models(fields: &mut Fields<'_>, flags: &mut Flags) -> Result<Vec<String>, Fault> {
    let (is_static, name) = (fields.switch("use_static_model")? == Some(true), fields.text("static_model_name")?);
    let (key, mapping) = (fields.name("model_mapping"), fields.take("model_mapping"));
    if let Some(name) = name.filter(|name| is_static && !name.is_empty()) {
        flags.settings.retain(|setting| setting.name != "model");
        flags.at_key(fields, "static_model_name").add("model", name);
        return Ok(Vec::new());
    }
    let Some(mapping) = mapping else {
        flags.note(format!("{}: calls are for the model of the run (-m), not for those recorded", section(&key)));
        return Ok(Vec::new());
    };
    let mut options = Vec::new();
    for (recorded, node) in mapping.map()? {
        let name =
            text(node).filter(|name| !name.is_empty() && !format!("{}{name}", recorded.name).contains([',', '=']));
        let name = name.ok_or_else(|| {
            Fault::new(node.at, format!("'{key}.{}' takes the name of a model, without ',' and '='", recorded.name))
        })?;
        options.push(format!("model.{}={name}", recorded.name));
    }
    flags.note(format!(
        "{key}: calls of other models are for the model of the run (-m); inference-perf 0.7 sends all to that one"
    ));
    Ok(options)
}

/// The section of a key's full name.
fn section(key: &str) -> &str {
    key.rsplit_once('.').map_or(key, |(section, _)| section)
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
fn to_download(at: Place, name: &str, file: &str, key: &str) -> Fault {
    Fault::new(
        at,
        format!("the data set {name} (Hugging Face) must be here: download {file}, and name the file in '{key}'"),
    )
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn patterns_are_the_files_that_match_them() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("a/b.json")).unwrap();
        for name in ["2.json", "10.json", ".hidden.json", "a/3.json", "x[1]*.json"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let found = |pattern: &str| {
            let files = matching(folder.path().join(pattern).to_str().unwrap())?;
            let name = |file: &String| file.rsplit('/').next().unwrap().to_owned();
            Ok::<_, String>(files.iter().map(name).collect::<Vec<_>>())
        };
        assert_eq!(found("[0-9]*.json").unwrap(), ["10.json", "2.json"]);
        assert_eq!(found("?.json").unwrap(), ["2.json"]);
        assert_eq!(found("**/*.json").unwrap(), ["10.json", "2.json", "3.json", "x[1]*.json"]);
        assert_eq!(found("x[1]*.json").unwrap(), ["x[1]*.json"], "a file may have such a name");
        assert_eq!(found("none.json").unwrap(), ["none.json"], "the flag says that it is not there");
        assert!(found("a/*.txt").unwrap_err().contains("there is no file that '"));
    }
}
