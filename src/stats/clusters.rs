//! Shares of what comes together: requests that fail do so in bursts, while a server is away or full.
//!
//! How much the parts of a run differ in their share tells how many requests count as one, as for a percentile. Where parts
//! differ no more than by chance, it is by how much they do; else the slow waves tell, which see bursts longer than a part.

use crate::{CERTAIN_HALF_WIDTH, Interval, MIN_TERMS, beta_cdf, half_width, student_t_quantile, variance_of_sum};

/// So few parts do not tell what neighbours have in common: this many requests count as one.
pub const ALIKE_IF_UNKNOWN: f64 = 3.0;
/// Parts of independent requests differ by more than this many standard deviations in one case of a hundred.
const BY_CHANCE: f64 = 2.5;
/// Halvings of a bracket: finer than a share is known.
const HALVINGS: usize = 60;

/// So many of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proportion {
    /// Those that are meant.
    pub hits: u64,
    /// How many there are of all kinds.
    pub all: u64,
}

impl Proportion {
    /// The share of the hits; 0 of none.
    pub fn share(self) -> f64 {
        self.hits as f64 / self.all.max(1) as f64
    }

    /// The same, of which so many count as one. All of the rarer kind are one at most.
    pub fn in_clusters(self, as_one: f64) -> Clustered {
        let rarer = self.hits.min(self.all.saturating_sub(self.hits));
        Clustered { proportion: self, as_one: as_one.clamp(1.0, rarer.max(1) as f64) }
    }
}

/// So many of all, which come together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clustered {
    /// How many they are.
    pub proportion: Proportion,
    /// How many of them count as one.
    as_one: f64,
}

impl From<Proportion> for Clustered {
    /// Each comes by itself.
    fn from(proportion: Proportion) -> Self {
        proportion.in_clusters(1.0)
    }
}

/// A part of a run.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// How long it was.
    pub seconds: f64,
    /// What it has of both.
    pub proportion: Proportion,
}

/// How many requests count as one in a share, by how much the parts of a run differ in it: 1 if each comes by itself, or none is
/// of the rarer kind.
pub fn as_one(parts: &[Part]) -> f64 {
    let sum = |count: fn(&Proportion) -> u64| parts.iter().map(|part| count(&part.proportion) as f64).sum::<f64>();
    let (hits, all) = (sum(|proportion| proportion.hits), sum(|proportion| proportion.all));
    let (share, rarer) = (hits / all, hits.min(all - hits));
    if all <= 0.0 || rarer < 1.0 {
        return 1.0;
    }
    let independent = all * share * (1.0 - share);
    let excess = |part: &Part| (part.seconds, part.proportion.hits as f64 - share * part.proportion.all as f64);
    let excess: Vec<(f64, f64)> = parts.iter().map(excess).collect();
    let count = excess.len() as f64;
    let squares: f64 = excess.iter().map(|(_, value)| value * value).sum();
    let times = squares / independent * count / (count - 1.0);
    let counted = if excess.len() < MIN_TERMS {
        of_few(times, count)
    } else if times <= 1.0 + BY_CHANCE * ((2.0 + count / rarer) / count).sqrt() {
        times
    } else {
        // Its widening of intervals is compensated, so that others may take the number for certain.
        let estimate = CERTAIN_HALF_WIDTH / half_width(excess.len(), usize::MAX);
        times.max(variance_of_sum(&excess, usize::MAX) / independent / estimate.powi(2))
    };
    counted.clamp(1.0, rarer)
}

/// By how few parts differ, raised by how little they tell of that: as an interval of Student's t is wider than one whose
/// deviation is certain.
fn of_few(times: f64, count: f64) -> f64 {
    if count < 2.0 {
        return f64::INFINITY;
    }
    let wider = student_t_quantile(0.975, count - 1.0) / student_t_quantile(0.975, 1e7);
    ALIKE_IF_UNKNOWN.max(times * wider.powi(2))
}

/// Interval of a share by counting (Clopper and Pearson, 1934), at a `confidence` such as 0.95. `None` if there are no cases.
///
/// Each end is wrong at most as often as it says: of few that are rare, the lower end of Wilson's interval is wrong in one case
/// of six.
pub fn share_interval(share: Clustered, confidence: f64) -> Option<Interval> {
    let Clustered { proportion: Proportion { hits, all }, as_one } = share;
    if all == 0 {
        return None;
    }
    let (tail, hits_alone, all_alone) = ((1.0 - confidence) / 2.0, hits as f64 / as_one, all as f64 / as_one);
    let missed = all_alone - hits_alone;
    let low = if hits == 0 { 0.0 } else { share_at(tail, hits_alone, missed + 1.0) };
    let high = if hits >= all { 1.0 } else { share_at(1.0 - tail, hits_alone + 1.0, missed) };
    Some(Interval { low, high })
}

/// The share that a beta variable with these parameters stays below with that probability.
fn share_at(probability: f64, a: f64, b: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..HALVINGS {
        let middle = 0.5 * (low + high);
        if beta_cdf(middle, a, b) < probability { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

/// Interval of how much larger the share of `sample` is than that of `reference` (after Newcombe 1998, method 10: from the
/// intervals of both). `None` if one side has no cases.
pub fn share_difference(sample: Clustered, reference: Clustered, confidence: f64) -> Option<Interval> {
    let (p, q) = (sample.proportion.share(), reference.proportion.share());
    let (sample, reference) = (share_interval(sample, confidence)?, share_interval(reference, confidence)?);
    let below = (p - sample.low).hypot(reference.high - q);
    let above = (sample.high - p).hypot(q - reference.low);
    Some(Interval { low: p - q - below, high: p - q + above })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::{hash, unit};

    fn of(hits: u64, all: u64) -> Clustered {
        Proportion { hits, all }.into()
    }

    #[test]
    fn shares_are_those_of_tables() {
        // No failure among 1000: 1 - 0.025^(1/1000).
        let none = share_interval(of(0, 1_000), 0.95).unwrap();
        assert!(none.low == 0.0 && (none.high - 0.003_682).abs() < 1e-6, "{none:?}");
        let some = share_interval(of(10, 100), 0.95).unwrap();
        assert!((some.low - 0.0490).abs() < 1e-4 && (some.high - 0.1762).abs() < 1e-4, "{some:?}");
        assert_eq!(share_interval(of(0, 0), 0.95), None);
        assert_eq!(share_interval(of(7, 7), 0.95).unwrap().high, 1.0);
        // Ten that come together are one.
        let one = share_interval(Proportion { hits: 100, all: 1_000 }.in_clusters(10.0), 0.95).unwrap();
        assert!((one.low - some.low).abs() < 1e-9 && (one.high - some.high).abs() < 1e-9, "{one:?}");
        assert_eq!(Proportion { hits: 3, all: 1_000 }.in_clusters(10.0).as_one, 3.0);
    }

    #[test]
    fn differences_of_shares_hold_newcombes() {
        // Newcombe's example (a): 56/70 against 48/80, from Wilson's intervals: 0.0524 to 0.3339.
        let interval = share_difference(of(56, 70), of(48, 80), 0.95).unwrap();
        assert!(interval.low > 0.03 && interval.low < 0.0524, "{interval:?}");
        assert!(interval.high > 0.3339 && interval.high < 0.35, "{interval:?}");
        assert_eq!(share_difference(of(0, 0), of(1, 2), 0.95), None);
    }

    /// How many count as one in so many parts of 100 requests, of which one in twenty begins a burst of `burst` failures.
    fn found(parts: u64, burst: u64, seed: u64) -> f64 {
        let mut left = 0;
        let parts: Vec<Part> = (0..parts)
            .map(|part| {
                let failed = (0..100).filter(|request| {
                    let begins = unit(hash(seed, part * 100 + request)) < 0.05 / burst as f64;
                    left = if begins { burst } else { left };
                    let fails = left > 0;
                    left = left.saturating_sub(1);
                    fails
                });
                Part { seconds: 0.1, proportion: Proportion { hits: failed.count() as u64, all: 100 } }
            })
            .collect();
        as_one(&parts)
    }

    #[test]
    fn what_comes_together_counts_as_one() {
        let mean = |parts, burst| (0..300).map(|seed| found(parts, burst, seed)).sum::<f64>() / 300.0;
        // With nothing in common hardly any are lost; of few parts that cannot be told.
        assert!(mean(48, 1) < 1.2 && mean(7, 1) < 1.4, "{} {}", mean(48, 1), mean(7, 1));
        assert!(mean(6, 1) >= ALIKE_IF_UNKNOWN && mean(1, 1) > ALIKE_IF_UNKNOWN);
        // Bursts of 20 within a part, and of 400 over four of them.
        let (short, long) = (mean(48, 20), mean(480, 400));
        assert!(short > 15.0 && short < 40.0 && long > 250.0 && long < 900.0, "{short} {long}");
        assert_eq!(as_one(&[]), 1.0);
    }
}
