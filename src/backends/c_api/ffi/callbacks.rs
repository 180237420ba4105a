//! The C functions that the server calls. Each finds its slot through the user pointer of its request.

// budget: the parameters of the callbacks are the C API's.

use std::ffi::{CStr, c_void};
use std::os::raw::{c_char, c_ulong};
use std::ptr::{self, NonNull};

use crate::c_api::ffi::memory::memory_type;
use crate::c_api::ffi::output_buffer::OutputBuffer;
use crate::c_api::ffi::slot::Slot;
use crate::c_api::ffi::sys;
use crate::clock::Stamp;

pub(super) unsafe extern "C" fn on_response(
    response: *mut sys::TRITONSERVER_InferenceResponse,
    flags: u32,
    userp: *mut c_void,
) {
    let at = Stamp::now();
    let is_final = flags & sys::RESPONSE_COMPLETE_FINAL != 0;
    // SAFETY: `userp` is the slot that the request was prepared for; slots outlive their requests.
    unsafe { Slot::on_response(NonNull::new_unchecked(userp.cast()), at, response, is_final) }
}

pub(super) unsafe extern "C" fn on_release(
    _request: *mut sys::TRITONSERVER_InferenceRequest,
    flags: u32,
    userp: *mut c_void,
) {
    if flags & sys::REQUEST_RELEASE_ALL != 0 {
        // SAFETY: `userp` is the slot that the request was prepared for; slots outlive their requests.
        unsafe { Slot::on_release(NonNull::new_unchecked(userp.cast())) }
    }
}

/// The server asks for `bytes` bytes for an output of the slot in `userp`.
pub(super) unsafe extern "C" fn allocate(
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
    // SAFETY: the server asks for a response of an outstanding request.
    let placed = match unsafe { slot.output_place(tensor, bytes as usize) } {
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

/// The server releases an output's buffer, when its response is deleted.
pub(super) unsafe extern "C" fn release(
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
        // SAFETY: the owner is a buffer of the slot, which outlives the response that took it and is deleted now.
        unsafe { (*buffer_userp.cast::<OutputBuffer>()).release() };
    }
    ptr::null_mut()
}

/// The server asks in advance what kind of memory it will get.
pub(super) unsafe extern "C" fn query(
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
