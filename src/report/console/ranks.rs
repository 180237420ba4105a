//! A line for each of several processes that shared the load, and remarks on outliers.

use std::fmt::Write as _;

use crate::number::{significant, whole_us};
use crate::result::summary::{LevelLoad, LevelSummary, RankSummary};
use crate::stdio::shown;

/// Shares of a schedule are fixed; those of a concurrency depend on how fast each process is answered.
const UNEVEN_SCHEDULE: f64 = 0.1;
const UNEVEN_CONCURRENCY: f64 = 0.3;
/// A median this far from that of most ranks means another network, or a slow machine.
const OTHER_MEDIAN: f64 = 0.25;

/// The table; empty if there is only one process.
pub fn text(level: &LevelSummary) -> String {
    if level.ranks.is_empty() {
        return String::new();
    }
    let host = level.ranks.iter().map(|rank| shown(&rank.host).chars().count()).max().unwrap_or(0).max(4);
    let mut text = format!(
        "  Ranks:\n    {:>4}  {:<host$}  {:>12}  {:>8}  {:>9}  {:>9}  {:>9}  {:>6}  clock\n",
        "rank", "host", "requests/sec", "failed", "p50 usec", "p99 usec", "late usec", "CPUs"
    );
    for rank in &level.ranks {
        let us = |ns: Option<f64>| ns.map_or_else(|| "-".to_owned(), |ns| whole_us(ns).to_string());
        let _ = writeln!(
            text,
            "    {:>4}  {:<host$}  {:>12}  {:>8}  {:>9}  {:>9}  {:>9}  {:>6}  {}",
            rank.rank,
            shown(&rank.host),
            significant(rank.request_rate),
            rank.failed,
            us(rank.p50_ns),
            us(rank.p99_ns),
            us(rank.late_ns.map(|ns| ns as f64)),
            rank.processors.map_or_else(|| "-".to_owned(), |processors| format!("{processors:.2}")),
            clock(rank)
        );
    }
    text + &remarks(level)
}

fn clock(rank: &RankSummary) -> String {
    match (rank.clock_offset_ns, rank.clock_error_ns) {
        (0, 0) => "same".to_owned(),
        (offset, error) => format!("{:+} +-{} usec", offset / 1000, error.div_ceil(1000)),
    }
}

fn remarks(level: &LevelSummary) -> String {
    let is_open = !matches!(level.load, LevelLoad::Concurrency(_));
    let allowed = if is_open { UNEVEN_SCHEDULE } else { UNEVEN_CONCURRENCY };
    let mean = level.ranks.iter().map(|rank| rank.request_rate).sum::<f64>() / level.ranks.len() as f64;
    let mut medians: Vec<f64> = level.ranks.iter().filter_map(|rank| rank.p50_ns).collect();
    medians.sort_by(f64::total_cmp);
    let usual = medians.get((medians.len().max(1) - 1) / 2).copied().unwrap_or(0.0);
    let mut text = String::new();
    for rank in &level.ranks {
        let share = if mean > 0.0 { rank.request_rate / mean - 1.0 } else { 0.0 };
        if share.abs() > allowed {
            let _ = writeln!(
                text,
                "    rank {}: its rate is {:+.0}% off the mean of all: see its machine, and its way to the server",
                rank.rank,
                share * 100.0
            );
        }
        let off = rank.p50_ns.filter(|_| usual > 0.0).map_or(0.0, |median| median / usual - 1.0);
        if off > OTHER_MEDIAN && share.abs() <= allowed {
            let _ = writeln!(
                text,
                "    rank {}: its median latency is {:+.0}% off that of most: another network, or a slower machine",
                rank.rank,
                off * 100.0
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::summary::sample;

    fn rank(rank: usize, rate: f64, p50_us: f64) -> RankSummary {
        RankSummary {
            rank,
            host: format!("node{rank}"),
            requests: rate as u64,
            failed: 0,
            request_rate: rate,
            p50_ns: Some(p50_us * 1e3),
            p99_ns: None,
            late_ns: Some(12_000),
            processors: Some(1.5),
            clock_offset_ns: -2_500_000 * rank as i64,
            clock_error_ns: 4_100 * rank as u64,
        }
    }

    #[test]
    fn a_table_with_a_line_each() {
        let mut level = sample::level(LevelLoad::RequestRate(200.0), 200, 1_000);
        assert_eq!(text(&level), "");
        level.ranks = vec![rank(0, 100.0, 50.0), rank(1, 102.0, 51.0)];
        assert_eq!(
            text(&level),
            "  Ranks:\n    \
             rank  host   requests/sec    failed   p50 usec   p99 usec  late usec    CPUs  clock\n    \
             \u{20}  0  node0           100         0         50          -         12    1.50  same\n    \
             \u{20}  1  node1           102         0         51          -         12    1.50  -2500 +-5 usec\n"
        );
    }

    #[test]
    fn what_stands_out_is_said() {
        let mut level = sample::level(LevelLoad::RequestRate(200.0), 200, 1_000);
        level.ranks = vec![rank(0, 100.0, 50.0), rank(1, 100.0, 50.0), rank(2, 100.0, 80.0)];
        let report = text(&level);
        assert!(
            report.contains("rank 2: its median latency is +60% off that of most") && report.lines().count() == 6,
            "{report}"
        );
        level.ranks = vec![rank(0, 100.0, 50.0), rank(1, 20.0, 50.0)];
        assert!(text(&level).contains("rank 1: its rate is -67% off the mean"), "{}", text(&level));
    }
}
