use super::*;
use crate::result::disturbance::Cause;
use crate::result::summary::sample;
use crate::terms::{Precision, StabilityRule, Statistic};

/// A level's windows: how many requests each had, and whether it was disturbed. What it ends with, after how many, and what became
/// of the disturbed ones.
fn level(plan: &MeasurementPlan, windows: &[(u64, bool)]) -> (Option<Ending>, usize, Disturbances) {
    let mut level = Windows::new(plan);
    for &(requests, disturbed) in windows {
        let disturbance = disturbed.then(|| Disturbance::new(Cause::Others, 0.5));
        level.push(WindowSet::sample(requests, 1_000_000_000 / requests), disturbance, plan);
        let ending = level.decide(plan);
        if ending.is_some() {
            return (ending, level.closed(), level.disturbances());
        }
    }
    (None, level.closed(), level.disturbances())
}

fn found(plan: &MeasurementPlan, windows: &[(u64, bool)]) -> (Option<Ending>, usize, [usize; 3]) {
    let (ending, closed, disturbances) = level(plan, windows);
    assert_eq!(disturbances.worst.is_some(), disturbances.disturbed + disturbances.replaced > 0, "{disturbances:?}");
    (ending, closed, [disturbances.windows, disturbances.disturbed, disturbances.replaced])
}

const CALM: (u64, bool) = (1_600, false);
const TAKEN: (u64, bool) = (1_600, true);
const SLOW: (u64, bool) = (800, true);

#[test]
fn without_disturbances_three_windows_do() {
    assert_eq!(found(&sample::plan(), &[CALM; 10]), (Some(Ending::Stable), 3, [3, 0, 0]));
}

#[test]
fn disturbed_windows_are_replaced() {
    let plan = sample::plan();
    let windows = [CALM, TAKEN, CALM, CALM, CALM, CALM];
    assert_eq!(found(&plan, &windows), (Some(Ending::Stable), 5, [3, 0, 1]));
    let windows = [CALM, CALM, SLOW, CALM, SLOW, CALM, CALM, CALM];
    assert_eq!(found(&plan, &windows), (Some(Ending::Stable), 8, [3, 0, 2]));
}

#[test]
fn a_level_takes_no_more_windows_than_it_may() {
    let plan = MeasurementPlan { max_trials: 5, ..sample::plan() };
    // After the fourth there is no room for three calm ones.
    let windows = [CALM, TAKEN, CALM, TAKEN, CALM];
    assert_eq!(found(&plan, &windows), (Some(Ending::Stable), 4, [4, 2, 0]));
    let plan = MeasurementPlan { max_trials: 3, ..plan };
    assert_eq!(found(&plan, &[TAKEN; 3]), (Some(Ending::Stable), 3, [3, 3, 0]));
    assert_eq!(found(&plan, &[SLOW, CALM, SLOW]), (Some(Ending::Unstable), 3, [3, 2, 0]));
}

#[test]
fn a_disturbance_that_does_not_pass_is_not_waited_for() {
    assert_eq!(found(&sample::plan(), &[TAKEN; 10]), (Some(Ending::Stable), 6, [6, 6, 0]));
}

#[test]
fn marked_windows_count() {
    let plan = MeasurementPlan { on_disturbance: Some(OnDisturbance::Mark), ..sample::plan() };
    assert_eq!(found(&plan, &[CALM, TAKEN, CALM]), (Some(Ending::Stable), 3, [3, 1, 0]));
}

#[test]
fn a_level_that_was_stable_stays_so() {
    let precision = Some(Precision { statistic: Statistic::Throughput, share: 0.2 });
    let plan = MeasurementPlan { precision, max_trials: 6, ..sample::plan() };
    // Precise enough after three windows, of which one was disturbed; the further ones make it less so.
    let windows = [CALM, CALM, TAKEN, (320, true), CALM, CALM];
    let (ending, closed, _) = found(&plan, &windows);
    assert_eq!((ending, closed), (Some(Ending::Stable), 6));
}

#[test]
fn a_limit_is_judged_by_calm_windows() {
    let limit = std::time::Duration::from_micros(1_500);
    let plan = MeasurementPlan { latency_threshold: Some(limit), ..sample::plan() };
    let windows = [SLOW, SLOW, SLOW, CALM, CALM, CALM];
    assert_eq!(found(&plan, &windows), (Some(Ending::Stable), 6, [3, 0, 3]));
}

fn by_interval() -> MeasurementPlan {
    MeasurementPlan { stability_rule: Some(StabilityRule::Interval), ..sample::plan() }
}

#[test]
fn undisturbed_windows_settle_a_level_wherever_they_are() {
    let windows = [CALM, SLOW, CALM, TAKEN, CALM, CALM];
    assert_eq!(found(&by_interval(), &windows), (Some(Ending::Stable), 5, [3, 0, 2]));
}

#[test]
fn calm_windows_settle_at_the_end_of_the_level_without_those_before_a_step() {
    let plan = MeasurementPlan { max_trials: 10, ..by_interval() };
    let cold = (800, false);
    let windows = [cold, cold, CALM, (160, true), CALM, CALM, CALM, CALM, CALM, CALM];
    assert_eq!(found(&plan, &windows), (Some(Ending::Stable), 10, [3, 0, 1]));
}

#[test]
fn a_machine_that_is_never_left_alone_is_measured_as_it_is() {
    assert_eq!(found(&by_interval(), &[TAKEN; 10]), (Some(Ending::Stable), 6, [6, 6, 0]));
    let mostly = [TAKEN, CALM, TAKEN, TAKEN, CALM, TAKEN, TAKEN];
    assert_eq!(found(&by_interval(), &mostly), (Some(Ending::Stable), 6, [6, 4, 0]));
}

/// Windows whose requests vary so much by chance that 20 of them know the throughput to within some 13 %.
#[test]
fn what_others_vary_may_be_known_less_well() {
    let plan = MeasurementPlan { max_trials: 20, ..by_interval() };
    let requests = |at: u64| 16 * (60 + (80.0 * crate::seed::unit(crate::seed::hash(7, at))) as u64);
    let vary =
        |disturbed: fn(u64) -> bool| -> Vec<(u64, bool)> { (0..20).map(|at| (requests(at), disturbed(at))).collect() };
    assert_eq!(level(&plan, &vary(|_| true)).0, Some(Ending::Stable));
    assert_eq!(level(&plan, &vary(|_| false)).0, Some(Ending::Unstable), "nobody else is to blame");
    assert_eq!(level(&plan, &vary(|at| at % 5 == 0)).0, Some(Ending::Unstable), "most were left alone");
    let twice: Vec<_> = vary(|_| true).into_iter().map(|(requests, by)| (requests * requests / 1_600, by)).collect();
    assert_eq!(level(&plan, &twice).0, Some(Ending::Unstable), "no more than twice as wide");
}
