//! The table of levels, and the verdicts on those that are not valid.

use maud::{Markup, html};

use crate::figures::{level, rate, short, time};
use crate::html::parts::percent;
use crate::result::figures::{FigureAt, further};
use crate::result::outcome::Outcome;
use crate::result::reasons::Verdict;
use crate::result::statistic::value;
use crate::result::summary::{Headline, Known, LevelSummary};
use crate::result::{RunResult, Setup};
use crate::stats::{Interval, early_stopping_floor};
use crate::stdio::shown;
use crate::terms::Statistic;
use crate::{percentiles, restarts as starts, server_load};

/// A row for each level, each figure with its interval.
pub fn table(result: &RunResult) -> Markup {
    let setup = &result.setup;
    let percentiles = all_percentiles(setup);
    let open = result.levels.iter().any(|level| level.client.open_loop.is_some());
    let further = further(&result.levels, &setup.measurement);
    let columns = Columns { percentiles: &percentiles, further: &further, open };
    let headline = match setup.headline {
        Headline::ServiceTime => "from the send to the last response",
        Headline::ResponseTime => "from the intended send to the last response",
        Headline::FirstResponse => "from the send to the first response",
    };
    html! {
        div.scroll tabindex="0" {
            table {
                thead { tr {
                    th { "load" } th.left { "outcome" }
                    @if open { th { "sent/s" } }
                    th { "inferences/s" } th { "mean" }
                    @for percentile in &percentiles { th { "p" (percentile) } }
                    @for figure in &further { th title=(figure.figure.meaning) { (figure.short()) } }
                    th { "max" } th { "failed" } th { "requests" }
                } }
                tbody { @for level in &result.levels { (row(level, &columns)) } }
            }
        }
        p.note { "Latencies run " (headline) ". Below each figure its 95 % confidence interval; figures in italics have fewer \
            samples than they need." }
    }
}

fn all_percentiles(setup: &Setup) -> Vec<f64> {
    let mut all = percentiles(&setup.measurement);
    if !all.contains(&99.9) {
        all.push(99.9);
    }
    all.sort_by(f64::total_cmp);
    all
}

/// What the table has beside what every table has.
struct Columns<'a> {
    percentiles: &'a [f64],
    further: &'a [FigureAt],
    /// Whether there are requests on a schedule.
    open: bool,
}

fn row(one: &LevelSummary, columns: &Columns<'_>) -> Markup {
    let (client, percentiles) = (&one.client, columns.percentiles);
    let outcome = Outcome::of(one);
    let latencies =
        std::iter::once(Statistic::MeanLatency).chain(percentiles.iter().copied().map(Statistic::Percentile));
    html! {
        tr {
            th { (level(one)) } td.left { (badge(outcome)) }
            @if columns.open { td { @if let Some(open) = &client.open_loop { (short(open.achieved_rate)) } } }
            @if client.requests == 0 {
                td { "–" } @for _ in latencies { td { "–" } } @for _ in columns.further { td { "–" } } td { "–" }
            } @else {
                td { (short(client.throughput())) (known(one, Statistic::Throughput, rate)) }
                @for of in latencies { (cell(one, of)) }
                @for of in columns.further { (named(one, *of)) }
                td { (time(client.latency.percentile_ns(100.0) as f64)) }
            }
            td { (percent(client.failed, client.requests + client.failed)) }
            td { (rate(client.requests as f64)) }
        }
    }
}

fn cell(level: &LevelSummary, of: Statistic) -> Markup {
    let needed = match of {
        Statistic::Percentile(percentile) => early_stopping_floor(percentile).unwrap_or(0),
        _ => 0,
    };
    let few = level.client.latency.count() < needed;
    html! {
        td.few[few] title=[few.then(|| format!("{} needs {needed} samples", of.word()))] {
            (time(value(of, &level.client)))
            (known(level, of, time))
        }
    }
}

/// A figure of the catalogue, if the level has it.
fn named(level: &LevelSummary, of: FigureAt) -> Markup {
    let unit = of.figure.unit;
    html! { td { @match of.value(level) {
        Some(found) => {
            (unit.show(found.value))
            @if let Some(Interval { low, high }) = found.interval {
                span.known { (bare(&unit.show(low), &unit.show(high))) " – " (unit.show(high)) }
            }
        }
        None => "–",
    } } }
}

/// An interval, in the unit of the value above it.
fn known(level: &LevelSummary, of: Statistic, show: fn(f64) -> String) -> Markup {
    html! { @if let Some(Interval { low, high }) = Known::find(&level.intervals, of) {
        span.known { (bare(&show(low), &show(high))) " – " (show(high)) }
    } }
}

/// What the starts of the model differ by, for levels that were measured at several (`--restarts`).
pub fn restarts(result: &RunResult) -> Markup {
    let told: Vec<_> = result.levels.iter().filter_map(|one| Some((one, one.restarts.as_ref()?))).collect();
    html! {
        @if !told.is_empty() {
            h3 { "Starts of the model" }
            ul { @for (one, restarts) in told { @for figure in restarts.shown() {
                li { (level(one)) ", over " (restarts.starts) " starts: " (starts::words(figure)) }
            } } }
        }
    }
}

/// The load that the server told of itself, for levels that have it (`--collect-metrics`).
pub fn server_load(result: &RunResult) -> Markup {
    let told: Vec<_> = result.levels.iter().filter_map(|one| Some((one, one.host?.load?))).collect();
    html! {
        @if !told.is_empty() {
            h3 { "The server's load, by its own figures" }
            ul { @for (one, load) in &told { li { (level(one)) ": " (server_load::words(load)) } } }
        }
    }
}

/// Without its unit, if the next value has the same.
fn bare(low: &str, high: &str) -> String {
    match (low.rsplit_once(' '), high.rsplit_once(' ')) {
        (Some((number, one)), Some((_, other))) if one == other => number.to_owned(),
        _ => low.to_owned(),
    }
}

/// The outcome of a level as a word, in its colour.
pub fn badge(outcome: Outcome) -> Markup {
    let class = match outcome {
        Outcome::Valid => "badge good",
        Outcome::Undecided | Outcome::Inconsistent | Outcome::Imprecise => "badge warn",
        _ => "badge bad",
    };
    html! { span class=(class) { (outcome) } }
}

/// What is wrong with levels, and what to change: one entry for levels with the same verdict.
pub fn verdicts(result: &RunResult) -> Markup {
    let mut told: Vec<(Vec<String>, Outcome, Vec<[String; 2]>)> = Vec::new();
    for one in result.levels.iter().filter(|level| Outcome::of(level) != Outcome::Valid) {
        let (outcome, words) = (Outcome::of(one), words(result, one));
        match told.last_mut() {
            Some((names, other, known)) if *other == outcome && *known == words => names.push(level(one)),
            _ => told.push((vec![level(one)], outcome, words)),
        }
    }
    html! {
        h3 { "Verdicts" }
        @if told.is_empty() && !result.levels.is_empty() { p { (badge(Outcome::Valid)) " Every level can be believed." } }
        @let remarked = result.levels.iter().filter(|level| !level.remarks.is_empty());
        @for one in remarked { @for remark in &one.remarks {
            p { b { (level(one)) } " " span.note { (shown(&remark.text)) "." } }
        } }
        @if !told.is_empty() {
            ul.verdicts { @for (names, outcome, words) in &told { li {
                b { (names.join(", ")) } " " (badge(*outcome))
                @for [what, remedy] in words { div { (shown(what)) ". " span.note { "To change: " (remedy) "." } } }
            } } }
        }
    }
}

/// What is wrong with a level, and what to change, for each reason.
fn words(result: &RunResult, level: &LevelSummary) -> Vec<[String; 2]> {
    let plan = &result.setup.measurement;
    let mut words = Vec::new();
    if let Verdict::Invalid(reasons) = &level.verdict {
        words.extend(
            reasons.iter().map(|reason| [reason.to_string(), reason.remedy(plan, level.disturbances.disturbed > 0)]),
        );
    }
    let limit = plan.latency_threshold.map(|limit| time(limit.as_nanos() as f64)).unwrap_or_default();
    let besides = match Outcome::of(level) {
        Outcome::OverThreshold => {
            Some([format!("The latency is above the threshold of {limit}"), "a lower load".to_owned()])
        }
        Outcome::Undecided => {
            let what = format!("The confidence interval of the latency contains the threshold of {limit}");
            Some([what, "measure longer".to_owned()])
        }
        _ => None,
    };
    words.extend(besides);
    words
}
