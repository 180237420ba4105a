//! Files in inference-perf's format, converted to our flags. Keys without a counterpart are errors that name an
//! alternative.
//!
//! Keys, values and defaults are those of inference-perf 0.7 (its `config` package). An absent key gets
//! inference-perf's default if that differs from ours: seeds from the time, a second of pause between stages, a folder
//! of reports.

mod api;
mod breakers;
mod data;
mod load;
mod report;
mod server;

use crate::cli::config::fields::Fields;
use crate::cli::config::flags::Flags;
use crate::cli::config::yaml::{Fault, Key, Node, Place, Value};

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

/// Whether a file is in inference-perf's format.
pub fn is_meant(root: &Node) -> bool {
    let Value::Map(entries) = &root.value else { return false };
    let is_theirs = |(key, node): &(Key, Node)| {
        SECTIONS.contains(&key.name.as_str()) || (key.name == REPORT && matches!(node.value, Value::Map(_)))
    };
    entries.iter().any(is_theirs)
}

/// The flags that a file means.
///
/// # Errors
/// The first key or value that is not theirs, that has no counterpart, or whose counterpart takes no such value.
pub fn flags(command: &clap::Command, root: &Node) -> Result<Flags, Fault> {
    let mut flags = Flags::default();
    let mut top = Fields::of("", root)?;
    let split = top.take("lora_traffic_split").cloned();
    let stages = top.take("stages").cloned();
    let parts: Vec<(&str, Node)> = [("lora_traffic_split", split), ("stages", stages)]
        .into_iter()
        .filter_map(|(name, node)| Some((name, node?)))
        .collect();
    let section = load_section(top.take("load"), parts)?;
    let breakers = breakers::Breakers::read(top.take("circuit_breakers"))?;
    let is_mock = server::is_mock(top.peek("server"));
    let load = load::Load::read(&section, &breakers, is_mock, &mut flags)?;
    server::server(top.take("server"), load.names_models, &mut flags)?;
    if is_mock {
        let given = [top.take("data").is_some(), top.take("api").is_some()].contains(&true);
        flags.note(format!(
            "server.type mock: the service that answers at once (--service-kind null) takes no prompts{}",
            if given { ", so data and api are ignored" } else { "" }
        ));
    } else {
        data::data(top.take("data"), &mut flags)?;
        api::api(top.take("api"), &mut flags)?;
    }
    report::metrics(top.take("metrics"))?;
    report::report(top.take(REPORT), &mut flags)?;
    report::storage(top.take("storage"), &mut flags)?;
    // There, failures are counted but never end a run.
    flags.add("max-errors", "100%");
    top.refuse(
        "tokenizer",
        "a name on a model hub is not a file: leave it out, and name the model's tokenizer.json with --tokenizer",
    )?;
    top.finish()?;
    flags.check(command)?;
    Ok(flags)
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
