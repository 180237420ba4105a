//! A figure of a level at each of several starts of the model: what one of them was is not what another will be.

use crate::statistic::CONFIDENCE;
use crate::stats::{Clustered, Interval, Part, Proportion, as_one, batch_means, share_interval};
use crate::summary::AtStarts;

impl AtStarts {
    /// Its value over all starts.
    pub fn value(&self) -> f64 {
        let mean = || self.values.iter().sum::<f64>() / self.values.len().max(1) as f64;
        self.share().map_or_else(mean, |share| share.proportion.share())
    }

    /// Interval for its value at another start, with neither end below 0.
    pub fn interval(&self) -> Option<Interval> {
        match self.share() {
            Some(share) => share_interval(share, CONFIDENCE),
            None => batch_means(&self.values, CONFIDENCE)
                .map(|interval| Interval { low: interval.low.max(0.0), ..interval }),
        }
    }

    /// The share of all starts together, if it is one. As many requests count as one as within a start, or as the starts differ.
    pub fn share(&self) -> Option<Clustered> {
        let cases = self.cases.as_ref()?;
        let part = |(value, all): (&f64, &u64)| {
            let hits = (value * *all as f64).round() as u64;
            Part { seconds: 1.0, proportion: Proportion { hits, all: *all } }
        };
        let parts: Vec<Part> = self.values.iter().zip(cases).map(part).collect();
        let sum = |count: fn(&Proportion) -> u64| parts.iter().map(|part| count(&part.proportion)).sum();
        let all = Proportion { hits: sum(|proportion| proportion.hits), all: sum(|proportion| proportion.all) };
        Some(all.in_clusters(self.as_one.max(as_one(&parts))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(values: &[f64], cases: Option<&[u64]>) -> AtStarts {
        AtStarts { key: "x".to_owned(), values: values.to_vec(), cases: cases.map(<[u64]>::to_vec), as_one: 1.0 }
    }

    #[test]
    fn a_share_is_that_of_all_requests_and_as_uncertain_as_starts_differ() {
        let width = |share: &AtStarts| share.interval().map(|interval| interval.high - interval.low).unwrap();
        let alike = at(&[0.01, 0.012, 0.011], Some(&[2_000, 2_000, 2_000]));
        assert!((alike.value() - 0.011).abs() < 1e-9);
        let apart = at(&[0.0, 0.0, 0.033], Some(&[2_000, 2_000, 2_000]));
        assert!((apart.value() - 0.011).abs() < 1e-9 && width(&apart) > 3.0 * width(&alike), "{apart:?}");
        // None of 6000, whichever starts they are of.
        let none = at(&[0.0; 3], Some(&[2_000; 3])).interval().unwrap();
        assert!(none.low == 0.0 && none.high < 0.000_7, "{none:?}");
        let weighed = at(&[0.1, 0.0], Some(&[100, 900]));
        assert!((weighed.value() - 0.01).abs() < 1e-9, "{}", weighed.value());
    }

    #[test]
    fn other_figures_are_their_mean() {
        let times = at(&[9.0, 10.0, 11.0], None);
        // Standard deviation 1, t(0.975, 2) = 4.30265.
        let interval = times.interval().unwrap();
        assert!(times.value() == 10.0 && (interval.high - 12.484).abs() < 0.001, "{interval:?}");
        assert!(at(&[1.0, 100.0], None).interval().unwrap().low == 0.0 && times.share().is_none());
    }
}
