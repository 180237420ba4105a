//! A model's counters, from the server's metrics.

use std::collections::BTreeMap;

use crate::model::statistics::{CountedTime, ModelStatistics, StatisticsSnapshot};
use crate::wire::prometheus::{MetricSample, name, sample};

/// Requests that were accepted.
const REQUESTS: &str = "ts_inference_requests_total";
/// From accepting a request to its answer, summed.
const LATENCY: &str = "ts_inference_latency_microseconds";
/// From accepting a request to handing it to a worker, summed.
const QUEUE: &str = "ts_queue_latency_microseconds";
/// A limit, so that a server cannot fill our memory with versions.
const MAX_VERSIONS: usize = 1024;

#[derive(Clone, Copy, Default)]
struct Sums {
    requests: f64,
    latency_us: f64,
    queue_us: f64,
}

/// Reads the counters of a model, line by line.
pub struct Counters<'a> {
    model: &'a str,
    version: Option<&'a str>,
    by_version: BTreeMap<String, Sums>,
}

impl<'a> Counters<'a> {
    /// For a model; for all its versions if none is named.
    pub fn new(model: &'a str, version: Option<&'a str>) -> Self {
        Self { model, version, by_version: BTreeMap::new() }
    }

    /// Reads a line of the metrics.
    pub fn take(&mut self, line: &str) {
        if name(line).is_none_or(|(name, _)| ![REQUESTS, LATENCY, QUEUE].contains(&name)) {
            return;
        }
        if let Some(sample) = sample(line).filter(|sample| sample.value >= 0.0 && sample.value.is_finite()) {
            self.add(&sample);
        }
    }

    fn add(&mut self, sample: &MetricSample<'_>) {
        let version = sample.label("model_version").unwrap_or_default();
        let wanted =
            sample.label("model_name") == Some(self.model) && self.version.is_none_or(|requested| requested == version);
        if !wanted || (!self.by_version.contains_key(version) && self.by_version.len() == MAX_VERSIONS) {
            return;
        }
        let sums = self.by_version.entry(version.to_owned()).or_default();
        match sample.name {
            REQUESTS => sums.requests += sample.value,
            LATENCY => sums.latency_us += sample.value,
            _ => sums.queue_us += sample.value,
        }
    }

    /// The counters read so far.
    pub fn snapshot(self) -> StatisticsSnapshot {
        let entry = |(version, sums): (String, Sums)| ((self.model.to_owned(), version), statistics(sums));
        StatisticsSnapshot { models: self.by_version.into_iter().map(entry).collect() }
    }
}

/// Time outside the queue is the worker's; the server reports no more detail, and no number of batches.
fn statistics(sums: Sums) -> ModelStatistics {
    let count = sums.requests as u64;
    let timed = |us: f64| CountedTime { count, ns: (us * 1_000.0) as u64 };
    ModelStatistics {
        inferences: count,
        success: timed(sums.latency_us),
        queue: timed(sums.queue_us),
        compute_input: timed(0.0),
        compute_infer: timed((sums.latency_us - sums.queue_us).max(0.0)),
        compute_output: timed(0.0),
        ..ModelStatistics::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# HELP ts_inference_requests_total Torchserve prometheus counter metric with unit: Count
ts_inference_requests_total{model_name=\"m\",model_version=\"default\",hostname=\"h\",} 4.0
ts_inference_requests_total{model_name=\"other\",model_version=\"default\",hostname=\"h\",} 9.0
ts_inference_latency_microseconds{model_name=\"m\",model_version=\"default\",hostname=\"h\",} 5000.5
ts_queue_latency_microseconds{model_name=\"m\",model_version=\"default\",hostname=\"h\",} 1000.25
ts_queue_latency_microseconds{model_name=\"m\",model_version=\"2.0\",hostname=\"h\",} NaN
ts_inference_requests_total{model_name=\"m\",model_version=\"2.0\"} 1
";

    fn read(version: Option<&str>) -> StatisticsSnapshot {
        let mut counters = Counters::new("m", version);
        PAGE.lines().for_each(|line| counters.take(line));
        counters.snapshot()
    }

    #[test]
    fn requests_and_times_are_those_of_the_model() {
        let all = read(None);
        assert_eq!(all.models.len(), 2);
        let model = &all.models[&("m".to_owned(), "default".to_owned())];
        assert_eq!((model.inferences, model.success), (4, CountedTime { count: 4, ns: 5_000_500 }));
        assert_eq!((model.queue.ns, model.compute().ns, model.compute().count), (1_000_250, 4_000_250, 4));
        let snapshot = read(Some("2.0"));
        assert_eq!(snapshot.models.keys().collect::<Vec<_>>(), [&("m".to_owned(), "2.0".to_owned())]);
        assert!(read(Some("7")).models.is_empty());
    }
}
