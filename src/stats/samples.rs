//! What measured figures say about each other: agreement with Little's law.

/// How far three measured figures are from Little's law, L = λW: `λW / L - 1`. `outstanding` is the mean number of requests
/// under way, `rate` requests a second, `latency_s` the mean time that one takes in seconds. `None` if nothing was
/// under way.
pub fn littles_law_gap(outstanding: f64, rate: f64, latency_s: f64) -> Option<f64> {
    (outstanding > 0.0).then(|| rate * latency_s / outstanding - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn littles_law_by_hand() {
        assert_eq!(littles_law_gap(4.0, 800.0, 0.005), Some(0.0));
        assert!((littles_law_gap(4.0, 700.0, 0.005).unwrap() + 0.125).abs() < 1e-12);
        assert_eq!(littles_law_gap(0.0, 1.0, 1.0), None);
    }
}
