//! How the program ends: what was measured is written, then the code is settled, then servers are stopped, within a bound;
//! whatever has not ended by then is left, and nothing of it stays behind.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::app::phase;
use crate::backends::{self, c_api};
use crate::clock::Stamp;
use crate::error::{Error, Result};
use crate::report;
use crate::shm;
use crate::stdio::{self, note};

/// How long servers may take to stop once everything is written. With what comes after it, less than 5 s.
const STOP_LIMIT: Duration = Duration::from_secs(4);

/// How long what is said on the way out may take.
const SAID_WITHIN: Duration = Duration::from_millis(300);

/// When the program is left at the latest, if that is settled.
struct Bound {
    limit: Option<(Stamp, u8)>,
    /// What it waits for.
    waiting: String,
}

static BOUND: Mutex<Bound> = Mutex::new(Bound { limit: None, waiting: String::new() });
static SETTLED: Condvar = Condvar::new();
/// Somebody is about to leave the program.
static LEAVING: AtomicBool = AtomicBool::new(false);

/// Starts the thread that keeps the bounds.
///
/// # Errors
/// Where there can be no further thread.
pub fn watch() -> Result<()> {
    let failed = |error| Error::machine(format!("cannot start the thread that bounds the program's end: {error}"));
    thread::Builder::new().name("end".to_owned()).spawn(keep).map(drop).map_err(failed)
}

/// Leaves the program `within` a time with `code`, if it has not ended by then. The last call counts.
pub fn bound(within: Duration, code: u8, waiting: &str) {
    let mut bound = BOUND.lock();
    bound.limit = Some((Stamp::now().plus_duration(within), code));
    waiting.clone_into(&mut bound.waiting);
    SETTLED.notify_all();
}

/// Takes the last bound back.
pub fn unbound() {
    BOUND.lock().limit = None;
}

fn keep() {
    let mut bound = BOUND.lock();
    loop {
        match bound.limit {
            None => SETTLED.wait(&mut bound),
            Some((limit, code)) if Stamp::now() >= limit => {
                let waiting = bound.waiting.clone();
                drop(bound);
                try_to(move || note!("the server was left before it had ended: {waiting}"));
                leave(code);
            }
            Some((limit, _)) => drop(SETTLED.wait_for(&mut bound, limit.from_now())),
        }
    }
}

/// Ends the program, whose results and errors are all written, with `code`: stops the servers, which an interrupt cuts short.
pub fn end(code: u8) -> ExitCode {
    yield_to_whoever_leaves();
    phase::written(code);
    bound(STOP_LIMIT, code, "it was still in use");
    let stopped = backends::stop_servers(&|what| BOUND.lock().waiting = what);
    // Regions that a server never gave back are still there.
    shm::unlink_all();
    c_api::flush_log();
    if !stopped {
        // The library's destructors would free what its threads use.
        leave(code);
    }
    yield_to_whoever_leaves();
    ExitCode::from(code)
}

/// Leaves the program at once, and takes with it what would stay behind.
pub fn leave(code: u8) -> ! {
    clear();
    signal_hook::low_level::exit(i32::from(code))
}

/// Takes with it what would stay behind: processes, shared memory, temporary files. The first to call it does so; others
/// wait for the end of the process.
pub fn clear() {
    if LEAVING.swap(true, Ordering::SeqCst) {
        wait_for_the_end();
    }
    try_to(stdio::give_way);
    report::remove_partial_files();
    try_to(c_api::flush_log);
    stdio::fall_silent();
    // Lets loads end, whose requests keep regions in use.
    phase::interrupt();
    backends::abandon_servers();
    shm::unlink_all();
}

/// Says or shows something, for as long as a terminal may take: one that takes nothing keeps nobody from leaving the program.
pub fn try_to(say: impl FnOnce() + Send + 'static) {
    let (done, ended) = mpsc::channel();
    let told = thread::Builder::new().name("last words".to_owned()).spawn(move || {
        say();
        drop(done);
    });
    if told.is_ok() {
        let _: Result<(), _> = ended.recv_timeout(SAID_WITHIN);
    }
}

/// What another thread takes away is not pulled from under it.
fn yield_to_whoever_leaves() {
    if LEAVING.load(Ordering::SeqCst) {
        wait_for_the_end();
    }
}

fn wait_for_the_end() -> ! {
    loop {
        thread::sleep(Duration::from_secs(1));
    }
}
