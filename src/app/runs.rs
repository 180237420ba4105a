//! Several runs of a file, one after the other, each in its own process: so none inherits memory state of an earlier
//! one, and a crash ends only one run.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::raw::WithRawSiginfo;

use crate::error::{Error, Result};
use crate::exit;
use crate::plan::RunOfFile;
use crate::program::launch;
use crate::ranks::{ANSWER_LIMIT, Left, OverMpi, Peers, Relay, STEP_LIMIT};
use crate::stdio::{self, note};

/// Exit codes of the processes, from the best to the worst.
const GRAVITY: [u8; 8] = [
    exit::OK,
    exit::REQUIREMENT,
    exit::INVALID,
    exit::OVER_THRESHOLD,
    exit::UNSTABLE,
    exit::NO_VALID_REQUESTS,
    exit::FAILED,
    exit::INTERRUPTED,
];

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
        command.args(&run.words);
        let status = match relay.as_ref().filter(|_| run.mpi) {
            Some(relay) => watch.serve(relay, &mut command, &run.name),
            None => command.spawn().and_then(|mut child| watch.wait(&mut child)),
        };
        codes.push(code(&run.name, status.map_err(failed)?));
    }
    if let Some(relay) = &relay {
        is_interrupted(&watch, Some(relay), STEP_LIMIT);
        drop(relay.peers().leave());
    }
    Ok(gravest(&codes))
}

/// Whether no further run should begin: this process, or another one of the job, was interrupted.
fn is_interrupted(watch: &Watch, relay: Option<&Relay<OverMpi>>, limit: Duration) -> bool {
    let own = watch.is_interrupted();
    let Some(relay) = relay else { return own };
    match relay.exchange(u8::from(own), limit) {
        Some(all) => all.contains(&1),
        None => {
            note!("another process of the MPI job does not answer; all are ended");
            relay.peers().abort(exit::FAILED);
            true
        }
    }
}

fn code(name: &str, status: ExitStatus) -> u8 {
    if let Some(signal) = status.signal() {
        note!("run '{name}': its process was ended by signal {signal}");
        return exit::FAILED;
    }
    status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(exit::FAILED)
}

/// The worst of these; an unknown code counts as a failure.
fn gravest(codes: &[u8]) -> u8 {
    let failed = GRAVITY.len() - 2;
    let rank = |code: &u8| GRAVITY.iter().position(|known| known == code).unwrap_or(failed);
    codes.iter().copied().max_by_key(rank).unwrap_or(exit::INTERRUPTED)
}

/// Passes interrupts to the current run. Those of the terminal reach it anyway.
struct Watch {
    interrupted: Arc<AtomicBool>,
    child: Arc<AtomicI32>,
}

impl Watch {
    fn start() -> Result<Self> {
        let failed = |error| Error::machine(format!("cannot watch for interrupts: {error}"));
        let mut signals = SignalsInfo::<WithRawSiginfo>::new([SIGINT, SIGTERM, SIGHUP]).map_err(failed)?;
        let (interrupted, child) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicI32::new(0)));
        let watch = Self { interrupted: Arc::clone(&interrupted), child: Arc::clone(&child) };
        let watcher = move || {
            for info in signals.forever() {
                interrupted.store(true, Ordering::Release);
                let is_of_terminal = info.si_code == libc::SI_KERNEL;
                let (pid, signal) =
                    (Pid::from_raw(child.load(Ordering::Acquire)), Signal::from_named_raw(info.si_signo));
                if let (Some(pid), Some(signal), false) = (pid, signal, is_of_terminal) {
                    // A process that has just ended needs no signal.
                    let _ = kill_process(pid, signal);
                }
            }
        };
        thread::Builder::new().name("signals".to_owned()).spawn(watcher).map_err(failed)?;
        Ok(watch)
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Acquire)
    }

    /// Runs `command`, which reaches the other processes of the MPI job through this one. If it ends without having
    /// left them, they would wait for it, so all are ended.
    fn serve(&self, relay: &Relay<OverMpi>, command: &mut Command, name: &str) -> std::io::Result<ExitStatus> {
        let (mut child, left) = relay.serve(command, |child| self.follow(child))?;
        let status = self.wait(&mut child)?;
        if left == Left::Unfinished {
            let code = code(name, status);
            relay.peers().abort(if code == exit::OK { exit::FAILED } else { code });
        }
        Ok(status)
    }

    /// Passes on signals to this process.
    fn follow(&self, child: &Child) {
        self.child.store(Pid::from_child(child).as_raw_nonzero().get(), Ordering::Release);
    }

    fn wait(&self, child: &mut Child) -> std::io::Result<ExitStatus> {
        self.follow(child);
        let status = child.wait();
        self.child.store(0, Ordering::Release);
        status
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    }
}
