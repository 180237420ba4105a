//! The batches of a periodic load: the table on standard output, and the same figures in the `-f` file.

use std::fmt::Write as _;

use crate::Table;
use crate::number::counted;
use crate::record::{LoadReport, PeriodicBatch};
use crate::result::PeriodicResult;
use crate::result::outcome::Outcome;

/// A figure of a batch: the headings of the table's column and of the CSV's, and the value, times in nanoseconds.
type Column = (&'static str, &'static str, fn(&PeriodicBatch) -> Figure);

/// All figures of a batch.
const FIGURES: [Column; 9] = [
    ("Load", "Concurrency", |batch| Figure::Count(batch.concurrency as u64)),
    ("Requests", "Requests", |batch| Figure::Count(batch.requests)),
    ("Responses", "Responses", |batch| Figure::Count(batch.responses)),
    ("First avg", "Avg time to first response", |batch| Figure::Time(batch.first_response.mean_ns())),
    ("First p99", "p99 time to first response", |batch| Figure::Time(batch.first_response.percentile_ns(99.0) as f64)),
    ("Gap avg", "Avg time between responses", |batch| Figure::Time(batch.gap.mean_ns())),
    ("Gap p50", "p50 time between responses", |batch| Figure::Time(gap_percentile_ns(batch, 50.0))),
    ("Gap p99", "p99 time between responses", |batch| Figure::Time(gap_percentile_ns(batch, 99.0))),
    ("Gap max", "Max time between responses", |batch| Figure::Time(batch.gap_max_ns as f64)),
];

/// A count, or a time.
enum Figure {
    Count(u64),
    Time(f64),
}

impl Figure {
    /// Times in whole microseconds.
    fn show(&self) -> String {
        match self {
            Self::Count(count) => count.to_string(),
            Self::Time(ns) => format!("{:.0}", ns / 1e3),
        }
    }
}

/// Percentiles are coarse; the longest time is exact.
fn gap_percentile_ns(batch: &PeriodicBatch, percentile: f64) -> f64 {
    batch.gap.percentile_ns(percentile).min(batch.gap_max_ns) as f64
}

/// The table of all batches, and the counts of their requests.
pub fn text(result: &PeriodicResult) -> String {
    let mut text = "Periodic concurrency (times in usec)\n".to_owned();
    let headings = FIGURES.map(|(heading, ..)| heading.to_owned());
    let batches = result.batches.iter().map(|batch| FIGURES.map(|(.., figure)| figure(batch).show()));
    let lines: Vec<[String; FIGURES.len()]> = std::iter::once(headings).chain(batches).collect();
    // As narrow as they may be: all of them fit into 80 columns.
    let widths: [usize; FIGURES.len()] =
        std::array::from_fn(|column| lines.iter().map(|line| line[column].len()).max().unwrap_or(0));
    for line in &lines {
        let cells = line.iter().zip(widths).map(|(cell, width)| format!(" {cell:>width$}"));
        let _ = writeln!(text, " {}", cells.collect::<String>());
    }
    ending(result).iter().for_each(|line| text += &format!("{line}\n"));
    text
}

/// What became of all requests, and whether the load can be believed: a line each.
pub fn ending(result: &PeriodicResult) -> [String; 2] {
    let LoadReport { sent, completed, failed, outstanding, .. } = result.requests;
    let cancelled = match sent.saturating_sub(completed + failed + outstanding) {
        0 => String::new(),
        cancelled => format!(", {cancelled} cancelled"),
    };
    let verdict = match result.outcome {
        Outcome::Failed if completed + failed == 0 => "invalid: no request succeeded".to_owned(),
        Outcome::Failed => format!("invalid: {failed} of {} failed", counted(sent, "request")),
        Outcome::Interrupted => "invalid: interrupted".to_owned(),
        other => other.to_string(),
    };
    [format!("Requests: {sent} sent, {completed} completed, {failed} failed{cancelled}"), format!("Verdict: {verdict}")]
}

/// Why requests failed, a line for each reason.
pub fn failures(result: &PeriodicResult) -> impl Iterator<Item = String> {
    result.errors.iter().map(|(error, count)| format!("{} failed: {error}", counted(*count, "request")))
}

/// A row per batch, times in whole microseconds.
pub fn rows(batches: &[PeriodicBatch]) -> Table {
    let header = FIGURES.map(|(_, heading, _)| heading.to_owned()).to_vec();
    let rows = batches.iter().map(|batch| FIGURES.map(|(.., figure)| figure(batch).show()).to_vec());
    std::iter::once(header).chain(rows).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_batches_fits_80_columns() {
        let times = crate::result::summary::sample::distribution(10, 1_234_567_000);
        let batch = PeriodicBatch {
            concurrency: 1_000,
            requests: 100,
            responses: 10_000,
            first_response: times.clone(),
            gap: times,
            gap_max_ns: 1_234_567_000,
        };
        let requests = LoadReport { sent: 100, completed: 100, failed: 0, outstanding: 0, held_back: 0 };
        let (errors, remarks, outcome) = (Vec::new(), Vec::new(), Outcome::Valid);
        let text = text(&PeriodicResult { batches: vec![batch], requests, errors, remarks, outcome });
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[1].contains(" Load Requests Responses First avg") && lines[2].contains(" 1000      100     10000 "),
            "{text}"
        );
        assert!(lines[1].len() == lines[2].len() && lines.iter().all(|line| line.len() <= 80), "{text}");
    }

    #[test]
    fn requests_that_were_cancelled_are_told_where_there_are_any() {
        let summary = |completed, failed, outcome| {
            let requests = LoadReport { sent: 12, completed, failed, outstanding: 1, held_back: 0 };
            let text = text(&PeriodicResult {
                batches: Vec::new(),
                requests,
                errors: Vec::new(),
                remarks: Vec::new(),
                outcome,
            });
            text.split_once("Requests: ").unwrap().1.to_owned()
        };
        let all = "12 sent, 9 completed, 2 failed\nVerdict: invalid: interrupted\n";
        assert_eq!(summary(9, 2, Outcome::Interrupted), all);
        assert_eq!(summary(8, 0, Outcome::Valid), "12 sent, 8 completed, 0 failed, 3 cancelled\nVerdict: valid\n");
        let none = "12 sent, 0 completed, 0 failed, 11 cancelled\nVerdict: invalid: no request succeeded\n";
        assert_eq!(summary(0, 0, Outcome::Failed), none);
    }
}
