//! Response allocators, and the output memory that clients provide.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use parking_lot::Mutex;

use crate::abi::{AllocFn, BufferReleaseFn, INVALID_ARG, StartFn, Status};
use crate::error::{OK, fail, give};
use crate::ledger::{self, Kind, Object, lock, violation};

/// The client's functions for output memory.
pub struct Allocator {
    /// Asks for memory.
    pub alloc: AllocFn,
    /// Gives it back.
    pub release: BufferReleaseFn,
    /// Announces a response.
    pub start: Option<StartFn>,
    users: AtomicUsize,
}

impl Object for Allocator {
    const KIND: Kind = Kind::Allocator;
}

impl Allocator {
    /// Notes a request or response that refers to the allocator.
    pub fn join(&self) {
        self.users.fetch_add(1, SeqCst);
    }

    /// Notes that one is gone.
    pub fn leave(&self) {
        self.users.fetch_sub(1, SeqCst);
    }
}

/// Lets go of an allocator that may be gone by mistake.
pub fn leave(allocator: *mut Allocator) {
    if ledger::is_live(allocator) {
        // SAFETY: alive a moment ago; deleting it while used is reported.
        unsafe { (*allocator).leave() };
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_ResponseAllocatorNew(
    allocator: *mut *mut Allocator,
    alloc: Option<AllocFn>,
    release: Option<BufferReleaseFn>,
    start: Option<StartFn>,
) -> Status {
    let (Some(alloc), Some(release)) = (alloc, release) else {
        violation("callbacks_missing", "ResponseAllocatorNew without alloc or release function");
        return fail(INVALID_ARG, "an allocator needs an alloc and a release function");
    };
    give(allocator, ledger::create(Allocator { alloc, release, start, users: AtomicUsize::new(0) }));
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_ResponseAllocatorDelete(allocator: *mut Allocator) -> Status {
    let Some(allocator) = ledger::destroy(allocator, "ResponseAllocatorDelete") else {
        return fail(INVALID_ARG, "ResponseAllocatorDelete: dead handle");
    };
    let users = allocator.users.load(SeqCst);
    if users > 0 {
        violation(
            "allocator_in_use",
            &format!("an allocator was deleted while {users} requests or responses refer to it"),
        );
    }
    OK
}

/// Accepted and never called: the scripted server does not ask ahead.
#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_ResponseAllocatorSetQueryFunction(
    allocator: *mut Allocator,
    _query: *mut c_void,
) -> Status {
    crate::error::live!(allocator, "ResponseAllocatorSetQueryFunction");
    OK
}

/// Accepted and never called: outputs have no attributes beyond what the alloc function says.
#[unsafe(no_mangle)]
pub extern "C" fn TRITONSERVER_ResponseAllocatorSetBufferAttributesFunction(
    allocator: *mut Allocator,
    _attributes: *mut c_void,
) -> Status {
    crate::error::live!(allocator, "ResponseAllocatorSetBufferAttributesFunction");
    OK
}

/// Output memory of live responses: start and end.
static RANGES: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

/// Takes memory for a response. Memory that another one holds is reported; answers whether it was free.
pub fn claim(base: *mut c_void, bytes: usize, tensor: &str) -> bool {
    if bytes == 0 {
        return false;
    }
    let (start, end) = (base as usize, (base as usize).saturating_add(bytes));
    let mut ranges = lock(&RANGES);
    let taken = ranges.range(..end).next_back().is_some_and(|(_, taken_end)| *taken_end > start);
    if !taken {
        ranges.insert(start, end);
        return true;
    }
    drop(ranges);
    violation(
        "buffer_shared",
        &format!("memory offered for {tensor} is still held by a response that was not deleted"),
    );
    false
}

/// Gives memory back that [`claim`] took.
pub fn unclaim(base: *mut c_void) {
    lock(&RANGES).remove(&(base as usize));
}
