//! Interrupts: the first lets the run end with what it has, the second ends it at once. So does the first where there can
//! be nothing to report yet: a server that is waited for, or a model that loads, may take minutes. A terminal that hangs up
//! interrupts, too.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::backends::program;
use crate::error::{Error, Result};
use crate::exit;
use crate::shm;
use crate::stdio;

/// How often the user has interrupted.
static INTERRUPTS: AtomicUsize = AtomicUsize::new(0);

/// Whether everything is ready to be measured.
static READY: AtomicBool = AtomicBool::new(false);

/// Starts to watch for SIGINT, SIGTERM and SIGHUP; returns the counter of those that have come. SIGQUIT ends the program at
/// once, as it does by default, but for the names of shared memory and the servers that were started.
///
/// # Errors
/// Where the signals cannot be taken over.
pub fn watch() -> Result<&'static AtomicUsize> {
    let failed = |error| Error::machine(format!("cannot watch for interrupts: {error}"));
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGQUIT]).map_err(failed)?;
    if !hangups_are_ignored() {
        signals.add_signal(SIGHUP).map_err(failed)?;
    }
    shm::unlink_on_panic();
    shm::end_when_files_are_cut_short(i32::from(exit::FAILED)).map_err(failed)?;
    end_programs_on_panic();
    let watcher = move || {
        for signal in signals.forever() {
            let first = INTERRUPTS.fetch_add(1, Ordering::Relaxed) == 0;
            let ready = READY.load(Ordering::Relaxed);
            if signal != SIGQUIT && first && ready {
                stdio::say("\ntriton-bench: interrupted; reporting what there is (interrupt again to leave at once)\n");
                continue;
            }
            if signal != SIGQUIT && !ready {
                stdio::say("\ntriton-bench: interrupted before anything was measured\n");
            }
            shm::unlink_all();
            program::kill_all();
            if signal == SIGQUIT {
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
            signal_hook::low_level::exit(i32::from(exit::INTERRUPTED));
        }
    };
    thread::Builder::new().name("signals".to_owned()).spawn(watcher).map_err(failed)?;
    Ok(&INTERRUPTS)
}

/// The counter that [`watch`] returns, for those that wait for something of which an interrupt is the end.
pub fn count() -> &'static AtomicUsize {
    &INTERRUPTS
}

/// Whether whoever started the program had SIGHUP ignored, as `nohup` does: then it stays so.
fn hangups_are_ignored() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).is_some_and(|set| set & (1 << (SIGHUP - 1)) != 0)
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
