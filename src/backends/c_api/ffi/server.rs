//! The server object: started, asked, and stopped.

use std::os::raw::c_char;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;

use crate::backends::c_api::ffi::library::Library;
use crate::backends::c_api::ffi::options::ServerOptions;
use crate::backends::c_api::ffi::start_log::StartLog;
use crate::backends::c_api::ffi::status::{Status, c_string};
use crate::backends::c_api::ffi::sys;
use crate::clock::Stamp;
use crate::error::{Error, Result};
use crate::model::ModelId;
use crate::plan::{LogLevel, ServerLog, ServerPlan};

/// A running server. Dropping it unloads its models and stops it.
pub struct Server {
    pub(super) library: Arc<Library>,
    pub(super) pointer: *mut sys::TRITONSERVER_Server,
    options: ServerOptions,
    /// The log of the start, until it is opened to the user.
    start_log: Option<StartLog>,
    /// When the last load ended.
    loaded_at: AtomicU64,
    /// The models that were asked for by name; others are parts of them.
    named: Mutex<Vec<String>>,
}

// SAFETY: the C API documents server-level calls as thread-safe; the options object is used under `&self` by the
// thread that sets the log only, and the library guards the logger itself.
unsafe impl Send for Server {}
// SAFETY: as above.
unsafe impl Sync for Server {}

/// How long models may take to go away before the server is stopped all the same.
const UNLOAD_LIMIT: Duration = Duration::from_secs(5);
/// Threads of the server still touch a model for a moment after its load has been reported; one that is unloaded under
/// them crashes the process. Only runs that end before they measured are held up by this.
const LOAD_SETTLES: Duration = Duration::from_millis(50);
/// How often it is looked whether they have.
const UNLOAD_POLL: Duration = Duration::from_micros(200);

/// Calls a function of this server that reports through an error object.
macro_rules! call {
    ($server:expr, $function:ident $(, $argument:expr)*) => {
        // SAFETY: the server is live, and pointers among the arguments are valid for the call.
        $server.library.check(unsafe { $server.library.api.$function($server.pointer $(, $argument)*) })
    };
}

impl Server {
    /// Loads the library and starts a server without any model.
    ///
    /// # Errors
    /// What the library or the server says, once.
    pub fn start(plan: &ServerPlan) -> Result<Self> {
        let library = Library::open(&plan.directory)?;
        let options = ServerOptions::new(&library, plan)?;
        let start_log = if speaks_early(&plan.log) {
            options.apply_log(&plan.log)?;
            None
        } else {
            StartLog::open(&options)
        };
        let mut pointer = ptr::null_mut();
        // SAFETY: the options are live; `pointer` receives a server that this value owns.
        let started = unsafe { library.api.TRITONSERVER_ServerNew(&raw mut pointer, options.pointer) };
        library.check(started).map_err(|status| Error::server(format!("Triton did not start: {}", status.message)))?;
        Ok(Self { library, pointer, options, start_log, loaded_at: AtomicU64::new(0), named: Mutex::default() })
    }

    /// Loads a model and what it is composed of.
    ///
    /// # Errors
    /// Triton's reason.
    pub fn load(&self, model: &str) -> Result<()> {
        let name = c_string(model);
        let loaded = call!(self, TRITONSERVER_ServerLoadModel, name.as_ptr());
        self.loaded_at.store(Stamp::now().0, Ordering::Relaxed);
        self.named.lock().push(model.to_owned());
        loaded.map_err(|status| {
            let logged = self.start_log.as_ref().and_then(|log| log.reason(model));
            let reason = logged.as_deref().unwrap_or(status.message.trim_end());
            Error::server(format!("model '{model}' cannot be loaded: {reason}"))
        })
    }

    /// Lets Triton's log speak as the plan says.
    ///
    /// # Errors
    /// Where the log file cannot be opened.
    pub fn open_log(&mut self, log: &ServerLog) -> Result<()> {
        if let Some(start_log) = self.start_log.take() {
            start_log.close(&self.options);
        }
        self.options.apply_log(log)
    }

    /// Whether a model takes requests.
    ///
    /// # Errors
    /// Where the server refuses to say.
    pub fn is_ready(&self, id: &ModelId) -> Result<bool> {
        let name = c_string(&id.name);
        let mut ready = false;
        call!(self, TRITONSERVER_ServerModelIsReady, name.as_ptr(), id.version_code(), &raw mut ready)?;
        Ok(ready)
    }

    /// The server's own metadata.
    ///
    /// # Errors
    /// Where the server refuses.
    pub fn metadata(&self) -> Result<Value> {
        let mut message = ptr::null_mut();
        call!(self, TRITONSERVER_ServerMetadata, &raw mut message)?;
        self.json(message)
    }

    /// Metadata of a model.
    ///
    /// # Errors
    /// Where the model is unknown or not ready.
    pub fn model_metadata(&self, id: &ModelId) -> Result<Value> {
        let (name, mut message) = (c_string(&id.name), ptr::null_mut());
        call!(self, TRITONSERVER_ServerModelMetadata, name.as_ptr(), id.version_code(), &raw mut message)?;
        self.json(message)
    }

    /// Configuration of a model, auto-completed parts included.
    ///
    /// # Errors
    /// Where the model is unknown or not ready.
    pub fn model_config(&self, id: &ModelId) -> Result<Value> {
        let (name, mut message) = (c_string(&id.name), ptr::null_mut());
        call!(self, TRITONSERVER_ServerModelConfig, name.as_ptr(), id.version_code(), 1, &raw mut message)?;
        self.json(message)
    }

    /// Statistics of a model, of all its versions if `id` names none.
    ///
    /// # Errors
    /// Where the model is unknown or not ready.
    pub fn model_statistics(&self, id: &ModelId) -> Result<Value> {
        let (name, mut message) = (c_string(&id.name), ptr::null_mut());
        call!(self, TRITONSERVER_ServerModelStatistics, name.as_ptr(), id.version_code(), &raw mut message)?;
        self.json(message)
    }

    /// Every model of the repositories, with its state.
    ///
    /// # Errors
    /// Where the server refuses.
    pub fn model_index(&self) -> Result<Value> {
        let mut message = ptr::null_mut();
        call!(self, TRITONSERVER_ServerModelIndex, 0, &raw mut message)?;
        self.json(message)
    }

    /// The server's metrics in Prometheus' text format.
    ///
    /// # Errors
    /// Where metrics are switched off.
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

    /// Unloads every model and waits until they are gone; a server that is stopped with models loaded takes a second.
    fn unload_all(&self) -> Result<(), Status> {
        let settled = Stamp(self.loaded_at.load(Ordering::Relaxed)).plus_duration(LOAD_SETTLES);
        thread::sleep(settled.from_now());
        let mut models: Vec<String> = self.loaded().into_iter().map(|(model, _)| model).collect();
        // Those that were named first: Triton complains of an ensemble that is left without its models.
        let named = self.named.lock();
        models.sort_by_key(|model| !named.contains(model));
        for model in models {
            let name = c_string(&model);
            if self.library.api.TRITONSERVER_ServerUnloadModelAndDependents.is_ok() {
                call!(self, TRITONSERVER_ServerUnloadModelAndDependents, name.as_ptr())?;
            } else {
                call!(self, TRITONSERVER_ServerUnloadModel, name.as_ptr())?;
            }
        }
        let started = Stamp::now();
        while Stamp::now() - started < UNLOAD_LIMIT && !self.loaded().is_empty() {
            thread::sleep(UNLOAD_POLL);
        }
        Ok(())
    }

    /// Models that are loaded, or on their way in or out, and their state.
    fn loaded(&self) -> Vec<(String, String)> {
        let index = self.model_index().unwrap_or_default();
        let entries = index.as_array().map_or(&[][..], Vec::as_slice);
        let state = |entry: &Value| entry["state"].as_str().unwrap_or_default().to_owned();
        let alive = entries.iter().filter(|entry| matches!(state(entry).as_str(), "READY" | "LOADING" | "UNLOADING"));
        alive.map(|entry| (entry["name"].as_str().unwrap_or_default().to_owned(), state(entry))).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.unload_all());
        drop(call!(self, TRITONSERVER_ServerStop));
        drop(call!(self, TRITONSERVER_ServerDelete));
    }
}

/// Whether the user asked to see more than errors, or to have them in a file: then the start is logged, too. Otherwise an
/// error of the start would be told twice, by the log and by us.
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
