//! Searches that get more time.

use super::*;

/// What a search did, in order.
enum Step {
    Trial(Trial, Observation),
    Budget(f64),
}

/// Searches with the first of `budgets`, then with each of the others. Returns the winner's share of the best capacity
/// after each.
fn extended(law: Law, space: Space, budgets: &[f64], noise: f64, seed: u64) -> (Vec<f64>, Searched, Vec<Step>) {
    let mut searched = Searched { planner: Planner::new(space, settings(budgets[0], seed)), trials: Vec::new() };
    let (mut shares, mut steps, mut draws) = (Vec::new(), Vec::new(), Draws { noise, seed, count: 0 });
    for budget_s in budgets {
        if *budget_s > searched.planner.budget() {
            searched.planner.extend_budget(*budget_s);
            steps.push(Step::Budget(*budget_s));
        }
        while let Some(trial) = searched.planner.next_trial() {
            assert!(steps.len() < 100_000, "the search does not end");
            let observation = observed(law, &searched.planner, &trial, &mut draws);
            searched.planner.observe(&trial, &observation);
            searched.trials.push(trial);
            steps.push(Step::Trial(trial, observation));
        }
        assert!(searched.planner.spent() <= *budget_s, "{} s of {budget_s}", searched.planner.spent());
        shares.push(share(law, &searched));
    }
    (shares, searched, steps)
}

/// Asserts that after each of `budgets` the winner is within 5 % of the best at least as often as before, and in the
/// end in 95 %.
fn gains(law: Law, space: impl Fn() -> Space, budgets: &[f64], noise: f64) {
    let mut good = vec![0_u64; budgets.len()];
    for seed in 0..200 {
        let (shares, ..) = extended(law, space(), budgets, noise, seed);
        good.iter_mut().zip(shares).for_each(|(good, share)| *good += u64::from(share >= 0.95));
    }
    assert!(good.is_sorted() && good[good.len() - 1] >= 190, "within 5 % in {good:?} of 200 at noise {noise}");
}

#[test]
fn with_more_time_the_best_is_found_at_least_as_often() {
    RAISED.iter().for_each(|(budgets, noise)| gains(CONTENDED, usual, budgets, *noise));
    gains(FULL_BATCHES, usual, &[10.0, 40.0], 0.03);
}

#[test]
fn with_more_time_the_best_of_many_is_found_at_least_as_often() {
    RAISED.iter().for_each(|(budgets, noise)| gains(CONTENDED, large, budgets, *noise));
}

/// Budgets before and after, and the noise.
const RAISED: [([f64; 2], f64); 4] =
    [([6.0, 60.0], 0.01), ([15.0, 60.0], 0.05), ([60.0, 240.0], 0.20), ([60.0, 70.0], 0.05)];

#[test]
fn a_budget_may_be_raised_again() {
    gains(CONTENDED, large, &[5.0, 20.0, 60.0, 120.0], 0.05);
}

#[test]
fn the_record_of_a_raised_search_gives_the_same_search() {
    for seed in 0..50 {
        let (_, searched, steps) = extended(CONTENDED, large(), &[10.0, 30.0, 60.0], 0.05, seed);
        let mut again = Planner::new(large(), settings(10.0, seed));
        for step in &steps {
            match step {
                Step::Budget(budget_s) => again.extend_budget(*budget_s),
                Step::Trial(trial, observation) => {
                    assert_eq!(again.next_trial().as_ref(), Some(trial), "seed {seed}");
                    again.observe(trial, observation);
                }
            }
        }
        assert_eq!(again.next_trial(), None);
        assert_eq!((again.answer(), again.spent()), (searched.planner.answer(), searched.planner.spent()));
        assert_eq!(again.candidates(), searched.planner.candidates());
        let seeds: HashSet<u64> = searched.trials.iter().map(|trial| trial.seed).collect();
        assert_eq!(seeds.len(), searched.trials.len(), "every trial has a seed of its own");
    }
}

/// Points that the first search has measured are not measured again, and further time is used.
#[test]
fn more_time_is_used_for_what_is_not_known() {
    let (_, searched, steps) = extended(CONTENDED, usual(), &[20.0, 60.0], 0.02, 3);
    let raised_at = steps.iter().position(|step| matches!(step, Step::Budget(_))).unwrap();
    let (before, after) = searched.trials.split_at(raised_at);
    assert!(!after.is_empty());
    let looked = |trials: &[Trial]| -> HashSet<usize> {
        let looks = trials.iter().filter(|trial| trial.phase == Phase::Calibration);
        looks.map(|trial| trial.candidate).collect()
    };
    assert!(looked(before).is_disjoint(&looked(after)), "{before:?} {after:?}");
    assert!(after.iter().any(|trial| trial.phase == Phase::Confirmation), "{after:?}");
}

/// Where there is time for little, the best are confirmed further, and nothing else is begun.
#[test]
fn a_little_more_time_confirms() {
    let (_, searched, steps) = extended(CONTENDED, usual(), &[60.0, 64.0], 0.02, 3);
    let raised_at = steps.iter().position(|step| matches!(step, Step::Budget(_))).unwrap();
    assert!(searched.trials.len() > raised_at);
    assert!(
        searched.trials[raised_at..].iter().all(|trial| trial.phase == Phase::Confirmation),
        "{:?}",
        searched.trials
    );
}

/// A search stopped in any phase continues with more time.
#[test]
fn a_search_that_was_broken_off_takes_more_time() {
    let whole = search(CONTENDED, usual(), settings(20.0, 5), 0.02);
    for ended in (0..whole.trials.len()).step_by(3) {
        let mut planner = Planner::new(usual(), settings(20.0, 5));
        let (mut draws, mut trials) = (Draws { noise: 0.02, seed: 5, count: 0 }, 0);
        while let Some(trial) = planner.next_trial() {
            let observation = observed(CONTENDED, &planner, &trial, &mut draws);
            planner.observe(&trial, &observation);
            trials += 1;
            if trials == ended + 1 {
                planner.extend_budget(60.0);
            }
        }
        let searched = Searched { planner, trials: Vec::new() };
        assert!(searched.planner.spent() <= 60.0);
        assert!(share(CONTENDED, &searched) >= 0.95, "raised after {ended}: {:?}", searched.planner.answer());
    }
}

#[test]
fn with_more_time_noise_alone_keeps_the_present_one() {
    let law = Law { fixed: 0.0, item: 1.0, permits: 1.0, ..LAW };
    for noise in [0.01, 0.05, 0.20] {
        let keeps = |seed: &u64| {
            let (_, searched, _) = extended(law, usual(), &[30.0, 60.0, 90.0], noise, *seed);
            matches!(searched.planner.answer(), Answer::Kept(_))
        };
        let kept = (0..200).filter(keeps).count();
        assert!(kept >= 190, "{kept} of 200 at noise {noise}");
    }
}

#[test]
fn every_raised_search_ends() {
    let none = Law { fails_above: 0.0, ..LAW };
    let answer = |law: Law, space: Space| extended(law, space, &[10.0, 30.0, 31.0], 0.01, 1).1.planner.answer();
    assert_eq!(answer(none, usual()), Answer::Nothing);
    assert_eq!(answer(LAW, space(1, &[4], &[0], [Some(0), Some(0), Some(0)])), Answer::Kept(None));
    let mut less = Planner::new(usual(), settings(30.0, 1));
    less.extend_budget(10.0);
    assert!((less.budget() - 30.0).abs() < 1e-9, "time is not taken away");
}
