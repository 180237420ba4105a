//! Whether the driver is initialised, and the current device of each thread.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::ledger;
use crate::settings::settings;
use crate::status::{INVALID_CONTEXT, INVALID_DEVICE, NO_DEVICE, NOT_INITIALIZED, Outcome, Status};

static STARTED: AtomicBool = AtomicBool::new(false);

/// Contexts are addresses that mean nothing to their holders.
const FIRST_CONTEXT: usize = 0xC0DA_0000;

thread_local! {
    /// The thread's stack of contexts; the last one is current.
    static STACK: RefCell<Vec<Option<u32>>> = const { RefCell::new(Vec::new()) };
}

/// Starts the driver.
pub fn start() -> Outcome {
    match (settings().init_error, settings().devices) {
        (0, 0) => return Err(NO_DEVICE),
        (0, _) => {}
        (error, _) => return Err(Status(error)),
    }
    if !STARTED.swap(true, Ordering::AcqRel) {
        ledger::started();
    }
    Ok(())
}

/// Fails until the driver was started.
pub fn started() -> Outcome {
    if STARTED.load(Ordering::Acquire) { Ok(()) } else { Err(NOT_INITIALIZED) }
}

/// A device by its number.
pub fn device(number: i32) -> Outcome<u32> {
    u32::try_from(number).ok().filter(|&number| number < settings().devices).ok_or(INVALID_DEVICE)
}

/// The handle of a device's primary context; 0 stands for none.
pub fn handle(device: Option<u32>) -> usize {
    device.map_or(0, |device| FIRST_CONTEXT + device as usize)
}

/// The device of a context.
pub fn of_handle(handle: usize) -> Outcome<Option<u32>> {
    if handle == 0 {
        return Ok(None);
    }
    let number = handle.checked_sub(FIRST_CONTEXT).and_then(|number| u32::try_from(number).ok());
    number.filter(|&number| number < settings().devices).map(Some).ok_or(INVALID_CONTEXT)
}

/// The device of the thread's current context.
pub fn current() -> Option<u32> {
    STACK.with_borrow(|stack| stack.last().copied().flatten())
}

/// As [`current`], for calls of the driver that need one.
pub fn needed() -> Outcome<u32> {
    started()?;
    current()
        .ok_or(INVALID_CONTEXT)
        .inspect_err(|_| ledger::violation("no_context", "a call without a current context"))
}

/// As [`current`], for calls of the runtime, which starts the driver and takes device 0 where none was chosen.
pub fn chosen() -> Outcome<u32> {
    start()?;
    Ok(current().unwrap_or_else(|| {
        set(Some(0));
        0
    }))
}

/// Makes a context current.
pub fn set(device: Option<u32>) {
    STACK.with_borrow_mut(|stack| {
        stack.pop();
        stack.push(device);
    });
}

/// Makes a context current until [`pop`].
pub fn push(device: u32) {
    STACK.with_borrow_mut(|stack| stack.push(Some(device)));
}

/// Makes the context before the last [`push`] current.
pub fn pop() -> Outcome<u32> {
    STACK.with_borrow_mut(|stack| stack.pop().flatten().ok_or(INVALID_CONTEXT))
}
