//! The driver functions that this project's programs and Triton call.

use std::ffi::{c_char, c_int, c_uint, c_void};

use crate::context;
use crate::ipc::{self, Handle};
use crate::ledger::Interface;
use crate::pending;
use crate::pinned;
use crate::settings::settings;
use crate::space::{self, Address, Place, Side};
use crate::status::{INVALID_VALUE, NOT_SUPPORTED, Outcome, number, store, words};

/// The one flag that `cuIpcOpenMemHandle` takes.
const LAZY_ENABLE_PEER_ACCESS: c_uint = 1;

/// What a function does once there is a current context.
fn within(task: impl FnOnce() -> Outcome) -> c_int {
    number(context::needed().and_then(|_| task()))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuInit(flags: c_uint) -> c_int {
    number(if flags == 0 { context::start() } else { Err(INVALID_VALUE) })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDriverGetVersion(version: *mut c_int) -> c_int {
    store(version, Ok(12_060))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuGetErrorName(error: c_int, name: *mut *const c_char) -> c_int {
    store(name, words(error).map(|(name, _)| name.as_ptr()).ok_or(INVALID_VALUE))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuGetErrorString(error: c_int, text: *mut *const c_char) -> c_int {
    store(text, words(error).map(|(_, text)| text.as_ptr()).ok_or(INVALID_VALUE))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceGetCount(count: *mut c_int) -> c_int {
    store(count, context::started().map(|()| settings().devices as c_int))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDeviceGet(device: *mut c_int, ordinal: c_int) -> c_int {
    store(device, context::started().and_then(|()| context::device(ordinal)).map(|device| device as c_int))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDevicePrimaryCtxRetain(handle: *mut *mut c_void, device: c_int) -> c_int {
    let lookup = context::started().and_then(|()| context::device(device));
    store(handle, lookup.map(|device| std::ptr::without_provenance_mut(context::handle(Some(device)))))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDevicePrimaryCtxRelease_v2(device: c_int) -> c_int {
    number(context::started().and_then(|()| context::device(device)).map(|_| ()))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuDevicePrimaryCtxGetState(device: c_int, flags: *mut c_uint, active: *mut c_int) -> c_int {
    let lookup = context::started().and_then(|()| context::device(device));
    match store(flags, lookup.map(|_| 0)) {
        0 => store(active, Ok(1)),
        error => error,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSetCurrent(handle: *mut c_void) -> c_int {
    number(context::started().and_then(|()| context::of_handle(handle as usize)).map(context::set))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxGetCurrent(handle: *mut *mut c_void) -> c_int {
    let current = context::started().map(|()| context::handle(context::current()));
    store(handle, current.map(std::ptr::without_provenance_mut))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxPushCurrent_v2(handle: *mut c_void) -> c_int {
    let device = context::started().and_then(|()| context::of_handle(handle as usize)?.ok_or(INVALID_VALUE));
    number(device.map(context::push))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxPopCurrent_v2(handle: *mut *mut c_void) -> c_int {
    number(context::started().and_then(|()| context::pop()).map(|device| {
        if !handle.is_null() {
            // SAFETY: the caller says that it may be written.
            unsafe { handle.write(std::ptr::without_provenance_mut(context::handle(Some(device)))) };
        }
    }))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxGetDevice(device: *mut c_int) -> c_int {
    store(device, context::needed().map(|device| device as c_int))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuCtxSynchronize() -> c_int {
    within(|| {
        pending::finish();
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuStreamSynchronize(_stream: *mut c_void) -> c_int {
    cuCtxSynchronize()
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> c_int {
    let memory = context::needed().map(space::memory);
    match store(free, memory.map(|(free, _)| free)) {
        0 => store(total, memory.map(|(_, total)| total)),
        error => error,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemAlloc_v2(address: *mut u64, size: usize) -> c_int {
    let made = context::needed().and_then(|device| space::allocate(device, size, Interface::Driver));
    store(address, made.map(|address| address as u64))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemFree_v2(address: u64) -> c_int {
    within(|| space::free(address as usize, Interface::Driver))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemGetAddressRange_v2(base: *mut u64, size: *mut usize, address: u64) -> c_int {
    within(|| {
        let block = space::device_block(address as usize, 1)?;
        // SAFETY: each place may be null, or the caller says that it may be written.
        unsafe {
            if let Some(base) = base.as_mut() {
                *base = block.base as u64;
            }
            if let Some(size) = size.as_mut() {
                *size = block.size;
            }
        }
        Ok(())
    })
}

/// The attributes of an address that Triton's backends ask for. Memory of the host is unknown to the driver here.
#[unsafe(no_mangle)]
pub extern "C" fn cuPointerGetAttribute(target: *mut c_void, attribute: c_int, address: u64) -> c_int {
    const MEMORY_TYPE: c_int = 2;
    const DEVICE_ORDINAL: c_int = 9;
    const RANGE_START: c_int = 11;
    const RANGE_SIZE: c_int = 12;
    const DEVICE_MEMORY: c_int = 2;
    let found = context::started().and_then(|()| match space::place(address as usize, 1)? {
        Place::Device(block) => Ok(block),
        Place::Host => Err(INVALID_VALUE),
    });
    match (attribute, found) {
        (MEMORY_TYPE, found) => store(target.cast(), found.map(|_| DEVICE_MEMORY)),
        (DEVICE_ORDINAL, found) => store(target.cast(), found.map(|block| block.device as c_int)),
        (RANGE_START, found) => store(target.cast(), found.map(|block| block.base)),
        (RANGE_SIZE, found) => store(target.cast(), found.map(|block| block.size)),
        (_, _) => INVALID_VALUE.0,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemsetD8_v2(address: u64, value: u8, count: usize) -> c_int {
    within(|| {
        let block = space::device_block(address as usize, count)?;
        pending::fill(block, address as usize, value, count);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemcpy(target: u64, source: u64, count: usize) -> c_int {
    within(|| {
        space::copy(
            Address { value: target as usize, side: Side::Any },
            Address { value: source as usize, side: Side::Any },
            count,
        )
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemcpyHtoD_v2(target: u64, source: *const c_void, count: usize) -> c_int {
    within(|| space::upload(target as usize, source as usize, count))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemcpyDtoH_v2(target: *mut c_void, source: u64, count: usize) -> c_int {
    within(|| {
        space::copy(
            Address { value: target as usize, side: Side::Host },
            Address { value: source as usize, side: Side::Device },
            count,
        )
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cuIpcGetMemHandle(handle: *mut Handle, address: u64) -> c_int {
    store(handle, context::needed().and_then(|_| ipc::export(address as usize)))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuIpcOpenMemHandle_v2(address: *mut u64, handle: Handle, flags: c_uint) -> c_int {
    let opened = context::needed().and_then(|_| match flags {
        LAZY_ENABLE_PEER_ACCESS => ipc::open(handle, Interface::Driver),
        _ => Err(INVALID_VALUE),
    });
    store(address, opened.map(|address| address as u64))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuIpcCloseMemHandle(address: u64) -> c_int {
    within(|| space::close(address as usize))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemHostRegister_v2(address: *mut c_void, size: usize, _flags: c_uint) -> c_int {
    within(|| pinned::register(address as usize, size))
}

#[unsafe(no_mangle)]
pub extern "C" fn cuMemHostUnregister(address: *mut c_void) -> c_int {
    within(|| pinned::unregister(address as usize))
}

/// Triton asks for it when it starts.
#[unsafe(no_mangle)]
pub extern "C" fn cuMemGetAllocationGranularity(
    bytes: *mut usize,
    _properties: *const c_void,
    _option: c_int,
) -> c_int {
    store(bytes, context::started().map(|()| 2 << 20))
}

/// Triton looks these up for states that grow; no model of the tests has one.
macro_rules! unsupported {
    ($($name:ident)*) => { $(
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() -> c_int {
            NOT_SUPPORTED.0
        }
    )* };
}

unsupported! {
    cuMemAddressFree cuMemAddressReserve cuMemCreate cuMemMap cuMemRelease cuMemSetAccess cuMemUnmap
}
