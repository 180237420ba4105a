//! How long to measure, and when the result is valid.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use std::fmt;
use std::time::Duration;

use crate::{StopRule, TAIL, WindowRule};

/// How long to measure, and when the result is valid.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct MeasurementPlan {
    /// What ends a window.
    pub window: WindowRule,
    /// What a level is settled by; `None` is the default for the program's name.
    #[serde(default)]
    pub stability_rule: Option<StabilityRule>,
    /// The windows of a result must agree within this share (0.1 is 10 %), or its figures be known to within it.
    pub stability: f64,
    /// Most windows per level, unless `give_up_after` has room for more.
    pub max_trials: usize,
    /// A level that has not settled is measured on until it has lasted this long: short windows say how often to look, and
    /// not how much a server's figures wander. Zero where the number of windows was asked for; `None` is the default for the
    /// program's name.
    #[serde(rename = "give_up_after_s", with = "crate::seconds::optional", default)]
    #[schemars(with = "Option<f64>")]
    pub give_up_after: Option<Duration>,
    /// No window begins that would end later than this after the start of a level's first.
    #[serde(rename = "level_time_s", with = "crate::seconds::optional", default)]
    #[schemars(with = "Option<f64>")]
    pub level_time: Option<Duration>,
    /// Percentile that stability, search and the headline use instead of the mean.
    pub percentile: Option<f64>,
    /// Further percentiles whose interval is reported.
    pub further_percentiles: Vec<f64>,
    /// Percentiles that reports show in addition to the usual ones (`--percentiles`), ascending.
    #[serde(default)]
    pub percentiles: Vec<f64>,
    /// Largest latency allowed.
    #[serde(rename = "latency_threshold_s", with = "crate::seconds::optional", default)]
    #[schemars(with = "Option<f64>")]
    pub latency_threshold: Option<Duration>,
    /// Search the range by bisection instead of walking through it.
    pub binary_search: bool,
    /// Requests per level; replaces windows.
    pub request_count: Option<u64>,
    /// Requests sent before the first window.
    pub warmup_requests: u64,
    /// Time before the first window.
    #[serde(rename = "warmup_s", with = "crate::seconds")]
    #[schemars(with = "f64")]
    pub warmup: Duration,
    /// Share of failed requests (0 to 1) above which a level fails.
    pub max_errors: f64,
    /// What ends the run early.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop_on: Vec<StopRule>,
    /// Windows continue until this statistic is precise enough, or `max_trials` is reached.
    pub precision: Option<Precision>,
    /// How often a level is measured, with the model reloaded in between.
    pub restarts: u32,
    /// Which response of a decoupled model ends its latency.
    pub decoupled_latency: DecoupledLatency,
    /// Where the headline latency of an open loop starts.
    pub latency_from: LatencyOrigin,
    /// What to do about disturbed windows; `None` is the default for the program's name.
    pub on_disturbance: Option<OnDisturbance>,
    /// Where the latency of a synchronous closed loop ends.
    pub latency_to: LatencyEnd,
    /// Limits that a good request keeps.
    pub goodput: Goodput,
    /// Windows of requests last a second at least, as perf_analyzer's documentation has it, and not half of it.
    #[serde(skip)]
    pub long_count_windows: bool,
    /// When all windows are used up, it is enough that throughput is stable: perf_analyzer's rule for requests whose sender
    /// does not wait for the answer.
    #[serde(skip)]
    pub throughput_suffices: bool,
}

impl MeasurementPlan {
    /// How many windows as long as `another` a level may have after `closed` ones that lasted `measured`.
    pub fn windows_left(&self, closed: usize, measured: Duration, another: Duration) -> usize {
        let number = |time: Duration| time.as_secs_f64() / another.as_secs_f64().max(1e-9);
        let longer = number(self.give_up_after.unwrap_or_default().saturating_sub(measured)).ceil() as usize;
        let left = self.max_trials.saturating_sub(closed).max(longer);
        self.level_time.map_or(left, |most| left.min(number(most.saturating_sub(measured)) as usize))
    }

    /// How many windows a level may have, as far as that is known beforehand.
    pub fn most_windows(&self) -> usize {
        self.window.length().map_or(self.max_trials, |length| self.windows_left(0, Duration::ZERO, length))
    }

    /// With twice the time for a level that does not settle, unless the user said how much it has.
    #[must_use]
    pub fn more_patient(&self) -> Self {
        let times = if self.give_up_after.is_some_and(|time| !time.is_zero()) { 2 } else { 1 };
        Self {
            max_trials: times * self.max_trials,
            give_up_after: self.give_up_after.map(|time| time * times as u32),
            ..self.clone()
        }
    }

    /// A single window, which nothing but its length ends.
    #[must_use]
    pub fn once(self) -> Self {
        Self {
            max_trials: 1,
            give_up_after: Some(Duration::ZERO),
            level_time: None,
            latency_threshold: None,
            precision: None,
            restarts: 1,
            ..self
        }
    }

    /// The latency that stability, search and limit look at.
    pub fn key_latency(&self) -> Statistic {
        self.percentile.map_or(Statistic::MeanLatency, Statistic::Percentile)
    }

    /// The percentile that reports show for how bad it gets.
    pub fn tail(&self) -> f64 {
        self.percentile.unwrap_or(TAIL)
    }

    /// Whether a level is settled by how well its figures are known.
    pub fn settles_by_interval(&self) -> bool {
        self.stability_rule == Some(StabilityRule::Interval) && self.precision.is_none()
    }

    /// Percentiles that were asked for, whatever for; some may be there twice.
    pub fn asked_percentiles(&self) -> impl Iterator<Item = f64> {
        let listed = self.percentiles.iter().chain(&self.further_percentiles).copied();
        self.percentile.into_iter().chain(listed)
    }
}

/// Limits that a good request keeps: its figures are below these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Goodput {
    /// The latency, from the intended send in open loops.
    #[serde(rename = "latency_s", with = "crate::seconds::optional", default)]
    #[schemars(with = "Option<f64>")]
    pub latency: Option<Duration>,
    /// The time to the first token.
    #[serde(rename = "first_token_s", with = "crate::seconds::optional", default)]
    #[schemars(with = "Option<f64>")]
    pub first_token: Option<Duration>,
    /// The mean time between its tokens.
    #[serde(rename = "inter_token_s", with = "crate::seconds::optional", default)]
    #[schemars(with = "Option<f64>")]
    pub inter_token: Option<Duration>,
    /// The latency divided by the number of its tokens.
    #[serde(rename = "normalized_s", with = "crate::seconds::optional", default)]
    #[schemars(with = "Option<f64>")]
    pub normalized: Option<Duration>,
}

/// What a level is settled by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StabilityRule {
    /// The last three windows agree: perf_analyzer's rule.
    Windows,
    /// The confidence intervals of throughput and latency, from all undisturbed windows, are narrow enough, and neither
    /// drifts.
    Interval,
}

/// What to do about a disturbed window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnDisturbance {
    /// Another is measured in its place, as long as there are windows left.
    Replace,
    /// It counts, and the level is marked.
    Mark,
    /// Not checked.
    Ignore,
}

/// The precision that a statistic needs: the half-width of its confidence interval relative to its value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Precision {
    /// Which statistic.
    #[serde(rename = "of")]
    pub statistic: Statistic,
    /// Maximum half-width, as a share of the value (0.02 is 2 %).
    pub share: f64,
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // 0.07 times 100 is not quite 7.
        write!(f, "{} to within {}%", self.statistic, (self.share * 1e8).round() / 1e6)
    }
}

impl fmt::Display for Statistic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MeanLatency => f.write_str("average latency"),
            Self::Percentile(percentile) => write!(f, "p{percentile} latency"),
            Self::Throughput => f.write_str("throughput"),
        }
    }
}

/// A statistic of a level.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Statistic {
    /// The mean latency.
    MeanLatency,
    /// A percentile of the latency, above 0 and below 100.
    Percentile(f64),
    /// Inferences a second.
    Throughput,
}

impl Statistic {
    /// A short stable word for it, which reports have.
    pub fn name(self) -> String {
        match self {
            Self::Throughput => "throughput".to_owned(),
            Self::MeanLatency => "avg".to_owned(),
            Self::Percentile(percentile) => format!("p{percentile}"),
        }
    }
}

/// Which response of a decoupled model ends its latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DecoupledLatency {
    /// The first that carries data.
    First,
    /// The last that carries data.
    Last,
}

/// Where the headline latency of an open loop starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LatencyOrigin {
    /// When the schedule wanted the request sent: response time.
    Intended,
    /// When it was sent: service time, which hides waiting in the client.
    Sent,
}

/// Where the latency of a synchronous closed loop ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LatencyEnd {
    /// With the last response, as everywhere else.
    Response,
    /// When the thread that waited for it wakes up, as in perf_analyzer.
    Wakeup,
}
