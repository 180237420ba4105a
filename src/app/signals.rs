//! Interrupts: the first lets the run end with what it has, the second ends it at once. So does the first where there can
//! be nothing to report yet: a server that is waited for, or a model that loads, may take minutes.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::backends::program;
use crate::error::{Error, Result};
use crate::exit;
use crate::shm;

/// How often the user has interrupted.
static INTERRUPTS: AtomicUsize = AtomicUsize::new(0);

/// Whether everything is ready to be measured.
static READY: AtomicBool = AtomicBool::new(false);

/// Exit code of a run that was interrupted twice, or before it was ready: 128 and the number of SIGINT, as shells have it.
const INTERRUPTED: i32 = 130;

/// Starts to watch for SIGINT and SIGTERM; returns the counter of those that have come.
///
/// # Errors
/// Where the signals cannot be taken over.
pub fn watch() -> Result<&'static AtomicUsize> {
    let failed = |error| Error::machine(format!("cannot watch for interrupts: {error}"));
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
    shm::unlink_on_panic();
    shm::end_when_files_are_cut_short(i32::from(exit::FAILED)).map_err(failed)?;
    end_programs_on_panic();
    let watcher = move || {
        for _ in signals.forever() {
            let first = INTERRUPTS.fetch_add(1, Ordering::Relaxed) == 0;
            let ready = READY.load(Ordering::Relaxed);
            if first && ready {
                eprintln!("\ntriton-bench: interrupted; reporting what there is (interrupt again to leave at once)");
                continue;
            }
            if !ready {
                eprintln!("\ntriton-bench: interrupted before anything was measured");
            }
            shm::unlink_all();
            program::kill_all();
            signal_hook::low_level::exit(INTERRUPTED);
        }
    };
    thread::Builder::new().name("signals".to_owned()).spawn(watcher).map_err(failed)?;
    Ok(&INTERRUPTS)
}

/// Says that measuring begins: from now on the first interrupt lets the run end by itself.
pub fn ready() {
    READY.store(true, Ordering::Relaxed);
}

/// Makes every panic end the servers that were started: it may become an abort, which runs no destructors.
fn end_programs_on_panic() {
    let previous = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        program::kill_all();
        previous(info);
    }));
}
