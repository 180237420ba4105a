//! Wires a plan: connects, loads data, measures level after level, reports.

mod job;
mod levels;
mod matrix;
mod observe;
mod outcome;
mod payloads;
mod periodic;
mod recorded;
mod remarks;
mod replay;
mod schedule;
mod screen;
mod session;
mod signals;
mod stages;
mod sweep;
mod traces;
mod validation;

pub use traces::summarise as summarise_traces;

use crate::affinity;
use crate::app::levels::Runner;
use crate::app::observe::Observers;
use crate::app::screen::Screen;
use crate::app::session::Session;
use crate::error::{Error, Result};
use crate::plan::{LoadMode, Plan};
use crate::report::{self, console};

/// Does what the plan says. Returns the exit code (see [`crate::exit`]).
///
/// # Errors
/// Whatever keeps the run from starting or from being reported. Levels that were measured before an error are printed.
pub fn run(mut plan: Plan) -> Result<u8> {
    plan.notes.iter().for_each(|note| eprintln!("triton-bench: {note}"));
    check_output_paths(&plan)?;
    affinity::pin_this_thread(plan.load.cpus.as_deref())?;
    let interrupts = signals::watch()?;
    if let Some(kind) = plan.matrix.clone() {
        return matrix::run(&plan, &kind, interrupts);
    }
    let session = Session::open(&mut plan)?;
    signals::ready();
    let screen = Screen::new();
    if plan.output.verbosity > 1 {
        eprint!("{}", console::models(&session.all_models));
    }
    if let Some(announcement) = session.announcement() {
        screen.print(&format!("{announcement}\n"))?;
    }
    screen.print(&console::settings(&plan, &session.run))?;
    let observers = session.observers(&plan)?;
    let runner = Runner { plan: &plan, session: &session, screen: &screen, interrupts, observers: observers.as_ref() };
    let measured = runner.measure_levels();
    let (levels, ended) = match measured {
        Ok((levels, code)) => (levels, Ok(code)),
        Err(stopped) => (stopped.levels, Err(stopped.error)),
    };
    // What was measured is kept, whatever became of standard output or of another file.
    let printed = if levels.is_empty() { Ok(()) } else { screen.print(&console::summary(&plan, &levels)) };
    // A periodic load has no levels, and has written its batches.
    let csv = plan.output.csv.as_ref().filter(|_| !matches!(plan.load.mode, LoadMode::Periodic(_)));
    let written = csv.map_or(Ok(()), |path| report::csv::write(path, &plan, &session.run, &levels));
    let exported = observers.map_or(Ok(()), Observers::finish);
    session.close();
    written.and(exported)?;
    let code = ended?;
    printed?;
    Ok(code)
}

/// Finds out before anything is measured that a result could not be written.
fn check_output_paths(plan: &Plan) -> Result<()> {
    if let Some(path) = &plan.output.csv {
        report::check_writable("-f", path)?;
    }
    if let Some(path) = &plan.output.profile_export {
        if plan.output.csv.as_ref().is_some_and(|csv| report::is_same_file(csv, path)) {
            let path = path.display();
            let rule = "is the file of -f, too: one would replace the other; name two files";
            return Err(Error::usage(format!("--profile-export-file {path}: {rule}")));
        }
        report::check_new("--profile-export-file", path)?;
        report::check_writable("--profile-export-file", path)?;
    }
    if let Some(path) = &plan.target.server.log.file {
        report::check_writable("--log-file", path)?;
    }
    Ok(())
}
