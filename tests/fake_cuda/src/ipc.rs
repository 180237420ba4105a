//! Allocation handles, and memory of other processes.
//!
//! A block's bytes live in an unnamed file of its process, so a process that dies leaves nothing behind. The handle
//! names the descriptor within that process; the name the system shows for the descriptor tells whether it still is the
//! same block.

use std::fs::{self, OpenOptions};
use std::path::PathBuf;

use crate::block::{self, Block, Identity};
use crate::ledger::Interface;
use crate::settings::settings;
use crate::space;
use crate::status::{INVALID_CONTEXT, INVALID_DEVICE, INVALID_VALUE, MAP_FAILED, Outcome};

/// `CUipcMemHandle` and `cudaIpcMemHandle_t`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Handle(pub [u8; 64]);

const MAGIC: u64 = 0x6661_6b65_5f69_7063;

/// The handle of the allocation that begins at `address`.
pub fn export(address: usize) -> Outcome<Handle> {
    let block = space::base(address)?;
    let Identity { process, number } = block.identity;
    let words =
        [MAGIC, u64::from(process), block.descriptor() as u64, number, block.size as u64, u64::from(block.device)];
    let mut handle = Handle([0; 64]);
    for (bytes, word) in handle.0.chunks_exact_mut(8).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    Ok(handle)
}

/// Opens an allocation of another process.
pub fn open(handle: Handle, interface: Interface) -> Outcome<usize> {
    let mut words = handle.0.chunks_exact(8).map(|bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes")));
    let mut next = || words.next().unwrap_or(0);
    let (magic, process, descriptor, number) = (next(), next() as u32, next(), next());
    let (size, device) = (next() as usize, next() as u32);
    if magic != MAGIC {
        return Err(INVALID_VALUE);
    }
    if process == std::process::id() {
        return Err(INVALID_CONTEXT);
    }
    if device >= settings().devices {
        return Err(INVALID_DEVICE);
    }
    let identity = Identity { process, number };
    let path = PathBuf::from(format!("/proc/{process}/fd/{descriptor}"));
    let link = fs::read_link(&path).map_err(|_| MAP_FAILED)?;
    if !link.to_string_lossy().starts_with(&format!("/memfd:{} ", block::name(identity))) {
        return Err(MAP_FAILED);
    }
    space::import(identity, || {
        let file = OpenOptions::new().read(true).write(true).open(&path).map_err(|_| MAP_FAILED)?;
        Block::imported(file, size, device, interface, identity)
    })
}
