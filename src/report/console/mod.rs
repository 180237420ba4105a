//! The report on standard output, with the lines that readers of perf_analyzer expect, and some of our own between
//! them.
//!
//! Lines that programs parse (`Request concurrency:`, `Throughput:`, the final block) keep upstream's format to the
//! letter, including odd spaces. Lines of our own have other names.

mod breakdown;
mod client;
mod detail;
mod disturbance;
mod mix;
mod model_list;
mod ranks;
mod remarks;
mod server;
mod upstream;

use std::fmt::Write as _;

use crate::model::{ModelSpec, TensorSpec};
use crate::number::{counted, msec, percent, significant, whole_us};
use crate::result::answer::{most_within, speech};
use crate::result::outcome::Outcome;
use crate::result::reasons::Verdict;
use crate::result::summary::{ClientSummary, LevelLoad, LevelSummary, StatisticEstimate};
use crate::result::sweep::SweepResult;
use crate::result::{RunResult, Setup};
use crate::stats::{Bounds, Interval};
use crate::stdio::shown;
use crate::terms::Statistic;
use crate::{full_level_name, has_several_batch_sizes, load_name, load_value, restarts};

pub use detail::row;
pub use model_list::model_list;
pub use upstream::as_upstream;

/// Above this overhead, the client bounds the throughput (upstream warns there, too).
const OVERHEAD_WARNING: f64 = 0.5;

/// The line above a level; `None` for schedules, whose rate is not chosen.
pub fn header(load: LevelLoad) -> Option<String> {
    match load {
        LevelLoad::Concurrency(concurrency) => Some(format!("Request concurrency: {concurrency}\n")),
        LevelLoad::Streams(streams) => Some(format!("Paced streams: {streams}\n")),
        LevelLoad::RequestRate(rate) => {
            Some(format!("Request Rate: {} inference requests per second\n", significant(rate)))
        }
        LevelLoad::Schedule(_) => None,
    }
}

/// The line of one window (`-v`); `trial` counts from 1.
pub fn pass(trial: usize, window: &ClientSummary, percentile: Option<f64>) -> String {
    let throughput = significant(window.throughput());
    let latency = whole_us(window.key_latency_ns(percentile));
    let latency_text = match percentile {
        Some(percentile) => format!("p{percentile} latency: {latency} usec"),
        None => format!("Avg latency: {latency} usec (std {} usec). ", whole_us(window.latency.std_ns())),
    };
    format!("  Pass [{trial}] throughput: {throughput} infer/sec. {latency_text}\n")
}

/// The lines after a pass line with `-v -v`: the counts of the window's requests, and its latencies.
pub fn pass_detail(window: &ClientSummary) -> String {
    let mut text = format!(
        "    Requests: {} sent, {} completed, {} failed in {} msec\n",
        window.sent,
        window.requests,
        window.failed,
        window.duration.as_millis()
    );
    text += &detail::row("Latency", false, &window.latency);
    text
}

/// A line on each model, as the server describes it (`-v -v`).
pub fn models(models: &[ModelSpec]) -> String {
    let tensors = |tensors: &[TensorSpec]| {
        let all: Vec<String> = tensors
            .iter()
            .map(|tensor| format!("{} {} {:?}", shown(&tensor.name), tensor.datatype.name(), tensor.shape))
            .collect();
        all.join(", ")
    };
    let line = |model: &ModelSpec| {
        format!(
            "model '{}': platform '{}', versions {}, max_batch_size {}, inputs: {}; outputs: {}\n",
            shown(&model.id.to_string()),
            shown(&model.platform),
            shown(&model.versions.join(", ")),
            model.max_batch_size,
            tensors(&model.inputs),
            tensors(&model.outputs)
        )
    };
    models.iter().map(line).collect()
}

/// Everything under a level's header and its pass lines: client, server, metrics, verdict, and an empty line.
pub fn results(setup: &Setup, level: &LevelSummary) -> String {
    let mut text = client::client(setup, level);
    text += &confidence(level);
    text += &restarts::text(level);
    if let Some(server) = &level.server {
        text += &server::server(server, setup.entries.len() > 1);
    }
    for server in &level.further_servers {
        text += &server::server(server, true);
    }
    text += &breakdown::text(level);
    text += &server::span(level);
    text += &server::metrics(setup, level);
    text += &ranks::text(level);
    text += &remarks::text(level);
    text += &disturbance::line(level);
    text += &verdict_lines(setup, level);
    text.push('\n');
    match setup.detail.as_upstream && !setup.keeps_upstream(level) {
        true => upstream::none_as_upstream(&text),
        false => text,
    }
}

/// The confidence intervals of the level's figures; empty if nothing succeeded.
fn confidence(level: &LevelSummary) -> String {
    let whole = |interval: Interval| format!("{} to {}", whole_us(interval.low), whole_us(interval.high));
    let figures = level.intervals.iter().map(|estimate| match (estimate.statistic, estimate.interval) {
        (statistic, None) => match estimate.bounds {
            Bounds { high: Some(high), .. } => format!("{} < {} usec", statistic.name(), whole_us(high)),
            Bounds { low: Some(low), .. } => format!("{} > {} usec", statistic.name(), whole_us(low)),
            Bounds { low: None, high: None } => format!("{} not known", statistic.name()),
        },
        (Statistic::Throughput, Some(interval)) => {
            format!("throughput {} to {} infer/sec", significant(interval.low.max(0.0)), significant(interval.high))
        }
        (statistic, Some(interval)) => format!("{} {} usec", statistic.name(), whole(interval)),
    });
    let figures: Vec<String> = figures.collect();
    let none = figures.is_empty() || level.client.requests == 0;
    if none { String::new() } else { format!("    95% confidence: {}\n", figures.join(", ")) }
}

/// The lines about requests of a level that observers missed.
pub fn losses(load: LevelLoad, missing: u64, unvalidated: u64) -> Vec<String> {
    let level = format!("{} {}", load_name(load), load_value(load));
    let exported =
        "missing from --profile-export-file or --requests-file, which could not be written as fast as they came";
    let validated = "not validated, because outputs came faster than they can be compared";
    let lines = [(missing, ["is", "are"], exported), (unvalidated, ["was", "were"], validated)];
    let missed = lines.into_iter().filter(|(count, ..)| *count > 0);
    let line = |(count, verbs, reason): (u64, [&str; 2], &str)| {
        let verb = verbs[usize::from(count != 1)];
        format!("{level}: {} {verb} {reason}", counted(count, "request"))
    };
    missed.map(line).collect()
}

/// The final block: the answer of a search, then a line per level, in the order in which they were measured.
pub fn summary(result: &RunResult) -> String {
    let (setup, levels) = (&result.setup, &result.levels);
    let latency = setup.measurement.percentile.map_or("Average".to_owned(), |percentile| format!("p{percentile}"));
    let mut text = answer(result);
    let batched = has_several_batch_sizes(setup, levels);
    let batch = |level: &LevelSummary| match batched {
        true => format!(", batch size: {}", level.client.batch_size),
        false => String::new(),
    };
    let _ = writeln!(text, "Inferences/Second vs. Client {latency} Batch Latency");
    let as_upstream = setup.detail.as_upstream;
    for level in levels.iter().filter(|level| !as_upstream || setup.keeps_upstream(level)) {
        let _ = writeln!(
            text,
            "{}: {}{}, throughput: {} infer/sec, latency {} usec{}",
            load_name(level.load),
            load_value(level.load),
            batch(level),
            significant(level.client.throughput()),
            whole_us(level.client.key_latency_ns(setup.measurement.percentile)),
            // perf_analyzer's callers read every line here, to its end.
            if as_upstream { String::new() } else { mark(level) },
        );
        let speech = speech(level, &setup.measurement).filter(|_| !as_upstream);
        text.extend(speech.map(|words| format!("  {words}\n")));
    }
    text
}

/// The answer of a sweep, ending with an empty line.
pub fn sweep(found: &SweepResult) -> String {
    let knee = found.knee.map_or_else(|| "none found".to_owned(), |rate| format!("{rate:.1} requests/sec"));
    let bracket = match found.unsustained {
        Some(rate) => format!("sustained; {rate:.1} was not"),
        None => "sustained; no rate was too high".to_owned(),
    };
    format!("Saturation: {:.1} requests/sec ({bracket})\nKnee: {knee}\n\n", found.saturation)
}

/// The answer of a search: the highest level that passed.
fn answer(result: &RunResult) -> String {
    let setup = &result.setup;
    let Some(limit) = setup.measurement.latency_threshold.filter(|_| setup.mode.has_levels()) else {
        return String::new();
    };
    let found = most_within(result);
    let best = result.levels_with_earlier().find(|(level, _)| found.is_some_and(|found| std::ptr::eq(*level, found)));
    let limit = msec(limit);
    best.map_or_else(
        || format!("Highest level within {limit} msec: none\n"),
        |(level, earlier)| {
            let name = full_level_name(level.load, result.distinction(level, earlier));
            format!("Highest level within {limit} msec: {name}\n{}", known_of(setup, level))
        },
    )
}

/// The latency of the level that a search found, and how certainly it is within the limit.
fn known_of(setup: &Setup, level: &LevelSummary) -> String {
    let (key, name) = match setup.measurement.percentile {
        Some(percentile) => (Statistic::Percentile(percentile), format!("p{percentile}")),
        None => (Statistic::MeanLatency, "avg".to_owned()),
    };
    let latency = whole_us(level.client.key_latency_ns(setup.measurement.percentile));
    let interval =
        match (StatisticEstimate::find(&level.intervals, key), StatisticEstimate::find_bounds(&level.intervals, key)) {
            (Some(interval), _) => format!("95% confidence {} to {}", whole_us(interval.low), whole_us(interval.high)),
            (None, Bounds { high: Some(high), .. }) => format!("95% confidence < {}", whole_us(high)),
            (None, _) => "interval not known".to_owned(),
        };
    format!("  {name} latency {latency} usec, {interval}{}\n", outcome_mark(level))
}

/// The end of a line whose level is not simply valid, or was disturbed.
fn mark(level: &LevelSummary) -> String {
    outcome_mark(level) + &disturbance::meanwhile(level).map_or_else(String::new, |taken| format!(" [while {taken}]"))
}

fn outcome_mark(level: &LevelSummary) -> String {
    let outcome = Outcome::new(level);
    if outcome == Outcome::Valid { String::new() } else { format!(" [{outcome}]") }
}

fn verdict_lines(setup: &Setup, level: &LevelSummary) -> String {
    let outcome = Outcome::new(level);
    let bound = client_bound(&level.client);
    let taken = disturbance::meanwhile(level).map_or_else(String::new, |taken| format!(", while {taken}"));
    match &level.verdict {
        Verdict::Valid => format!("  Verdict: {outcome}{taken}\n{bound}"),
        Verdict::Invalid(reasons) => {
            let mut text = format!("  Verdict: invalid [{outcome}]{taken}\n");
            for reason in reasons {
                let _ = writeln!(
                    text,
                    "    {reason}: {}",
                    reason.remedy(&setup.measurement, level.disturbances.disturbed > 0)
                );
            }
            text + &bound
        }
    }
}

/// The note for a client whose threads are busier with themselves than the server is with requests: latencies are still
/// the server's, throughput is not.
fn client_bound(client: &ClientSummary) -> String {
    if client.requests == 0 || client.overhead_share <= OVERHEAD_WARNING {
        return String::new();
    }
    let share = percent(client.overhead_share);
    let (activity, remedy) = match client.wakeup {
        Some(_) => {
            ("mostly to wake up", "--async loads the server more, and so does --wait spin on a processor of its own")
        }
        None => ("with its own work", "give it more processors (--max-threads, --worker-cpus)"),
    };
    format!("    Note: the client spent {share} of its threads' time {activity}: {remedy}\n")
}

#[cfg(test)]
mod tests;
