//! Server-side counters of models: cumulative snapshots as Triton reports them, and differences between two of them.

use std::collections::BTreeMap;
use std::ops::Add;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ModelId;

/// Limit on the batch sizes accepted for one model in one answer.
pub const MAX_BATCHES: usize = 10_000;

/// A count of events and the time they took together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CountedTime {
    /// Events.
    pub count: u64,
    /// Their summed duration in nanoseconds.
    pub ns: u64,
}

impl CountedTime {
    /// Mean duration in whole microseconds, rounded down: `ns / (count * 1000)`; 0 if nothing was counted.
    pub fn average_us(self) -> u64 {
        self.ns.checked_div(self.count.saturating_mul(1_000)).unwrap_or(0)
    }

    /// The difference to `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self { count: growth(earlier.count, self.count), ns: growth(earlier.ns, self.ns) }
    }
}

impl Add for CountedTime {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { count: self.count.saturating_add(other.count), ns: self.ns.saturating_add(other.ns) }
    }
}

/// Cumulative counters of one version of one model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelStatistics {
    /// Inferences: requests times batch size.
    pub inferences: u64,
    /// Executions of the model, each of one or more requests.
    pub executions: u64,
    /// Successful requests, from reception to response.
    pub success: CountedTime,
    /// Failed requests.
    pub fail: CountedTime,
    /// Waiting for an instance.
    pub queue: CountedTime,
    /// Preparing inputs.
    pub compute_input: CountedTime,
    /// Running the model.
    pub compute_infer: CountedTime,
    /// Extracting outputs.
    pub compute_output: CountedTime,
    /// Answers from the response cache: lookup time.
    pub cache_hit: CountedTime,
    /// Misses of the response cache: lookup and insertion time.
    pub cache_miss: CountedTime,
    /// Executions by the size of their batch, in inferences.
    #[serde(default)]
    pub batches: BTreeMap<u64, u64>,
}

impl ModelStatistics {
    /// The difference to `earlier`, field by field; a field that seems to have shrunk, or to have grown by 2^63 or more
    /// (a backend reported an end before a start, or the server was restarted), counts as 0.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            inferences: growth(earlier.inferences, self.inferences),
            executions: growth(earlier.executions, self.executions),
            success: self.success.since(earlier.success),
            fail: self.fail.since(earlier.fail),
            queue: self.queue.since(earlier.queue),
            compute_input: self.compute_input.since(earlier.compute_input),
            compute_infer: self.compute_infer.since(earlier.compute_infer),
            compute_output: self.compute_output.since(earlier.compute_output),
            cache_hit: self.cache_hit.since(earlier.cache_hit),
            cache_miss: self.cache_miss.since(earlier.cache_miss),
            batches: (self.batches.iter())
                .map(|(size, now)| (*size, growth(earlier.batches.get(size).copied().unwrap_or(0), *now)))
                .filter(|(_, executions)| *executions > 0)
                .collect(),
        }
    }

    /// The sum of two servers' counters, field by field.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let mut batches = self.batches.clone();
        other.batches.iter().for_each(|(size, count)| *batches.entry(*size).or_default() += count);
        Self {
            inferences: self.inferences.saturating_add(other.inferences),
            executions: self.executions.saturating_add(other.executions),
            success: self.success + other.success,
            fail: self.fail + other.fail,
            queue: self.queue + other.queue,
            compute_input: self.compute_input + other.compute_input,
            compute_infer: self.compute_infer + other.compute_infer,
            compute_output: self.compute_output + other.compute_output,
            cache_hit: self.cache_hit + other.cache_hit,
            cache_miss: self.cache_miss + other.cache_miss,
            batches,
        }
    }

    /// Input, infer and output time together, per computed request: the sum of the times, and the count of inputs.
    pub fn compute(&self) -> CountedTime {
        let ns = self.compute_input.ns.saturating_add(self.compute_infer.ns).saturating_add(self.compute_output.ns);
        CountedTime { count: self.compute_input.count, ns }
    }

    /// Compute and cache time together, per request that was computed or answered from the cache.
    pub fn compute_or_cache(&self) -> CountedTime {
        let compute = self.compute();
        let ns = compute.ns.saturating_add(self.cache_hit.ns).saturating_add(self.cache_miss.ns);
        CountedTime { count: compute.count.saturating_add(self.cache_hit.count), ns }
    }
}

/// Counters of all models that were asked about, keyed by name and version as the server writes them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatisticsSnapshot {
    /// By (name, version).
    pub models: BTreeMap<(String, String), ModelStatistics>,
}

impl StatisticsSnapshot {
    /// What every model counted since `earlier`; a model that was not there counted from 0.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let nothing = ModelStatistics::default();
        let models = self.models.iter().map(|(key, now)| {
            let before = earlier.models.get(key).unwrap_or(&nothing);
            (key.clone(), now.since(before))
        });
        Self { models: models.collect() }
    }

    /// Adds every model of `other`; a model that both contain keeps `other`'s counters.
    pub fn absorb(&mut self, other: Self) {
        self.models.extend(other.models);
    }

    /// The sum of two servers' counters, model by model.
    #[must_use]
    pub fn plus(mut self, other: Self) -> Self {
        for (key, counters) in other.models {
            let sum = self.models.entry(key).or_default();
            *sum = sum.plus(&counters);
        }
        self
    }

    /// Keeps only the models `ids`, if it has counters of each.
    pub fn only(mut self, ids: &[&ModelId]) -> Option<Self> {
        let is = |id: &ModelId, name: &str, version: &str| {
            id.name == name && id.version.is_none_or(|wanted| version.parse() == Ok(wanted))
        };
        self.models.retain(|(name, version), _| ids.iter().any(|id| is(id, name, version)));
        let has = |id: &&ModelId| self.models.keys().any(|(name, version)| is(id, name, version));
        ids.iter().all(has).then_some(self)
    }

    /// The differences of one model: of `version` if given, else of the highest version that queued or finished
    /// requests, else of the highest. `None` if the model is not here.
    pub fn choose(&self, name: &str, version: Option<u64>) -> Option<ChosenVersion<'_>> {
        let mut versions: Vec<_> = self.models.iter().filter(|((model, _), _)| model == name).collect();
        if let Some(version) = version {
            versions.retain(|((_, text), _)| text.parse() == Ok(version));
        }
        versions.sort_by_key(|((_, text), _)| text.parse::<u64>().unwrap_or(0));
        let mut active = versions.iter().filter(|(_, delta)| delta.queue.count > 0 || delta.success.count > 0);
        let several = active.clone().count() > 1;
        let ((_, version), delta) = active.next_back().or(versions.last())?;
        Some(ChosenVersion { version, delta, several })
    }
}

/// The version of a model that the load went to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChosenVersion<'a> {
    /// As the server writes it.
    pub version: &'a str,
    /// What it counted.
    pub delta: &'a ModelStatistics,
    /// Whether other versions were busy too, so that the figures may hold only a part.
    pub several: bool,
}

/// From `before` to `after`, two readings of a counter that should only grow.
fn growth(before: u64, after: u64) -> u64 {
    let difference = after.wrapping_sub(before);
    if difference > i64::MAX as u64 { 0 } else { difference }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_clamped() {
        let at = |count, ns| CountedTime { count, ns };
        assert_eq!(at(10, 5_000).since(at(4, 2_000)), at(6, 3_000));
        assert_eq!(at(4, 2_000).since(at(10, 5_000)), at(0, 0), "a restarted server");
        assert_eq!(at(5, u64::MAX - 100).since(at(4, 50)).ns, 0, "an end before a start wraps to a huge sum");
        assert_eq!(at(5, u64::MAX - 100).since(at(4, u64::MAX - 300)).ns, 200, "growth past the nonsense counts");
    }

    #[test]
    fn averages_are_rounded_down() {
        assert_eq!(CountedTime { count: 3, ns: 8_999 }.average_us(), 2);
        assert_eq!(CountedTime { count: 0, ns: 8_999 }.average_us(), 0);
        assert_eq!(CountedTime { count: u64::MAX, ns: 1 }.average_us(), 0);
    }

    fn entry(name: &str, version: &str, queued: u64) -> ((String, String), ModelStatistics) {
        let stats = ModelStatistics { queue: CountedTime { count: queued, ns: 0 }, ..Default::default() };
        ((name.to_owned(), version.to_owned()), stats)
    }

    #[test]
    fn the_busy_version_is_chosen() {
        let delta = StatisticsSnapshot {
            models: [entry("m", "1", 4), entry("m", "9", 5), entry("m", "10", 0), entry("n", "3", 1)].into(),
        };
        let chosen = delta.choose("m", None).unwrap();
        assert_eq!((chosen.version, chosen.several), ("9", true));
        assert_eq!(delta.choose("m", Some(10)).unwrap().version, "10");
        assert!(!delta.choose("n", None).unwrap().several);
        assert_eq!(delta.choose("m", Some(7)), None);
        assert_eq!(delta.choose("x", None), None);
        let idle = StatisticsSnapshot { models: [entry("m", "9", 0), entry("m", "10", 0)].into() };
        assert_eq!(idle.choose("m", None).unwrap().version, "10");
    }
}
