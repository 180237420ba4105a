//! The timeline of a level, for its pictures: every window in a row, and slices of time with coarse histograms.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::backend::InferError;
use crate::clock::Stamp;
use crate::disturbance::Disturbance;

/// Classes of a slice's histogram in which a latency doubles: each is 9 % wide.
pub const CLASSES_PER_DOUBLING: f64 = 8.0;

/// A window of a level, or several neighbouring ones if there are more than 1 024.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WindowRow {
    /// When it began, on the monotonic clock.
    #[serde(rename = "start_ns")]
    pub start: Stamp,
    /// Its true length.
    #[serde(rename = "duration_s", with = "crate::seconds")]
    #[schemars(with = "f64")]
    pub duration: Duration,
    /// How many windows these are; for several, percentiles are their maximum.
    pub windows: usize,
    /// Whether it is part of the level's result.
    pub counted: bool,
    /// Requests that succeeded, a second.
    pub rate: f64,
    /// Requests sent.
    pub sent: u64,
    /// Requests that succeeded.
    pub requests: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Mean of the headline latency.
    pub avg_ns: f64,
    /// Its percentiles, such as `99.9`, including those of `--percentiles`.
    pub percentiles_ns: BTreeMap<String, u64>,
    /// The largest.
    pub max_ns: u64,
    /// How late requests were sent, in open loops: the 99th percentile.
    pub late_ns: Option<u64>,
    /// How it was disturbed, if that counts.
    pub disturbance: Option<Disturbance>,
    /// Failed requests by the timeline's `reasons`, up to the last that occurred; the remaining failures had other
    /// reasons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_for: Vec<u64>,
}

impl WindowRow {
    /// Takes the window that follows in.
    pub fn absorb(&mut self, later: &Self) {
        let seconds = (self.duration + later.duration).as_secs_f64();
        let requests = self.requests + later.requests;
        if requests > 0 {
            let sum = self.avg_ns * self.requests as f64 + later.avg_ns * later.requests as f64;
            self.avg_ns = sum / requests as f64;
        }
        self.rate = if seconds > 0.0 { requests as f64 / seconds } else { 0.0 };
        self.duration += later.duration;
        self.windows += later.windows;
        self.counted |= later.counted;
        self.sent += later.sent;
        self.requests = requests;
        self.failed += later.failed;
        for (name, value) in &later.percentiles_ns {
            let highest = self.percentiles_ns.entry(name.clone()).or_default();
            *highest = (*highest).max(*value);
        }
        self.max_ns = self.max_ns.max(later.max_ns);
        self.late_ns = self.late_ns.max(later.late_ns);
        add_each(&mut self.failed_for, &later.failed_for);
        self.disturbance = match (self.disturbance, &later.disturbance) {
            (Some(earlier), Some(later)) => Some(earlier.worst(later)),
            (earlier, later) => earlier.or(*later),
        };
    }
}

/// A stretch of a level's time. The first begins with the first window; they abut.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Slice {
    /// Its length.
    pub duration_s: f64,
    /// Requests that failed; absent if none did.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed: u64,
    /// As for a window.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_for: Vec<u64>,
    /// The largest headline latency.
    pub max_ns: u64,
    /// How late the latest request was sent, in open loops.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_ns: Option<u64>,
    /// Number of the first class in `counts`: class n holds latencies from 2^(n/8) to 2^((n+1)/8) nanoseconds.
    pub first: u32,
    /// Requests that succeeded, by class.
    pub counts: Vec<u64>,
}

impl Slice {
    /// Requests that succeeded.
    pub fn requests(&self) -> u64 {
        self.counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Upper bound in nanoseconds of the class that contains this share (0 to 1) of the requests; none without any.
    pub fn quantile_ns(&self, share: f64) -> Option<f64> {
        let (wanted, mut below) = (share * self.requests() as f64, 0.0);
        let holds = |count: &u64| {
            below += *count as f64;
            below >= wanted && *count > 0
        };
        let at = self.counts.iter().position(holds)?;
        // The middle of the class.
        Some(lower_edge_ns(f64::from(self.first) + at as f64 + 0.5).min(self.max_ns as f64))
    }

    /// Adds requests of a class.
    pub fn add(&mut self, class: u32, count: u64) {
        if self.counts.is_empty() {
            self.first = class;
        }
        if class < self.first {
            let missing = (self.first - class) as usize;
            self.counts.splice(0..0, std::iter::repeat_n(0, missing));
            self.first = class;
        }
        let index = (class - self.first) as usize;
        if index >= self.counts.len() {
            self.counts.resize(index + 1, 0);
        }
        self.counts[index] += count;
    }

    /// Takes the slice that follows in.
    pub fn absorb(&mut self, later: &Self) {
        self.duration_s += later.duration_s;
        self.failed += later.failed;
        add_each(&mut self.failed_for, &later.failed_for);
        self.max_ns = self.max_ns.max(later.max_ns);
        self.late_ns = self.late_ns.max(later.late_ns);
        (later.first..).zip(&later.counts).for_each(|(class, count)| self.add(class, *count));
    }
}

/// Adds counts place by place.
fn add_each(counts: &mut Vec<u64>, more: &[u64]) {
    if counts.len() < more.len() {
        counts.resize(more.len(), 0);
    }
    counts.iter_mut().zip(more).for_each(|(count, more)| *count += more);
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The class of a latency in a slice's histogram.
pub fn class(ns: u64) -> u32 {
    (CLASSES_PER_DOUBLING * (ns.max(1) as f64).log2()).floor() as u32
}

/// Where a class of a slice's histogram begins.
pub fn lower_edge_ns(class: f64) -> f64 {
    (class / CLASSES_PER_DOUBLING).exp2()
}

/// When a level's load began, and slices of the time in which it was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Timeline {
    /// When its load began, including warm-up, on the monotonic clock; time before the first window is left out.
    #[serde(rename = "began_ns")]
    pub began: Stamp,
    /// Slices of all its windows, counted or not, at most 64: as JSON, compressed (zlib), in base64.
    #[serde(with = "crate::slices")]
    #[schemars(with = "String")]
    pub slices: Vec<Slice>,
    /// The reasons for failures that windows and slices distinguish: the first to occur, at most 12.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<InferError>,
}

/// Maximum number of rows: neighbours are merged.
pub fn thinned(mut rows: Vec<WindowRow>, most: usize) -> Vec<WindowRow> {
    while rows.len() > most.max(1) {
        pair(&mut rows, WindowRow::absorb);
    }
    rows
}

/// Makes each two neighbours one.
fn pair<T>(all: &mut Vec<T>, absorb: fn(&mut T, &T)) {
    let mut left = std::mem::take(all).into_iter();
    while let Some(mut first) = left.next() {
        left.next().iter().for_each(|next| absorb(&mut first, next));
        all.push(first);
    }
}

/// Rows for the tests of everything that reads them.
#[cfg(any(test, feature = "testing"))]
pub mod sample {
    use super::*;

    /// A window of a second in which 100 requests took a millisecond each.
    pub fn row(start: Stamp) -> WindowRow {
        WindowRow {
            start,
            duration: Duration::from_secs(1),
            windows: 1,
            counted: true,
            rate: 100.0,
            sent: 100,
            requests: 100,
            failed: 0,
            avg_ns: 1e6,
            percentiles_ns: BTreeMap::from([("99".to_owned(), 1_000_000)]),
            max_ns: 1_000_000,
            late_ns: None,
            disturbance: None,
            failed_for: Vec::new(),
        }
    }
}
