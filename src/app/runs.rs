//! Several runs of a file, one after the other, each in its own process: so none inherits memory state of an earlier
//! one, and a crash ends only one run.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::SIGQUIT;

use crate::app::repeats::Repeats;
use crate::clock::Stamp;
use crate::error::{Error, Result};
use crate::exit;
use crate::plan::RunOfFile;
use crate::program::launch;
use crate::ranks::{ANSWER_LIMIT, Left, OverMpi, Peers, Relay, STEP_LIMIT};
use crate::signals::{self, Listener, ReceivedSignal};
use crate::stdio::{self, note};

/// Exit codes of the processes, from the best to the worst.
const GRAVITY: [u8; 9] = [
    exit::OK,
    exit::UNDECIDED,
    exit::REQUIREMENT,
    exit::INVALID,
    exit::OVER_THRESHOLD,
    exit::UNSTABLE,
    exit::NO_VALID_REQUESTS,
    exit::FAILED,
    exit::INTERRUPTED,
];

/// How long a run may take to clean up after SIGQUIT.
const QUIT_LIMIT: Duration = Duration::from_secs(5);

/// Executes the runs, until one is interrupted. Returns the gravest of their exit codes.
///
/// # Errors
/// If a process cannot be started.
pub fn run_all(runs: &[RunOfFile]) -> Result<u8> {
    // Before our own signal handlers: MPI sets some.
    let relay = runs.iter().any(|run| run.mpi).then(OverMpi::enter).transpose()?.map(Relay::new);
    if relay.as_ref().is_some_and(|relay| relay.peers().part().rank > 0) {
        // One process says which run it is.
        stdio::hush(true);
    }
    let watch = Watch::start()?;
    let mut codes = Vec::new();
    for (number, run) in runs.iter().enumerate() {
        // A run without MPI takes a different time in each process.
        let limit = if runs[..number].last().is_none_or(|last| last.mpi) { ANSWER_LIMIT } else { STEP_LIMIT };
        if is_interrupted(&watch, relay.as_ref(), limit) {
            note!("interrupted: the runs from '{}' on are left out", run.name);
            break;
        }
        stdio::say(format_args!("run '{}' ({} of {})\n", run.name, number + 1, runs.len()));
        let failed = |error| Error::machine(format!("--run '{}': its process cannot be started: {error}", run.name));
        let mut command = launch::bound(Path::new("/proc/self/exe"));
        command.args(&run.arguments);
        let status = match relay.as_ref().filter(|_| run.mpi) {
            Some(relay) => watch.serve(relay, &mut command, &run.name),
            None => command.spawn().and_then(|mut child| watch.wait(&mut child)),
        };
        let status = status.map_err(failed)?;
        if watch.is_quit() {
            quit();
        }
        codes.push(code(&run.name, status, watch.is_interrupted()));
    }
    if let Some(relay) = &relay {
        is_interrupted(&watch, Some(relay), STEP_LIMIT);
        drop(relay.peers().leave());
    }
    Ok(gravest(&codes))
}

/// Whether no further run should begin: this process, or another one of the job, was interrupted.
fn is_interrupted(watch: &Watch, relay: Option<&Relay<OverMpi>>, limit: Duration) -> bool {
    let interrupted = watch.is_interrupted();
    let Some(relay) = relay else { return interrupted };
    match relay.exchange(u8::from(interrupted), limit) {
        Some(all) => all.contains(&1),
        None => {
            note!("another process of the MPI job does not answer; all are ended");
            relay.peers().abort(exit::FAILED);
            true
        }
    }
}

/// The exit code of a run. A signal that was passed on ends a process that has not yet begun to watch for signals.
fn code(name: &str, status: ExitStatus, is_interrupted: bool) -> u8 {
    if let Some(signal) = status.signal() {
        if is_interrupted && signals::is_known(signal) {
            note!("run '{name}': interrupted while it was starting");
            return exit::INTERRUPTED;
        }
        note!("run '{name}': its process was ended by signal {signal}");
        return exit::FAILED;
    }
    status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(exit::FAILED)
}

/// The worst of these; an unknown code counts as a failure.
fn gravest(codes: &[u8]) -> u8 {
    let failed = GRAVITY.len() - 2;
    let rank = |code: &u8| GRAVITY.iter().position(|entry| entry == code).unwrap_or(failed);
    codes.iter().copied().max_by_key(rank).unwrap_or(exit::INTERRUPTED)
}

/// Passes signals to the current run. Those of the terminal reach it anyway.
struct Watch(Arc<Mutex<PassedOn>>);

#[derive(Default)]
struct PassedOn {
    /// The last signal.
    signal: Option<Signal>,
    /// The process of the current run.
    child: Option<Pid>,
}

impl PassedOn {
    /// A process that has just ended needs no signal.
    fn pass_on(&self) {
        if let (Some(signal), Some(child)) = (self.signal, self.child) {
            let _ = kill_process(child, signal);
        }
    }

    fn receive(&mut self, received: ReceivedSignal) {
        self.signal = Signal::from_named_raw(received.signal);
        if received.code != libc::SI_KERNEL || received.warning().is_some() {
            self.pass_on();
        }
    }
}

impl Watch {
    fn start() -> Result<Self> {
        let failed = |error| Error::machine(format!("cannot watch for interrupts: {error}"));
        let passed_on = Arc::new(Mutex::new(PassedOn::default()));
        let watch = Self(Arc::clone(&passed_on));
        let mut repeats = Repeats::here();
        let listener = Listener::start(move |received| {
            if repeats.contain(received, Stamp::now()) {
                return;
            }
            stdio::lose_patience();
            passed_on.lock().receive(received);
            if received.signal == SIGQUIT {
                // The run would be killed with this process, before it has cleaned up.
                thread::sleep(QUIT_LIMIT);
                quit();
            }
        });
        listener.and_then(|listener| listener.handle(&[])).map_err(failed)?;
        Ok(watch)
    }

    fn is_interrupted(&self) -> bool {
        self.0.lock().signal.is_some()
    }

    /// Whether this process is to end as by default (SIGQUIT).
    fn is_quit(&self) -> bool {
        self.0.lock().signal == Some(Signal::QUIT)
    }

    /// Runs `command`, which reaches the other processes of the MPI job through this one. If it ends without having
    /// left them, they would wait for it, so all are ended.
    fn serve(&self, relay: &Relay<OverMpi>, command: &mut Command, name: &str) -> std::io::Result<ExitStatus> {
        let (mut child, left) = relay.serve(command, |child| self.follow(child))?;
        let status = self.wait(&mut child)?;
        if left == Left::Unfinished {
            let code = code(name, status, self.is_interrupted());
            relay.peers().abort(if code == exit::OK { exit::FAILED } else { code });
        }
        Ok(status)
    }

    /// Passes on signals to this process, and one that came while it was being started.
    fn follow(&self, child: &Child) {
        let mut current = self.0.lock();
        if current.child.replace(Pid::from_child(child)).is_none() {
            current.pass_on();
        }
    }

    fn wait(&self, child: &mut Child) -> std::io::Result<ExitStatus> {
        self.follow(child);
        let status = child.wait();
        self.0.lock().child = None;
        status
    }
}

/// Ends this process by SIGQUIT.
fn quit() {
    // It fails for signals that do not exist.
    let _ = signal_hook::low_level::emulate_default_handler(SIGQUIT);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_a_passed_on_signal_has_ended_is_interrupted() {
        let by = |signal, is_interrupted| code("one", ExitStatus::from_raw(signal), is_interrupted);
        assert_eq!([libc::SIGTERM, libc::SIGUSR1].map(|signal| by(signal, true)), [exit::INTERRUPTED; 2]);
        assert_eq!([by(libc::SIGSEGV, true), by(libc::SIGTERM, false)], [exit::FAILED; 2]);
    }

    #[test]
    fn the_worst_run_decides() {
        assert_eq!(gravest(&[0, 6, 4, 0]), exit::INVALID);
        assert_eq!(gravest(&[2, 3, 99]), exit::FAILED);
        assert_eq!(gravest(&[99, 5]), exit::FAILED);
        assert_eq!(gravest(&[4, 5, 2]), exit::UNSTABLE);
        assert_eq!(gravest(&[5, 4]), exit::OVER_THRESHOLD);
        assert_eq!(gravest(&[0, 101, 130]), exit::INTERRUPTED);
        assert_eq!(gravest(&[3, 101]), exit::PANICKED);
        assert_eq!(gravest(&[0, 0]), exit::OK);
        assert_eq!(gravest(&[0, 7]), exit::UNDECIDED);
        assert_eq!([gravest(&[6, 7]), gravest(&[3, 7]), gravest(&[99, 7])], [6, 3, 99]);
    }
}
