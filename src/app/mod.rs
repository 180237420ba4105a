//! Wires a plan: connects, loads data, measures level after level, reports.

mod body;
mod composing;
mod conversations;
mod doctor;
mod ending;
mod job;
mod levels;
mod matrix;
mod observe;
mod observed;
mod outcome;
mod payloads;
mod periodic;
mod phase;
mod recorded;
mod replay;
mod restarts;
mod runner;
mod schedule;
mod screen;
mod session;
mod signals;
mod stages;
mod surroundings;
mod sweep;
mod traces;
mod validation;

pub use doctor::examine;
pub use ending::end;
pub use traces::summarise as summarise_traces;

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::affinity;
use crate::app::observe::Observers;
use crate::app::runner::Runner;
use crate::app::screen::Screen;
use crate::app::session::Session;
use crate::backends::Connect;
use crate::error::{Error, Result};
use crate::exit::{self, Codes};
use crate::limits;
use crate::plan::{LoadMode, OnDisturbance, Plan};
use crate::report::{self, console};
use crate::stdio::{self, note};

/// Does what the plan says. Returns the exit code (see [`crate::exit`]).
///
/// # Errors
/// Whatever keeps the run from starting or from being reported. Levels that were measured before an error are printed.
pub fn run(mut plan: Plan, codes: Codes, connect: Connect) -> Result<u8> {
    // Before there are further threads.
    affinity::pin_this_thread(plan.load.cpus.as_deref())?;
    // Before there are files.
    let interrupts = signals::watch()?;
    plan.notes.iter().for_each(|note| note!("{note}"));
    limits::watch_address_space()?;
    // perf_analyzer's callers know how many windows a level takes.
    let usual = if codes == Codes::Own { OnDisturbance::Replace } else { OnDisturbance::Mark };
    plan.measurement.on_disturbance.get_or_insert(usual);
    check_output_paths(&plan)?;
    check_devices(&plan)?;
    if plan.target.service.is_embedded() {
        phase::loading();
    }
    let outcome = match plan.matrix.clone() {
        Some(kind) => matrix::run(&plan, &kind, interrupts),
        None => measure(plan, codes, interrupts, connect),
    };
    // What an interrupt broke, such as a load, was not at fault.
    outcome.or_else(|error| if phase::was_disturbed() { Ok(exit::INTERRUPTED) } else { Err(error) })
}

/// Measures level after level, and reports.
fn measure(mut plan: Plan, codes: Codes, interrupts: &'static AtomicUsize, connect: Connect) -> Result<u8> {
    let session = Session::open(&mut plan, connect)?;
    if !phase::ready() {
        return Ok(exit::INTERRUPTED);
    }
    let screen = Screen::new();
    if plan.output.verbosity > 1 {
        stdio::say(console::models(&session.all_models));
    }
    if let Some(announcement) = session.announcement() {
        screen.print(&format!("{announcement}\n"))?;
    }
    screen.print(&console::settings(&plan, &session.run))?;
    // Upstream's report has no such line.
    if let Some(remark) = doctor::remark(&plan).filter(|_| codes == Codes::Own) {
        screen.print(&remark)?;
    }
    let observers = match session.observers(&plan) {
        Err(error) if interrupts.load(Ordering::Relaxed) > 0 => {
            note!("{error}");
            return Ok(exit::INTERRUPTED);
        }
        observers => observers?,
    };
    let observed = observers.as_ref();
    let runner = Runner { plan: &plan, session: &session, screen: &screen, interrupts, codes, observers: observed };
    let measured = levels::run(&runner);
    let (levels, ended) = match measured {
        Ok((levels, code)) => (levels, Ok(code)),
        Err(stopped) => (stopped.levels, Err(stopped.error)),
    };
    // What was measured is kept, whatever became of standard output or of another file.
    let printed = if levels.is_empty() { Ok(()) } else { screen.print(&console::summary(&plan, &levels)) };
    // Without a level, an error leaves files as they were; there is nothing to put into them. A periodic load has no levels,
    // and has written its batches.
    let failed = ended.is_err() && levels.is_empty();
    let has_none = failed || matches!(plan.load.mode, LoadMode::Periodic(_));
    let csv = plan.output.csv.as_ref().filter(|_| !has_none);
    let written = csv.map_or(Ok(()), |path| report::csv::write((path, interrupts), &plan, &session.run, &levels));
    let exported = observers.map_or(Ok(()), if failed { Observers::give_up } else { Observers::finish });
    session.close();
    Error::both(written, exported)?;
    let code = ended?;
    printed?;
    Ok(code)
}

/// Finds out before a server is started that a GPU that tensors are to be on does not exist.
fn check_devices(plan: &Plan) -> Result<()> {
    let data = &plan.data;
    if data.shared_memory {
        let (flag, outputs) = ("--shared-memory cuda", data.output_placements());
        return outputs.all().try_for_each(|placement| placement.check().map_err(|error| error.context(flag)));
    }
    data.input_placement.check().map_err(|error| error.context(format!("--input-memory {}", data.input_placement)))?;
    data.output_placement.check().map_err(|error| error.context(format!("--output-memory {}", data.output_placement)))
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
