//! The table of a matrix: what each way came to, and what it costs against the first.

use std::fmt::Write as _;

use crate::measure::matrix::{Figure, MatrixRow, MatrixTable};
use crate::report::number::significant;
use crate::report::{load_name, load_value};
use crate::stdio::shown;

/// Titles of the columns after the name.
const COLUMNS: [&str; 4] = ["Infer/sec", "Latency", "Latency more", "Throughput"];
/// Width of a column.
const WIDTH: usize = 24;

/// The table; `percentile` is what the latency is, the mean where absent. Ends with an empty line.
pub fn table(table: &MatrixTable, percentile: Option<f64>) -> String {
    let Some(base) = table.rows.first() else { return String::new() };
    let latency = percentile.map_or("average".to_owned(), |percentile| format!("p{percentile}"));
    let rounds = table.rows.iter().map(|row| row.rounds.len()).max().unwrap_or(0);
    let mut text = format!(
        "{}: {}, {rounds} rounds, {latency} latency in usec, 95% intervals; the last two columns against {}\n",
        load_name(table.load),
        load_value(table.load),
        base.name
    );
    let names = table.rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
    let _ = writeln!(text, "  {:names$}{}", "", COLUMNS.map(|title| format!("{title:>WIDTH$}")).join(""));
    for row in &table.rows {
        let _ = writeln!(text, "  {:names$}{}", row.name, cells(row, base));
    }
    text.push('\n');
    text
}

fn cells(row: &MatrixRow, base: &MatrixRow) -> String {
    let against_itself = std::ptr::eq(row, base);
    let mut text = String::new();
    if !row.rounds.is_empty() {
        let us = |figure: Figure| scaled(figure, 1e-3, 1);
        let extra = row.extra_ns(base).filter(|_| !against_itself).map(us);
        let share = row.share(base).filter(|_| !against_itself).map(|figure| format!("{} %", scaled(figure, 100.0, 1)));
        let cells = [row.throughput().map(|figure| scaled(figure, 1.0, 1)), row.latency_ns().map(us), extra, share];
        for cell in cells {
            let _ = write!(text, "{:>WIDTH$}", cell.unwrap_or_else(|| "-".to_owned()));
        }
    }
    if row.failed() > 0 {
        let _ = write!(text, "  {} requests failed", significant(row.failed() as f64));
    }
    if let Some(problem) = &row.problem {
        let _ = write!(text, "  not measured: {}", shown(problem));
    }
    text
}

/// `mean ± half the interval's width`, times `factor`.
fn scaled(figure: Figure, factor: f64, digits: usize) -> String {
    let mean = format!("{:.digits$}", figure.mean * factor);
    match figure.interval {
        Some(interval) => format!("{mean} ± {:.digits$}", (interval.high - interval.low) / 2.0 * factor),
        None => mean,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::matrix::sample::row;
    use crate::measure::summary::LevelLoad;

    #[test]
    fn the_first_way_is_what_others_are_held_against() {
        let mut broken = row("gRPC", &[]);
        broken.problem = Some("no server".to_owned());
        let mut failing = row("HTTP", &[(500.0, 20.0), (500.0, 20.0)]);
        failing.rounds[0].failed = 3;
        let rows = vec![row("C API", &[(1000.0, 10.0), (1000.0, 10.0)]), failing, broken];
        let text = table(&MatrixTable { load: LevelLoad::Concurrency(4), rows }, Some(99.0));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("Concurrency: 4, 2 rounds, p99 latency in usec"), "{}", lines[0]);
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ");
        assert_eq!(words(lines[2]), "C API 1000.0 ± 0.0 10.0 ± 0.0 - -");
        assert_eq!(words(lines[3]), "HTTP 500.0 ± 0.0 20.0 ± 0.0 10.0 ± 0.0 50.0 ± 0.0 % 3 requests failed");
        assert_eq!(words(lines[4]), "gRPC not measured: no server");
    }
}
