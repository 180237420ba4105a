//! The exit code of a result.

use crate::checked::Judgement;
use crate::exit::{self, Codes};
use crate::outcome::{Outcome, fails_too_often_alone, is_comparable};
use crate::summary::{Ending, LevelLoad, LevelSummary};
use crate::sweep::RESOLUTION;
use crate::terms::LoadMode;
use crate::variants::Cell;
use crate::{RunResult, VariantsResult};

impl RunResult {
    /// The exit code: the gravest problem of the run decides.
    pub fn exit_code(&self, codes: Codes) -> u8 {
        if self.unfinished {
            return exit::INTERRUPTED;
        }
        let failed = self.periodic.as_ref().is_some_and(|periodic| periodic.outcome == Outcome::Failed);
        let broken = self.variants.as_ref().is_some_and(VariantsResult::has_failures);
        if (self.server_gone && !self.is_whole()) || failed || broken {
            return of_failure(codes, &self.levels);
        }
        if codes == Codes::Own && self.interrupted && self.has_nothing() {
            return exit::INTERRUPTED;
        }
        let lacks_start =
            |level: &LevelSummary| level.missing_starts.as_ref().is_some_and(|starts| starts.requests_failed);
        if !self.interrupted && self.levels.iter().any(lacks_start) {
            return of_failure(codes, &self.levels);
        }
        let binary = self.setup.measurement.binary_search;
        match of_levels(&self.setup.mode, binary, codes, &self.levels[..self.levels_that_count()]) {
            exit::OK => self.code_of_gate(),
            // A gate has its answer wherever figures could be judged, however well others of that level are known.
            exit::UNSTABLE | exit::INVALID if codes == Codes::Own && self.is_judged() => self.code_of_gate(),
            // How many requests failed is a figure, too.
            exit::NO_VALID_REQUESTS if codes == Codes::Own && self.is_judged() && self.misses_a_figure() => {
                exit::REQUIREMENT
            }
            code => code,
        }
    }

    /// Whether its load came to its end: a server that is gone by then has cost it nothing. A sweep may have no level to show for one
    /// that went before.
    pub fn is_whole(&self) -> bool {
        let mode = &self.setup.mode;
        let has_ended = |level: &LevelSummary| !matches!(level.ending, Ending::Interrupted | Ending::Failed);
        let has_all = match mode.sweep() {
            Some(_) => self.sweep.is_some(),
            None => mode.levels(self.setup.measurement.binary_search).is_some_and(|count| self.levels.len() >= count),
        };
        has_all && self.levels.iter().all(has_ended)
    }

    /// Whether no part of it was measured.
    fn has_nothing(&self) -> bool {
        let is_compared = |variants: &VariantsResult| variants.cells.iter().any(Cell::has_whole_round);
        let has_variants = self.variants.as_ref().is_some_and(is_compared);
        self.levels.is_empty() && self.sweep.is_none() && self.periodic.is_none() && !has_variants
    }

    fn code_of_gate(&self) -> u8 {
        if self.requirements.iter().any(|checked| !checked.passes && !checked.open) {
            exit::REQUIREMENT
        } else if self.requirements.iter().any(|checked| !checked.passes) {
            exit::UNDECIDED
        } else {
            exit::OK
        }
    }

    /// Whether a figure is known to miss a requirement.
    fn misses_a_figure(&self) -> bool {
        self.requirements.iter().any(|checked| checked.value.is_some() && checked.outcome == Judgement::Failed)
    }

    /// Whether there are requirements, and all levels could be judged.
    fn is_judged(&self) -> bool {
        let levels = &self.levels[..self.levels_that_count()];
        let has_value = |level: &LevelSummary| {
            self.requirements.iter().any(|checked| checked.level == Some(level.load) && checked.value.is_some())
        };
        let is_judged =
            |level: &LevelSummary| is_comparable(level) || (fails_too_often_alone(level) && has_value(level));
        !self.requirements.is_empty() && levels.iter().all(is_judged)
    }

    /// How many levels, from the first on, the run is judged by: a sweep goes to saturation and past it on purpose, so
    /// the outcomes of its last two rates are no fault, nor are those above what measuring longer has found.
    pub fn levels_that_count(&self) -> usize {
        let saturation = self.sweep.as_ref().map_or(f64::INFINITY, |found| (1.0 - RESOLUTION) * found.saturation);
        let below = self.levels.iter().take_while(|level| level.load.number() < saturation).count();
        that_count(&self.setup.mode, below)
    }
}

fn that_count(mode: &LoadMode, levels: usize) -> usize {
    mode.sweep().map_or(levels, |points| levels.min((points as usize).saturating_sub(1)))
}

/// A search ends at its threshold, so levels above that after the first are no fault.
fn of_levels(mode: &LoadMode, binary: bool, codes: Codes, levels: &[LevelSummary]) -> u8 {
    let levels = &levels[..that_count(mode, levels.len())];
    let outcomes: Vec<Outcome> = levels.iter().map(Outcome::new).collect();
    let is_unstable = match codes {
        Codes::Own => outcomes.contains(&Outcome::Unstable),
        Codes::PerfAnalyzers => is_unstable_upstream(mode, binary, levels),
    };
    // A range goes on past a lone request that waits for a batch.
    let goes_on = codes == Codes::Own && mode.is_range() && is_lone_before_others(levels);
    if outcomes.contains(&Outcome::Failed) {
        of_failure(codes, levels)
    } else if codes == Codes::Own && measured_nothing(levels) {
        exit::INTERRUPTED
    } else if is_unstable {
        exit::UNSTABLE
    } else if outcomes.first() == Some(&Outcome::OverThreshold) && !goes_on {
        exit::OVER_THRESHOLD
    } else if outcomes.iter().any(|outcome| is_invalid(*outcome)) {
        exit::INVALID
    } else {
        exit::OK
    }
}

/// Whether the first level is a lone request, and a later one with the same batch is within the limit.
fn is_lone_before_others(levels: &[LevelSummary]) -> bool {
    let [first, later @ ..] = levels else { return false };
    let is_alike = |level: &LevelSummary| level.client.batch_size == first.client.batch_size;
    first.load == LevelLoad::Concurrency(1)
        && later.iter().any(|level| is_alike(level) && matches!(level.ending, Ending::Stable | Ending::Complete))
}

/// perf_analyzer has a code of its own for windows without an answer alone; a failed request ends it like any other error.
fn of_failure(codes: Codes, levels: &[LevelSummary]) -> u8 {
    let has_failed = levels.iter().any(|level| level.ending == Ending::Failed && level.client.failed > 0);
    if codes == Codes::PerfAnalyzers && has_failed { exit::FAILED } else { exit::NO_VALID_REQUESTS }
}

/// Whether the run was interrupted when its load had begun, but had no figure yet.
fn measured_nothing(levels: &[LevelSummary]) -> bool {
    let is_empty = |level: &LevelSummary| level.client.requests == 0;
    levels.last().is_some_and(|last| last.ending == Ending::Interrupted) && levels.iter().all(is_empty)
}

/// Whether the numbers are not those that were asked for. Little's law alone is only a hint: in a short run on a busy
/// machine it does not hold to a few percent.
fn is_invalid(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::Overloaded | Outcome::Undelivered | Outcome::Imprecise)
}

/// Whether perf_analyzer would call the run unstable: only if it walks through a range that ends with its first level. A
/// later level just ends the range, to a search it is one that fails, and a file of intervals has no such end. It has no
/// word for a server that does not keep up: its windows do not agree.
fn is_unstable_upstream(mode: &LoadMode, binary: bool, levels: &[LevelSummary]) -> bool {
    let disagree = |level: &LevelSummary| level.ending == Ending::Unstable;
    match levels {
        [only] if mode.is_range() => !binary && disagree(only),
        _ if mode.is_range() || mode.is_intervals() => false,
        // The others end by themselves, or are none of perf_analyzer's.
        _ => levels.iter().any(disagree),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reasons::{InvalidReason, Verdict};
    use crate::setup::sample as plans;
    use crate::summary::{Disturbances, MissingStarts, sample};
    use crate::terms::{GapDistribution, Range, Spacing};

    fn level(ending: Ending, reasons: &[InvalidReason]) -> LevelSummary {
        let verdict = if reasons.is_empty() { Verdict::Valid } else { Verdict::Invalid(reasons.to_vec()) };
        LevelSummary { ending, verdict, ..sample::level(LevelLoad::Concurrency(1), 100, 1_000) }
    }

    fn code(levels: &[LevelSummary]) -> u8 {
        of_levels(&LoadMode::FixedSchedule, false, Codes::Own, levels)
    }

    #[test]
    fn who_interrupts_before_anything_was_measured_hears_that() {
        let mut result = plans::result(&plans::setup(), &[]);
        result.interrupted = true;
        assert_eq!(result.exit_code(Codes::Own), exit::INTERRUPTED);
        assert_eq!(result.exit_code(Codes::PerfAnalyzers), exit::OK);
        result.levels = vec![level(Ending::Stable, &[])];
        assert_eq!(result.exit_code(Codes::Own), exit::OK, "what was measured before stays measured");
    }

    #[test]
    fn a_server_that_goes_after_the_last_level_costs_nothing() {
        let mut setup = plans::setup();
        setup.mode = LoadMode::Concurrency(Range::with_step(1, Some(2), 1));
        let code = |levels: &[LevelSummary]| {
            let result = RunResult { server_gone: true, ..plans::result(&setup, levels) };
            result.exit_code(Codes::Own)
        };
        let whole = || level(Ending::Stable, &[]);
        assert_eq!(code(&[whole(), whole()]), exit::OK);
        let lacking = [vec![], vec![whole()], vec![whole(), level(Ending::Interrupted, &[InvalidReason::Interrupted])]];
        lacking.iter().for_each(|levels| assert_eq!(code(levels), exit::NO_VALID_REQUESTS, "{}", levels.len()));
        let mut failed = level(Ending::Failed, &[InvalidReason::BrokenOff]);
        failed.client.failed = 1;
        let gone = RunResult { server_gone: true, ..plans::result(&setup, &[failed]) };
        assert_eq!([Codes::Own, Codes::PerfAnalyzers].map(|codes| gone.exit_code(codes)), [3, 99]);
    }

    #[test]
    fn a_start_whose_requests_failed_is_a_failure() {
        let code = |requests_failed, interrupted| {
            let missing =
                MissingStarts { planned: 5, measured: 2, reason: "no request succeeded".to_owned(), requests_failed };
            let lacking = LevelSummary { missing_starts: Some(missing), ..level(Ending::Stable, &[]) };
            let whole = RunResult { interrupted, ..plans::result(&plans::setup(), &[lacking]) };
            whole.exit_code(Codes::Own)
        };
        assert_eq!(code(true, false), exit::NO_VALID_REQUESTS);
        assert_eq!([code(true, true), code(false, false)], [exit::OK; 2]);
    }

    #[test]
    fn a_sweep_may_end_in_saturation() {
        let distribution = GapDistribution::Constant;
        let mode = LoadMode::Sweep { spacing: Spacing::Linear, points: 3, distribution };
        let stable = || level(Ending::Stable, &[]);
        let past = || level(Ending::Unstable, &[InvalidReason::Overloaded(2.0, 1.0)]);
        assert_eq!(of_levels(&mode, false, Codes::Own, &[stable(), stable(), past(), past()]), exit::OK);
        assert_eq!(of_levels(&mode, false, Codes::Own, &[stable(), past(), past(), past()]), exit::INVALID);
        assert_eq!(of_levels(&mode, false, Codes::Own, &[stable()]), exit::OK);
    }

    #[test]
    fn the_gravest_level_decides() {
        let stable = level(Ending::Stable, &[]);
        let unstable = level(Ending::Unstable, &[InvalidReason::Unstable(None)]);
        let failed = level(Ending::Failed, &[InvalidReason::Nothing]);
        let late = level(Ending::Stable, &[InvalidReason::IssuersLate(0.5)]);
        let over = level(Ending::OverThreshold, &[]);
        assert_eq!(code(std::slice::from_ref(&stable)), exit::OK);
        assert_eq!(code(&[stable.clone(), unstable.clone()]), exit::UNSTABLE);
        assert_eq!(code(&[unstable, failed.clone()]), exit::NO_VALID_REQUESTS);
        let upstream = |level: LevelSummary| of_levels(&LoadMode::FixedSchedule, false, Codes::PerfAnalyzers, &[level]);
        let mut refused = failed.clone();
        refused.client.failed = 20;
        assert_eq!([upstream(failed), upstream(refused)], [exit::NO_VALID_REQUESTS, exit::FAILED]);
        assert_eq!(code(&[late]), exit::INVALID);
        let disturbances = Disturbances { windows: 3, disturbed: 3, replaced: 0, worst: None };
        assert_eq!(code(&[LevelSummary { disturbances, ..level(Ending::Stable, &[]) }]), exit::OK, "a disturbed level");
        let few = level(Ending::Stable, &[InvalidReason::TooFewSamples(99.0, 7, 662)]);
        assert_eq!(code(&[few]), exit::INVALID);
        let interrupted = level(Ending::Interrupted, &[InvalidReason::Interrupted]);
        assert_eq!(code(std::slice::from_ref(&interrupted)), exit::OK);
        let mut empty = interrupted.clone();
        empty.client.requests = 0;
        assert_eq!(code(&[stable.clone(), empty.clone()]), exit::OK, "what was measured before stays measured");
        let mode = LoadMode::FixedSchedule;
        assert_eq!(of_levels(&mode, false, Codes::PerfAnalyzers, std::slice::from_ref(&empty)), exit::OK);
        let mut cancelled = empty.clone();
        cancelled.client.cancelled = 20;
        assert_eq!([code(&[empty]), code(&[cancelled])], [exit::INTERRUPTED; 2]);
        assert_eq!(code(&[stable, over.clone()]), exit::OK, "a search ends at its threshold");
        assert_eq!(code(&[over]), exit::OVER_THRESHOLD, "no level is within the threshold");
        let range = LoadMode::Concurrency(Range::with_step(1, Some(4), 1));
        let goes_on = [level(Ending::OverThreshold, &[]), level(Ending::Stable, &[])];
        let of_range = [Codes::Own, Codes::PerfAnalyzers].map(|codes| of_levels(&range, false, codes, &goes_on));
        assert_eq!(of_range, [exit::OK, exit::OVER_THRESHOLD], "a lone request waits for a batch");
        assert_eq!(code(&[]), exit::OK);
        let overloaded =
            [level(Ending::Unstable, &[InvalidReason::Overloaded(2.0, 1.0), InvalidReason::Unstable(None)])];
        assert_eq!(code(&overloaded), exit::INVALID);
    }

    #[test]
    fn perf_analyzer_ends_with_instability_only_where_a_range_ends_at_its_first_level() {
        let stable = || level(Ending::Stable, &[]);
        let unstable = || level(Ending::Unstable, &[InvalidReason::Unstable(None)]);
        let overloaded = level(Ending::Unstable, &[InvalidReason::Overloaded(2.0, 1.0)]);
        let range = LoadMode::Concurrency(Range::with_step(1, Some(4), 1));
        let rates = LoadMode::RequestRate {
            range: Range::with_step(1.0, Some(4.0), 1.0),
            distribution: GapDistribution::Constant,
        };
        let spoken = |mode: &LoadMode, binary, levels: &[LevelSummary]| {
            Codes::PerfAnalyzers.spoken(of_levels(mode, binary, Codes::PerfAnalyzers, levels))
        };
        for mode in [&range, &rates] {
            assert_eq!(spoken(mode, false, &[unstable()]), exit::UNSTABLE);
            assert_eq!(spoken(mode, false, std::slice::from_ref(&overloaded)), exit::UNSTABLE);
            assert_eq!(spoken(mode, false, &[stable(), unstable()]), exit::OK);
            assert_eq!(spoken(mode, true, &[unstable()]), exit::OK);
            assert_eq!(of_levels(mode, true, Codes::Own, &[unstable()]), exit::UNSTABLE);
            assert_eq!(of_levels(mode, false, Codes::Own, &[stable(), unstable()]), exit::UNSTABLE);
        }
        let intervals = LoadMode::Intervals("gaps".into());
        assert_eq!(spoken(&intervals, false, &[unstable()]), exit::OK);
        assert_eq!(of_levels(&intervals, false, Codes::Own, &[unstable()]), exit::UNSTABLE);
    }
}
