//! When a level is looked at for its requirements.

use super::*;
use crate::plan::{Bound, Relation};
use crate::record::Generated;
use crate::result::summary::{ClientSummary, sample};
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
