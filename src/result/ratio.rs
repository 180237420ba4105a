//! The ratio of a figure between two runs.

use crate::stats::Interval;

/// The interval of `own / theirs`, each a value above 0 and its interval at the same confidence: deviations of
/// logarithms add up as squares, because the runs are independent. `None` if one of the intervals is not known.
///
/// It holds for these two runs: variation between starts of a server is in neither.
pub fn ratio(own: (f64, Option<Interval>), theirs: (f64, Option<Interval>)) -> Option<Interval> {
    let ((own, own_known), (theirs, their_known)) = (own, theirs);
    let (own_known, their_known) = (own_known?, their_known?);
    if own <= 0.0 || theirs <= 0.0 || own_known.low <= 0.0 || their_known.low <= 0.0 {
        return None;
    }
    let middle = (own / theirs).ln();
    let below = (own / own_known.low).ln().hypot((their_known.high / theirs).ln());
    let above = (own_known.high / own).ln().hypot((theirs / their_known.low).ln());
    let interval = Interval { low: (middle - below).exp(), high: (middle + above).exp() };
    // What is next to nothing on one side allows anything on the other.
    (interval.low.is_finite() && interval.high.is_finite()).then_some(interval)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviations_of_both_sides_count() {
        let known = |low, high| Some(Interval { low, high });
        let interval = ratio((110.0, known(110.0, 110.0)), (100.0, known(100.0, 100.0))).unwrap();
        assert!((interval.low - 1.1).abs() < 1e-12 && (interval.high - 1.1).abs() < 1e-12);
        let interval = ratio((100.0, known(90.0, 112.0)), (100.0, known(95.0, 105.0))).unwrap();
        assert!(
            interval.low < 0.9 && interval.low > 0.85 && interval.high > 1.12 && interval.high < 1.17,
            "{interval:?}"
        );
        assert_eq!(ratio((1.0, None), (1.0, known(1.0, 1.0))), None);
        assert_eq!(ratio((0.0, known(0.0, 1.0)), (1.0, known(1.0, 1.0))), None);
        assert_eq!(ratio((1.0, known(1.0, 1.0)), (1.0, known(5e-324, 1.0))), None, "no number tells how much that is");
    }
}
