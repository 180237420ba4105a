//! Inference requests: what the client may set, and when.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use crate::abi::{INVALID_ARG, NOT_FOUND, ReleaseFn, ResponseFn, Status, UNAVAILABLE};
use crate::allocator::{self, Allocator};
use crate::delivery::Job;
use crate::error::{OK, fail, give, live, text};
use crate::input::{Buffer, Input};
use crate::ledger::{self, Kind, Object, lock, violation};
use crate::response::Destination;
use crate::server::Server;
use crate::trace::BufferAttributes;

/// Everything that a client sets. Sticky from one issue to the next, as in the real library.
pub struct Body {
    pub server: *mut Server,
    pub model: String,
    pub version: i64,
    pub id: CString,
    pub flags: u32,
    pub correlation: Value,
    pub priority: u64,
    pub timeout_us: u64,
    pub inputs: Vec<Input>,
    pub outputs: Vec<String>,
    pub parameters: Map<String, Value>,
    pub release: Option<(ReleaseFn, *mut c_void)>,
    pub response: Option<(Destination, ResponseFn, *mut c_void)>,
    /// From a successful issue to the release.
    pub in_flight: bool,
    /// The latest issue.
    pub job: Option<Arc<Job>>,
}

/// A request.
pub struct Request {
    body: Mutex<Body>,
}

impl Object for Request {
    const KIND: Kind = Kind::Request;
}

impl Request {
    /// Works on the content, whatever the state.
    pub fn with<T>(&self, work: impl FnOnce(&mut Body) -> T) -> T {
        work(&mut lock(&self.body))
    }

    /// Works on the content on behalf of the client, which must not touch it in flight.
    fn touch<T>(&self, call: &str, work: impl FnOnce(&mut Body) -> T) -> T {
        let mut body = lock(&self.body);
        if body.in_flight {
            violation("touched_in_flight", &format!("{call} on request {:?} in flight", body.id));
        }
        work(&mut body)
    }
}

macro_rules! on_request {
    ($request:expr, $call:literal, |$body:ident| $work:expr) => {
        live!($request, $call).touch($call, |$body: &mut Body| -> Status { $work })
    };
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_InferenceRequestNew(
    request: *mut *mut Request,
    server: *mut Server,
    model: *const c_char,
    version: i64,
) -> Status {
    let name = text(model);
    let loaded_by = live!(server, "InferenceRequestNew");
    match loaded_by.is_loaded(name) {
        None => return fail(NOT_FOUND, &format!("Request for unknown model: '{name}' is not found")),
        Some(false) => return fail(UNAVAILABLE, &format!("Request for unknown model: '{name}' is not loaded")),
        Some(true) => {}
    }
    let body = Body {
        server,
        model: name.to_owned(),
        version,
        id: CString::default(),
        flags: 0,
        correlation: json!(0),
        priority: 0,
        timeout_us: 0,
        inputs: Vec::new(),
        outputs: Vec::new(),
        parameters: Map::new(),
        release: None,
        response: None,
        in_flight: false,
        job: None,
    };
    loaded_by.delivery.shared.counters.made.fetch_add(1, SeqCst);
    give(request, ledger::create(Request { body: Mutex::new(body) }));
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_InferenceRequestDelete(request: *mut Request) -> Status {
    let body = live!(request, "InferenceRequestDelete");
    let (in_flight, destination) =
        body.with(|body| (body.in_flight, body.response.map(|(destination, ..)| destination)));
    if in_flight {
        violation("deleted_in_flight", "a request was deleted before its release callback");
        return fail(INVALID_ARG, "the request is in flight");
    }
    ledger::destroy(request, "InferenceRequestDelete");
    if let Some(destination) = destination {
        allocator::leave(destination.allocator);
    }
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_InferenceRequestId(request: *mut Request, id: *mut *const c_char) -> Status {
    on_request!(request, "InferenceRequestId", |body| {
        give(id, body.id.as_ptr());
        OK
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_InferenceRequestSetId(request: *mut Request, id: *const c_char) -> Status {
    // SAFETY: the client passes a C string.
    let id = if id.is_null() { CString::default() } else { unsafe { CStr::from_ptr(id) }.to_owned() };
    on_request!(request, "InferenceRequestSetId", |body| {
        body.id = id;
        OK
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_InferenceRequestFlags(request: *mut Request, flags: *mut u32) -> Status {
    on_request!(request, "InferenceRequestFlags", |body| {
        give(flags, body.flags);
        OK
    })
}

macro_rules! plain_setters {
    ($($(#[$attribute:meta])* $symbol:ident = $name:literal ($kind:ty) |$body:ident, $value:ident| $work:expr;)*) => {$(
        $(#[$attribute])*
        #[unsafe(no_mangle)]
        pub extern "C" fn $symbol(request: *mut Request, $value: $kind) -> Status {
            on_request!(request, $name, |$body| {
                $work;
                OK
            })
        }
    )*};
}

plain_setters! {
    TRITONSERVER_InferenceRequestSetFlags = "InferenceRequestSetFlags" (u32) |body, flags| body.flags = flags;
    TRITONSERVER_InferenceRequestSetCorrelationId = "InferenceRequestSetCorrelationId" (u64)
        |body, id| body.correlation = json!(id);
    TRITONSERVER_InferenceRequestSetPriority = "InferenceRequestSetPriority" (u32)
        |body, priority| body.priority = u64::from(priority);
    TRITONSERVER_InferenceRequestSetTimeoutMicroseconds = "InferenceRequestSetTimeoutMicroseconds" (u64)
        |body, timeout| body.timeout_us = timeout;
    TRITONSERVER_InferenceRequestAddRequestedOutput = "InferenceRequestAddRequestedOutput" (*const c_char)
        |body, name| body.outputs.push(text(name).to_owned());
    TRITONSERVER_InferenceRequestRemoveRequestedOutput = "InferenceRequestRemoveRequestedOutput" (*const c_char)
        |body, name| body.outputs.retain(|output| output != text(name));
}

plain_setters! {
    TRITONSERVER_InferenceRequestSetCorrelationIdString = "InferenceRequestSetCorrelationIdString" (*const c_char)
        |body, id| body.correlation = json!(text(id));
    TRITONSERVER_InferenceRequestSetPriorityUInt64 = "InferenceRequestSetPriorityUInt64" (u64)
        |body, priority| body.priority = priority;
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_InferenceRequestRemoveAllRequestedOutputs(request: *mut Request) -> Status {
    on_request!(request, "InferenceRequestRemoveAllRequestedOutputs", |body| {
        body.outputs.clear();
        OK
    })
}

macro_rules! parameter_setters {
    ($($symbol:ident = $name:literal ($kind:ty) |$value:ident| $json:expr;)*) => {$(
        #[unsafe(no_mangle)]
        pub extern "C" fn $symbol(request: *mut Request, key: *const c_char, $value: $kind) -> Status {
            on_request!(request, $name, |body| {
                body.parameters.insert(text(key).to_owned(), $json);
                OK
            })
        }
    )*};
}

parameter_setters! {
    TRITONSERVER_InferenceRequestSetStringParameter = "InferenceRequestSetStringParameter" (*const c_char)
        |value| json!(text(value));
    TRITONSERVER_InferenceRequestSetIntParameter = "InferenceRequestSetIntParameter" (i64) |value| json!(value);
    TRITONSERVER_InferenceRequestSetBoolParameter = "InferenceRequestSetBoolParameter" (bool) |value| json!(value);
    TRITONSERVER_InferenceRequestSetDoubleParameter = "InferenceRequestSetDoubleParameter" (f64) |value| json!(value);
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_InferenceRequestAddInput(
    request: *mut Request,
    name: *const c_char,
    datatype: c_int,
    shape: *const i64,
    dims: u64,
) -> Status {
    let name = text(name).to_owned();
    // SAFETY: the client passes an array of that length.
    let shape =
        if dims == 0 { Vec::new() } else { unsafe { std::slice::from_raw_parts(shape, dims as usize) }.to_vec() };
    on_request!(request, "InferenceRequestAddInput", |body| {
        if body.inputs.iter().any(|input| input.name == name) {
            return fail(INVALID_ARG, &format!("input '{name}' already exists in request"));
        }
        body.inputs.push(Input { name, datatype, shape, buffers: Vec::new() });
        OK
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_InferenceRequestRemoveInput(request: *mut Request, name: *const c_char) -> Status {
    on_request!(request, "InferenceRequestRemoveInput", |body| {
        let before = body.inputs.len();
        body.inputs.retain(|input| input.name != text(name));
        if body.inputs.len() == before { unknown_input(name) } else { OK }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_InferenceRequestRemoveAllInputs(request: *mut Request) -> Status {
    on_request!(request, "InferenceRequestRemoveAllInputs", |body| {
        body.inputs.clear();
        OK
    })
}

fn unknown_input(name: *const c_char) -> Status {
    fail(INVALID_ARG, &format!("input '{}' does not exist in request", text(name)))
}

fn append(body: &mut Body, name: *const c_char, buffer: Buffer) -> Status {
    match body.inputs.iter_mut().find(|input| input.name == text(name)) {
        None => unknown_input(name),
        Some(input) => {
            if buffer.bytes > 0 {
                input.buffers.push(buffer);
            }
            OK
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_InferenceRequestAppendInputData(
    request: *mut Request,
    name: *const c_char,
    base: *const c_void,
    bytes: usize,
    memory: c_int,
    _device: i64,
) -> Status {
    on_request!(request, "InferenceRequestAppendInputData", |body| append(body, name, Buffer { base, bytes, memory }))
}

/// The argument list is the interface's.
#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_InferenceRequestAppendInputDataWithHostPolicy(
    request: *mut Request,
    name: *const c_char,
    base: *const c_void,
    bytes: usize,
    memory: c_int,
    device: i64,
    _policy: *const c_char,
) -> Status {
    TRITONSERVER_InferenceRequestAppendInputData(request, name, base, bytes, memory, device)
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_InferenceRequestAppendInputDataWithBufferAttributes(
    request: *mut Request,
    name: *const c_char,
    base: *const c_void,
    attributes: *mut BufferAttributes,
) -> Status {
    let (memory, device, bytes) = live!(attributes, "AppendInputDataWithBufferAttributes").place();
    TRITONSERVER_InferenceRequestAppendInputData(request, name, base, bytes, memory, device)
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_InferenceRequestRemoveAllInputData(
    request: *mut Request,
    name: *const c_char,
) -> Status {
    on_request!(request, "InferenceRequestRemoveAllInputData", |body| {
        match body.inputs.iter_mut().find(|input| input.name == text(name)) {
            None => unknown_input(name),
            Some(input) => {
                input.buffers.clear();
                OK
            }
        }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_InferenceRequestSetReleaseCallback(
    request: *mut Request,
    release: Option<ReleaseFn>,
    userp: *mut c_void,
) -> Status {
    on_request!(request, "InferenceRequestSetReleaseCallback", |body| {
        body.release = release.map(|release| (release, userp));
        OK
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_InferenceRequestSetResponseCallback(
    request: *mut Request,
    allocator: *mut Allocator,
    allocator_userp: *mut c_void,
    response: Option<ResponseFn>,
    userp: *mut c_void,
) -> Status {
    live!(allocator, "InferenceRequestSetResponseCallback").join();
    let mut before = null_mut();
    let status = on_request!(request, "InferenceRequestSetResponseCallback", |body| {
        before = body.response.map_or(null_mut(), |(destination, ..)| destination.allocator);
        let destination = Destination { allocator, userp: allocator_userp };
        body.response = response.map(|response| (destination, response, userp));
        OK
    });
    if !before.is_null() {
        allocator::leave(before);
    }
    if response.is_none() {
        allocator::leave(allocator);
    }
    status
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_InferenceRequestCancel(request: *mut Request) -> Status {
    match live!(request, "InferenceRequestCancel").with(|body| body.job.clone()) {
        None => fail(INVALID_ARG, "the request has never been issued"),
        Some(job) => {
            job.cancel();
            OK
        }
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_InferenceRequestIsCancelled(request: *mut Request, cancelled: *mut bool) -> Status {
    match live!(request, "InferenceRequestIsCancelled").with(|body| body.job.clone()) {
        None => fail(INVALID_ARG, "the request has never been issued"),
        Some(job) => {
            give(cancelled, job.is_cancelled());
            OK
        }
    }
}
