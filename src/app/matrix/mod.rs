//! `--matrix`: the same model, data, seed and load several ways in one run, in rounds that take turns.

mod memory;
mod transports;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::app::job::Job;
use crate::app::phase;
use crate::app::runner::Runner;
use crate::app::screen::Screen;
use crate::app::session::Session;
use crate::backends::{self, Connected};
use crate::error::{Error, Result};
use crate::exit;
use crate::exit::Codes;
use crate::measure::matrix::{MatrixRow, MatrixTable, Round};
use crate::measure::summary::Ending;
use crate::observe::Observers;
use crate::plan::{LevelValue, LoadMode, Matrix, MeasurementPlan, Plan, Range};
use crate::report::{self, Interrupts, console, matrix};
use crate::result::RunResult;
use crate::stdio::note;

/// One way to run the plan. Its fields are dropped in order: the session before what it needs.
pub struct Way {
    /// How the table names it.
    name: String,
    /// What is made once for it, or why it cannot be gone.
    session: Result<Session>,
    /// Who validates its outputs, where the data say what they must be.
    observers: Option<Observers>,
}

impl Way {
    /// Makes a way ready.
    fn open(name: impl Into<String>, plan: Plan, server: Result<Connected>) -> Self {
        let ready = server.and_then(|server| {
            let session = Session::through(server, plan)?;
            Ok((session.observers()?, session))
        });
        let (observers, session) = match ready {
            Ok((observers, session)) => (observers, Ok(session)),
            Err(error) => (None, Err(error)),
        };
        Self { name: name.into(), session, observers }
    }
}

/// Measures every way and prints a table for each level. Returns the exit code.
///
/// # Errors
/// Where the first way, which the others are held against, cannot be gone, or the plan's load has no levels.
pub fn run(plan: &Plan, kind: &Matrix, interrupts: Interrupts) -> Result<u8> {
    let screen = Screen::new();
    // The servers must outlive the ways that lead to them, so they are made first.
    let in_process = backends::connect(plan)?.backend;
    let program = transports::program(plan, kind, interrupts);
    let ways = match kind {
        Matrix::Memory => memory::ways(plan, &in_process),
        Matrix::Transports { running } => transports::ways(plan, &in_process, (running.as_deref(), program.as_ref())),
    };
    drop(in_process);
    let setup = match ways.first().map(|way| &way.session) {
        Some(Ok(first)) => {
            first.plan.notes_on(&first.models).for_each(|note| note!("{note}"));
            screen.print(&console::settings(&first.plan, &first.setup))?;
            Arc::clone(&first.setup)
        }
        Some(Err(error)) => return Err(error.clone()),
        None => return Err(Error::usage("--matrix: there is no way to measure")),
    };
    for way in &ways {
        if let Err(error) = &way.session {
            note!("--matrix: {}: {error}", way.name);
        }
    }
    if !phase::ready() {
        return Ok(exit::INTERRUPTED);
    }
    let mut result = RunResult::new(setup);
    for level in 0..u32::MAX {
        let Some(table) = measure(&ways, level, &screen, interrupts)? else { break };
        screen.print(&matrix::table(&table, plan.measurement.percentile))?;
        result.tables.push(table);
        report::summary::save(plan, interrupts, &result);
        if interrupts.load(Ordering::Relaxed) > 0 {
            break;
        }
    }
    // The last one first: each puts back what it found on a server.
    for way in ways.into_iter().rev() {
        way.session.into_iter().for_each(Session::close);
        way.observers.into_iter().try_for_each(Observers::finish)?;
    }
    let path = plan.output.summary.as_ref();
    path.map_or(Ok(()), |path| report::summary::write((path, interrupts), &result))?;
    Ok(result.exit_code(Codes::Own))
}

/// The table of the level with that number; `None` where there is none.
fn measure(ways: &[Way], level: u32, screen: &Screen, interrupts: Interrupts) -> Result<Option<MatrixTable>> {
    let mut rows: Vec<MatrixRow> = ways
        .iter()
        .map(|way| MatrixRow {
            name: way.name.clone(),
            rounds: Vec::new(),
            problem: way.session.as_ref().err().map(ToString::to_string),
        })
        .collect();
    let mut load = None;
    let first = ways.iter().find_map(|way| way.session.as_ref().ok());
    let rounds = first.map_or(0, |session| session.plan.measurement.max_trials);
    for _ in 0..rounds {
        for (way, row) in ways.iter().zip(&mut rows) {
            let Ok(session) = &way.session else { continue };
            if row.problem.is_some() {
                continue;
            }
            let measurement = &session.plan.measurement;
            let Some(job) = job(session, level)? else { return Ok(None) };
            load = Some(job.load);
            let observers = way.observers.as_ref();
            let runner = Runner { session, screen, interrupts, codes: Codes::Own, observers };
            let once = MeasurementPlan { max_trials: 1, precision: None, ..measurement.clone() };
            match runner.measure_quietly(&job, &once) {
                Ok(_) if runner.is_interrupted() => break,
                Ok(summary) => {
                    row.rounds.push(Round::of(&summary.client, measurement.percentile));
                    if summary.ending == Ending::Failed {
                        let reason = summary.client.errors.first().map(|(error, _)| error.to_string());
                        row.problem = Some(reason.unwrap_or_else(|| "no request succeeded".to_owned()));
                    }
                }
                Err(error) => row.problem = Some(error.to_string()),
            }
        }
        if interrupts.load(Ordering::Relaxed) > 0 {
            break;
        }
    }
    Ok(load.map(|load| MatrixTable { load, rows }))
}

/// The load of the level with that number.
fn job(session: &Session, level: u32) -> Result<Option<Job>> {
    match &session.plan.load.mode {
        LoadMode::Concurrency(range) => Ok(nth(*range, level).map(|concurrency| Job::closed(session, concurrency))),
        LoadMode::RequestRate { range, distribution } => {
            nth(*range, level).map(|rate| Job::rate(session, rate, *distribution)).transpose()
        }
        _ => Err(Error::usage("--matrix measures levels of --concurrency-range or --request-rate-range")),
    }
}

fn nth<T: LevelValue>(range: Range<T>, index: u32) -> Option<T> {
    let end = range.end?;
    if index > 0 && range.start >= end {
        return None;
    }
    T::nth(range.start, range.step, index)?.within(end)
}
