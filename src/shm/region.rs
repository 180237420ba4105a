//! [`Region`] and [`Placement`].

use std::borrow::Cow;
use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use crate::cuda::{self, DeviceMemory, PinnedMemory};
use crate::error::{Error, Result};
use crate::posix::{HostMemory, MappedText};

/// Where a region's memory is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Placement {
    /// Ordinary process memory.
    #[default]
    Pageable,
    /// Page-locked host memory, registered with CUDA.
    Pinned,
    /// POSIX shared memory under a name.
    System,
    /// Memory of a CUDA device.
    Cuda(u32),
}

impl Placement {
    /// Checks that this machine has the driver and the device that this kind of memory needs, before any is allocated.
    ///
    /// # Errors
    /// If it has not.
    pub fn check(self) -> Result<()> {
        match self {
            Self::Pageable | Self::System => Ok(()),
            Self::Pinned => cuda::check(0),
            Self::Cuda(device) => cuda::check(device),
        }
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pageable => f.write_str("pageable"),
            Self::Pinned => f.write_str("pinned"),
            Self::System => f.write_str("system shared memory"),
            Self::Cuda(device) => write!(f, "gpu:{device}"),
        }
    }
}

/// One allocation at a stable address.
pub struct Region {
    placement: Placement,
    memory: Memory,
}

enum Memory {
    Host(HostMemory),
    Pinned(PinnedMemory),
    Device(DeviceMemory),
}

impl Region {
    /// A region of `len` zero bytes that is ready to be written: every page is resident, shared memory is reserved.
    ///
    /// # Errors
    /// If the machine lacks the memory, the driver or the device that `placement` needs.
    pub fn zeroed(placement: Placement, len: usize) -> Result<Self> {
        let memory = match placement {
            Placement::Pageable => Memory::Host(HostMemory::anonymous(len)?),
            Placement::System => Memory::Host(HostMemory::named(len)?),
            Placement::Pinned => Memory::Pinned(PinnedMemory::zeroed(len)?),
            Placement::Cuda(device) => Memory::Device(DeviceMemory::zeroed(device, len)?),
        };
        Ok(Self { placement, memory })
    }

    /// A region of `len` bytes for a caller that is going to write it: process memory and shared memory are allocated
    /// page by page as they are written.
    ///
    /// # Errors
    /// As [`Region::zeroed`].
    pub fn unfilled(placement: Placement, len: usize) -> Result<Self> {
        let host = match placement {
            Placement::Pageable => HostMemory::unfilled(len)?,
            Placement::System => HostMemory::named_unfilled(len)?,
            Placement::Pinned | Placement::Cuda(_) => return Self::zeroed(placement, len),
        };
        Ok(Self::from_host(placement, host))
    }

    /// A frozen region holding a copy of `bytes`.
    ///
    /// # Errors
    /// As [`Region::zeroed`].
    pub fn filled(placement: Placement, bytes: &[u8]) -> Result<Self> {
        let mut region = Self::zeroed(placement, bytes.len())?;
        region.write(0, bytes)?;
        Ok(region.freeze())
    }

    /// A frozen region over the contents of a regular file, mapped and not copied. The file must keep its length for as
    /// long as the region lives.
    ///
    /// # Errors
    /// If the path is not a regular file or cannot be read.
    pub fn mapped(path: &Path) -> Result<Self> {
        let (file, len) = open_regular(path)?;
        let host = HostMemory::file(&file, len).map_err(|e| unreadable(path, &e))?;
        Ok(Self::from_host(Placement::Pageable, host))
    }

    pub(super) fn from_host(placement: Placement, host: HostMemory) -> Self {
        Self { placement, memory: Memory::Host(host) }
    }

    /// Declares that nothing will be written any more, by us or by a server; host memory can then be borrowed.
    #[must_use]
    pub fn freeze(mut self) -> Self {
        match &mut self.memory {
            Memory::Host(host) => host.freeze(),
            Memory::Pinned(pinned) => pinned.host_mut().freeze(),
            Memory::Device(_) => {}
        }
        self
    }

    /// Address of the first byte; on a device for [`Placement::Cuda`].
    pub fn address(&self) -> usize {
        match &self.memory {
            Memory::Host(host) => host.address() as usize,
            Memory::Pinned(pinned) => pinned.host().address() as usize,
            Memory::Device(device) => device.address(),
        }
    }

    /// Size in bytes.
    pub fn len(&self) -> usize {
        match &self.memory {
            Memory::Host(host) => host.len(),
            Memory::Pinned(pinned) => pinned.host().len(),
            Memory::Device(device) => device.len(),
        }
    }

    /// Whether the size is zero.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where the memory is.
    pub fn placement(&self) -> Placement {
        self.placement
    }

    /// Name that other processes open it by (`shm_open`, with the slash), for [`Placement::System`].
    pub fn key(&self) -> Option<&str> {
        match &self.memory {
            Memory::Host(host) => host.name(),
            _ => None,
        }
    }

    /// Handle by which another process on this machine opens it (`cuIpcOpenMemHandle`), for [`Placement::Cuda`].
    ///
    /// # Errors
    /// If the driver cannot export it.
    pub fn ipc_handle(&self) -> Result<Option<[u8; 64]>> {
        match &self.memory {
            Memory::Device(device) => device.ipc_handle().map(Some),
            _ => Ok(None),
        }
    }

    /// Copies bytes out of the region, from the device if it is there. A server that was given the region to write must
    /// have finished: a request's outputs are read after its response has come.
    ///
    /// # Errors
    /// If the range leaves the region, or the driver fails.
    pub fn read(&self, offset: usize, out: &mut [u8]) -> Result<()> {
        self.check(offset, out.len())?;
        match &self.memory {
            Memory::Host(host) => host.read(offset, out),
            Memory::Pinned(pinned) => pinned.host().read(offset, out),
            Memory::Device(device) => device.read(offset, out)?,
        }
        Ok(())
    }

    /// Copies bytes into a region that is not frozen, to the device if it is there.
    ///
    /// # Errors
    /// If the range leaves the region, or the driver fails.
    pub fn write(&mut self, offset: usize, bytes: &[u8]) -> Result<()> {
        self.check(offset, bytes.len())?;
        match &mut self.memory {
            Memory::Host(host) => host.write(offset, bytes),
            Memory::Pinned(pinned) => pinned.host_mut().write(offset, bytes),
            Memory::Device(device) => device.write(offset, bytes),
        }
    }

    /// Returns the memory of a part that is no longer needed to the system, as far as possible. Its content is lost.
    pub fn give_back(&mut self, offset: usize, len: usize) {
        if let Memory::Host(host) = &mut self.memory {
            host.give_back(offset, len);
        }
    }

    /// A part of the region: borrowed from frozen host memory, copied from any other.
    ///
    /// # Errors
    /// If the range leaves the region, or the driver fails.
    pub fn bytes(&self, offset: usize, len: usize) -> Result<Cow<'_, [u8]>> {
        self.check(offset, len)?;
        let slice = match &self.memory {
            Memory::Host(host) => host.slice(),
            Memory::Pinned(pinned) => pinned.host().slice(),
            Memory::Device(_) => None,
        };
        if let Some(slice) = slice {
            return Ok(Cow::Borrowed(&slice[offset..offset + len]));
        }
        let mut copy = vec![0; len];
        self.read(offset, &mut copy)?;
        Ok(Cow::Owned(copy))
    }

    fn check(&self, offset: usize, len: usize) -> Result<()> {
        match offset.checked_add(len) {
            Some(end) if end <= self.len() => Ok(()),
            _ => Err(Error::machine(format!(
                "{len} bytes at offset {offset} are outside of a region of {} bytes in {}",
                self.len(),
                self.placement
            ))),
        }
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Region({} bytes at {:#x}, {})", self.len(), self.address(), self.placement)
    }
}

/// Maps a regular text file to be read once.
///
/// # Errors
/// If the path is no regular file or cannot be read.
pub fn map_text(path: &Path) -> Result<MappedText> {
    let (file, _) = open_regular(path)?;
    MappedText::new(&file).map_err(|e| unreadable(path, &e))
}

/// Opens a file and returns its length, without waiting on pipes and devices.
///
/// # Errors
/// If the path is not a regular file or cannot be read.
pub fn open_regular(path: &Path) -> Result<(File, usize)> {
    let metadata = std::fs::metadata(path).map_err(|e| unreadable(path, &e))?;
    if !metadata.is_file() {
        let kind = match metadata.file_type() {
            kind if kind.is_dir() => "a directory",
            kind if kind.is_fifo() => "a pipe, and files are mapped into memory: write what it brings to a file first",
            _ => "not a regular file",
        };
        return Err(Error::input(format!("failed to open file '{}': it is {kind}", path.display())));
    }
    let file = File::open(path).map_err(|e| unreadable(path, &e))?;
    let len = usize::try_from(metadata.len())
        .map_err(|_| Error::input(format!("file '{}' is larger than can be addressed", path.display())))?;
    Ok((file, len))
}

fn unreadable(path: &Path, cause: &std::io::Error) -> Error {
    Error::input(format!("failed to open file '{}' for reading provided data: {cause}", path.display()))
}
