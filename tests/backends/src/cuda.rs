//! Copies to and from GPU memory through the CUDA driver, which is opened on the first such copy.

use std::cell::Cell;
use std::ffi::{CStr, c_int, c_void};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::abi::{Fault, UNSUPPORTED};
use crate::symbols;

type Context = *mut c_void;

type DeviceGet = unsafe extern "C" fn(*mut c_int, c_int) -> c_int;
type RetainContext = unsafe extern "C" fn(*mut Context, c_int) -> c_int;
type SetContext = unsafe extern "C" fn(Context) -> c_int;
type Copy = unsafe extern "C" fn(u64, u64, usize) -> c_int;
type Synchronize = unsafe extern "C" fn(*mut c_void) -> c_int;

struct Driver {
    device_get: DeviceGet,
    primary_context: RetainContext,
    set_context: SetContext,
    copy: Copy,
    synchronize: Synchronize,
    /// Primary contexts by device, as addresses. Retained once and kept: the host's runtime shares them.
    contexts: Mutex<Vec<(i64, usize)>>,
}

/// Copies between any two places, at least one of which is on the given GPU; done when it returns.
///
/// # Errors
/// No driver, no such device, or the driver's error number.
///
/// # Safety
/// Both ranges are valid for `bytes`, and do not overlap.
pub unsafe fn copy(target: *mut c_void, source: *const c_void, bytes: usize, device: i64) -> Result<(), Fault> {
    let driver = driver()?;
    driver.enter(device)?;
    // SAFETY: the caller vouches for the ranges; unified addressing tells the driver where each one lies.
    checked("cuMemcpy", unsafe { (driver.copy)(target as u64, source as u64, bytes) })?;
    // SAFETY: a null stream is the default stream. Copies within a GPU return before they are done.
    checked("cuStreamSynchronize", unsafe { (driver.synchronize)(std::ptr::null_mut()) })
}

fn driver() -> Result<&'static Driver, Fault> {
    static DRIVER: OnceLock<Result<Driver, Fault>> = OnceLock::new();
    DRIVER.get_or_init(open).as_ref().map_err(Fault::clone)
}

fn open() -> Result<Driver, Fault> {
    let library = symbols::open(c"libcuda.so.1");
    let find = |name: &CStr| {
        symbols::find_within(library, name).map(std::ptr::NonNull::as_ptr).ok_or_else(|| {
            Fault::new(UNSUPPORTED, "a tensor lies in GPU memory, but no CUDA driver (libcuda.so.1) can be opened")
        })
    };
    // SAFETY: the driver's documented prototypes.
    let (initialize, driver) = unsafe {
        let initialize: unsafe extern "C" fn(u32) -> c_int = std::mem::transmute(find(c"cuInit")?);
        let driver = Driver {
            device_get: std::mem::transmute::<*mut c_void, DeviceGet>(find(c"cuDeviceGet")?),
            primary_context: std::mem::transmute::<*mut c_void, RetainContext>(find(c"cuDevicePrimaryCtxRetain")?),
            set_context: std::mem::transmute::<*mut c_void, SetContext>(find(c"cuCtxSetCurrent")?),
            copy: std::mem::transmute::<*mut c_void, Copy>(find(c"cuMemcpy")?),
            synchronize: std::mem::transmute::<*mut c_void, Synchronize>(find(c"cuStreamSynchronize")?),
            contexts: Mutex::default(),
        };
        (initialize, driver)
    };
    // SAFETY: 0 is the only flag value that exists.
    checked("cuInit", unsafe { initialize(0) })?;
    Ok(driver)
}

impl Driver {
    /// Makes the device's primary context the calling thread's.
    fn enter(&self, device: i64) -> Result<(), Fault> {
        thread_local!(static CURRENT: Cell<i64> = const { Cell::new(-1) });
        if CURRENT.get() == device {
            return Ok(());
        }
        let context = self.context(device)?;
        // SAFETY: a retained primary context.
        checked("cuCtxSetCurrent", unsafe { (self.set_context)(context) })?;
        CURRENT.set(device);
        Ok(())
    }

    fn context(&self, device: i64) -> Result<Context, Fault> {
        let mut contexts = self.contexts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, context)) = contexts.iter().find(|(key, _)| *key == device) {
            return Ok(*context as Context);
        }
        let (mut handle, mut context) = (0, std::ptr::null_mut());
        // SAFETY: both calls write through the pointer they are given.
        unsafe {
            checked("cuDeviceGet", (self.device_get)(&raw mut handle, device as c_int))?;
            checked("cuDevicePrimaryCtxRetain", (self.primary_context)(&raw mut context, handle))?;
        }
        contexts.push((device, context as usize));
        Ok(context)
    }
}

fn checked(call: &str, status: c_int) -> Result<(), Fault> {
    if status == 0 { Ok(()) } else { Err(Fault::new(UNSUPPORTED, format!("{call} failed with CUDA error {status}"))) }
}
