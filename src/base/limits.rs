//! How much the system allows this process: threads, memory mappings, address space.

use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::error::{Error, Result};
use crate::exit;
use crate::stdio::note;

/// Memory mappings per thread: its stack and its signal stack, each with a guard page, and what it makes the heap map.
const MAPS_PER_THREAD: u64 = 6;
/// Mappings reserved for everything else.
const MAPS_RESERVED: u64 = 2_048;
/// Bytes of address space that a thread takes besides its stack.
const THREAD_BYTES: u64 = 512 << 10;
/// Bytes reserved for everything else.
const BYTES_RESERVED: u64 = 64 << 20;
/// With less, a server in this process does not start; a client over a network needs a fraction of it.
const COMFORTABLE: u64 = 4 << 30;

/// Bytes of address space that are left; `None` without a limit (`ulimit -v`).
pub fn address_space_left() -> Option<u64> {
    let limit = getrlimit(Resource::As).current?;
    let pages = fs::read_to_string("/proc/self/statm").ok()?.split_whitespace().next()?.parse::<u64>().ok()?;
    Some(limit.saturating_sub(pages.saturating_mul(rustix::param::page_size() as u64)))
}

/// Memory mappings that are left; `None` if that is unknown.
fn maps_left() -> Option<u64> {
    let most: u64 = fs::read_to_string("/proc/sys/vm/max_map_count").ok()?.trim().parse().ok()?;
    let maps = fs::read("/proc/self/maps").ok()?.iter().filter(|&&byte| byte == b'\n').count();
    Some(most.saturating_sub(maps as u64))
}

/// Fails if there is no room for `threads` more threads with such stacks. A thread that the system refuses is an
/// ordinary error, but a thread that starts and finds no room for its signal stack aborts the whole process inside
/// Rust's own thread start.
///
/// # Errors
/// If there is no room: the message says how many threads fit, and what limits them.
pub fn check_threads(threads: usize, stack: usize) -> Result<()> {
    let by_maps = maps_left().map(|left| left.saturating_sub(MAPS_RESERVED) / MAPS_PER_THREAD);
    let by_bytes = address_space_left().map(|left| left.saturating_sub(BYTES_RESERVED) / (stack as u64 + THREAD_BYTES));
    refuse(threads as u64, [(by_maps, "sysctl vm.max_map_count"), (by_bytes, "ulimit -v")])
}

fn refuse(threads: u64, limits: [(Option<u64>, &str); 2]) -> Result<()> {
    let least = limits.into_iter().filter_map(|(left, limit)| Some((left?, limit))).min();
    match least {
        Some((left, limit)) if threads > left => Err(Error::machine(format!(
            "{threads} more threads are wanted, and there is room for {left} ({limit}); ask for fewer at once, use --async, or \
             raise that limit"
        ))),
        _ => Ok(()),
    }
}

/// An error of the system with what it means, if it is that this process has as many files open as it may: how many these are,
/// and what to change.
pub fn explained(error: io::Error) -> io::Error {
    if error.raw_os_error() != Some(Errno::MFILE.raw_os_error()) {
        return error;
    }
    let limit = getrlimit(Resource::Nofile).current.map_or_else(|| "unlimited".to_owned(), |most| most.to_string());
    // Counting them takes a file, too, which there may not be: then all are in use.
    let open = fs::read_dir("/proc/self/fd").map_or_else(|_| "all".to_owned(), |open| open.count().to_string());
    let next = "raise it (ulimit -n), allow fewer connections (--max-connections), or use gRPC (-i grpc), whose requests share one";
    io::Error::new(error.kind(), format!("{error}: {open} are open, and ulimit -n allows {limit}; {next}"))
}

/// Says that the address space is limited, before a thread finds no room in it.
pub fn note_address_space() {
    if let Some(limit) = getrlimit(Resource::As).current.filter(|limit| *limit < COMFORTABLE) {
        note!("the address space is limited to {} MiB (ulimit -v); a run that needs more fails at once", limit >> 20);
    }
}

/// With a limited address space, a failed allocation aborts the process: in this program, in a server inside it, or
/// when a thread starts. The reason is on standard error by then; this turns the abort into an exit with the code of
/// failures.
///
/// # Errors
/// If the handler cannot be installed.
pub fn watch_address_space() -> Result<()> {
    if getrlimit(Resource::As).current.is_none() {
        return Ok(());
    }
    let armed = Arc::new(AtomicBool::new(true));
    signal_hook::flag::register_conditional_shutdown(libc::SIGABRT, i32::from(exit::FAILED), armed)
        .map(drop)
        .map_err(|error| Error::machine(format!("cannot prepare for the end of memory: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_room_decides_and_is_named() {
        assert!(refuse(7, [(None, "a"), (None, "b")]).is_ok());
        assert!(refuse(7, [(Some(7), "a"), (None, "b")]).is_ok());
        let message = refuse(8, [(Some(9), "a"), (Some(7), "b")]).unwrap_err().to_string();
        assert!(message.starts_with("8 more threads are wanted, and there is room for 7 (b)"), "{message}");
    }

    #[test]
    fn too_many_open_files_are_numbered_and_other_errors_stay() {
        let message = explained(io::Error::from_raw_os_error(Errno::MFILE.raw_os_error())).to_string();
        assert!(
            message.contains(" are open, and ulimit -n allows ") && message.contains("--max-connections"),
            "{message}"
        );
        let other = io::Error::from_raw_os_error(Errno::CONNREFUSED.raw_os_error());
        assert_eq!(explained(other).raw_os_error(), Some(Errno::CONNREFUSED.raw_os_error()));
    }

    #[test]
    fn the_system_tells() {
        assert!(maps_left().is_some_and(|left| left > 1_000));
        check_threads(10, 1 << 20).unwrap();
        assert!(check_threads(usize::MAX >> 8, 1 << 20).is_err());
    }
}
