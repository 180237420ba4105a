//! Traces and buffer attributes.

use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use parking_lot::Mutex;

use crate::abi::{ActivityFn, INVALID_ARG, Status, TraceReleaseFn};
use crate::error::{OK, fail, give, live};
use crate::ledger::{self, Kind, Object, lock};

/// A trace of one request.
pub struct Trace {
    id: u64,
    parent: u64,
    timestamps: bool,
    activity: ActivityFn,
    release: TraceReleaseFn,
    userp: *mut c_void,
    names: Mutex<(CString, CString)>,
}

impl Object for Trace {
    const KIND: Kind = Kind::Trace;
}

/// Steps of a request's life, as the interface numbers them.
#[derive(Debug, Clone, Copy)]
pub enum Activity {
    RequestStart = 0,
    QueueStart = 1,
    ComputeStart = 2,
    ComputeInputEnd = 3,
    ComputeOutputStart = 4,
    ComputeEnd = 5,
    RequestEnd = 6,
}

/// Tells the trace of a request, if there is one, that something happened now.
pub fn report(trace: *mut Trace, activity: Activity) {
    if trace.is_null() {
        return;
    }
    if let Some(object) = ledger::borrow(trace, "a trace").filter(|object| object.timestamps) {
        // SAFETY: the client's function with the client's pointer.
        unsafe { (object.activity)(trace, activity as c_int, crate::delivery::now(), object.userp) };
    }
}

/// Gives a trace back to the client.
pub fn release(trace: *mut Trace) {
    if trace.is_null() {
        return;
    }
    if let Some(released) = ledger::borrow(trace, "a trace") {
        // SAFETY: as above; the client deletes it inside.
        unsafe { (released.release)(trace, released.userp) };
    }
}

/// Notes whose trace it is, if there is one.
pub fn name_if_any(trace: *mut Trace, model: &str, request: &str) {
    if trace.is_null() {
        return;
    }
    if let Some(trace) = ledger::borrow(trace, "a trace") {
        *lock(&trace.names) = (CString::new(model).unwrap_or_default(), CString::new(request).unwrap_or_default());
    }
}

/// Timestamps are wanted at the level bits MIN, MAX and TIMESTAMPS.
const TIMESTAMP_LEVELS: c_int = 1 | 2 | 4;

/// What a trace is reported to.
#[derive(Clone, Copy)]
struct Callbacks {
    activity: Option<ActivityFn>,
    release: Option<TraceReleaseFn>,
}

/// What both makers of traces do. No exported function calls another: tests hide some by name.
fn make(trace: *mut *mut Trace, level: c_int, parent: u64, callbacks: Callbacks, userp: *mut c_void) -> Status {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let Callbacks { activity: Some(activity), release: Some(release) } = callbacks else {
        ledger::violation("callbacks_missing", "InferenceTraceNew without activity or release function");
        return fail(INVALID_ARG, "a trace needs an activity and a release function");
    };
    let (id, timestamps) = (NEXT.fetch_add(1, SeqCst), level & TIMESTAMP_LEVELS != 0);
    let names = Mutex::default();
    give(trace, ledger::create(Trace { id, parent, timestamps, activity, release, userp, names }));
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_InferenceTraceNew(
    trace: *mut *mut Trace,
    level: c_int,
    parent: u64,
    activity: Option<ActivityFn>,
    release: Option<TraceReleaseFn>,
    userp: *mut c_void,
) -> Status {
    make(trace, level, parent, Callbacks { activity, release }, userp)
}

/// As without tensors: the tensor function is never called.
#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_InferenceTraceTensorNew(
    trace: *mut *mut Trace,
    level: c_int,
    parent: u64,
    activity: Option<ActivityFn>,
    _tensor: *mut c_void,
    release: Option<TraceReleaseFn>,
    userp: *mut c_void,
) -> Status {
    make(trace, level, parent, Callbacks { activity, release }, userp)
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_InferenceTraceDelete(trace: *mut Trace) -> Status {
    match ledger::destroy(trace, "InferenceTraceDelete") {
        Some(_) => OK,
        None => fail(INVALID_ARG, "InferenceTraceDelete: dead handle"),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_InferenceTraceId(trace: *mut Trace, id: *mut u64) -> Status {
    give(id, live!(trace, "InferenceTraceId").id);
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_InferenceTraceParentId(trace: *mut Trace, id: *mut u64) -> Status {
    give(id, live!(trace, "InferenceTraceParentId").parent);
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_InferenceTraceModelName(trace: *mut Trace, name: *mut *const c_char) -> Status {
    give(name, lock(&live!(trace, "InferenceTraceModelName").names).0.as_ptr());
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_InferenceTraceModelVersion(trace: *mut Trace, version: *mut i64) -> Status {
    live!(trace, "InferenceTraceModelVersion");
    give(version, 1);
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_InferenceTraceRequestId(trace: *mut Trace, id: *mut *const c_char) -> Status {
    give(id, lock(&live!(trace, "InferenceTraceRequestId").names).1.as_ptr());
    OK
}

/// Properties of a buffer.
#[derive(Default)]
pub struct BufferAttributes {
    state: Mutex<Attributes>,
}

#[derive(Default)]
struct Attributes {
    memory: c_int,
    device: i64,
    bytes: usize,
    ipc: usize,
}

impl Object for BufferAttributes {
    const KIND: Kind = Kind::BufferAttributes;
}

impl BufferAttributes {
    /// Memory type, device and size.
    pub fn place(&self) -> (c_int, i64, usize) {
        let state = lock(&self.state);
        (state.memory, state.device, state.bytes)
    }
}

mod attributes {
    use super::*;

    #[unsafe(no_mangle)]
    pub extern "C" fn TRITONSERVER_BufferAttributesNew(attributes: *mut *mut BufferAttributes) -> Status {
        give(attributes, ledger::create(BufferAttributes::default()));
        OK
    }

    #[unsafe(no_mangle)]
    pub extern "C" fn TRITONSERVER_BufferAttributesDelete(attributes: *mut BufferAttributes) -> Status {
        match ledger::destroy(attributes, "BufferAttributesDelete") {
            Some(_) => OK,
            None => fail(INVALID_ARG, "BufferAttributesDelete: dead handle"),
        }
    }

    macro_rules! members {
        ($($set:ident $get:ident $name:literal $member:ident: $kind:ty = $stored:ty;)*) => {$(
            #[unsafe(no_mangle)]
            pub extern "C" fn $set(attributes: *mut BufferAttributes, value: $kind) -> Status {
                lock(&live!(attributes, $name).state).$member = value as $stored;
                OK
            }

            #[unsafe(no_mangle)]
            pub extern "C" fn $get(attributes: *mut BufferAttributes, value: *mut $kind) -> Status {
                give(value, lock(&live!(attributes, $name).state).$member as $kind);
                OK
            }
        )*};
    }

    members! {
        TRITONSERVER_BufferAttributesSetMemoryType TRITONSERVER_BufferAttributesMemoryType
            "BufferAttributesMemoryType" memory: c_int = c_int;
        TRITONSERVER_BufferAttributesSetMemoryTypeId TRITONSERVER_BufferAttributesMemoryTypeId
            "BufferAttributesMemoryTypeId" device: i64 = i64;
        TRITONSERVER_BufferAttributesSetByteSize TRITONSERVER_BufferAttributesByteSize
            "BufferAttributesByteSize" bytes: usize = usize;
        TRITONSERVER_BufferAttributesSetCudaIpcHandle TRITONSERVER_BufferAttributesCudaIpcHandle
            "BufferAttributesCudaIpcHandle" ipc: *mut c_void = usize;
    }
}
