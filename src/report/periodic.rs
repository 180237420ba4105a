//! What the batches of a periodic load came to: the table on standard output, and the same figures in the file of `-f`.

use std::fmt::Write as _;
use std::path::Path;

use crate::error::Result;
use crate::load::PeriodicStage;
use crate::report::Interrupts;
use crate::report::csv::write_file;

/// A figure of a batch: the heading of the table's column, the CSV's, and the value, times in nanoseconds.
type Column = (&'static str, &'static str, fn(&PeriodicStage) -> Figure);

/// All figures of a batch.
const FIGURES: [Column; 9] = [
    ("Concurrency", "Concurrency", |batch| Figure::Count(batch.concurrency as u64)),
    ("Requests", "Requests", |batch| Figure::Count(batch.requests)),
    ("Responses", "Responses", |batch| Figure::Count(batch.responses)),
    ("First avg", "Avg time to first response", |batch| Figure::Time(batch.first_response.mean_ns())),
    ("First p99", "p99 time to first response", |batch| Figure::Time(batch.first_response.percentile_ns(99.0) as f64)),
    ("Gap avg", "Avg time between responses", |batch| Figure::Time(batch.gap.mean_ns())),
    ("Gap p50", "p50 time between responses", |batch| Figure::Time(gap_percentile_ns(batch, 50.0))),
    ("Gap p99", "p99 time between responses", |batch| Figure::Time(gap_percentile_ns(batch, 99.0))),
    ("Gap max", "Max time between responses", |batch| Figure::Time(batch.gap_max_ns as f64)),
];

/// A number of things, or a time.
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
fn gap_percentile_ns(batch: &PeriodicStage, percentile: f64) -> f64 {
    batch.gap.percentile_ns(percentile).min(batch.gap_max_ns) as f64
}

/// The table of all batches.
pub fn table(batches: &[PeriodicStage]) -> String {
    let mut text = "Periodic concurrency (times in usec)\n".to_owned();
    let mut line = |cells: [String; FIGURES.len()]| {
        let _ = writeln!(text, "  {}", cells.map(|cell| format!("{cell:>12}")).join(""));
    };
    line(FIGURES.map(|(heading, ..)| heading.to_owned()));
    batches.iter().for_each(|batch| line(FIGURES.map(|(.., figure)| figure(batch).show())));
    text
}

/// Writes a row per batch, times in whole microseconds.
///
/// # Errors
/// Where the file cannot be written.
pub fn write(place: (&Path, Interrupts), batches: &[PeriodicStage]) -> Result<()> {
    let header = FIGURES.map(|(_, heading, _)| heading.to_owned()).to_vec();
    let rows = batches.iter().map(|batch| FIGURES.map(|(.., figure)| figure(batch).show()).to_vec());
    write_file(place, &std::iter::once(header).chain(rows).collect())
}
