//! `--resume`: continues an earlier run of the same plan, whose result answers for what it holds.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::clock::Stamp;
use crate::error::{Error, Result};
use crate::plan::{Plan, flags};
use crate::report::level_name;
use crate::result::compare::differences;
use crate::result::outcome::Outcome;
use crate::result::summary::{Ending, LevelLoad, LevelSummary};
use crate::result::sweep::{StepTaken, SweepStep};
use crate::result::variants::{Cell, VariantIdentity};
use crate::result::{PeriodicResult, RunResult, Setup, is_report};
use crate::stdio::{note, shown};
use crate::terms::Flag;

/// What an earlier run of the same plan has finished; empty without `--resume`.
#[derive(Default)]
pub struct EarlierRun {
    run: Option<(PathBuf, RunResult)>,
    /// Levels that are measured again, and stay until more of them was: those that the user broke off, or that lack starts.
    broken_off: Vec<LevelSummary>,
    /// Whether it was broken off after its last level had ended: further measurements of it may be missing.
    is_open: bool,
}

impl EarlierRun {
    /// Reads the result of the run that the plan continues; the plan must be the same.
    ///
    /// # Errors
    /// If the file is not a result, or is of another plan: the message names the difference.
    pub fn read(plan: &Plan) -> Result<Self> {
        let Some(path) = &plan.output.resume else { return Ok(Self::default()) };
        let mut result = RunResult::read(path)?;
        if plan.output.summary.as_ref() == Some(path) && is_report(path) {
            let rule = "is a report, which the result would replace: add --summary-file with another name";
            return Err(Error::usage(format!("--resume {}: {rule}", path.display())));
        }
        let same = match draws_seed(&plan.invocation.flags) {
            true => format!("the same flags, with --seed {}", result.setup.seed),
            false => "the same flags".to_owned(),
        };
        let refuse = |problem: String| {
            let path = path.display();
            Err(Error::usage(format!("--resume {path}: {problem}; give {same}, or start over without --resume")))
        };
        let (then, now) = (&result.setup, &plan.invocation.flags);
        let differences = changed_flags(&with_seed(&then.flags, then.seed), &with_seed(now, plan.seed));
        if !differences.is_empty() {
            return refuse(format!("it is from another plan: {}", differences.join(", ")));
        }
        let starts = plan.measurement.restarts as usize;
        let is_open = is_open(&result, starts);
        let in_order = !plan.load.mode.stages().is_empty();
        let mut broken_off = take_unfinished(&mut result.levels, starts, in_order);
        let says_little = |level: &LevelSummary| level.client.requests == 0 || level.ending == Ending::Failed;
        if let Some(first) = broken_off.iter().position(says_little).filter(|_| in_order) {
            broken_off.truncate(first);
        }
        broken_off.retain(|level| !says_little(level));
        if plan.load.mode.sweep().is_some() {
            if result.sweep_steps.is_empty() && !result.levels.is_empty() {
                return refuse("it lacks the search that found the rates of its sweep".to_owned());
            }
            cut(&mut result.sweep_steps, &result.levels);
        }
        Ok(Self { run: Some((path.clone(), result)), broken_off, is_open })
    }

    /// Checks that server and models are the same as then; moves the earlier levels' stamps to just before the run,
    /// whose clock differs after a restart of the machine.
    ///
    /// # Errors
    /// If they are not: the message names the difference.
    pub fn check(&mut self, setup: &Setup) -> Result<()> {
        let Some((_, earlier)) = &mut self.run else { return Ok(()) };
        let mut found = differences(&earlier.setup, setup);
        for (then, now) in earlier.setup.models.iter().zip(&setup.models) {
            if let (Some(old), Some(new)) = (&then.config_hash, &now.config_hash)
                && old != new
            {
                found.push(format!("the configuration of model '{}' has changed", shown(&now.name)));
            }
        }
        let broken_off = &mut self.broken_off;
        put_before(earlier.levels.iter_mut().chain(broken_off), setup.began_stamp);
        self.refuse_other(&found)
    }

    /// Checks that the variants are the same as then.
    ///
    /// # Errors
    /// If they are not: the message names the difference.
    pub fn check_variants(&self, now: &[VariantIdentity]) -> Result<()> {
        let Some(then) = self.result().and_then(|result| result.variants.as_ref()) else { return Ok(()) };
        let usable = |all: &[VariantIdentity]| {
            let usable = all.iter().filter(|variant| variant.problem.is_none());
            usable.map(|variant| format!("'{}'", shown(&variant.name))).collect::<Vec<_>>().join(", ")
        };
        let names = |all: &[VariantIdentity]| all.iter().map(|variant| variant.name.clone()).collect::<Vec<_>>();
        let (before, after) = (usable(&then.variants), usable(now));
        match before == after && names(&then.variants) == names(now) {
            true => Ok(()),
            false => self.refuse_other(&[format!("it could measure {before}, and this run can measure {after}")]),
        }
    }

    fn refuse_other(&self, found: &[String]) -> Result<()> {
        if found.is_empty() {
            return Ok(());
        }
        let path = self.run.as_ref().map(|(path, _)| path.display().to_string()).unwrap_or_default();
        let details = found.join("; ");
        Err(Error::input(format!(
            "--resume {path}: it measured something else: {details}; start over without --resume"
        )))
    }

    /// Whether the plan continues an earlier run.
    pub fn is_there(&self) -> bool {
        self.run.is_some()
    }

    fn result(&self) -> Option<&RunResult> {
        self.run.as_ref().map(|(_, result)| result)
    }

    /// The finished levels.
    pub fn levels(&self) -> &[LevelSummary] {
        self.result().map_or(&[], |result| &result.levels)
    }

    /// The level of that load and batch size, if it was finished.
    pub fn level(&self, load: LevelLoad, batch_size: u64) -> Option<&LevelSummary> {
        self.levels().iter().find(|level| is_level(level, load, batch_size))
    }

    /// Whether it was broken off after that level: what is measured further of a level that has ended may be missing.
    pub fn is_open_at(&self, level: &LevelSummary) -> bool {
        let last = self.levels().last().filter(|_| self.is_open);
        last.is_some_and(|last| is_level(last, level.load, level.client.batch_size))
    }

    /// A level that was measured now, or what it was before if that says more.
    pub fn better(&self, level: LevelSummary) -> LevelSummary {
        let same = |old: &&LevelSummary| is_level(old, level.load, level.client.batch_size);
        self.broken_off.iter().find(same).and_then(|old| weightier(old, &level)).unwrap_or(level)
    }

    /// The same of a stage, by its number from 0.
    pub fn better_stage(&self, number: usize, level: LevelSummary) -> LevelSummary {
        let old = number.checked_sub(self.levels().len()).and_then(|number| self.broken_off.get(number));
        old.and_then(|old| weightier(old, &level)).unwrap_or(level)
    }

    /// The result so far, with the levels of the earlier run that it does not have.
    pub fn with<'r>(&self, result: &'r RunResult) -> Cow<'r, RunResult> {
        let unreached = self.unreached(result, true);
        if unreached.is_empty() {
            return Cow::Borrowed(result);
        }
        let levels = result.levels.iter().cloned().chain(unreached).collect();
        Cow::Owned(RunResult { levels, ..result.clone() })
    }

    /// Adds what the earlier run has measured to the result of this one, wherever that ended. One that was not broken off has
    /// every level that there is to measure.
    pub fn complete(&self, result: &mut RunResult) {
        let is_broken_off = result.interrupted || result.server_gone;
        let unreached = self.unreached(result, is_broken_off);
        result.levels.extend(unreached);
    }

    /// The levels that `result` does not have: the finished ones, and those that were broken off.
    fn unreached(&self, result: &RunResult, broken_off: bool) -> Vec<LevelSummary> {
        let old = self.levels().iter().chain(self.broken_off.iter().filter(|_| broken_off));
        if !result.setup.mode.stages().is_empty() {
            return old.skip(result.levels.len()).cloned().collect();
        }
        let is_there =
            |old: &&LevelSummary| result.levels.iter().any(|level| is_level(level, old.load, old.client.batch_size));
        old.filter(|old| !is_there(old)).cloned().collect()
    }

    /// The steps that a sweep took; the rates among them are levels that were finished.
    pub fn sweep_steps(&self) -> &[StepTaken] {
        self.result().map_or(&[], |result| &result.sweep_steps)
    }

    /// The result of a periodic load, if it was finished: it is one load from its first batch to its last, so there is
    /// no part to continue from.
    pub fn periodic(&self) -> Option<&PeriodicResult> {
        self.result()?.periodic.as_ref().filter(|periodic| periodic.outcome == Outcome::Valid)
    }

    /// The rounds of variants, cell by cell.
    pub fn cells(&self) -> &[Cell] {
        self.result().and_then(|result| result.variants.as_ref()).map_or(&[], |variants| &variants.cells)
    }
}

/// The rate that a step measured.
fn rate_of(step: SweepStep) -> Option<f64> {
    match step {
        SweepStep::Measure(rate) => Some(rate),
        SweepStep::Burst | SweepStep::Confirm(_) | SweepStep::Again(..) => None,
    }
}

/// Removes the first step whose level is missing, and all after it.
fn cut(steps: &mut Vec<StepTaken>, levels: &[LevelSummary]) {
    let has = |rate: f64| levels.iter().any(|level| level.load == LevelLoad::RequestRate(rate));
    let lacks = |taken: &StepTaken| rate_of(taken.step).is_some_and(|rate| !has(rate));
    steps.truncate(steps.iter().position(lacks).unwrap_or(steps.len()));
}

fn is_level(level: &LevelSummary, load: LevelLoad, batch_size: u64) -> bool {
    level.load == load && level.client.batch_size == batch_size
}

/// An earlier level that says more than the same one of this run, which failed then or was broken off sooner.
fn weightier(old: &LevelSummary, new: &LevelSummary) -> Option<LevelSummary> {
    let stays = match new.ending {
        Ending::Interrupted => has_ended(old) || old.client.requests > new.client.requests,
        Ending::Failed => false,
        _ => starts_of(old) > starts_of(new),
    };
    if stays {
        note!("{}: the earlier run has measured more of it, which stays (--resume)", level_name(old.load));
    }
    stays.then(|| old.clone())
}

fn has_ended(level: &LevelSummary) -> bool {
    !matches!(level.ending, Ending::Interrupted | Ending::Failed)
}

/// Whether a level that has ended was measured at fewer starts than the plan asks for. One that failed has no others.
fn lacks_starts(level: &LevelSummary, starts: usize) -> bool {
    has_ended(level) && starts_of(level) < starts
}

fn starts_of(level: &LevelSummary) -> usize {
    level.restarts.as_ref().map_or(1, |all| all.starts)
}

/// Whether a run was broken off, and its last level is not what was broken off.
fn is_open(result: &RunResult, starts: usize) -> bool {
    let is_whole = |level: &LevelSummary| has_ended(level) && !lacks_starts(level, starts);
    (result.interrupted || result.server_gone) && result.levels.last().is_some_and(is_whole)
}

/// Takes out the levels that are to be measured again: those that lack starts or were broken off, and at the end those that
/// failed. Of levels that follow each other `in_order`, all from the first of these on.
fn take_unfinished(levels: &mut Vec<LevelSummary>, starts: usize, in_order: bool) -> Vec<LevelSummary> {
    let ended = levels.iter().rposition(has_ended).map_or(0, |last| last + 1);
    let failed = levels.split_off(ended);
    let is_unfinished = |level: &LevelSummary| lacks_starts(level, starts) || level.ending == Ending::Interrupted;
    let unfinished = match levels.iter().position(is_unfinished).filter(|_| in_order) {
        Some(first) => levels.split_off(first),
        None => levels.extract_if(.., |level| is_unfinished(level)).collect::<Vec<_>>(),
    };
    unfinished.into_iter().chain(failed).collect()
}

/// The flag of the seed, and its value by which one is drawn from the clock.
const SEED: (&str, &str) = ("--seed", "time");

fn draws_seed(flags: &[Flag]) -> bool {
    let says_time = |value: &String| value.eq_ignore_ascii_case(SEED.1);
    flags.iter().any(|flag| flag.name == SEED.0 && flag.values.iter().any(says_time))
}

/// The flags with the seed itself: two runs that draw one from the clock draw different ones, and the part that is
/// measured now would have another load than the rest.
fn with_seed(flags: &[Flag], seed: u64) -> Vec<Flag> {
    let mut flags = flags.to_vec();
    let seeds = flags.iter_mut().filter(|flag| flag.name == SEED.0);
    seeds.for_each(|flag| flag.values = vec![seed.to_string()]);
    flags
}

/// Which flags differ, with both values.
fn changed_flags(then: &[Flag], now: &[Flag]) -> Vec<String> {
    let values = |flags: &[Flag]| -> BTreeMap<String, String> {
        let is_reported = |name: &str| flags::find(name).is_none_or(|flag| !flag.output && !flag.gate);
        let relevant_flags = flags.iter().filter(|flag| is_reported(&flag.name));
        relevant_flags.map(|flag| (flag.name.clone(), flag.values.join(" "))).collect()
    };
    let (then, now) = (values(then), values(now));
    let names: Vec<&String> = then.keys().chain(now.keys().filter(|name| !then.contains_key(*name))).collect();
    let words = |value: Option<&String>| match value {
        None => "absent".to_owned(),
        Some(value) if value.is_empty() => "on".to_owned(),
        Some(value) => format!("'{}'", shown(value)),
    };
    let differ = names.into_iter().filter(|name| then.get(*name) != now.get(*name));
    differ.map(|name| format!("{name} was {} and is {}", words(then.get(name)), words(now.get(name)))).collect()
}

/// Shifts all stamps so that the last window ends just before `began`, as far as the clock goes back.
fn put_before<'a>(levels: impl Iterator<Item = &'a mut LevelSummary>, began: Stamp) {
    let levels: Vec<&mut LevelSummary> = levels.collect();
    const PAUSE_NS: u64 = 100_000_000;
    let ends = levels.iter().flat_map(|level| level.windows.iter().map(|row| row.start.plus_duration(row.duration).0));
    let Some(end) = ends.max() else { return };
    let firsts = levels.iter().map(|level| level.client.start.0.min(level.timeline.began.0));
    let first = firsts.min().unwrap_or(0);
    let wanted = began.0.saturating_sub(PAUSE_NS);
    let moved = |stamp: &mut Stamp| {
        // Nothing is moved before the clock's beginning.
        stamp.0 = if wanted >= end { stamp.0 + (wanted - end) } else { stamp.0 - (end - wanted).min(first) };
    };
    for level in levels {
        moved(&mut level.client.start);
        moved(&mut level.timeline.began);
        level.windows.iter_mut().for_each(|row| moved(&mut row.start));
    }
}

#[cfg(test)]
mod tests {
    use std::iter;

    use super::*;
    use crate::result::setup::sample as plans;
    use crate::result::summary::{Restarts, sample};

    fn flag(name: &str, value: &str) -> Flag {
        let values = if value.is_empty() { Vec::new() } else { vec![value.to_owned()] };
        Flag { name: name.to_owned(), values, given: true, file: false }
    }

    #[test]
    fn what_differs_is_named_unless_it_is_a_report() {
        let then = [flag("-m", "a"), flag("--summary-file", "x"), flag("--seed", "1"), flag("--async", "")];
        let now = [flag("-m", "a"), flag("--resume", "x"), flag("--seed", "2"), flag("-p", "5")];
        let expected = ["--async was on and is absent", "--seed was '1' and is '2'", "-p was absent and is '5'"];
        assert_eq!(changed_flags(&then, &now), expected);
        assert!(changed_flags(&then, &then).is_empty());
    }

    #[test]
    fn a_seed_is_the_same_as_a_number_however_it_was_given() {
        let changed = |then: &str, drawn: u64, now: &str, seed: u64| {
            changed_flags(&with_seed(&[flag("--seed", then)], drawn), &with_seed(&[flag("--seed", now)], seed))
        };
        assert_eq!(changed("time", 7, "time", 8), ["--seed was '7' and is '8'"]);
        assert_eq!(changed("1", 1, "2", 2), ["--seed was '1' and is '2'"]);
        for (then, now) in [("time", "7"), ("7", "TIME"), ("7", "07")] {
            assert!(changed(then, 7, now, 7).is_empty(), "{then} {now}");
        }
        let draws = ["time", "Time", "7"].map(|value| draws_seed(&[flag("-m", "time"), flag("--seed", value)]));
        assert_eq!(draws, [true, true, false]);
    }

    #[test]
    fn a_sweep_goes_on_before_the_first_rate_that_is_not_there() {
        use crate::result::sweep::SweepObservation;
        let observed = SweepObservation { completed_rate: 1.0, sustained: true, settled: true, latency_ns: 1.0 };
        let steps = [SweepStep::Burst, SweepStep::Measure(0.1), SweepStep::Measure(0.2), SweepStep::Again(0, 0.1)];
        let steps: Vec<_> = steps.into_iter().map(|step| StepTaken { step, observed }).collect();
        let left = |rates: &[f64]| {
            let level = |rate: &f64| sample::level(LevelLoad::RequestRate(*rate), 1, 1);
            let mut steps = steps.clone();
            cut(&mut steps, &rates.iter().map(level).collect::<Vec<_>>());
            steps.len()
        };
        assert_eq!([left(&[]), left(&[0.1]), left(&[0.2]), left(&[0.1, 0.2])], [1, 2, 1, 4]);
    }

    /// A level that ended so, at so many starts.
    fn level(concurrency: u32, ending: Ending, starts: usize) -> LevelSummary {
        let restarts = (starts > 1).then(|| Restarts { starts, figures: Vec::new() });
        LevelSummary { ending, restarts, ..sample::level(LevelLoad::Concurrency(concurrency), 10, 1_000) }
    }

    #[test]
    fn levels_that_lack_starts_are_measured_again() {
        let left = |starts: usize, levels: &[LevelSummary]| {
            let mut levels = levels.to_vec();
            drop(take_unfinished(&mut levels, starts, false));
            let load = |level: &LevelSummary| if let LevelLoad::Concurrency(load) = level.load { load } else { 0 };
            levels.iter().map(load).collect::<Vec<_>>()
        };
        let all = [
            level(1, Ending::Unstable, 3),
            level(2, Ending::Stable, 2),
            level(3, Ending::Failed, 1),
            level(4, Ending::OverThreshold, 3),
            level(5, Ending::Stable, 1),
            level(6, Ending::Interrupted, 1),
        ];
        assert_eq!(left(3, &all), [1, 3, 4]);
        assert_eq!(left(3, &all[..3]), [1], "one that failed at the end, too");
        assert_eq!(left(1, &all), [1, 2, 3, 4, 5], "none was asked for");
    }

    #[test]
    fn a_run_is_open_at_a_last_level_that_it_has_not_broken_off() {
        let open_at = |interrupted: bool, server_gone: bool, levels: &[LevelSummary]| {
            let result = RunResult { interrupted, server_gone, ..plans::result(&plans::setup(), levels) };
            let earlier = EarlierRun {
                is_open: is_open(&result, 2),
                broken_off: Vec::new(),
                run: Some(("r.json".into(), result)),
            };
            levels.iter().map(|level| earlier.is_open_at(level)).collect::<Vec<_>>()
        };
        let whole = [level(1, Ending::Stable, 2), level(2, Ending::OverThreshold, 2)];
        assert_eq!(open_at(true, false, &whole), [false, true]);
        assert_eq!(open_at(false, true, &whole), [false, true]);
        assert_eq!(open_at(false, false, &whole), [false, false], "the run was over");
        for last in [level(2, Ending::Interrupted, 1), level(2, Ending::Stable, 1)] {
            assert_eq!(open_at(true, false, &[level(1, Ending::Stable, 2), last]), [false, false]);
        }
    }

    #[test]
    fn a_level_that_was_broken_off_stays_until_more_of_it_is_measured() {
        let of =
            |ending, requests| LevelSummary { ending, ..sample::level(LevelLoad::Concurrency(4), requests, 1_000) };
        let earlier = |old: LevelSummary| {
            let result = RunResult { interrupted: true, ..plans::result(&plans::setup(), &[]) };
            EarlierRun { run: Some(("r.json".into(), result)), broken_off: vec![old], is_open: false }
        };
        for (new, stays) in [
            (of(Ending::Interrupted, 117), true),
            (of(Ending::Interrupted, 119), false),
            (of(Ending::Stable, 50), false),
            (of(Ending::Failed, 0), false),
        ] {
            let better = earlier(of(Ending::Interrupted, 118)).better(new.clone());
            assert_eq!(better.client.requests, if stays { 118 } else { new.client.requests });
        }
        let lacks_starts = earlier(of(Ending::Stable, 118));
        assert_eq!(lacks_starts.better(of(Ending::Interrupted, 900)).client.requests, 118);
        let reached = |interrupted, levels: &[LevelSummary]| {
            let mut result = RunResult { interrupted, ..plans::result(&plans::setup(), levels) };
            earlier(of(Ending::Interrupted, 118)).complete(&mut result);
            result.levels.len()
        };
        assert_eq!((reached(true, &[]), reached(true, &[of(Ending::Stable, 9)])), (1, 1));
        assert_eq!(reached(false, &[level(1, Ending::Stable, 1)]), 1, "what a whole run did not need is left out");
    }

    #[test]
    fn stages_go_on_with_the_first_that_was_broken_off() {
        let mut stages =
            [Ending::Stable, Ending::Interrupted, Ending::Complete].map(|ending| level(4, ending, 1)).to_vec();
        assert_eq!((take_unfinished(&mut stages, 1, true).len(), stages.len()), (2, 1));
        let mut levels =
            [Ending::Interrupted, Ending::Complete, Ending::Failed].map(|ending| level(4, ending, 1)).to_vec();
        let taken = take_unfinished(&mut levels, 1, false);
        assert_eq!((taken.len(), levels.len(), levels[0].ending), (2, 1, Ending::Complete));
    }

    #[test]
    fn earlier_levels_lie_before_the_run_whatever_the_clock_says() {
        for (then, began) in [(5_000_000_000, 900_000_000_000), (900_000_000_000, 50_000_000_000), (7_000, 1)] {
            let mut level = sample::level(LevelLoad::Concurrency(1), 1, 1);
            (level.client.start, level.timeline.began) = (Stamp(then), Stamp(then - 1_000));
            put_before(iter::once(&mut level), Stamp(began));
            assert_eq!(level.client.start, Stamp(then), "it has no windows");
            let row = crate::result::timeline::sample::row(Stamp(then));
            level.windows = vec![row];
            put_before(iter::once(&mut level), Stamp(began));
            let moved = level.client.start.0;
            assert_eq!((level.windows[0].start.0, moved - level.timeline.began.0), (moved, 1_000));
            assert!(moved + 1_000_000_000 <= began || level.timeline.began == Stamp(0), "{moved} {began}");
        }
    }
}
