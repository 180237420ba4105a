//! Confidence intervals of percentiles and of means.

use hdrhistogram::Histogram;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{beta_cdf, student_t_quantile};

/// A confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Half the width, as a share of `estimate`; infinite where the estimate is not above 0.
    pub fn relative_half_width(&self, estimate: f64) -> f64 {
        if estimate > 0.0 { (self.high - self.low) / 2.0 / estimate } else { f64::INFINITY }
    }
}

/// One-sided bounds of a value. Each holds by itself with the confidence that it was made for; one that is not known is
/// absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bounds {
    /// The value is this large at least.
    pub low: Option<f64>,
    /// The value is this large at most.
    pub high: Option<f64>,
}

impl Bounds {
    /// What more than half of these bounds of one value say: each side is the farthest that so many of them keep.
    pub fn of_most(all: &[Self]) -> Self {
        let farthest = |mut sides: Vec<f64>| {
            sides.sort_by(f64::total_cmp);
            sides.get(sides.len() / 2).copied().filter(|side| side.is_finite())
        };
        let lows = all.iter().map(|bounds| -bounds.low.unwrap_or(f64::NEG_INFINITY)).collect();
        let highs = all.iter().map(|bounds| bounds.high.unwrap_or(f64::INFINITY)).collect();
        Self { low: farthest(lows).map(|low| -low), high: farthest(highs) }
    }
}

impl From<Option<Interval>> for Bounds {
    /// Each end of an interval holds by itself.
    fn from(interval: Option<Interval>) -> Self {
        Self { low: interval.map(|interval| interval.low), high: interval.map(|interval| interval.high) }
    }
}

/// How many independent samples a histogram is worth, whole or not (its effective sample size), for each end of what it
/// tells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EffectiveSize {
    /// For the lower end.
    pub low: f64,
    /// For the upper one.
    pub high: f64,
}

impl EffectiveSize {
    /// The same for both ends.
    pub fn of_both(samples: f64) -> Self {
        Self { low: samples, high: samples }
    }
}

/// Interval of a percentile (0 to 100) from order statistics: where the sample of rank `r` among `n` lies in its distribution
/// is a beta variable of `r` and `n + 1 - r`, whatever the distribution, which tells the ranks between which the percentile
/// lies (Hahn and Meeker, Statistical Intervals, 1991, section 5.2).
///
/// `confidence` is such as 0.95.
/// `None` if there are too few samples for a two-sided interval.
pub fn percentile_interval(
    values: &Histogram<u64>,
    percentile: f64,
    effective: EffectiveSize,
    confidence: f64,
) -> Option<Interval> {
    let p = percentile / 100.0;
    if values.is_empty() || effective.low.min(effective.high) < 1.0 || !(p > 0.0 && p < 1.0) {
        return None;
    }
    let tail = (1.0 - confidence) / 2.0;
    let (low, high) = (rank(effective.low, p, 1.0 - tail), rank(effective.high, p, tail));
    if low < 1.0 || high > effective.high {
        return None;
    }
    let count = values.len() as f64;
    let position = |rank: f64, size: f64| (rank / (size + 1.0) * (count + 1.0)).round().clamp(1.0, count);
    let at = |rank, size| values.value_at_quantile(position(rank, size) / count);
    let (low, high) = (at(low, effective.low), at(high, effective.high));
    Some(Interval { low: values.lowest_equivalent(low) as f64, high: values.highest_equivalent(high) as f64 })
}

/// One-sided bounds of a percentile (0 to 100) by counting: with this confidence no more of all latencies than the percentile
/// allows are above the upper one, and no fewer above the lower one (Clopper and Pearson, 1934).
pub fn percentile_bounds(
    values: &Histogram<u64>,
    percentile: f64,
    effective: EffectiveSize,
    confidence: f64,
) -> Bounds {
    let (p, count) = (percentile / 100.0, values.len() as f64);
    if values.is_empty() || !(p > 0.0 && p < 1.0) {
        return Bounds::default();
    }
    let at = |position: f64| values.value_at_quantile(position.clamp(1.0, count) / count);
    // Of so many independent samples, this many are above the bound, or below it; of all there are more in proportion.
    let share = |beyond: f64, size: f64| (beyond / size * count).floor();
    let EffectiveSize { low: of_low, high: of_high } = effective;
    let below = (of_low >= 1.0).then(|| rank(of_low, p, confidence) - 1.0).filter(|below| *below >= 0.0);
    let above = (of_high >= 1.0).then(|| of_high - rank(of_high, p, 1.0 - confidence)).filter(|above| *above >= 0.0);
    Bounds {
        low: below.map(|below| values.lowest_equivalent(at(share(below, of_low) + 1.0)) as f64),
        high: above.map(|above| values.highest_equivalent(at(count - share(above, of_high))) as f64),
    }
}

/// The rank at which the sample, of `n` independent ones, is below percentile `p` with this probability.
fn rank(n: f64, p: f64, probability: f64) -> f64 {
    let (mut low, mut high) = (0.0, n + 1.0);
    for _ in 0..40 {
        let middle = 0.5 * (low + high);
        if beta_cdf(p, middle, n + 1.0 - middle) > probability { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

/// Interval of the mean of a process from the means of consecutive batches, such as windows: batches that are long enough
/// are nearly independent even where neighbouring samples are not (Law and Kelton, Simulation Modeling, section 9.5.3).
/// `None` with fewer than two batches.
pub fn batch_means(means: &[f64], confidence: f64) -> Option<Interval> {
    let n = means.len() as f64;
    if means.len() < 2 {
        return None;
    }
    let mean = means.iter().sum::<f64>() / n;
    let variance = means.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let half_width = student_t_quantile(0.5 + confidence / 2.0, n - 1.0) * (variance / n).sqrt();
    Some(Interval { low: mean - half_width, high: mean + half_width })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_of_several_bounds_are_kept() {
        let of = |low, high| Bounds { low: Some(low), high: Some(high) };
        let most = |all: &[Bounds]| Bounds::of_most(all);
        assert_eq!(most(&[of(1.0, 2.0)]), of(1.0, 2.0));
        assert_eq!(most(&[of(1.0, 2.0), of(0.5, 3.0)]), of(0.5, 3.0), "of two both");
        assert_eq!(most(&[of(1.0, 2.0), of(5.0, 6.0), of(0.5, 3.0)]), of(1.0, 3.0));
        assert_eq!(most(&[of(1.0, 2.0), Bounds::default()]), Bounds::default());
        assert_eq!(most(&[of(1.0, 2.0), Bounds::default(), of(0.0, 2.5)]), of(0.0, 2.5));
        assert_eq!(most(&[]), Bounds::default());
    }
    use crate::seed::{hash, unit};

    fn covers(interval: Interval, value: f64) -> bool {
        (interval.low..=interval.high).contains(&value)
    }

    fn sample(values: impl Iterator<Item = u64>) -> Histogram<u64> {
        let mut histogram = Histogram::<u64>::new(5).unwrap();
        values.for_each(|value| histogram.record(value).unwrap());
        histogram
    }

    #[test]
    fn median_of_ten_is_between_the_second_and_the_ninth() {
        // Standard table: ranks 2 and 9 cover the median of 10 with 97.9 %, 3 and 8 with 89.1 %.
        let interval = percentile_interval(&sample(1..=10), 50.0, EffectiveSize::of_both(10.0), 0.95).unwrap();
        assert_eq!(interval, Interval { low: 2.0, high: 9.0 });
    }

    #[test]
    fn too_few_samples_have_no_interval() {
        assert_eq!(percentile_interval(&sample(1..=5), 50.0, EffectiveSize::of_both(5.0), 0.95), None);
        assert_eq!(percentile_interval(&sample(1..=300), 99.0, EffectiveSize::of_both(300.0), 0.95), None);
        assert_eq!(percentile_interval(&sample(std::iter::empty()), 50.0, EffectiveSize::of_both(0.0), 0.95), None);
        assert_eq!(percentile_interval(&sample(1..=300), 100.0, EffectiveSize::of_both(300.0), 0.95), None);
    }

    #[test]
    fn fewer_effective_samples_widen_it() {
        let values = sample(1..=100_000);
        let independent = percentile_interval(&values, 90.0, EffectiveSize::of_both(100_000.0), 0.95).unwrap();
        let correlated = percentile_interval(&values, 90.0, EffectiveSize::of_both(1_000.0), 0.95).unwrap();
        assert!(covers(independent, 90_000.0) && covers(correlated, 90_000.0));
        assert!((independent.relative_half_width(90_000.0) - 1.96 * 0.3 / 0.9 / 100_000_f64.sqrt()).abs() < 1e-4);
        assert!(correlated.relative_half_width(90_000.0) > 9.0 * independent.relative_half_width(90_000.0));
        let combined =
            percentile_interval(&values, 90.0, EffectiveSize { low: 100_000.0, high: 1_000.0 }, 0.95).unwrap();
        assert_eq!(combined, Interval { low: independent.low, high: correlated.high });
    }

    #[test]
    fn it_covers_the_truth_as_often_as_it_promises() {
        let covered = |run: u64| {
            let mut values = Histogram::<u64>::new(3).unwrap();
            (0..500).for_each(|i| values.record((unit(hash(run, i)) * 1e6) as u64 + 1).unwrap());
            covers(percentile_interval(&values, 95.0, EffectiveSize::of_both(500.0), 0.95).unwrap(), 950_000.0)
        };
        let hits = (0..1000).filter(|&run| covered(run)).count();
        assert!((935..=985).contains(&hits), "{hits} of 1000");
    }

    #[test]
    fn batch_means_by_hand() {
        // Mean 10, standard deviation 1, t(0.975, 2) = 4.30265: half width 4.30265 / sqrt 3.
        let interval = batch_means(&[9.0, 10.0, 11.0], 0.95).unwrap();
        assert!((interval.high - 10.0 - 2.484_138).abs() < 1e-5);
        assert!((interval.low + interval.high - 20.0).abs() < 1e-9);
        assert_eq!(batch_means(&[5.0], 0.95), None);
        assert_eq!(Interval { low: 0.0, high: 1.0 }.relative_half_width(0.0), f64::INFINITY);
    }
}
