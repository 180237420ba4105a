//! When windows agree.

use std::borrow::Borrow;

use crate::measure::summary::ClientSummary;

/// Windows that have to agree.
pub const STABLE_WINDOWS: usize = 3;

/// Whether the last three windows agree: the largest throughput, and the largest key latency, exceed the smallest by no
/// more than `share` (0.1 is 10 %), and no throughput is zero. This is upstream's rule.
pub fn is_stable<W: Borrow<ClientSummary>>(windows: &[W], share: f64, percentile: Option<f64>) -> bool {
    let Some(last) = windows.len().checked_sub(STABLE_WINDOWS).map(|first| &windows[first..]) else { return false };
    let throughputs = last.iter().map(|window| window.borrow().throughput());
    let latencies = last.iter().map(|window| window.borrow().key_latency_ns(percentile));
    agree(throughputs, share) && agree(latencies, share)
}

fn agree(values: impl Iterator<Item = f64>, share: f64) -> bool {
    let (low, high) = values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
    low > 0.0 && high <= low * (1.0 + share)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::summary::sample::client;

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
    fn nothing_is_never_stable() {
        assert!(!is_stable(&vec![client(0, 0); 3], 0.1, None));
    }
}
