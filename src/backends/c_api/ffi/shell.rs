//! `system(3)` for libraries in this process, which ignores no signal.
//!
//! The C library's ignores SIGINT and SIGQUIT in the whole process while its command runs, and the kernel throws away
//! what is pending of a signal when it becomes ignored, blocked or not (POSIX, "Signal Actions"). The python backend
//! calls it for each model that it loads, so a Ctrl-C shortly before would be lost. Libraries that are opened at run time
//! look for a name in the program first, and find this one.

use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use libc::c_int;

/// What the C library's says where there is a shell.
const HAS_SHELL: c_int = 1;

/// The status of a shell that cannot be run: its exit code is 127.
const NO_SHELL: c_int = 127 << 8;

/// What the C library's says where nobody knows how the command ended, as in a process that ignores SIGCHLD.
const UNKNOWN: c_int = -1;

/// In place of the C library's.
///
/// # Safety
/// `command` is null, or a string that ends with a zero.
#[unsafe(no_mangle)]
unsafe extern "C" fn system(command: *const c_char) -> c_int {
    if command.is_null() {
        return HAS_SHELL;
    }
    // SAFETY: the caller passes a C string.
    let command = OsStr::from_bytes(unsafe { CStr::from_ptr(command) }.to_bytes());
    let Ok(mut shell) = Command::new("/bin/sh").arg("-c").arg(command).spawn() else { return NO_SHELL };
    shell.wait().map_or(UNKNOWN, ExitStatusExt::into_raw)
}

#[cfg(test)]
mod tests {
    use nix::sys::signal::{SigSet, Signal, raise};
    use nix::sys::signalfd::{SfdFlags, SignalFd};

    use super::*;

    #[test]
    fn a_signal_that_is_pending_when_a_shell_starts_is_kept() {
        let set = SigSet::from_iter([Signal::SIGINT]);
        set.thread_block().unwrap();
        raise(Signal::SIGINT).unwrap();
        // SAFETY: it is a C string.
        assert_eq!(unsafe { libc::system(c"exit 3".as_ptr()) }, 3 << 8);
        let pending = SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK).unwrap().read_signal().unwrap();
        assert_eq!(pending.map(|info| info.ssi_signo), Some(libc::SIGINT as u32));
    }

    #[test]
    fn it_says_that_there_is_a_shell() {
        // SAFETY: null is allowed.
        assert_eq!(unsafe { libc::system(std::ptr::null()) }, HAS_SHELL);
    }
}
