//! Whether windows agree, and where they do not.

use std::borrow::Borrow;

use crate::result::disagreement::{Disagreement, STABLE_WINDOWS};
use crate::result::summary::ClientSummary;
use crate::terms::Statistic;

/// Whether the last three windows agree: the largest throughput, and the largest key latency, exceed the smallest by no
/// more than `share` (0.1 is 10 %), and no throughput is zero. This is upstream's rule.
pub fn is_stable<W: Borrow<ClientSummary>>(windows: &[W], share: f64, percentile: Option<f64>) -> bool {
    windows.len() >= STABLE_WINDOWS && disagreement(windows, share, percentile).is_none()
}

/// In what the last three windows differ most; `None` if they agree, or are fewer.
pub fn disagreement<W: Borrow<ClientSummary>>(
    windows: &[W],
    share: f64,
    percentile: Option<f64>,
) -> Option<Disagreement> {
    let last = &windows[windows.len().checked_sub(STABLE_WINDOWS)?..];
    let throughputs = last.iter().map(|window| window.borrow().throughput());
    let latencies = last.iter().map(|window| window.borrow().key_latency_ns(percentile));
    let latency = percentile.map_or(Statistic::MeanLatency, Statistic::Percentile);
    // Of two that differ as much, the later one is named.
    let ranges = [range(latency, latencies, share), range(Statistic::Throughput, throughputs, share)];
    let apart = ranges.into_iter().filter(|range| !is_within(*range));
    apart.max_by(|left, right| left.spread().total_cmp(&right.spread()))
}

/// Whether the last three windows agree in throughput.
pub fn is_throughput_stable<W: Borrow<ClientSummary>>(windows: &[W], share: f64) -> bool {
    let Some(start) = windows.len().checked_sub(STABLE_WINDOWS) else { return false };
    let throughputs = windows[start..].iter().map(|window| window.borrow().throughput());
    is_within(range(Statistic::Throughput, throughputs, share))
}

fn is_within(range: Disagreement) -> bool {
    range.low > 0.0 && range.high <= range.low * (1.0 + range.allowed)
}

fn range(statistic: Statistic, values: impl Iterator<Item = f64>, allowed: f64) -> Disagreement {
    let (low, high) = values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
    Disagreement { statistic, low, high, allowed }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::summary::sample::client;

    #[test]
    fn three_windows_have_to_agree_in_throughput_and_latency() {
        let steady = vec![client(100, 1_000_000); 3];
        assert!(is_stable(&steady, 0.1, None));
        assert!(!is_stable(&steady[..2], 0.1, None), "two windows are too few");
        let drifting = [client(100, 1_000_000), client(105, 1_000_000), client(112, 1_000_000)];
        assert!(!is_stable(&drifting, 0.1, None));
        assert!(is_stable(&drifting, 0.15, None));
        let slowing = [client(100, 1_000_000), client(100, 1_000_000), client(100, 1_200_000)];
        assert!(!is_stable(&slowing, 0.1, None));
        assert!(!is_stable(&slowing, 0.1, Some(99.0)));
        let settled: Vec<_> = [client(10, 9_000_000)].into_iter().chain(steady).collect();
        assert!(is_stable(&settled, 0.1, None), "only the last three count");
    }

    #[test]
    fn the_figure_that_differs_most_is_named() {
        let windows = [client(100, 1_000_000), client(113, 1_000_000), client(100, 1_300_000)];
        let found = disagreement(&windows, 0.1, Some(99.0)).unwrap();
        assert_eq!((found.statistic, found.allowed), (Statistic::Percentile(99.0), 0.1));
        assert!((found.spread() - 0.3).abs() < 0.01, "{found:?}");
        let text = "p99 latency of the last 3 windows is 1000 to 1300 usec, 30.0% apart, where -s allows 10%";
        assert_eq!(found.to_string(), text);
        let none = [client(0, 0), client(9_100, 1_000_000), client(50, 1_000_000)];
        let text = "throughput of the last 3 windows is 0.0 to 9100 infer/sec, where -s allows 10%";
        assert_eq!(disagreement(&none, 0.1, None).unwrap().to_string(), text);
        let found = disagreement(&windows, 0.12, None).map(|found| found.statistic);
        assert_eq!(found, Some(Statistic::MeanLatency));
        assert_eq!(disagreement(&windows, 0.31, None), None);
    }

    #[test]
    fn nothing_is_never_stable() {
        assert!(!is_stable(&vec![client(0, 0); 3], 0.1, None));
    }
}
