//! Interrupts: the first lets the run end with what it has, the second ends it at once. A terminal that hangs up counts
//! as an interrupt, too.
//!
//! What the first one does depends on the phase of the program. If there can be nothing to report yet it ends the
//! program: at once while waiting for a network server, and as soon as the models are loaded in process, because a load
//! cannot be aborted cleanly. Once results are written there is nothing to end but the wait for the server.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use signal_hook::consts::{SIGBUS, SIGCONT, SIGQUIT, SIGTERM};

use crate::app::ending;
use crate::app::phase::{self, Phase};
use crate::app::repeats::Repeats;
use crate::clock::Stamp;
use crate::error::{Error, Result};
use crate::exit;
use crate::interrupt;
use crate::mpi::Launcher;
use crate::program;
use crate::shm;
use crate::signals::{Listener, ReceivedSignal};
use crate::stdio::{self, note};

/// How long loading models may delay an interrupt.
const LOAD_LIMIT: Duration = Duration::from_secs(10);

/// What an interrupt does.
enum Answer {
    /// The program continues to its end by itself; this is printed.
    Say(&'static str),
    /// The program ends at once.
    Leave(u8),
}

/// Hears the signals of this process.
static LISTENER: OnceLock<Listener> = OnceLock::new();

/// Starts to listen to the signals that ask for an end, before anything else starts a thread.
///
/// # Errors
/// If a thread cannot be started.
pub fn listen() -> Result<()> {
    if LISTENER.get().is_none() {
        let mut watcher = Watcher { repeats: Repeats::here(), is_announced: false, warned: Vec::new() };
        let listener = Listener::start(move |received| watcher.receive(received)).map_err(|error| unwatched(&error))?;
        let _ = LISTENER.set(listener);
    }
    Ok(())
}

/// Starts to watch for every signal that would end the program; returns the counter of interrupts. SIGQUIT ends the
/// program at once, as by default, but after cleaning up. Libraries that set handlers at their start have done so.
///
/// # Errors
/// If the signal handlers cannot be installed.
pub fn watch() -> Result<&'static AtomicUsize> {
    listen()?;
    let failed = |error| unwatched(&error);
    // This handler's message must come before the effects of a signal.
    shm::say_when_files_are_cut_short().map_err(failed)?;
    // Two signals of a kind in a row count as two, unless they have one cause.
    let mut further = vec![SIGBUS];
    if Launcher::here().is_some_and(Launcher::wakes_before_it_ends) {
        further.push(SIGCONT);
    }
    LISTENER.get().map_or(Ok(()), |listener| listener.handle(&further)).map_err(failed)?;
    shm::unlink_on_panic();
    shm::end_when_files_are_cut_short(i32::from(exit::FAILED)).map_err(failed)?;
    prepare_for_panics();
    ending::watch()?;
    Ok(interrupt::counter())
}

fn unwatched(error: &io::Error) -> Error {
    Error::machine(format!("cannot watch for interrupts: {error}"))
}

/// For commands that an interrupt may end at once: has a file that reaches the limit of its size be an error where it is written.
///
/// # Errors
/// If the signal handler cannot be installed.
pub fn survive_file_limits() -> Result<()> {
    crate::signals::survive_file_limits().map_err(|error| unwatched(&error))
}

/// Interrupts, as the key of a terminal does.
#[cfg(feature = "live")]
pub fn press() {
    if let Some(listener) = LISTENER.get() {
        listener.send(ReceivedSignal { signal: libc::SIGINT, code: libc::SI_KERNEL, sender: None });
    }
}

/// What has been received so far.
struct Watcher {
    repeats: Repeats,
    /// Whether a launcher has said that it will end this process.
    is_announced: bool,
    /// Warnings that have come: a limit of processor time repeats its own every second.
    warned: Vec<i32>,
}

impl Watcher {
    fn receive(&mut self, received: ReceivedSignal) {
        let signal = received.signal;
        if signal == SIGBUS {
            // The handler has printed the reason, and waits.
            ending::leave(exit::FAILED);
        }
        if signal == SIGQUIT {
            ending::clean_up();
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
        if self.repeats.contain(received, Stamp::now()) {
            return;
        }
        if let Some(name) = received.warning() {
            if self.warned.contains(&signal) {
                return;
            }
            self.warned.push(signal);
            ending::try_to(move || note!("{name}: taken as an interrupt"));
        }
        if signal == SIGTERM || signal == SIGCONT {
            interrupt::terminate();
            let was_announced = std::mem::replace(&mut self.is_announced, signal == SIGCONT);
            if was_announced {
                return;
            }
        }
        stdio::lose_patience();
        let (phase, first) = phase::interrupt();
        match answer(phase, first) {
            Answer::Say(text) => ending::try_to(move || stdio::say(text)),
            Answer::Leave(code) => ending::leave(code),
        }
    }
}

fn answer(phase: Phase, first: bool) -> Answer {
    match phase {
        Phase::Waiting => {
            ending::try_to(|| stdio::say("\ntriton-bench: interrupted before anything was measured\n"));
            Answer::Leave(exit::INTERRUPTED)
        }
        Phase::Making => {
            ending::try_to(|| stdio::say("\ntriton-bench: interrupted; nothing was made\n"));
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
