//! The step between us and a server program: a process of ours that binds its life to its parent's and then becomes the
//! program. So no server outlives us, even if we are killed and cannot clean up.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};

use crate::error::{Error, Result};
use crate::signals;

/// The file that is running.
const OWN: &str = "/proc/self/exe";
/// First argument of such a process; followed by its parent's id, the program and the program's arguments.
const BOUND: &str = "--launch-bound-to";

/// The command that starts `program`, which ends no later than the calling *thread*.
pub fn bound(program: &Path) -> Command {
    // The file that is running now, even if another has taken its path.
    let mut command = Command::new(OWN);
    command.arg0(own_name()).arg(BOUND).arg(getpid().as_raw_nonzero().to_string()).arg(program);
    command
}

/// Becomes the program that the arguments name, if they are those of [`bound`]; otherwise does nothing.
///
/// # Errors
/// If the program cannot be run.
pub fn become_program(args: &[OsString]) -> Result<()> {
    let [_, word, parent, program, arguments @ ..] = args else { return Ok(()) };
    if word != BOUND {
        return Ok(());
    }
    let failed = |error: std::io::Error| Error::machine(format!("{} cannot be run: {error}", program.display()));
    signals::release();
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|error| failed(error.into()))?;
    // A parent that has already ended sends no signal.
    let parent = parent.to_str().and_then(|id| id.parse().ok()).and_then(Pid::from_raw);
    if parent.is_none() || getppid() != parent {
        return Err(Error::machine(format!("{} is not run: its parent has ended", program.display())));
    }
    let mut command = Command::new(program);
    if Path::new(program) == Path::new(OWN) {
        // The name decides which program this is.
        command.arg0(own_name());
    }
    Err(failed(command.args(arguments).exec()))
}

/// The name that this process was called by.
fn own_name() -> OsString {
    std::env::args_os().next().unwrap_or_else(|| OWN.into())
}
