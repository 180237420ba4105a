//! Triton in our own process: `libtritonserver.so` is loaded and called directly, without a network.

#[allow(unsafe_code)]
mod ffi;
mod fold;
mod loaded;
mod log;
mod missing;
mod python_models;
mod readiness;
mod repository;
mod threads;

use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ffi::{ExchangeTables, Server, Slots, SlotsSpec};
pub use ffi::{allow_exit, halt_servers, stop_servers};
pub use log::flush as flush_log;
pub use missing::missing_backend;

use parking_lot::Mutex;
use serde_json::Value;

use crate::backend::{
    Backend, Capabilities, Client, ClientSpec, CompletionSink, IndexEntry, ModelControl, Request, ServerIdentity,
    SlotId, Threading, release,
};
use crate::c_api::missing::explained;
use crate::c_api::readiness::await_ready;
use crate::clock::Stamp;
use crate::error::{Error, Result};
use crate::model::statistics::StatisticsSnapshot;
use crate::model::{ModelId, ModelSpec, Scheduler};
use crate::model_list::{ListedModel, names};
use crate::plan::{ServerPlan, Target};
use crate::processes;
use crate::shm;
use crate::stdio::{self, note};
use crate::triton_json;

/// The embedded server.
pub struct TritonInProcess {
    server: Arc<Server>,
    /// Version of the core, such as (2, 51).
    version: (u32, u32),
    /// The target's models whose sequences are iterative.
    iterative: Vec<ModelId>,
    tables: Arc<ExchangeTables>,
    /// How long a loaded model may take to become ready.
    server_wait: Duration,
}

/// The python backend's setting for the prefix of its regions' names.
const PYTHON_REGION_SETTING: &str = "shm-region-prefix-name";

/// How the server in this process, or a backend in it, ends the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    /// The process dies once this is dealt with.
    Crash,
    /// It called `exit`, and the calling thread is stopped.
    Exit,
}

/// What the program does about it.
static ON_DEATH: OnceLock<fn(Death)> = OnceLock::new();
/// The models that were loaded, for the message.
static MODELS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// How long a program that leaves at once waits for loading threads to reach the gate before `fork`.
const REST_LIMIT: Duration = Duration::from_millis(300);

/// The releases before 25.08, whose python backend starts processes in a shell. A build that names no version may be of any.
const USE_A_SHELL: Range<(u32, u32)> = (0, 1)..(2, 60);

/// The first release in which request objects of `model` may be issued again. Before it, every reuse adds another
/// internal release callback: for ensembles and sequences before 25.09, for iterative sequences before 25.11.
fn reusable_from(model: &ModelSpec, iterative: &[ModelId]) -> (u32, u32) {
    match model.scheduler {
        Scheduler::Sequence if iterative.contains(&model.id) => (2, 63),
        Scheduler::Sequence | Scheduler::Ensemble => (2, 61),
        Scheduler::Default | Scheduler::Dynamic => (0, 0),
    }
}

impl TritonInProcess {
    /// Starts the server with only the target's models loaded.
    ///
    /// # Errors
    /// The library's or Triton's own reason.
    pub fn start(target: &Target) -> Result<Self> {
        let models = || target.bls_composing.iter().chain(target.models());
        repository::check(&target.server.repositories, models())?;
        python_models::check_scripts(&target.server, models().map(|model| &*model.name))?;
        let server = start_server(target)?;
        let version = version_of(&server)?;
        if USE_A_SHELL.contains(&version) {
            python_models::check_paths(&target.server, models().map(|model| &*model.name))?;
        }
        for model in models() {
            let loaded = load(&server, &model.name);
            let loaded = loaded.map_err(|error| explain(&server, &target.server, &model.name, error));
            loaded.map_err(|error| explained(error, &target.server))?;
        }
        let server_wait = target.connection.server_wait;
        for model in target.models() {
            await_ready(&server, model, server_wait)?;
        }
        server.open_log()?;
        let mut iterative = Vec::new();
        for model in target.models() {
            let config = server.model_config(model)?;
            if config["sequence_batching"]["iterative_sequence"].as_bool().unwrap_or(false) {
                iterative.push(model.clone());
            }
        }
        Ok(Self { server, version, iterative, tables: Arc::default(), server_wait })
    }

    /// Every model of the repositories (or only `only`), each loaded to learn its properties, or why it cannot be
    /// loaded.
    ///
    /// # Errors
    /// The library's or Triton's own reason.
    pub fn survey(target: &Target, only: Option<&str>) -> Result<Vec<ListedModel>> {
        let server = start_server(target)?;
        let uses_shell = USE_A_SHELL.contains(&version_of(&server)?);
        let check = |name: &str| {
            python_models::check_scripts(&target.server, [name])?;
            if uses_shell { python_models::check_paths(&target.server, [name]) } else { Ok(()) }
        };
        let offer = |name: String| {
            let loaded = check(&name).and_then(|()| load(&server, &name));
            let loaded = loaded.and_then(|()| describe(&server, &ModelId::latest(&name)));
            ListedModel { model: loaded.map_err(|error| explained(error, &target.server).to_string()), name }
        };
        Ok(names(&index(&server)?, only).into_iter().map(offer).collect())
    }

    fn may_reuse(&self, models: &[ModelSpec]) -> bool {
        models.iter().all(|model| self.version >= reusable_from(model, &self.iterative))
    }
}

/// A server without models.
fn start_server(target: &Target) -> Result<Arc<Server>> {
    let mut plan = target.server.clone();
    if !plan.backend_config.iter().any(|config| config.1 == PYTHON_REGION_SETTING) {
        // So the next run knows whose they are, if this one is killed.
        let prefix = format!("{}python-", shm::own_prefix());
        plan.backend_config.push(("python".to_owned(), PYTHON_REGION_SETTING.to_owned(), prefix));
    }
    for (_, _, prefix) in plan.backend_config.iter().filter(|config| config.1 == PYTHON_REGION_SETTING) {
        processes::expect_regions(prefix);
    }
    let shown_log = log::shown(&plan.log);
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| ffi::watch_for_crashes(log::unshown(), crashed));
    base::debug!("starting the server in {} with {:?}", plan.directory.display(), plan.repositories);
    let server = Server::start(&plan, shown_log)?;
    watch_exits();
    Ok(server)
}

fn version_of(server: &Server) -> Result<(u32, u32)> {
    Ok(release(server.metadata()?["version"].as_str().unwrap_or_default()))
}

fn load(server: &Server, model: &str) -> Result<()> {
    let mut models = MODELS.lock();
    if !models.iter().any(|name| name == model) {
        models.push(model.to_owned());
    }
    drop(models);
    let begun = Stamp::now();
    let loaded = server.load(model);
    base::debug!("model '{model}' took {:?} to load: {:?}", Stamp::now() - begun, loaded.as_ref().err());
    watch_exits();
    loaded
}

/// Calls `act` if the server takes the process with it: on its own thread for a crash, else on the one that calls `exit`.
pub fn on_death(act: fn(Death)) {
    let _ = ON_DEATH.set(act);
}

/// What a backend registers when it is loaded must not be taken down while the program still uses it.
fn watch_exits() {
    if ON_DEATH.get().is_some() {
        ffi::watch_exits(exited);
    }
}

/// Whether the server is taking the process with it.
pub fn is_dying() -> bool {
    ffi::is_caught() || ffi::has_crashed()
}

fn exited(how: &str) {
    stdio::give_way();
    log::flush();
    note!("error: {} called {how}(), which ends this process; what was measured is kept", suspects());
    die(Death::Exit);
}

fn crashed(signal: i32) {
    stdio::give_way();
    log::flush();
    // The handler of this signal tells a backend's crash from a file that was cut short.
    if signal != libc::SIGBUS {
        note!("error: the process crashed ({}), most likely in {}", ffi::crash_name(signal), suspects());
        die(Death::Crash);
    }
    clean_up();
}

fn die(death: Death) {
    if let Some(act) = ON_DEATH.get() {
        act(death);
    }
}

fn suspects() -> String {
    let models = MODELS.try_lock_for(REST_LIMIT).map(|models| models.join("', '")).unwrap_or_default();
    if models.is_empty() { "Triton".to_owned() } else { format!("Triton or the backend of '{models}'") }
}

fn describe(server: &Server, id: &ModelId) -> Result<ModelSpec> {
    triton_json::model(id, &server.model_metadata(id)?, &server.model_config(id)?)
}

fn index(server: &Server) -> Result<Vec<IndexEntry>> {
    serde_json::from_value(server.model_index()?)
        .map_err(|error| Error::server(format!("the server's index of models cannot be read: {error}")))
}

/// Adds the available models to the error, if the repositories do not contain the requested one. The server's index
/// lacks models that it cannot load, too.
fn explain(server: &Server, plan: &ServerPlan, model: &str, error: Error) -> Error {
    let names = names(&index(server).unwrap_or_default(), None);
    let is_there = plan.repositories.iter().any(|repository| repository.join(model).is_dir());
    if is_there || names.iter().any(|name| name == model) {
        return error;
    }
    let there = if names.is_empty() { "no model".to_owned() } else { names.join(", ") };
    Error::server(format!("{error}; --model-repository holds {there}"))
}

/// Cleans up what this process would leave behind in a crash.
fn clean_up() {
    ffi::close_forks();
    processes::end_all();
    processes::unlink_regions();
    shm::unlink_all();
}

/// Keeps the server from starting processes, and from crashing when those that it has started are gone.
pub fn prevent_forks() {
    ffi::stop_crashes();
    ffi::close_forks();
}

/// Removes the shared memory of this process' python models. Threads that load models may be about to create some, so
/// it waits for them to reach the gate before `fork`.
pub fn unlink_python_regions() {
    if ffi::is_loading() {
        threads::await_rest(REST_LIMIT);
    }
    processes::unlink_regions();
}

impl Backend for TritonInProcess {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            service_kind: "TRITON_C_API",
            threading: Threading::Own,
            client_times: None,
            cancels_alone: false,
            statistics: true,
        }
    }

    fn model(&self, id: &ModelId) -> Result<ModelSpec> {
        describe(&self.server, id)
    }

    fn index(&self) -> Result<Vec<IndexEntry>> {
        index(&self.server)
    }

    fn server(&self) -> Option<ServerIdentity> {
        let metadata = self.server.metadata().ok()?;
        let word = |name: &str| metadata[name].as_str().map(str::to_owned);
        let identity = ServerIdentity::new(word("name"), word("version"))?;
        Some(ServerIdentity { backends: loaded::backends(), ..identity })
    }

    fn statistics(&self, id: &ModelId) -> Result<StatisticsSnapshot> {
        triton_json::statistics(&self.server.model_statistics(id)?)
    }

    fn metrics(&self, _: usize, line: &mut dyn FnMut(&str)) -> Result<()> {
        self.server.metrics()?.lines().for_each(line);
        Ok(())
    }

    fn traces(&self) -> bool {
        self.server.traces()
    }

    fn reload(&self, _: &[ModelId]) -> Result<bool> {
        self.server.reload().map(|()| true)
    }

    fn control(&self) -> Option<&dyn ModelControl> {
        Some(self)
    }

    fn is_dying(&self) -> bool {
        is_dying()
    }

    fn open_client(&self, spec: ClientSpec, sink: Arc<dyn CompletionSink>) -> Result<Box<dyn Client>> {
        let spec = SlotsSpec {
            server: Arc::clone(&self.server),
            may_reuse: self.may_reuse(&spec.models),
            must_keep_data: spec.models.iter().any(|model| model.response_cache),
            tables: Arc::clone(&self.tables),
            client: spec,
        };
        Ok(Box::new(InProcessClient { slots: Slots::open(spec, sink)? }))
    }
}

impl ModelControl for TritonInProcess {
    fn configuration(&self, id: &ModelId) -> Result<Value> {
        self.server.model_config(id)
    }

    fn load(&self, model: &str, configuration: Option<&Value>, _limit: Duration) -> Result<()> {
        let loaded = self.server.load_as(model, configuration);
        watch_exits();
        loaded?;
        await_ready(&self.server, &ModelId::latest(model), self.server_wait)
    }
}

/// One worker's client: a set of slots whose requests complete on the server's threads.
struct InProcessClient {
    slots: Slots,
}

impl Client for InProcessClient {
    fn grow(&mut self, slots: usize) -> Result<()> {
        self.slots.grow(slots)
    }

    fn submit(&mut self, slot: SlotId, request: Request) -> Result<()> {
        self.slots.submit(slot, request)
    }

    fn drive(&mut self, _deadline: Stamp) -> Result<()> {
        Ok(())
    }

    fn cancel(&mut self, slot: SlotId, sent_before: Stamp) -> bool {
        self.slots.cancel(slot, sent_before)
    }

    fn drain(&mut self, limit: Duration) -> usize {
        self.slots.drain(limit)
    }
}
