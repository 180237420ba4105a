//! The result of a level: everything that the reports read.
//!
// budget: one list of all figures, each with the sentence that is its description in the schema.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::backend::InferError;
use crate::breakdown::Breakdown;
use crate::clock::Stamp;
use crate::cost::Cost;
use crate::disturbance::Disturbance;
use crate::machine::usage::Usage;
use crate::model::statistics::ModelStatistics;
use crate::reasons::Verdict;
use crate::remark::Remark;
use crate::stats::{Bounds, Interval};
use crate::tensors::TensorBytes;
use crate::terms::Statistic;
use crate::timeline::{Timeline, WindowRow};

pub use crate::record::{Distribution, Generated, SequenceTimes, Sessions};
pub use crate::server_metrics::{GpuMetrics, HostMetrics, MeanAndMax, ServerLoad};

/// The load of one level, as reports name it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", content = "value", rename_all = "snake_case")]
pub enum LevelLoad {
    /// Requests kept outstanding.
    Concurrency(u32),
    /// Streams, each of which sends a request every so often.
    Streams(u32),
    /// Intended sends a second.
    RequestRate(f64),
    /// Intended sends follow a list of intervals or a fixed schedule whose mean rate this is.
    Schedule(f64),
}

impl LevelLoad {
    /// What kind of number it is, in the word of result files.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Concurrency(_) => "concurrency",
            Self::Streams(_) => "streams",
            Self::RequestRate(_) => "request_rate",
            Self::Schedule(_) => "schedule",
        }
    }

    /// Its number: requests outstanding, streams, or requests a second.
    pub fn number(self) -> f64 {
        match self {
            Self::Concurrency(number) | Self::Streams(number) => number.into(),
            Self::RequestRate(rate) | Self::Schedule(rate) => rate,
        }
    }
}

/// What the client saw in one window, or in several merged ones.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ClientSummary {
    /// Start of the (first) window.
    #[serde(rename = "start_ns")]
    pub start: Stamp,
    /// Its actual length; for several windows, their sum.
    #[serde(rename = "duration_s", with = "crate::seconds")]
    #[schemars(with = "f64")]
    pub duration: Duration,
    /// Requests that succeeded.
    pub requests: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Requests that were cancelled as the plan asked; not counted as failed.
    pub cancelled: u64,
    /// Failures by reason, most frequent first.
    pub errors: Vec<(InferError, u64)>,
    /// Requests sent.
    pub sent: u64,
    /// When they were sent, if the load was measured whole, from its first request to its last answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sending: Option<SendingTime>,
    /// Requests sent more than 1 ms after their intended time.
    pub delayed: u64,
    /// Sequences that ended.
    pub sequences: u64,
    /// Responses that carried data.
    pub responses: u64,
    /// Inferences per request.
    pub batch_size: u64,
    /// Bytes of the tensors of an inference.
    #[serde(default, skip_serializing_if = "TensorBytes::is_unknown")]
    pub tensors: TensorBytes,
    /// The headline latency of successful requests.
    pub latency: Distribution,
    /// Details of open loops; absent in closed loops.
    pub open_loop: Option<OpenLoopSummary>,
    /// Details of decoupled models.
    pub decoupled: Option<DecoupledSummary>,
    /// What language models generated.
    pub generated: Option<Box<Generated>>,
    /// Conversations that ended, if the load plays conversations.
    pub sessions: Option<Box<Sessions>>,
    /// Times of whole sequences that ended, if the models take sequences.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence_times: Option<Box<SequenceTimes>>,
    /// Requests that kept the limits of `--goodput`, if there are any.
    pub good: Option<u64>,
    /// Average time to hand a request over, in nanoseconds.
    pub send_ns: f64,
    /// Average time from the response's first sign to the client having it, in nanoseconds.
    pub receive_ns: f64,
    /// From the last response until the waiting thread woke up; for synchronous closed loops in process.
    #[serde(with = "crate::record::coarse")]
    #[schemars(with = "Option<Distribution>")]
    pub wakeup: Option<Distribution>,
    /// Average time from the end of a request to the send of the next one in its slot, in nanoseconds: the server
    /// releasing the request and the client's own work. 0 in open loops.
    pub turnaround_ns: f64,
    /// The same for each entry of a mix, in the mix's order; empty with a single model.
    pub entries: Vec<ClientSummary>,
    /// The same for each server that requests are spread over, in the order of their addresses; empty with a single one. Its
    /// `sent` are those that ended: a request's server is known once it is under way.
    #[serde(default)]
    pub servers: Vec<ClientSummary>,
    /// Share of the window in which the issuing threads were busy with the client's own work, 0 to 1.
    pub overhead_share: f64,
}

/// The first and the last send of a load, from its start on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SendingTime {
    /// The first.
    #[serde(rename = "first_s", with = "crate::seconds")]
    #[schemars(with = "f64")]
    pub first: Duration,
    /// The last.
    #[serde(rename = "last_s", with = "crate::seconds")]
    #[schemars(with = "f64")]
    pub last: Duration,
}

impl SendingTime {
    /// From the first to the last.
    pub fn length(&self) -> Duration {
        self.last.saturating_sub(self.first)
    }
}

/// Response time, service time and lateness of an open loop.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct OpenLoopSummary {
    /// From the intended send to the last response.
    pub response_time: Distribution,
    /// From the actual send to the last response.
    pub service_time: Distribution,
    /// From the intended to the actual send.
    pub schedule_delay: Distribution,
    /// Intended sends a second.
    pub requested_rate: f64,
    /// Actual sends a second; for a load that is measured as a whole, from the first to the last.
    pub achieved_rate: f64,
    /// Requests that ended a second while others were sent, whatever their outcome.
    pub completed_rate: f64,
}

/// Times between the responses of a decoupled model.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DecoupledSummary {
    /// From the send to the first response.
    pub first_response: Distribution,
    /// Between neighbouring responses of one request.
    pub gap: Distribution,
    /// From the send to the last response.
    pub last_response: Distribution,
}

impl ClientSummary {
    /// Inferences a second: successful requests times batch size, by the true length of the window.
    pub fn throughput(&self) -> f64 {
        self.per_second(self.requests * self.batch_size)
    }

    /// Requests that succeeded a second.
    pub fn request_rate(&self) -> f64 {
        self.per_second(self.requests)
    }

    /// Responses a second.
    pub fn response_throughput(&self) -> f64 {
        self.per_second(self.responses)
    }

    /// Tokens a second, of requests that ended here.
    pub fn token_throughput(&self) -> f64 {
        self.per_second(self.generated.as_ref().map_or(0, |generated| generated.tokens))
    }

    /// Tokens of inputs a second, of requests that ended here; none if the server does not count them.
    pub fn input_throughput(&self) -> Option<f64> {
        let generated = self.generated.as_ref().filter(|generated| generated.inputs > 0)?;
        Some(self.per_second(generated.input_tokens))
    }

    /// Good requests a second, and their share of all that have ended without being cancelled, 0 to 1; none if no
    /// limits are set.
    pub fn goodput(&self) -> Option<(f64, f64)> {
        let good = self.good?;
        Some((self.per_second(good), share(good, self.requests + self.failed)))
    }

    /// Sequences a second.
    pub fn sequence_rate(&self) -> f64 {
        self.per_second(self.sequences)
    }

    /// The most that a request costs the client itself, in nanoseconds: what passes between two requests of a slot, but for the wait
    /// to run again. The server's release of the first is in it, too. 0 in open loops.
    pub fn most_own_ns(&self) -> f64 {
        let waited = self.wakeup.as_ref().map_or(0.0, Distribution::mean_ns);
        (self.turnaround_ns - waited).max(0.0)
    }

    /// From the actual send to the last response, whichever the headline is.
    pub fn service_time(&self) -> &Distribution {
        match (&self.open_loop, &self.decoupled) {
            (Some(open_loop), _) => &open_loop.service_time,
            (None, Some(decoupled)) => &decoupled.last_response,
            (None, None) => &self.latency,
        }
    }

    /// Share of requests that failed, 0 to 1.
    pub fn failed_share(&self) -> f64 {
        share(self.failed, self.requests + self.failed)
    }

    /// Requests that have ended, whatever their outcome.
    pub fn completed(&self) -> u64 {
        self.requests + self.failed + self.cancelled
    }

    /// Share of requests that were cancelled, 0 to 1.
    pub fn cancelled_share(&self) -> f64 {
        share(self.cancelled, self.completed())
    }

    /// Share of requests that were sent more than 1 ms late, 0 to 1.
    pub fn delayed_share(&self) -> f64 {
        share(self.delayed, self.sent)
    }

    /// How long requests were sent for.
    pub fn sending_length(&self) -> Duration {
        self.sending.as_ref().map_or(self.duration, SendingTime::length)
    }

    /// Requests sent a second.
    pub fn send_rate(&self) -> f64 {
        self.per_second(self.sent)
    }

    /// The latency that stability and search use: the percentile if one is given, else the mean. Nanoseconds.
    pub fn key_latency_ns(&self, percentile: Option<f64>) -> f64 {
        percentile.map_or_else(|| self.latency.mean_ns(), |p| self.latency.percentile_ns(p) as f64)
    }

    fn per_second(&self, events: u64) -> f64 {
        per_second(events, self.duration)
    }
}

/// Events a second; 0 where no time has passed.
pub fn per_second(events: u64, duration: Duration) -> f64 {
    let seconds = duration.as_secs_f64();
    if seconds > 0.0 { events as f64 / seconds } else { 0.0 }
}

fn share(part: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { part as f64 / all as f64 }
}

/// What the server counted of one model during the windows.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ServerSummary {
    /// Name of the model.
    pub name: String,
    /// Version, as the server writes it.
    pub version: String,
    /// Differences over the windows, clamped where a backend reported invalid values.
    pub delta: ModelStatistics,
    /// Whether to show cache figures.
    pub cached: bool,
    /// Whether other versions of it were busy too, if none was requested.
    pub several_versions: bool,
    /// Models that this ensemble (or BLS model) calls.
    pub composing: Vec<ServerSummary>,
}

/// Why a level's measurement ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The windows settled it: their figures are known well enough, or the last three agree.
    Stable,
    /// All requested windows were measured (`--request-count` and schedules: one window).
    Complete,
    /// `--max-trials` windows, and they did not settle it.
    Unstable,
    /// The latency is above `--latency-threshold`.
    OverThreshold,
    /// The user interrupted.
    Interrupted,
    /// Nothing succeeded, or more failed than `--max-errors` allows.
    Failed,
}

/// How a level's latency compares with the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LimitCheck {
    /// The maximum latency.
    #[serde(rename = "limit_s", with = "crate::seconds")]
    #[schemars(with = "f64")]
    pub limit: Duration,
    /// Whether the level's latency is as high or higher.
    pub over: bool,
    /// Whether its whole confidence interval is on that side of the limit.
    pub certain: bool,
}

/// Disturbances of a level's windows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Disturbances {
    /// Windows in the result.
    pub windows: usize,
    /// Those of them that were disturbed.
    pub disturbed: usize,
    /// Disturbed windows that are not in the result because others were measured in their place.
    pub replaced: usize,
    /// The worst disturbance: of a window in the result, or of a replaced one if none of those was disturbed.
    pub worst: Option<Disturbance>,
}

impl Disturbances {
    /// Those of a level that is one window.
    pub fn of_one(found: Option<Disturbance>) -> Self {
        Self { windows: 1, disturbed: usize::from(found.is_some()), replaced: 0, worst: found }
    }
}

/// The precision of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StatisticEstimate {
    /// Which one.
    #[serde(rename = "of")]
    pub statistic: Statistic,
    /// Its interval; none if there is too little data.
    pub interval: Option<Interval>,
    /// Its one-sided bounds at the same confidence; a limit is judged by them.
    #[serde(default)]
    pub bounds: Bounds,
}

/// The ends of the interval of a throughput are no farther apart than that, as a factor, where it is known.
const FARTHEST_APART: f64 = 100.0;

impl StatisticEstimate {
    /// The interval of `statistic` among `all`; none if it is not among them, or not known.
    pub fn find(all: &[Self], statistic: Statistic) -> Option<Interval> {
        all.iter().find(|entry| entry.statistic == statistic)?.interval
    }

    /// The bounds of `statistic` among `all`; unknown if it is not among them.
    pub fn find_bounds(all: &[Self], statistic: Statistic) -> Bounds {
        all.iter().find(|entry| entry.statistic == statistic).map_or_else(Bounds::default, |entry| entry.bounds)
    }

    /// That of a figure whose interval is known, or is not: its ends are its bounds. A throughput whose ends are far apart is not:
    /// a level of a moment has stretches without any request.
    pub fn new(statistic: Statistic, interval: Option<Interval>) -> Self {
        let is_known = |interval: &Interval| interval.low <= 0.0 || interval.high <= FARTHEST_APART * interval.low;
        let interval = interval.filter(|interval| statistic != Statistic::Throughput || is_known(interval));
        Self { statistic, interval, bounds: interval.into() }
    }
}

/// A figure over all starts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AcrossStarts {
    /// Which one.
    #[serde(rename = "of")]
    pub statistic: Statistic,
    /// Each start's, in order.
    #[serde(default)]
    pub values: Vec<f64>,
    /// Their mean.
    pub mean: f64,
    /// Interval for the mean of another start, with neither end below 0.
    pub interval: Option<Interval>,
    /// Share of the variance between starts, 0 to 1; absent if the runs have too little data.
    pub share: Option<f64>,
}

/// A level that was measured at several starts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Restarts {
    /// How many starts there were.
    pub starts: usize,
    /// Throughput in inferences a second, and the latency in nanoseconds: the mean, or the requested percentile. Then further
    /// latencies.
    pub figures: Vec<AcrossStarts>,
}

impl Restarts {
    /// The figures that reports show: throughput, and the latency that was asked for.
    pub fn shown(&self) -> &[AcrossStarts] {
        &self.figures[..self.figures.len().min(2)]
    }
}

/// A figure at each of several starts, besides those of [`Restarts`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AtStarts {
    /// Its key: `errors`, `ttft_p99`.
    #[serde(default)]
    pub key: String,
    /// Each start's value, in order.
    #[serde(default)]
    pub values: Vec<f64>,
    /// If it is a share, of how many requests it is that at each start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cases: Option<Vec<u64>>,
    /// How many of these count as one within a start, because they come together.
    #[serde(default)]
    pub as_one: f64,
}

/// Starts of a level that `--restarts` asked for and that are not there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MissingStarts {
    /// How many were asked for.
    #[serde(default)]
    pub planned: usize,
    /// How many were measured.
    #[serde(default)]
    pub measured: usize,
    /// Why the next one was not.
    #[serde(default)]
    pub reason: String,
    /// Whether that is because its requests failed; else the model could not be loaded again.
    #[serde(default)]
    pub requests_failed: bool,
}

/// How many requests count as one in the shares of a level, because failures, and requests that kept the limits of `--goodput`,
/// come together: 1 where each comes by itself.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bursts {
    /// In the share of those that failed.
    #[serde(default)]
    pub failed: f64,
    /// In the share of good ones.
    #[serde(default)]
    pub good: f64,
}

/// One process's part of a level whose load several shared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RankSummary {
    /// Its number.
    pub rank: usize,
    /// The machine that it ran on.
    pub host: String,
    /// Requests that succeeded in the windows of the result.
    pub requests: u64,
    /// Requests that failed in them.
    pub failed: u64,
    /// Requests that succeeded a second.
    pub request_rate: f64,
    /// Median of the headline latency, in nanoseconds; absent without requests.
    pub p50_ns: Option<f64>,
    /// Its 99th percentile.
    pub p99_ns: Option<f64>,
    /// How late its latest request was sent, in open loops.
    pub late_ns: Option<u64>,
    /// Processors that were busy for it on average.
    pub processors: Option<f64>,
    /// How far rank 0's clock is ahead of its own, in nanoseconds.
    pub clock_offset_ns: i64,
    /// By how much that may be wrong either way.
    pub clock_error_ns: u64,
}

/// One level, measured.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LevelSummary {
    /// The load.
    pub load: LevelLoad,
    /// The windows of the result, merged.
    pub client: ClientSummary,
    /// What the server counted during those windows; absent if it has no statistics. For a mix, its first model.
    pub server: Option<ServerSummary>,
    /// The same for the further models of a mix.
    pub further_servers: Vec<ServerSummary>,
    /// How long the server counted, if its counters could not be read at the windows' start and end.
    #[serde(rename = "server_span_s", with = "crate::seconds::optional", default)]
    #[schemars(with = "Option<f64>")]
    pub server_span: Option<Duration>,
    /// Where the time of the requests went, for each requested model; empty unless requested.
    #[serde(default)]
    pub breakdown: Vec<Breakdown>,
    /// What an inference costs this machine, if requested and the server is in this process.
    #[serde(default)]
    pub cost: Option<Cost>,
    /// GPU metrics, where collected.
    pub gpus: Option<Vec<GpuMetrics>>,
    /// Processor, memory and queue metrics, where collected.
    pub host: Option<HostMetrics>,
    /// The same of each server that requests are spread over, in the order of the setup's `servers`; empty with a single one.
    #[serde(default)]
    pub hosts: Vec<HostMetrics>,
    /// Confidence intervals of figures, at 95 % confidence; latencies in nanoseconds. A figure with too little data has none.
    pub intervals: Vec<StatisticEstimate>,
    /// How many requests count as one in its shares; absent in files of earlier versions.
    #[serde(default)]
    pub bursts: Option<Bursts>,
    /// How often it was looked at whether its requirements are decided; bounds by which they are judged grow with that.
    #[serde(default)]
    pub looks: u32,
    /// Why the measurement ended.
    pub ending: Ending,
    /// Its results at further starts of the model, if requested.
    pub restarts: Option<Restarts>,
    /// Further figures at each of these starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub at_starts: Vec<AtStarts>,
    /// Which of those are missing, unless the run was interrupted.
    #[serde(default)]
    pub missing_starts: Option<MissingStarts>,
    /// How the latency compares with `--latency-threshold`, if there is one.
    pub limit: Option<LimitCheck>,
    /// Disturbances of its windows.
    pub disturbances: Disturbances,
    /// Whether its figures are valid.
    pub verdict: Verdict,
    /// What contradicts itself, the model's configuration or the server's counts.
    #[serde(default)]
    pub remarks: Vec<Remark>,
    /// Its windows in order, including those that do not count.
    #[serde(default)]
    pub windows: Vec<WindowRow>,
    /// Slices of its time, for charts.
    #[serde(default, alias = "course")]
    pub timeline: Timeline,
    /// What the client's process used of the machine, if known, including a server inside it.
    #[serde(default)]
    pub client_usage: Option<Usage>,
    /// What the server's processes used, if they are known and on this machine; in process, those of its models.
    #[serde(default)]
    pub server_usage: Option<Usage>,
    /// Threads that issued requests.
    #[serde(default)]
    pub threads: Option<usize>,
    /// Maximum number of connections in use at once; none without a network in between.
    #[serde(default)]
    pub connections: Option<usize>,
    /// Each process's part of the load, if several shared it.
    #[serde(default)]
    pub ranks: Vec<RankSummary>,
}

/// An entry of a mix, as reports name it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EntrySummary {
    /// Model, version and parameters, as in `--model-mix`.
    pub name: String,
    /// Intended share of the requests, 0 to 1.
    pub share: f64,
}

/// What [`ClientSummary::latency`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Headline {
    /// From the actual send to the last response: closed loops, and open loops on request.
    ServiceTime,
    /// From the intended send to the last response: open loops.
    ResponseTime,
    /// From the send to the first response of a decoupled model.
    FirstResponse,
}

impl Headline {
    /// A short stable word for machine-readable output.
    pub fn name(self) -> &'static str {
        match self {
            Self::ServiceTime => "service_time",
            Self::ResponseTime => "response_time",
            Self::FirstResponse => "first_response",
        }
    }

    /// From when to when it runs.
    pub fn words(self) -> &'static str {
        match self {
            Self::ServiceTime => "from the send to the last response",
            Self::ResponseTime => "from the intended send to the last response",
            Self::FirstResponse => "from the send to the first response",
        }
    }
}

/// Summaries with round numbers for the tests of everything that reads summaries.
#[cfg(any(test, feature = "testing"))]
pub mod sample {
    use super::*;
    use crate::terms::{
        DecoupledLatency, Goodput, LatencyEnd, LatencyOrigin, MeasurementPlan, OnDisturbance, StabilityRule, WindowRule,
    };

    /// A distribution of `count` equal values.
    pub fn distribution(count: u64, ns: u64) -> Distribution {
        let mut distribution = Distribution::empty();
        distribution.histogram.record_n(ns, count).unwrap();
        distribution.sum_ns = u128::from(ns) * u128::from(count);
        distribution
    }

    /// An open loop of so many requests a second that all leave in time, with these latencies.
    pub fn open_loop(rate: f64, latency: &Distribution) -> OpenLoopSummary {
        OpenLoopSummary {
            response_time: latency.clone(),
            service_time: latency.clone(),
            schedule_delay: Distribution::empty(),
            requested_rate: rate,
            achieved_rate: rate,
            completed_rate: rate,
        }
    }

    /// One second in which `requests` succeeded, each in `latency_ns`.
    pub fn client(requests: u64, latency_ns: u64) -> ClientSummary {
        ClientSummary {
            start: Stamp(0),
            duration: Duration::from_secs(1),
            requests,
            failed: 0,
            cancelled: 0,
            errors: Vec::new(),
            sent: requests,
            sending: None,
            delayed: 0,
            sequences: 0,
            responses: requests,
            batch_size: 1,
            tensors: TensorBytes::default(),
            latency: distribution(requests, latency_ns),
            open_loop: None,
            decoupled: None,
            generated: None,
            sessions: None,
            sequence_times: None,
            good: None,
            send_ns: 0.0,
            receive_ns: 0.0,
            wakeup: None,
            turnaround_ns: 0.0,
            entries: Vec::new(),
            servers: Vec::new(),
            overhead_share: 0.0,
        }
    }

    /// A stable level of one second.
    pub fn level(load: LevelLoad, requests: u64, latency_ns: u64) -> LevelSummary {
        LevelSummary {
            load,
            client: client(requests, latency_ns),
            server: None,
            further_servers: Vec::new(),
            server_span: None,
            breakdown: Vec::new(),
            cost: None,
            gpus: None,
            host: None,
            hosts: Vec::new(),
            intervals: Vec::new(),
            bursts: Some(Bursts { failed: 1.0, good: 1.0 }),
            ending: Ending::Stable,
            looks: 0,
            restarts: None,
            at_starts: Vec::new(),
            missing_starts: None,
            limit: None,
            disturbances: Disturbances::default(),
            verdict: Verdict::Valid,
            remarks: Vec::new(),
            windows: Vec::new(),
            timeline: Timeline::default(),
            client_usage: None,
            server_usage: None,
            threads: None,
            connections: None,
            ranks: Vec::new(),
        }
    }

    /// Windows of a second, until three agree within 10 %.
    pub fn plan() -> MeasurementPlan {
        MeasurementPlan {
            window: WindowRule::Time(Duration::from_secs(1)),
            stability_rule: Some(StabilityRule::Windows),
            stability: 0.1,
            max_trials: 10,
            give_up_after: None,
            level_time: None,
            percentile: None,
            further_percentiles: Vec::new(),
            percentiles: Vec::new(),
            latency_threshold: None,
            binary_search: false,
            request_count: None,
            warmup_requests: 0,
            warmup: Duration::ZERO,
            max_errors: 0.0,
            stop_on: Vec::new(),
            precision: None,
            restarts: 1,
            decoupled_latency: DecoupledLatency::Last,
            latency_from: LatencyOrigin::Intended,
            on_disturbance: Some(OnDisturbance::Replace),
            latency_to: LatencyEnd::Response,
            goodput: Goodput::default(),
            long_count_windows: false,
            throughput_suffices: false,
        }
    }
}
