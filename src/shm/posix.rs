//! Host memory: anonymous mappings, mapped files and POSIX shared memory.
//!
//! The one type, [`HostMemory`], owns a mapping and lends its bytes by copying, or, once it is frozen, as a slice.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::fd::OwnedFd;

use memmap2::{Mmap, MmapMut, MmapOptions, MmapRaw, RemapOptions, UncheckedAdvice};
use rustix::fs::{FallocateFlags, Mode};
use rustix::shm::OFlags;
use shared_memory::{Shmem, ShmemConf, ShmemError};

use crate::error::{Error, Result};
use crate::host_memory::check_available;
use crate::{dev_shm, names};

/// How many existing names are skipped before giving up: names left by a dead process with our number.
const NAME_ATTEMPTS: usize = 1000;

/// Bytes of shared memory reserved at a time.
const PIECE: usize = 16 << 20;

/// A mapping of host memory with a stable address.
pub(super) struct HostMemory {
    owner: Owner,
    len: usize,
    frozen: bool,
}

enum Owner {
    Mapping(MmapRaw),
    Named(Named),
}

/// POSIX shared memory that is unlinked when dropped.
struct Named {
    memory: Shmem,
    name: String,
    /// Set if pages are reserved as they are written.
    unreserved: Option<Unreserved>,
}

/// A file of shared memory whose pages are not all reserved.
struct Unreserved {
    file: OwnedFd,
    /// For every [`PIECE`], whether it is reserved.
    reserved: Vec<bool>,
}

// SAFETY: `Shmem` is a pointer, a descriptor and strings, bound to no thread; it is `!Send` only because of the pointer.
unsafe impl Send for Named {}
// SAFETY: as above; through a shared reference only the address, the length and the name are read.
unsafe impl Sync for Named {}

impl Drop for Named {
    fn drop(&mut self) {
        names::remove(&self.name);
    }
}

impl HostMemory {
    /// Anonymous memory of `len` zero bytes, with every page resident.
    pub(super) fn anonymous(len: usize) -> Result<Self> {
        let _deciding = check_available(len)?;
        let mapping = MmapOptions::new().len(len.max(1)).populate().map_anon().map_err(|e| lacking(len, &e))?;
        Ok(Self::mapped(mapping.into(), len))
    }

    /// The same, with pages allocated as they are written.
    pub(super) fn unfilled(len: usize) -> Result<Self> {
        let mapping = MmapOptions::new().len(len.max(1)).map_anon().map_err(|e| lacking(len, &e))?;
        Ok(Self::mapped(mapping.into(), len))
    }

    /// The grown mapping of a builder, of which `len` bytes are in use; frozen.
    pub(super) fn built(mapping: MmapMut, len: usize) -> Self {
        Self { frozen: true, ..Self::mapped(mapping.into(), len) }
    }

    /// The contents of a regular file of `len` bytes, read-only, with every page resident; frozen.
    pub(super) fn file(file: &File, len: usize) -> io::Result<Self> {
        if len == 0 {
            return Self::anonymous(0).map(|memory| Self { frozen: true, ..memory }).map_err(io::Error::other);
        }
        let mapping = MmapOptions::new().len(len).populate().map_raw_read_only(file)?;
        Ok(Self { frozen: true, ..Self::mapped(mapping, len) })
    }

    /// Named shared memory of `len` zero bytes, with every page resident.
    pub(super) fn named(len: usize) -> Result<Self> {
        // What /dev/shm does not hold is refused below, in its own words.
        let held = dev_shm::free().is_none_or(|free| len as u64 <= free);
        let _deciding = if held { check_available(len)? } else { None };
        let mut memory = Self::named_unfilled(len)?;
        memory.reserve(0, len.max(1))?;
        // SAFETY: the mapping is `len` bytes long, writable, and not shared yet; its pages are reserved.
        unsafe { memory.address().write_bytes(0, len) };
        if let Owner::Named(named) = &mut memory.owner {
            named.unreserved = None;
        }
        Ok(memory)
    }

    /// The same, with pages allocated as they are written.
    pub(super) fn named_unfilled(len: usize) -> Result<Self> {
        if dev_shm::free().is_some_and(|free| len as u64 > free) {
            return Err(dev_shm::refused(len, &rustix::io::Errno::NOSPC.into()));
        }
        for _ in 0..NAME_ATTEMPTS {
            let name = names::next();
            match names::make(&name, || create(&name, len)) {
                // Works like any other for the moment that is left: no thread may report an error in that time.
                Ok(None) => return Self::unfilled(len),
                Ok(Some((memory, file))) => {
                    let unreserved = Unreserved { file, reserved: vec![false; len.div_ceil(PIECE).max(1)] };
                    let named = Named { memory, name, unreserved: Some(unreserved) };
                    return Ok(Self { owner: Owner::Named(named), len, frozen: false });
                }
                Err(ShmemError::MappingIdExists) => {}
                Err(e) => return Err(dev_shm::refused(len, &os_error(e))),
            }
        }
        Err(Error::machine(format!(
            "{NAME_ATTEMPTS} shared memory names of the form /dev/shm/{}N are taken; remove those left by earlier runs",
            names::own_prefix()
        )))
    }

    /// Reserves pages of shared memory before anything touches them: on a full file system touching is SIGBUS.
    fn reserve(&mut self, offset: usize, len: usize) -> Result<()> {
        let all = self.len.max(1);
        let Owner::Named(Named { unreserved: Some(unreserved), .. }) = &mut self.owner else { return Ok(()) };
        for piece in offset / PIECE..(offset + len).div_ceil(PIECE) {
            if !unreserved.reserved[piece] {
                let start = piece * PIECE;
                let (file, len) = (&unreserved.file, PIECE.min(all - start) as u64);
                rustix::io::retry_on_intr(|| rustix::fs::fallocate(file, FallocateFlags::empty(), start as u64, len))
                    .map_err(|e| dev_shm::refused(all, &e.into()))?;
                unreserved.reserved[piece] = true;
            }
        }
        Ok(())
    }

    fn mapped(mapping: MmapRaw, len: usize) -> Self {
        Self { owner: Owner::Mapping(mapping), len, frozen: false }
    }

    /// First byte.
    pub(super) fn address(&self) -> *mut u8 {
        match &self.owner {
            Owner::Mapping(mapping) => mapping.as_mut_ptr(),
            Owner::Named(named) => named.memory.as_ptr(),
        }
    }

    /// Bytes in use.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Name to open it by, with its slash.
    pub(super) fn name(&self) -> Option<&str> {
        match &self.owner {
            Owner::Mapping(_) => None,
            Owner::Named(named) => Some(&named.name),
        }
    }

    /// Nothing will be written any more, by us or by a server.
    pub(super) fn freeze(&mut self) {
        self.frozen = true;
    }

    /// Copies bytes out, as they are at this moment. `offset + out.len()` is within the memory.
    pub(super) fn read(&self, offset: usize, out: &mut [u8]) {
        assert!(offset.checked_add(out.len()).is_some_and(|end| end <= self.len));
        // SAFETY: the range was checked, `out` is ours alone; writers of unfrozen memory are done, as `Region::read`
        // requires.
        unsafe { self.address().add(offset).copy_to_nonoverlapping(out.as_mut_ptr(), out.len()) };
    }

    /// Copies bytes in. `offset + bytes.len()` is within the memory, which is not frozen.
    ///
    /// # Errors
    /// If there is no memory for them, if pages are allocated as they are written.
    pub(super) fn write(&mut self, offset: usize, bytes: &[u8]) -> Result<()> {
        if !bytes.is_empty() {
            self.reserve(offset, bytes.len())?;
        }
        assert!(!self.frozen && offset.checked_add(bytes.len()).is_some_and(|end| end <= self.len));
        // SAFETY: the range was checked; unfrozen memory is mapped writable, and `&mut self` shuts out other Rust code.
        unsafe { self.address().add(offset).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(())
    }

    /// Returns the whole pages of a range to the system; their content is lost, unless they are a file's.
    pub(super) fn give_back(&mut self, offset: usize, len: usize) {
        let page = rustix::param::page_size();
        let (start, end) = (offset.next_multiple_of(page), (offset + len).min(self.len) / page * page);
        if let Owner::Mapping(mapping) = &self.owner
            && start < end
        {
            // SAFETY: the range is within the mapping, and `&mut self` proves that nothing borrows from it.
            let _ = unsafe { mapping.unchecked_advise_range(UncheckedAdvice::DontNeed, start, end - start) };
        }
    }

    /// The bytes of frozen memory.
    pub(super) fn slice(&self) -> Option<&[u8]> {
        // SAFETY: the mapping is at least `len` bytes, lives as long as `self`, and is frozen: nothing writes to it.
        self.frozen.then(|| unsafe { std::slice::from_raw_parts(self.address(), self.len) })
    }
}

/// Shared memory of `len` bytes, whose name is the caller's to unlink, and its file.
fn create(name: &str, len: usize) -> Result<(Shmem, OwnedFd), ShmemError> {
    let mut memory = ShmemConf::new().size(len.max(1)).os_id(name).create()?;
    let file = rustix::shm::open(name, OFlags::RDWR, Mode::empty())
        .map_err(|e| ShmemError::MapOpenFailed(e.raw_os_error().cast_unsigned()))?;
    memory.set_owner(false);
    Ok((memory, file))
}

/// The message when mapped memory has lost its file.
const CUT_SHORT: &str = "error: memory that is mapped from a file is gone (SIGBUS): an input data file was cut \
    short during the run, or /dev/shm is full; leave input files as they are until the run has ended, and see df /dev/shm\n";

/// How long a thread that hit such memory waits for another thread, which also receives the signal, to end the process
/// more cleanly than a handler can.
const LEAVE_LIMIT: std::time::Duration = std::time::Duration::from_secs(3);

/// Reports when someone truncates an input file while it is mapped. To be called once, by the program, before other
/// handlers of the signal are registered: these may end the process at once, and handlers run in the order of
/// registration.
///
/// # Errors
/// If the signal handler cannot be installed.
pub fn say_when_files_are_cut_short() -> io::Result<()> {
    let action = || {
        let _ = rustix::io::write(rustix::stdio::stderr(), CUT_SHORT.as_bytes());
    };
    // SAFETY: the action makes one system call.
    unsafe { signal_hook::low_level::register(signal_hook::consts::SIGBUS, action) }.map(drop)
}

/// Ends the process with `code` in that case, if nothing else has ended it more cleanly: the bytes are gone, for the
/// server too, and the run cannot continue. To be called once, by the program, after that.
///
/// # Errors
/// If the signal handler cannot be installed.
pub fn end_when_files_are_cut_short(code: i32) -> io::Result<()> {
    let action = move || {
        names::unlink_in_signal();
        std::thread::sleep(LEAVE_LIMIT);
        signal_hook::low_level::exit(code);
    };
    // SAFETY: the action makes system calls and tries a lock; it does not allocate, and sleeps but for a while.
    unsafe { signal_hook::low_level::register(signal_hook::consts::SIGBUS, action) }.map(drop)
}

/// Does so if the kernel missed the bytes in a system call, which returns this error instead of raising a signal.
pub fn end_if_cut_short(error: &io::Error) {
    if error.raw_os_error() == Some(libc::EFAULT) {
        let _ = signal_hook::low_level::raise(signal_hook::consts::SIGBUS);
    }
}

/// Extends an anonymous mapping; its address may change.
pub(super) fn grow(mapping: &mut MmapMut, len: usize) -> Result<()> {
    // SAFETY: the mapping is anonymous and only gets longer, so every byte of it stays backed.
    unsafe { mapping.remap(len, RemapOptions::new().may_move(true)) }.map_err(|e| lacking(len, &e))
}

/// How much text is read before its pages are released.
const RELEASE_STEP: usize = 32 << 20;

/// A text file, mapped to be read once from front to back.
pub struct MappedText {
    mapping: Mmap,
    released: Cell<usize>,
}

impl MappedText {
    pub(super) fn new(file: &File) -> io::Result<Self> {
        // SAFETY: the mapping is private and read-only; input files are not to be cut short while they are read, which
        // the documentation of `--input-data` says.
        let mapping = unsafe { MmapOptions::new().map(file) }?;
        Ok(Self { mapping, released: Cell::new(0) })
    }

    /// Releases the memory before `offset` from time to time. It can still be read, from the file again.
    pub fn release(&self, offset: usize) {
        // A reader may have gone back to read something again.
        let from = self.released.get().min(offset / RELEASE_STEP * RELEASE_STEP);
        let len = (offset.saturating_sub(from) / RELEASE_STEP) * RELEASE_STEP;
        if len > 0 {
            // SAFETY: dropping clean pages of a read-only file mapping loses nothing: they are read again when needed.
            let _ = unsafe { self.mapping.unchecked_advise_range(UncheckedAdvice::DontNeed, from, len) };
        }
        self.released.set(from + len);
    }
}

impl Deref for MappedText {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.mapping
    }
}

fn lacking(len: usize, cause: &io::Error) -> Error {
    Error::machine(format!("cannot allocate {len} bytes of memory: {cause}; use smaller shapes, batches or files"))
}

/// What the system said when it refused a region.
fn os_error(error: ShmemError) -> io::Error {
    match error {
        ShmemError::MapCreateFailed(code) | ShmemError::MapOpenFailed(code) | ShmemError::UnknownOsError(code) => {
            io::Error::from_raw_os_error(code.cast_signed())
        }
        other => io::Error::other(other.to_string()),
    }
}
