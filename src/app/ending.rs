//! How the program ends: results are written, then the exit code is settled, then servers are stopped, within a time
//! limit. Whatever has not ended by then is left, but everything that would stay behind is cleaned up.

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

/// How long servers may take to stop once everything is written. With the steps after it, less than 5 s.
const STOP_LIMIT: Duration = Duration::from_secs(4);

/// How long output on the way out may take.
const OUTPUT_LIMIT: Duration = Duration::from_millis(300);

/// When the program is left at the latest, if there is a limit.
#[derive(Clone)]
struct Bound {
    limit: Option<(Stamp, u8)>,
    /// What it waits for.
    waiting: String,
}

static BOUND: Mutex<Bound> = Mutex::new(Bound { limit: None, waiting: String::new() });
static SETTLED: Condvar = Condvar::new();
/// Whether some thread is about to leave the program.
static LEAVING: AtomicBool = AtomicBool::new(false);

/// Starts the thread that enforces time limits.
///
/// # Errors
/// If the thread cannot be started.
pub fn watch() -> Result<()> {
    let failed =
        |error| Error::machine(format!("cannot start the thread that limits how long stopping takes: {error}"));
    thread::Builder::new().name("end".to_owned()).spawn(keep).map(drop).map_err(failed)
}

/// Leaves the program with `code` if it has not ended `within` this time. The last call counts.
pub fn bound(within: Duration, code: u8, waiting: &str) {
    let mut bound = BOUND.lock();
    bound.limit = Some((Stamp::now().plus_duration(within), code));
    waiting.clone_into(&mut bound.waiting);
    SETTLED.notify_all();
}

/// Does what must not take longer than this time, or the program is left with `code`. A limit that ends sooner stays.
pub fn within<T>(limit: Duration, code: u8, waiting: &str, act: impl FnOnce() -> T) -> T {
    let before = BOUND.lock().clone();
    let until = Stamp::now().plus_duration(limit);
    if before.limit.is_some_and(|(sooner, _)| sooner < until) {
        return act();
    }
    bound(limit, code, waiting);
    let own = BOUND.lock().limit;
    let done = act();
    let mut bound = BOUND.lock();
    // An interrupt may have set a limit of its own.
    if bound.limit == own {
        *bound = before;
    }
    done
}

fn keep() {
    let mut bound = BOUND.lock();
    loop {
        match bound.limit {
            None => SETTLED.wait(&mut bound),
            Some((limit, code)) if Stamp::now() >= limit => {
                let waiting = bound.waiting.clone();
                drop(bound);
                try_to(move || note!("the server was left before it had stopped: {waiting}"));
                leave(code);
            }
            Some((limit, _)) => drop(SETTLED.wait_for(&mut bound, limit.from_now())),
        }
    }
}

/// Ends the program with `code`, once all results and errors are written: stops the servers, which an interrupt cuts
/// short.
pub fn end(code: u8) -> ExitCode {
    yield_to_whoever_leaves();
    phase::written(code);
    bound(STOP_LIMIT, code, "it was still in use");
    let stopped = backends::stop_servers(&|what| BOUND.lock().waiting = what);
    // Regions that a server never released still exist.
    shm::unlink_all();
    c_api::flush_log();
    if !stopped {
        // The library's destructors would free memory that its threads use.
        leave(code);
    }
    yield_to_whoever_leaves();
    ExitCode::from(code)
}

/// Leaves the program at once, and cleans up what would stay behind.
pub fn leave(code: u8) -> ! {
    clean_up();
    signal_hook::low_level::exit(i32::from(code))
}

/// Cleans up what would stay behind: processes, shared memory, temporary files. The first caller does so; others wait
/// for the end of the process.
pub fn clean_up() {
    if LEAVING.swap(true, Ordering::SeqCst) {
        wait_for_the_end();
    }
    try_to(stdio::give_way);
    report::remove_partial_files();
    try_to(c_api::flush_log);
    stdio::fall_silent();
    // Ends loads, whose requests keep regions in use.
    phase::interrupt();
    backends::abandon_servers();
    shm::unlink_all();
}

/// Runs an output action, but waits only a limited time: a terminal that accepts nothing must not keep the program from
/// leaving.
pub fn try_to(say: impl FnOnce() + Send + 'static) {
    let (done, ended) = mpsc::channel();
    let told = thread::Builder::new().name("last words".to_owned()).spawn(move || {
        say();
        drop(done);
    });
    if told.is_ok() {
        let _: Result<(), _> = ended.recv_timeout(OUTPUT_LIMIT);
    }
}

/// If another thread is leaving, waits instead of ending the process under its cleanup.
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
