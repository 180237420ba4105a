//! `/dev/shm`: the file system of POSIX shared memory, and the error if it is full.

use std::io;

use crate::error::Error;

const FOLDER: &str = "/dev/shm";

/// Free bytes in it; `None` if it has no limit, or that is not known.
pub(super) fn free() -> Option<u64> {
    let fs = rustix::fs::statvfs(FOLDER).ok()?;
    // Mounted without a limit, it has no blocks.
    (fs.f_blocks > 0).then(|| fs.f_bavail.saturating_mul(fs.f_frsize))
}

/// The error of a region of `len` bytes that the system refused with `cause`.
pub(super) fn refused(len: usize, cause: &io::Error) -> Error {
    let names = rustix::fs::statvfs(FOLDER).map_or(1, |fs| if fs.f_files == 0 { 1 } else { fs.f_favail });
    let free_bytes = free().map_or(String::new(), |free| format!(", where {free} bytes are free"));
    let advice = match cause.kind() {
        _ if cause.raw_os_error() == Some(rustix::io::Errno::MFILE.raw_os_error()) => {
            "raise the limit of open files (ulimit -n) or use less concurrency"
        }
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound => {
            "/dev/shm must be there and writable"
        }
        _ if names == 0 => "it holds as many files as it may (nr_inodes): remove some or use less concurrency",
        _ => {
            "free some, enlarge /dev/shm (docker run --shm-size) or use a smaller batch or --output-shared-memory-size"
        }
    };
    Error::machine(format!(
        "cannot create {len} bytes of system shared memory in {FOLDER}{free_bytes}: {cause}; {advice}"
    ))
}
