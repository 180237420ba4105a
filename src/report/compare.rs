//! The table of the command `compare`.

use std::fmt::Write as _;

use crate::full_level_name;
use crate::number::{plain, significant};
use crate::result::Unit;
use crate::result::compare::{Change, ErrorsChange, LevelChange, reach};
use crate::stats::Interval;

/// A block for each level; `unmatched` levels are in only one of the results.
pub fn text(levels: &[LevelChange], margin: f64, unmatched: &[String]) -> String {
    let mut text = String::new();
    for level in levels {
        let _ = writeln!(text, "{}:", full_level_name(level.load, level.distinction));
        if level.figures.is_empty() {
            let [first, second] = level.outcomes;
            let _ = writeln!(text, "  not compared: {first} in the first result, {second} in the second");
        }
        level.figures.iter().for_each(|change| text += &row(change));
        text.extend(level.errors.as_ref().map(errors_row));
    }
    if !unmatched.is_empty() {
        let _ = writeln!(text, "In one result only: {}", unmatched.join(", "));
    }
    let _ = writeln!(
        text,
        "Changes up to {}% count as no change. {}.",
        significant(100.0 * margin).trim_end_matches(".0"),
        reach(levels)
    );
    text
}

/// `  p99        12345 -> 12740 usec       +3.2% [+1.2, +5.9]  undecided`.
fn row(change: &Change) -> String {
    let (unit, show): (&str, fn(f64) -> String) = match change.figure_at.figure.unit {
        Unit::PerSecond => ("infer/sec", significant),
        Unit::Nanoseconds => ("usec", |ns| significant(ns / 1e3)),
        Unit::Share => ("%", |share| significant(100.0 * share)),
        unit => (unit.name(), significant),
    };
    let [first, second] = change.values.map(show);
    let percent = |ratio: f64| format!("{:+.1}", 100.0 * (ratio - 1.0));
    let interval = change.interval.map_or_else(
        || "[not known]".to_owned(),
        |interval| format!("[{}, {}]", percent(interval.low), percent(interval.high)),
    );
    let values = format!("{first} -> {second} {unit}");
    let ratio = if change.ratio.is_finite() { format!("{}%", percent(change.ratio)) } else { "-".to_owned() };
    format!("  {:<10} {values:<34} {ratio:>8} {interval:<18} {}\n", change.figure_at.short(), change.verdict)
}

/// `  errors     0 -> 0.9 %                                  [+0.7, +1.1] points  worse`: a share has no ratio to none.
fn errors_row(errors: &ErrorsChange) -> String {
    let [first, second] = [errors.reference, errors.value].map(|share| significant(100.0 * share));
    let values = format!("{first} -> {second} %");
    let interval = errors.interval.map_or_else(
        || "[not known]".to_owned(),
        |Interval { low, high }| format!("[{}, {}] points", signed_points(low), signed_points(high)),
    );
    format!("  {:<10} {values:<34} {:>8} {interval:<18} {}\n", "errors", "", errors.verdict)
}

/// A difference of shares, with as many digits as tell a small one from none: `+0.017`.
fn signed_points(share: f64) -> String {
    format!("{}{}", if share < 0.0 { "" } else { "+" }, plain(100.0 * share))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Distinction;
    use crate::result::compare::Direction;
    use crate::result::figures::FigureAt;
    use crate::result::outcome::Outcome;
    use crate::result::summary::LevelLoad;
    use crate::terms::Statistic;

    #[test]
    fn a_few_failed_requests_of_many_are_told_from_none() {
        let row = errors_row(&ErrorsChange {
            reference: 0.0,
            value: 2e-4,
            interval: Some(Interval { low: 1.7e-4, high: 2.3e-4 }),
            verdict: Direction::Worse,
        });
        assert!(row.contains("0 -> 0.02 %") && row.contains("[+0.017, +0.023] points"), "{row}");
    }

    #[test]
    fn each_figure_has_its_row() {
        let p99 = Change {
            figure_at: FigureAt::of_statistic(Statistic::Percentile(99.0)),
            values: [12_345_678.0, 12_740_000.0],
            ratio: 1.032,
            interval: Some(Interval { low: 1.012, high: 1.059 }),
            across_starts: false,
            verdict: Direction::Undecided,
        };
        let unknown = Change {
            figure_at: FigureAt::of_statistic(Statistic::Throughput),
            values: [100.0, 99.5],
            interval: None,
            ratio: 0.995,
            ..p99.clone()
        };
        let load = LevelLoad::Concurrency(4);
        let level = LevelChange {
            load,
            distinction: Distinction::default(),
            figures: vec![unknown, p99],
            errors: Some(ErrorsChange {
                reference: 0.0,
                value: 0.009,
                interval: Some(Interval { low: 0.007, high: 0.011 }),
                verdict: Direction::Worse,
            }),
            outcomes: [Outcome::Valid; 2],
        };
        let failed = LevelChange {
            figures: Vec::new(),
            errors: None,
            outcomes: [Outcome::Valid, Outcome::Failed],
            ..level.clone()
        };
        let expected = "\
concurrency 4:
  throughput 100 -> 99.5 infer/sec                 -0.5% [not known]        undecided
  p99        12345.7 -> 12740 usec                 +3.2% [+1.2, +5.9]       undecided
  errors     0 -> 0.9 %                                  [+0.7, +1.1] points worse
concurrency 4:
  not compared: valid in the first result, failed in the second
In one result only: concurrency 8
Changes up to 5% count as no change. Within these two runs only: the same server, started again, may differ by more (--restarts).
";
        assert_eq!(text(&[level, failed], 0.05, &["concurrency 8".to_owned()]), expected);
    }
}
