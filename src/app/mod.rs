//! Runs a plan: connects, loads data, measures level after level, reports.

mod baseline;
mod batches;
mod compare;
mod composing;
mod context;
mod dashboard;
mod doctor;
mod ending;
mod exposition;
mod host_monitor;
mod init;
mod job;
mod levels;
mod models;
mod otlp;
mod outputs;
mod peers;
mod periodic;
mod phase;
mod progress;
mod questions;
mod reload;
mod repeats;
mod report;
mod restarts;
mod resume;
mod runner;
mod runs;
mod screen;
mod session;
mod settings;
mod setup;
mod signals;
mod stages;
mod sweep;
mod tensors;
mod texts;
mod traces;
mod tune;
mod variants;
mod warm_up;

pub use compare::compare;
pub use doctor::examine;
pub use ending::end;
pub use init::init;
pub use models::list as list_models;
pub use report::report;
pub use runs::run_all;
pub use traces::summarise as summarise_traces;
pub use tune::tune;

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::affinity;
use crate::app::context::RunContext;
use crate::app::resume::EarlierRun;
use crate::app::runner::Runner;
use crate::app::screen::Screen;
use crate::app::session::Session;
use crate::backends::{self, Connect};
use crate::engine::ServerWait;
use crate::error::{Error, Result};
use crate::exit::{self, Codes};
use crate::gate;
use crate::held;
use crate::interrupt;
use crate::limits;
use crate::observe::Observers;
use crate::plan::{Pages, Plan, Variant};
use crate::ranks::Ranks;
use crate::report::{self as reports, Interrupts, console};
use crate::result::RunResult;
use crate::result::compare::{differences_of_machines, differences_of_work};
use crate::shm::{Placement, free_bytes};
use crate::stdio::{self, note};
use crate::terms::ReportPart;

/// How an error begins that is about a server whose models are not known.
const MODEL_MISSING: &str = "-m is missing";

/// Does what the plan says. Returns the exit code (see [`crate::exit`]).
///
/// # Errors
/// Whatever keeps the run from starting or from being reported. Levels that were measured before an error are printed.
pub fn run(plan: Plan, codes: Codes, connect: Connect) -> Result<u8> {
    let mut plan = plan.for_callers_of(codes);
    limits::note_address_space();
    signals::listen()?;
    // Before our own signal handlers: MPI sets some.
    let ranks = peers::join(&mut plan, codes)?;
    let outcome = run_plan(plan, codes, connect, ranks.as_ref().filter(|ranks| ranks.part().is_shared()));
    match &ranks {
        Some(ranks) => peers::leave(ranks, outcome),
        None => outcome,
    }
}

fn run_plan(mut plan: Plan, codes: Codes, connect: Connect, ranks: Option<&Ranks>) -> Result<u8> {
    plan.variants.iter_mut().for_each(|variant| variant.plan = variant.plan.clone().for_callers_of(codes));
    // Before any other thread starts.
    affinity::pin_this_process(plan.load.cpus.as_deref())?;
    limits::watch_address_space()?;
    // Before any file is created.
    let interrupts = signals::watch()?;
    ending::clean_up_after_others();
    outputs::check(&plan)?;
    let mut judged = outputs::Judged::before(&plan);
    let named = name_model(&mut plan);
    judged.name_model(&plan);
    judged.after(named.and_then(|()| {
        limit_replies(&plan);
        plan.notes.iter().for_each(|note| note!("{note}"));
        run_writable(plan, codes, interrupts, connect, ranks)
    }))
}

/// The same once it is known that what it comes to can be written.
fn run_writable(
    plan: Plan,
    codes: Codes,
    interrupts: Interrupts,
    connect: Connect,
    ranks: Option<&Ranks>,
) -> Result<u8> {
    dashboard::check(&plan)?;
    exposition::check(&plan)?;
    otlp::check(&plan)?;
    check_devices(&plan)?;
    plan.variants.iter().try_for_each(|Variant { name, plan, .. }| {
        check_devices(plan).map_err(|error| error.context(format!("--variant '{name}'")))
    })?;
    if plan.target.service.is_embedded() {
        phase::loading();
    }
    let outcome = match plan.rounds {
        Some(rounds) => variants::run(&plan, rounds, codes, interrupts, connect),
        None => measure(plan, codes, interrupts, connect, ranks),
    };
    // What an interrupt broke off, such as a load, is not an error.
    outcome.or_else(|error| if phase::was_disturbed() { Ok(exit::INTERRUPTED) } else { Err(error) })
}

/// Measures what the server offers, where no model is named.
fn name_model(plan: &mut Plan) -> Result<()> {
    if let Some(name) = first_model(plan)? {
        plan.notes.push(format!("-m is not given: '{name}' is measured, the first model that the server lists"));
        plan.target.model.name = name;
    }
    plan.variants.iter_mut().try_for_each(|variant| name_model(&mut variant.plan))
}

/// The first model that the server lists. Whoever says how long to wait for a server waits for its models, too: one that has
/// just started may list none yet.
fn first_model(plan: &Plan) -> Result<Option<String>> {
    let is_given = plan.invocation.flags.iter().any(|flag| flag.name == "--server-wait" && flag.given);
    let wait = ServerWait::new(plan.target.connection.server_wait);
    let mut found = None;
    // Whatever else keeps a server from being reached has been waited for.
    let is_final = |error: &Error| !is_given || !error.to_string().starts_with(MODEL_MISSING);
    wait.retry(|_| backends::first_model(&plan.target).map(|model| found = model), is_final)?;
    Ok(found)
}

/// Answers that are being received leave most of the free memory to everything else.
fn limit_replies(plan: &Plan) {
    let usual = || free_bytes(Placement::Pageable).map_or(u64::MAX, |free| free / 4);
    held::limit(plan.target.max_reply_memory.unwrap_or_else(usual));
}

/// Prepares everything to be measured, here and in the other processes.
fn open(plan: Plan, codes: Codes, connect: Connect, ranks: Option<&Ranks>) -> Result<Session> {
    let mut session = Session::open(plan, connect)?;
    let is_asynchronous = session.plan.asks_for_asynchronous_calls(&session.models);
    session.plan.measurement.throughput_suffices = codes == Codes::PerfAnalyzers && is_asynchronous;
    batches::check(&session)?;
    ranks.map_or(Ok(()), peers::all_ready)?;
    Ok(session)
}

/// Measures level after level, and reports.
fn measure(plan: Plan, codes: Codes, interrupts: Interrupts, connect: Connect, ranks: Option<&Ranks>) -> Result<u8> {
    let baseline = baseline(&plan)?;
    let mut earlier = EarlierRun::read(&plan)?;
    let mut session = open(plan, codes, connect, ranks)?;
    if !phase::ready() {
        return Ok(exit::INTERRUPTED);
    }
    let setup = Arc::clone(&session.setup);
    earlier.check(&setup)?;
    check_baseline(&session, baseline.as_ref())?;
    let screen = Screen::for_plan(&session.plan, codes)?;
    introduce(&session, codes, &screen)?;
    let observers = match session.observers() {
        Err(error) if interrupts.load(Ordering::Relaxed) > 0 => {
            note!("{error}");
            return Ok(exit::INTERRUPTED);
        }
        observers => observers?,
    };
    let acted_on = if ranks.is_some() { interrupt::agreed() } else { interrupts };
    let mut result = RunResult::new(setup);
    let context = RunContext { screen: &screen, interrupts: acted_on, codes, connect, ranks };
    let baseline = baseline.as_ref();
    let runner = Runner { context, session: &session, earlier: &earlier, baseline, observers: observers.as_ref() };
    let ended = levels::run(&runner, &mut result);
    let further = |()| batches::further(&mut session, context, &earlier, baseline, &mut result);
    let ended = ended.and_then(further);
    let is_interrupted = acted_on.load(Ordering::Relaxed) > 0;
    // If an error or an interrupt comes before the first level, files stay as they were: there is nothing to put into them.
    let failed = levels::is_empty(&result) && (ended.is_err() || is_interrupted);
    if !failed {
        earlier.complete(&mut result);
    }
    screen.end();
    // What was measured is kept, even if standard output or another file fails.
    let printed = if result.levels.is_empty() { Ok(()) } else { screen.print(&console::summary(&result)) };
    gate::judge(&mut result, &session.plan.gate, baseline);
    let printed = printed.and_then(|()| conclude(&result, codes, &screen));
    let written = if failed { Ok(()) } else { write(&session.plan, interrupts, &result, baseline) };
    let traced = write_traces(&session, interrupts);
    let exported = observers.map_or(Ok(()), if failed { Observers::give_up } else { Observers::finish });
    let exported =
        exported.and_then(|()| if failed { Ok(()) } else { write_requests(&session.plan, interrupts, &result) });
    session.close();
    Error::both(Error::both(written, traced), exported)?;
    if failed && is_interrupted {
        note!("{}", ended.err().map_or_else(|| "nothing was measured".to_owned(), |error| error.to_string()));
        return Ok(exit::INTERRUPTED);
    }
    ended?;
    printed?;
    Ok(result.exit_code(codes))
}

/// Ends with the outcomes of the requirements and the answer to what was asked; perf_analyzer's callers know its last
/// lines.
fn conclude(result: &RunResult, codes: Codes, screen: &Screen) -> Result<()> {
    screen.print(&reports::requirements::text(&result.requirements))?;
    match result.answer().filter(|_| codes == Codes::Own) {
        Some(answer) => screen.print(&reports::headline::text(&answer)),
        None => Ok(()),
    }
}

/// The result to compare with, if it is used.
fn baseline(plan: &Plan) -> Result<Option<RunResult>> {
    let is_used = plan.gate.needs_baseline() || plan.output.pages != Pages::default();
    plan.gate.baseline.as_deref().filter(|_| is_used).map(RunResult::read).transpose()
}

/// Fails if changes from the baseline would mean nothing. Comparing with another machine may be intended.
fn check_baseline(session: &Session, baseline: Option<&RunResult>) -> Result<()> {
    let (plan, setup) = (&session.plan, &session.setup);
    let Some(baseline) = baseline.filter(|_| plan.gate.needs_baseline()) else { return Ok(()) };
    let path = baseline::path(plan);
    let others = differences_of_machines(&baseline.setup, setup);
    if !others.is_empty() {
        note!("--baseline {path}: it was measured on another machine: {}", others.join("; "));
    }
    let others = differences_of_work(&baseline.setup, setup);
    if !others.is_empty() {
        let rule = "name a result of the same work, or leave changes such as p99<+5% out of --require";
        return Err(Error::input(format!(
            "--baseline {path}: it measured something else: {}; {rule}",
            others.join("; ")
        )));
    }
    baseline::check(session, baseline)
}

/// Writes every file that is made from the result.
fn write(plan: &Plan, interrupts: Interrupts, result: &RunResult, baseline: Option<&RunResult>) -> Result<()> {
    let result = &result.closed();
    let (csv, summary, junit) = (&plan.output.csv, &plan.output.summary, &plan.gate.junit);
    let rows = if plan.output.as_upstream { result.as_upstream() } else { Cow::Borrowed(result) };
    let csv = csv.as_ref().map(|path| reports::csv::write(path, interrupts, &rows));
    let summary = summary.as_ref().map(|path| reports::summary::write(path, interrupts, result));
    let junit = junit.as_ref().map(|path| reports::requirements::write_junit(path, interrupts, result));
    let folder = plan.output.folder.as_ref().map(|folder| reports::lifecycle::write(folder, interrupts, result));
    let pages = Some(report::write_run(&plan.output.pages, interrupts, result, baseline));
    let written = [csv, summary, junit, folder, pages].into_iter().flatten().fold(Ok(()), Error::both);
    Error::both(written, otlp::send(plan, result))
}

/// Writes what is made from the export, once that is complete.
fn write_requests(plan: &Plan, interrupts: Interrupts, result: &RunResult) -> Result<()> {
    let (Some(folder), Some(export)) = (&plan.output.folder, &plan.output.profile_export) else { return Ok(()) };
    match folder.has(ReportPart::Requests) {
        true => reports::lifecycle::write_requests(folder, interrupts, export, result),
        false => Ok(()),
    }
}

/// Writes the files of traced requests.
fn write_traces(session: &Session, interrupts: Interrupts) -> Result<()> {
    let (Some(log), tracing) = (&session.trace_log, &session.plan.tracing) else { return Ok(()) };
    if !tracing.has_files() {
        return Ok(());
    }
    let (traces, left_out) = log.take_all();
    if left_out > 0 {
        let all = left_out + traces.len() as u64;
        note!(
            "traces: {left_out} of {all} are left out of the files; trace fewer requests (--trace-rate) to keep \
                every trace"
        );
    }
    let chrome = tracing.export.as_deref().map(|path| reports::chrome::write(path, interrupts, &traces));
    let trace_file = tracing.file.as_ref().map(|file| {
        let count = file.count.unwrap_or(usize::MAX).min(traces.len());
        reports::trace_file::write(&file.path, interrupts, &traces[..count])
    });
    [chrome, trace_file].into_iter().flatten().fold(Ok(()), Error::both)
}

/// Prints what is going to be measured.
fn introduce(session: &Session, codes: Codes, screen: &Screen) -> Result<()> {
    let plan = &session.plan;
    if plan.output.verbosity > 1 {
        stdio::say(console::models(&session.all_models));
    }
    if let Some(announcement) = session.announcement() {
        screen.print(&format!("{announcement}\n"))?;
    }
    screen.print(&settings::settings(plan, &session.setup))?;
    // Upstream's report has no such line.
    doctor::remark(plan).filter(|_| codes == Codes::Own).map_or(Ok(()), |remark| screen.print(&remark))
}

/// Checks, before a server is started, that the GPUs for tensors exist.
fn check_devices(plan: &Plan) -> Result<()> {
    let data = &plan.data;
    if data.shared_memory {
        let (flag, outputs) = ("--shared-memory cuda", data.output_placements());
        return outputs.all().try_for_each(|placement| placement.check().map_err(|error| error.context(flag)));
    }
    data.input_placement.check().map_err(|error| error.context(format!("--input-memory {}", data.input_placement)))?;
    data.output_placement.check().map_err(|error| error.context(format!("--output-memory {}", data.output_placement)))
}
