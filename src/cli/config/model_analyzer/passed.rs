//! What Model Analyzer passes on to the programs that it starts: `perf_analyzer_flags`, `triton_server_flags` and
//! `triton_server_environment`.

use crate::config::flags::{Flags, Setting, setting};
use crate::config::yaml::{Fault, Key, Node, Value};

/// Flags of perf_analyzer that say how long it measures, and when it believes what it has measured; a search does so for each of
/// its candidates.
const LENGTH: &[&str] = &[
    "binary-search",
    "latency-threshold",
    "max-trials",
    "measurement-mode",
    "measurement-request-count",
    "request-count",
    "stability-percentage",
];
/// Flags that say what it shows, writes and looks at meanwhile, and those that Model Analyzer sets itself.
const ELSEWHERE: &[&str] = &[
    "collect-metrics",
    "extra-verbose",
    "latency-report-file",
    "metrics-interval",
    "metrics-url",
    "model-name",
    "verbose",
    "verbose-csv",
];
/// The flags of the server that an embedded one has, too.
const SERVER: &str = "Embedded server (--service-kind triton_c_api)";

/// Adds flags of perf_analyzer.
///
/// # Errors
/// If there is no such flag, or it takes no such value.
pub fn perf_analyzer(command: &clap::Command, node: &Node, flags: &mut Flags) -> Result<(), Fault> {
    let (mut lengths, mut others) = (Vec::new(), Vec::new());
    for (key, node) in node.map()? {
        match key.name.as_str() {
            name if LENGTH.contains(&name) => lengths.push(name),
            name if ELSEWHERE.contains(&name) => others.push(name),
            "http-header" => {
                flags.settings.push(placed(command, &Key { name: "header".to_owned(), ..key.clone() }, node)?)
            }
            _ => flags.settings.push(placed(command, key, node)?),
        }
    }
    if !lengths.is_empty() {
        let rule = "a search decides itself how long it measures each candidate, so these have no effect";
        flags.note(format!("perf_analyzer_flags: {}: {rule}", lengths.join(", ")));
    }
    if !others.is_empty() {
        flags.note(format!("perf_analyzer_flags: {}: no effect on a search", others.join(", ")));
    }
    Ok(())
}

/// A flag, and where it stands.
fn placed(command: &clap::Command, key: &Key, node: &Node) -> Result<Setting, Fault> {
    let of_file = setting(command, key, node)?;
    Ok(Setting { meant_at: vec![node.at; of_file.arguments.len()], ..of_file })
}

/// Adds flags of the server, where one is started: those of its network ends say nothing in this process.
///
/// # Errors
/// If a flag takes no such value.
pub fn server(command: &clap::Command, node: &Node, is_remote: bool, flags: &mut Flags) -> Result<(), Fault> {
    let is_ours = |name: &str| {
        let arg = command.get_arguments().find(|arg| arg.get_long() == Some(name));
        !is_remote && arg.is_some_and(|arg| arg.get_help_heading() == Some(SERVER))
    };
    let mut unused = Vec::new();
    for (key, node) in node.map()? {
        let name = key.name.replace('_', "-");
        let level = |on: bool| Value::Text(u8::from(on).to_string());
        match (&node.value, is_ours(&name)) {
            (_, false) => unused.push(key.name.as_str()),
            // The server's switch is a level here.
            (Value::Bool(on), true) if name == "log-verbose" => {
                let node = Node { at: node.at, value: level(*on) };
                flags.settings.push(placed(command, &Key { name, at: key.at }, &node)?);
            }
            _ => flags.settings.push(placed(command, &Key { name, at: key.at }, node)?),
        }
    }
    if !unused.is_empty() {
        let rule = if is_remote { "the server is there already" } else { "the models are loaded in this process" };
        flags.note(format!("triton_server_flags: {}: no effect, because {rule}", unused.join(", ")));
    }
    Ok(())
}

/// Notes variables of the server's environment that are not set in this process, whose environment the server has.
///
/// # Errors
/// If it is no mapping.
pub fn environment(node: &Node, flags: &mut Flags) -> Result<(), Fault> {
    let is_missing = |(key, node): &&(Key, Node)| {
        let set = std::env::var(&key.name).ok();
        !matches!((&node.value, set), (Value::Text(text), Some(set)) if *text == set)
    };
    let missing: Vec<&str> = node.map()?.iter().filter(is_missing).map(|(key, _)| key.name.as_str()).collect();
    if !missing.is_empty() {
        let rule = "the server is in this process: set them before it starts";
        flags.note(format!("triton_server_environment: {}: {rule}", missing.join(", ")));
    }
    Ok(())
}
