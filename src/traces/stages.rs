//! The figures of a model's traces, stage by stage.

use serde::Serialize;

use crate::spans::{Frontend, ModelSpans};

/// The traces of one model, stage by stage.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelStages {
    /// The model's name.
    pub model: String,
    /// Its version, as the server wrote it.
    pub version: String,
    /// `http`, `grpc`, or `none` for the C API.
    pub protocol: &'static str,
    /// How many traces there are.
    pub traces: u64,
    /// The stages in chronological order; `latency` comes last, preceded by the unexplained rest.
    pub stages: Vec<StageFigures>,
    /// The traces that took longest, the longest first.
    pub slowest: Vec<SlowTrace>,
}

/// One stage. Times are in microseconds; a trace without the stage counts as 0.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StageFigures {
    /// Its name.
    pub name: &'static str,
    /// Mean.
    pub mean_us: f64,
    /// Percentiles.
    pub p50_us: f64,
    #[allow(missing_docs)]
    pub p90_us: f64,
    #[allow(missing_docs)]
    pub p95_us: f64,
    #[allow(missing_docs)]
    pub p99_us: f64,
    /// Share of the mean in the latency's mean, 0 to 1.
    pub share: f64,
}

/// A trace that took long.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SlowTrace {
    /// Its number in the file.
    pub id: Option<i64>,
    /// The request's latency, in microseconds.
    pub latency_us: f64,
    /// Time in each stage, in microseconds, in chronological order.
    pub stages: Vec<(&'static str, f64)>,
}

/// Names of stages, in the order of a request's way.
const ORDER: [&str; 8] =
    ["receive", "queue", "compute input", "compute", "compute output", "called models", "send", "unexplained"];

/// The stages of one model, with the `most` slowest traces.
pub fn stages(sum: &ModelSpans, most: usize) -> ModelStages {
    let parts: Vec<Vec<(&'static str, u64)>> = sum.each.iter().map(|(_, spans)| spans.parts()).collect();
    let latency: Vec<u64> = sum.each.iter().map(|(_, spans)| spans.whole()).collect();
    let whole: u64 = latency.iter().fold(0, |sum, ns| sum.saturating_add(*ns));
    let time_of = |name: &str, parts: &[(&str, u64)]| parts.iter().find(|(part, _)| *part == name).map(|(_, ns)| *ns);
    let found = ORDER.into_iter().filter(|name| parts.iter().any(|parts| time_of(name, parts).is_some()));
    let columns = found.map(|name| (name, parts.iter().map(|parts| time_of(name, parts).unwrap_or(0)).collect()));
    let all = columns.chain([("latency", latency.clone())]);
    let mut order: Vec<usize> = (0..latency.len()).collect();
    order.sort_by_key(|number| std::cmp::Reverse(latency[*number]));
    let slow = |number: usize| SlowTrace {
        id: sum.each[number].0,
        latency_us: us(latency[number]),
        stages: parts[number].iter().map(|(name, ns)| (*name, us(*ns))).collect(),
    };
    ModelStages {
        model: sum.model.clone(),
        version: sum.version.clone(),
        protocol: match sum.frontend {
            Frontend::Http => "http",
            Frontend::Grpc => "grpc",
            Frontend::None => "none",
        },
        traces: sum.count,
        stages: all.map(|(name, ns)| stage(name, ns, whole)).collect(),
        slowest: order.into_iter().take(most).map(slow).collect(),
    }
}

fn stage(name: &'static str, mut ns: Vec<u64>, whole: u64) -> StageFigures {
    ns.sort_unstable();
    let sum = ns.iter().fold(0_u64, |sum, ns| sum.saturating_add(*ns));
    // Nearest rank.
    let at =
        |percentile: usize| us(ns.get((ns.len() * percentile).div_ceil(100).saturating_sub(1)).copied().unwrap_or(0));
    StageFigures {
        name,
        mean_us: us(sum) / ns.len().max(1) as f64,
        p50_us: at(50),
        p90_us: at(90),
        p95_us: at(95),
        p99_us: at(99),
        share: if whole == 0 { 0.0 } else { sum as f64 / whole as f64 },
    }
}

fn us(ns: u64) -> f64 {
    ns as f64 / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spans::Spans;

    #[test]
    fn stages_have_percentiles_and_shares() {
        let spans = |ms: u64| Spans {
            handler: Some(ms * 1_000_000),
            queue: Some(500_000),
            compute: Some((ms - 1) * 1_000_000),
            ..Spans::default()
        };
        let trace_spans: Vec<_> = (1..=100).map(|ms| (Some(ms as i64), spans(ms))).collect();
        let (frontend, model, version) = (Frontend::None, "m".to_owned(), "1".to_owned());
        let sum = ModelSpans { frontend, model, version, count: 100, spans: Spans::default(), each: trace_spans };
        let found = stages(&sum, 2);
        let names: Vec<_> = found.stages.iter().map(|stage| stage.name).collect();
        assert_eq!(names, ["queue", "compute", "unexplained", "latency"]);
        let (compute, latency) = (&found.stages[1], &found.stages[3]);
        assert_eq!((latency.p50_us, latency.p99_us, latency.mean_us), (50_000.0, 99_000.0, 50_500.0));
        assert_eq!((compute.p90_us, latency.share), (89_000.0, 1.0));
        let shares: f64 = found.stages[..3].iter().map(|stage| stage.share).sum();
        assert!((shares - 1.0).abs() < 1e-9);
        assert_eq!(found.slowest.iter().map(|slow| slow.id).collect::<Vec<_>>(), [Some(100), Some(99)]);
    }
}
