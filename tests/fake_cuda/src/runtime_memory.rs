//! The runtime's memory functions.

use std::ffi::{c_int, c_uint, c_void};

use crate::context;
use crate::ipc::{self, Handle};
use crate::ledger::{self, Interface};
use crate::pending;
use crate::pinned;
use crate::runtime::{noted, order, within};
use crate::space::{self, Address, Place, Side};
use crate::status::{INVALID_VALUE, Outcome, store};

#[unsafe(no_mangle)]
pub extern "C" fn cudaMemGetInfo(free: *mut usize, total: *mut usize) -> c_int {
    let memory = context::chosen().map(space::memory);
    match store(free, memory.map(|(free, _)| free)) {
        0 => noted(store(total, memory.map(|(_, total)| total))),
        error => noted(error),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaMalloc(address: *mut usize, size: usize) -> c_int {
    noted(store(address, context::chosen().and_then(|device| space::allocate(device, size, Interface::Runtime))))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaMallocManaged(address: *mut usize, size: usize, _flags: c_uint) -> c_int {
    noted(store(address, context::chosen().and_then(|_| pinned::allocate(size))))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaHostAlloc(address: *mut usize, size: usize, _flags: c_uint) -> c_int {
    noted(store(address, context::chosen().and_then(|_| pinned::allocate(size))))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaFree(address: usize) -> c_int {
    within(|_| if address == 0 || pinned::free(address) { Ok(()) } else { space::free(address, Interface::Runtime) })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaFreeHost(address: usize) -> c_int {
    within(|_| {
        if address == 0 || pinned::free(address) {
            return Ok(());
        }
        ledger::violation("unknown_memory", format!("cudaFreeHost of {address:#x}"));
        Err(INVALID_VALUE)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaMemPrefetchAsync(_address: usize, _count: usize, device: c_int, stream: *mut c_void) -> c_int {
    const CPU: c_int = -1;
    within(|_| {
        if device != CPU {
            context::device(device)?;
        }
        order(stream)
    })
}

/// The sides that a `cudaMemcpyKind` names.
fn sides(kind: c_int) -> Outcome<(Side, Side)> {
    Ok(match kind {
        0 => (Side::Host, Side::Host),
        1 => (Side::Device, Side::Host),
        2 => (Side::Host, Side::Device),
        3 => (Side::Device, Side::Device),
        4 => (Side::Any, Side::Any),
        _ => return Err(INVALID_VALUE),
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaMemcpy(target: usize, source: usize, count: usize, kind: c_int) -> c_int {
    within(|_| {
        let (to, from) = sides(kind)?;
        space::copy(Address { value: target, side: to }, Address { value: source, side: from }, count)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaMemcpyAsync(
    target: usize,
    source: usize,
    count: usize,
    kind: c_int,
    stream: *mut c_void,
) -> c_int {
    within(|_| {
        order(stream)?;
        let (to, from) = sides(kind)?;
        space::copy_at_once(Address { value: target, side: to }, Address { value: source, side: from }, count)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaMemcpyPeer(target: usize, to: c_int, source: usize, from: c_int, count: usize) -> c_int {
    within(|_| {
        context::device(to)?;
        context::device(from)?;
        space::copy(Address { value: target, side: Side::Device }, Address { value: source, side: Side::Device }, count)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaMemcpyPeerAsync(
    target: usize,
    to: c_int,
    source: usize,
    from: c_int,
    count: usize,
    stream: *mut c_void,
) -> c_int {
    match within(|_| order(stream)) {
        0 => cudaMemcpyPeer(target, to, source, from, count),
        error => error,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaMemset(address: usize, value: c_int, count: usize) -> c_int {
    within(|_| match space::place(address, count)? {
        Place::Device(block) => {
            pending::fill(block, address, value as u8, count);
            Ok(())
        }
        Place::Host => {
            // SAFETY: the caller vouches for memory of the host; managed memory is such here.
            unsafe { std::ptr::with_exposed_provenance_mut::<u8>(address).write_bytes(value as u8, count) };
            Ok(())
        }
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaIpcGetMemHandle(handle: *mut Handle, address: usize) -> c_int {
    noted(store(handle, context::chosen().and_then(|_| ipc::export(address))))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaIpcOpenMemHandle(address: *mut usize, handle: Handle, flags: c_uint) -> c_int {
    const LAZY_ENABLE_PEER_ACCESS: c_uint = 1;
    let opened = context::chosen().and_then(|_| match flags {
        LAZY_ENABLE_PEER_ACCESS => ipc::open(handle, Interface::Runtime),
        _ => Err(INVALID_VALUE),
    });
    noted(store(address, opened))
}

#[unsafe(no_mangle)]
pub extern "C" fn cudaIpcCloseMemHandle(address: usize) -> c_int {
    within(|_| {
        pending::finish();
        space::close(address)
    })
}
