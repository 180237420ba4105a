//! The runtime functions that Triton and its python backend call: devices, streams, errors. Stream work is complete
//! when the call returns.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::Mutex;

use crate::context;
use crate::ledger::{self, lock};
use crate::pending;
use crate::settings::settings;
use crate::status::{
    INVALID_HANDLE, INVALID_VALUE, NOT_FOUND, NOT_SUPPORTED, Outcome, PEER_ACCESS_ALREADY_ENABLED, Status, number,
    store, words,
};

/// `cudaDeviceProp` of CUDA 12: its size, and where the members are that anyone here reads.
const PROPERTIES: usize = 1032;
const TOTAL_MEMORY: usize = 288;
const COMPUTE_CAPABILITY: [(usize, i32); 2] = [(360, 9), (364, 0)];

const NON_BLOCKING: c_uint = 1;

thread_local!(static LAST_ERROR: Cell<c_int> = const { Cell::new(0) });

/// Remembers an error for `cudaGetLastError`.
pub fn noted(number: c_int) -> c_int {
    if number != 0 {
        LAST_ERROR.set(number);
    }
    number
}

/// What a function does once the driver is started.
pub fn within(task: impl FnOnce(u32) -> Outcome) -> c_int {
    noted(number(context::chosen().and_then(task)))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaGetLastError() -> c_int {
    LAST_ERROR.replace(0)
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaGetErrorString(error: c_int) -> *const c_char {
    words(error).map_or(c"unrecognized error code", |(_, text)| text).as_ptr()
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaGetDeviceCount(count: *mut c_int) -> c_int {
    noted(store(count, context::start().map(|()| settings().devices as c_int)))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaGetDevice(device: *mut c_int) -> c_int {
    noted(store(device, context::chosen().map(|device| device as c_int)))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaSetDevice(device: c_int) -> c_int {
    noted(number(context::start().and_then(|()| context::device(device)).map(|device| context::set(Some(device)))))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaGetDeviceProperties_v2(properties: *mut u8, device: c_int) -> c_int {
    noted(number(context::start().and_then(|()| context::device(device)).and_then(|device| {
        let mut bytes = [0_u8; PROPERTIES];
        let name = format!("stand-in {device}");
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        bytes[TOTAL_MEMORY..TOTAL_MEMORY + 8].copy_from_slice(&settings().memory.to_le_bytes());
        for (offset, value) in COMPUTE_CAPABILITY {
            bytes[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
        }
        if properties.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the caller offers a structure of that size.
        unsafe { properties.copy_from_nonoverlapping(bytes.as_ptr(), PROPERTIES) };
        Ok(())
    })))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaDeviceGetPCIBusId(text: *mut c_char, room: c_int, device: c_int) -> c_int {
    noted(number(context::start().and_then(|()| context::device(device)).and_then(|device| {
        let id = format!("0000:{:02x}:00.0\0", device + 1);
        if text.is_null() || (room as usize) < id.len() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the caller offers so much room.
        unsafe { text.copy_from_nonoverlapping(id.as_ptr().cast(), id.len()) };
        Ok(())
    })))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaDeviceCanAccessPeer(can: *mut c_int, device: c_int, peer: c_int) -> c_int {
    let devices = context::start().and_then(|()| Ok((context::device(device)?, context::device(peer)?)));
    noted(store(can, devices.map(|(device, peer)| c_int::from(device != peer))))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaDeviceEnablePeerAccess(peer: c_int, flags: c_uint) -> c_int {
    static ENABLED: Mutex<Vec<(u32, u32)>> = Mutex::new(Vec::new());
    within(|device| {
        let pair = (device, context::device(peer)?);
        if flags != 0 || pair.0 == pair.1 {
            return Err(INVALID_VALUE);
        }
        let mut enabled = lock(&ENABLED);
        if enabled.contains(&pair) {
            return Err(PEER_ACCESS_ALREADY_ENABLED);
        }
        enabled.push(pair);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaDeviceGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) -> c_int {
    match store(least, Ok(0)) {
        0 => noted(store(greatest, Ok(-5))),
        error => noted(error),
    }
}

/// The flags of each stream; a stream is its place here, counted from 1 and far from any address.
static STREAMS: Mutex<Vec<Option<c_uint>>> = Mutex::new(Vec::new());
const FIRST_STREAM: usize = 0x57_0000;

/// The flags of a stream. The default stream is a null pointer, or 1 or 2 by its other names.
fn flags_of(stream: *mut c_void) -> Outcome<c_uint> {
    if (stream as usize) <= 2 {
        return Ok(0);
    }
    let index = (stream as usize).checked_sub(FIRST_STREAM);
    let flags = index.and_then(|index| lock(&STREAMS).get(index).copied().flatten());
    flags.ok_or(INVALID_HANDLE).inspect_err(|_| ledger::violation("unknown_stream", format!("{stream:p}")))
}

/// Called before work on a stream: every stream but a non-blocking one waits for the default stream.
pub fn order(stream: *mut c_void) -> Outcome {
    if flags_of(stream)? & NON_BLOCKING == 0 {
        pending::finish();
    }
    Ok(())
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaStreamCreateWithPriority(stream: *mut *mut c_void, flags: c_uint, _priority: c_int) -> c_int {
    noted(store(
        stream,
        context::chosen().map(|_| {
            let mut streams = lock(&STREAMS);
            streams.push(Some(flags));
            std::ptr::without_provenance_mut(FIRST_STREAM + streams.len() - 1)
        }),
    ))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaStreamCreate(stream: *mut *mut c_void) -> c_int {
    cudaStreamCreateWithPriority(stream, 0, 0)
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaStreamDestroy(stream: *mut c_void) -> c_int {
    within(|_| {
        flags_of(stream)?;
        let index = (stream as usize).checked_sub(FIRST_STREAM).ok_or(INVALID_HANDLE)?;
        lock(&STREAMS)[index] = None;
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaStreamGetFlags(stream: *mut c_void, flags: *mut c_uint) -> c_int {
    noted(store(flags, flags_of(stream)))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaStreamSynchronize(stream: *mut c_void) -> c_int {
    within(|_| order(stream))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaLaunchHostFunc(
    stream: *mut c_void,
    function: Option<extern "C" fn(*mut c_void)>,
    data: *mut c_void,
) -> c_int {
    within(|_| {
        order(stream)?;
        function.ok_or(INVALID_VALUE)?(data);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaEventRecord(_event: *mut c_void, stream: *mut c_void) -> c_int {
    within(|_| order(stream))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaEventSynchronize(_event: *mut c_void) -> c_int {
    within(|_| Ok(()))
}

/// There is nothing here that could run code for a GPU.
#[unsafe(no_mangle)]
pub extern "C" fn cudaLaunchKernel() -> c_int {
    noted(NOT_SUPPORTED.0)
}

/// Finds a function of the driver by its name without a version, of which there is one here.
#[unsafe(no_mangle)]
pub extern "C" fn cudaGetDriverEntryPoint(
    name: *const c_char,
    function: *mut *mut c_void,
    _flags: u64,
    result: *mut c_int,
) -> c_int {
    const FOUND: c_int = 0;
    const SYMBOL_NOT_FOUND: c_int = 1;
    let found = driver_function(name);
    if !result.is_null() {
        // SAFETY: the caller says that it may be written.
        unsafe { result.write(if found.is_ok() { FOUND } else { SYMBOL_NOT_FOUND }) };
    }
    noted(store(function, found))
}

fn driver_function(name: *const c_char) -> Result<*mut c_void, Status> {
    if name.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: a string of the caller's.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    let candidates = [format!("{name}_v2\0"), format!("{name}\0")];
    let look_up = |name: &String| {
        // SAFETY: the name ends with a zero byte; the library is preloaded, so its functions are found by name alone.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr().cast()) };
        (!found.is_null()).then_some(found)
    };
    candidates.iter().find_map(look_up).ok_or(NOT_FOUND)
}
