//! Interrupts: the first lets the run end with what it has, the second ends it at once. A terminal that hangs up counts
//! as an interrupt, too.
//!
//! What the first one does depends on the phase of the program. If there can be nothing to report yet it ends the
//! program: at once while waiting for a network server, and as soon as the models are loaded in process, because a load
//! cannot be aborted cleanly. Once results are written there is nothing to end but the wait for the server.

use std::sync::atomic::AtomicUsize;
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGBUS, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::raw::WithRawSiginfo;

use crate::app::ending;
use crate::app::phase::{self, Phase};
use crate::app::repeats::Repeats;
use crate::clock::Stamp;
use crate::error::{Error, Result};
use crate::exit;
use crate::interrupt;
use crate::machine;
use crate::mpi::Launcher;
use crate::program;
use crate::shm;
use crate::stdio;

/// How long loading models may delay an interrupt.
const LOAD_LIMIT: Duration = Duration::from_secs(10);

/// What an interrupt does.
enum Answer {
    /// The program continues to its end by itself; this is printed.
    Say(&'static str),
    /// The program ends at once.
    Leave(u8),
}

/// Starts to watch for SIGINT, SIGTERM and SIGHUP; returns their counter. SIGQUIT ends the program at once, as by
/// default, but after cleaning up.
///
/// # Errors
/// If the signal handlers cannot be installed.
pub fn watch() -> Result<&'static AtomicUsize> {
    let failed = |error| Error::machine(format!("cannot watch for interrupts: {error}"));
    // This handler's message must come before the effects of a signal.
    shm::say_when_files_are_cut_short().map_err(failed)?;
    // Two signals of a kind in a row count as two, unless they have one cause.
    let mut signals = SignalsInfo::<WithRawSiginfo>::new([SIGINT, SIGTERM, SIGQUIT, SIGBUS]).map_err(failed)?;
    if !hangups_are_ignored() {
        signals.add_signal(SIGHUP).map_err(failed)?;
    }
    if Launcher::here().is_some_and(Launcher::wakes_before_it_ends) {
        signals.add_signal(SIGCONT).map_err(failed)?;
    }
    shm::unlink_on_panic();
    shm::end_when_files_are_cut_short(i32::from(exit::FAILED)).map_err(failed)?;
    prepare_for_panics();
    ending::watch()?;
    let watcher = move || {
        let (mut repeats, mut is_announced) = (Repeats::here(), false);
        for info in signals.forever() {
            let signal = info.si_signo;
            if signal == SIGBUS {
                // The handler has printed the reason, and waits.
                ending::leave(exit::FAILED);
            }
            if signal == SIGQUIT {
                ending::clean_up();
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
            if repeats.contain((signal, info.si_code), Stamp::now()) {
                continue;
            }
            if signal == SIGTERM || signal == SIGCONT {
                interrupt::terminate();
                let was_announced = std::mem::replace(&mut is_announced, signal == SIGCONT);
                if was_announced {
                    continue;
                }
            }
            let (phase, first) = phase::interrupt();
            match answer(phase, first) {
                Answer::Say(text) => ending::try_to(move || stdio::say(text)),
                Answer::Leave(code) => ending::leave(code),
            }
        }
    };
    thread::Builder::new().name("signals".to_owned()).spawn(watcher).map_err(failed)?;
    Ok(interrupt::counter())
}

fn answer(phase: Phase, first: bool) -> Answer {
    match phase {
        Phase::Waiting => {
            ending::try_to(|| stdio::say("\ntriton-bench: interrupted before anything was measured\n"));
            Answer::Leave(exit::INTERRUPTED)
        }
        Phase::Loading if first => {
            ending::bound(LOAD_LIMIT, exit::INTERRUPTED, "its models were still being loaded");
            Answer::Say(
                "\ntriton-bench: interrupted before anything was measured; waiting for the server to load its models, for \
                 10 s at most (interrupt again to exit at once)\n",
            )
        }
        Phase::Measuring if first => {
            Answer::Say("\ntriton-bench: interrupted; reporting the results so far (interrupt again to exit at once)\n")
        }
        Phase::Loading | Phase::Measuring => Answer::Leave(exit::INTERRUPTED),
        Phase::Written(_) if first => Answer::Say(
            "\ntriton-bench: interrupted; everything is written, and the server is being stopped (interrupt again to \
                exit at once)\n",
        ),
        Phase::Written(code) => Answer::Leave(code),
    }
}

/// Whether the parent process had SIGHUP ignored, as `nohup` does: then it stays ignored.
pub fn hangups_are_ignored() -> bool {
    let status = machine::read("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).is_some_and(|set| set & (1 << (SIGHUP - 1)) != 0)
}

/// Makes every panic restore the terminal and end the servers that were started: it may become an abort, which runs no
/// destructors.
fn prepare_for_panics() {
    let previous = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        stdio::give_way();
        program::kill_all();
        previous(info);
    }));
}
