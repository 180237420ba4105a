//! A Triton backend for tests and measurements, steered by the parameters of a model's configuration; see `README.md`.
//!
//! | module | what it does |
//! |---|---|
//! | `abi`, `symbols` | the server's functions, found at run time |
//! | `settings`, `plan` | what the configuration asks for; pure |
//! | `model`, `execute`, `stream` | a loaded model, one execution, one decoupled answer |
//! | `request`, `tensor`, `cuda` | reading requests and writing responses |
//! | `sequence`, `counters`, `journal` | what is remembered |
//! | `responder`, `clock` | doing things on time |
//!
//! The functions in this file are what the server calls. No panic leaves them.

mod abi;
mod clock;
mod counters;
mod cuda;
mod execute;
mod journal;
mod model;
mod permits;
mod plan;
mod request;
mod responder;
mod sequence;
mod settings;
mod stream;
mod symbols;
mod tensor;

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use abi::{Api, Fault, INTERNAL, Instance, Model, Request, Status};
use execute::InstanceState;
use model::ModelState;

/// Runs a part of the backend and turns its outcome, a panic included, into the server's form.
fn guarded(work: impl FnOnce(&'static Api) -> Result<(), Fault>) -> Status {
    let api = match Api::get() {
        Ok(api) => api,
        Err(missing) => return abi::status_without_table(&Fault::new(INTERNAL, missing)),
    };
    let outcome = catch_unwind(AssertUnwindSafe(|| work(api)));
    match outcome.unwrap_or_else(|_| Err(Fault::new(INTERNAL, "the bench backend panicked; its message is on stderr")))
    {
        Ok(()) => null_mut(),
        Err(fault) => api.status(&fault),
    }
}

/// Called by the server when it loads a model.
///
/// # Safety
/// The handle is the server's and alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TRITONBACKEND_ModelInitialize(model: *mut Model) -> Status {
    guarded(|api| {
        let state = ModelState::load(api, model)?;
        let state = Arc::into_raw(state).cast_mut().cast();
        // SAFETY: the handle is alive; the pointer is taken back when the model is finalized.
        api.check(unsafe { (api.model_set_state)(model, state) })
    })
}

/// Called by the server when it unloads a model, after the last request.
///
/// # Safety
/// The handle is the server's and alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TRITONBACKEND_ModelFinalize(model: *mut Model) -> Status {
    guarded(|api| {
        let state = model_pointer(api, model)?;
        if !state.is_null() {
            // SAFETY: from `into_raw` above, and the server asks once.
            unsafe { Arc::from_raw(state) }.unload();
        }
        Ok(())
    })
}

/// Called by the server for each instance of a model.
///
/// # Safety
/// The handle is the server's and alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TRITONBACKEND_ModelInstanceInitialize(instance: *mut Instance) -> Status {
    static INSTANCES: AtomicU64 = AtomicU64::new(1);
    guarded(|api| {
        let mut model = null_mut();
        // SAFETY: the handle is alive.
        api.check(unsafe { (api.instance_model)(instance, &raw mut model) })?;
        let state = model_pointer(api, model)?;
        if state.is_null() {
            return Err(Fault::new(INTERNAL, "an instance was made of a model that is not initialized"));
        }
        state_of_instances(state)?;
        // SAFETY: the model keeps one reference until it is finalized; this adds another.
        let state = unsafe {
            Arc::increment_strong_count(state);
            Arc::from_raw(state)
        };
        let state = Box::new(InstanceState::new(instance, state, INSTANCES.fetch_add(1, Relaxed)));
        // SAFETY: the handle is alive; the pointer is taken back when the instance is finalized.
        api.check(unsafe { (api.instance_set_state)(instance, Box::into_raw(state).cast()) })
    })
}

/// Called by the server when an instance goes.
///
/// # Safety
/// The handle is the server's and alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TRITONBACKEND_ModelInstanceFinalize(instance: *mut Instance) -> Status {
    guarded(|api| {
        let state = instance_pointer(api, instance)?;
        if !state.is_null() {
            // SAFETY: from `into_raw` above, and the server asks once.
            drop(unsafe { Box::from_raw(state) });
        }
        Ok(())
    })
}

/// Called by the server with requests to execute, by one thread at a time for each instance.
///
/// # Safety
/// Handles are the server's and alive; `requests` has `count` of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn TRITONBACKEND_ModelInstanceExecute(
    instance: *mut Instance,
    requests: *mut *mut Request,
    count: u32,
) -> Status {
    let Ok(api) = Api::get() else { return guarded(|_| Ok(())) };
    let work = || {
        let state = instance_pointer(api, instance)?;
        // SAFETY: set by ModelInstanceInitialize, without which the server does not execute; nobody else uses it meanwhile.
        let (state, requests) = unsafe { (&mut *state, std::slice::from_raw_parts(requests, count as usize)) };
        state.execute(requests)
    };
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => null_mut(),
        Ok(Err(fault)) => api.status(&fault),
        // Some requests may be answered and others not: neither return value would be true.
        Err(_) => std::process::abort(),
    }
}

/// Whether another instance may be made of a model.
fn state_of_instances(state: *const ModelState) -> Result<(), Fault> {
    // SAFETY: the model keeps it alive until it is finalized.
    let state = unsafe { &*state };
    state.add_instance()
}

fn model_pointer(api: &Api, model: *mut Model) -> Result<*const ModelState, Fault> {
    let mut state: *mut c_void = null_mut();
    // SAFETY: the handle is alive.
    api.check(unsafe { (api.model_state)(model, &raw mut state) })?;
    Ok(state.cast_const().cast())
}

#[inline]
fn instance_pointer(api: &Api, instance: *mut Instance) -> Result<*mut InstanceState, Fault> {
    let mut state: *mut c_void = null_mut();
    // SAFETY: the handle is alive.
    api.check(unsafe { (api.instance_state)(instance, &raw mut state) })?;
    Ok(state.cast())
}
