//! The response allocator: the object through which the server requests memory for outputs.

use std::ptr;
use std::sync::Arc;

use crate::c_api::ffi::library::Library;
use crate::c_api::ffi::sys;
use crate::error::{Error, Result};

/// The functions that the server calls for the memory of outputs.
pub(super) struct AllocatorCallbacks {
    /// Before an output is written.
    pub(super) allocate: sys::TRITONSERVER_ResponseAllocatorAllocFn_t,
    /// When its response is deleted.
    pub(super) release: sys::TRITONSERVER_ResponseAllocatorReleaseFn_t,
    /// Earlier than that, to learn the kind of memory; releases before 2.8 do not ask.
    pub(super) query: sys::TRITONSERVER_ResponseAllocatorQueryFn_t,
}

/// An owned allocator object. One serves all slots; it outlives every request that refers to it.
pub(super) struct ResponseAllocator {
    library: Arc<Library>,
    pub(super) pointer: *mut sys::TRITONSERVER_ResponseAllocator,
}

// SAFETY: the C API lets one allocator serve requests on any thread at once.
unsafe impl Send for ResponseAllocator {}
// SAFETY: as above.
unsafe impl Sync for ResponseAllocator {}

impl ResponseAllocator {
    pub(super) fn new(library: &Arc<Library>, callbacks: &AllocatorCallbacks) -> Result<Self> {
        let AllocatorCallbacks { allocate, release, query } = *callbacks;
        let mut pointer = ptr::null_mut();
        // SAFETY: the callbacks have the C types; `pointer` receives an object that this value owns.
        let created =
            unsafe { library.api.TRITONSERVER_ResponseAllocatorNew(&raw mut pointer, allocate, release, None) };
        library.check(created).map_err(Error::from)?;
        let allocator = Self { library: Arc::clone(library), pointer };
        if library.api.TRITONSERVER_ResponseAllocatorSetQueryFunction.is_ok() {
            // SAFETY: the allocator is live and the callback has the C type.
            library.check(unsafe { library.api.TRITONSERVER_ResponseAllocatorSetQueryFunction(pointer, query) })?;
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
