//! When a level is looked at for its requirements.

use super::*;
use crate::blocks::{Block, Blocks};
use crate::plan::{Bound, Relation};
use crate::record::Generated;
use crate::result::summary::{Bursts, ClientSummary, sample};
use crate::stats::seed::{hash, unit};
use crate::terms::{FigureName, Point, Statistic};

const SECOND: Duration = Duration::from_secs(1);

fn below(bound: Bound) -> Requirement {
    Requirement {
        text: "avg".to_owned(),
        figure: Figure::Statistic(Statistic::MeanLatency),
        relation: Relation::Below,
        bound,
        level: None,
    }
}

#[test]
fn a_level_is_looked_at_when_it_has_been_measured_twice_as_long() {
    let windows = || Some(WindowSet::sample(1_600, 1_000_000));
    let question = |ns: f64| Question { requirement: below(Bound::Value(ns)), baseline: None };
    let open = Questions { all: vec![question(2.0e6)], time: 20 * SECOND };
    let mut looks = Looks::default();
    // One block tells nothing of a mean, so no look decides it.
    let uncut = || Some(WindowSet::uncut(sample::client(1_600, 1_000_000), None));
    let mut asked = |seconds: u32| looks.open(&open, seconds * SECOND, SECOND, uncut).is_some();
    let going: Vec<bool> = (3..=20).map(&mut asked).collect();
    assert!(going[..17].iter().all(|on| *on) && !going[17], "{going:?}");
    assert_eq!(looks.count, 4, "after 3, 6, 12 and 20 s");
    let mut looks = Looks::default();
    assert!(looks.open(&open, 3 * SECOND, SECOND, windows).is_none() && looks.count == 1);
    let none = Questions::default();
    let mut looks = Looks::default();
    assert!(looks.open(&none, 3 * SECOND, SECOND, windows).is_none() && looks.count == 0);
}

#[test]
fn a_level_is_measured_on_for_times_of_tokens_too() {
    let first_tokens = |bound_ms: f64| Question {
        requirement: Requirement {
            figure: Figure::Named(FigureName { key: "ttft", point: Some(Point::Percentile(99.0)) }),
            ..below(Bound::Value(bound_ms * 1e6))
        },
        baseline: None,
    };
    let windows = || {
        let mut generated = Generated::empty();
        (1..=900).for_each(|ms| generated.first_token.histogram.record(ms * 1_000_000).unwrap());
        let client = sample::client(900, 1_000_000);
        Some(WindowSet::uncut(ClientSummary { generated: Some(Box::new(generated)), ..client }, None))
    };
    let is_open = |bound_ms| {
        let questions = Questions { all: vec![first_tokens(bound_ms)], time: 20 * SECOND };
        Looks::default().open(&questions, 3 * SECOND, SECOND, windows).is_some()
    };
    assert!(is_open(891.0), "the 99th percentile itself");
    assert!(!is_open(800.0) && !is_open(950.0), "certainly missed, and certainly met");
}

/// A server of which 1000 requests a second fail in bursts.
#[derive(Clone, Copy, Debug)]
struct Failing {
    /// Their share.
    share: f64,
    /// How many fail in one burst.
    burst: u64,
    /// What share of the requests fail meanwhile.
    density: f64,
}

/// What becomes of `errors<1%` at such a server, and after how many seconds: looked at first after `first` seconds, then whenever it
/// was measured for twice as long, and last after a minute. Where it is `known` that each failure comes by itself, that is used.
fn judged(world: Failing, first: u32, seed: u64, known: bool) -> (Judgement, u32) {
    let quiet = world.share / world.burst as f64;
    // What a burst takes of the time leaves less in which one may begin.
    let begins = quiet * world.density / (world.density - world.share);
    let requirement = Requirement { figure: Figure::Errors, ..below(Bound::Value(0.01)) };
    let (mut random, mut left, mut blocks) = (0, 0, Blocks::default());
    let (mut whole, mut looks, mut next) = (sample::client(0, 1), 0, first);
    let mut draw = || {
        random += 1;
        unit(hash(seed, random))
    };
    for second in 1..=60 {
        for block in 0..16 {
            let requests = if block % 2 == 0 { 62 } else { 63 };
            let failed = (0..requests).filter(|_| {
                if left == 0 && draw() < begins {
                    left = world.burst;
                }
                let fails = left > 0 && draw() < world.density;
                left -= u64::from(fails);
                fails
            });
            let failed = failed.count() as u64;
            blocks.push(Block::of_requests(0.0625, requests - failed, failed));
            (whole.requests, whole.failed) = (whole.requests + requests - failed, whole.failed + failed);
        }
        if second < next && second < 60 {
            continue;
        }
        (looks, next) = (looks + 1, 2 * second);
        let bursts = if known { Bursts { failed: 1.0, good: 1.0 } } else { blocks.bursts() };
        let figures =
            Figures { client: &whole, estimates: &[], bursts: Some(bursts), restarts: None, at_starts: &[], looks };
        let judgement = gate::find(figures, &requirement, None).unwrap().judge(&requirement);
        if judgement != Judgement::Undecided {
            return (judgement, second);
        }
    }
    (Judgement::Undecided, 60)
}

/// How many of so many runs hold what is not so, or miss what is.
fn wrong(world: Failing, first: u32, runs: u64, known: bool) -> usize {
    let truth = if world.share < 0.01 { Judgement::Passed } else { Judgement::Failed };
    let is_wrong = |seed: &u64| {
        let (judgement, _) = judged(world, first, *seed, known);
        judgement != truth && judgement != Judgement::Undecided
    };
    (0..runs).filter(is_wrong).count()
}

#[test]
fn failures_in_bursts_do_not_make_a_gate_falsely_certain() {
    // Short bursts; longer ones, and thin ones, of which fifteen seconds surely see some; outages, of which a minute does.
    let worlds = [(5, 1.0, 3), (20, 1.0, 15), (20, 0.05, 15), (100, 1.0, 60), (100, 0.2, 60)];
    for (burst, density, first) in worlds {
        for share in [0.007, 0.0099, 0.0101, 0.015] {
            let world = Failing { share, burst, density };
            let count = wrong(world, first, 200, false);
            assert!(count <= 10, "{world:?}: {count} of 200");
        }
    }
    // Each by itself they would be.
    let outages = Failing { share: 0.015, burst: 100, density: 1.0 };
    assert!(wrong(outages, 15, 200, true) >= 50);
    // Whoever has seen none cannot know of them, in one run of ten here.
    let unseen = (-0.015 * 15_000.0 / 100.0_f64).exp();
    let count = wrong(outages, 15, 200, false) as f64;
    assert!(count <= 1.5 * unseen * 200.0, "{count} of 200, {unseen}");
}

#[test]
fn failures_that_come_by_themselves_lose_little() {
    for share in [0.004, 0.007, 0.015] {
        let world = Failing { share, burst: 1, density: 1.0 };
        let seconds = |known| (0..100).map(|seed| judged(world, 1, seed, known).1).sum::<u32>();
        let (by_blocks, known) = (seconds(false), seconds(true));
        assert!(f64::from(by_blocks) <= 1.3 * f64::from(known), "{share}: {by_blocks} s, {known} s");
        assert!(wrong(world, 1, 100, false) <= 5);
    }
}
