//! The buffer for one output of one slot, reused for response after response.

use std::cell::UnsafeCell;
use std::ffi::{CString, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::c_api::ffi::memory::memory_type;
use crate::c_api::ffi::status::c_string;
use crate::c_api::ffi::sys;
use crate::error::{Error, Result};
use crate::model::{ModelSpec, TensorSpec};
use crate::shm::{Placement, Region};

/// One output's buffer in one slot.
pub(super) struct OutputBuffer {
    pub(super) name: CString,
    /// Held from the server's allocation until it releases the buffer.
    taken: AtomicBool,
    region: UnsafeCell<Region>,
    placement: Placement,
}

// SAFETY: `region` is touched only by the holder of `taken`, or through `&mut`.
unsafe impl Sync for OutputBuffer {}

impl OutputBuffer {
    /// Buffers for the outputs of `model`, of `batch` elements each, with `variable` bytes if the model does not fix
    /// the size.
    pub(super) fn all(model: &ModelSpec, placement: Placement, variable: usize, batch: u64) -> Result<Vec<Self>> {
        model.outputs.iter().map(|output| Self::new(output, placement, variable, batch)).collect()
    }

    fn new(output: &TensorSpec, placement: Placement, variable: usize, batch: u64) -> Result<Self> {
        let element = output.fixed_bytes().unwrap_or(variable as u64);
        let bytes = element.checked_mul(batch.max(1)).and_then(|bytes| usize::try_from(bytes).ok());
        let bytes = bytes.ok_or_else(|| {
            Error::input(format!("output '{}' of a batch of {batch} does not fit into memory", output.name))
        })?;
        let region = Region::zeroed(placement, bytes.max(1))
            .map_err(|error| error.context(format!("output '{}'", output.name)))?;
        Ok(Self {
            name: c_string(&output.name),
            taken: AtomicBool::new(false),
            region: UnsafeCell::new(region),
            placement,
        })
    }

    /// Takes the buffer for a response of `bytes` bytes; `None` if an earlier response still has it.
    ///
    /// # Errors
    /// If it is too small and may not grow.
    pub(super) fn take(&self, bytes: usize) -> Option<Result<usize, String>> {
        if self.taken.swap(true, Ordering::Acquire) {
            return None;
        }
        // SAFETY: this call has just taken the buffer, so no other thread touches the region.
        let region = unsafe { &mut *self.region.get() };
        let fits = if bytes <= region.len() { Ok(()) } else { self.grow(region, bytes) };
        if fits.is_err() {
            // SAFETY: taken above.
            unsafe { self.release() };
        }
        Some(fits.map(|()| region.address()))
    }

    /// Copies the first bytes of the response that has the buffer.
    ///
    /// # Safety
    /// That response is not deleted before this returns.
    pub(super) unsafe fn copy_out(&self, out: &mut [u8]) -> Result<()> {
        // SAFETY: the response that took the buffer is live, so nothing grows the region.
        unsafe { &*self.region.get() }.read(0, out)
    }

    /// Returns the buffer.
    ///
    /// # Safety
    /// The caller has taken it, and the response that it was for is deleted or was never made.
    pub(super) unsafe fn release(&self) {
        self.taken.store(false, Ordering::Release);
    }

    #[cold]
    fn grow(&self, region: &mut Region, bytes: usize) -> Result<(), String> {
        let name = self.name.to_string_lossy();
        if self.placement != Placement::Pageable {
            return Err(format!(
                "output '{name}' needs {bytes} bytes and its region has {}; raise --output-shared-memory-size",
                region.len()
            ));
        }
        *region = Region::zeroed(self.placement, bytes.next_power_of_two()).map_err(|error| error.to_string())?;
        Ok(())
    }
}

/// Where the server should write an output.
pub(super) struct OutputPlace {
    pub(super) address: *mut c_void,
    /// The [`OutputBuffer`] that it came from; null if it was made for this response alone.
    pub(super) owner: *mut c_void,
    pub(super) memory: sys::TRITONSERVER_MemoryType,
    pub(super) memory_id: i64,
}

impl OutputPlace {
    /// A place in a slot's own buffer.
    pub(super) fn in_buffer(buffer: &OutputBuffer, address: usize, placement: Placement) -> Self {
        let (memory, memory_id) = memory_type(placement);
        let address = ptr::with_exposed_provenance_mut(address);
        Self { address, owner: ptr::from_ref(buffer).cast_mut().cast(), memory, memory_id }
    }

    /// Memory for one response alone, if a request has several responses alive at once.
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
