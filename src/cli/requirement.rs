//! `--require`: `p99<20ms`, `throughput>=1000`, `errors<0.1%@concurrency:8`, `ttft_p99<200ms`, `p99<+5%`.

use crate::plan::{Bound, Figure, LevelName, Relation, Requirement};
use crate::result::Unit;
use crate::result::figures::FigureAt;
use crate::values::decimal;

const FORM: &str = "it must be FIGURE<VALUE[@concurrency:N|@rate:R], with FIGURE avg, pNN, throughput, errors or another of docs/results.md such as ttft_p99; <, <=, > or >=; and \
    VALUE such as 20ms, 1000, 0.1%, or +5% of --baseline's";

/// Reads a requirement.
///
/// # Errors
/// The form that it must have.
pub fn requirement(text: &str) -> Result<Requirement, String> {
    let refused = || FORM.to_owned();
    let (condition, level) = match text.split_once('@') {
        Some((condition, level)) => (condition, Some(level_name(level.trim()).ok_or_else(refused)?)),
        None => (text, None),
    };
    let at = condition.find(['<', '>']).ok_or_else(refused)?;
    let (figure, tail) = condition.split_at(at);
    let (relation, value) = match tail.as_bytes() {
        [b'<', b'=', ..] => (Relation::AtMost, &tail[2..]),
        [b'<', ..] => (Relation::Below, &tail[1..]),
        [b'>', b'=', ..] => (Relation::AtLeast, &tail[2..]),
        _ => (Relation::Above, &tail[1..]),
    };
    let figure_at = FigureAt::named(figure.trim()).ok_or_else(refused)?;
    let bound = bound(figure_at.figure.unit, value.trim()).ok_or_else(refused)?;
    Ok(Requirement { text: text.to_owned(), figure: in_plan(figure_at), relation, bound, level })
}

/// The figure of that name.
pub fn figure(name: &str) -> Option<Figure> {
    FigureAt::named(name).map(in_plan)
}

/// How a plan names it.
fn in_plan(figure_at: FigureAt) -> Figure {
    match (figure_at.statistic(), figure_at.figure.key) {
        (Some(statistic), _) => Figure::Statistic(statistic),
        (None, "errors") => Figure::Errors,
        (None, _) => Figure::Named(figure_at.name()),
    }
}

fn bound(unit: Unit, text: &str) -> Option<Bound> {
    if text.starts_with(['+', '-']) {
        let percent = number(text.strip_suffix('%')?.trim_start_matches('+'), -99.9, 1e6)?;
        return Some(Bound::Change(percent / 100.0));
    }
    let value = match unit {
        Unit::Share | Unit::Ratio => number(text.strip_suffix('%')?, 0.0, 100.0)? / 100.0,
        Unit::Nanoseconds => nanoseconds(text)?,
        Unit::BytesPerSecond => bytes_a_second(text)?,
        _ => number(text.strip_suffix("/s").unwrap_or(text), 0.0, 1e12)?,
    };
    Some(Bound::Value(value))
}

fn nanoseconds(text: &str) -> Option<f64> {
    let units = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
    let (digits, ns) = units.into_iter().find_map(|(unit, ns)| Some((text.strip_suffix(unit)?, ns)))?;
    Some(number(digits, 0.0, 1e12)? * ns)
}

fn bytes_a_second(text: &str) -> Option<f64> {
    let units = [("kB/s", 1e3), ("MB/s", 1e6), ("GB/s", 1e9), ("B/s", 1.0)];
    let (digits, bytes) = units.into_iter().find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?, bytes)))?;
    Some(number(digits, 0.0, 1e12)? * bytes)
}

fn level_name(text: &str) -> Option<LevelName> {
    match text.split_once(':')? {
        ("concurrency", value) => value.parse().ok().filter(|n| *n > 0).map(LevelName::Concurrency),
        ("rate", value) => number(value, 1e-6, 1e8).map(LevelName::Rate),
        _ => None,
    }
}

fn number(text: &str, low: f64, high: f64) -> Option<f64> {
    decimal(text.trim(), low, high).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terms::{FigureName, Point, Statistic};

    #[test]
    fn figures_of_the_catalogue_have_the_bounds_of_their_units() {
        let named = |key, point| Figure::Named(FigureName { key, point });
        let p99 = Some(Point::Percentile(99.0));
        let cases = [
            ("ttft<20ms", named("ttft", Some(Point::Mean)), 2e7),
            ("tpot_p99<18ms@rate:5", named("itl", p99), 1.8e7),
            ("goodput_share>=95%", named("goodput_share", None), 0.95),
            ("input_bandwidth>=1.5GB/s", named("input_bandwidth", None), 1.5e9),
            ("tokens/s>100", named("output_token_throughput", None), 100.0),
            ("e2e p99<1s", Figure::Statistic(Statistic::Percentile(99.0)), 1e9),
        ];
        for (text, figure, bound) in cases {
            let read = requirement(text).unwrap();
            assert_eq!((read.figure, read.bound), (figure, Bound::Value(bound)), "{text}");
        }
        assert!(requirement("ttft<5").is_err() && requirement("goodput>1ms").is_err());
    }

    #[test]
    fn every_form_is_read() {
        let p99 = Figure::Statistic(Statistic::Percentile(99.0));
        let cases = [
            ("p99<20ms", p99, Relation::Below, Bound::Value(2e7), None),
            (
                "p99.9 <= 1.5us",
                Figure::Statistic(Statistic::Percentile(99.9)),
                Relation::AtMost,
                Bound::Value(1500.0),
                None,
            ),
            ("avg>3ns", Figure::Statistic(Statistic::MeanLatency), Relation::Above, Bound::Value(3.0), None),
            (
                "errors<0.5%@rate:20.5",
                Figure::Errors,
                Relation::Below,
                Bound::Value(0.005),
                Some(LevelName::Rate(20.5)),
            ),
            ("p99<+5%@concurrency:8", p99, Relation::Below, Bound::Change(0.05), Some(LevelName::Concurrency(8))),
        ];
        for (text, figure, relation, bound, level) in cases {
            assert_eq!(requirement(text), Ok(Requirement { text: text.to_owned(), figure, relation, bound, level }));
        }
        let throughput = requirement("throughput>=-10%").unwrap();
        assert_eq!((throughput.relation, throughput.bound), (Relation::AtLeast, Bound::Change(-0.1)));
        assert_eq!(requirement("throughput>=1000/s").unwrap().bound, Bound::Value(1000.0));
    }

    #[test]
    fn others_are_refused() {
        for text in [
            "",
            "p99",
            "<1ms",
            "p99<",
            "p99<20",
            "p0<1ms",
            "p100<1ms",
            "x<1ms",
            "errors<1",
            "p99<1ms@",
            "p99<1ms@x:1",
            "p99<nans",
            "p99<infs",
            "p99=1ms",
            "p99<+5",
            "p99<1ms@concurrency:0",
            "throughput>1ms",
        ] {
            assert!(requirement(text).is_err_and(|rule| rule.contains("p99") || rule.contains("pNN")), "{text}");
        }
    }
}
