//! Alternate stacks for threads that others start: one whose own stack has overflowed can run the handler of a crash only on
//! another. Rust's threads have one; those of Triton and its backends would die without a word.

use std::cell::Cell;
use std::ptr;
use std::sync::OnceLock;

use libc::{c_int, c_void, pthread_attr_t, pthread_t};

/// What a thread runs. It may be unwound: `pthread_exit` and a cancellation do that.
type Start = unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void;
type PthreadCreate = unsafe extern "C" fn(*mut pthread_t, *const pthread_attr_t, Start, *mut c_void) -> c_int;

/// What the handler of a crash needs beside what the kernel puts there.
const HANDLER_BYTES: usize = 32 << 10;

/// A thread that is about to start.
struct Call {
    start: Start,
    argument: *mut c_void,
}

/// A thread's alternate stack, which ends with it; null if it has none of ours.
struct AlternateStack(Cell<*mut c_void>);

thread_local! {
    static ALTERNATE: AlternateStack = const { AlternateStack(Cell::new(ptr::null_mut())) };
}

/// In place of the C library's, which it calls: libraries that are opened at run time look for a name in the program first.
///
/// # Safety
/// As of the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_create(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    start: Start,
    argument: *mut c_void,
) -> c_int {
    let Some(create) = of_the_c_library() else { return libc::EAGAIN };
    let call = Box::into_raw(Box::new(Call { start, argument }));
    // SAFETY: as the caller's; the thread takes `call`.
    let code = unsafe { create(thread, attributes, begin, call.cast()) };
    if code != 0 {
        // SAFETY: there is no thread that took it.
        drop(unsafe { Box::from_raw(call) });
    }
    code
}

fn of_the_c_library() -> Option<PthreadCreate> {
    static FOUND: OnceLock<Option<PthreadCreate>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        // SAFETY: the name ends with a zero byte.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, c"pthread_create".as_ptr()) };
        // SAFETY: the C library's function of that name has this form.
        (!found.is_null()).then(|| unsafe { std::mem::transmute::<*mut c_void, PthreadCreate>(found) })
    })
}

/// The beginning of every thread. Nothing here is to be dropped once `start` runs, for that may be unwound.
unsafe extern "C-unwind" fn begin(call: *mut c_void) -> *mut c_void {
    // SAFETY: from `pthread_create`, for this thread alone.
    let Call { start, argument } = *unsafe { Box::from_raw(call.cast::<Call>()) };
    install();
    // SAFETY: what the caller of `pthread_create` has promised.
    unsafe { start(argument) }
}

/// Gives this thread an alternate stack. Without memory for one it does without.
fn install() {
    let bytes = bytes();
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK | libc::MAP_NORESERVE;
    // SAFETY: a new mapping, wherever there is room.
    let memory = unsafe { libc::mmap(ptr::null_mut(), bytes, access, kind, -1, 0) };
    if memory == libc::MAP_FAILED {
        return;
    }
    let stack = libc::stack_t { ss_sp: memory, ss_flags: 0, ss_size: bytes };
    // SAFETY: the memory is this thread's until it ends.
    unsafe { libc::sigaltstack(&raw const stack, ptr::null_mut()) };
    let _ = ALTERNATE.try_with(|alternate| alternate.0.set(memory));
}

/// How large an alternate stack is: what the kernel saves depends on the processor.
fn bytes() -> usize {
    // SAFETY: it has no conditions; 0 where the kernel does not tell.
    let of_kernel = unsafe { libc::getauxval(libc::AT_MINSIGSTKSZ) };
    (HANDLER_BYTES + usize::try_from(of_kernel).unwrap_or_default()).next_multiple_of(4096)
}

impl Drop for AlternateStack {
    fn drop(&mut self) {
        let memory = self.0.get();
        if memory.is_null() {
            return;
        }
        let none = libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
        // SAFETY: the thread is ending on its own stack; nothing refers to this one once it is disabled.
        unsafe {
            libc::sigaltstack(&raw const none, ptr::null_mut());
            libc::munmap(memory, bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the calling thread has as its alternate stack.
    fn current() -> libc::stack_t {
        let mut found = libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: 0, ss_size: 0 };
        // SAFETY: `found` has room for what there is.
        unsafe { libc::sigaltstack(ptr::null(), &raw mut found) };
        found
    }

    unsafe extern "C-unwind" fn report(into: *mut c_void) -> *mut c_void {
        // SAFETY: the test passes one, and waits for the thread.
        unsafe { *into.cast::<usize>() = if current().ss_flags == 0 { current().ss_size } else { 0 } };
        ptr::null_mut()
    }

    #[test]
    fn threads_of_others_have_an_alternate_stack() {
        for _ in 0..200 {
            let (mut thread, mut found) = (0, 0_usize);
            // SAFETY: the thread is joined before `found` goes.
            unsafe {
                assert_eq!(pthread_create(&raw mut thread, ptr::null(), report, (&raw mut found).cast()), 0);
                assert_eq!(libc::pthread_join(thread, ptr::null_mut()), 0);
            }
            assert!(found >= HANDLER_BYTES, "{found}");
        }
        assert!(std::thread::spawn(|| current().ss_flags).join().is_ok_and(|flags| flags == 0), "Rust's own, too");
    }
}
