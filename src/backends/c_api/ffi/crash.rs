//! Crashes: before the process dies, another thread shows what the server had logged, which is in memory, and takes away what
//! the process would leave behind. In a process that is being left, nothing crashes any more.

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

/// The log, and up to which byte it has been shown.
static LOG: AtomicI32 = AtomicI32::new(-1);
static SHOWN: AtomicPtr<AtomicU64> = AtomicPtr::new(ptr::null_mut());

/// The end of a pipe that calls the thread which clears up, and whether it has.
static CALL: AtomicI32 = AtomicI32::new(-1);
static CLEARED: AtomicBool = AtomicBool::new(false);
const CLEAR_LOOKS: u32 = 2000;
const CLEAR_LOOK: Duration = Duration::from_millis(1);

/// Whether threads that crash are stopped instead.
static STOPS: AtomicBool = AtomicBool::new(false);

/// Who handled each signal before.
struct Before([UnsafeCell<MaybeUninit<libc::sigaction>>; SIGNALS.len()]);

// SAFETY: written once, before the handlers that read it are in place.
unsafe impl Sync for Before {}

static BEFORE: Before = Before([const { UnsafeCell::new(MaybeUninit::zeroed()) }; SIGNALS.len()]);

/// Watches for crashes of this process. Before it crashes, `clear` is called on a thread of its own, where it may do what a
/// signal handler may not; if that fails, what `log` holds from byte `shown` on is shown as it is. To be called once.
pub fn watch_for_crashes(log: Option<(BorrowedFd<'static>, &'static AtomicU64)>, clear: fn()) {
    if let Some((log, shown)) = log {
        LOG.store(log.as_raw_fd(), Ordering::Relaxed);
        SHOWN.store(ptr::from_ref(shown).cast_mut(), Ordering::Release);
    }
    // Without that thread a crash leaves things behind, as it would anyway.
    if let Ok((mut wait, call)) = std::io::pipe() {
        let wait = move || {
            if wait.read_exact(&mut [0]).is_ok() {
                clear();
                CLEARED.store(true, Ordering::Relaxed);
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
        // A stack that has overflowed cannot take a handler.
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: the handler calls nothing that a signal handler must not; `before` has room for what was there.
        unsafe { libc::sigaction(*signal, &raw const action, before.get().cast()) };
    }
}

/// Lets no thread crash this process any more: one that does is stopped where it is. For a process that is being left, whose server
/// finds its children gone.
pub fn stop_crashes() {
    STOPS.store(true, Ordering::Relaxed);
}

extern "C" fn crashed(signal: c_int, info: *mut siginfo_t, _context: *mut c_void) {
    while STOPS.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_secs(1));
    }
    if !call_for_clearing() {
        dump();
    }
    let Some(index) = SIGNALS.iter().position(|known| *known == signal) else { return };
    // SAFETY: the kernel passes a valid pointer to handlers with SA_SIGINFO.
    let raises_itself = unsafe { (*info).si_code } > 0;
    // Whoever handles an abort ends the process, as where the address space is limited.
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

/// Has another thread show the log and take away what would be left behind. Waits until it has, but not for ever: this
/// thread may hold a lock that the other needs. Whether it has.
fn call_for_clearing() -> bool {
    let call = CALL.load(Ordering::Relaxed);
    // SAFETY: one byte of a constant is written.
    if call < 0 || unsafe { libc::write(call, [0_u8].as_ptr().cast(), 1) } != 1 {
        return false;
    }
    for _ in 0..CLEAR_LOOKS {
        if CLEARED.load(Ordering::Relaxed) {
            return true;
        }
        thread::sleep(CLEAR_LOOK);
    }
    false
}

/// Copies what has not been shown to standard error, without allocating.
fn dump() {
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
