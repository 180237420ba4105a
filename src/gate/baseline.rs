//! What a baseline cannot answer for, known before anything is measured.

use std::collections::BTreeSet;

use crate::is_about;
use crate::plan::{Bound, Figure, GatePlan, Requirement};
use crate::result::RunResult;
use crate::result::outcome::{Outcome, is_comparable};
use crate::result::ratio::Figures;
use crate::result::summary::{LevelLoad, LevelSummary};

/// The levels that a run is going to measure.
pub struct Planned {
    /// Their loads; none if the run finds them itself.
    pub loads: Option<Vec<LevelLoad>>,
    /// The batch sizes that each is measured with.
    pub batch_sizes: Vec<u64>,
    /// Not all of them may be reached.
    pub may_end_early: bool,
}

/// What is wrong with a baseline.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The requirement that it matters to, as written.
    pub requirement: String,
    /// What it is, and what to do.
    pub lack: Lack,
    /// No answer is possible, so there is no use in measuring.
    pub is_final: bool,
}

/// What a baseline lacks; levels are numbers among those that are planned, or among the baseline's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lack {
    /// A level with this load, as a place among [`Planned::loads`]; none if there is none at all that is meant.
    Level(Option<usize>),
    /// A valid level, as a place among the baseline's: its outcome is this word.
    Valid(usize, &'static str),
    /// The figure of that level of the baseline, or how well it is known.
    Figure(usize),
    /// How the figure differs between starts of the server, in that level of the baseline.
    Starts(usize),
}

/// What a result, as a baseline, lacks for the requirements that are changes from it, each once.
pub fn lacks(baseline: &RunResult, gate: &GatePlan, planned: &Planned) -> Vec<Finding> {
    let changes = gate.requirements.iter().filter(|requirement| matches!(requirement.bound, Bound::Change(_)));
    let found: BTreeSet<Finding> = changes.flat_map(|requirement| lacks_for(baseline, requirement, planned)).collect();
    found.into_iter().collect()
}

fn lacks_for(baseline: &RunResult, requirement: &Requirement, planned: &Planned) -> Vec<Finding> {
    let finding = |lack, is_final| Finding { requirement: requirement.text.clone(), lack, is_final };
    let (meant, missing) = meant(baseline, requirement, planned);
    if meant.is_empty() && planned.loads.is_none() {
        return vec![finding(Lack::Level(None), true)];
    }
    let is_final = !planned.may_end_early || meant.is_empty();
    let missing = missing.into_iter().map(|index| finding(Lack::Level(Some(index)), is_final));
    let wrong = meant.into_iter().filter_map(|number| {
        let level = &baseline.levels[number];
        let outcome = Outcome::new(level);
        if !is_comparable(level) {
            return Some(finding(Lack::Valid(number, outcome.name()), true));
        }
        if let Figure::Statistic(statistic) = requirement.figure {
            match Figures::new(level).side(statistic) {
                None => return Some(finding(Lack::Figure(number), true)),
                Some(side) if side.starts.is_none() => return Some(finding(Lack::Starts(number), false)),
                Some(_) => {}
            }
        }
        (!outcome.is_valid()).then(|| finding(Lack::Valid(number, outcome.name()), false))
    });
    missing.chain(wrong).collect()
}

/// The places of the levels that a requirement will be compared with, and those of the planned ones without any.
fn meant(baseline: &RunResult, requirement: &Requirement, planned: &Planned) -> (Vec<usize>, Vec<usize>) {
    let of_size = |level: &LevelSummary, size: u64| level.client.batch_size == size;
    let Some(loads) = &planned.loads else {
        let is_meant = |level: &LevelSummary| {
            is_about(requirement, level.load) && planned.batch_sizes.iter().any(|size| of_size(level, *size))
        };
        return ((0..baseline.levels.len()).filter(|number| is_meant(&baseline.levels[*number])).collect(), Vec::new());
    };
    let (mut meant, mut missing) = (Vec::new(), Vec::new());
    for (index, load) in loads.iter().enumerate().filter(|(_, load)| is_about(requirement, **load)) {
        for size in &planned.batch_sizes {
            match baseline.levels.iter().position(|level| level.load == *load && of_size(level, *size)) {
                Some(number) => meant.push(number),
                None => missing.push(index),
            }
        }
    }
    (meant, missing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{LevelName, Relation};
    use crate::result::reasons::{InvalidReason, Verdict};
    use crate::result::restarts::restarts;
    use crate::result::setup::sample as plans;
    use crate::result::summary::{Ending, StatisticEstimate, sample};
    use crate::stats::Interval;
    use crate::terms::Statistic;

    const P50: Statistic = Statistic::Percentile(50.0);

    fn level(concurrency: u32) -> LevelSummary {
        let mut level = sample::level(LevelLoad::Concurrency(concurrency), 1_000, 1_000_000);
        level.intervals = vec![StatisticEstimate::new(P50, Some(Interval { low: 0.9e6, high: 1.1e6 }))];
        level
    }

    fn change(statistic: Statistic, level: Option<u32>) -> GatePlan {
        let level = level.map(LevelName::Concurrency);
        let (text, relation, bound) = ("x".to_owned(), Relation::Below, Bound::Change(0.05));
        let requirement = Requirement { text, figure: Figure::Statistic(statistic), relation, bound, level };
        GatePlan { requirements: vec![requirement], ..GatePlan::default() }
    }

    fn planned(concurrencies: &[u32]) -> Planned {
        let loads = concurrencies.iter().map(|number| LevelLoad::Concurrency(*number)).collect();
        Planned { loads: Some(loads), batch_sizes: vec![1], may_end_early: false }
    }

    fn found(levels: &[LevelSummary], gate: &GatePlan, planned: &Planned) -> Vec<(Lack, bool)> {
        let result = plans::result(&plans::setup(), levels);
        lacks(&result, gate, planned).into_iter().map(|finding| (finding.lack, finding.is_final)).collect()
    }

    #[test]
    fn a_level_that_is_missing_has_no_answer_unless_it_may_never_be_reached() {
        let levels = [level(1)];
        assert_eq!(
            found(&levels, &change(P50, None), &planned(&[1, 2])),
            [(Lack::Level(Some(1)), true), (Lack::Starts(0), false)]
        );
        let early = Planned { may_end_early: true, ..planned(&[1, 2]) };
        assert_eq!(
            found(&levels, &change(P50, None), &early),
            [(Lack::Level(Some(1)), false), (Lack::Starts(0), false)]
        );
        assert_eq!(found(&levels, &change(P50, Some(2)), &early), [(Lack::Level(Some(1)), true)]);
        assert_eq!(found(&levels, &change(P50, Some(1)), &planned(&[1, 2])), [(Lack::Starts(0), false)]);
        let searched = Planned { loads: None, ..early };
        assert_eq!(found(&[], &change(P50, None), &searched), [(Lack::Level(None), true)]);
        let larger = Planned { batch_sizes: vec![1, 4], ..planned(&[1]) };
        assert_eq!(found(&levels, &change(P50, None), &larger)[0], (Lack::Level(Some(0)), true));
        let bound = |bound| {
            let mut gate = change(P50, None);
            gate.requirements[0].bound = bound;
            found(&[], &gate, &planned(&[1]))
        };
        assert!(bound(Bound::Value(1.0)).is_empty() && !bound(Bound::Change(0.0)).is_empty());
    }

    #[test]
    fn what_is_not_valid_or_not_known_has_no_answer() {
        let drifting = LevelSummary {
            ending: Ending::Unstable,
            verdict: Verdict::Invalid(vec![InvalidReason::Drifting(P50, 0.2)]),
            ..level(1)
        };
        assert_eq!(found(&[drifting], &change(P50, None), &planned(&[1])), [(Lack::Valid(0, "unstable"), true)]);
        let p99 = Statistic::Percentile(99.0);
        assert_eq!(found(&[level(1)], &change(p99, None), &planned(&[1])), [(Lack::Figure(0), true)]);
        let over = LevelSummary { ending: Ending::OverThreshold, ..level(1) };
        let repeated = |level: LevelSummary| {
            let all = restarts(&[level.clone(), level.clone(), level.clone()], Some(50.0));
            LevelSummary { restarts: all, ..level }
        };
        assert_eq!(
            found(&[repeated(over)], &change(P50, None), &planned(&[1])),
            [(Lack::Valid(0, "over latency threshold"), false)]
        );
        assert!(found(&[repeated(level(1))], &change(P50, None), &planned(&[1])).is_empty());
    }
}
