//! Levels with several starts of the model (`--restarts`), in the report and in CSV files.

use crate::number::{significant, whole_us};
use crate::result::summary::{AcrossStarts, LevelSummary};
use crate::terms::Statistic;

/// The lines of a level; empty if it was measured once.
pub fn text(level: &LevelSummary) -> String {
    let Some(restarts) = &level.restarts else { return String::new() };
    let lines: String = restarts.shown().iter().map(line).collect();
    format!("    95% confidence over {} starts of the model:\n{lines}", restarts.starts)
}

fn line(figure: &AcrossStarts) -> String {
    format!("      {}\n", estimate_text(figure))
}

/// `throughput 900 to 1100 infer/sec, mean 1000 (40% of the variance between restarts)`.
pub fn estimate_text(figure: &AcrossStarts) -> String {
    let unit = if figure.statistic == Statistic::Throughput { "infer/sec" } else { "usec" };
    let interval = figure.interval.map_or_else(
        || "not known".to_owned(),
        |interval| {
            format!("{} to {} {unit}", value(figure.statistic, interval.low), value(figure.statistic, interval.high))
        },
    );
    let share = figure.share.map_or_else(
        || "how much of the variance lies between restarts is not known".to_owned(),
        |share| format!("{:.0}% of the variance between restarts", 100.0 * share),
    );
    format!("{} {interval}, mean {} ({share})", figure.statistic.name(), value(figure.statistic, figure.mean))
}

fn value(statistic: Statistic, value: f64) -> String {
    if statistic == Statistic::Throughput { significant(value) } else { whole_us(value).to_string() }
}

/// A column's name, and how a level fills it.
type Column = (String, Box<dyn Fn(&LevelSummary) -> String>);

/// The columns of levels that were measured more than once; empty if there is no such level. Unknown values are empty.
pub fn columns(levels: &[&LevelSummary]) -> Vec<Column> {
    let Some(first) = levels.iter().find_map(|level| level.restarts.as_ref()) else { return Vec::new() };
    let starts = |level: &LevelSummary| level.restarts.as_ref().map_or(1, |all| all.starts).to_string();
    let mut columns: Vec<Column> = vec![("Starts".to_owned(), Box::new(starts))];
    for (number, statistic) in first.shown().iter().map(|figure| figure.statistic).enumerate() {
        let mut add = |title: &str, cell: fn(&AcrossStarts) -> Option<String>| {
            let fill = move |level: &LevelSummary| {
                let figure = level.restarts.as_ref().and_then(|all| all.figures.get(number));
                figure.and_then(cell).unwrap_or_default()
            };
            columns.push((format!("{} {title}", statistic.name()), Box::new(fill)));
        };
        add("of starts", |figure| Some(value(figure.statistic, figure.mean)));
        add("of starts low", |figure| Some(value(figure.statistic, figure.interval?.low)));
        add("of starts high", |figure| Some(value(figure.statistic, figure.interval?.high)));
        add("variance between starts", |figure| Some(format!("{:.2}", figure.share?)));
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::summary::{LevelLoad, Restarts, sample};
    use crate::stats::Interval;

    #[test]
    fn a_level_that_was_repeated_says_so_and_others_have_empty_cells() {
        let once = sample::level(LevelLoad::Concurrency(1), 100, 1_000_000);
        assert_eq!((text(&once), columns(&[&once]).len()), (String::new(), 0));
        let throughput_interval = Some(Interval { low: 95.5, high: 104.5 });
        let figures = vec![
            AcrossStarts {
                statistic: Statistic::Throughput,
                values: Vec::new(),
                mean: 100.0,
                interval: throughput_interval,
                share: Some(0.625),
            },
            AcrossStarts {
                statistic: Statistic::Percentile(99.0),
                values: Vec::new(),
                mean: 2_000_000.0,
                interval: None,
                share: None,
            },
        ];
        let repeated = LevelSummary { restarts: Some(Restarts { starts: 5, figures }), ..once.clone() };
        let lines = "    95% confidence over 5 starts of the model:\n\
                     \x20     throughput 95.5 to 104.5 infer/sec, mean 100 (62% of the variance between restarts)\n\
                     \x20     p99 not known, mean 2000 (how much of the variance lies between restarts is not known)\n";
        assert_eq!(text(&repeated), lines);
        let table = columns(&[&once, &repeated]);
        let names: Vec<&str> = table.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names[..3], ["Starts", "throughput of starts", "throughput of starts low"]);
        assert_eq!(names[8], "p99 variance between starts");
        let row = |level: &LevelSummary| table.iter().map(|(_, cell)| cell(level)).collect::<Vec<_>>().join(",");
        assert_eq!((row(&once), row(&repeated)), ("1,,,,,,,,".into(), "5,100,95.5,104.5,0.62,2000,,,".into()));
    }
}
