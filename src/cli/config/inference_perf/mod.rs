//! Files in inference-perf's format, converted to our flags. Keys that do not change the load have notes where they have no
//! counterpart; others without one are errors that name an alternative.
//!
//! Keys, values and defaults are those of inference-perf 0.7 (its `config` package). An absent key gets
//! inference-perf's default if that differs from ours: seeds from the time, a second of pause between stages, a folder
//! of reports.

mod agents;
mod api;
mod breakers;
mod conversations;
mod data;
mod distribution;
mod load;
mod media;
mod recordings;
mod report;
mod server;
mod service;

use std::ffi::OsString;

use crate::config::fields::Fields;
use crate::config::flags::{Flags, value_of};
use crate::config::yaml::{Fault, Key, Node, Place, Value};

use service::{CommandLine, Service};

/// Top-level keys that are not flags of ours.
const SECTIONS: &[&str] = &[
    "load",
    "data",
    "api",
    "server",
    "metrics",
    "storage",
    "tokenizer",
    "circuit_breakers",
    "lora_traffic_split",
    "stages",
];
/// A key that is one of our flags unless its value is a mapping.
const REPORT: &str = "report";

/// What of a file is in inference-perf's format: all of it, or its `config`, as in the values of its Helm chart, whose other keys are
/// about the cluster. With the names of those.
pub fn meant(root: &Node) -> Option<(&Node, Vec<&str>)> {
    if is_meant(root) {
        return Some((root, Vec::new()));
    }
    let Value::Map(entries) = &root.value else { return None };
    let (_, config) = entries.iter().find(|(key, node)| key.name == "config" && is_meant(node))?;
    let others = entries.iter().map(|(key, _)| key.name.as_str()).filter(|name| *name != "config");
    Some((config, others.collect()))
}

/// Whether a file is in inference-perf's format.
fn is_meant(root: &Node) -> bool {
    let Value::Map(entries) = &root.value else { return false };
    let is_theirs = |(key, node): &(Key, Node)| {
        SECTIONS.contains(&key.name.as_str()) || (key.name == REPORT && matches!(node.value, Value::Map(_)))
    };
    entries.iter().any(is_theirs)
}

/// The flags that a file means beside a command line, which may name another service.
///
/// # Errors
/// The first key or value that is not theirs, that has no counterpart, or whose counterpart takes no such value.
pub fn flags(command: &clap::Command, root: &Node, arguments: &[OsString]) -> Result<Flags, Fault> {
    let line = CommandLine::new(arguments);
    let mut flags = Flags::default();
    let mut top = Fields::new("", root)?;
    let split = top.take("lora_traffic_split").cloned();
    let stages = top.take("stages").cloned();
    let parts: Vec<(&str, Node)> = [("lora_traffic_split", split), ("stages", stages)]
        .into_iter()
        .filter_map(|(name, node)| Some((name, node?)))
        .collect();
    let section = load_section(top.take("load"), parts)?;
    let breakers = breakers::Breakers::read(top.take("circuit_breakers"))?;
    let service = line.service(server::is_mock(top.peek("server")));
    let load = load::Load::read(&section, &breakers, service, has_lengths(&top), &mut flags)?;
    server::server(top.take("server"), load.names_models, service, &mut flags)?;
    if service == Service::OpenAi {
        prompts(&mut top, &line, &mut flags)?;
    } else {
        other_data(&mut top, &line, service, &mut flags)?;
    }
    report::metrics(top.take("metrics"), service, &mut flags)?;
    let has_tokens = service == Service::OpenAi || line.has("tokens-from");
    report::report(top.take(REPORT), has_tokens, &mut flags)?;
    report::storage(top.take("storage"), &mut flags)?;
    // There, failures are counted but never end a run.
    flags.add("max-errors", "100%");
    top.finish()?;
    flags.check(command)?;
    Ok(flags)
}

/// The limit that inference-perf sends where its data have none: without one, a chat goes on to the end of the context.
const OUTPUT_TOKENS: u32 = 30;

/// Whether the data are as long as a trace says.
fn has_lengths(top: &Fields<'_>) -> bool {
    let Some(Node { value: Value::Map(entries), .. }) = top.peek("data") else { return false };
    entries.iter().any(|(key, node)| key.name == "trace" && node.value != Value::Null)
}

/// What requests to a server of language models carry.
fn prompts(top: &mut Fields<'_>, line: &CommandLine<'_>, flags: &mut Flags) -> Result<(), Fault> {
    let section = data_section(top, flags);
    match ["input-data", "prompt-tokens"].iter().find(|name| line.has(name)) {
        None => data::data(section, flags)?,
        Some(name) if section.is_some() => {
            flags.note(format!("data: ignored, because --{name} says what requests carry"))
        }
        Some(_) => {}
    }
    api::api(top.take("api"), flags)?;
    if !line.has("output-tokens") && lacks_limit(flags) {
        flags.add("output-tokens", OUTPUT_TOKENS);
    }
    data::tokenizer(top.take("tokenizer"), !line.has("tokenizer"), flags)
}

/// Whether the data say nothing of the length of answers: those of the type mock, and chats of a data set, which are sent whole.
fn lacks_limit(flags: &Flags) -> bool {
    let value = |name: &str| {
        let setting = flags.settings.iter().find(|setting| setting.name == name)?;
        setting.arguments.last().map(|word| value_of(word).to_string_lossy())
    };
    let endpoint = value("endpoint").unwrap_or_default();
    let is_chat = endpoint.ends_with("chat/completions") || endpoint.ends_with("messages");
    let has_none = |prompts: &str| prompts == data::MOCK.to_string() || (is_chat && prompts.starts_with("dataset:"));
    value("output-tokens").is_none()
        && !endpoint.ends_with("embeddings")
        && value("prompt-tokens").is_some_and(|prompts| has_none(&prompts))
}

/// The section `data`; in a file that has it a level too deep, that of `tokenizer`, which knows no such key.
fn data_section<'a>(top: &mut Fields<'a>, flags: &mut Flags) -> Option<&'a Node> {
    let misplaced = || {
        let Value::Map(entries) = &top.peek("tokenizer")?.value else { return None };
        entries.iter().find(|(key, _)| key.name == "data").map(|(_, node)| node)
    };
    let (section, misplaced) = (top.peek("data"), misplaced());
    top.take("data");
    if misplaced.is_some() {
        flags.note(match section {
            Some(_) => "tokenizer.data: ignored, because the file has the section data, too",
            None => "tokenizer.data: taken as the section data, which is a level higher",
        });
    }
    section.or(misplaced)
}

/// What requests to other services carry, which take no prompts: token counts of a trace, where the command line says what
/// these are for.
fn other_data(top: &mut Fields<'_>, line: &CommandLine<'_>, service: Service, flags: &mut Flags) -> Result<(), Fault> {
    let section = top.take("data");
    if let Some(node) = section
        && (line.has("trace-input") || line.has("trace-parameter"))
        && !flags.settings.iter().any(|setting| setting.name == "trace-replay")
    {
        let trace = Fields::new("data", node)?.take("trace");
        if let Some(trace) = trace {
            flags.at(trace.at).add("trace-lengths", load::trace_file("data.trace", trace)?);
        }
    }
    let ignored = [("data", section.is_some()), ("api", top.take("api").is_some())];
    let ignored: Vec<&str> = ignored.iter().filter(|(_, is_there)| *is_there).map(|(name, _)| *name).collect();
    top.take("tokenizer");
    match (service, ignored.join(" and ")) {
        (Service::Mock, ignored) => flags.note(format!(
            "server.type mock: the service that answers at once (--service-kind null) takes no prompts{}",
            if ignored.is_empty() { String::new() } else { format!(", so {ignored} are ignored") }
        )),
        (_, ignored) if !ignored.is_empty() => flags.note(format!(
            "{ignored}: for servers of language models (--service-kind openai), so ignored here; --input-data says what \
             requests carry"
        )),
        _ => {}
    }
    Ok(())
}

/// The section `load`, including parts of it at the top level, where inference-perf's documentation shows some.
fn load_section(load: Option<&Node>, parts: Vec<(&str, Node)>) -> Result<Node, Fault> {
    let mut section = load.cloned().unwrap_or(Node { at: Place::FIRST, value: Value::Map(Vec::new()) });
    if section.value == Value::Null {
        section.value = Value::Map(Vec::new());
    }
    for (name, node) in parts {
        let Value::Map(entries) = &mut section.value else { break };
        if load.is_some() {
            return Err(Fault::new(node.at, format!("'{name}' belongs in the section load, which the file has")));
        }
        entries.push((Key { name: name.to_owned(), at: node.at }, node));
    }
    Ok(section)
}
