//! Files in Model Analyzer's format (its `profile` command), converted to flags of `tune`: a run for each model. Keys
//! about how Model Analyzer works are ignored with a note; keys for searches that do not exist here are errors.
//!
//! Keys, values and defaults are those of Model Analyzer 1.58's `profile` command.

mod goals;
mod loads;
mod passed;
mod searched;

use std::path::Path;

use crate::config::fields::Fields;
use crate::config::flags::Flags;
use crate::config::yaml::{Fault, Key, Node, Value};

use goals::Goals;
use loads::{Bounds, Loads};
use searched::Searched;

/// The key that identifies the format.
const MODELS: &str = "profile_models";
/// Keys about how Model Analyzer works, not about what is searched.
const IDLE: &[&str] = &[
    "always_report_gpu_metrics",
    "analysis_models",
    "checkpoint_directory",
    "client_max_retries",
    "collect_cpu_metrics",
    "concurrency_sweep_disable",
    "config_file",
    "cpu_only",
    "dcgm_disable",
    "duration_seconds",
    "early_exit_enable",
    "filename_model_gpu",
    "filename_model_inference",
    "filename_server_only",
    "genai_perf_flags",
    "gpu_output_fields",
    "gpus",
    "inference_output_fields",
    "log_level",
    "max_percentage_of_search_space",
    "min_percentage_of_search_space",
    "model_variant_name_report_disable",
    "monitoring_interval",
    "num_configs_per_model",
    "num_top_model_configs",
    "optuna_early_exit_threshold",
    "optuna_max_trials",
    "optuna_min_trials",
    "output_model_repository_path",
    "override_output_model_repository",
    "perf_analyzer_cpu_util",
    "perf_analyzer_max_auto_adjusts",
    "perf_analyzer_path",
    "perf_analyzer_timeout",
    "perf_output",
    "perf_output_path",
    "plots",
    "reload_model_disable",
    "report_model_configs",
    "run_config_profile_models_concurrently_enable",
    "run_config_search_disable",
    "run_config_search_max_binary_search_steps",
    "run_config_search_mode",
    "server_output_fields",
    "skip_detailed_reports",
    "skip_summary_reports",
    "summarize",
    "triton_docker_args",
    "triton_docker_image",
    "triton_docker_labels",
    "triton_docker_mounts",
    "triton_docker_shm_size",
    "triton_metrics_url",
    "triton_output_path",
    "triton_server_path",
    "use_concurrency_formula",
    "verbose",
    "weighting",
];

/// What the file says of all models, where a model says nothing of its own.
struct Usual<'a> {
    goals: Goals<'a>,
    loads: Loads<'a>,
    bounds: Bounds,
    passed: Passed<'a>,
    /// Where results go.
    folder: Option<&'a str>,
    /// Models that the searched ones call, with what is searched of them.
    called: Vec<(Key, &'a Node)>,
    /// Whether the server runs elsewhere.
    is_remote: bool,
}

/// What is passed on to perf_analyzer and to the server.
struct Passed<'a> {
    perf_analyzer: Option<&'a Node>,
    server: Option<&'a Node>,
    environment: Option<&'a Node>,
}

impl<'a> Passed<'a> {
    fn take(fields: &mut Fields<'a>) -> Self {
        Self {
            perf_analyzer: fields.take("perf_analyzer_flags"),
            server: fields.take("triton_server_flags"),
            environment: fields.take("triton_server_environment"),
        }
    }

    /// Adds a model's own, and those of all models that it does not name itself.
    fn flags(&self, usual: &Usual<'_>, command: &clap::Command, flags: &mut Flags) -> Result<(), Fault> {
        if let Some(node) = merged(self.perf_analyzer, usual.passed.perf_analyzer)? {
            passed::perf_analyzer(command, &node, flags)?;
        }
        if let Some(node) = merged(self.server, usual.passed.server)? {
            passed::server(command, &node, usual.is_remote, flags)?;
        }
        match merged(self.environment, usual.passed.environment)? {
            Some(node) => passed::environment(&node, flags),
            None => Ok(()),
        }
    }
}

/// A mapping, and over it another.
fn merged(over: Option<&Node>, below: Option<&Node>) -> Result<Option<Node>, Fault> {
    let (Some(over), Some(below)) = (over, below) else { return Ok(over.or(below).cloned()) };
    let entries = over.map()?;
    let others = below.map()?.iter().filter(|(key, _)| !entries.iter().any(|(name, _)| name.name == key.name));
    Ok(Some(Node { at: over.at, value: Value::Map(entries.iter().chain(others).cloned().collect()) }))
}

/// Keys that tell a file of theirs which leaves its models to the command line.
const TELLING: &[&str] = &[
    MODELS,
    "batch_sizes",
    "constraints",
    "model_repository",
    "objectives",
    "perf_analyzer_flags",
    "triton_launch_mode",
    "triton_server_flags",
];
/// How further such keys begin.
const SEARCH: &str = "run_config_search_";

/// Whether a file is in Model Analyzer's format.
pub fn is_meant(root: &Node) -> bool {
    let tells = |key: &Key| TELLING.contains(&key.name.as_str()) || key.name.starts_with(SEARCH);
    matches!(&root.value, Value::Map(entries) if entries.iter().any(|(key, _)| tells(key)))
}

/// The flags that a file means.
pub struct Searches {
    /// Those of all models.
    pub common: Flags,
    /// Each model's own, by its name.
    pub models: Vec<(Key, Flags)>,
}

/// The flags that a file means.
///
/// # Errors
/// If `command` is not one that searches; the first key or value that is not theirs, or that has no counterpart.
pub fn searches(command: &clap::Command, root: &Node) -> Result<Searches, Fault> {
    if command.get_arguments().all(|arg| arg.get_long() != Some("search")) {
        let rule = "the file is in Model Analyzer's format, and describes a search: use triton-bench tune --config \
            FILE";
        return Err(Fault::new(root.at, rule));
    }
    let mut top = Fields::new("", root)?;
    let mut common = Flags::default();
    let is_remote = server(&mut top, &mut common)?;
    let names_models = top.peek(MODELS).is_some();
    let models = top.take(MODELS);
    let usual = Usual {
        goals: Goals::take(&mut top)?,
        loads: Loads::take(&mut top),
        bounds: Bounds::take(&mut top)?,
        passed: Passed::take(&mut top),
        folder: top.text("export_path")?,
        called: called(&mut top, &mut common)?,
        is_remote,
    };
    let kind = top.choice("model_type", &["generic", "LLM"])?;
    if kind == Some("LLM") {
        let rule = "'model_type: LLM' has no counterpart: tune measures requests, not tokens; leave it out";
        return Err(Fault::new(top.place("model_type"), rule));
    }
    note_without_effect(&mut top, &mut common);
    top.finish()?;
    common.check(command)?;
    if !names_models {
        let flags = model(command, &usual, Key { name: String::new(), at: root.at }, None)?;
        common.settings.extend(flags.settings);
        common.notes.extend(flags.notes);
        return Ok(Searches { common, models: Vec::new() });
    }
    let models = models.map(listed).transpose()?.unwrap_or_default();
    if models.is_empty() {
        return Err(Fault::new(root.at, format!("'{MODELS}' names no model")));
    }
    let flags_by_model = models.into_iter().map(|(key, node)| Ok((key.clone(), model(command, &usual, key, node)?)));
    Ok(Searches { common, models: flags_by_model.collect::<Result<_, Fault>>()? })
}

/// Where the server is; whether it runs elsewhere.
fn server(top: &mut Fields<'_>, flags: &mut Flags) -> Result<bool, Fault> {
    let launch = top.choice("triton_launch_mode", &["local", "docker", "remote", "c_api"])?;
    let (repository, installed) = (top.text("model_repository")?, top.text("triton_install_path")?);
    let protocol = top.choice("client_protocol", &["http", "grpc"])?;
    let (http, grpc) = (top.text("triton_http_endpoint")?, top.text("triton_grpc_endpoint")?);
    if launch == Some("remote") {
        // Model Analyzer's usual protocol, unless only the other's address is known.
        let by_http = protocol.map_or(grpc.is_none() && http.is_some(), |protocol| protocol == "http");
        let (key, url, usual) = match by_http {
            true => ("triton_http_endpoint", http, "localhost:8000"),
            false => ("triton_grpc_endpoint", grpc, "localhost:8001"),
        };
        flags.at_key(top, key).add("url", url.unwrap_or(usual));
        flags.at_key(top, "client_protocol").add("protocol", if by_http { "http" } else { "grpc" });
        return Ok(true);
    }
    if let Some(mode) = launch.filter(|mode| *mode != "c_api") {
        flags.note(format!("triton_launch_mode {mode}: the models are loaded in this process"));
    }
    repository.into_iter().for_each(|path| flags.at_key(top, "model_repository").add("model-repository", path));
    installed
        .into_iter()
        .for_each(|path| flags.at_key(top, "triton_install_path").add("triton-server-directory", path));
    Ok(false)
}

/// What is searched of the models that an ensemble or a BLS model calls. Those of an ensemble are found automatically.
fn called<'a>(top: &mut Fields<'a>, flags: &mut Flags) -> Result<Vec<(Key, &'a Node)>, Fault> {
    let mut searched = Vec::new();
    if top.take("cpu_only_composing_models").is_some() {
        flags.note("cpu_only_composing_models: give these models KIND_CPU in their configurations");
    }
    for key in ["ensemble_composing_models", "bls_composing_models"] {
        let Some(node) = top.take(key) else { continue };
        let models = listed(node)?;
        if key == "bls_composing_models" {
            let names: Vec<&str> = models.iter().map(|(key, _)| key.name.as_str()).collect();
            flags.at(node.at).add("bls-composing-models", names.join(","));
        }
        for (model, node) in models {
            let Some(node) = node.filter(|node| node.value != Value::Null) else { continue };
            let mut fields = Fields::new(format!("{key}.{}", model.name), node)?;
            searched.extend(fields.take("model_config_parameters").map(|node| (model, node)));
            note_without_effect(&mut fields, flags);
            fields.finish()?;
        }
    }
    Ok(searched)
}

/// Notes ignored keys.
fn note_without_effect(fields: &mut Fields<'_>, flags: &mut Flags) {
    let found: Vec<&str> = IDLE.iter().copied().filter(|key| fields.take(key).is_some()).collect();
    let found: Vec<String> = found.into_iter().map(|key| fields.name(key)).collect();
    if !found.is_empty() {
        flags.note(format!("{}: settings of Model Analyzer itself, ignored here", found.join(", ")));
    }
}

/// Names with their values: from a text with commas, a list or a mapping.
fn listed(node: &Node) -> Result<Vec<(Key, Option<&Node>)>, Fault> {
    let key = |name: &str| Key { name: name.trim().to_owned(), at: node.at };
    match &node.value {
        Value::Text(names) => Ok(names.split(',').map(|name| (key(name), None)).collect()),
        Value::List(list) => Ok(list.iter().map(listed).collect::<Result<Vec<_>, Fault>>()?.concat()),
        Value::Map(entries) => Ok(entries.iter().map(|(key, node)| (key.clone(), Some(node))).collect()),
        _ => Err(Fault::new(node.at, format!("names of models are needed, not {}", node.kind()))),
    }
}

/// A model's own flags. One without a name is the command line's.
fn model(command: &clap::Command, usual: &Usual<'_>, key: Key, node: Option<&Node>) -> Result<Flags, Fault> {
    let empty = Node { at: key.at, value: Value::Null };
    let mut fields = Fields::new(format!("{MODELS}.{}", key.name), node.unwrap_or(&empty))?;
    let mut flags = Flags::default();
    if !key.name.is_empty() {
        flags.at(key.at).add("model", &key.name);
    }
    if let Some(folder) = usual.folder {
        let name = if key.name.is_empty() { "tune".to_owned() } else { format!("tune-{}", key.name) };
        flags.add("output", Path::new(folder).join(name).display());
    }
    let mut loads = usual.loads;
    if let Some(mut parameters) = fields.section("parameters")? {
        loads = Loads::take(&mut parameters).or(loads);
        parameters.finish()?;
    }
    Goals::take(&mut fields)?.or(&usual.goals).flags(&mut flags)?;
    loads.flags(&usual.bounds, &mut flags)?;
    let is_searched = match fields.take("model_config_parameters") {
        Some(node) => Searched { called: None }.parameters(node, &mut flags).map(|()| true)?,
        None => usual.bounds.flags(&mut flags),
    };
    for (model, node) in &usual.called {
        Searched { called: Some(&model.name) }.parameters(node, &mut flags)?;
    }
    if fields.switch("cpu_only")? == Some(true) {
        processors_only(&fields, is_searched, &mut flags);
    }
    let passed = Passed::take(&mut fields);
    note_without_effect(&mut fields, &mut flags);
    fields.finish()?;
    flags.check(command)?;
    passed.flags(usual, command, &mut flags)?;
    Ok(flags)
}

/// `cpu_only`: instances are on processors, where the search has settings of its own and says nothing else.
fn processors_only(fields: &Fields<'_>, is_searched: bool, flags: &mut Flags) {
    let is_kind = |word: &std::ffi::OsString| word.to_string_lossy().contains("=instance_group");
    let searched = flags.settings.iter().filter(|setting| setting.name == "search");
    if searched
        .flat_map(|setting| &setting.arguments)
        .any(|word| is_kind(word) && word.to_string_lossy().contains("kind"))
    {
        return;
    }
    match is_searched {
        true => flags.at_key(fields, "cpu_only").add("search", "instance_group[].kind=KIND_CPU"),
        false => flags.note(format!(
            "{}: where the model's own configuration says nothing, Triton decides: name KIND_CPU there",
            fields.name("cpu_only")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::yaml;

    #[test]
    fn files_without_models_are_told_by_their_other_keys() {
        let is_theirs = |text: &str| is_meant(&yaml::read(text).unwrap());
        for text in
            ["objectives: [perf_latency_p99]", "{batch_sizes: 1}", "{constraints: {perf_latency_p99: {max: 5}}}"]
        {
            assert!(is_theirs(text), "{text}");
        }
        for text in ["{objective: p99, constraint: p99<=5ms}", "{batch-size: 1}", "[objectives]"] {
            assert!(!is_theirs(text), "{text}");
        }
    }
}
