//! The response allocator: answers where outputs are to be written, without allocating in the steady state.

// budget: the parameters of the callbacks are the C API's.

use std::ffi::{CStr, c_void};
use std::os::raw::{c_char, c_ulong};
use std::ptr;
use std::sync::Arc;

use super::library::Library;
use super::output_buffer::OutputBuffer;
use super::request::memory_type;
use super::slot::Slot;
use super::sys;
use crate::error::{Error, Result};
use crate::shm::Placement;

/// An owned allocator object. One serves all slots; it outlives every request that names it.
pub(super) struct ResponseAllocator {
    library: Arc<Library>,
    pub(super) pointer: *mut sys::TRITONSERVER_ResponseAllocator,
}

// SAFETY: the C API lets one allocator serve requests on any thread at once.
unsafe impl Send for ResponseAllocator {}
// SAFETY: as above.
unsafe impl Sync for ResponseAllocator {}

impl ResponseAllocator {
    pub(super) fn new(library: &Arc<Library>) -> Result<Self> {
        let mut pointer = ptr::null_mut();
        // SAFETY: the callbacks have the C types; `pointer` receives an object that this value owns.
        let created = unsafe {
            library.api.TRITONSERVER_ResponseAllocatorNew(&raw mut pointer, Some(allocate), Some(release), None)
        };
        library.check(created).map_err(Error::from)?;
        let allocator = Self { library: Arc::clone(library), pointer };
        if library.api.TRITONSERVER_ResponseAllocatorSetQueryFunction.is_ok() {
            // SAFETY: the allocator is live and the callback has the C type.
            library
                .check(unsafe { library.api.TRITONSERVER_ResponseAllocatorSetQueryFunction(pointer, Some(query)) })?;
        }
        Ok(allocator)
    }
}

impl Drop for ResponseAllocator {
    fn drop(&mut self) {
        // SAFETY: this value owns the object, and no request refers to it any more.
        drop(self.library.check(unsafe { self.library.api.TRITONSERVER_ResponseAllocatorDelete(self.pointer) }));
    }
}

/// The server asks for `bytes` bytes for an output of the slot in `userp`.
unsafe extern "C" fn allocate(
    _allocator: *mut sys::TRITONSERVER_ResponseAllocator,
    tensor: *const c_char,
    bytes: c_ulong,
    _preferred: sys::TRITONSERVER_MemoryType,
    _preferred_id: i64,
    userp: *mut c_void,
    buffer: *mut *mut c_void,
    buffer_userp: *mut *mut c_void,
    actual: *mut sys::TRITONSERVER_MemoryType,
    actual_id: *mut i64,
) -> *mut sys::TRITONSERVER_Error {
    // SAFETY: `userp` is the slot that the request was prepared for; slots outlive their requests.
    let slot = unsafe { &*userp.cast::<Slot>() };
    // SAFETY: the server passes a NUL-terminated name.
    let tensor = unsafe { CStr::from_ptr(tensor) };
    let placed = match slot.output_place(tensor, bytes as usize) {
        Ok(placed) => placed,
        Err(message) => return slot.library().new_error(&message),
    };
    // SAFETY: the server passes valid places for its results.
    unsafe {
        *buffer = placed.address;
        *buffer_userp = placed.owner;
        *actual = placed.memory;
        *actual_id = placed.memory_id;
    }
    ptr::null_mut()
}

/// What [`allocate`] answers.
pub(super) struct Place {
    address: *mut c_void,
    /// The [`OutputBuffer`] that it came from; null if it was made for this response alone.
    owner: *mut c_void,
    memory: sys::TRITONSERVER_MemoryType,
    memory_id: i64,
}

impl Place {
    /// A place in a slot's own buffer.
    pub(super) fn in_buffer(buffer: &OutputBuffer, address: usize, placement: Placement) -> Self {
        let (memory, memory_id) = memory_type(placement);
        let address = ptr::with_exposed_provenance_mut(address);
        Self { address, owner: ptr::from_ref(buffer).cast_mut().cast(), memory, memory_id }
    }

    /// Memory for one response alone: when a request has several responses alive at once.
    #[cold]
    pub(super) fn alone(bytes: usize) -> Result<Self, String> {
        // SAFETY: plain allocation of at least one byte.
        let address = unsafe { libc::malloc(bytes.max(1)) };
        if address.is_null() {
            return Err(format!("no memory for an output of {bytes} bytes"));
        }
        Ok(Self { address, owner: ptr::null_mut(), memory: sys::MEMORY_CPU, memory_id: 0 })
    }
}

/// The server lets go of an output's buffer, when its response is deleted.
unsafe extern "C" fn release(
    _allocator: *mut sys::TRITONSERVER_ResponseAllocator,
    buffer: *mut c_void,
    buffer_userp: *mut c_void,
    _bytes: c_ulong,
    _memory: sys::TRITONSERVER_MemoryType,
    _memory_id: i64,
) -> *mut sys::TRITONSERVER_Error {
    if buffer_userp.is_null() {
        // SAFETY: without an owner it was allocated by `Place::alone`.
        unsafe { libc::free(buffer) };
    } else {
        // SAFETY: the owner is a buffer of the slot, which outlives the response.
        unsafe { &*buffer_userp.cast::<OutputBuffer>() }.release();
    }
    ptr::null_mut()
}

/// The server asks early what kind of memory it will get.
unsafe extern "C" fn query(
    _allocator: *mut sys::TRITONSERVER_ResponseAllocator,
    userp: *mut c_void,
    _tensor: *const c_char,
    _bytes: *mut c_ulong,
    memory: *mut sys::TRITONSERVER_MemoryType,
    memory_id: *mut i64,
) -> *mut sys::TRITONSERVER_Error {
    // SAFETY: `userp` is the slot that the request was prepared for; slots outlive their requests.
    let (kind, id) = memory_type(unsafe { &*userp.cast::<Slot>() }.output_placement());
    // SAFETY: the server passes valid places for its results.
    unsafe {
        *memory = kind;
        *memory_id = id;
    }
    ptr::null_mut()
}
