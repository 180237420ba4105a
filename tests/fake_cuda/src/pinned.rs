//! Page-locked host memory: registered by a client or allocated by the runtime.

use std::ptr;
use std::sync::Mutex;

use crate::ledger::{self, Interface, Kind, lock};
use crate::status::{
    HOST_MEMORY_ALREADY_REGISTERED, HOST_MEMORY_NOT_REGISTERED, INVALID_VALUE, OUT_OF_MEMORY, Outcome,
};

const PAGE: usize = 4096;

/// Address and length of what is registered, and of what was handed out.
static REGISTERED: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());
static HANDED_OUT: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());

/// Registers memory of the process.
pub fn register(address: usize, size: usize) -> Outcome {
    let end = address.checked_add(size).filter(|_| address != 0 && size != 0).ok_or(INVALID_VALUE)?;
    if !is_mapped(address, size) {
        ledger::violation("not_mapped", format!("{size} bytes at {address:#x} are registered without being there"));
        return Err(INVALID_VALUE);
    }
    let mut registered = lock(&REGISTERED);
    if registered.iter().any(|&(base, length)| address < base + length && base < end) {
        return Err(HOST_MEMORY_ALREADY_REGISTERED);
    }
    registered.push((address, size));
    ledger::made(Interface::Driver, Kind::Registration, 0);
    Ok(())
}

/// Undoes [`register`].
pub fn unregister(address: usize) -> Outcome {
    let mut registered = lock(&REGISTERED);
    let Some(index) = registered.iter().position(|&(base, _)| base == address) else {
        drop(registered);
        ledger::violation("unknown_memory", format!("{address:#x} is unregistered, but was never registered"));
        return Err(HOST_MEMORY_NOT_REGISTERED);
    };
    let (_, size) = registered.swap_remove(index);
    drop(registered);
    if !is_mapped(address, size) {
        ledger::violation("unmapped_while_registered", format!("{size} bytes at {address:#x}"));
    }
    ledger::gone(Interface::Driver, Kind::Registration, 0);
    Ok(())
}

fn is_mapped(address: usize, size: usize) -> bool {
    let first = address / PAGE * PAGE;
    let pages = (address + size - first).div_ceil(PAGE);
    let mut present = vec![0_u8; pages];
    // SAFETY: only asks; there is room for an answer per page.
    unsafe { libc::mincore(ptr::with_exposed_provenance_mut(first), pages * PAGE, present.as_mut_ptr()) == 0 }
}

/// Memory of the host, as `cudaHostAlloc` and, for want of migration, `cudaMallocManaged` give it.
pub fn allocate(size: usize) -> Outcome<usize> {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping at an address that the system chooses.
    let address = unsafe { libc::mmap(ptr::null_mut(), size.max(1), protection, flags, -1, 0) };
    if address == libc::MAP_FAILED {
        return Err(OUT_OF_MEMORY);
    }
    lock(&HANDED_OUT).push((address as usize, size.max(1)));
    Ok(address as usize)
}

/// Frees what [`allocate`] gave; whether it had given it.
pub fn free(address: usize) -> bool {
    let mut handed_out = lock(&HANDED_OUT);
    let Some(index) = handed_out.iter().position(|&(base, _)| base == address) else { return false };
    let (_, size) = handed_out.swap_remove(index);
    // SAFETY: mapped by `allocate` with this length.
    unsafe { libc::munmap(ptr::with_exposed_provenance_mut(address), size) == 0 }
}
