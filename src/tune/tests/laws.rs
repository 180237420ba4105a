//! Models with one best setting each, on quiet and on busy machines, with little time and with enough.

use super::*;

/// What a point of a space comes to: requests a second, latency as a share of the limit, and the group of settings that
/// holds requests up.
type Truth = fn(&[f64]) -> (f64, f64, usize);

struct NamedLaw {
    name: &'static str,
    space: Space,
    truth: Truth,
}

fn dimension(path: &str, values: &[u64], present: usize, group: usize) -> Dimension {
    let rank = if path.contains("instances") { 0 } else { u8::from(path.contains("batch")) + 1 };
    Dimension {
        path: path.to_owned(),
        values: values.iter().copied().map(Value::from).collect(),
        present: Some(present),
        rank,
        group: Some(group),
        is_late: false,
    }
}

fn named_law(name: &'static str, dimensions: Vec<Dimension>, truth: Truth) -> NamedLaw {
    NamedLaw { name, space: Space { dimensions }, truth }
}

const INSTANCES: [u64; 4] = [1, 2, 3, 4];
const SIZES: [u64; 6] = [1, 2, 4, 8, 16, 32];

/// How long a batch takes.
#[derive(Clone, Copy)]
struct Cost {
    fixed: f64,
    /// For each row.
    item: f64,
}

/// A member's capacity: so many instances execute batches.
fn capacity(instances: f64, batch: f64, cost: Cost) -> f64 {
    instances * batch / (cost.fixed + cost.item * batch)
}

/// The laws of the study, `scripts/check-tune`.
fn laws() -> Vec<NamedLaw> {
    let axis = |path: &str, values: &[u64]| dimension(path, values, 0, 0);
    let ensemble = |members: usize| -> Vec<Dimension> {
        let member = |group: usize| {
            [("instances", &INSTANCES[..]), ("batch", &SIZES[..]), ("delay", &[0, 100, 500][..])]
                .map(|(path, values)| dimension(path, values, 0, group))
        };
        (0..members).flat_map(member).collect()
    };
    vec![
        named_law("a batcher", vec![axis("batcher", &[0, 1])], |at| (100.0 + 300.0 * at[0], 0.5, 0)),
        named_law("a delay", vec![axis("delay", &[0, 500, 2000, 8000])], |at| {
            (
                match at[0] as u64 {
                    0 => 100.0,
                    500 => 115.0,
                    2000 => 140.0,
                    _ => 90.0,
                },
                0.5,
                0,
            )
        }),
        named_law("instances up to the permits", vec![axis("instances", &[1, 2, 3, 4, 5, 6])], |at| {
            (100.0 * at[0].min(3.0), 0.5, 0)
        }),
        named_law("instances that contend", vec![axis("instances", &[1, 2, 3, 4, 5, 6, 7, 8])], |at| {
            (100.0 * at[0] / (1.0 + 0.08 * (at[0] - 1.0).powi(2)), 0.5, 0)
        }),
        named_law("large batches", vec![axis("batch", &SIZES)], |at| {
            (1e3 * capacity(1.0, at[0], Cost { fixed: 5.0, item: 0.1 }), 0.5, 0)
        }),
        named_law("middle batches", vec![axis("batch", &SIZES)], |at| {
            (100.0 * at[0].min(8.0) * (8.0 / at[0].max(8.0)).powf(0.3), 0.5, 0)
        }),
        named_law(
            "instances and batches",
            vec![axis("instances", &INSTANCES), axis("batch", &SIZES), axis("delay", &[0, 100, 500])],
            |at| (1e3 * capacity(at[0].min(2.0), at[1], Cost { fixed: 5.0, item: 0.2 }) * (1.0 - at[2] / 5e3), 0.5, 0),
        ),
        named_law("instances of a member", ensemble(2), |at| {
            let capacities = [
                capacity(at[0], at[1].min(2.0), Cost { fixed: 4.0, item: 0.0 }),
                capacity(at[3], 1.0, Cost { fixed: 16.0, item: 0.0 }),
            ];
            (1e3 * capacities[0].min(capacities[1]), 0.5, usize::from(capacities[1] < capacities[0]))
        }),
        named_law("batches of a member", ensemble(3), |at| {
            let members = [at[0] * 3.0, capacity(1.0, at[4], Cost { fixed: 10.0, item: 0.1 }), at[6] * 3.0];
            let least = (0..3).min_by(|left, right| members[*left].total_cmp(&members[*right])).unwrap();
            (1e3 * members[least], 0.5, least)
        }),
        named_law("a limit", vec![axis("batch", &SIZES)], |at| {
            (1e3 * capacity(1.0, at[0], Cost { fixed: 2.0, item: 1.0 }), 2.0 * (2.0 + at[0]) / 15.0, 0)
        }),
        named_law("nothing helps", vec![axis("delay", &[0, 1, 2, 3])], |_| (1000.0, 0.5, 0)),
        named_law("one permit", vec![axis("instances", &[1, 2, 3])], |_| (200.0, 0.5, 0)),
        named_law("nothing meets", vec![axis("instances", &INSTANCES)], |at| (100.0 * at[0], 3.0 / at[0].min(2.0), 0)),
    ]
}

/// What other programs do meanwhile.
#[derive(Clone, Copy)]
struct Machine {
    noise: f64,
    /// Every so many trials one is disturbed, and far slower.
    disturbed: Option<usize>,
    /// Seconds of a load.
    load_s: f64,
}

const QUIET: Machine = Machine { noise: 0.03, disturbed: None, load_s: 0.05 };
/// Something else runs now and then.
const BURSTS: Machine = Machine { disturbed: Some(7), ..QUIET };
/// Something else runs all the time.
const BUSY: Machine = Machine { noise: 0.10, disturbed: Some(1), ..QUIET };

fn at(place: &Place, space: &Space) -> Vec<f64> {
    place.iter().zip(&space.dimensions).map(|(index, dimension)| dimension.values[*index].as_f64().unwrap()).collect()
}

fn searched(law: &NamedLaw, machine: Machine, settings: Settings) -> Searched {
    let (space, truth) = (law.space.clone(), law.truth);
    let mut draws = 0;
    let (mut loaded, mut count) = (None, 0);
    scripted(law.space.clone(), settings, move |planner, trial, _| {
        let place = planner.candidates()[trial.candidate].place.clone().unwrap();
        let (rate, latency, group) = truth(&at(&place, &space));
        let mut normal = || {
            draws += 2;
            let (radius, angle) =
                (unit(hash(settings.seed ^ 0x1a35, draws)), unit(hash(settings.seed ^ 0x1a35, draws + 1)));
            (-2.0 * (1.0 - radius).ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
        };
        count += 1;
        let disturbed = machine.disturbed.is_some_and(|every| count % every == 0);
        let slower = if disturbed && machine.disturbed > Some(1) { 0.7 } else { 0.0 };
        let spread = machine.noise * (UNIT_S / trial.unit_s).sqrt();
        let found = Found {
            score: rate.ln() - slower + spread * normal(),
            violation: latency.ln() + slower + 2.0 * spread * normal(),
            disturbed,
            bottleneck: Some(group),
        };
        let load_s = if loaded == Some(trial.candidate) { 0.0 } else { machine.load_s };
        loaded = Some(trial.candidate);
        (trial.unit_s + 0.1 + load_s, Ok(found))
    })
}

/// Whether a search came to the right answer, and whether it recommends what is worse than yours, or misses the limit.
fn judged(law: &NamedLaw, searched: &Searched) -> (bool, bool) {
    let truth = |place: &Place| (law.truth)(&at(place, &law.space));
    let base = law.space.base();
    let able = |place: &Place| truth(place).1 <= 1.0;
    let best = law.space.places().filter(able).map(|place| truth(&place).0).fold(0.0, f64::max);
    let answer = searched.planner.answer();
    let Some(winner) = answer.winner() else { return (best == 0.0, best > 0.0 && able(&base)) };
    let place = searched.planner.candidates()[winner].place.clone().unwrap();
    let rate = truth(&place).0;
    let is_kept = winner == 0 || rate > truth(&base).0 * 1.001;
    let is_worse = winner != 0 && (rate < 0.999 * truth(&base).0 || !able(&place));
    (best > 0.0 && able(&place) && rate >= 0.95 * best && is_kept, is_worse)
}

/// In at least `least` of a hundred searches the answer must be right, and in none worse than yours.
fn finds(machine: Machine, budget_s: f64, least: usize) {
    for law in laws() {
        let of_seed = |seed: u64| judged(&law, &searched(&law, machine, settings(budget_s, seed)));
        let all: Vec<(bool, bool)> = (0..20).map(of_seed).collect();
        let right = all.iter().filter(|(is_right, _)| *is_right).count();
        let worse = all.iter().filter(|(_, is_worse)| *is_worse).count();
        assert!(worse == 0, "{}: worse than yours in {worse} of 20", law.name);
        assert!(right * 100 >= least * 20, "{}: right in {right} of 20", law.name);
    }
}

#[test]
fn with_time_every_law_is_found() {
    finds(QUIET, 40.0, 95);
}

#[test]
fn with_little_time_laws_are_found() {
    finds(QUIET, 15.0, 90);
}

#[test]
fn laws_are_found_beside_bursts_of_something_else() {
    finds(BURSTS, 40.0, 95);
}

#[test]
fn laws_are_found_on_a_busy_machine() {
    finds(BUSY, 40.0, 90);
}

/// Where a load takes seconds, others are recommended only if they were better in the same rounds.
#[test]
fn whatever_the_time_nothing_worse_than_yours_is_recommended() {
    for load_s in [0.5, 3.0] {
        for budget_s in [2.0, 8.0, 30.0] {
            for law in laws() {
                for seed in 0..2 {
                    let machine = Machine { load_s, noise: 0.2, ..BURSTS };
                    let searched = searched(&law, machine, settings(budget_s, seed));
                    let (_, is_worse) = judged(&law, &searched);
                    assert!(!is_worse, "{}, {budget_s} s: {:?}", law.name, searched.planner.answer());
                }
            }
        }
    }
}

/// The budget that is named where there was too little time is one that tells.
#[test]
fn the_budget_that_would_do_does() {
    let (mut short, mut enough) = (0, 0);
    for law in laws() {
        for budget_s in [4.0, 8.0, 12.0] {
            for seed in 0..3 {
                let machine = Machine { load_s: 1.5, ..QUIET };
                let first = searched(&law, machine, settings(budget_s, seed)).planner.answer();
                let Answer::TooShort { needed_s, .. } = first else { continue };
                assert!(needed_s > budget_s && needed_s < 400.0, "{needed_s}");
                let again = searched(&law, machine, settings(needed_s, seed)).planner.answer();
                short += 1;
                enough += usize::from(!matches!(again, Answer::TooShort { .. }));
            }
        }
    }
    assert!(short > 20 && enough * 100 >= 95 * short, "{enough} of {short}");
}

/// The member whose queue grows is measured before any other.
#[test]
fn the_bottleneck_is_searched_first() {
    let of_members = laws().into_iter().find(|law| law.name == "instances of a member").unwrap();
    let searched = searched(&of_members, QUIET, settings(30.0, 1));
    let base = of_members.space.base();
    let changes = |trial: &&Trial| {
        let place = searched.planner.candidates()[trial.candidate].place.as_ref().unwrap();
        (0..3).any(|dimension| place[dimension] != base[dimension])
    };
    let early = |trial: &&Trial| matches!(trial.phase, Phase::Calibration | Phase::Race);
    assert_eq!(searched.trials.iter().filter(early).filter(changes).count(), 0, "{:?}", searched.trials);
    assert!(searched.trials.iter().filter(early).count() > 20);
}

/// A disturbed trial is repeated at once, and the repeat takes its place; a machine that is always busy is not waited for.
#[test]
fn what_was_disturbed_is_repeated() {
    let plain = laws().remove(2);
    let bursts = searched(&plain, BURSTS, settings(40.0, 2));
    let again: Vec<usize> = (0..bursts.trials.len()).filter(|index| bursts.trials[*index].again).collect();
    assert!(again.len() > 5, "{}", again.len());
    for index in again {
        let (first, second) = (bursts.trials[index - 1], bursts.trials[index]);
        assert_eq!(Trial { seed: first.seed, again: false, ..second }, first);
        assert_ne!(first.seed, second.seed);
    }
    let trials: usize = bursts.planner.candidates().iter().map(|candidate| candidate.trials.len()).sum();
    assert_eq!(trials, bursts.trials.iter().filter(|trial| !trial.again).count());
    let busy = searched(&plain, BUSY, settings(40.0, 2));
    let again = busy.trials.iter().filter(|trial| trial.again).count();
    assert!(again * 4 < busy.trials.len(), "{again} of {}", busy.trials.len());
}
