//! Wires a plan: connects, loads data, measures level after level, reports.

mod compare;
mod composing;
mod doctor;
mod ending;
mod job;
mod levels;
mod matrix;
mod periodic;
mod phase;
mod restarts;
mod runner;
mod screen;
mod session;
mod signals;
mod stages;
mod surroundings;
mod sweep;
mod traces;

pub use compare::compare;
pub use doctor::examine;
pub use ending::end;
pub use traces::summarise as summarise_traces;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::affinity;
use crate::app::runner::Runner;
use crate::app::screen::Screen;
use crate::app::session::Session;
use crate::backends::Connect;
use crate::error::{Error, Result};
use crate::exit::{self, Codes};
use crate::limits;
use crate::observe::Observers;
use crate::plan::Plan;
use crate::report::{self, Interrupts, console};
use crate::result::RunResult;
use crate::stdio::{self, note};

/// Does what the plan says. Returns the exit code (see [`crate::exit`]).
///
/// # Errors
/// Whatever keeps the run from starting or from being reported. Levels that were measured before an error are printed.
pub fn run(plan: Plan, codes: Codes, connect: Connect) -> Result<u8> {
    let plan = plan.for_callers_of(codes);
    // Before there are further threads.
    affinity::pin_this_thread(plan.load.cpus.as_deref())?;
    // Before there are files.
    let interrupts = signals::watch()?;
    plan.notes.iter().for_each(|note| note!("{note}"));
    limits::watch_address_space()?;
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
fn measure(plan: Plan, codes: Codes, interrupts: &'static AtomicUsize, connect: Connect) -> Result<u8> {
    let baseline =
        plan.gate.baseline.as_deref().filter(|_| plan.gate.needs_baseline()).map(RunResult::read).transpose()?;
    let session = Session::open(plan, connect)?;
    if !phase::ready() {
        return Ok(exit::INTERRUPTED);
    }
    let setup = Arc::clone(&session.setup);
    let screen = Screen::new();
    introduce(&session, codes, &screen)?;
    let observers = match session.observers() {
        Err(error) if interrupts.load(Ordering::Relaxed) > 0 => {
            note!("{error}");
            return Ok(exit::INTERRUPTED);
        }
        observers => observers?,
    };
    let mut result = RunResult::new(setup);
    let runner = Runner { session: &session, screen: &screen, interrupts, codes, observers: observers.as_ref() };
    let ended = levels::run(&runner, &mut result);
    // What was measured is kept, whatever became of standard output or of another file.
    let printed = if result.levels.is_empty() { Ok(()) } else { screen.print(&console::summary(&result)) };
    result.judge(&session.plan.gate, baseline.as_ref());
    let printed = printed.and_then(|()| screen.print(&report::requirements::text(&result.requirements)));
    // Without a level, an error leaves files as they were; there is nothing to put into them.
    let failed = ended.is_err() && result.levels.is_empty() && result.periodic.is_none();
    let written = if failed { Ok(()) } else { write(&session.plan, interrupts, &result) };
    let exported = observers.map_or(Ok(()), if failed { Observers::give_up } else { Observers::finish });
    session.close();
    Error::both(written, exported)?;
    ended?;
    printed?;
    Ok(result.exit_code(codes))
}

/// Writes every file that is made of the result.
fn write(plan: &Plan, interrupts: Interrupts, result: &RunResult) -> Result<()> {
    let (csv, summary, junit) = (&plan.output.csv, &plan.output.summary, &plan.gate.junit);
    let csv = csv.as_ref().map(|path| report::csv::write((path, interrupts), result));
    let summary = summary.as_ref().map(|path| report::summary::write((path, interrupts), result));
    let junit = junit.as_ref().map(|path| report::requirements::write_junit((path, interrupts), result));
    [csv, summary, junit].into_iter().flatten().fold(Ok(()), Error::both)
}

/// Says what is going to be measured.
fn introduce(session: &Session, codes: Codes, screen: &Screen) -> Result<()> {
    let plan = &session.plan;
    if plan.output.verbosity > 1 {
        stdio::say(console::models(&session.all_models));
    }
    if let Some(announcement) = session.announcement() {
        screen.print(&format!("{announcement}\n"))?;
    }
    screen.print(&console::settings(plan, &session.setup))?;
    // Upstream's report has no such line.
    doctor::remark(plan).filter(|_| codes == Codes::Own).map_or(Ok(()), |remark| screen.print(&remark))
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

/// Finds out that a file of `flag` would be replaced by another flag's.
fn check_other<const N: usize>(flag: &str, path: &Path, others: [(&str, &Option<PathBuf>); N]) -> Result<()> {
    let same =
        |(_, other): &(&str, &Option<PathBuf>)| other.as_ref().is_some_and(|other| report::is_same_file(other, path));
    let Some((other, _)) = others.into_iter().find(same) else { return Ok(()) };
    let rule = format!("is the file of {other}, too: one would replace the other; name two files");
    Err(Error::usage(format!("{flag} {}: {rule}", path.display())))
}

/// Finds out before anything is measured that a result could not be written.
fn check_output_paths(plan: &Plan) -> Result<()> {
    if let Some(path) = &plan.output.csv {
        report::check_writable("-f", path)?;
    }
    if let Some(path) = &plan.output.summary {
        check_other("--summary-file", path, [("-f", &plan.output.csv)])?;
        report::check_writable("--summary-file", path)?;
    }
    if let Some(path) = &plan.gate.junit {
        check_other("--junit", path, [("-f", &plan.output.csv), ("--summary-file", &plan.output.summary)])?;
        report::check_writable("--junit", path)?;
    }
    if let Some(path) = &plan.output.profile_export {
        let others =
            [("-f", &plan.output.csv), ("--summary-file", &plan.output.summary), ("--junit", &plan.gate.junit)];
        check_other("--profile-export-file", path, others)?;
        report::check_new("--profile-export-file", path)?;
        report::check_writable("--profile-export-file", path)?;
    }
    if let Some(path) = &plan.target.server.log.file {
        report::check_writable("--log-file", path)?;
    }
    Ok(())
}
