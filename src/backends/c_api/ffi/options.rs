//! Server options: every setting of a [`ServerPlan`], passed to C one by one.

use std::os::raw::c_int;
use std::path::Path;
use std::ptr;
use std::sync::Arc;

use crate::c_api::ffi::library::Library;
use crate::c_api::ffi::status::c_string;
use crate::c_api::ffi::sys;
use crate::c_api::repository::is_remote;
use crate::error::{Error, Result};
use crate::plan::{LogLevel, ServerLog, ServerPlan};

/// An owned options object.
pub struct ServerOptions {
    library: Arc<Library>,
    pub(super) pointer: *mut sys::TRITONSERVER_ServerOptions,
}

/// Calls an options setter with C arguments; yields `Result<(), Status>` turned into the crate's error.
macro_rules! set {
    ($options:expr, $function:ident $(, $argument:expr)*) => {
        // SAFETY: the options object is live, and arguments are plain values or C strings that outlive the call, which copies them.
        $options.library.check(unsafe { $options.library.api.$function($options.pointer $(, $argument)*) }).map_err(Error::from)
    };
}

/// Like `set!`, for a function that older releases lack: using such a flag there is an error that names it.
macro_rules! set_newer {
    ($options:expr, $flag:literal, $function:ident $(, $argument:expr)*) => {
        match $options.library.api.$function {
            Ok(_) => set!($options, $function $(, $argument)*),
            Err(_) => Err(Error::server(concat!($flag, ": this Triton release has no ", stringify!($function), "; leave the flag out or use a newer release"))),
        }
    };
}

impl ServerOptions {
    /// The plan's options, with Triton's log switched off until [`ServerOptions::apply_log`].
    pub fn new(library: &Arc<Library>, plan: &ServerPlan) -> Result<Self> {
        let mut pointer = ptr::null_mut();
        // SAFETY: `pointer` receives an object that this value owns from now on.
        library.check(unsafe { library.api.TRITONSERVER_ServerOptionsNew(&raw mut pointer) })?;
        let options = Self { library: Arc::clone(library), pointer };
        options.apply_log(&ServerLog { level: LogLevel::None, ..plan.log.clone() })?;
        options.set_repositories(plan)?;
        options.set_directories(plan)?;
        options.set_models(plan)?;
        options.set_memory(plan)?;
        options.set_scheduling(plan)?;
        options.set_metrics(plan)?;
        Ok(options)
    }

    /// Sets the process-wide logger; takes effect at once.
    pub fn apply_log(&self, log: &ServerLog) -> Result<()> {
        set!(self, TRITONSERVER_ServerOptionsSetLogInfo, log.level >= LogLevel::Info)?;
        set!(self, TRITONSERVER_ServerOptionsSetLogWarn, log.level >= LogLevel::Warning)?;
        set!(self, TRITONSERVER_ServerOptionsSetLogError, log.level >= LogLevel::Error)?;
        let verbose = if log.level == LogLevel::None { 0 } else { c_int::try_from(log.verbose).unwrap_or(c_int::MAX) };
        set!(self, TRITONSERVER_ServerOptionsSetLogVerbose, verbose)?;
        if log.iso8601 {
            set_newer!(self, "--log-format", TRITONSERVER_ServerOptionsSetLogFormat, sys::LOG_ISO8601)?;
        }
        if let Some(file) = &log.file {
            let file = path(file);
            set_newer!(self, "--log-file", TRITONSERVER_ServerOptionsSetLogFile, file.as_ptr())?;
        }
        Ok(())
    }

    fn set_repositories(&self, plan: &ServerPlan) -> Result<()> {
        for repository in &plan.repositories {
            let absolute = match std::path::absolute(repository) {
                Ok(absolute) if !is_remote(repository) => absolute,
                _ => repository.clone(),
            };
            let repository = path(&absolute);
            set!(self, TRITONSERVER_ServerOptionsSetModelRepositoryPath, repository.as_ptr())?;
        }
        set!(self, TRITONSERVER_ServerOptionsSetModelControlMode, sys::MODEL_CONTROL_EXPLICIT)
    }

    fn set_directories(&self, plan: &ServerPlan) -> Result<()> {
        let inside = |chosen: &Option<std::path::PathBuf>, name: &str| {
            path(&chosen.clone().unwrap_or_else(|| plan.directory.join(name)))
        };
        let backends = inside(&plan.backend_directory, "backends");
        set!(self, TRITONSERVER_ServerOptionsSetBackendDirectory, backends.as_ptr())?;
        if self.library.api.TRITONSERVER_ServerOptionsSetRepoAgentDirectory.is_ok() {
            let agents = inside(&plan.repo_agent_directory, "repoagents");
            set!(self, TRITONSERVER_ServerOptionsSetRepoAgentDirectory, agents.as_ptr())?;
        }
        if self.library.api.TRITONSERVER_ServerOptionsSetCacheDirectory.is_ok() {
            let caches = inside(&plan.cache_directory, "caches");
            set!(self, TRITONSERVER_ServerOptionsSetCacheDirectory, caches.as_ptr())?;
        }
        Ok(())
    }

    fn set_models(&self, plan: &ServerPlan) -> Result<()> {
        set!(self, TRITONSERVER_ServerOptionsSetStrictModelConfig, plan.strict_config)?;
        set!(self, TRITONSERVER_ServerOptionsSetExitTimeout, plan.exit_timeout_s)?;
        for (backend, setting, value) in &plan.backend_config {
            let [backend, setting, value] = [backend, setting, value].map(|part| c_string(part));
            set!(self, TRITONSERVER_ServerOptionsSetBackendConfig, backend.as_ptr(), setting.as_ptr(), value.as_ptr())?;
        }
        for (cache, settings) in cache_settings(&plan.cache_config) {
            let [cache, settings] = [cache, settings].map(|part| c_string(&part));
            set_newer!(
                self,
                "--cache-config",
                TRITONSERVER_ServerOptionsSetCacheConfig,
                cache.as_ptr(),
                settings.as_ptr()
            )?;
        }
        if let Some(name) = &plan.config_name {
            let name = c_string(name);
            set_newer!(self, "--model-config-name", TRITONSERVER_ServerOptionsSetModelConfigName, name.as_ptr())?;
        }
        if plan.model_namespacing {
            set_newer!(self, "--model-namespacing", TRITONSERVER_ServerOptionsSetModelNamespacing, true)?;
        }
        if let Some(threads) = plan.load_threads {
            set_newer!(self, "--model-load-thread-count", TRITONSERVER_ServerOptionsSetModelLoadThreadCount, threads)?;
        }
        // Set even without the flag: the library leaves this member uninitialised.
        if plan.load_retries > 0 || self.library.api.TRITONSERVER_ServerOptionsSetModelLoadRetryCount.is_ok() {
            set_newer!(
                self,
                "--model-load-retry-count",
                TRITONSERVER_ServerOptionsSetModelLoadRetryCount,
                plan.load_retries
            )?;
        }
        Ok(())
    }

    fn set_memory(&self, plan: &ServerPlan) -> Result<()> {
        if let Some(bytes) = plan.pinned_pool_bytes {
            set_newer!(
                self,
                "--pinned-memory-pool-byte-size",
                TRITONSERVER_ServerOptionsSetPinnedMemoryPoolByteSize,
                bytes
            )?;
        }
        for &(device, bytes) in &plan.cuda_pool_bytes {
            set_newer!(
                self,
                "--cuda-memory-pool-byte-size",
                TRITONSERVER_ServerOptionsSetCudaMemoryPoolByteSize,
                device,
                bytes
            )?;
        }
        for &(device, bytes) in &plan.cuda_virtual_address_bytes {
            set_newer!(
                self,
                "--cuda-virtual-address-size",
                TRITONSERVER_ServerOptionsSetCudaVirtualAddressSize,
                device,
                bytes
            )?;
        }
        if let Some(capability) = plan.min_compute_capability {
            set_newer!(
                self,
                "--min-supported-compute-capability",
                TRITONSERVER_ServerOptionsSetMinSupportedComputeCapability,
                capability
            )?;
        }
        if let Some(threads) = plan.buffer_threads {
            set_newer!(
                self,
                "--buffer-manager-thread-count",
                TRITONSERVER_ServerOptionsSetBufferManagerThreadCount,
                threads
            )?;
        }
        // Set even without the flag: the library leaves this member uninitialised.
        if !plan.peer_access || self.library.api.TRITONSERVER_ServerOptionsSetEnablePeerAccess.is_ok() {
            set_newer!(self, "--enable-peer-access", TRITONSERVER_ServerOptionsSetEnablePeerAccess, plan.peer_access)?;
        }
        Ok(())
    }

    fn set_scheduling(&self, plan: &ServerPlan) -> Result<()> {
        if plan.rate_limit {
            set_newer!(self, "--rate-limit", TRITONSERVER_ServerOptionsSetRateLimiterMode, sys::RATE_LIMIT_EXEC_COUNT)?;
        } else if self.library.api.TRITONSERVER_ServerOptionsSetRateLimiterMode.is_ok() {
            set!(self, TRITONSERVER_ServerOptionsSetRateLimiterMode, sys::RATE_LIMIT_OFF)?;
        }
        for (resource, count, device) in &plan.rate_limit_resources {
            let resource = c_string(resource);
            set_newer!(
                self,
                "--rate-limit-resource",
                TRITONSERVER_ServerOptionsAddRateLimiterResource,
                resource.as_ptr(),
                *count,
                *device
            )?;
        }
        for (policy, setting, value) in &plan.host_policies {
            let [policy, setting, value] = [policy, setting, value].map(|part| c_string(part));
            set_newer!(
                self,
                "--host-policy",
                TRITONSERVER_ServerOptionsSetHostPolicy,
                policy.as_ptr(),
                setting.as_ptr(),
                value.as_ptr()
            )?;
        }
        Ok(())
    }

    fn set_metrics(&self, plan: &ServerPlan) -> Result<()> {
        if plan.metrics || self.library.api.TRITONSERVER_ServerOptionsSetMetrics.is_ok() {
            set_newer!(self, "--server-metrics", TRITONSERVER_ServerOptionsSetMetrics, plan.metrics)?;
        }
        if self.library.api.TRITONSERVER_ServerOptionsSetGpuMetrics.is_ok() {
            set!(self, TRITONSERVER_ServerOptionsSetGpuMetrics, plan.metrics)?;
        }
        if self.library.api.TRITONSERVER_ServerOptionsSetCpuMetrics.is_ok() {
            set!(self, TRITONSERVER_ServerOptionsSetCpuMetrics, plan.metrics)?;
        }
        if let Some(interval) = plan.metrics_interval
            && self.library.api.TRITONSERVER_ServerOptionsSetMetricsInterval.is_ok()
        {
            let milliseconds = u64::try_from(interval.as_millis()).unwrap_or(u64::MAX);
            set!(self, TRITONSERVER_ServerOptionsSetMetricsInterval, milliseconds)?;
        }
        for (name, setting, value) in &plan.metrics_config {
            let [name, setting, value] = [name, setting, value].map(|part| c_string(part));
            set_newer!(
                self,
                "--metrics-config",
                TRITONSERVER_ServerOptionsSetMetricsConfig,
                name.as_ptr(),
                setting.as_ptr(),
                value.as_ptr()
            )?;
        }
        Ok(())
    }
}

impl Drop for ServerOptions {
    fn drop(&mut self) {
        // SAFETY: this value owns the object; the server copied what it needs.
        drop(self.library.check(unsafe { self.library.api.TRITONSERVER_ServerOptionsDelete(self.pointer) }));
    }
}

/// Settings grouped by cache, as the JSON object of strings that the C API expects.
fn cache_settings(config: &[(String, String, String)]) -> Vec<(String, String)> {
    let mut caches: Vec<(String, serde_json::Map<String, serde_json::Value>)> = Vec::new();
    for (cache, setting, value) in config {
        let index = caches.iter().position(|(name, _)| name == cache).unwrap_or_else(|| {
            caches.push((cache.clone(), serde_json::Map::new()));
            caches.len() - 1
        });
        caches[index].1.insert(setting.clone(), value.as_str().into());
    }
    caches.into_iter().map(|(name, settings)| (name, serde_json::Value::Object(settings).to_string())).collect()
}

fn path(path: &Path) -> std::ffi::CString {
    c_string(&path.to_string_lossy())
}
