//! How the program ends: results are written, then the exit code is settled, then servers are stopped, within a time
//! limit. Whatever has not ended by then is left, but everything that would stay behind is cleaned up.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::app::phase::{self, Phase};
use crate::backends::c_api::{self, Death};
use crate::backends::{self, owed};
use crate::clock::Stamp;
use crate::error::{Error, Result};
use crate::exit;
use crate::processes::{self, Leftovers};
use crate::report;
use crate::shm;
use crate::stdio::{self, note};

/// How long servers may take to stop once everything is written. With the steps after it, less than 5 s.
const STOP_LIMIT: Duration = Duration::from_secs(4);

/// How long a run whose server takes the process with it has to write what it has.
const KEEP_LIMIT: Duration = Duration::from_secs(4);

/// How long servers may take to load the configurations that they are owed, on the way out.
const OWED_LIMIT: Duration = Duration::from_secs(1);

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
/// The exit code of a run that has written everything, though its server takes the process with it.
static KEPT: Mutex<Option<u8>> = Mutex::new(None);
static IS_KEPT: Condvar = Condvar::new();
/// Whether some thread is about to leave the program.
static LEAVING: AtomicBool = AtomicBool::new(false);

/// Starts the thread that enforces time limits, and watches for a server that takes the process with it.
///
/// # Errors
/// If the thread cannot be started.
pub fn watch() -> Result<()> {
    c_api::on_death(die);
    let failed =
        |error| Error::machine(format!("cannot start the thread that limits how long stopping takes: {error}"));
    thread::Builder::new().name("end".to_owned()).spawn(keep).map(drop).map_err(failed)
}

/// Removes what runs have left that were killed, and says so.
pub fn clean_up_after_others() {
    let Leftovers { runs, names, processes } = processes::remove_leftovers();
    if names + processes > 0 {
        let runs = runs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        note!(
            "removed what a run has left that was killed (process {runs}): {names} names in /dev/shm, {processes} processes"
        );
    }
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
    let new_limit = BOUND.lock().limit;
    let done = act();
    let mut bound = BOUND.lock();
    // An interrupt may have set a limit of its own.
    if bound.limit == new_limit {
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
    if c_api::is_dying() {
        *KEPT.lock() = Some(code);
        IS_KEPT.notify_all();
        wait_for_the_end();
    }
    bound(STOP_LIMIT, code, "it was still in use");
    let stopped = backends::stop_servers(&|reason| BOUND.lock().waiting = reason);
    // Regions that a server never released still exist.
    shm::unlink_all();
    c_api::flush_log();
    if !stopped {
        // The library's destructors would free memory that its threads use.
        leave(code);
    }
    yield_to_whoever_leaves();
    c_api::allow_exit();
    ExitCode::from(code)
}

/// The server in this process takes it with it. A run that measures ends with what it has, unless its own thread is the one
/// that is lost, or waits for it. Returns only if the process is about to crash.
pub fn die(death: Death) {
    let code = match phase::now() {
        Phase::Written(code) => code,
        Phase::Measuring => {
            let (_, is_first) = phase::interrupt();
            let mut kept = KEPT.lock();
            let until = Stamp::now().plus_duration(KEEP_LIMIT);
            while kept.is_none() && Stamp::now() < until {
                let _ = IS_KEPT.wait_for(&mut kept, until.from_now());
            }
            // Whoever interrupts a run may be content with what it has, or with nothing; this one has failed, unless somebody has
            // interrupted it before.
            let is_true = |code: &u8| *code != exit::OK && !(is_first && *code == exit::INTERRUPTED);
            kept.filter(is_true).unwrap_or(exit::FAILED)
        }
        Phase::Waiting | Phase::Making | Phase::Loading => exit::FAILED,
    };
    if death == Death::Exit {
        leave(code);
    }
}

/// Leaves the program at once, and cleans up what would stay behind.
pub fn leave(code: u8) -> ! {
    clean_up();
    c_api::allow_exit();
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
    give_back();
    stdio::fall_silent();
    // Ends loads, whose requests keep regions in use.
    phase::interrupt();
    backends::abandon_servers();
    shm::unlink_all();
}

/// Gives servers that are not ours the configurations back that a search has changed, as far as that is possible at once.
fn give_back() {
    let open = owed::settle_all(OWED_LIMIT);
    if !open.is_empty() {
        let models = open.join("', '");
        try_to(move || {
            note!(
                "the server was asked for the own configuration of '{models}', and has not confirmed it; if it keeps another, load \
                 the model without one (POST v2/repository/models/NAME/load)"
            );
        });
    }
}

/// Runs an output action, but waits only a limited time: a terminal that accepts nothing must not keep the program from
/// leaving.
pub fn try_to(say: impl FnOnce() + Send + 'static) {
    let (done, ended) = mpsc::channel();
    let handle = thread::Builder::new().name("last words".to_owned()).spawn(move || {
        say();
        drop(done);
    });
    if handle.is_ok() {
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
