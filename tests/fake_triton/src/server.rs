//! The server's lifecycle: start, models, stop.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::abi::{EXPLICIT, INTERNAL, INVALID_ARG, NOT_FOUND, Status, UNAVAILABLE};
use crate::delivery::Delivery;
use crate::error::{OK, Parameter, fail, give, live, text};
use crate::ledger::{self, Kind, Object, lock, violation};
use crate::logger::{self, Level};
use crate::options::Options;
use crate::script::{ModelScript, Script};

/// Where a model is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loading {
    /// Never loaded.
    Never,
    /// Serving.
    Ready,
    /// Being unloaded for that many more looks.
    Unloading(u32),
    /// Unloaded.
    Unloaded,
    /// Its load failed.
    Failed,
}

/// A running server.
pub struct Server {
    pub script: Arc<Script>,
    pub delivery: Delivery,
    pub models: Mutex<BTreeMap<String, Loading>>,
    /// When each was loaded.
    loaded: Mutex<BTreeMap<String, Instant>>,
    explicit: bool,
    stopped: AtomicBool,
}

impl Object for Server {
    const KIND: Kind = Kind::Server;
}

static SCRIPT: Mutex<Option<Arc<Script>>> = Mutex::new(None);

/// The script in force, read if that has not been done yet.
pub fn current_script() -> Arc<Script> {
    Arc::clone(lock(&SCRIPT).get_or_insert_with(read_script))
}

fn read_script() -> Arc<Script> {
    let Some(path) = std::env::var_os("FAKE_TRITON_SCRIPT") else { return Arc::default() };
    let script = std::fs::read_to_string(&path).map_err(|error| error.to_string());
    match script.and_then(|script| Script::parse(&script)) {
        Ok(script) => Arc::new(script),
        Err(error) => {
            eprintln!("fake_triton: FAKE_TRITON_SCRIPT {}: {error}", path.display());
            std::process::abort()
        }
    }
}

impl Server {
    fn new(options: &Options, script: Arc<Script>) -> Result<Server, (c_int, String)> {
        let explicit = options.values("SetModelControlMode").last() == Some(&json!(EXPLICIT));
        let startup = options.values("SetStartupModel");
        let wanted = |name: &str| !explicit || startup.iter().any(|model| *model == "*" || *model == name);
        let unknown = startup.iter().find(|name| **name != "*" && !script.models.iter().any(|m| **name == m.name));
        if let Some(name) = unknown.filter(|_| explicit) {
            return Err((INTERNAL, format!("failed to load all models: {name} was not found in any repository")));
        }
        let delivery = Delivery::start(script.server.delivery_threads);
        let server = Server {
            script,
            delivery,
            models: Mutex::default(),
            loaded: Mutex::default(),
            explicit,
            stopped: AtomicBool::new(false),
        };
        let mut failures = Vec::new();
        for model in &server.script.models {
            lock(&server.models).insert(model.name.clone(), Loading::Never);
            if wanted(&model.name) {
                failures.extend(server.load(model).err());
            }
        }
        let exits = options.values("SetExitOnError").last() != Some(&json!(false));
        match failures.first().filter(|_| exits) {
            Some((_, message)) => Err((INTERNAL, format!("failed to load all models: {message}"))),
            None => Ok(server),
        }
    }

    fn load(&self, model: &ModelScript) -> Result<(), (c_int, String)> {
        let loading = if model.load_error.is_some() { Loading::Failed } else { Loading::Ready };
        lock(&self.models).insert(model.name.clone(), loading);
        lock(&self.loaded).insert(model.name.clone(), Instant::now());
        logger::say(&self.script.server, Level::Info, &format!("loading: {}:1", model.name));
        match &model.load_error {
            Some(failure) => Err((failure.code(), failure.message.clone())),
            None => Ok(()),
        }
    }

    /// Whether a model serves; `None` if there is none of that name.
    pub fn is_loaded(&self, name: &str) -> Option<bool> {
        lock(&self.models).get(name).map(|loading| *loading == Loading::Ready)
    }

    /// Whether a model that serves also is ready: from 25.12 on its backend may say that it is not
    /// (`TRITONBACKEND_ModelInstanceReady`), and a verbose log has why (core, `InferenceServer::ModelIsReady`).
    fn is_ready(&self, name: &str) -> bool {
        if self.is_loaded(name) != Some(true) {
            return false;
        }
        let unready = Duration::from_micros(self.model(name).map_or(0, |model| model.unready_us));
        let is_ready = lock(&self.loaded).get(name).is_none_or(|loaded| loaded.elapsed() >= unready);
        if !is_ready {
            let text = format!("Model '{name}' version 1 is not ready: its caches are being filled");
            logger::say(&self.script.server, Level::Verbose, &text);
        }
        is_ready
    }

    /// The script of a model.
    pub fn model(&self, name: &str) -> Option<&ModelScript> {
        self.script.models.iter().find(|model| model.name == name)
    }

    /// Whether the server is stopping.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(SeqCst)
    }

    fn stop(&self) -> Status {
        if self.stopped.swap(true, SeqCst) {
            return OK;
        }
        let (requests, in_flight) = (ledger::count(Kind::Request), self.delivery.shared.counters.in_flight());
        if requests > 0 || in_flight > 0 {
            violation(
                "stopped_with_live_requests",
                &format!("the server was stopped while {requests} requests existed and {in_flight} were in flight"),
            );
            return fail(INTERNAL, "Exit timeout expired. Exiting immediately.");
        }
        self.script.server.stop_error.as_ref().map_or(OK, |failure| fail(failure.code(), &failure.message))
    }

    fn control(&self, name: *const c_char, work: impl FnOnce(&ModelScript) -> Status) -> Status {
        if !self.explicit {
            return fail(UNAVAILABLE, "explicit model load / unload is not allowed if polling is enabled");
        }
        match self.model(text(name)) {
            Some(model) => work(model),
            None => fail(NOT_FOUND, &format!("failed to load '{}', no such model", text(name))),
        }
    }

    fn load_by_name(&self, name: *const c_char) -> Status {
        self.control(name, |model| self.load(model).map_or_else(|(code, message)| fail(code, &message), |()| OK))
    }

    fn unload(&self, name: *const c_char) -> Status {
        self.control(name, |model| {
            let polls = self.script.server.unload_polls;
            let state = if polls == 0 { Loading::Unloaded } else { Loading::Unloading(polls) };
            lock(&self.models).insert(model.name.clone(), state);
            OK
        })
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_ServerNew(server: *mut *mut Server, options: *mut Options) -> Status {
    ledger::reopen_log();
    let script = read_script();
    *lock(&SCRIPT) = Some(Arc::clone(&script));
    let options = live!(options, "ServerNew");
    ledger::log(&json!({"event": "server_new", "options": options.calls()}));
    std::thread::sleep(Duration::from_micros(script.server.start_delay_us));
    if let Some(failure) = &script.server.error {
        return fail(failure.code(), &failure.message);
    }
    match Server::new(options, script) {
        Err((code, message)) => fail(code, &message),
        Ok(new) => {
            give(server, ledger::create(new));
            OK
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_ServerStop(server: *mut Server) -> Status {
    live!(server, "ServerStop").stop()
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_ServerDelete(server: *mut Server) -> Status {
    let Some(server) = ledger::destroy(server, "ServerDelete") else {
        return fail(INVALID_ARG, "ServerDelete: dead handle");
    };
    let status = server.stop();
    server.delivery.stop();
    let counters: Value = server.delivery.shared.counters.to_json();
    ledger::log(&json!({"event": "server_delete", "live": ledger::live(), "counters": counters}));
    if ledger::count(Kind::Server) == 0 && status.is_null() {
        ledger::check_leaks();
    }
    status
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_ServerSetExitTimeout(server: *mut Server, _seconds: c_uint) -> Status {
    live!(server, "ServerSetExitTimeout");
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_ServerLoadModel(server: *mut Server, name: *const c_char) -> Status {
    live!(server, "ServerLoadModel").load_by_name(name)
}

/// The parameters of the load play no part.
#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_ServerLoadModelWithParameters(
    server: *mut Server,
    name: *const c_char,
    parameters: *const *const Parameter,
    count: u64,
) -> Status {
    for index in 0..count as usize {
        // SAFETY: the client passes an array of that length.
        live!(unsafe { *parameters.add(index) }, "ServerLoadModelWithParameters");
    }
    live!(server, "ServerLoadModelWithParameters").load_by_name(name)
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_ServerUnloadModel(server: *mut Server, name: *const c_char) -> Status {
    live!(server, "ServerUnloadModel").unload(name)
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_ServerUnloadModelAndDependents(server: *mut Server, name: *const c_char) -> Status {
    live!(server, "ServerUnloadModelAndDependents").unload(name)
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_ServerPollModelRepository(server: *mut Server) -> Status {
    live!(server, "ServerPollModelRepository");
    fail(UNAVAILABLE, "polling is disabled")
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_ServerIsLive(server: *mut Server, is: *mut bool) -> Status {
    let server = live!(server, "ServerIsLive");
    if server.is_stopped() {
        return fail(UNAVAILABLE, "Server exiting");
    }
    give(is, server.script.server.live);
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_ServerIsReady(server: *mut Server, is: *mut bool) -> Status {
    let server = live!(server, "ServerIsReady");
    if server.is_stopped() {
        return fail(UNAVAILABLE, "Server exiting");
    }
    give(is, server.script.server.ready);
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_ServerModelIsReady(
    server: *mut Server,
    name: *const c_char,
    version: i64,
    is: *mut bool,
) -> Status {
    let server = live!(server, "ServerModelIsReady");
    let has = server.model(text(name)).is_some_and(|m| version == -1 || m.versions.contains(&version.to_string()));
    give(is, has && server.is_ready(text(name)));
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_ServerModelBatchProperties(
    server: *mut Server,
    name: *const c_char,
    _version: i64,
    flags: *mut u32,
    userp: *mut *mut c_void,
) -> Status {
    properties(server, name, flags, userp, |model| if model.batching() { 2 } else { 1 })
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_ServerModelTransactionProperties(
    server: *mut Server,
    name: *const c_char,
    _version: i64,
    flags: *mut u32,
    userp: *mut *mut c_void,
) -> Status {
    properties(server, name, flags, userp, |model| if model.decoupled() { 2 } else { 1 })
}

fn properties(
    server: *mut Server,
    name: *const c_char,
    flags: *mut u32,
    userp: *mut *mut c_void,
    property: impl FnOnce(&ModelScript) -> u32,
) -> Status {
    let server = live!(server, "a model's properties");
    let Some(model) = server.model(text(name)).filter(|_| server.is_loaded(text(name)) == Some(true)) else {
        return fail(NOT_FOUND, &format!("Request for unknown model: '{}' is not found", text(name)));
    };
    give(flags, property(model));
    give(userp, std::ptr::null_mut());
    OK
}
