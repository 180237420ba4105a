//! The answer of a run with a limit: the most load within it.

use crate::answer::command::{after_first, beyond, command};
use crate::answer::phrases::{
    LONGER, MARGIN, Named, between, figures, kept_up, key, shown, speech, title, unless_wrong, with_interval,
};
use crate::answer::{Answer, Missing, Question};
use crate::figures::FigureAt;
use crate::number::{counted, time};
use crate::outcome::Outcome;
use crate::reasons::{InvalidReason, Verdict};
use crate::summary::{Ending, LevelLoad, LevelSummary, LimitCheck};
use crate::terms::Statistic;
use crate::{RunResult, Setup};

/// The most load within a limit.
pub(super) fn within(result: &RunResult, all: &[Named<'_>]) -> Answer {
    let setup = &result.setup;
    let limit = setup.measurement.latency_threshold.map_or(0.0, |limit| limit.as_nanos() as f64);
    let asked = format!("{} < {}", title(setup), time(limit));
    let Some(best) = most_within(result).and_then(|best| all.iter().find(|named| std::ptr::eq(named.level, best)))
    else {
        return nothing_within(result, all, &asked);
    };
    let above = all.iter().filter(|named| is_more(named.level, best.level) && !holds(named.level));
    let (open, over): (Vec<&Named<'_>>, Vec<&Named<'_>>) = above.partition(|named| is_open(named.level));
    let is_most = !over.is_empty() || setup.mode.separate_levels() == Some(1);
    let answer = Answer::sure(Question::MostLoad, words(best, setup, &asked, is_most), figures(best, setup));
    // Whether the best is within the limit is as open as what is above it.
    let is_close = best.level.limit.is_some_and(|check| !check.certain);
    let answer = if is_most || is_close { unless_certain(answer, best, result) } else { answer };
    // What is above a load that is too much is too much as well.
    let undecided = open.into_iter().filter(|named| !over.iter().any(|other| is_more(named.level, other.level)));
    match undecided.min_by(|left, right| left.level.load.number().total_cmp(&right.level.load.number())) {
        Some(open) if answer.missing.is_none() => unless_wrong(answer, open, setup),
        None if !is_most && answer.missing.is_none() => answer.lacks(beyond(setup)),
        _ => answer,
    }
}

/// None of all levels is within the limit as far as is known.
fn nothing_within(result: &RunResult, all: &[Named<'_>], asked: &str) -> Answer {
    let setup = &result.setup;
    let latency = |named: &&Named<'_>| named.level.client.key_latency_ns(setup.measurement.percentile);
    let least = all.iter().min_by(|left, right| latency(left).total_cmp(&latency(right))).unwrap_or(&all[0]);
    let found = with_interval(key(setup), least.level);
    let words = match least.level.limit.is_some_and(|check| !check.over) {
        // It was not measured well enough, or was no load that was asked for.
        true => format!("No load settled within {asked}: {found} at {}", least.name),
        false => format!("No load within {asked}: {found} at {}, the least of all measured", least.name),
    };
    let answer = unless_certain(Answer::sure(Question::MostLoad, words, figures(least, setup)), least, result);
    let is_over = Outcome::new(least.level) == Outcome::OverThreshold;
    match after_first(&setup.mode).filter(|_| all.len() == 1 && is_over && answer.missing.is_none()) {
        Some(others) => answer.notes(faster_with_more(setup, others)),
        None => answer,
    }
}

/// What may be so of a range that has ended with its first load: a lone request waits for others where a server collects a batch.
fn faster_with_more(setup: &Setup, others: String) -> Missing {
    let problem = "a range ends at the first load over the limit; a server that waits until it has a batch may be faster with more";
    Missing { command: Some(command(setup, &[(setup.mode.flag(), others)])), ..Missing::new(problem).certain() }
}

/// The best load in a sentence; it `is_most` where more was too much.
fn words(best: &Named<'_>, setup: &Setup, asked: &str, is_most: bool) -> String {
    let rate = shown(FigureAt::of_statistic(Statistic::Throughput), best.level);
    let latency = format!("{} {}", title(setup), latency(best.level, setup));
    let beside = speech(best.level, &setup.measurement).map(|speech| format!("; {speech}")).unwrap_or_default();
    match (best.level.load, is_most) {
        (LevelLoad::Streams(streams), true) => {
            format!("Most streams within {asked}: {streams} ({latency}, {rate}{beside})")
        }
        (LevelLoad::Streams(streams), false) => {
            let streams = counted(streams.into(), "stream");
            format!("At least {streams} within {asked} ({latency}, {rate}{beside})")
        }
        (_, true) => format!("Most load within {asked}: {rate} at {} ({latency}{beside})", best.name),
        (_, false) => format!("At least {rate} within {asked}, at {} ({latency}{beside})", best.name),
    }
}

/// What the latency comes to: between which values it lies, or what it is at most, where only that bound is below the limit.
fn latency(level: &LevelSummary, setup: &Setup) -> String {
    let figure = key(setup);
    let limit = setup.measurement.latency_threshold.map_or(f64::MAX, |limit| limit.as_nanos() as f64);
    let Some(found) = figure.value(level) else { return String::new() };
    let unit = figure.figure.unit;
    match (found.interval.filter(|interval| interval.high < limit), found.bounds.high) {
        (Some(interval), _) => unit.show_between(interval.low, interval.high),
        (None, Some(high)) if high < limit => format!("{}, at most {}", unit.show(found.value), unit.show(high)),
        (None, _) => between(figure, level),
    }
}

/// Whether a level has more load than another.
fn is_more(level: &LevelSummary, other: &LevelSummary) -> bool {
    level.load.number() > other.load.number() || level.client.batch_size > other.client.batch_size
}

/// Whether a level may be within the limit or not, as far as is known. A load that the client did not send says nothing of the
/// server.
fn is_open(level: &LevelSummary) -> bool {
    let is_undelivered = |reason: &InvalidReason| Outcome::of_reason(reason) == Outcome::Undelivered;
    matches!(&level.verdict, Verdict::Invalid(reasons) if reasons.iter().any(is_undelivered))
        || level.ending == Ending::Unstable && kept_up(level)
}

/// Whether a level is within the limit, be it known that it is or how large its latency is. A rate that was not sent, or that the
/// server did not keep up with, says nothing about the rate.
fn holds(level: &LevelSummary) -> bool {
    let is_settled = matches!(level.ending, Ending::Stable | Ending::Complete);
    (is_settled || level.ending == Ending::Unstable && is_surely_below(level)) && kept_up(level)
}

/// Whether the whole interval of the latency is below the limit.
fn is_surely_below(level: &LevelSummary) -> bool {
    level.limit.is_some_and(|check| !check.over && check.certain)
}

/// The highest level within the limit.
pub fn most_within(result: &RunResult) -> Option<&LevelSummary> {
    let held = result.levels.iter().filter(|level| holds(level));
    // Of several batch sizes, the load is what is inferred.
    let is_batched = result.levels.windows(2).any(|pair| pair[0].client.batch_size != pair[1].client.batch_size);
    let load = |level: &LevelSummary| if is_batched { level.client.throughput() } else { level.load.number() };
    held.max_by(|left, right| load(left).total_cmp(&load(right)))
}

/// How a level stands to a limit.
pub(super) fn standing(check: LimitCheck) -> String {
    let limit = time(check.limit.as_nanos() as f64);
    match (check.certain, check.over) {
        (true, false) => format!("is within the limit of {limit}"),
        (true, true) => format!("is over the limit of {limit}"),
        (false, _) => format!("is not surely within the limit of {limit}, nor over it"),
    }
}

/// The answer, unless the limit is within the interval of the latency: then with how long would settle it.
pub(super) fn unless_certain(answer: Answer, named: &Named<'_>, result: &RunResult) -> Answer {
    let setup = &result.setup;
    let found = key(setup).value(named.level);
    let contains = |limit: f64| {
        let interval = found.as_ref().and_then(|found| found.interval);
        interval.is_none_or(|interval| interval.low < limit && limit <= interval.high)
    };
    // A level that is invalid for another reason says that one.
    let is_open = |check: &LimitCheck| !check.certain && contains(check.limit.as_nanos() as f64);
    let Some(check) = named.level.limit.filter(is_open).filter(|_| named.level.ending != Ending::Unstable) else {
        return unless_wrong(answer, named, setup);
    };
    let gap = found.map_or(0.0, |found| (found.value - check.limit.as_nanos() as f64).abs());
    let half = found.and_then(|found| found.interval).map_or(0.0, |interval| (interval.high - interval.low) / 2.0);
    let times = ((half / gap.max(1.0)).powi(2) * MARGIN).clamp(LONGER.0, LONGER.1);
    let windows = named.level.windows.iter().map(|row| row.windows).sum::<usize>().max(3);
    let seconds = named.level.client.duration.as_secs_f64() * times;
    let (flag, before) = match setup.measurement.request_count {
        Some(requests) => ("--request-count", requests as f64),
        None => ("--max-trials", windows as f64),
    };
    let mut changed = vec![(flag, format!("{:.0}", (before * times).ceil()))];
    if setup.measurement.level_time.is_some() {
        changed.push(("--max-level-time", format!("{:.0}s", (2.0 * seconds).ceil())));
    }
    if setup.mode.is_range() {
        changed.insert(0, (setup.mode.flag(), named.level.load.number().to_string()));
    }
    let problem = match found.and_then(|found| found.interval) {
        Some(_) => format!("the interval of {} at {} contains the limit", title(setup), named.name),
        None => format!("too little is known of {} at {} to tell its side of the limit", title(setup), named.name),
    };
    // Others have the requests that they have.
    let command = setup.mode.has_windows().then(|| command(setup, &changed));
    let seconds = command.is_some().then(|| seconds.ceil() as u64);
    answer.lacks(Missing { command, seconds, ..Missing::new(problem) })
}
