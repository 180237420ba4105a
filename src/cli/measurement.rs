//! Section "Measurement": how long to measure, and when to believe it.

use std::time::Duration;

use clap::Args;

use crate::goodput;
use crate::parsers::precision;
use crate::plan::Given;
use crate::stop_rule::stop_rule;
use crate::terms::{
    DecoupledLatency, LatencyEnd, LatencyOrigin, MeasurementPlan, OnDisturbance, Precision, StabilityRule, StopRule,
    WindowRule,
};
use crate::values::{MS, decimal, number, one_of, period, share, whole};

/// How long to measure, and when the result is valid.
#[derive(Args, Debug)]
#[command(next_help_heading = "Measurement")]
pub struct MeasurementArgs {
    /// Length of a window, in milliseconds or as in 5s
    #[arg(short = 'p', long, value_name = "MS", default_value = "5000", value_parser = period(MS, MS))]
    measurement_interval: Duration,

    /// What ends a window: its time, or --measurement-request-count completed requests
    #[arg(long, value_name = "time_windows|count_windows", default_value = "time_windows",
        value_parser = one_of(&[("time_windows", WindowKind::Time), ("count_windows", WindowKind::Count)]))]
    measurement_mode: WindowKind,

    /// Minimum completed requests per window in count_windows mode
    #[arg(long, value_name = "N", default_value = "50", value_parser = whole::<u64>(1, u64::MAX))]
    measurement_request_count: u64,

    /// Sends exactly this many requests instead of measuring windows until they agree. 0: measures windows
    #[arg(long, value_name = "N", default_value = "0", value_parser = whole::<u64>(0, u64::MAX))]
    request_count: u64,

    /// Requests to send before the first window of each level. 0: none
    #[arg(long, value_name = "N", default_value = "0", value_parser = whole::<u64>(0, u64::MAX))]
    warmup_request_count: u64,

    /// Time to run the load before the first window of each level, such as 500ms or 2s; a bare number is milliseconds. 0: none
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = period(MS, Duration::ZERO))]
    warmup_duration: Duration,

    /// What settles a level: `interval`, the 95% confidence intervals of throughput and latency are within
    /// --stability-percentage, from all windows that were not disturbed, and neither drifts; `windows`, the last three
    /// agree. Default: interval, and windows under the name perf_analyzer
    #[arg(long, value_name = "windows|interval", value_parser = one_of(&[("windows", StabilityRule::Windows),
        ("interval", StabilityRule::Interval)]))]
    stability_rule: Option<StabilityRule>,

    /// Throughput and latency must be known to within this percentage of their value; with --stability-rule windows, the
    /// largest of the last three windows is at most this percentage above the smallest
    #[arg(short = 's', long, value_name = "PERCENT", default_value = "10", value_parser = number(0.0, 1e6))]
    stability_percentage: f64,

    /// Maximum windows per level; a level that has not settled by then is unstable. Unless it is given, a level that has
    /// not settled is measured for 20 s at least (not under the name perf_analyzer)
    #[arg(short = 'r', long, value_name = "N", default_value = "10", value_parser = whole::<usize>(1, 1_000_000))]
    max_trials: usize,

    /// Maximum total time of a level's windows, such as 30s: if the next window would end later, the level is judged by
    /// those it has. 0: no limit
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = period(MS, Duration::ZERO))]
    max_level_time: Duration,

    /// Latency percentile, such as 99 or 99.9, to use for stability, search and the summary, and to add to the report;
    /// -1 is the average
    #[arg(long, value_name = "N", default_value = "-1", value_parser = percentile)]
    percentile: Percentile,

    /// Percentiles to report in addition to perf_analyzer's four, such as 50,90,99,99.9,99.99. Default: none
    #[arg(long, value_name = "N,N,…", default_value = "", hide_default_value = true, value_parser = percentiles)]
    percentiles: Percentiles,

    /// Maximum latency, in milliseconds or as in 500us: a range ends at the first level above it. 0: no limit
    #[arg(short = 'l', long, value_name = "MS", default_value = "0", value_parser = period(MS, Duration::ZERO))]
    latency_threshold: Duration,

    /// Finds the highest level within --latency-threshold by binary search of the range; STEP is the precision.
    /// Default: walks through the range
    #[arg(long)]
    binary_search: bool,

    /// Share of requests that may fail, such as 0.05 or 5%, before a level counts as failed. Without this flag, a requirement
    /// or constraint on errors lets any share fail, and is judged itself; --binary-search and --sweep keep to the larger of both
    #[arg(long, value_name = "SHARE", default_value = "1%", value_parser = share)]
    max_errors: f64,

    /// Ends the run early when too many requests fail, whatever --max-errors allows: `errors>10% over 5s` once the 5 s
    /// have passed, `errors>10% over 5s of 20` as soon as 20 requests have ended in that time, `consecutive>10` when
    /// more than 10 fail in a row; with >= that share or number is enough; repeat it for more. Default: off
    #[arg(long, value_name = "CONDITION", value_parser = stop_rule)]
    stop_on: Vec<StopRule>,

    /// Measures until the half-width of a statistic's confidence interval is at most this share of its value, or until
    /// --max-trials windows have ended: `p99:2%`, `avg:1%`, `throughput:1%`. Default: off
    #[arg(long, value_name = "STAT:SHARE", value_parser = precision)]
    precision: Option<Precision>,

    /// Measures every level this many times, reloading the model in between (over the network only if the server loads
    /// models on request, else with new connections), and reports the interval over these starts and the share of the
    /// variance between them
    #[arg(long, value_name = "STARTS", default_value = "1", value_parser = whole::<u32>(1, 1000))]
    restarts: u32,

    /// Which response of a decoupled model ends its latency
    #[arg(long, value_name = "first|last", default_value = "last",
        value_parser = one_of(&[("first", DecoupledLatency::First), ("last", DecoupledLatency::Last)]))]
    decoupled_latency: DecoupledLatency,

    /// Where latency starts in open loops (rates and schedules): when a request was due, which includes waiting in the
    /// client, or when it was sent, as in perf_analyzer
    #[arg(long, value_name = "due|sent", default_value = "due",
        value_parser = one_of(&[("due", LatencyOrigin::Intended), ("sent", LatencyOrigin::Sent)]))]
    latency_from: LatencyOrigin,

    /// What to do about a window that other processes, the hypervisor or a CPU quota disturbed: `replace` measures
    /// another in its place, within --max-trials; `mark` keeps it and marks the level; `ignore` does not check.
    /// Default: replace, and mark under the name perf_analyzer
    #[arg(long, value_name = "replace|mark|ignore", value_parser = one_of(&[("replace", OnDisturbance::Replace),
        ("mark", OnDisturbance::Mark), ("ignore", OnDisturbance::Ignore)]))]
    on_disturbance: Option<OnDisturbance>,

    /// Where latency ends in synchronous closed loops: with the last response, or when the thread that waits for it
    /// wakes up, as in perf_analyzer
    #[arg(long, value_name = "response|wakeup", default_value = "response",
        value_parser = one_of(&[("response", LatencyEnd::Response), ("wakeup", LatencyEnd::Wakeup)]))]
    latency_to: LatencyEnd,

    /// Limit that a good request keeps, such as `latency<20ms`, `ttft<50ms` or `itl<10ms` (the last two for language
    /// models); repeat it for more. Adds the rate and share of good requests to the report; failed requests are never
    /// good. Of several loads the answer is the most that is good, which one is from 95% good requests on. Default: off
    #[arg(long, value_name = "FIGURE<TIME", value_parser = goodput::limits)]
    goodput: Vec<goodput::Limits>,
}

/// A percentile, or the average.
#[derive(Clone, Copy, Debug)]
struct Percentile(Option<f64>);

/// Percentiles, ascending.
#[derive(Clone, Debug)]
struct Percentiles(Vec<f64>);

#[derive(Clone, Copy, Debug)]
enum WindowKind {
    Time,
    Count,
}

impl MeasurementArgs {
    /// The share of requests that may fail before a level has failed, where the gate lets `most` fail at every level.
    pub fn max_errors(&self, most: Option<f64>, given: &Given) -> f64 {
        match most.filter(|_| !given.has("--max-errors")) {
            // What fails is too much for a search.
            Some(most) if self.binary_search || given.has("--sweep") => self.max_errors.max(most),
            // A level that fails sooner has no share for the requirement to judge.
            Some(_) => 1.0,
            None => self.max_errors,
        }
    }

    /// How long to measure, and when the result is valid.
    pub fn plan(&self) -> MeasurementPlan {
        MeasurementPlan {
            window: match self.measurement_mode {
                WindowKind::Time => WindowRule::Time(self.measurement_interval),
                WindowKind::Count => WindowRule::Count(self.measurement_request_count),
            },
            stability_rule: self.stability_rule,
            stability: self.stability_percentage / 100.0,
            max_trials: self.max_trials,
            give_up_after: None,
            level_time: (!self.max_level_time.is_zero()).then_some(self.max_level_time),
            percentile: self.percentile.0,
            further_percentiles: Vec::new(),
            percentiles: self.percentiles.0.clone(),
            latency_threshold: (!self.latency_threshold.is_zero()).then_some(self.latency_threshold),
            binary_search: self.binary_search,
            request_count: (self.request_count > 0).then_some(self.request_count),
            warmup_requests: self.warmup_request_count,
            warmup: self.warmup_duration,
            max_errors: self.max_errors,
            stop_on: self.stop_on.clone(),
            precision: self.precision,
            restarts: self.restarts,
            decoupled_latency: self.decoupled_latency,
            latency_from: self.latency_from,
            on_disturbance: self.on_disturbance,
            latency_to: self.latency_to,
            goodput: goodput::all(&self.goodput),
            long_count_windows: false,
            throughput_suffices: false,
        }
    }
}

/// Above 0 and below 100, at a resolution that reports can show, or -1.
fn percentile(text: &str) -> Result<Percentile, String> {
    let rule = |_| "it must be a number from 1 to 99.999, or -1 for the average".to_owned();
    match text {
        "-1" => Ok(Percentile(None)),
        _ => decimal(text, 1.0, 99.999).map(|number| Percentile(Some(number))).map_err(rule),
    }
}

/// Several, separated by commas.
fn percentiles(text: &str) -> Result<Percentiles, String> {
    let rule = |_| "it must be numbers from 0.001 to 99.9999, separated by commas".to_owned();
    let mut all = match text {
        "" => Vec::new(),
        _ => text
            .split(',')
            .map(|word| decimal(word.trim(), 0.001, 99.9999))
            .collect::<Result<Vec<_>, _>>()
            .map_err(rule)?,
    };
    all.sort_by(f64::total_cmp);
    all.dedup();
    Ok(Percentiles(all))
}
