//! Several runs of a file, one after the other, each in a process of its own: so none has what an earlier one left behind in
//! memory, and one that crashes ends no more than itself.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::raw::WithRawSiginfo;

use crate::error::{Error, Result};
use crate::exit;
use crate::plan::RunOfFile;
use crate::program::launch;
use crate::stdio::{self, note};

/// What the processes come to, from the best to the worst.
const GRAVITY: [u8; 7] = [
    exit::OK,
    exit::REQUIREMENT,
    exit::INVALID,
    exit::UNSTABLE,
    exit::NO_VALID_REQUESTS,
    exit::FAILED,
    exit::INTERRUPTED,
];

/// Does the runs, until one is interrupted. Returns the gravest of their exit codes.
///
/// # Errors
/// Where a process cannot be started.
pub fn run_all(runs: &[RunOfFile]) -> Result<u8> {
    let watch = Watch::start()?;
    let mut codes = Vec::new();
    for (number, run) in runs.iter().enumerate() {
        if watch.is_interrupted() {
            note!("interrupted: the runs from '{}' on are left out", run.name);
            break;
        }
        stdio::say(format_args!("run '{}' ({} of {})\n", run.name, number + 1, runs.len()));
        let failed = |error| Error::machine(format!("--run '{}': its process cannot be started: {error}", run.name));
        let mut child = launch::bound(Path::new("/proc/self/exe")).args(&run.words).spawn().map_err(failed)?;
        let status = watch.wait(&mut child).map_err(failed)?;
        codes.push(code(&run.name, status));
    }
    Ok(gravest(&codes))
}

fn code(name: &str, status: ExitStatus) -> u8 {
    if let Some(signal) = status.signal() {
        note!("run '{name}': its process was ended by signal {signal}");
        return exit::FAILED;
    }
    status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(exit::FAILED)
}

/// The worst of these; what is not known is as bad as a failure.
fn gravest(codes: &[u8]) -> u8 {
    let failed = GRAVITY.len() - 2;
    let rank = |code: &u8| GRAVITY.iter().position(|known| known == code).unwrap_or(failed);
    codes.iter().copied().max_by_key(rank).unwrap_or(exit::INTERRUPTED)
}

/// Interrupts are for the run under way. Those of the terminal reach it anyway, others are handed on.
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
                    // One that has just ended needs none.
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

    fn wait(&self, child: &mut Child) -> std::io::Result<ExitStatus> {
        self.child.store(Pid::from_child(child).as_raw_nonzero().get(), Ordering::Release);
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
        assert_eq!(gravest(&[0, 101, 130]), exit::INTERRUPTED);
        assert_eq!(gravest(&[3, 101]), exit::PANICKED);
        assert_eq!(gravest(&[0, 0]), exit::OK);
    }
}
