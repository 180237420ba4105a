//! Files in Model Analyzer's format (its `profile` command), converted to flags of `tune`: a run for each model. Keys
//! about how Model Analyzer works are ignored with a note; keys for searches that do not exist here are errors.
//!
//! Keys, values and defaults are those of Model Analyzer 1.44's `profile` command.

mod goals;
mod searched;

use std::path::Path;

use crate::cli::config::fields::{Fields, text};
use crate::cli::config::flags::{Flags, Setting, setting};
use crate::cli::config::yaml::{Fault, Key, Node, Value};

use goals::Goals;
use searched::{Bounds, Loads};

/// The key that identifies the format.
const MODELS: &str = "profile_models";
/// Keys about how Model Analyzer works, not about what is searched.
const IDLE: &[&str] = &[
    "always_report_gpu_metrics",
    "analysis_models",
    "checkpoint_directory",
    "client_max_retries",
    "client_protocol",
    "collect_cpu_metrics",
    "concurrency_sweep_disable",
    "cpu_only",
    "duration_seconds",
    "early_exit_enable",
    "filename_model_gpu",
    "filename_model_inference",
    "filename_server_only",
    "gpu_output_fields",
    "gpus",
    "inference_output_fields",
    "log_level",
    "monitoring_interval",
    "num_configs_per_model",
    "num_top_model_configs",
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
    "run_config_search_disable",
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
    "triton_grpc_endpoint",
    "triton_metrics_url",
    "triton_output_path",
    "triton_server_path",
    "verbose",
];

/// What the file says of all models, where a model says nothing of its own.
struct Usual<'a> {
    goals: Goals<'a>,
    loads: Loads<'a>,
    bounds: Bounds,
    /// Flags of perf_analyzer.
    flags: Option<&'a Node>,
    /// Where results go.
    folder: Option<&'a str>,
}

/// Whether a file is in Model Analyzer's format.
pub fn is_meant(root: &Node) -> bool {
    matches!(&root.value, Value::Map(entries) if entries.iter().any(|(key, _)| key.name == MODELS))
}

/// The flags that a file means.
pub struct Searches {
    /// Those of all models.
    pub common: Flags,
    /// Each model's own, by its name.
    pub models: Vec<(Key, Vec<Setting>)>,
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
    let mut top = Fields::of("", root)?;
    let mut common = Flags::default();
    server(&mut top, &mut common)?;
    let models = top.take(MODELS);
    let usual = Usual {
        goals: Goals::take(&mut top)?,
        loads: Loads::take(&mut top),
        bounds: Bounds::take(&mut top)?,
        flags: top.take("perf_analyzer_flags"),
        folder: top.text("export_path")?,
    };
    composing(&mut top, &mut common)?;
    refuse(&mut top)?;
    idle(&mut top, &mut common);
    top.finish()?;
    common.check(command)?;
    let models = models.map(listed).transpose()?.unwrap_or_default();
    if models.is_empty() {
        return Err(Fault::new(root.at, format!("'{MODELS}' names no model")));
    }
    let each = models.into_iter().map(|(key, node)| Ok((key.clone(), model(command, &usual, (key, node))?)));
    Ok(Searches { common, models: each.collect::<Result<_, Fault>>()? })
}

/// Where the server is.
fn server(top: &mut Fields<'_>, flags: &mut Flags) -> Result<(), Fault> {
    let launch = top.word("triton_launch_mode", &["local", "docker", "remote", "c_api"])?;
    let (repository, endpoint) = (top.text("model_repository")?, top.text("triton_http_endpoint")?);
    let installed = top.text("triton_install_path")?;
    if launch == Some("remote") {
        flags.of(top, "triton_http_endpoint").add("url", endpoint.unwrap_or("localhost:8000"));
        flags.of(top, "triton_launch_mode").add("protocol", "http");
        return Ok(());
    }
    if let Some(mode) = launch.filter(|mode| *mode != "c_api") {
        flags.note(format!("triton_launch_mode {mode}: the models are loaded in this process"));
    }
    repository.into_iter().for_each(|path| flags.of(top, "model_repository").add("model-repository", path));
    installed.into_iter().for_each(|path| flags.of(top, "triton_install_path").add("triton-server-directory", path));
    Ok(())
}

/// The models that a BLS model calls; those of an ensemble are found automatically.
fn composing(top: &mut Fields<'_>, flags: &mut Flags) -> Result<(), Fault> {
    for key in ["ensemble_composing_models", "cpu_only_composing_models"] {
        if top.take(key).is_some() {
            flags.note(format!("{key}: the models that an ensemble calls are found automatically"));
        }
    }
    let Some(node) = top.take("bls_composing_models") else { return Ok(()) };
    let names: Vec<String> = listed(node)?.into_iter().map(|(key, _)| key.name).collect();
    flags.at(node.at).add("bls-composing-models", names.join(","));
    Ok(())
}

/// Refuses searches that do not exist here.
fn refuse(fields: &mut Fields<'_>) -> Result<(), Fault> {
    fields.refuse("triton_server_flags", "give the server's flags as ours, on the command line (--help)")?;
    fields.refuse("triton_server_environment", "set the variables for this process")?;
    fields.refuse("genai_perf_flags", "tune measures requests, not tokens: leave it out")?;
    fields.refuse("model_type", "tune measures requests, not tokens: leave it out")?;
    fields.refuse("weighting", "each model is searched by itself: leave it out")?;
    fields.refuse("model_variant_name_report_disable", "leave it out")
}

/// Notes ignored keys.
fn idle(fields: &mut Fields<'_>, flags: &mut Flags) {
    let found: Vec<&str> = IDLE.iter().copied().filter(|key| fields.take(key).is_some()).collect();
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

/// A model's own flags.
fn model(command: &clap::Command, usual: &Usual<'_>, (key, node): (Key, Option<&Node>)) -> Result<Vec<Setting>, Fault> {
    let empty = Node { at: key.at, value: Value::Null };
    let mut own = Fields::of(format!("{MODELS}.{}", key.name), node.unwrap_or(&empty))?;
    let mut flags = Flags::default();
    flags.at(key.at).add("model", &key.name);
    if let Some(folder) = usual.folder {
        flags.add("output", Path::new(folder).join(format!("tune-{}", key.name)).display());
    }
    let mut loads = usual.loads;
    if let Some(mut parameters) = own.section("parameters")? {
        loads = Loads::take(&mut parameters).or(loads);
        parameters.finish()?;
    }
    let goals = Goals::take(&mut own)?.or(&usual.goals);
    goals.flags(&mut flags)?;
    loads.flags(&usual.bounds, &mut flags)?;
    match own.take("model_config_parameters") {
        Some(node) => searched::parameters(node, &mut flags)?,
        None => usual.bounds.flags(&mut flags),
    }
    let own_flags = own.take("perf_analyzer_flags").or(usual.flags);
    refuse(&mut own)?;
    own.take("cpu_only");
    own.finish()?;
    flags.check(command)?;
    for (key, node) in own_flags.map(Node::map).transpose()?.unwrap_or_default() {
        flags.settings.push(setting(command, key, node)?);
    }
    Ok(flags.settings)
}

/// A scalar as a number of at least `least`.
fn number(node: &Node, least: f64) -> Result<f64, Fault> {
    let number = text(node).and_then(|text| text.parse::<f64>().ok()).filter(|number| number.is_finite());
    let number = number.filter(|number| *number >= least);
    number.ok_or_else(|| Fault::new(node.at, format!("a number of at least {least} is needed")))
}
