//! A candidate's measurement: as long as its requests need, and a second time if it fails.

use std::time::Duration;

use crate::app::job::Job;
use crate::app::runner::Runner;
use crate::app::tune::rate;
use crate::clock::Stamp;
use crate::error::{Error, Result};
use crate::result::summary::{Ending, LevelSummary};
use crate::terms::{MeasurementPlan, OnDisturbance, WindowRule};

/// The start of a load is skipped for this time, or for this share of what is measured, whichever is more.
const SETTLING: (Duration, f64) = (Duration::from_millis(40), 0.2);
/// A load has settled after this multiple of its latency: after one latency, everything outstanding was sent in this
/// load.
const SETTLED: f64 = 1.25;
/// A window holds this many requests, but lasts at least and at most these multiples of their latency.
const REQUESTS: (f64, f64, f64) = (64.0, 2.0, 4.0);
/// Limit on both times.
const MAX_LENGTH: Duration = Duration::from_secs(2);
/// A measurement is accepted down to this share of the length that its latency asks for.
const ACCEPTED_SHARE: f64 = 0.75;
/// How long the longest try waits for a candidate that completes no request: this share of the budget, between these
/// bounds.
const PATIENCE: (f64, Duration, Duration) = (0.15, Duration::from_secs(2), Duration::from_secs(60));

/// What a candidate is measured with.
pub struct TrialRunner<'a> {
    /// Measures.
    pub runner: Runner<'a>,
    /// The load.
    pub job: &'a Job,
    /// The shortest window, in seconds.
    pub unit_s: f64,
    /// Requests outstanding; none if a rate is sent.
    pub concurrency: Option<u32>,
    /// The percentile that is shown.
    pub percentile: f64,
    /// How long a single try may take in which no request ends.
    pub patience: Duration,
}

/// What was measured.
pub struct Measured {
    /// The level.
    pub level: LevelSummary,
    /// How well the candidate keeps up with the rate that is sent, if one is.
    pub kept_up: Option<f64>,
}

/// What a level says about its candidate.
#[derive(Debug, PartialEq)]
enum TrialOutcome {
    /// It was measured.
    Enough,
    /// Nothing: no request ended, well or badly.
    Nothing,
    /// It does not work.
    Failed(String),
}

/// How long a single try may take in which no request ends.
pub fn patience(budget: Duration) -> Duration {
    let (share, least, most) = PATIENCE;
    budget.mul_f64(share).clamp(least, most)
}

impl TrialRunner<'_> {
    /// Measures the candidate. If it turns out to be slower than expected it is measured again, for long enough; if it
    /// fails it is tried once more, because the machine may have been the cause. `expected_rate` is that of all requests
    /// outstanding, or of a single one where a rate is sent.
    ///
    /// # Errors
    /// Why there are no figures.
    pub fn measure(&self, expected_rate: f64) -> Result<Measured> {
        let mut latency_s = self.latency_s(expected_rate);
        let mut failed = false;
        loop {
            let base = &self.runner.plan().measurement;
            let lengths = Lengths::new(base.warmup, self.unit_s, latency_s, self.concurrency);
            let plan = measurement(base, lengths, self.percentile);
            let started = Stamp::now();
            let level = match self.runner.measure_quietly(self.job, &plan) {
                Err(_) if !failed && !self.runner.must_stop() => {
                    failed = true;
                    continue;
                }
                level => level?,
            };
            match outcome_of(&level)? {
                TrialOutcome::Enough => {
                    let kept_up = self.concurrency.map_or_else(|| rate::kept_up(&level), |_| None);
                    latency_s = self.latency_s(self.rate(&level)).min(MAX_LENGTH.as_secs_f64() / REQUESTS.2);
                    // A queue that grows makes requests the slower the longer they are measured.
                    let falls_behind = kept_up.is_some_and(|share| share < 1.0);
                    let needed = Lengths::new(base.warmup, self.unit_s, latency_s, self.concurrency);
                    if falls_behind || lengths.suffice_for(needed) {
                        return Ok(Measured { level, kept_up });
                    }
                }
                TrialOutcome::Nothing => {
                    latency_s = longer(lengths.warmup + lengths.window, since(started), self.patience)?
                }
                TrialOutcome::Failed(reason) if failed || self.runner.must_stop() => return Err(Error::server(reason)),
                TrialOutcome::Failed(_) => failed = true,
            }
        }
    }

    /// Minimum time that the outstanding requests take.
    fn latency_s(&self, rate: f64) -> f64 {
        if rate > 0.0 { f64::from(self.concurrency.unwrap_or(1)) / rate } else { 0.0 }
    }

    /// Requests a second of those outstanding; where a rate is sent, of a single one.
    fn rate(&self, level: &LevelSummary) -> f64 {
        match self.concurrency {
            Some(_) => level.client.request_rate(),
            None => rate::of_single_requests(level.client.latency.mean_ns()),
        }
    }
}

/// The latency to assume for the next try, if no request ended in a window of `waited` and the try `took` this long
/// until all had.
///
/// # Errors
/// If that exceeds the time that we wait.
fn longer(waited: Duration, took: Duration, patience: Duration) -> Result<f64> {
    let (window, waited) = (waited, waited.max(took));
    if waited >= patience.mul_f64(0.9) {
        let until = match took > window {
            true => format!(", and it took {} ms until all had", took.as_millis()),
            false => String::new(),
        };
        let hint = "a longer --budget waits longer for one";
        return Err(Error::server(format!("no request ended within {} ms{until}; {hint}", window.as_millis())));
    }
    // The next try takes at least two and a half times as long as the value returned here.
    Ok(waited.min(patience.mul_f64(0.4)).as_secs_f64())
}

/// How long the load settles, and is then measured.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Lengths {
    warmup: Duration,
    window: Duration,
}

impl Lengths {
    /// For requests of such a latency: at least `warmup` and a window of `unit_s`.
    fn new(warmup: Duration, unit_s: f64, latency_s: f64, concurrency: Option<u32>) -> Self {
        let (requests, fewest, most) = REQUESTS;
        let latencies = (requests / f64::from(concurrency.unwrap_or(1).max(1))).clamp(fewest, most);
        // A window shorter than a request may see none end.
        let times = |factor: f64, fewest: f64| {
            Duration::from_secs_f64((factor * latency_s).min(MAX_LENGTH.as_secs_f64()).max(fewest * latency_s))
        };
        let window = Duration::from_secs_f64(unit_s).max(times(latencies, 1.5));
        let warmup = warmup.max(SETTLING.0).max(window.mul_f64(SETTLING.1)).max(times(SETTLED, 1.0));
        Self { warmup, window }
    }

    /// Whether they are about as long as those that are needed, or longer.
    fn suffice_for(self, needed: Self) -> bool {
        self.warmup >= needed.warmup.mul_f64(ACCEPTED_SHARE) && self.window >= needed.window.mul_f64(ACCEPTED_SHARE)
    }
}

/// One window, after the load has settled.
fn measurement(plan: &MeasurementPlan, lengths: Lengths, percentile: f64) -> MeasurementPlan {
    MeasurementPlan {
        window: WindowRule::of_length(lengths.window),
        warmup: lengths.warmup,
        percentile: Some(percentile),
        request_count: None,
        warmup_requests: 0,
        on_disturbance: Some(OnDisturbance::Mark),
        ..plan.clone().once()
    }
}

fn since(started: Stamp) -> Duration {
    Duration::from_nanos(Stamp::now().since(started))
}

/// What a level says about its candidate.
///
/// # Errors
/// If the user has interrupted.
fn outcome_of(level: &LevelSummary) -> Result<TrialOutcome> {
    let reason = level.client.errors.first().map(|(error, _)| error.to_string());
    Ok(match level.ending {
        Ending::Interrupted => return Err(Error::server("interrupted")),
        _ if level.client.completed() == 0 && reason.is_none() => TrialOutcome::Nothing,
        Ending::Failed => {
            let reason = reason.unwrap_or_else(|| "none succeeded".to_owned());
            TrialOutcome::Failed(format!("requests fail: {reason}{}", advice(&reason)))
        }
        _ if level.client.requests == 0 => TrialOutcome::Failed("no request succeeded".to_owned()),
        _ => TrialOutcome::Enough,
    })
}

/// What to do about a model that refuses what its queue has no room or no time for, in Triton's words.
fn advice(reason: &str) -> &'static str {
    match ["Exceeds maximum queue size", "Request timeout expired"].iter().any(|words| reason.contains(words)) {
        true => "; the model's queue policy refuses this load: name a smaller one (--at-concurrency, --at-rate)",
        false => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_overloads_a_queue_is_told_what_is_less() {
        assert!(advice("Unavailable: [request id: 7] Exceeds maximum queue size").contains("--at-concurrency"));
        assert!(advice("Unavailable: Request timeout expired").contains("queue policy"));
        assert_eq!(advice("Internal: no"), "");
    }

    #[test]
    fn who_is_slow_is_waited_for_and_who_hangs_is_not() {
        let lengths = |latency_s: f64| Lengths::new(Duration::ZERO, 0.25, latency_s, Some(1));
        let ms = |warmup: u64, window: u64| Lengths {
            warmup: Duration::from_millis(warmup),
            window: Duration::from_millis(window),
        };
        let patience = patience(Duration::from_secs(60));
        let (mut latency_s, mut tries) = (0.0, Vec::new());
        let error = loop {
            let Lengths { warmup, window } = lengths(latency_s);
            tries.push((warmup + window).as_secs_f64());
            assert!(tries.len() < 10, "{tries:?}");
            match longer(warmup + window, Duration::ZERO, patience) {
                Ok(longer) => latency_s = longer,
                Err(error) => break error.to_string(),
            }
        };
        assert!(tries.windows(2).all(|pair| pair[1] > 1.2 * pair[0]), "{tries:?}");
        let last = tries[tries.len() - 1];
        assert!((9.0..15.0).contains(&last) && tries.iter().sum::<f64>() < 25.0, "{tries:?}");
        assert!(error.contains(&format!("no request ended within {} ms", (last * 1e3) as u64)), "{error}");
        let hung = longer(Duration::from_millis(300), Duration::from_secs(20), patience).unwrap_err().to_string();
        assert!(
            hung.contains("no request ended within 300 ms, and it took 20000 ms until all had; a longer --budget"),
            "{hung}"
        );
        assert_eq!(lengths(4.0), ms(4_000, 6_000), "longer than a request");
        assert_eq!(lengths(0.2), ms(250, 800));
        let many = Lengths::new(Duration::ZERO, 0.25, 0.2, Some(128));
        assert_eq!(many, ms(250, 400), "many requests in one latency");
        assert_eq!(lengths(0.0), ms(50, 250));
    }
}
