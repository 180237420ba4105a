//! All device memory of this process: resolving addresses, and copies.

use std::collections::BTreeMap;
use std::ptr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use crate::block::{Block, Identity};
use crate::ledger::{self, Interface, Kind, lock};
use crate::pending;
use crate::settings::settings;
use crate::status::{INVALID_VALUE, OUT_OF_MEMORY, Outcome};

/// Devices hand memory out in multiples of this.
const GRAIN: usize = 512;

struct Entry {
    /// `None` once it is freed.
    block: Option<Arc<Block>>,
    size: usize,
    /// How often a block of another process was opened here; 0 for our own.
    opened: u32,
}

static ENTRIES: Mutex<BTreeMap<usize, Entry>> = Mutex::new(BTreeMap::new());

/// What an address is.
pub enum Place {
    Host,
    Device(Arc<Block>),
}

/// Which side of a copy something has to be.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Host,
    Device,
    Any,
}

/// Bytes of a device that are free, and all of them.
pub fn memory(device: u32) -> (usize, usize) {
    let total = settings().memory;
    let entries = lock(&ENTRIES);
    let blocks = entries.values().filter(|entry| entry.opened == 0).filter_map(|entry| entry.block.as_ref());
    let used: usize = blocks.filter(|block| block.device == device).map(|block| cost(block.size)).sum();
    (total.saturating_sub(used), total)
}

fn cost(size: usize) -> usize {
    size.checked_next_multiple_of(GRAIN).unwrap_or(usize::MAX)
}

/// New memory of a device.
pub fn allocate(device: u32, size: usize, interface: Interface) -> Outcome<usize> {
    /// Number of the next allocation; held while there is made sure of its room.
    static NEXT: Mutex<u64> = Mutex::new(0);
    if size == 0 {
        return Err(INVALID_VALUE);
    }
    let mut next = lock(&NEXT);
    if cost(size) > memory(device).0 {
        return Err(OUT_OF_MEMORY);
    }
    let block = Block::new(size, device, interface, *next)?;
    *next += 1;
    let base = block.base;
    insert(block, 0);
    ledger::allocated(interface, device, size);
    Ok(base)
}

fn insert(block: Block, opened: u32) {
    lock(&ENTRIES).insert(block.base, Entry { size: block.size, block: Some(Arc::new(block)), opened });
}

/// Frees what [`allocate`] gave.
pub fn free(address: usize, interface: Interface) -> Outcome {
    pending::finish();
    let mut entries = lock(&ENTRIES);
    let entry = entries.get_mut(&address).filter(|entry| entry.opened == 0);
    let Some(block) = entry.and_then(|entry| entry.block.take()) else {
        drop(entries);
        ledger::violation("unknown_memory", format!("{interface:?} frees {address:#x}, which is no allocation"));
        return Err(INVALID_VALUE);
    };
    drop(entries);
    let opened = block.opened().load(Ordering::Acquire);
    if opened > 0 {
        ledger::violation("freed_while_open", format!("{} bytes are open {opened} times elsewhere", block.size));
    }
    ledger::gone(block.interface, Kind::Allocation, block.size);
    Ok(())
}

/// Adds a block of another process; one that is open already is counted once more.
pub fn import(identity: Identity, open: impl FnOnce() -> Outcome<Block>) -> Outcome<usize> {
    let mut entries = lock(&ENTRIES);
    let same = |entry: &&mut Entry| entry.block.as_ref().is_some_and(|block| block.identity == identity);
    let (base, interface) = if let Some(entry) = entries.values_mut().find(same) {
        entry.opened += 1;
        entry.block.as_ref().map(|block| (block.base, block.interface)).ok_or(INVALID_VALUE)?
    } else {
        drop(entries);
        let block = open()?;
        let location = (block.base, block.interface);
        insert(block, 1);
        location
    };
    ledger::made(interface, Kind::Import, 0);
    Ok(base)
}

/// Undoes one [`import`].
pub fn close(address: usize) -> Outcome {
    let mut entries = lock(&ENTRIES);
    let found = entries.get_mut(&address).filter(|entry| entry.opened > 0);
    let Some((entry, block)) = found.and_then(|entry| entry.block.clone().map(|block| (entry, block))) else {
        drop(entries);
        ledger::violation("unknown_memory", format!("{address:#x} is closed, but is no other process' memory"));
        return Err(INVALID_VALUE);
    };
    entry.opened -= 1;
    if entry.opened == 0 {
        block.opened().fetch_sub(1, Ordering::AcqRel);
        entry.block = None;
    }
    ledger::gone(block.interface, Kind::Import, 0);
    Ok(())
}

/// The allocation that begins at an address.
pub fn base(address: usize) -> Outcome<Arc<Block>> {
    let entries = lock(&ENTRIES);
    let allocation = entries.get(&address).filter(|entry| entry.opened == 0);
    allocation.and_then(|entry| entry.block.clone()).ok_or(INVALID_VALUE)
}

/// What `count` bytes from `address` on are.
///
/// # Errors
/// If they are memory of a device, but not all of one allocation, or not any more.
pub fn place(address: usize, count: usize) -> Outcome<Place> {
    let entries = lock(&ENTRIES);
    let Some((base, entry)) = entries.range(..=address).next_back().filter(|(base, e)| address - *base < e.size) else {
        return Ok(Place::Host);
    };
    match &entry.block {
        Some(block) if count <= entry.size - (address - base) => Ok(Place::Device(Arc::clone(block))),
        block => {
            let why = if block.is_some() { "the range leaves its allocation" } else { "the memory was freed" };
            let detail = format!("{count} bytes at offset {} of {}: {why}", address - base, entry.size);
            drop(entries);
            ledger::violation("out_of_range", detail);
            Err(INVALID_VALUE)
        }
    }
}

/// The allocation that holds an address on a device.
pub fn device_block(address: usize, count: usize) -> Outcome<Arc<Block>> {
    match place(address, count)? {
        Place::Device(block) => Ok(block),
        Place::Host => {
            ledger::violation("not_device_memory", format!("{count} bytes at {address:#x} are on no device"));
            Err(INVALID_VALUE)
        }
    }
}

/// An address of which the caller says on which side it is.
#[derive(Clone, Copy)]
pub struct Address {
    pub value: usize,
    pub side: Side,
}

/// Copies on the default stream, and waits for it.
pub fn copy(target: Address, source: Address, count: usize) -> Outcome {
    pending::finish();
    copy_at_once(target, source, count)
}

/// Copies, whatever the default stream still has to do.
pub fn copy_at_once(target: Address, source: Address, count: usize) -> Outcome {
    let (to, from) = (resolve(target, count)?, resolve(source, count)?);
    if count > 0 {
        // SAFETY: memory of devices was checked; the caller vouches for memory of the host.
        unsafe { ptr::copy(from.pointer(source.value).cast_const(), to.pointer(target.value), count) };
    }
    Ok(())
}

/// Copies from ordinary memory of the host: returns when that may be used again, which is before the bytes have arrived.
pub fn upload(target: usize, source: usize, count: usize) -> Outcome {
    let Place::Device(block) = resolve(Address { value: target, side: Side::Device }, count)? else {
        return Err(INVALID_VALUE);
    };
    resolve(Address { value: source, side: Side::Host }, count)?;
    if count > 0 {
        // SAFETY: the caller vouches for memory of the host.
        let bytes = unsafe { std::slice::from_raw_parts(ptr::with_exposed_provenance::<u8>(source), count) };
        pending::write(block, target, bytes.to_vec());
    }
    Ok(())
}

fn resolve(address: Address, count: usize) -> Outcome<Place> {
    let Address { value: address, side } = address;
    let place = place(address, count)?;
    let right = match (&place, side) {
        (_, Side::Any) => true,
        (Place::Host, side) => side == Side::Host,
        (Place::Device(_), side) => side == Side::Device,
    };
    if !right && count > 0 {
        let found = if matches!(place, Place::Host) { "the host" } else { "a device" };
        ledger::violation("wrong_side", format!("{count} bytes at {address:#x} are on {found}"));
        return Err(INVALID_VALUE);
    }
    Ok(place)
}

impl Place {
    fn pointer(&self, address: usize) -> *mut u8 {
        match self {
            Self::Host => ptr::with_exposed_provenance_mut(address),
            Self::Device(block) => block.byte(address),
        }
    }
}
