//! The ratio of a figure between two runs.

use crate::statistic::{CONFIDENCE, value};
use crate::stats::{Bounds, CERTAIN_HALF_WIDTH, Clustered, Interval, Proportion, student_t_quantile};
use crate::summary::{AcrossStarts, AtStarts, Bursts, ClientSummary, LevelSummary, Restarts, StatisticEstimate};
use crate::terms::Statistic;

pub use crate::stats::ALIKE_IF_UNKNOWN;

/// A figure of one run: a value above 0 and what is known of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Side {
    /// The value.
    pub value: f64,
    /// How well the run itself knows it.
    pub bounds: Bounds,
    /// Its values at several starts of the server, where there were.
    pub starts: Option<Starts>,
}

/// How a figure differs between starts of a server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Starts {
    /// How many there were, two at least.
    count: f64,
    /// The geometric mean.
    mean: f64,
    /// The standard deviation of the logarithms.
    deviation: f64,
}

impl Starts {
    /// Those of a level that was measured at several; `None` if they tell nothing of how starts differ.
    pub fn new(across_starts: &AcrossStarts) -> Option<Self> {
        Self::of(&across_starts.values)
    }

    /// Those with these values.
    pub fn of(values: &[f64]) -> Option<Self> {
        let logs: Vec<f64> = values.iter().filter(|value| **value > 0.0).map(|value| value.ln()).collect();
        let count = logs.len() as f64;
        if logs.len() < 2 || logs.len() < values.len() {
            return None;
        }
        let mean = logs.iter().sum::<f64>() / count;
        let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
        Some(Self { count, mean: mean.exp(), deviation: (squares / (count - 1.0)).sqrt() })
    }

    /// The variance of their mean.
    fn variance(self) -> f64 {
        self.deviation.powi(2) / self.count
    }
}

/// A figure of one run, and its interval where that is known.
#[derive(Clone, Copy, Debug)]
pub struct Estimate {
    /// A value above 0.
    pub value: f64,
    /// In the same unit.
    pub interval: Option<Interval>,
}

/// The interval of `numerator / denominator`, whose intervals have the same confidence: deviations of
/// logarithms add up as squares, because the runs are independent. `None` if one of the intervals is not known.
///
/// It holds for these two runs: variation between starts of a server is in neither.
pub fn ratio(numerator: Estimate, denominator: Estimate) -> Option<Interval> {
    let side = |Estimate { value, interval }| Side { value, bounds: interval.into(), starts: None };
    let Bounds { low, high } = bounds_of_ratio(&side(numerator), &side(denominator), 1.0).1;
    Some(Interval { low: low?, high: high? })
}

/// The ratio of `numerator` to `denominator`, and its bounds, `wider` times as far away as they are at the usual confidence.
///
/// Where starts of the server are known to differ, for one side or both, a run at one start is one of them: it may be as far
/// off as they are (Kalibera and Jones, "Rigorous Benchmarking in Reasonable Time", 2013). Otherwise it holds for these two
/// runs only.
pub fn bounds_of_ratio(numerator: &Side, denominator: &Side, wider: f64) -> (f64, Bounds) {
    let middle = |side: &Side| side.starts.map_or(side.value, |starts| starts.mean);
    let ratio = middle(numerator) / middle(denominator);
    let far = |numerator_way: Option<f64>, denominator_way: Option<f64>| {
        let (numerator_way, denominator_way) = (numerator_way?, denominator_way?);
        Some(match freedom(numerator, denominator) {
            None => numerator_way.hypot(denominator_way),
            Some(freedom) => {
                let variance = |side: &Side, other: &Side, way: f64| match (side.starts, other.starts) {
                    (Some(starts), _) => starts.variance(),
                    (None, Some(others)) => others.deviation.max(way / CERTAIN_HALF_WIDTH).powi(2),
                    (None, None) => (way / CERTAIN_HALF_WIDTH).powi(2),
                };
                let variance =
                    variance(numerator, denominator, numerator_way) + variance(denominator, numerator, denominator_way);
                student_t_quantile(0.5 + CONFIDENCE / 2.0, freedom) * variance.sqrt()
            }
        })
    };
    let above = far(way_up(numerator), way_down(denominator));
    let below = far(way_down(numerator), way_up(denominator));
    // What is next to nothing on one side allows anything on the other.
    let bound = |way: Option<f64>, sign: f64| {
        let end = ratio * (sign * wider * way?).exp();
        (end.is_finite() && end > 0.0).then_some(end)
    };
    (ratio, Bounds { low: bound(below, -1.0), high: bound(above, 1.0) })
}

/// How far above its value a figure may be, as a logarithm. Where starts tell, the run itself need not.
fn way_up(side: &Side) -> Option<f64> {
    if side.starts.is_some() { Some(0.0) } else { Some((side.bounds.high? / side.value).ln().max(0.0)) }
}

/// How far below it.
fn way_down(side: &Side) -> Option<f64> {
    let low = || side.bounds.low.filter(|low| *low > 0.0);
    if side.starts.is_some() { Some(0.0) } else { Some((side.value / low()?).ln().max(0.0)) }
}

/// The degrees of freedom of what starts say, if there are any: those of Welch (1947) where both sides have them.
fn freedom(numerator: &Side, denominator: &Side) -> Option<f64> {
    match (numerator.starts, denominator.starts) {
        (None, None) => None,
        (Some(starts), None) | (None, Some(starts)) => Some(starts.count - 1.0),
        (Some(first), Some(second)) => {
            let (v, w) = (first.variance(), second.variance());
            let welch = (v + w).powi(2) / (v.powi(2) / (first.count - 1.0) + w.powi(2) / (second.count - 1.0));
            Some(if welch.is_finite() { welch } else { first.count + second.count - 2.0 })
        }
    }
}

/// The figures of a level that is over, or still measured.
#[derive(Clone, Copy)]
pub struct Figures<'a> {
    /// Its requests.
    pub client: &'a ClientSummary,
    /// How well their figures are known.
    pub estimates: &'a [StatisticEstimate],
    /// How many requests count as one in their shares, where that is known.
    pub bursts: Option<Bursts>,
    /// What they are at further starts.
    pub restarts: Option<&'a Restarts>,
    /// And what further figures are at these.
    pub at_starts: &'a [AtStarts],
    /// How often they were looked at.
    pub looks: u32,
}

impl<'a> Figures<'a> {
    /// Those of a level that is over.
    pub fn new(level: &'a LevelSummary) -> Self {
        let LevelSummary { client, intervals, bursts, restarts, at_starts, looks, .. } = level;
        Self { client, estimates: intervals, bursts: *bursts, restarts: restarts.as_ref(), at_starts, looks: *looks }
    }

    /// One of them, as one side of a ratio; `None` where nothing is known of it, or there is no ratio to it.
    pub fn side(&self, statistic: Statistic) -> Option<Side> {
        let bounds = match StatisticEstimate::find(self.estimates, statistic) {
            Some(interval) => Some(interval).into(),
            None => self.bounds(statistic),
        };
        let across_starts =
            self.restarts.and_then(|all| all.figures.iter().find(|figure| figure.statistic == statistic));
        let side = Side { value: value(statistic, self.client), bounds, starts: across_starts.and_then(Starts::new) };
        (side.value > 0.0 && (side.starts.is_some() || side.bounds != Bounds::default())).then_some(side)
    }

    /// The bounds of a figure. A rate is known by the number of its requests, where nothing else tells: so many alike.
    pub fn bounds(&self, statistic: Statistic) -> Bounds {
        let bounds = StatisticEstimate::find_bounds(self.estimates, statistic);
        let independent = self.client.requests as f64 / ALIKE_IF_UNKNOWN;
        if statistic != Statistic::Throughput || bounds != Bounds::default() || independent < 1.0 {
            return bounds;
        }
        let (rate, factor) = (value(statistic, self.client), (CERTAIN_HALF_WIDTH / independent.sqrt()).exp());
        Bounds { low: Some(rate / factor), high: Some(rate * factor) }
    }

    /// What a figure is over all starts, if there were several: what one of them was is not what another will be.
    pub fn over_starts(&self, statistic: Statistic) -> Option<&'a AcrossStarts> {
        let starts = self.restarts.filter(|all| all.starts > 1)?;
        starts.figures.iter().find(|figure| figure.statistic == statistic)
    }

    /// The same of a further figure, which has this key.
    pub fn at_starts(&self, key: &str) -> Option<&'a AtStarts> {
        self.at_starts.iter().find(|figure| figure.key == key && figure.values.len() > 1)
    }

    /// The share of failures among requests, at all starts.
    pub fn failures(&self) -> Clustered {
        if let Some(share) = self.at_starts("errors").and_then(AtStarts::share) {
            return share;
        }
        let proportion = Proportion { hits: self.client.failed, all: self.client.requests + self.client.failed };
        proportion.in_clusters(self.bursts.map_or(ALIKE_IF_UNKNOWN, |bursts| bursts.failed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terms::Statistic;

    #[test]
    fn deviations_of_both_sides_count() {
        let estimate = |value, low, high| Estimate { value, interval: Some(Interval { low, high }) };
        let interval = ratio(estimate(110.0, 110.0, 110.0), estimate(100.0, 100.0, 100.0)).unwrap();
        assert!((interval.low - 1.1).abs() < 1e-12 && (interval.high - 1.1).abs() < 1e-12);
        let interval = ratio(estimate(100.0, 90.0, 112.0), estimate(100.0, 95.0, 105.0)).unwrap();
        assert!(
            interval.low < 0.9 && interval.low > 0.85 && interval.high > 1.12 && interval.high < 1.17,
            "{interval:?}"
        );
        assert_eq!(ratio(Estimate { value: 1.0, interval: None }, estimate(1.0, 1.0, 1.0)), None);
        assert_eq!(ratio(estimate(0.0, 0.0, 1.0), estimate(1.0, 1.0, 1.0)), None);
        assert_eq!(
            ratio(estimate(1.0, 1.0, 1.0), estimate(1.0, 5e-324, 1.0)),
            None,
            "no number tells how much that is"
        );
    }

    fn run(value: f64, share: f64) -> Side {
        let bounds = Bounds { low: Some(value / (1.0 + share)), high: Some(value * (1.0 + share)) };
        Side { value, bounds, starts: None }
    }

    fn starts(values: &[f64]) -> Option<Starts> {
        let statistic = Statistic::MeanLatency;
        Starts::new(&AcrossStarts { statistic, values: values.to_vec(), mean: 0.0, interval: None, share: None })
    }

    #[test]
    fn a_run_at_one_start_may_be_as_far_off_as_starts_are() {
        let baseline = Side { starts: starts(&[98.0, 100.0, 102.0, 99.0, 101.0]), ..run(98.0, 0.001) };
        let (value, bounds) = bounds_of_ratio(&run(100.0, 0.001), &baseline, 1.0);
        assert!((value - 1.0).abs() < 1e-3, "the starts' mean is the baseline's value: {value}");
        // Deviation 1.58 %, once for the run and once more for the mean of five; t(0.975, 4) = 2.776.
        assert!((bounds.high.unwrap().ln() - 2.776 * 0.0158 * 1.2_f64.sqrt()).abs() < 2e-3, "{bounds:?}");
        // A run that knows itself less well than starts differ is less sure.
        let (_, wide) = bounds_of_ratio(&run(100.0, 0.1), &baseline, 1.0);
        assert!(wide.high > bounds.high && wide.low < bounds.low);
        let restarted = Side { starts: starts(&[99.0, 101.0, 100.0]), ..run(99.0, 0.001) };
        let (_, narrow) = bounds_of_ratio(&restarted, &baseline, 1.0);
        assert!(narrow.high < bounds.high, "{narrow:?}");
        assert_eq!((starts(&[1.0]), starts(&[1.0, 0.0])), (None, None));
        let unknown = Side { bounds: Bounds::default(), ..run(100.0, 0.0) };
        assert_eq!(bounds_of_ratio(&unknown, &baseline, 1.0).1, Bounds::default());
    }

    #[test]
    fn one_side_of_each_is_enough_for_one_side_of_the_ratio() {
        let numerator = Side { bounds: Bounds { low: None, high: Some(110.0) }, ..run(100.0, 0.0) };
        let denominator = Side { bounds: Bounds { low: Some(90.0), high: None }, ..run(100.0, 0.0) };
        let (_, bounds) = bounds_of_ratio(&numerator, &denominator, 1.0);
        assert!(bounds.low.is_none() && bounds.high.is_some_and(|high| high > 1.1 && high < 1.2), "{bounds:?}");
        let (_, wider) = bounds_of_ratio(&numerator, &denominator, 1.5);
        assert!(wider.high > bounds.high);
    }
}
