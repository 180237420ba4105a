//! `--periodic-concurrency-range`: requests join as those under way make progress. There are no windows: the profile
//! export holds the records, and a table shows the result of each batch.

use std::cmp::Reverse;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::app::job::Job;
use crate::app::peers;
use crate::app::runner::Runner;
use crate::backend::InferError;
use crate::clock::Stamp;
use crate::error::{Error, Result};
use crate::load::{BatchBook, LoadShape, PeriodicLoop, RunningLoad};
use crate::measure::breaker::Breaker;
use crate::measure::periodic::PeriodicRun;
use crate::measure::verdict::exceeds_errors;
use crate::ranks::Ranks;
use crate::record::{Completed, Recorder};
use crate::record::{LoadReport, PeriodicBatch};
use crate::report;
use crate::result::outcome::Outcome;
use crate::result::remark::Remark;
use crate::result::summary::LevelLoad;
use crate::result::{PeriodicResult, RunResult};
use crate::stdio::note;
use crate::terms::Periodic;

/// How often the batches so far are saved, which is the most that a kill loses. Batches may follow each other faster.
const SAVE_EVERY_NS: u64 = 1_000_000_000;

/// Plays the load to its end, unless an earlier run has, and prints the table.
///
/// # Errors
/// If it cannot be started, or a client breaks.
pub fn run(runner: &Runner<'_>, periodic: &Periodic, result: &mut RunResult) -> Result<()> {
    let played = match runner.earlier.periodic() {
        Some(before) => {
            note!("the periodic load: measured before (--resume)");
            before.clone()
        }
        None => {
            if runner.earlier.is_there() {
                note!(
                    "the periodic load: not finished before, and measured from its start: its batches build on each other"
                );
            }
            play(runner, periodic, result)?
        }
    };
    let played = result.periodic.insert(played);
    report::periodic::failures(played).for_each(|line| note!("{line}"));
    played.remarks.iter().for_each(|remark| note!("{}", remark.text));
    runner.context.screen.print(&(report::periodic::text(played) + &runner.losses()))
}

fn play(runner: &Runner<'_>, periodic: &Periodic, result: &RunResult) -> Result<PeriodicResult> {
    let shape = PeriodicLoop {
        start: periodic.start,
        end: periodic.end,
        step: periodic.step,
        period: periodic.request_period,
        book: Arc::new(BatchBook::new(own_of(runner, periodic.end))),
        part: runner.plan().load.ranks.part,
        progress: Arc::default(),
    };
    let base = Job::closed(runner.session, periodic.end);
    // perf_analyzer's export uses this name for every periodic load.
    let load = LevelLoad::Concurrency(1);
    let job = Job { load, shape: LoadShape::Periodic(shape.clone()), issuers: 1, quota: None, finite: true, ..base };
    let level = runner.level_run(&job);
    if let Some(observers) = runner.observers {
        observers.begin(load);
    }
    let running = runner.begin(&level.recorder, &job)?;
    let joint = runner.context.ranks.filter(|ranks| ranks.is_joint());
    let breaker = Breaker::new(&runner.plan().measurement.stop_on).shared(joint.is_some());
    let interrupts = runner.context.interrupts;
    let under_way = PeriodicRun { running: &running, recorder: &level.recorder, breaker: &breaker, interrupts };
    match joint {
        Some(ranks) => under_way.follow(ranks, &shape.progress)?,
        None => {
            let mut saved = Stamp::now();
            under_way.wait_for_end(|| {
                // Summing up a thousand batches takes a while, during which nobody sees that the load has ended.
                if runner.saves() && level.recorder.completed().all() > 0 && Stamp::now().since(saved) >= SAVE_EVERY_NS
                {
                    let periodic = Some(so_far(&shape, &level.recorder));
                    runner.save(&RunResult { periodic, ..result.clone() });
                    saved = Stamp::now();
                }
            });
        }
    }
    let (oddities, (stranded, stopped)) = (running.oddities(), stop(running));
    let stranded = stranded || breaker.is_open();
    level.recorder.take_back();
    if let Some(observers) = runner.observers {
        observers.settle();
    }
    let requests = stopped.map(|load| outcomes(load.sent, level.recorder.completed()));
    if let Some(observers) = runner.observers {
        observers.end_periodic(&shape.results(), &requests.as_ref().copied().unwrap_or_default());
    }
    let own_part =
        PartResult { batches: shape.results(), errors: level.recorder.close().errors.into_iter().collect(), stranded };
    let (part, requests) = joined(joint, own_part, requests)?;
    let PartResult { batches, mut errors, stranded } = part;
    errors.sort_by_key(|(_, count)| Reverse(*count));
    let outcome = outcome(runner, stranded, &requests)?;
    let remarks = Remark::of_replies(&oddities).collect();
    Ok(PeriodicResult { batches, requests, errors, remarks, outcome })
}

/// Stops the load. Returns whether it could not continue, and what became of its requests; what fails for an interrupt alone is no
/// failure.
fn stop(running: RunningLoad) -> (bool, Result<LoadReport>) {
    let (stranded, report) = (running.is_stranded(), running.report());
    match running.stop() {
        Err(error) if error.is_of_an_interrupt() => (false, Ok(report)),
        stopped => (stranded, stopped),
    }
}

/// What the load came to.
///
/// # Errors
/// If the user interrupted, or the server would have ended the process, before any request was over.
fn outcome(runner: &Runner<'_>, stranded: bool, requests: &LoadReport) -> Result<Outcome> {
    if runner.is_interrupted() && requests.completed + requests.failed == 0 {
        return Err(Error::machine("the run ended before any request was over: nothing was measured"));
    }
    let failed = exceeds_errors(runner.plan().measurement.max_errors, requests.completed, requests.failed);
    Ok(if stranded || requests.completed == 0 || failed {
        Outcome::Failed
    } else if runner.is_interrupted() {
        Outcome::Interrupted
    } else {
        Outcome::Valid
    })
}

/// The result so far while the load runs, like that of one that was broken off.
fn so_far(shape: &PeriodicLoop, recorder: &Recorder) -> PeriodicResult {
    let (over, batches) = (recorder.completed(), shape.results());
    let requests = outcomes(batches.iter().map(|batch| batch.requests).sum(), over);
    let (errors, remarks) = Default::default();
    PeriodicResult { batches, requests, errors, remarks, outcome: Outcome::Interrupted }
}

/// What became of the `sent` requests. The load's own counts know nothing of wrong outputs, nor of what was cancelled as
/// planned.
fn outcomes(sent: u64, over: Completed) -> LoadReport {
    let outstanding = sent.saturating_sub(over.all());
    LoadReport { sent, completed: over.succeeded, failed: over.failed, outstanding, held_back: 0 }
}

/// What a process contributes.
#[derive(Default, Serialize, Deserialize)]
struct PartResult {
    batches: Vec<PeriodicBatch>,
    errors: Vec<(InferError, u64)>,
    stranded: bool,
}

/// The sum of all processes' contributions, and the counts of all requests.
fn joined(
    joint: Option<&Ranks>,
    own_part: PartResult,
    requests: Result<LoadReport>,
) -> Result<(PartResult, LoadReport)> {
    let Some(ranks) = joint else { return Ok((own_part, requests?)) };
    let all = peers::share(ranks, requests.map(|requests| (own_part, requests)))?;
    let requests = all.iter().fold(LoadReport::default(), |sum, (_, report)| sum.and(*report));
    let mut errors: Vec<(InferError, u64)> = Vec::new();
    for (error, count) in all.iter().flat_map(|(part, _)| &part.errors) {
        match errors.iter_mut().find(|(reason, _)| reason == error) {
            Some((_, sum)) => *sum += count,
            None => errors.push((error.clone(), *count)),
        }
    }
    let stranded = all.iter().any(|(part, _)| part.stranded);
    let batches = PeriodicBatch::joined(all.into_iter().flat_map(|(part, _)| part.batches));
    Ok((PartResult { batches, errors, stranded }, requests))
}

/// How many of `requests` this process sends.
fn own_of(runner: &Runner<'_>, requests: u32) -> u32 {
    let count = runner.plan().load.ranks.part.share(requests as usize);
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{RecorderSpec, Sample, Source};

    #[test]
    fn wrong_outputs_are_failures_and_cancelled_requests_neither() {
        let recorder = Recorder::new(RecorderSpec { cancels: true, ..RecorderSpec::default() }, 1);
        let source = Source { writer: 0, part: 0 };
        let sample = Sample {
            intended: None,
            sent: Stamp(0),
            first_response: Stamp(5),
            end: Stamp(9),
            send_ns: None,
            turnaround_ns: 0,
            responses: 1,
        };
        (0..5).for_each(|_| recorder.record(source, &sample));
        recorder.fail(source, Stamp(9), &InferError::new("Internal", "no"));
        recorder.fail(source, Stamp(9), &InferError::new(InferError::CANCELLED, "as planned"));
        let wrong = InferError::new("Validation", "wrong");
        (0..3).for_each(|_| recorder.mismatch(source, Stamp(0), Stamp(9), &wrong));
        let expected = LoadReport { sent: 9, completed: 2, failed: 4, outstanding: 2, held_back: 0 };
        assert_eq!(outcomes(9, recorder.completed()), expected);
    }
}
