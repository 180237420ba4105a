//! A response object: read if necessary, and deleted.

use std::ffi::{CStr, c_void};
use std::ptr;
use std::slice;
use std::sync::Arc;

use crate::backend::{OutputView, Outputs};
use crate::c_api::ffi::library::Library;
use crate::c_api::ffi::output_buffer::OutputBuffer;
use crate::c_api::ffi::status::Status;
use crate::c_api::ffi::sys;
use crate::model::DataType;

/// An owned response.
pub(super) struct InferenceResponse<'a> {
    library: &'a Arc<Library>,
    pointer: *mut sys::TRITONSERVER_InferenceResponse,
}

impl<'a> InferenceResponse<'a> {
    /// Takes over the response that a callback was given; `None` for the null response that only ends a request.
    ///
    /// # Safety
    /// `pointer` is null, or a live response that nobody else deletes.
    pub(super) unsafe fn from_raw(
        library: &'a Arc<Library>,
        pointer: *mut sys::TRITONSERVER_InferenceResponse,
    ) -> Option<Self> {
        (!pointer.is_null()).then(|| Self { library, pointer })
    }

    /// Why the inference failed, if it did.
    pub(super) fn error(&self) -> Result<(), Status> {
        // SAFETY: the response is live. Each call makes a new error object, which `check` frees.
        self.library.check(unsafe { self.library.api.TRITONSERVER_InferenceResponseError(self.pointer) })
    }

    /// Whether it is not an error and has no outputs.
    pub(super) fn is_empty(&self) -> bool {
        self.count() == 0 && self.error().is_ok()
    }

    fn count(&self) -> u32 {
        let mut count = 0;
        // SAFETY: the response is live, and `count` is a valid place.
        let error = unsafe { self.library.api.TRITONSERVER_InferenceResponseOutputCount(self.pointer, &raw mut count) };
        if self.library.check(error).is_ok() { count } else { 0 }
    }

    fn visit_one(&self, index: u32, visitor: &mut dyn FnMut(OutputView<'_>)) -> Result<(), Status> {
        let (mut name, mut datatype, mut shape, mut dims) = (ptr::null(), 0, ptr::null(), 0);
        let (mut base, mut size, mut memory, mut memory_id) = (ptr::null::<c_void>(), 0, 0, 0);
        let mut userp = ptr::null_mut::<c_void>();
        // SAFETY: the response is live, and all places are valid.
        self.library.check(unsafe {
            self.library.api.TRITONSERVER_InferenceResponseOutput(
                self.pointer,
                index,
                &raw mut name,
                &raw mut datatype,
                &raw mut shape,
                &raw mut dims,
                &raw mut base,
                &raw mut size,
                &raw mut memory,
                &raw mut memory_id,
                &raw mut userp,
            )
        })?;
        // SAFETY: the name belongs to the response, which is live.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        // SAFETY: the server gives `dims` dimensions that belong to the response.
        let shape = if dims == 0 { &[][..] } else { unsafe { slice::from_raw_parts(shape, dims as usize) } };
        let Some(datatype) = DataType::from_code(datatype) else { return Ok(()) };
        let mut copy;
        let bytes = if base.is_null() || size == 0 {
            &[][..]
        } else if memory == sys::MEMORY_GPU {
            copy = vec![0; size as usize];
            // SAFETY: device memory is only handed out from buffers of the slot, which outlive the response.
            let copied = unsafe { (*userp.cast::<OutputBuffer>()).copy_out(&mut copy) };
            copied.map_err(|error| Status { code: "Device".into(), message: error.to_string() })?;
            &copy[..]
        } else {
            // SAFETY: host memory of `size` bytes that the server has written and that nobody writes until the response is deleted.
            unsafe { slice::from_raw_parts(base.cast::<u8>(), size as usize) }
        };
        visitor(OutputView { name: &name, datatype, shape, bytes });
        Ok(())
    }
}

impl Outputs for InferenceResponse<'_> {
    fn visit(&self, visitor: &mut dyn FnMut(OutputView<'_>)) {
        for index in 0..self.count() {
            drop(self.visit_one(index, visitor));
        }
    }
}

impl Drop for InferenceResponse<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this value owns the response.
        drop(self.library.check(unsafe { self.library.api.TRITONSERVER_InferenceResponseDelete(self.pointer) }));
    }
}

/// The outputs of a response that only ends a request.
pub(super) struct NoOutputs;

impl Outputs for NoOutputs {
    fn visit(&self, _visitor: &mut dyn FnMut(OutputView<'_>)) {}
}
