//! `--live`: a dashboard on the terminal, in programs that were built with one.

use std::io::{self, IsTerminal};

use crate::error::{Error, Result};
use crate::plan::Plan;

#[cfg(not(feature = "live"))]
mod absent;
#[cfg(feature = "live")]
mod terminal;
#[cfg(not(feature = "live"))]
pub use absent::Dashboard;
#[cfg(feature = "live")]
pub use terminal::Dashboard;

/// The refusal of a program that was built without a dashboard.
const WITHOUT: &str =
    "--live: this program was built without the dashboard: `cargo build --release` makes one that has it";

/// Checks, before anything is done, that a dashboard is possible.
///
/// # Errors
/// If one was asked for and is not.
pub fn check(plan: &Plan) -> Result<()> {
    if !plan.output.live {
        return Ok(());
    }
    if cfg!(not(feature = "live")) {
        return Err(Error::usage(WITHOUT));
    }
    if !io::stderr().is_terminal() {
        let rule = "the dashboard needs a terminal, and standard error is not one; leave --live out, and long runs \
            log their progress there instead";
        return Err(Error::usage(format!("--live: {rule}")));
    }
    if plan.rounds.is_some() || plan.load.mode.is_periodic() {
        let rule = "the dashboard shows levels that are measured one after another, which --variant, --matrix and \
            --periodic-concurrency-range do not have; leave --live out";
        return Err(Error::usage(format!("--live: {rule}")));
    }
    Ok(())
}
