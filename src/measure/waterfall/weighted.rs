//! Statistics of values that stand for different numbers of requests.

/// The weighted mean; 0 of nothing.
pub(super) fn mean(values: impl Iterator<Item = (u64, f64)>) -> f64 {
    let (sum, weight) =
        values.fold((0.0, 0.0), |(sum, all), (value, weight)| (sum + value as f64 * weight, all + weight));
    if weight > 0.0 { sum / weight } else { 0.0 }
}

/// For each percentile, ascending, the smallest value at or below which that share of the weight lies; 0 of nothing.
pub(super) fn percentiles<const N: usize>(mut values: Vec<(u64, f64)>, at: [f64; N]) -> [u64; N] {
    values.sort_unstable_by_key(|(value, _)| *value);
    let all: f64 = values.iter().map(|(_, weight)| weight).sum();
    let (mut below, mut next) = (0.0, 0);
    at.map(|percentile| {
        let wanted = all * percentile / 100.0;
        while next + 1 < values.len() && below + values[next].1 < wanted * (1.0 - 1e-12) {
            below += values[next].1;
            next += 1;
        }
        values.get(next).map_or(0, |(value, _)| *value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_weights_are_nearest_ranks() {
        let values = (1..=100).rev().map(|value| (value, 1.0)).collect();
        assert_eq!(percentiles(values, [50.0, 90.0, 95.0, 99.0]), [50, 90, 95, 99]);
        assert_eq!(percentiles(vec![(7, 3.0)], [50.0, 99.0]), [7, 7]);
        assert_eq!(percentiles(Vec::new(), [50.0]), [0]);
    }

    #[test]
    fn a_value_counts_as_often_as_it_stands_for() {
        let values = vec![(10, 1.0), (20, 97.0), (1_000, 2.0)];
        assert_eq!(percentiles(values.clone(), [1.0, 50.0, 98.0, 99.0]), [10, 20, 20, 1_000]);
        assert!((mean(values.into_iter()) - 39.5).abs() < 1e-9);
    }
}
