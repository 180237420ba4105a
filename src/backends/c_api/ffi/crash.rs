//! Crashes: before the process dies, another thread shows the server's log, which is in memory, says what has happened,
//! lets the program keep what it has measured, and cleans up what the process would leave behind. In a process that is
//! leaving, nothing crashes any more.

use std::cell::UnsafeCell;
use std::io::Read;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use libc::{c_int, c_void, siginfo_t};

/// The signals that a crash raises.
const SIGNALS: [c_int; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGABRT, libc::SIGILL, libc::SIGFPE];

/// The log, and the offset up to which it has been shown.
static LOG: AtomicI32 = AtomicI32::new(-1);
static SHOWN: AtomicPtr<AtomicU64> = AtomicPtr::new(ptr::null_mut());

/// The end of a pipe that wakes the cleanup thread, and whether it is done.
static CALL: AtomicI32 = AtomicI32::new(-1);
static CLEANED_UP: AtomicBool = AtomicBool::new(false);
const CLEANUP_POLLS: u32 = 6000;
const CLEANUP_POLL: Duration = Duration::from_millis(1);

/// The signal of the crash; 0 as long as there was none.
static CRASHED: AtomicI32 = AtomicI32::new(0);

/// Whether threads that crash are stopped instead.
static STOPS: AtomicBool = AtomicBool::new(false);

/// The previous handler of each signal.
struct Before([UnsafeCell<MaybeUninit<libc::sigaction>>; SIGNALS.len()]);

// SAFETY: written once, before the handlers that read it are in place.
unsafe impl Sync for Before {}

static BEFORE: Before = Before([const { UnsafeCell::new(MaybeUninit::zeroed()) }; SIGNALS.len()]);

/// Watches for crashes of this process. Before it crashes, `clean_up` is called with the signal on a separate thread, where
/// it may do what a signal handler may not; if that fails, the content of `log` from byte `shown` on is written
/// unprocessed. To be called once.
pub fn watch_for_crashes(log: Option<(BorrowedFd<'static>, &'static AtomicU64)>, clean_up: fn(c_int)) {
    if let Some((log, shown)) = log {
        LOG.store(log.as_raw_fd(), Ordering::Relaxed);
        SHOWN.store(ptr::from_ref(shown).cast_mut(), Ordering::Release);
    }
    // Without that thread a crash leaves things behind, as it otherwise would.
    if let Ok((mut wait, call)) = std::io::pipe() {
        let wait = move || {
            if wait.read_exact(&mut [0]).is_ok() {
                clean_up(CRASHED.load(Ordering::Relaxed));
                CLEANED_UP.store(true, Ordering::Relaxed);
            }
        };
        if thread::Builder::new().name("crash".to_owned()).spawn(wait).is_ok() {
            CALL.store(call.into_raw_fd(), Ordering::Relaxed);
        }
    }
    for (signal, before) in SIGNALS.iter().zip(&BEFORE.0) {
        // SAFETY: all zeros is a valid `sigaction`.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = crashed as *const () as usize;
        // An overflowed stack cannot run a handler.
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: the handler calls nothing that a signal handler must not; `before` has room for what was there.
        unsafe { libc::sigaction(*signal, &raw const action, before.get().cast()) };
    }
}

/// Whether a thread has crashed.
pub fn has_crashed() -> bool {
    CRASHED.load(Ordering::Relaxed) != 0
}

/// Lets no thread crash this process any more: a crashing thread is stopped where it is. For a process that is leaving,
/// whose server finds its children gone.
pub fn stop_crashes() {
    STOPS.store(true, Ordering::Relaxed);
}

extern "C" fn crashed(signal: c_int, info: *mut siginfo_t, _context: *mut c_void) {
    while STOPS.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_secs(1));
    }
    if CRASHED.compare_exchange(0, signal, Ordering::Relaxed, Ordering::Relaxed).is_err() {
        // Another thread has crashed before, and ends the process; nobody cleans up twice.
        thread::sleep(CLEANUP_POLL * CLEANUP_POLLS);
    }
    if !call_for_cleanup() {
        say_and_dump(signal);
    }
    let Some(index) = SIGNALS.iter().position(|entry| *entry == signal) else { return };
    // SAFETY: the kernel passes a valid pointer to handlers with SA_SIGINFO.
    let raises_itself = unsafe { (*info).si_code } > 0;
    // The handler of aborts ends the process, for example with a limited address space.
    if raises_itself || signal == libc::SIGABRT {
        // The kernel raises it again when this returns to the instruction that did it.
        // SAFETY: written before this handler was in place.
        unsafe { libc::sigaction(signal, BEFORE.0[index].get().cast(), ptr::null_mut()) };
        if !raises_itself {
            // SAFETY: it may be called in a handler; the signal is blocked until this one returns.
            unsafe { libc::raise(signal) };
        }
        return;
    }
    // SAFETY: both may be called in a handler; the signal is blocked until this one returns.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

/// Makes another thread show the log and clean up. Waits for that only for a limited time, because this thread may hold
/// a lock that the other one needs. Returns whether it was done.
fn call_for_cleanup() -> bool {
    let call = CALL.load(Ordering::Relaxed);
    // SAFETY: one byte of a constant is written.
    if call < 0 || unsafe { libc::write(call, [0_u8].as_ptr().cast(), 1) } != 1 {
        return false;
    }
    for _ in 0..CLEANUP_POLLS {
        if CLEANED_UP.load(Ordering::Relaxed) {
            return true;
        }
        thread::sleep(CLEANUP_POLL);
    }
    false
}

/// The signal's name.
pub fn name(signal: c_int) -> &'static str {
    match signal {
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGBUS => "SIGBUS",
        libc::SIGABRT => "SIGABRT",
        libc::SIGILL => "SIGILL",
        _ => "SIGFPE",
    }
}

/// Says that the process crashes, and copies the unshown part of the log to standard error, without allocating.
fn say_and_dump(signal: c_int) {
    for part in
        ["triton-bench: error: the process crashes by ", name(signal), ", probably in the server or a backend\n"]
    {
        // SAFETY: the bytes of a constant are written.
        let _ = unsafe { libc::write(2, part.as_ptr().cast(), part.len()) };
    }
    let (log, shown) = (LOG.load(Ordering::Relaxed), SHOWN.load(Ordering::Acquire));
    if shown.is_null() {
        return;
    }
    // SAFETY: it was made from a reference that lives as long as the process.
    let mut offset = unsafe { &*shown }.load(Ordering::Relaxed);
    let mut part = [0_u8; 4096];
    loop {
        // SAFETY: `part` has room for that many bytes.
        let read = unsafe { libc::pread(log, part.as_mut_ptr().cast(), part.len(), offset.cast_signed()) };
        let Ok(len @ 1..) = usize::try_from(read) else { return };
        let mut written = 0;
        while written < len {
            // SAFETY: the bytes from `written` to `len` were read just now.
            let wrote = unsafe { libc::write(2, part[written..].as_ptr().cast(), len - written) };
            let Ok(count @ 1..) = usize::try_from(wrote) else { return };
            written += count;
        }
        offset += len as u64;
    }
}
