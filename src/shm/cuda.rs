//! CUDA memory through the driver's own interface, which is looked up at run time: without a driver nothing here is
//! called, and asking for it is a clear error.
//!
//! Memory lives in each device's primary context, which Triton's backends use too, so addresses can be passed within
//! the process. It is allocated with `cuMemAlloc`, because pool memory cannot be exported to other processes.

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

use cudarc::driver::{DriverError, result, sys};

use crate::error::{Error, Result};
use crate::posix::HostMemory;

/// How many CUDA devices this machine has.
///
/// # Errors
/// If there is no driver, or it does not start.
pub fn device_count() -> Result<u32> {
    static STARTED: OnceLock<Result<u32>> = OnceLock::new();
    STARTED.get_or_init(start).clone()
}

fn start() -> Result<u32> {
    // SAFETY: only opens and closes the driver's library.
    if !unsafe { sys::is_culib_present() } {
        return Err(Error::machine(
            "no CUDA driver found (libcuda.so.1): GPU and pinned memory need one; run where a driver is installed, or \
             choose pageable or system shared memory",
        ));
    }
    result::init().map_err(|e| {
        failed("start the CUDA driver", e)
            .advice("see what nvidia-smi says, or choose pageable or system shared memory")
    })?;
    let count = result::device::get_count().map_err(|e| failed("count CUDA devices", e))?;
    Ok(u32::try_from(count).unwrap_or(0))
}

/// Makes the primary context of a device current on this thread until dropped. The thread may be a server's, whose own
/// current context must be restored.
struct Entered {
    before: sys::CUcontext,
}

impl Drop for Entered {
    fn drop(&mut self) {
        // SAFETY: it was current on this thread, or is null, which stands for none.
        let _ = unsafe { result::ctx::set_current(self.before) };
    }
}

/// Checks that the device exists.
///
/// # Errors
/// If there is none, or no driver.
pub(super) fn check(device: u32) -> Result<()> {
    let count = device_count()?;
    if device >= count {
        let have = match count {
            0 => "none".to_owned(),
            1 => "one, number 0".to_owned(),
            _ => format!("{count}, numbers 0 to {}", count - 1),
        };
        return Err(Error::machine(format!("CUDA device {device} does not exist: this machine has {have}")));
    }
    Ok(())
}

/// Enters `device`.
fn enter(device: u32) -> Result<Entered> {
    check(device)?;
    let doing = || format!("use CUDA device {device}");
    let handle = result::device::get(device as c_int).map_err(|e| failed(doing(), e))?;
    let context = primary_context(device, handle)?;
    let before = result::ctx::get_current().map_err(|e| failed(doing(), e))?;
    // SAFETY: the context is retained for as long as the process lives.
    unsafe { result::ctx::set_current(context) }.map_err(|e| failed(doing(), e))?;
    Ok(Entered { before: before.unwrap_or(std::ptr::null_mut()) })
}

/// Waits for pending work of the current device: clearing memory returns before it is done, and copies to a device may
/// return before their last bytes have arrived. Streams that do not follow the default stream, and other processes,
/// would see the old content.
fn settle() -> Result<()> {
    // SAFETY: the default stream always exists.
    unsafe { result::stream::synchronize(result::stream::null()) }.map_err(|e| failed("wait for the GPU", e))
}

/// Bytes of a device that are free.
///
/// # Errors
/// If there is no such device.
pub(super) fn free_bytes(device: u32) -> Result<u64> {
    let _current = enter(device)?;
    let (free, _) = result::mem_get_info().map_err(|e| failed("ask how much GPU memory is free", e))?;
    Ok(free as u64)
}

/// The primary context, retained once per device and process.
fn primary_context(device: u32, handle: sys::CUdevice) -> Result<sys::CUcontext> {
    static RETAINED: parking_lot::Mutex<Vec<(u32, usize)>> = parking_lot::Mutex::new(Vec::new());
    let mut retained = RETAINED.lock();
    if let Some(&(_, context)) = retained.iter().find(|entry| entry.0 == device) {
        return Ok(context as sys::CUcontext);
    }
    // SAFETY: the handle came from the driver.
    let context = unsafe { result::primary_ctx::retain(handle) }
        .map_err(|e| failed(format!("open the context of CUDA device {device}"), e))?;
    retained.push((device, context as usize));
    Ok(context)
}

/// Memory of one device.
pub(super) struct DeviceMemory {
    address: sys::CUdeviceptr,
    len: usize,
    device: u32,
}

impl DeviceMemory {
    /// `len` zero bytes on `device`.
    pub(super) fn zeroed(device: u32, len: usize) -> Result<Self> {
        let _current = enter(device)?;
        // SAFETY: a context is current; the size is not zero.
        let address = unsafe { result::malloc_sync(len.max(1)) }.map_err(|e| {
            let free =
                result::mem_get_info().map_or(String::new(), |(free, total)| format!(" ({free} of {total} free)"));
            failed(format!("allocate {len} bytes on CUDA device {device}{free}"), e)
        })?;
        let memory = Self { address, len, device };
        // SAFETY: the memory was just allocated with this size.
        unsafe { result::memset_d8_sync(address, 0, len.max(1)) }.map_err(|e| failed("clear GPU memory", e))?;
        settle()?;
        Ok(memory)
    }

    pub(super) fn address(&self) -> usize {
        self.address as usize
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Copies from the device. `offset + out.len()` is within the memory.
    pub(super) fn read(&self, offset: usize, out: &mut [u8]) -> Result<()> {
        copy_out(self.device, self.address, self.len, offset, out)
    }

    /// Copies to the device. `offset + bytes.len()` is within the memory.
    pub(super) fn write(&mut self, offset: usize, bytes: &[u8]) -> Result<()> {
        assert!(offset.checked_add(bytes.len()).is_some_and(|end| end <= self.len));
        if bytes.is_empty() {
            return Ok(());
        }
        let _current = enter(self.device)?;
        // SAFETY: the range was checked, and the memory is ours.
        unsafe { result::memcpy_htod_sync(self.address + offset as u64, bytes) }
            .map_err(|e| failed(format!("copy {} bytes to CUDA device {}", bytes.len(), self.device), e))?;
        settle()
    }

    /// Handle by which another process opens it.
    pub(super) fn ipc_handle(&self) -> Result<[u8; 64]> {
        let _current = enter(self.device)?;
        let mut handle = sys::CUipcMemHandle { reserved: [0; 64] };
        // SAFETY: the address is the base of a plain allocation, `handle` is writable.
        unsafe { sys::cuIpcGetMemHandle(&raw mut handle, self.address) }
            .result()
            .map_err(|e| failed("export GPU memory to other processes", e))?;
        Ok(handle.reserved.map(|byte| byte as u8))
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        if let Ok(_current) = enter(self.device) {
            // SAFETY: allocated by `malloc_sync`, freed once.
            let _ = unsafe { result::free_sync(self.address) };
        }
    }
}

/// GPU memory of another process, opened by its handle.
#[derive(Debug)]
pub struct ImportedMemory {
    address: sys::CUdeviceptr,
    len: usize,
    device: u32,
}

impl ImportedMemory {
    /// Opens memory of `len` bytes that another process exported on `device`.
    ///
    /// # Errors
    /// If the handle is not valid here; the exporting process itself cannot open it.
    pub fn open(device: u32, handle: [u8; 64], len: usize) -> Result<Self> {
        let _current = enter(device)?;
        let handle = sys::CUipcMemHandle { reserved: handle.map(|byte| byte as _) };
        let mut address: sys::CUdeviceptr = 0;
        let flags = sys::CUipcMem_flags::CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS as u32;
        // SAFETY: `address` is writable; the driver checks the handle.
        unsafe { sys::cuIpcOpenMemHandle_v2(&raw mut address, handle, flags) }
            .result()
            .map_err(|e| failed(format!("open another process' memory on CUDA device {device}"), e))?;
        let memory = Self { address, len, device };
        memory.fits()?;
        Ok(memory)
    }

    /// Copies from the device.
    ///
    /// # Errors
    /// If the range leaves the memory, or the driver fails.
    pub fn read(&self, offset: usize, out: &mut [u8]) -> Result<()> {
        if offset.checked_add(out.len()).is_none_or(|end| end > self.len) {
            return Err(Error::machine(format!("{} bytes at {offset} are outside of the imported memory", out.len())));
        }
        copy_out(self.device, self.address, self.len, offset, out)
    }

    /// Checks the claimed length against what the driver knows of the allocation.
    fn fits(&self) -> Result<()> {
        let (mut base, mut size) = (0, 0);
        // SAFETY: both places are writable, the address was opened above.
        unsafe { sys::cuMemGetAddressRange_v2(&raw mut base, &raw mut size, self.address) }
            .result()
            .map_err(|e| failed("look up imported GPU memory", e))?;
        if self.len > size {
            return Err(Error::machine(format!("imported GPU memory has {size} bytes, {} were claimed", self.len)));
        }
        Ok(())
    }
}

impl Drop for ImportedMemory {
    fn drop(&mut self) {
        if let Ok(_current) = enter(self.device) {
            // SAFETY: opened by `cuIpcOpenMemHandle`, closed once.
            let _ = unsafe { sys::cuIpcCloseMemHandle(self.address) };
        }
    }
}

fn copy_out(device: u32, address: sys::CUdeviceptr, len: usize, offset: usize, out: &mut [u8]) -> Result<()> {
    assert!(offset.checked_add(out.len()).is_some_and(|end| end <= len));
    if out.is_empty() {
        return Ok(());
    }
    let _current = enter(device)?;
    let count = out.len();
    // SAFETY: the range was checked, and `out` is ours.
    unsafe { result::memcpy_dtoh_sync(out, address + offset as u64) }
        .map_err(|e| failed(format!("copy {count} bytes from CUDA device {device}"), e))
}

/// Host memory that is page-locked for the GPU.
pub(super) struct PinnedMemory {
    host: HostMemory,
}

impl PinnedMemory {
    /// `len` zero bytes, page-locked for every device.
    pub(super) fn zeroed(len: usize) -> Result<Self> {
        let _current = enter(0)?;
        let host = HostMemory::anonymous(len)?;
        let (address, flags) = (host.address().cast::<c_void>(), sys::CU_MEMHOSTREGISTER_PORTABLE);
        // SAFETY: the mapping is at least one page, present, and unmapped only after `drop` has unregistered it.
        unsafe { sys::cuMemHostRegister_v2(address, len.max(1), flags) }
            .result()
            .map_err(|e| failed(format!("page-lock {len} bytes of host memory"), e))?;
        Ok(Self { host })
    }

    pub(super) fn host(&self) -> &HostMemory {
        &self.host
    }

    pub(super) fn host_mut(&mut self) -> &mut HostMemory {
        &mut self.host
    }
}

impl Drop for PinnedMemory {
    fn drop(&mut self) {
        if let Ok(_current) = enter(0) {
            // SAFETY: registered in `zeroed`, unregistered once; the memory is unmapped after this.
            let _ = unsafe { sys::cuMemHostUnregister(self.host.address().cast()) };
        }
    }
}

fn failed(doing: impl std::fmt::Display, error: DriverError) -> Error {
    let text = |text: Result<&std::ffi::CStr, DriverError>| text.ok().map(|text| text.to_string_lossy().into_owned());
    let cause = match (text(error.error_name()), text(error.error_string())) {
        (Some(name), Some(text)) => format!("{name} ({text})"),
        _ => format!("CUDA error {}", error.0 as u32),
    };
    Error::machine(format!("cannot {doing}: {cause}"))
}
