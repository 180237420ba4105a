//! Section "Embedded server": settings of Triton in this process. Flags have the spelling of the server's own program.

use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{ArgAction, Args};

use crate::parsers::{Setting, device_bytes, open_setting, resource, setting};
use crate::plan::{INSTALL_DIRECTORY, INSTALL_VARIABLE, LogLevel, ServerLog, ServerPlan};
use crate::values::{boolean, filled, number, one_of, whole};

/// The largest number of threads that the server may be given.
const MAX_THREADS: u64 = 65_536;

/// Words of log levels.
const LEVELS: &[(&str, LogLevel)] =
    &[("none", LogLevel::None), ("error", LogLevel::Error), ("warning", LogLevel::Warning), ("info", LogLevel::Info)];

/// How Triton inside this process is set up.
#[derive(Args, Debug)]
#[command(next_help_heading = "Embedded server (--service-kind triton_c_api)")]
pub struct EmbeddedArgs {
    /// Where Triton is installed: holds lib/libtritonserver.so and backends/. Default: what the variable
    /// TRITON_SERVER_DIRECTORY names, /opt/tritonserver, or what scripts/quickstart has installed
    #[arg(long, value_name = "DIR")]
    triton_server_directory: Option<PathBuf>,

    /// Where the models are; repeat it for further repositories. Required
    #[arg(long, value_name = "DIR")]
    model_repository: Vec<PathBuf>,

    /// Where backends are. Default: backends in the install directory
    #[arg(long, value_name = "DIR")]
    backend_directory: Option<PathBuf>,

    /// A setting of a backend; without NAME, of all; repeat it for more. Default: none
    #[arg(long, value_name = "[NAME,]SETTING=VALUE", value_parser = open_setting)]
    backend_config: Vec<Setting>,

    /// Where repository agents are. Default: repoagents in the install directory
    #[arg(long, value_name = "DIR")]
    repoagent_directory: Option<PathBuf>,

    /// Where cache libraries are. Default: caches in the install directory
    #[arg(long, value_name = "DIR")]
    cache_directory: Option<PathBuf>,

    /// A setting of the response cache, such as `local,size=1048576`; repeat it for more. Default: no cache
    #[arg(long, value_name = "NAME,SETTING=VALUE", value_parser = setting)]
    cache_config: Vec<Setting>,

    /// Bytes of the pool of pinned memory. Default: the server's (256 MiB)
    #[arg(long, value_name = "BYTES", value_parser = whole::<u64>(0, u64::MAX))]
    pinned_memory_pool_byte_size: Option<u64>,

    /// Bytes of a GPU's memory pool; repeat it for further GPUs. Default: the server's (64 MiB each)
    #[arg(long, value_name = "GPU:BYTES", value_parser = device_bytes)]
    cuda_memory_pool_byte_size: Vec<(i32, u64)>,

    /// Bytes of a GPU's virtual addresses for growing implicit state; repeat it for further GPUs. Default: the
    /// server's (1 GiB)
    #[arg(long, value_name = "GPU:BYTES", value_parser = device_bytes)]
    cuda_virtual_address_size: Vec<(i32, u64)>,

    /// Minimum compute capability of the GPUs to use; 0 accepts any. Default: the server's
    #[arg(long, value_name = "VERSION", value_parser = number(0.0, 1000.0))]
    min_supported_compute_capability: Option<f64>,

    /// Whether the server schedules executions by the resources that models ask for
    #[arg(long, action = ArgAction::Set, value_name = "off|execution_count", default_value = "off",
        value_parser = one_of(&[("off", false), ("execution_count", true)]))]
    rate_limit: bool,

    /// Quantity of a rate-limiter resource, on one GPU or on each; repeat it for more. Default: as much as the models
    /// ask for
    #[arg(long, value_name = "NAME:COUNT[:GPU]", value_parser = resource)]
    rate_limit_resource: Vec<(String, u64, i32)>,

    /// A setting (numa-node, cpu-cores) of a host policy; repeat it for more. Default: none
    #[arg(long, value_name = "POLICY,SETTING=VALUE", value_parser = setting)]
    host_policy: Vec<Setting>,

    /// Threads that load models. Default: the server's (4)
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1, MAX_THREADS))]
    model_load_thread_count: Option<u32>,

    /// How often a failed load is retried
    #[arg(long, value_name = "N", default_value = "0", value_parser = whole::<u32>(0, 1_000_000))]
    model_load_retry_count: u32,

    /// Threads that gather and scatter tensors. Default: the server's (0: the calling thread does it)
    #[arg(long, value_name = "N", value_parser = whole::<u32>(0, MAX_THREADS))]
    buffer_manager_thread_count: Option<u32>,

    /// Whether GPUs may access each other's memory. Default: true
    #[arg(long, action = ArgAction::Set, value_name = "true|false", num_args = 0..=1, require_equals = true,
        default_value = "true",
        hide_default_value = true, default_missing_value = "true", value_parser = boolean)]
    enable_peer_access: bool,

    /// Whether a model's configuration must be complete; if not, the server completes it. Default: false
    #[arg(long, action = ArgAction::Set, value_name = "true|false", num_args = 0..=1, require_equals = true,
        default_value = "false",
        hide_default_value = true, default_missing_value = "true", value_parser = boolean)]
    strict_model_config: bool,

    /// Takes a model's configuration from configs/NAME.pbtxt if that exists. Default: config.pbtxt
    #[arg(long, value_name = "NAME", value_parser = filled)]
    model_config_name: Option<String>,

    /// Whether models of the same name in different repositories are kept apart. Default: false
    #[arg(long, action = ArgAction::Set, value_name = "true|false", num_args = 0..=1, require_equals = true,
        default_value = "false",
        hide_default_value = true, default_missing_value = "true", value_parser = boolean)]
    model_namespacing: bool,

    /// Minimum severity of the server's log, which goes to standard error with repeated lines folded
    #[arg(long, value_name = "none|error|warning|info", default_value = "error", value_parser = one_of(LEVELS))]
    log_level: LogLevel,

    /// Level of the server's verbose messages; 0: none
    #[arg(long, value_name = "N", default_value = "0", value_parser = whole::<u32>(0, 1000))]
    log_verbose: u32,

    /// Writes the server's log to a file. Default: standard error
    #[arg(long, value_name = "FILE")]
    log_file: Option<PathBuf>,

    /// Format of the server's log: its own, or with ISO 8601 timestamps
    #[arg(long, action = ArgAction::Set, value_name = "default|ISO8601", default_value = "default",
        value_parser = one_of(&[("default", false), ("ISO8601", true)]))]
    log_format: bool,

    /// Whether the server collects metrics. Default: off, with --collect-metrics on
    #[arg(long, value_name = "on|off", value_parser = boolean)]
    server_metrics: Option<bool>,

    /// A setting of the server's metrics; repeat it for more. Default: none
    #[arg(long, value_name = "[NAME,]SETTING=VALUE", value_parser = open_setting)]
    metrics_config: Vec<Setting>,

    /// Seconds that the server waits for requests when it stops; the program waits for it for 4 at most
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = whole::<u32>(0, 86_400))]
    exit_timeout_secs: u32,
}

/// Where Triton is if nobody says so.
pub fn installed() -> PathBuf {
    let program = env::current_exe().unwrap_or_default();
    let named = env::var_os(INSTALL_VARIABLE).filter(|name| !name.is_empty()).map(PathBuf::from);
    named.unwrap_or_else(|| found(Path::new(INSTALL_DIRECTORY), &program))
}

/// The usual folder, unless only the checkout that `program` was built in has a Triton.
fn found(usual: &Path, program: &Path) -> PathBuf {
    let has_library = |folder: &PathBuf| folder.join("lib/libtritonserver.so").exists();
    let unpacked = || program.ancestors().skip(1).map(|folder| folder.join(".triton/tritonserver")).find(has_library);
    Some(usual.to_owned()).filter(has_library).or_else(unpacked).unwrap_or_else(|| usual.to_owned())
}

impl EmbeddedArgs {
    /// The settings of the embedded server. If metrics are collected, the server keeps them and updates them as often
    /// as they are read.
    pub fn plan(&self, metrics_interval: Option<Duration>) -> ServerPlan {
        ServerPlan {
            directory: self.triton_server_directory.clone().unwrap_or_else(installed),
            repositories: self.model_repository.clone(),
            backend_directory: self.backend_directory.clone(),
            repo_agent_directory: self.repoagent_directory.clone(),
            cache_directory: self.cache_directory.clone(),
            backend_config: self.backend_config.clone(),
            cache_config: self.cache_config.clone(),
            pinned_pool_bytes: self.pinned_memory_pool_byte_size,
            cuda_pool_bytes: self.cuda_memory_pool_byte_size.clone(),
            cuda_virtual_address_bytes: self.cuda_virtual_address_size.clone(),
            min_compute_capability: self.min_supported_compute_capability,
            rate_limit: self.rate_limit,
            rate_limit_resources: self.rate_limit_resource.clone(),
            host_policies: self.host_policy.clone(),
            load_threads: self.model_load_thread_count,
            load_retries: self.model_load_retry_count,
            buffer_threads: self.buffer_manager_thread_count,
            peer_access: self.enable_peer_access,
            strict_config: self.strict_model_config,
            config_name: self.model_config_name.clone(),
            model_namespacing: self.model_namespacing,
            log: ServerLog {
                level: self.log_level,
                verbose: self.log_verbose,
                file: self.log_file.clone(),
                iso8601: self.log_format,
            },
            metrics: self.server_metrics.unwrap_or(metrics_interval.is_some()),
            metrics_interval,
            metrics_config: self.metrics_config.clone(),
            exit_timeout_s: self.exit_timeout_secs,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn triton_is_found_where_it_usually_is_and_else_in_the_checkout_of_the_program() {
        let folder = tempfile::tempdir().unwrap();
        let (usual, checkout) = (folder.path().join("opt"), folder.path().join("checkout"));
        let program = checkout.join("target/release/triton-bench");
        let install = |folder: &Path| {
            fs::create_dir_all(folder.join("lib")).unwrap();
            fs::write(folder.join("lib/libtritonserver.so"), "").unwrap();
        };
        assert_eq!(found(&usual, &program), usual, "there is none: the error names the usual place");
        install(&checkout.join(".triton/tritonserver"));
        assert_eq!(found(&usual, &program), checkout.join(".triton/tritonserver"));
        install(&usual);
        assert_eq!(found(&usual, &program), usual);
    }
}
