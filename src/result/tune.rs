//! The result of a search for a configuration, as one value.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::disturbance::Disturbance;
use crate::stats::{Interval, batch_means};

/// Confidence of the candidates' intervals.
const CONFIDENCE: f64 = 0.95;
/// The version of the form in which a search is written.
pub const TUNE_VERSION: u32 = 2;

/// Result of a search.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TuneResult {
    /// The version of this format: 2. Before, candidates had a `fate` instead of a `status`.
    pub schema: u32,
    /// `triton-bench` and its version.
    pub program: String,
    /// The model.
    pub model: String,
    /// What was optimised: `throughput`, `avg` or `p99`.
    pub objective: String,
    /// The constraints.
    pub constraints: Vec<String>,
    /// The percentile of the latencies here.
    pub percentile: f64,
    /// The load, in words.
    pub load: String,
    /// Differences up to this share count as no difference.
    pub margin: f64,
    /// The search's time limit, in seconds.
    pub budget_s: f64,
    /// What it took.
    pub spent_s: f64,
    /// The settings that were searched.
    pub settings: Vec<String>,
    /// How many candidates there are.
    pub space: usize,
    /// The candidates that were measured or ruled out, best first.
    pub candidates: Vec<CandidateResult>,
    /// What was shown.
    pub verdict: TuneVerdict,
    /// Why, a sentence each.
    pub why: Vec<String>,
    /// Whether the search was interrupted.
    pub interrupted: bool,
}

/// What was shown.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TuneVerdict {
    /// `better`, `kept`, `meets`, `none_meets`, `none_seen` (none met the constraints while others used the machine),
    /// `unconfirmed`, `too_short` or `nothing`.
    #[serde(rename = "word")]
    pub name: String,
    /// The recommended candidate; 0 is the current configuration.
    pub winner: Option<usize>,
    /// How much better than the current configuration, as a factor.
    pub gain: Option<f64>,
    /// Its confidence interval.
    pub interval: Option<Interval>,
    /// The verdict in one sentence.
    pub sentence: String,
}

/// A candidate and its result.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CandidateResult {
    /// Its number; 0 is the current configuration.
    pub number: usize,
    /// The values of the settings that were searched, in their order.
    pub values: Vec<Value>,
    /// What became of it; `fate` in files of before.
    #[serde(alias = "fate")]
    pub status: CandidateStatus,
    /// Why.
    pub reason: Option<String>,
    /// Whether it met the constraints in the median of its trials.
    pub meets: bool,
    /// Its figures; none if it could not be measured.
    pub figures: Option<TuneFigures>,
}

/// What became of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CandidateStatus {
    /// Recommended.
    Winner,
    /// Better than yours side by side, not confirmed.
    Ahead,
    /// The present configuration.
    Yours,
    /// Not worse than the best by more than the margin.
    #[serde(rename = "not worse")]
    NotWorse,
    /// Whether it is worse than the best is not known.
    Undecided,
    /// Worse than the best, or it misses a constraint.
    Worse,
    /// Left behind by others.
    Dropped,
    /// It could not be measured.
    Failed,
    /// Not tried, because of what was measured of others.
    #[serde(rename = "ruled out")]
    RuledOut,
    /// There was no time to measure it.
    #[serde(rename = "not measured")]
    NotMeasured,
}

impl CandidateStatus {
    /// Its name in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Winner => "winner",
            Self::Ahead => "ahead",
            Self::Yours => "yours",
            Self::NotWorse => "not worse",
            Self::Undecided => "undecided",
            Self::Worse => "worse",
            Self::Dropped => "dropped",
            Self::Failed => "failed",
            Self::RuledOut => "ruled out",
            Self::NotMeasured => "not measured",
        }
    }
}

/// What is measured of a candidate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figures {
    /// Inferences a second.
    pub throughput: f64,
    /// The percentile of the latency that is shown, in nanoseconds.
    pub latency_ns: f64,
    /// Every percentile of it that counts, ascending.
    #[serde(default)]
    pub percentiles: Vec<LatencyAt>,
    /// Mean latency in nanoseconds.
    pub mean_ns: f64,
    /// Share of requests that failed.
    pub errors: f64,
    /// Mean time in the server's queue, in microseconds.
    pub queue_us: f64,
    /// Mean time of computing, in microseconds.
    pub compute_us: f64,
    /// Mean executed batch: inferences by executions.
    pub executed_batch: f64,
    /// Requests outstanding: with a latency as a constraint, as many as meet it.
    pub concurrency: Option<u32>,
    /// Inferences in a request.
    pub batch_size: u64,
    /// Other figures of the catalogue that constraints are about, by their keys; one that the model does not have is
    /// absent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub named: BTreeMap<String, f64>,
}

/// A percentile of the latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyAt {
    /// Which, 0 to 100.
    pub percentile: f64,
    /// In nanoseconds.
    pub latency_ns: f64,
}

impl Figures {
    /// The latency at a percentile; if that is not kept, the one that is shown.
    pub fn latency_at(&self, percentile: f64) -> f64 {
        let kept = self.percentiles.iter().find(|kept| kept.percentile == percentile);
        kept.map_or(self.latency_ns, |kept| kept.latency_ns)
    }
}

/// Figures of a candidate, over those of its trials that count: those of the confirmation, if there were any, and with
/// the load of the last one.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TuneFigures {
    /// How many trials.
    #[serde(rename = "visits")]
    pub trials: usize,
    /// During how many of them others took part of the machine.
    #[serde(default)]
    pub disturbed: usize,
    /// Of the latencies, the medians of the trials, by which constraints are judged; of the throughput the geometric mean,
    /// because candidates are compared by ratios; else the means.
    #[serde(flatten)]
    pub means: Figures,
    /// The throughput's interval, if there are at least two trials.
    pub throughput_interval: Option<Interval>,
    /// The latency's interval.
    pub latency_interval: Option<Interval>,
    /// Mean time to load the model with this configuration, in seconds; none if nothing had to be loaded.
    pub load_s: Option<f64>,
    /// Mean time of an update in place, if only instances changed.
    pub update_s: Option<f64>,
}

/// One trial's figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrialFigures {
    /// What was measured.
    #[serde(flatten)]
    pub figures: Figures,
    /// What it took to load the configuration, in seconds; none if it was loaded already.
    pub load_s: Option<f64>,
    /// Whether only instances changed.
    pub in_place: bool,
    /// What others took of the machine meanwhile, if that counts.
    #[serde(default)]
    pub disturbance: Option<Disturbance>,
    /// The fewest requests outstanding that missed a constraint in this trial, if it went on with fewer.
    #[serde(default)]
    pub missed: Option<u32>,
    /// Where requests spent their time, of a model that calls others.
    #[serde(default)]
    pub members: Vec<MemberFigures>,
}

/// One of the models that a model calls, or itself: its part in a request's time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MemberFigures {
    /// The model.
    pub model: String,
    /// Microseconds that a request waits for it.
    pub queue_us: f64,
    /// Microseconds that it computes for a request.
    pub compute_us: f64,
}

impl TuneFigures {
    /// The figures of the `trials` that count, and the loads of `all`, because loads are few; `None` without trials.
    pub fn new(trials: &[&TrialFigures], all: &[&TrialFigures]) -> Option<Self> {
        let last = &trials.last()?.figures;
        let trials: Vec<&&TrialFigures> =
            trials.iter().filter(|trial| trial.figures.concurrency == last.concurrency).collect();
        let values = |value: fn(&Figures) -> f64| trials.iter().map(|trial| value(&trial.figures)).collect::<Vec<_>>();
        let mean_of = |value: fn(&Figures) -> f64| mean(&values(value));
        let interval = |value: fn(&Figures) -> f64| {
            batch_means(&values(value), CONFIDENCE).map(|interval| Interval { low: interval.low.max(0.0), ..interval })
        };
        let loads = |in_place: bool| {
            let times: Vec<f64> =
                all.iter().filter(|trial| trial.in_place == in_place).filter_map(|trial| trial.load_s).collect();
            (!times.is_empty()).then(|| mean(&times))
        };
        let at = |percentile: f64| {
            let latencies: Vec<f64> = trials.iter().map(|trial| trial.figures.latency_at(percentile)).collect();
            LatencyAt { percentile, latency_ns: middle(&latencies) }
        };
        let named = |key: &String| {
            let numbers: Option<Vec<f64>> = trials.iter().map(|trial| trial.figures.named.get(key).copied()).collect();
            Some((key.clone(), median(&numbers?)))
        };
        let means = Figures {
            throughput: geometric_mean(&values(|figures| figures.throughput)),
            latency_ns: middle(&values(|figures| figures.latency_ns)),
            percentiles: last.percentiles.iter().map(|kept| at(kept.percentile)).collect(),
            mean_ns: middle(&values(|figures| figures.mean_ns)),
            errors: mean_of(|figures| figures.errors),
            queue_us: mean_of(|figures| figures.queue_us),
            compute_us: mean_of(|figures| figures.compute_us),
            executed_batch: mean_of(|figures| figures.executed_batch),
            concurrency: last.concurrency,
            batch_size: last.batch_size,
            named: last.named.keys().filter_map(named).collect(),
        };
        Some(Self {
            trials: trials.len(),
            disturbed: trials.iter().filter(|trial| trial.disturbance.is_some()).count(),
            means,
            throughput_interval: interval(|figures| figures.throughput),
            latency_interval: interval(|figures| figures.latency_ns),
            load_s: loads(false),
            update_s: loads(true),
        })
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Of values of which none is negative; 0 if one is.
fn geometric_mean(values: &[f64]) -> f64 {
    (values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp()
}

/// The median of values that may be 0.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    f64::midpoint(sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2])
}

/// The median; of an even number the geometric mean of the two in the middle, as that of logarithms is.
fn middle(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match (sorted.len() / 2, sorted.len() % 2) {
        (middle, 0) if middle > 0 => (sorted[middle - 1] * sorted[middle]).sqrt(),
        (middle, _) => sorted.get(middle).copied().unwrap_or(0.0),
    }
}
