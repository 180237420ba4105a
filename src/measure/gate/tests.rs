//! When a level is looked at for its requirements.

use super::*;
use crate::plan::{Bound, Relation};
use crate::result::summary::sample;
use crate::terms::Statistic;

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
