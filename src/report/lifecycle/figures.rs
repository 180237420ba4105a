//! The figures of a run, a stage or an adapter, under inference-perf's keys.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::backend::InferError;
use crate::clock::Stamp;
use crate::result::summary::{ClientSummary, Distribution, LevelLoad};

const NS: f64 = 1e9;

/// What is longer is no pause between two parts of a run: it was resumed later.
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);

/// Figures that can be summed.
pub struct Figures {
    /// From the first send to the last answer of each part.
    spans: Vec<(Stamp, Stamp)>,
    sent: u64,
    /// From the first send to the last.
    sending: f64,
    succeeded: u64,
    failed: u64,
    errors: Vec<(InferError, u64)>,
    latency: Distribution,
    delay: Distribution,
    first_token: Distribution,
    inter_token: Distribution,
    gap: Distribution,
    normalised: Distribution,
    /// Tokens of each input and output, and bytes of each request's body.
    input_lengths: Distribution,
    output_lengths: Distribution,
    request_bytes: Distribution,
    /// Tokens of inputs that came from a cache.
    cached: u64,
    /// Tokens of all outputs, if they were counted.
    tokens: Option<u64>,
    good: Option<u64>,
}

impl Figures {
    /// The sum of several.
    pub fn sum<'a>(parts: impl IntoIterator<Item = &'a ClientSummary>) -> Self {
        let empty = Distribution::empty;
        let mut sum = Self {
            spans: Vec::new(),
            sent: 0,
            sending: 0.0,
            succeeded: 0,
            failed: 0,
            errors: Vec::new(),
            latency: empty(),
            delay: empty(),
            first_token: empty(),
            inter_token: empty(),
            gap: empty(),
            normalised: empty(),
            input_lengths: empty(),
            output_lengths: empty(),
            request_bytes: empty(),
            cached: 0,
            tokens: None,
            good: None,
        };
        parts.into_iter().for_each(|part| sum.add(part));
        sum
    }

    fn add(&mut self, part: &ClientSummary) {
        let first = part.sending.map(|sending| sending.first).unwrap_or_default();
        self.spans.push((part.start.plus_duration(first), part.start.plus_duration(part.duration)));
        self.sent += part.sent;
        self.sending += part.sending_length().as_secs_f64();
        self.succeeded += part.requests;
        self.failed += part.failed;
        for (error, count) in &part.errors {
            match self.errors.iter_mut().find(|(other, _)| other == error) {
                Some((_, sum)) => *sum += count,
                None => self.errors.push((error.clone(), *count)),
            }
        }
        self.latency.merge(part.service_time());
        part.open_loop.iter().for_each(|open| self.delay.merge(&open.schedule_delay));
        if let Some(generated) = &part.generated {
            self.first_token.merge(&generated.first_token);
            self.inter_token.merge(&generated.inter_token);
            self.gap.merge(&generated.gap);
            self.normalised.merge(&generated.normalised);
            self.input_lengths.merge(&generated.input_lengths);
            self.output_lengths.merge(&generated.output_lengths);
            self.request_bytes.merge(&generated.request_bytes);
            self.cached += generated.cached_tokens;
            *self.tokens.get_or_insert(0) += generated.tokens;
        }
        if let Some(good) = part.good {
            *self.good.get_or_insert(0) += good;
        }
    }

    /// The report; `load` is what was requested of a stage.
    pub fn report(&self, percentiles: &[f64], load: Option<LevelLoad>) -> Value {
        json!({
            "benchmark_time_seconds": self.seconds(),
            "load_summary": self.load(percentiles, load),
            "successes": self.successes(percentiles),
            "failures": {
                "count": self.failed,
                "request_latency": null,
                "prompt_tokens": null,
                "by_label": self.by_label(),
            },
        })
    }

    fn load(&self, percentiles: &[f64], load: Option<LevelLoad>) -> Value {
        let mut summary = json!({ "count": self.sent, "schedule_delay": seconds(&self.delay, percentiles) });
        let achieved = self.per_second(self.sent, self.sending);
        let (requested, concurrency) = match load {
            None => return summary,
            Some(LevelLoad::RequestRate(rate) | LevelLoad::Schedule(rate)) => (Some(rate), None),
            // A load without a schedule requests no rate.
            Some(LevelLoad::Concurrency(number) | LevelLoad::Streams(number)) => (None, Some(number)),
        };
        summary["send_duration"] = json!(self.sending);
        summary["requested_rate"] = json!(requested);
        summary["achieved_rate"] = json!(achieved);
        if let Some(concurrency) = concurrency {
            summary["concurrency"] = json!(concurrency);
        }
        summary
    }

    fn successes(&self, percentiles: &[f64]) -> Value {
        let per_second = |tokens: u64| self.per_second(tokens, self.seconds());
        let inputs = (self.input_lengths.count() > 0).then_some(self.input_lengths.sum_ns as u64);
        let output_lengths = sizes(&self.output_lengths, percentiles);
        let output_tokens = self.tokens.map(|total| totalled(json!({ "total": total }), &output_lengths));
        let mut successes = json!({
            "count": self.succeeded,
            "latency": {
                "request_latency": seconds(&self.latency, percentiles),
                "normalized_time_per_output_token": seconds(&self.normalised, percentiles),
                "time_per_output_token": seconds(&self.inter_token, percentiles),
                "time_to_first_token": seconds(&self.first_token, percentiles),
                "inter_token_latency": seconds(&self.gap, percentiles),
            },
            "throughput": {
                "requests_per_sec": self.per_second(self.succeeded, self.seconds()),
                "input_tokens_per_sec": inputs.map(per_second),
                "output_tokens_per_sec": self.tokens.map(per_second),
                "total_tokens_per_sec": inputs.zip(self.tokens).map(|(inputs, tokens)| per_second(inputs + tokens)),
            },
            "request_size_bytes": sizes(&self.request_bytes, percentiles),
            "prompt_tokens": inputs.map(|total| {
                let counts = json!({
                    "total": total, "cached": self.cached, "uncached": total.saturating_sub(self.cached),
                });
                totalled(counts, &sizes(&self.input_lengths, percentiles))
            }),
            "output_len": output_lengths,
            "output_tokens": output_tokens,
            "token_count_mismatches": 0,
        });
        if let Some(good) = self.good {
            // Failed requests are not good ones, but they are requests.
            let total = self.succeeded + self.failed;
            successes["goodput_metrics"] = json!({
                "goodput_percentage": if total > 0 { good as f64 * 100.0 / total as f64 } else { 0.0 },
                "request_goodput": self.per_second(good, self.seconds()),
                "good_requests": good,
                "total_requests": total,
            });
        }
        successes
    }

    /// Failures by kind, with the server's message.
    fn by_label(&self) -> Value {
        let mut labels: Vec<(String, u64, Vec<Value>)> = Vec::new();
        for (error, count) in &self.errors {
            let (label, message) = (error.code.to_string(), json!({ "message": error.message }));
            match labels.iter_mut().find(|(other, ..)| *other == label) {
                Some((_, sum, messages)) => {
                    *sum += count;
                    messages.push(message);
                }
                None => labels.push((label, *count, vec![message])),
            }
        }
        labels.sort_by_key(|(_, count, _)| std::cmp::Reverse(*count));
        let entry = |(label, count, messages)| (label, json!({ "count": count, "messages": messages }));
        Value::Object(labels.into_iter().map(entry).collect())
    }

    /// From the first send to the last answer, with the pauses between the parts.
    pub fn seconds(&self) -> f64 {
        let mut spans = self.spans.clone();
        spans.sort_unstable();
        let (mut seconds, mut until) = (Duration::ZERO, spans.first().map_or(Stamp(0), |(begin, _)| *begin));
        for (begin, end) in spans {
            seconds += Some(begin - until).filter(|pause| *pause <= LONGEST_PAUSE).unwrap_or_default();
            seconds += end - begin.max(until);
            until = until.max(end);
        }
        seconds.as_secs_f64()
    }

    fn per_second(&self, events: u64, seconds: f64) -> f64 {
        if seconds > 0.0 { events as f64 / seconds } else { 0.0 }
    }
}

/// The same of counts.
fn sizes(distribution: &Distribution, percentiles: &[f64]) -> Value {
    summary(distribution, 1.0, percentiles)
}

/// A total, with how it is distributed.
fn totalled(mut total: Value, distribution: &Value) -> Value {
    if let (Value::Object(total), Value::Object(distribution)) = (&mut total, distribution) {
        total.extend(distribution.clone());
    }
    total
}

/// Mean, extremes and percentiles of times, in seconds; `null` if there are none.
pub fn seconds(distribution: &Distribution, percentiles: &[f64]) -> Value {
    summary(distribution, NS, percentiles)
}

/// The same in a unit that is so many times that of the distribution.
fn summary(distribution: &Distribution, unit: f64, percentiles: &[f64]) -> Value {
    if distribution.count() == 0 {
        return Value::Null;
    }
    let mut all = Map::new();
    all.insert("mean".to_owned(), json!(distribution.mean_ns() / unit));
    all.insert("min".to_owned(), json!(distribution.histogram.min() as f64 / unit));
    for percentile in percentiles {
        let name = if *percentile == 50.0 { "median".to_owned() } else { format!("p{percentile}") };
        all.insert(name, json!(distribution.percentile_ns(*percentile) as f64 / unit));
    }
    all.insert("max".to_owned(), json!(distribution.histogram.max() as f64 / unit));
    Value::Object(all)
}
