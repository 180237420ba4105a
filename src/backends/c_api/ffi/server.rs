//! The server object: starts and queries it. [`super::ending`] stops it.

use std::os::raw::c_char;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use serde_json::Value;

use crate::c_api::ffi::forks;
use crate::c_api::ffi::library::Library;
use crate::c_api::ffi::options::ServerOptions;
use crate::c_api::ffi::start_log::StartLog;
use crate::c_api::ffi::status::c_string;
use crate::c_api::ffi::sys;
use crate::c_api::ffi::trace_buffer::TraceBuffer;
use crate::c_api::threads;
use crate::error::{Error, Result};
use crate::model::ModelId;
use crate::plan::{LogLevel, ServerLog, ServerPlan};

/// Every server of this process, until it is stopped.
pub(super) static RUNNING: Mutex<Vec<Arc<Server>>> = Mutex::new(Vec::new());

/// Number of models that are being loaded.
pub(super) static LOADING: AtomicUsize = AtomicUsize::new(0);

/// Whether any model is being loaded.
pub fn is_loading() -> bool {
    LOADING.load(Ordering::Relaxed) > 0
}

/// A running server. It runs until [`super::stop_servers`], even if this is dropped: stopping takes time and may fail,
/// so it comes after all output.
pub struct Server {
    pub(super) library: Arc<Library>,
    pub(super) pointer: *mut sys::TRITONSERVER_Server,
    options: ServerOptions,
    /// The log settings after the start.
    log: ServerLog,
    /// The log of the start, until the user's log is opened.
    start_log: Mutex<Option<StartLog>>,
    /// The models that were loaded by name; others are parts of them.
    pub(super) named: Mutex<Vec<String>>,
    /// Trace trace_buffers that no slot uses.
    pub(super) trace_buffers: Mutex<Vec<&'static TraceBuffer>>,
}

// SAFETY: the C API documents server-level calls as thread-safe; the options object is used under `&self` by the
// thread that sets the log only, and the library guards the logger itself.
unsafe impl Send for Server {}
// SAFETY: as above.
unsafe impl Sync for Server {}

/// Calls a function of this server that reports through an error object.
macro_rules! call {
    ($server:expr, $function:ident $(, $argument:expr)*) => {
        // SAFETY: the server is live, and pointers among the arguments are valid for the call.
        $server.library.check(unsafe { $server.library.api.$function($server.pointer $(, $argument)*) })
    };
}

impl Server {
    /// Loads the library and starts a server without any model. `log` is the plan's, modified for showing it; releases
    /// without log files use the plan's own.
    ///
    /// # Errors
    /// The library's or the server's message, once.
    pub fn start(plan: &ServerPlan, log: ServerLog) -> Result<Arc<Self>> {
        threads::note();
        forks::watch();
        let library = Library::open(&plan.directory)?;
        let options = ServerOptions::new(&library, plan)?;
        let log = if library.api.TRITONSERVER_ServerOptionsSetLogFile.is_ok() { log } else { plan.log.clone() };
        let start_log = if speaks_early(&plan.log) {
            options.apply_log(&log)?;
            None
        } else {
            StartLog::open(&options)
        };
        let mut pointer = ptr::null_mut();
        // SAFETY: the options are live; `pointer` receives a server that this value owns.
        let started = unsafe { library.api.TRITONSERVER_ServerNew(&raw mut pointer, options.pointer) };
        library.check(started).map_err(|status| Error::server(format!("Triton did not start: {}", status.message)))?;
        let start_log = Mutex::new(start_log);
        let server = Arc::new(Self {
            library,
            pointer,
            options,
            log,
            start_log,
            named: Mutex::default(),
            trace_buffers: Mutex::default(),
        });
        RUNNING.lock().push(Arc::clone(&server));
        Ok(server)
    }

    /// Loads a model and what it is composed of.
    ///
    /// # Errors
    /// Triton's reason.
    pub fn load(&self, model: &str) -> Result<()> {
        let name = c_string(model);
        LOADING.fetch_add(1, Ordering::Relaxed);
        let loaded = call!(self, TRITONSERVER_ServerLoadModel, name.as_ptr());
        LOADING.fetch_sub(1, Ordering::Relaxed);
        let mut named = self.named.lock();
        if !named.iter().any(|name| name == model) {
            named.push(model.to_owned());
        }
        drop(named);
        loaded.map_err(|status| {
            let logged = self.start_log.lock().as_ref().and_then(|log| log.reason(model));
            let reason = logged.as_deref().unwrap_or(status.message.trim_end());
            Error::server(format!("model '{model}' cannot be loaded: {reason}"))
        })
    }

    /// Switches Triton's log to the plan's settings.
    ///
    /// # Errors
    /// If the log file cannot be opened.
    pub fn open_log(&self) -> Result<()> {
        if let Some(start_log) = self.start_log.lock().take() {
            start_log.close(&self.options);
        }
        self.options.apply_log(&self.log)
    }

    /// Whether a model accepts requests. One that the server does not know does not.
    pub fn is_ready(&self, id: &ModelId) -> bool {
        let name = c_string(&id.name);
        let mut ready = false;
        call!(self, TRITONSERVER_ServerModelIsReady, name.as_ptr(), id.version_code(), &raw mut ready).is_ok() && ready
    }

    /// Why a loaded model is not ready, as its backend says. Only a verbose log has this, and only until the user's log is
    /// opened it is read here.
    pub fn unready_reason(&self, id: &ModelId) -> Option<String> {
        let start_log = self.start_log.lock();
        start_log.as_ref()?.reason_of_unready(&self.options, &id.name, || {
            let _ = self.is_ready(id);
        })
    }

    /// The server's own metadata.
    ///
    /// # Errors
    /// If the server refuses.
    pub fn metadata(&self) -> Result<Value> {
        let mut message = ptr::null_mut();
        call!(self, TRITONSERVER_ServerMetadata, &raw mut message)?;
        self.json(message)
    }

    /// Metadata of a model.
    ///
    /// # Errors
    /// If the model is unknown or not ready.
    pub fn model_metadata(&self, id: &ModelId) -> Result<Value> {
        let (name, mut message) = (c_string(&id.name), ptr::null_mut());
        call!(self, TRITONSERVER_ServerModelMetadata, name.as_ptr(), id.version_code(), &raw mut message)?;
        self.json(message)
    }

    /// Configuration of a model, including auto-completed parts.
    ///
    /// # Errors
    /// If the model is unknown or not ready.
    pub fn model_config(&self, id: &ModelId) -> Result<Value> {
        let (name, mut message) = (c_string(&id.name), ptr::null_mut());
        call!(self, TRITONSERVER_ServerModelConfig, name.as_ptr(), id.version_code(), 1, &raw mut message)?;
        self.json(message)
    }

    /// Statistics of a model, of all its versions if `id` names none.
    ///
    /// # Errors
    /// If the model is unknown or not ready.
    pub fn model_statistics(&self, id: &ModelId) -> Result<Value> {
        let (name, mut message) = (c_string(&id.name), ptr::null_mut());
        call!(self, TRITONSERVER_ServerModelStatistics, name.as_ptr(), id.version_code(), &raw mut message)?;
        self.json(message)
    }

    /// Whether requests can be traced.
    pub fn traces(&self) -> bool {
        TraceBuffer::is_possible(&self.library)
    }

    /// Every model of the repositories, with its state.
    ///
    /// # Errors
    /// If the server refuses.
    pub fn model_index(&self) -> Result<Value> {
        let mut message = ptr::null_mut();
        call!(self, TRITONSERVER_ServerModelIndex, 0, &raw mut message)?;
        self.json(message)
    }

    /// The server's metrics in Prometheus' text format.
    ///
    /// # Errors
    /// If metrics are switched off.
    pub fn metrics(&self) -> Result<String> {
        let mut metrics = ptr::null_mut();
        call!(self, TRITONSERVER_ServerMetrics, &raw mut metrics)?;
        let (mut base, mut size) = (ptr::null(), 0);
        // SAFETY: `metrics` is live; the text belongs to it and is copied before it is deleted.
        let formatted = unsafe {
            self.library.api.TRITONSERVER_MetricsFormatted(
                metrics,
                sys::METRICS_PROMETHEUS,
                &raw mut base,
                &raw mut size,
            )
        };
        // SAFETY: a successful call left `size` readable bytes at `base`.
        let text = self.library.check(formatted).map(|()| unsafe { copy_text(base, size) });
        // SAFETY: this call owns `metrics`; the text was copied.
        drop(self.library.check(unsafe { self.library.api.TRITONSERVER_MetricsDelete(metrics) }));
        Ok(text?)
    }

    fn json(&self, message: *mut sys::TRITONSERVER_Message) -> Result<Value> {
        let (mut base, mut size) = (ptr::null(), 0);
        // SAFETY: `message` is live; the text belongs to it and is copied before it is deleted.
        let error =
            unsafe { self.library.api.TRITONSERVER_MessageSerializeToJson(message, &raw mut base, &raw mut size) };
        // SAFETY: a successful call left `size` readable bytes at `base`.
        let text = self.library.check(error).map(|()| unsafe { copy_text(base, size) });
        // SAFETY: this call owns the message; the text was copied.
        drop(self.library.check(unsafe { self.library.api.TRITONSERVER_MessageDelete(message) }));
        serde_json::from_str(&text?)
            .map_err(|error| Error::server(format!("the server sent JSON that cannot be read: {error}")))
    }
}

/// Whether the user wants to see more than errors, or the log in a file: then the start is logged, too. Otherwise an
/// error at the start would be printed twice, by the log and by us.
fn speaks_early(log: &ServerLog) -> bool {
    log.level > LogLevel::Error || log.verbose > 0 || log.file.is_some()
}

/// # Safety
/// `size` bytes at `base` are readable.
unsafe fn copy_text(base: *const c_char, size: std::os::raw::c_ulong) -> String {
    // SAFETY: the caller promises `size` readable bytes.
    let bytes = unsafe { std::slice::from_raw_parts(base.cast::<u8>(), size as usize) };
    String::from_utf8_lossy(bytes).into_owned()
}
