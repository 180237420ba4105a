//! Ends of this process that the program did not decide on: something in it calls `exit`, `_exit` or the like.
//!
//! `exit` calls a handler of ours before anything of the process is taken down. The others call nothing of ours, so the
//! program has functions of their names: libraries that are opened at run time look for a name in the program first. All
//! stop the thread that wants to end the process, and let the program end it.

use std::sync::atomic::{AtomicI32, AtomicU8, Ordering};
use std::sync::{Once, OnceLock};
use std::thread;
use std::time::Duration;

use libc::c_int;

use crate::c_api::ffi::crash;

/// Nobody cares how this process ends.
const UNWATCHED: u8 = 0;
/// Whoever ends it is stopped.
const WATCHED: u8 = 1;
/// Somebody has tried to end it.
const CAUGHT: u8 = 2;
/// The program ends itself.
const ALLOWED: u8 = 3;

static STATE: AtomicU8 = AtomicU8::new(UNWATCHED);
/// The watched process: its children end as they please.
static PROCESS: AtomicI32 = AtomicI32::new(0);
/// What the program does instead; told how the end was attempted.
static INSTEAD: OnceLock<fn(&str)> = OnceLock::new();

/// Watches for such ends. The first of them calls `instead` on the thread that attempts it, and that thread goes no
/// further. To be called after everything of the server that runs at `exit` is registered, for whatever comes last runs
/// first; only the first call counts for `instead`.
pub fn watch_exits(instead: fn(&str)) {
    let _ = INSTEAD.set(instead);
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        PROCESS.store(std::process::id().cast_signed(), Ordering::Relaxed);
        STATE.store(WATCHED, Ordering::Release);
    });
    // Without memory for another handler the earlier ones remain. SAFETY: the handler lives as long as the process.
    let _ = unsafe { libc::atexit(at_exit) };
}

/// The program ends itself from now on.
pub fn allow_exit() {
    STATE.store(ALLOWED, Ordering::Release);
}

/// Whether something has tried to end the process.
pub fn is_caught() -> bool {
    STATE.load(Ordering::Acquire) == CAUGHT
}

extern "C" fn at_exit() {
    stop("exit");
}

/// Returns if the end is the program's own, or another process', or that of a crash.
fn stop(how: &str) {
    // SAFETY: it has no conditions.
    let is_here = PROCESS.load(Ordering::Relaxed) == unsafe { libc::getpid() };
    if !is_here || crash::has_crashed() {
        return;
    }
    match STATE.compare_exchange(WATCHED, CAUGHT, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => {
            if let Some(instead) = INSTEAD.get() {
                instead(how);
            }
        }
        Err(UNWATCHED | ALLOWED) => return,
        Err(_) => {}
    }
    loop {
        thread::sleep(Duration::from_secs(1));
    }
}

/// In place of the C library's.
#[unsafe(no_mangle)]
extern "C" fn _exit(code: c_int) -> ! {
    stop("_exit");
    loop {
        // SAFETY: it ends the process.
        unsafe { libc::syscall(libc::SYS_exit_group, code) };
    }
}

/// In place of the C library's.
#[unsafe(no_mangle)]
extern "C" fn _Exit(code: c_int) -> ! {
    _exit(code)
}

/// In place of the C library's. Where it returns here, it is called in a child of somebody's, whose handlers are not run.
#[unsafe(no_mangle)]
extern "C" fn quick_exit(code: c_int) -> ! {
    stop("quick_exit");
    _exit(code)
}
