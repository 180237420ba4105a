//! Stops servers: unloads models, stops the server, waits for its threads, deletes the object.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::c_api::ffi::server::{RUNNING, Server};
use crate::c_api::ffi::status::{Status, c_string};
use crate::c_api::threads::{self, Threads};
use crate::clock::Stamp;
use crate::error::{Error, Result};

/// First pause between polls: short, because most things are gone within a millisecond.
const FIRST_POLL: Duration = Duration::from_micros(200);
const LAST_POLL: Duration = Duration::from_millis(5);
/// How long to wait for threads of a deleted server; if any is left, the process ends without destructors.
const GONE_LIMIT: Duration = Duration::from_millis(200);
/// How long threads of the server may take to become idle; some backends have threads that never do.
const REST_LIMIT: Duration = Duration::from_secs(1);

/// How long a server may take to unload its models when they are reloaded.
const UNLOAD_LIMIT: Duration = Duration::from_secs(30);

/// Whether a server could not be stopped and still exists.
static LEFT: AtomicBool = AtomicBool::new(false);
/// Whether servers have been stopped before the end.
static HALTED: AtomicBool = AtomicBool::new(false);

/// Calls a function of a server that reports through an error object.
macro_rules! call {
    ($server:expr, $function:ident $(, $argument:expr)*) => {
        // SAFETY: the server is live, and pointers among the arguments are valid for the call.
        $server.library.check(unsafe { $server.library.api.$function($server.pointer $(, $argument)*) })
    };
}

/// Stops every server of this process. `waiting` receives the current reason of the wait. The wait is unlimited,
/// because a server can block any of the calls here for ever: the caller limits it by ending the process. Returns
/// whether nothing is left that could still run, so that the process may end through the library's destructors.
pub fn stop_servers(waiting: &dyn Fn(String)) -> bool {
    let had = HALTED.load(Ordering::SeqCst) || !RUNNING.lock().is_empty();
    stop_all(waiting) && (!had || are_gone_soon())
}

/// Stops every server of this process, so that others can be started. `waiting` receives the reason of the wait; as in
/// [`stop_servers`] it has no limit of its own.
///
/// # Errors
/// If one could not be stopped: it is left as it is.
pub fn halt_servers(waiting: &dyn Fn(String)) -> Result<()> {
    HALTED.store(true, Ordering::SeqCst);
    let rule = "the server in this process could not be restarted: part of it is still in use";
    if stop_all(waiting) { Ok(()) } else { Err(Error::server(rule)) }
}

fn stop_all(waiting: &dyn Fn(String)) -> bool {
    let servers = std::mem::take(&mut *RUNNING.lock());
    // All of them are stopped, even if one fails.
    let stopped: Vec<bool> = servers.into_iter().map(|server| server.stop(waiting)).collect();
    if stopped.contains(&false) {
        LEFT.store(true, Ordering::SeqCst);
    }
    !LEFT.load(Ordering::SeqCst)
}

impl Server {
    /// Stops the server, and deletes it if no thread can be in it any more. Returns whether it did.
    fn stop(self: Arc<Self>, waiting: &dyn Fn(String)) -> bool {
        // Requests that it never returned belong to slots that are alive. No part of a model may be removed under them.
        if Arc::strong_count(&self) > 1 {
            return false;
        }
        let noted = Threads::now();
        // A model's thread that has answered its last request, or has just loaded the model, still runs for a moment.
        // Triton (24.10) crashes if the model is unloaded under it: it then looks for the instance in a list that the
        // thread has emptied (`TritonBackendThread::StopBackendThread`).
        waiting("its threads were still at work".to_owned());
        threads::await_rest(REST_LIMIT);
        if self.unload().is_ok() {
            wait_until(|| {
                let left = self.loaded();
                if !left.is_empty() {
                    waiting(format!("it still held {}", left.join(", ")));
                }
                left.is_empty()
            });
        }
        let Some(server) = Arc::into_inner(self) else { return false };
        waiting("it did not stop".to_owned());
        // A server that gives up stopping has objects in use.
        if call!(server, TRITONSERVER_ServerStop).is_err() {
            return false;
        }
        // A detached thread deletes a model: it reports the model as unloaded and then uses the server once more. Only
        // the kernel knows when that thread is gone.
        waiting("threads that unloaded its models had not ended".to_owned());
        let Ok(noted) = noted else { return false };
        if !wait_until_known(|| noted.newer()) {
            return false;
        }
        waiting("it could not be deleted".to_owned());
        drop(call!(server, TRITONSERVER_ServerDelete));
        true
    }

    /// Unloads all models and loads them again, with the precautions of an end.
    ///
    /// # Errors
    /// If a model is not released, or Triton does not load it.
    pub fn reload(&self) -> Result<()> {
        let failed = |problem: String| Error::server(format!("the models cannot be reloaded: {problem}"));
        let noted = Threads::now().map_err(|error| failed(format!("threads cannot be counted: {error}")))?;
        threads::await_rest(REST_LIMIT);
        self.unload().map_err(|status| failed(status.message))?;
        let end = Stamp::now().plus_duration(UNLOAD_LIMIT);
        // A model's deleting thread reports before it is done.
        wait_until(|| (self.states().is_empty() && noted.newer().is_ok_and(|left| left == 0)) || Stamp::now() >= end);
        let left = self.loaded();
        if !left.is_empty() {
            return Err(failed(format!("the server still held {}", left.join(", "))));
        }
        let models = std::mem::take(&mut *self.named.lock());
        models.iter().try_for_each(|model| self.load(model))
    }

    /// Asks for every model to be unloaded, because a server that is stopped with models loaded takes a second.
    fn unload(&self) -> Result<(), Status> {
        let mut models: Vec<String> = self.states().into_iter().map(|(model, _)| model).collect();
        // First those that were loaded by name: Triton complains about an ensemble that is left without its models.
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
        Ok(())
    }

    /// Models that are loaded, loading or unloading, in words.
    fn loaded(&self) -> Vec<String> {
        self.states().into_iter().map(|(model, state)| format!("model '{model}' ({state})")).collect()
    }

    /// Models that are loaded, loading or unloading, and their state.
    fn states(&self) -> Vec<(String, String)> {
        let index = self.model_index().unwrap_or_default();
        let entries = index.as_array().map_or(&[][..], Vec::as_slice);
        let state = |entry: &Value| entry["state"].as_str().unwrap_or_default().to_owned();
        let alive = entries.iter().filter(|entry| matches!(state(entry).as_str(), "READY" | "LOADING" | "UNLOADING"));
        alive.map(|entry| (entry["name"].as_str().unwrap_or_default().to_owned(), state(entry))).collect()
    }
}

/// Whether no thread of any server is left, which takes a moment on a busy machine.
fn are_gone_soon() -> bool {
    let Some(before) = threads::before_servers() else { return false };
    let are_gone = || before.newer().is_ok_and(|left| left == 0);
    let end = Stamp::now().plus_duration(GONE_LIMIT);
    wait_until(|| are_gone() || Stamp::now() >= end);
    are_gone()
}

fn wait_until(mut is_so: impl FnMut() -> bool) {
    let mut pause = FIRST_POLL;
    while !is_so() {
        thread::sleep(pause);
        pause = (pause * 2).min(LAST_POLL);
    }
}

/// Waits until `left` is 0. Returns whether that could be determined.
fn wait_until_known(left: impl Fn() -> std::io::Result<usize>) -> bool {
    let mut is_known = true;
    wait_until(|| {
        let left = left();
        is_known = left.is_ok();
        left.map_or(true, |left| left == 0)
    });
    is_known
}
