//! One allocation of device memory.

use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::ledger::Interface;
use crate::status::{MAP_FAILED, OUT_OF_MEMORY, Outcome};

/// A page of the processor, and what stands behind the bytes of a block: how often other processes have it open.
const PAGE: usize = 4096;

/// What tells a block from others, of other processes too.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// The process that allocated it.
    pub process: u32,
    /// Its number there.
    pub number: u64,
}

/// Addresses that the processor cannot touch, and the bytes that copies find behind them.
pub struct Block {
    /// The address that was handed out.
    pub base: usize,
    /// Bytes that were asked for.
    pub size: usize,
    pub device: u32,
    pub interface: Interface,
    pub identity: Identity,
    bytes: *mut u8,
    file: File,
}

// SAFETY: the pointer is to a mapping that lives as long as the block; whoever copies is responsible for order, as with
// any memory of a device.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

impl Block {
    /// New memory. What it holds is not zero.
    pub fn new(size: usize, device: u32, interface: Interface, number: u64) -> Outcome<Self> {
        let identity = Identity { process: std::process::id(), number };
        let name = std::ffi::CString::new(name(identity)).expect("the name has no zero byte");
        // SAFETY: the name ends with a zero byte.
        let descriptor = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
        if descriptor < 0 {
            return Err(OUT_OF_MEMORY);
        }
        // SAFETY: just opened, and nobody else's.
        let file = unsafe { File::from_raw_fd(descriptor) };
        file.set_len((span(size) + PAGE) as u64).map_err(|_| OUT_OF_MEMORY)?;
        let block = Self::over(file, size, device, interface, identity)?;
        if interface == Interface::Driver {
            // SAFETY: the mapping has that many bytes.
            unsafe { ptr::write_bytes(block.bytes, 0xA5, size) };
        }
        Ok(block)
    }

    /// The block of another process, whose file was opened.
    pub fn imported(file: File, size: usize, device: u32, interface: Interface, identity: Identity) -> Outcome<Self> {
        let block = Self::over(file, size, device, interface, identity)?;
        block.opened().fetch_add(1, Ordering::AcqRel);
        Ok(block)
    }

    fn over(file: File, size: usize, device: u32, interface: Interface, identity: Identity) -> Outcome<Self> {
        let length = span(size) + PAGE;
        let map = |protection, flags, descriptor| {
            // SAFETY: a new mapping at an address that the system chooses.
            let address = unsafe { libc::mmap(ptr::null_mut(), length, protection, flags, descriptor, 0) };
            if address == libc::MAP_FAILED { Err(MAP_FAILED) } else { Ok(address) }
        };
        let bytes = map(libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED, file.as_raw_fd())?.cast();
        let reserved = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let base = map(libc::PROT_NONE, reserved, -1)? as usize;
        Ok(Self { base, size, device, interface, identity, bytes, file })
    }

    /// The byte behind an address of the block.
    pub fn byte(&self, address: usize) -> *mut u8 {
        // SAFETY: callers have checked that the address is in the block.
        unsafe { self.bytes.add(address - self.base) }
    }

    /// The descriptor by which another process can open it.
    pub fn descriptor(&self) -> i32 {
        self.file.as_raw_fd()
    }

    /// How often other processes have it open.
    pub fn opened(&self) -> &AtomicU32 {
        // SAFETY: the page behind the bytes belongs to the mapping, is aligned, and holds nothing else.
        unsafe { &*self.bytes.add(span(self.size)).cast::<AtomicU32>() }
    }
}

impl Drop for Block {
    /// The bytes go; the addresses are never handed out again, so that late users are found out.
    fn drop(&mut self) {
        // SAFETY: mapped by `over` with this length.
        unsafe { libc::munmap(self.bytes.cast(), span(self.size) + PAGE) };
    }
}

/// The name of a block's file.
pub fn name(identity: Identity) -> String {
    let Identity { process, number } = identity;
    format!("fake_cuda:{process}:{number}")
}

fn span(size: usize) -> usize {
    size.next_multiple_of(PAGE)
}
