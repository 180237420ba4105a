//! The other processes of a run: meets them before anything else, keeps in step with them while levels are measured,
//! and leaves them after everything is written.

mod binding;
mod parts;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::app::ending;
use crate::app::job::Job;
use crate::clock::Stamp;
use crate::error::{Error, Result};
use crate::exit::{self, Codes};
use crate::interrupt;
use crate::machine::read;
use crate::mpi::Launcher;
use crate::plan::{Decision, Plan, flags};
use crate::ranks::clocks::Offset;
use crate::ranks::{ANSWER_LIMIT, Member, Mode, OverMpi, OverParent, Peers, Ranks, STEP_LIMIT};
use crate::report::Interrupts;
use crate::result::summary::{Ending, LevelSummary};
use crate::stdio::{self, note};

/// The load begins at least this long after rank 0 has announced the time.
const LEAD: Duration = Duration::from_millis(100);
/// At least this many times the message delay between the two processes that are farthest apart: some pass a message on before the
/// last one gets it.
const STEPS: u32 = 10;
/// How long processes may take to leave, once all have reported that everything is written.
const LEAVE_LIMIT: Duration = Duration::from_secs(10);
/// After a process was lost, how long rank 0 has to write its results before it ends all processes.
const LAST_WRITES: Duration = Duration::from_secs(5);
/// A launcher discards unread output of the processes that it ends.
const FLUSH_LIMIT: Duration = Duration::from_millis(300);
/// Whether the warning about too few processors was printed.
static NARROW_REPORTED: AtomicBool = AtomicBool::new(false);
/// Clock errors above this share of a window are worth a remark; ten times as much makes measuring pointless.
const CLOCK_REMARK: f64 = 0.01;

/// Joins the other processes, if the plan asks for that, and gives the plan this process' part.
///
/// # Errors
/// If MPI is not available, the processes do not fit together, or the plan cannot be shared.
pub fn join(plan: &mut Plan, codes: Codes) -> Result<Option<Ranks>> {
    if !plan.load.ranks.mpi {
        warn_of_independence(codes);
        return Ok(None);
    }
    let peers = enter()?;
    let mut member = Member::new(host(), clock());
    (member.processors, member.online) = binding::here();
    member.task = task(plan);
    if plan.target.service.is_remote() {
        member.server.clone_from(&plan.target.connection.url);
    }
    let ranks = Ranks::meet(peers, &member)?;
    match agree(plan, codes, &ranks) {
        Ok(()) => {}
        Err(error) => {
            return leave(&ranks, Err(error)).map(|_| None);
        }
    }
    binding::remarks(ranks.members()).iter().filter(|_| ranks.is_first()).for_each(|remark| note!("{remark}"));
    Ok(Some(ranks))
}

/// Connects to the other processes: over MPI, or over the process that has started this one for one of several runs.
fn enter() -> Result<Box<dyn Peers>> {
    match OverParent::find()? {
        Some(parent) => Ok(Box::new(parent)),
        None => Ok(Box::new(OverMpi::enter()?)),
    }
}

/// Agrees with the other processes on how to share the work.
fn agree(plan: &mut Plan, codes: Codes, ranks: &Ranks) -> Result<()> {
    let wish = plan.load.ranks.mode.map(|mode| mode == Mode::Joint);
    let wishes = ranks.exchange(&wish, ANSWER_LIMIT)?;
    if wishes.iter().any(|other| *other != wish) {
        return Err(Error::usage("--ranks: all processes must be given the same"));
    }
    if codes == Codes::PerfAnalyzers {
        ranks.set_mode(Mode::Separate);
    } else if let Some(mode) = plan.load.ranks.mode {
        ranks.set_mode(mode);
    }
    let part = ranks.part();
    if !part.is_shared() {
        return Ok(());
    }
    check_codes(ranks, codes)?;
    if plan.gate.undecided == Some(Decision::More) {
        return Err(Error::usage("--undecided more: levels of several processes are measured once; leave it out"));
    }
    if !plan.measurement.stop_on.is_empty() && !ranks.is_joint() {
        return Err(Error::usage(
            "--stop-on: separate loads end together, and none of them ends the others; leave it out",
        ));
    }
    plan.load.ranks.neighbours = ranks.neighbours();
    if !ranks.is_joint() {
        return check_separate(plan, codes, ranks);
    }
    parts::check(plan, part)?;
    plan.load.ranks.part = part;
    parts::divide_outputs(plan, ranks)
}

/// Checks that all processes have the same name: their messages and exit codes depend on it.
fn check_codes(ranks: &Ranks, codes: Codes) -> Result<()> {
    let is_own = codes == Codes::Own;
    let all = ranks.exchange(&is_own, ANSWER_LIMIT)?;
    match all.iter().all(|other| *other == is_own) {
        true => Ok(()),
        false => Err(Error::usage("--enable-mpi: start triton-bench everywhere, or perf_analyzer everywhere")),
    }
}

/// Checks that separate loads can begin together, level by level; perf_analyzer's rule, in its words under its name.
fn check_separate(plan: &Plan, codes: Codes, ranks: &Ranks) -> Result<()> {
    let local_steps = parts::steps(plan);
    let all = ranks.exchange(&local_steps, ANSWER_LIMIT)?;
    if let Some(other) = all.iter().position(|other| *other != local_steps) {
        let shown = |steps: &str| if steps.is_empty() { "no such flag".to_owned() } else { steps.to_owned() };
        return Err(Error::usage(format!(
            "{} here and {} at {}: separate loads start together the same number of times; give the flag to all \
                processes or to none",
            shown(&local_steps),
            shown(&all[other]),
            ranks.name(other)
        )));
    }
    if !plan.load.mode.has_levels() {
        return Ok(());
    }
    let flag = plan.load.mode.flag();
    Err(Error::usage(match codes {
        Codes::PerfAnalyzers => format!("Cannot specify {flag} when in multi-model mode."),
        Codes::Own => format!(
            "{flag}: separate loads start and end together, so each process measures one level; give one value, or \
                give all processes the same flags to share one load"
        ),
    }))
}

/// What a process is asked to do, without the settings that may differ.
fn task(plan: &Plan) -> String {
    let is_own = |name: &str| flags::find(name).is_some_and(|flag| flag.per_process || flag.output);
    let shared = plan.invocation.flags.iter().filter(|flag| flag.given && !is_own(&flag.name));
    shared.map(|flag| format!("{} {}\n", flag.name, flag.values.join(" "))).collect()
}

fn host() -> String {
    read("/proc/sys/kernel/hostname").unwrap_or_else(|| "?".to_owned())
}

/// Identifies the clock that this process reads: of one boot of a kernel, in its time namespace.
fn clock() -> String {
    let boot = read("/proc/sys/kernel/random/boot_id").unwrap_or_else(host);
    let offsets = read("/proc/self/timens_offsets").unwrap_or_default();
    format!("{boot} {}", offsets.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Several processes that know nothing of each other are rarely intended.
fn warn_of_independence(codes: Codes) {
    if let Some(launcher) = Launcher::here().filter(|launcher| launcher.processes > 1 && codes == Codes::Own) {
        let (name, count) = (launcher.name(), launcher.processes);
        note!("{name} started {count} processes: without --enable-mpi each does the whole run by itself");
    }
}

/// What a process sends before it starts a load.
#[derive(Serialize, Deserialize)]
struct Ready {
    interrupted: bool,
    /// Number of threads that take turns at a schedule.
    turns: Option<usize>,
    /// Number of threads that send.
    issuers: usize,
}

/// Waits until all processes are ready, compares clocks, and agrees on when the load of `job` begins, as a moment of
/// this process' clock.
///
/// # Errors
/// If a process cannot continue or was interrupted, or clocks are not known well enough.
pub fn agree_on_start(ranks: &Ranks, plan: &Plan, job: &Job, interrupts: Interrupts) -> Result<Stamp> {
    let turns = job.is_open().then_some(job.issuers);
    let ready = Ready { interrupted: interrupt::counter().load(Ordering::Relaxed) > 0, turns, issuers: job.issuers };
    let all = ranks.exchange(&ready, STEP_LIMIT)?;
    if all.iter().any(|other| other.interrupted) {
        interrupts.fetch_max(1, Ordering::Relaxed);
        return Err(Error::machine("interrupted before the level began"));
    }
    if ranks.is_joint() && all.iter().any(|other| other.turns != turns) {
        return Err(Error::machine("processes would send with different numbers of threads; set --max-threads"));
    }
    if ranks.is_first() && !NARROW_REPORTED.swap(true, Ordering::Relaxed) {
        let issuers: Vec<usize> = all.iter().map(|ready| ready.issuers).collect();
        binding::narrow(ranks.members(), &issuers).into_iter().for_each(|remark| note!("{remark}"));
    }
    ranks.compare_clocks()?;
    if ranks.is_joint() {
        check_clocks(ranks, plan)?;
    }
    let start = ranks.is_first().then(|| Stamp::now().plus_duration(lead(&ranks.offsets())).0);
    let start = ranks.receive_first(start.as_ref(), ANSWER_LIMIT)?;
    Ok(Stamp(ranks.offset().to_own(start)))
}

/// How long everybody needs to hear of the start. A clock is known no better than to the time of a message.
fn lead(offsets: &[Offset]) -> Duration {
    let farthest = offsets.iter().map(|offset| offset.error_ns).max().unwrap_or(0);
    LEAD.max(Duration::from_nanos(farthest) * STEPS)
}

fn check_clocks(ranks: &Ranks, plan: &Plan) -> Result<()> {
    let Some(window) = plan.measurement.window.length() else { return Ok(()) };
    for (rank, offset) in ranks.offsets().iter().enumerate() {
        let (name, share) = (ranks.name(rank), offset.error_ns as f64 / window.as_nanos() as f64);
        let message = format!("the clock of {name} is known to within {} us only", offset.error_ns / 1000);
        if share > 10.0 * CLOCK_REMARK {
            let next = "measure longer windows (--measurement-interval), or with --ranks separate";
            return Err(Error::machine(format!("{message}, more than a tenth of a window; {next}")));
        }
        if share > CLOCK_REMARK && ranks.is_first() {
            note!("{message}: windows are that much apart");
        }
    }
    Ok(())
}

/// The line for `-v` when separate loads have ended together, in perf_analyzer's words.
pub fn agreement(ranks: &Ranks, plan: &Plan, level: &LevelSummary) -> Option<&'static str> {
    let is_reported = plan.output.verbosity > 0 && !ranks.is_joint() && level.ending == Ending::Stable;
    is_reported.then_some("All models on all MPI ranks are stable\n")
}

/// Checks that all processes have opened their servers and read their data before anything is measured.
///
/// # Errors
/// If one could not.
pub fn all_ready(ranks: &Ranks) -> Result<()> {
    ranks.exchange(&(), STEP_LIMIT).map(drop)
}

/// Waits until each process has done something that may fail; returns everybody's result.
///
/// # Errors
/// Why it failed, here or there.
pub fn share<T: Serialize + DeserializeOwned>(ranks: &Ranks, done: Result<T>) -> Result<Vec<T>> {
    match done {
        Ok(value) => ranks.exchange(&value, STEP_LIMIT),
        Err(error) => {
            ranks.give_up(&error);
            Err(error)
        }
    }
}

/// Leaves the others when everything is written. Returns the exit code for the run's outcome.
pub fn leave(ranks: &Ranks, outcome: Result<u8>) -> Result<u8> {
    let delivery = send_outcome(ranks, &outcome);
    let outcome = match (outcome, ranks.over()) {
        // If a process was lost or gave up, the run is not what was asked for.
        (Ok(_), Some(reason)) => Err(reason),
        // Open MPI ends all processes when one ends with a code other than 0.
        (Ok(_), None) if ranks.is_joint() && !ranks.is_first() => Ok(exit::OK),
        (outcome, _) => outcome,
    };
    if let Err(error) = &outcome {
        // A launcher ends all processes when one has failed: the error must have been printed before anybody ends.
        stdio::hush(ranks.first_speaks());
        stdio::say(format_args!("error: {error}\n"));
        stdio::hush(true);
    }
    part_from(ranks, delivery);
    outcome
}

/// Sends the outcome of this process to the others. Returns whether the job still exists.
fn send_outcome(ranks: &Ranks, outcome: &Result<u8>) -> bool {
    if interrupt::is_terminated() {
        // The launcher ends all processes, and does so earlier if one has already ended.
        ranks.fall_silent(&Error::machine("the launcher has ended the run"));
        if !ranks.is_first() {
            thread::sleep(LAST_WRITES);
        }
        return false;
    }
    match outcome {
        Ok(exit::INTERRUPTED) => {
            ranks.give_up(&Error::machine("interrupted before anything was measured"));
        }
        // The ranks keep the outcome of this exchange.
        Ok(code) => drop(ranks.exchange(code, STEP_LIMIT)),
        Err(error) => ranks.give_up(error),
    }
    true
}

/// Leaves the others, or ends all if one no longer answers.
fn part_from(ranks: &Ranks, is_there: bool) {
    if !is_there {
        return;
    }
    ending::within(LEAVE_LIMIT, exit::FAILED, "another process of the MPI job did not leave it", || {
        if !ranks.is_lost() {
            // Everything is written; errors from here on change nothing.
            drop(ranks.leave());
            return;
        }
        if !ranks.is_first() {
            // Rank 0 writes its results, then ends all.
            thread::sleep(LAST_WRITES);
        }
        // The last output must have reached the launcher.
        thread::sleep(FLUSH_LIMIT);
        ranks.abort(exit::FAILED);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranks::threads::together;

    #[test]
    fn this_process_has_a_host_and_a_clock() {
        assert!(!host().is_empty() && clock().len() > 10, "{} {}", host(), clock());
    }

    #[test]
    fn all_leave_with_the_code_of_the_first() {
        let codes = together(3, |ranks| leave(&ranks, Ok(ranks.part().rank as u8 + 2)).unwrap());
        assert_eq!(codes, [2, 0, 0]);
        let codes = together(2, |ranks| {
            ranks.set_mode(Mode::Separate);
            leave(&ranks, Ok(ranks.part().rank as u8 + 2)).unwrap()
        });
        assert_eq!(codes, [2, 3], "each has its own");
    }

    #[test]
    fn one_that_fails_fails_all() {
        let messages = together(2, |ranks| {
            let outcome =
                if ranks.part().rank == 1 { Err(Error::input("no such file")) } else { all_ready(&ranks).map(|()| 0) };
            leave(&ranks, outcome).unwrap_err().to_string()
        });
        assert_eq!(messages, ["rank 1 (host1): no such file", "no such file"]);
    }
}
