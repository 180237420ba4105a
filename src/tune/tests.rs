//! The planner on simulated performance models with noise.

mod extended;
mod laws;

use std::collections::HashSet;

use serde_json::Value;

use crate::answer::ahead_side_by_side;
use crate::trial::{Candidate, MeasuredTrial};
use crate::{Answer, Dimension, Found, Observation, Phase, Place, Planner, Reason, Settings, Space, Status, Trial};
use stats::seed::{hash, unit};

const UNIT_S: f64 = 0.25;
const FOUND: Found = Found { score: 0.0, violation: 0.0, disturbed: false, bottleneck: None };
const SEEDS: u64 = 500;

/// Instances, batches and delays, as users search them.
fn space(instances: u32, batches: &[u64], delays: &[u64], present: [Option<usize>; 3]) -> Space {
    let dimension = |path: &str, values: Vec<Value>, rank, present| Dimension {
        path: path.to_owned(),
        values,
        present,
        rank,
        group: None,
        is_late: false,
    };
    Space {
        dimensions: vec![
            dimension("instances", (1..=instances).map(Value::from).collect(), 0, present[0]),
            dimension("max_batch_size", batches.iter().copied().map(Value::from).collect(), 1, present[1]),
            dimension("delay", delays.iter().copied().map(Value::from).collect(), 2, present[2]),
        ],
    }
}

fn settings(budget_s: f64, seed: u64) -> Settings {
    Settings { budget_s, margin: 0.02, seed, unit_s: UNIT_S }
}

/// A model whose truth is known: an execution of B items takes `fixed + item * B`, at most `permits` run at once, and each of those
/// slows the others by `slowdown`.
#[derive(Clone, Copy)]
struct Law {
    fixed: f64,
    item: f64,
    permits: f64,
    slowdown: f64,
    /// Latency that must not be passed, in the unit of the times.
    limit: f64,
    /// Instances above which loading fails.
    fails_above: f64,
    /// Requests that there are for the batches of all instances.
    outstanding: f64,
}

const LAW: Law =
    Law { fixed: 5.0, item: 0.0, permits: 1e9, slowdown: 0.0, limit: 1e9, fails_above: 1e9, outstanding: 1e9 };

impl Law {
    fn values(place: &Place, space: &Space) -> [f64; 3] {
        [0, 1, 2].map(|dimension| space.dimensions[dimension].values[place[dimension]].as_f64().unwrap())
    }

    fn capacity(&self, [instances, batch, _]: [f64; 3]) -> f64 {
        let (running, batch) = (instances.min(self.permits), batch.min(self.outstanding / instances));
        running * batch / (self.execution(batch) * (1.0 + self.slowdown * (running - 1.0)))
    }

    fn execution(&self, batch: f64) -> f64 {
        self.fixed + self.item * batch
    }

    /// Of a closed loop with two batches per instance.
    fn latency(&self, values: [f64; 3]) -> f64 {
        2.0 * values[0] * values[1] / self.capacity(values) + values[2] * 1e-3
    }

    fn meets(&self, values: [f64; 3]) -> bool {
        self.latency(values) <= self.limit && values[0] <= self.fails_above
    }
}

/// What becomes of a search.
struct Searched {
    planner: Planner,
    trials: Vec<Trial>,
}

/// Runs a search whose trials take their unit and a tenth of a second, on a machine that gets slower and faster by a tenth.
fn search(law: Law, space: Space, settings: Settings, noise: f64) -> Searched {
    let mut planner = Planner::new(space, settings);
    let (mut trials, mut draws) = (Vec::new(), Draws { noise, seed: settings.seed, count: 0 });
    while let Some(trial) = planner.next_trial() {
        assert!(trials.len() < 100_000, "the search does not end");
        let observation = observed(law, &planner, &trial, &mut draws);
        planner.observe(&trial, &observation);
        trials.push(trial);
    }
    Searched { planner, trials }
}

/// The noise of a machine.
struct Draws {
    /// Its standard deviation in a trial of [`UNIT_S`].
    noise: f64,
    seed: u64,
    /// How many numbers were drawn.
    count: u64,
}

fn observed(law: Law, planner: &Planner, trial: &Trial, draws: &mut Draws) -> Observation {
    let Draws { noise, seed, count } = draws;
    let place = planner.candidates()[trial.candidate].place.clone().unwrap_or_else(|| planner.space().base());
    let values = Law::values(&place, planner.space());
    let mut normal = || {
        *count += 2;
        let (radius, angle) = (unit(hash(*seed ^ 0xabcd, *count)), unit(hash(*seed ^ 0xabcd, *count + 1)));
        (-2.0 * (1.0 - radius).ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
    };
    let spread = *noise * (UNIT_S / trial.unit_s).sqrt();
    let drift = 0.1 * (trial.round as f64 / 3.0).sin();
    let found = match values[0] > law.fails_above {
        true => Err("no".to_owned()),
        false => Ok(Found {
            score: law.capacity(values).ln() + spread * normal() + drift,
            violation: (law.latency(values) / law.limit).ln() + spread * normal(),
            ..FOUND
        }),
    };
    Observation { seconds: trial.unit_s + 0.1, found }
}

/// How much of the best capacity that meets the constraints the search's winner has.
fn share(law: Law, searched: &Searched) -> f64 {
    let space = searched.planner.space();
    let all = space.places().map(|place| Law::values(&place, space));
    let best = all.filter(|values| law.meets(*values)).map(|values| law.capacity(values)).fold(0.0, f64::max);
    let winner = searched.planner.answer().winner().unwrap_or(0);
    let place = searched.planner.candidates()[winner].place.clone().unwrap_or_else(|| space.base());
    law.capacity(Law::values(&place, space)) / best
}

/// In how many of the seeds the winner is within 5 % of the best, which must be 95 %; nor may a search take more than its time.
fn finds(law: Law, space: impl Fn() -> Space, budget_s: f64, noise: f64) {
    let (mut good, mut kept) = (0, 0);
    for seed in 0..SEEDS {
        let searched = search(law, space(), settings(budget_s, seed), noise);
        good += u64::from(share(law, &searched) >= 0.95);
        assert!(searched.planner.spent() <= budget_s, "{} s of {budget_s}", searched.planner.spent());
        let optimum = optimum(law, searched.planner.space());
        let gone = searched.planner.candidates().iter().find(|candidate| candidate.place.as_ref() == Some(&optimum));
        kept += u64::from(
            gone.is_some_and(|candidate| matches!(candidate.status, Status::Open)) || share(law, &searched) >= 0.95,
        );
    }
    assert!(good * 20 >= SEEDS * 19, "within 5 % in {good} of {SEEDS} at noise {noise}");
    assert!(kept * 20 >= SEEDS * 19, "the best one is dropped in {} of {SEEDS}", SEEDS - kept);
}

fn optimum(law: Law, space: &Space) -> Place {
    let capacity = |place: &Place| law.capacity(Law::values(place, space));
    let able = space.places().filter(|place| law.meets(Law::values(place, space)));
    able.max_by(|left, right| capacity(left).total_cmp(&capacity(right))).unwrap()
}

const BATCHES: [u64; 6] = [1, 2, 4, 8, 16, 32];

/// 48 points; the present one is the smallest.
fn usual() -> Space {
    space(8, &BATCHES, &[0], [Some(0), Some(0), Some(0)])
}

/// 336 points, with a present one that is none of them.
fn large() -> Space {
    space(8, &[1, 2, 4, 8, 16, 32, 64], &[0, 100, 300, 500, 1000, 2000], [None, Some(2), Some(0)])
}

const CONTENDED: Law = Law { fixed: 4.0, item: 0.5, slowdown: 0.2, ..LAW };

#[test]
fn at_1_percent_noise_the_best_is_found() {
    finds(CONTENDED, usual, 60.0, 0.01);
    finds(CONTENDED, large, 60.0, 0.01);
}

#[test]
fn at_5_percent_noise_the_best_is_found() {
    finds(CONTENDED, usual, 60.0, 0.05);
    finds(CONTENDED, large, 60.0, 0.05);
}

#[test]
fn at_20_percent_noise_the_best_is_found() {
    finds(CONTENDED, usual, 180.0, 0.20);
    finds(CONTENDED, large, 180.0, 0.20);
}

#[test]
fn a_constraint_binds() {
    let law = Law { fixed: 2.0, item: 1.0, limit: 15.0, ..LAW };
    let space = || space(1, &[1, 2, 4, 5, 8, 16, 32], &[0], [Some(0), Some(0), Some(0)]);
    finds(law, space, 60.0, 0.01);
    let searched = search(law, space(), settings(60.0, 1), 0.01);
    let largest =
        searched.planner.candidates().iter().find(|candidate| candidate.place == Some(vec![0, 6, 0])).unwrap();
    assert!(
        matches!(&largest.status, Status::Dropped { reason: Reason::Misses(_) | Reason::MissedAtFirst, .. }),
        "{:?}",
        largest.status
    );
    assert!(matches!(searched.planner.answer(), Answer::Better(..)), "{:?}", searched.planner.answer());
}

#[test]
fn noise_alone_keeps_the_present_one() {
    let law = Law { fixed: 0.0, item: 1.0, permits: 1.0, ..LAW };
    for noise in [0.01, 0.05, 0.20] {
        let keeps = |seed| {
            let searched = search(law, usual(), settings(60.0, seed), noise);
            matches!(searched.planner.answer(), Answer::Kept(_))
        };
        let kept = (0..200).filter(|seed| keeps(*seed)).count();
        assert!(kept >= 190, "{kept} of 200 at noise {noise}");
    }
}

#[test]
fn what_is_as_good_and_takes_less_is_preferred() {
    let law = Law { permits: 2.0, ..LAW };
    let from_two = || space(8, &[1], &[0], [Some(0), Some(0), Some(0)]);
    let winner = |seed| {
        let searched = search(law, from_two(), settings(60.0, seed), 0.01);
        let winner = searched.planner.answer().winner().unwrap();
        searched.planner.candidates()[winner].place.clone().unwrap()
    };
    let two = (0..100).filter(|seed| winner(*seed) == [1, 0, 0]).count();
    assert!(two >= 90, "two instances in {two} of 100");
}

#[test]
fn a_plateau_is_no_gain_and_says_its_bound() {
    let law = Law { permits: 2.0, ..LAW };
    let searched = search(law, space(8, &[1], &[0], [Some(1), Some(0), Some(0)]), settings(60.0, 3), 0.01);
    let Answer::Kept(Some((_, gain))) = searched.planner.answer() else { panic!("{:?}", searched.planner.answer()) };
    assert!(gain.interval.high < 1.02 && gain.interval.low > 0.98, "{gain:?}");
}

#[test]
fn candidates_that_fail_are_results() {
    let law = Law { fails_above: 4.0, ..LAW };
    let searched = search(law, usual(), settings(60.0, 5), 0.02);
    assert!((share(law, &searched) - 1.0).abs() < 1e-9, "{:?}", searched.planner.answer());
    let failed = searched.planner.candidates().iter().filter(|candidate| candidate.has_failed()).count();
    let ruled_out =
        searched.planner.candidates().iter().filter(|candidate| matches!(candidate.status, Status::RuledOut(_)));
    assert!(failed >= 4 && failed + ruled_out.count() >= 24);
}

#[test]
fn every_search_ends() {
    let none = Law { fails_above: 0.0, ..LAW };
    assert_eq!(search(none, usual(), settings(30.0, 1), 0.0).planner.answer(), Answer::Nothing);
    let single = space(1, &[4], &[0], [Some(0), Some(0), Some(0)]);
    assert_eq!(search(LAW, single, settings(30.0, 1), 0.01).planner.answer(), Answer::Kept(None));
    let mut empty = Planner::new(Space::default(), settings(30.0, 1));
    while let Some(trial) = empty.next_trial() {
        let found = Ok(Found { score: 1.0, ..FOUND });
        empty.observe(&trial, &Observation { seconds: 0.35, found });
    }
    assert_eq!(empty.answer(), Answer::Kept(None));
    let line = space(1, &BATCHES, &[0], [Some(0), Some(0), Some(0)]);
    assert!((share(LAW, &search(LAW, line, settings(60.0, 1), 0.01)) - 1.0).abs() < 1e-9, "one dimension");
    let strict = Law { limit: 0.5, ..LAW };
    let searched = search(strict, space(2, &[1, 2], &[0], [Some(1), Some(1), Some(0)]), settings(30.0, 1), 0.01);
    assert!(matches!(searched.planner.answer(), Answer::NoneMeets(_)), "{:?}", searched.planner.answer());
    let hurried = search(CONTENDED, large(), settings(3.0, 1), 0.05);
    assert!(hurried.planner.spent() <= 3.0 && !hurried.trials.is_empty());
}

#[test]
fn the_same_record_gives_the_same_search() {
    let first = search(CONTENDED, large(), settings(60.0, 7), 0.05);
    let second = search(CONTENDED, large(), settings(60.0, 7), 0.05);
    assert_eq!((first.trials.len(), first.planner.answer()), (second.trials.len(), second.planner.answer()));
    assert_eq!(first.trials, second.trials);
    let seeds: HashSet<u64> = first.trials.iter().map(|trial| trial.seed).collect();
    assert_eq!(seeds.len(), first.trials.len(), "every trial has a seed of its own");
}

#[test]
fn confirmation_goes_there_and_back() {
    let searched = search(CONTENDED, usual(), settings(60.0, 9), 0.02);
    let confirmation = searched.trials.iter().filter(|trial| trial.phase == Phase::Confirmation);
    let mut rounds: Vec<Vec<usize>> = Vec::new();
    let mut last = None;
    for trial in confirmation {
        if last != Some(trial.round) {
            rounds.push(Vec::new());
        }
        last = Some(trial.round);
        rounds.last_mut().unwrap().push(trial.candidate);
    }
    assert!(rounds.len() >= 10 && rounds[0][0] == 0, "{rounds:?}");
    for pair in rounds.chunks_exact(2) {
        // Yours is measured first, as long as it takes part.
        assert!(!pair[0][1..].contains(&0) && !pair[1][1..].contains(&0), "{pair:?}");
        let others = |round: usize| pair[round].iter().copied().filter(|number| *number != 0);
        assert!(others(0).eq(others(1).collect::<Vec<_>>().into_iter().rev()), "{pair:?}");
    }
}

/// Where there is no time to look along every setting, what nobody has seen is not ruled out.
#[test]
fn a_short_calibration_rules_out_nothing_that_it_has_not_seen() {
    let space = || space(8, &BATCHES, &[0], [Some(0), Some(0), Some(0)]);
    let searched = search(CONTENDED, space(), settings(6.0, 3), 0.01);
    let looked = |dimension: usize, index: usize| {
        searched.planner.candidates().iter().any(|candidate| {
            let alone = |place: &Place| {
                place.iter().enumerate().all(|(d, i)| if d == dimension { *i == index } else { *i == 0 })
            };
            candidate.place.as_ref().is_some_and(alone)
                && candidate.trials.iter().any(|trial| trial.phase == Phase::Calibration)
        })
    };
    for candidate in searched.planner.candidates() {
        let (Status::RuledOut(_), Some(place)) = (&candidate.status, &candidate.place) else { continue };
        for (dimension, index) in place.iter().enumerate().filter(|(_, index)| **index > 0) {
            let last = searched.planner.space().dimensions[dimension].values.len();
            assert!((*index..last).any(|index| looked(dimension, index)), "{place:?} was ruled out unseen");
        }
    }
}

/// Whatever comes, with trials of `seconds`; `found` tells by the trial and its number what comes.
fn scripted(
    space: Space,
    settings: Settings,
    mut found: impl FnMut(&Planner, &Trial, usize) -> (f64, Result<Found, String>),
) -> Searched {
    let mut planner = Planner::new(space, settings);
    let mut trials = Vec::new();
    while let Some(trial) = planner.next_trial() {
        assert!(trials.len() < 10_000, "the search does not end");
        let (seconds, found) = found(&planner, &trial, trials.len());
        planner.observe(&trial, &Observation { seconds, found });
        trials.push(trial);
    }
    Searched { planner, trials }
}

/// Runs `act` on a thread of its own: what does not end fails the test instead of holding it up.
fn ends<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(act()));
    ended.recv_timeout(std::time::Duration::from_secs(60)).expect("the planner does not end")
}

fn line(count: u32) -> Space {
    space(count, &[1], &[0], [Some(0), Some(0), Some(0)])
}

fn score(trial: &Trial) -> Result<Found, String> {
    Ok(Found { score: trial.candidate as f64, violation: -1.0, ..FOUND })
}

/// Scores by number, near enough to each other that all are confirmed.
fn near(trial: &Trial) -> Result<Found, String> {
    Ok(Found { score: 0.1 * trial.candidate as f64, violation: -1.0, ..FOUND })
}

#[test]
fn a_confirmation_in_which_all_fail_ends() {
    let found = |_: &Planner, trial: &Trial, _: usize| match trial.phase {
        Phase::Confirmation => (0.35, Err("gone".to_owned())),
        _ => (0.35, near(trial)),
    };
    let searched = ends(move || scripted(line(4), settings(30.0, 1), found));
    assert_eq!(searched.planner.answer(), Answer::Nothing, "all failed in the end");
    assert!(searched.planner.spent() < 15.0, "nothing is left to measure");
}

#[test]
fn a_confirmation_in_which_one_is_left_ends() {
    let found = |_: &Planner, trial: &Trial, _: usize| match trial.phase {
        Phase::Confirmation if trial.candidate != 0 => (0.35, Err("gone".to_owned())),
        _ => (0.35, score(trial)),
    };
    let searched = ends(move || scripted(line(4), settings(30.0, 1), found));
    let answer = searched.planner.answer();
    assert_eq!(answer.winner(), Some(0), "{answer:?}");
}

#[test]
fn a_trial_that_takes_all_the_time_is_the_last() {
    for phase in [Phase::Race, Phase::Confirmation] {
        let mut taken = false;
        let found = move |_: &Planner, trial: &Trial, _: usize| {
            let takes_all = trial.phase == phase && !taken;
            taken |= takes_all;
            (if takes_all { 16.0 } else { 0.35 }, score(trial))
        };
        let searched = ends(move || scripted(line(4), settings(15.0, 1), found));
        let last = searched.trials.last().unwrap().phase;
        assert_eq!(last, phase);
        let answer = searched.planner.answer();
        // What is several times as good is better without a confirmation.
        assert!(matches!(answer, Answer::Better(..) | Answer::TooShort { .. }), "{answer:?}");
    }
}

/// Without time for a confirmation, what is several times as good in the same rounds is better, and a small gain remains
/// unconfirmed.
#[test]
fn a_large_gain_needs_no_confirmation() {
    for (step, proven) in [(1.0, true), (0.05, false)] {
        let found = move |_: &Planner, trial: &Trial, _: usize| match trial.phase {
            Phase::Confirmation => (30.0, score(trial)),
            _ => (0.35, Ok(Found { score: step * trial.candidate as f64, violation: -1e9, ..FOUND })),
        };
        let answer = ends(move || scripted(line(4), settings(30.0, 1), found)).planner.answer();
        assert_eq!(matches!(answer, Answer::Better(3, _)), proven, "{answer:?}");
        assert_eq!(matches!(answer, Answer::Unconfirmed(3, _)), !proven, "{answer:?}");
    }
}

/// Two readings below a limit do not show that a candidate meets it: both may have met a kinder moment.
#[test]
fn what_meets_a_limit_is_shown_by_three_readings() {
    let measured = |scores: &[f64], violation: f64| {
        let trial = |(round, score): (usize, &f64)| MeasuredTrial {
            phase: Phase::Race,
            round,
            unit_s: UNIT_S,
            score: *score,
            violation,
            disturbed: false,
        };
        Candidate { trials: scores.iter().enumerate().map(trial).collect(), ..Candidate::new(None) }
    };
    let ahead = |rounds: usize, violation: f64| {
        let yours = measured(&[0.0, 0.01, 0.0][..rounds], violation);
        let other = measured(&[1.0, 1.01, 1.0][..rounds], violation);
        ahead_side_by_side(&[yours, other], 0.02).is_some()
    };
    assert_eq!(
        [(2, -0.1), (3, -0.1), (2, -1e9)].map(|(rounds, violation)| ahead(rounds, violation)),
        [false, true, true]
    );
}

/// Loading takes so long that the first round does not finish: what was seen is confirmed, and the time is used.
#[test]
fn where_not_all_can_be_measured_the_best_that_was_is_confirmed() {
    for (count, budget_s) in [(10, 40.0), (4, 30.0), (12, 60.0)] {
        let searched = scripted(line(count), settings(budget_s, 3), |_, trial, _| (2.5, score(trial)));
        let (planner, answer) = (&searched.planner, searched.planner.answer());
        let trials_in = |phase: Phase| searched.trials.iter().filter(move |trial| trial.phase == phase);
        let best = searched.trials.iter().map(|trial| trial.candidate).max().unwrap();
        assert!(
            best > 0 && trials_in(Phase::Confirmation).any(|trial| trial.candidate == best),
            "{:?}",
            searched.trials
        );
        assert_eq!(answer.winner(), Some(best), "{answer:?}");
        assert!(planner.spent() > 0.8 * budget_s && planner.spent() <= budget_s, "{} s", planner.spent());
        for candidate in planner.candidates().iter().filter(|candidate| candidate.trials.is_empty()) {
            let Status::Dropped { reason, .. } = &candidate.status else { continue };
            assert_eq!(*reason, Reason::NoTime);
        }
    }
}

/// A trial takes a good part of the budget: the second candidate is measured in what would be kept to confirm it.
#[test]
fn where_there_is_little_time_it_goes_to_a_second_candidate() {
    for seed in 0..20 {
        let searched = scripted(line(2), settings(30.0, seed), |_, trial, _| (11.0, score(trial)));
        assert_eq!(searched.trials.iter().map(|trial| trial.candidate).collect::<Vec<_>>(), [0, 1]);
        let answer = searched.planner.answer();
        assert!(matches!(answer, Answer::TooShort { needed_s, meets: true } if needed_s > 30.0), "{answer:?}");
    }
}

#[test]
fn who_fails_after_all_is_nobodys_neighbour() {
    let found = |_: &Planner, trial: &Trial, number: usize| {
        (0.35, if number > 8 { Err("gone".to_owned()) } else { near(trial) })
    };
    let searched = ends(move || scripted(line(3), settings(30.0, 1), found));
    assert_eq!(searched.planner.answer(), Answer::Nothing, "all of them failed in the end");
}

#[test]
fn where_the_present_one_fails_the_budget_holds() {
    for is_alone in [true, false] {
        let space = space(4, &[1, 2, 4, 8, 16, 32], &[0, 100, 500], [Some(0), Some(3), Some(0)]);
        let mut planner = Planner::new(space, settings(10.0, 1));
        while let Some(trial) = planner.next_trial() {
            let fails = is_alone || trial.candidate == 0;
            let found = if fails { Err("it refuses".to_owned()) } else { Ok(FOUND) };
            planner.observe(&trial, &Observation { seconds: 3.0, found });
            assert!(planner.spent() <= 12.0, "{} of 10 s", planner.spent());
        }
    }
}

#[test]
fn where_the_present_one_fails_another_needs_no_confirmation() {
    let found = |_: &Planner, trial: &Trial, _: usize| {
        (0.35, if trial.candidate == 0 { Err("gone".to_owned()) } else { score(trial) })
    };
    let searched = ends(move || scripted(line(2), settings(30.0, 1), found));
    assert_eq!(searched.planner.answer(), Answer::Meets(1));
}

/// As [`LAW`], where a trial of the present configuration takes ten times as long, because its requests do.
fn slow_present(budget_s: f64) -> Searched {
    let law = Law { permits: 4.0, slowdown: 0.2, ..LAW };
    let space = usual();
    let (inner, mut draws) = (space.clone(), Draws { noise: 0.02, seed: 3, count: 0 });
    scripted(space, settings(budget_s, 3), move |planner, trial, _| {
        let observation = observed(law, planner, trial, &mut draws);
        let place = planner.candidates()[trial.candidate].place.clone().unwrap_or_else(|| inner.base());
        let is_present = Law::values(&place, &inner)[..2] == [1.0, 1.0];
        (if is_present { 10.0 } else { 1.0 } * observation.seconds, observation.found)
    })
}

/// The time goes to those that may win: what is far behind, the present one included, is not raced, and few rounds confirm it.
#[test]
fn a_slow_present_one_does_not_take_the_time_of_others() {
    let searched = slow_present(50.0);
    let Answer::Better(_, gain) = searched.planner.answer() else { panic!("{:?}", searched.planner.answer()) };
    let trials_in =
        |phase: Phase| searched.trials.iter().filter(move |trial| trial.candidate == 0 && trial.phase == phase);
    assert_eq!(
        (trials_in(Phase::Race).count(), trials_in(Phase::Confirmation).count()),
        (0, 4),
        "{:?}",
        searched.trials
    );
    assert!(gain.interval.low > 50.0 && gain.interval.high < 110.0, "{gain:?}");
    let far = |candidate: &&crate::Candidate| {
        matches!(&candidate.status, Status::Dropped { reason: Reason::FarBehind(_), .. })
    };
    for candidate in searched.planner.candidates().iter().filter(far) {
        assert!(
            candidate.trials.iter().filter(|trial| trial.phase != Phase::Calibration).count() <= 1,
            "{candidate:?}"
        );
    }
}

/// In a short search, where the present one takes seconds and the best a quarter of one, not all of the time goes to the slow.
#[test]
fn a_short_search_comes_to_the_far_end_of_every_setting() {
    let law = Law { permits: 4.0, slowdown: 0.2, ..LAW };
    let good = (0..100).filter(|seed| share(law, &in_short(law, 0.05, *seed)) >= 0.9).count();
    assert!(good >= 95, "within 10 % of the best in {good} of 100");
}

/// Of 128 outstanding requests, 4 instances have full batches, which 8 have not: the ends of that setting say nothing of what is
/// between them.
#[test]
fn a_short_search_finds_a_peak_between_the_ends_of_a_setting() {
    let law = FULL_BATCHES;
    for noise in [0.01, 0.03] {
        let good = (0..200).filter(|seed| share(law, &in_short(law, noise, *seed)) >= 0.95).count();
        assert!(good >= 190, "within 5 % of the best in {good} of 200 at noise {noise}");
    }
}

/// What has the most throughput passes the limit, and the best that does not is at neither end of both settings.
#[test]
fn a_short_search_keeps_a_limit() {
    let law = Law { limit: 13.5, ..FULL_BATCHES };
    let is_good = |seed: &u64| {
        let searched = in_short(law, 0.01, *seed);
        let space = searched.planner.space();
        let place =
            searched.planner.answer().winner().and_then(|winner| searched.planner.candidates()[winner].place.clone());
        place.is_some_and(|place| law.meets(Law::values(&place, space))) && share(law, &searched) >= 0.9
    };
    let good = (0..200).filter(is_good).count();
    assert!(good >= 190, "within 10 % of the best that meets the limit in {good} of 200");
}

const FULL_BATCHES: Law = Law { fixed: 2.0, item: 0.1, permits: 4.0, slowdown: 0.2, outstanding: 128.0, ..LAW };

/// A search of 15 s, whose trials take the longer the slower the candidate is.
fn in_short(law: Law, noise: f64, seed: u64) -> Searched {
    let space = usual();
    let (inner, mut draws) = (space.clone(), Draws { noise, seed, count: 0 });
    scripted(space, settings(15.0, seed), move |planner, trial, _| {
        let found = observed(law, planner, trial, &mut draws).found;
        let place = planner.candidates()[trial.candidate].place.clone().unwrap_or_else(|| inner.base());
        (0.3 + 0.46 / law.capacity(Law::values(&place, &inner)), found)
    })
}

/// One of those confirmed that is near the best has as many rounds as ever.
#[test]
fn the_best_are_told_apart_where_the_present_one_is_far_behind() {
    let level = |trial: &Trial| match trial.candidate {
        0 => 0.0,
        number => 2.0 + 0.01 * number as f64,
    };
    let found = |_: &Planner, trial: &Trial, number: usize| {
        let noise = 0.02 * (unit(hash(1, number as u64)) - 0.5);
        (0.35, Ok(Found { score: level(trial) + noise, violation: -1.0, ..FOUND }))
    };
    let searched = scripted(line(4), settings(40.0, 1), found);
    let rounds = |candidate: usize| {
        let confirmed = |trial: &&Trial| trial.phase == Phase::Confirmation && trial.candidate == candidate;
        searched.trials.iter().filter(confirmed).count()
    };
    let winner = searched.planner.answer().winner().unwrap();
    assert!(rounds(0) == 4 && rounds(winner) >= 10, "{} and {}", rounds(0), rounds(winner));
}

/// Yours is the best, another is as good, a third is behind by less than the margin, and one has lost the race.
#[test]
fn the_confirmation_shows_who_is_worse() {
    let level = |trial: &Trial| [0.0, -0.3, 0.0, -0.01][trial.candidate];
    let found = |_: &Planner, trial: &Trial, number: usize| {
        let noise = 0.002 * (unit(hash(1, number as u64)) - 0.5);
        (0.35, Ok(Found { score: level(trial) + noise, violation: -1.0, ..FOUND }))
    };
    let planner = scripted(line(4), settings(40.0, 1), found).planner;
    let confirmed =
        |number: usize| planner.candidates()[number].trials.iter().any(|trial| trial.phase == Phase::Confirmation);
    assert!((0..4).all(confirmed), "{:?}", planner.candidates());
    let beside = planner.beside_best();
    let worse: Vec<(usize, f64)> = beside
        .iter()
        .filter(|candidate| candidate.is_worse == Some(true))
        .map(|candidate| (candidate.number, candidate.share))
        .collect();
    let [(1, share)] = worse[..] else { panic!("{beside:?}") };
    assert!((share - (-0.3_f64).exp()).abs() < 0.01, "{share}");
}

/// Who has lost the race by far takes no time of the two that are still to be told apart.
#[test]
fn who_is_far_behind_is_not_confirmed() {
    let level = |trial: &Trial| [0.0, -0.9, 0.1][trial.candidate];
    let found = |_: &Planner, trial: &Trial, number: usize| {
        let noise = 0.02 * (unit(hash(1, number as u64)) - 0.5);
        (0.35, Ok(Found { score: level(trial) + noise, violation: -1.0, ..FOUND }))
    };
    let searched = scripted(line(3), settings(15.0, 1), found);
    let confirmed = |number: usize| {
        let trials = searched.trials.iter();
        trials.filter(|trial| trial.phase == Phase::Confirmation && trial.candidate == number).count()
    };
    assert_eq!([0, 1, 2].map(|number| confirmed(number) >= 10), [true, false, true], "{:?}", searched.trials);
    assert_eq!(confirmed(1), 0);
    let status = &searched.planner.candidates()[1].status;
    assert!(matches!(status, Status::Dropped { is_shown: true, .. }), "{status:?}");
}
