//! Parses the profile export.

use std::path::Path;

use serde_json::Value;

/// A profile export.
pub struct Export(pub Value);

impl Export {
    /// Reads one.
    pub fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self(serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
    }

    /// Its experiments, one per level.
    pub fn experiments(&self) -> &[Value] {
        self.0["experiments"].as_array().expect("there are experiments")
    }

    /// When the requests of an experiment were sent and answered, in nanoseconds.
    pub fn spans(experiment: &Value) -> Vec<(u64, u64)> {
        let requests = experiment["requests"].as_array().expect("there are requests");
        let last = |request: &Value| request["response_timestamps"].as_array()?.last()?.as_u64();
        requests.iter().filter_map(|request| Some((request["timestamp"].as_u64()?, last(request)?))).collect()
    }
}

/// The largest number of spans that hold one moment.
pub fn peak(spans: &[(u64, u64)]) -> usize {
    counts(spans).into_iter().max().unwrap_or(0)
}

/// How many spans are open after each start and end, in order of time; an end comes before a start of the same moment.
pub fn counts(spans: &[(u64, u64)]) -> Vec<usize> {
    let mut edges: Vec<(u64, bool)> = spans.iter().flat_map(|&(from, to)| [(from, true), (to, false)]).collect();
    edges.sort_unstable();
    let step = |open: &mut usize, (_, starts): (u64, bool)| {
        *open = if starts { *open + 1 } else { open.saturating_sub(1) };
        Some(*open)
    };
    edges.into_iter().scan(0, step).collect()
}
