//! The table of levels, and the verdicts on those that are not valid.

use maud::{Markup, html};

use crate::html::parts::percent;
use crate::pictures::{level, rate, short, time};
use crate::result::figures::{FigureAt, further};
use crate::result::outcome::Outcome;
use crate::result::reasons::Verdict;
use crate::result::statistic::value;
use crate::result::summary::{GpuMetrics, HostMetrics, LevelSummary, StatisticEstimate};
use crate::result::{RunResult, Setup};
use crate::stats::{Interval, early_stopping_floor};
use crate::stdio::shown;
use crate::terms::{FAR_TAIL, Statistic};
use crate::{memory, percentiles, restarts as starts, server_load, server_metrics};

/// So many verdicts stand open on the page: more would hide the pictures.
const MAX_VERDICTS: usize = 8;

/// A row for each level, each figure with its interval.
pub fn table(result: &RunResult) -> Markup {
    let setup = &result.setup;
    let percentiles = all_percentiles(setup);
    let open = result.levels.iter().any(|level| level.client.open_loop.is_some());
    let further = further(&result.levels, &setup.measurement);
    let columns = Columns { percentiles: &percentiles, further: &further, open };
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
                tbody { @for (level, earlier) in result.levels_with_earlier() { (row(level, &row_name(result, level, earlier), &columns)) } }
            }
        }
        p.note { "Latencies run " (setup.headline.words()) ". Below each figure its 95 % confidence interval; figures in italics have fewer \
            samples than they need." }
    }
}

fn all_percentiles(setup: &Setup) -> Vec<f64> {
    let mut all = percentiles(&setup.measurement);
    if !all.contains(&FAR_TAIL) {
        all.push(FAR_TAIL);
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

/// Its load, and which of several levels with that load it is.
fn row_name(result: &RunResult, summary: &LevelSummary, earlier: &[LevelSummary]) -> String {
    let repetition = result.distinction(summary, earlier).repetition.map(|number| format!(", no. {number}"));
    level(summary) + &repetition.unwrap_or_default()
}

fn row(summary: &LevelSummary, name: &str, columns: &Columns<'_>) -> Markup {
    let (client, percentiles) = (&summary.client, columns.percentiles);
    let outcome = Outcome::new(summary);
    let latencies =
        std::iter::once(Statistic::MeanLatency).chain(percentiles.iter().copied().map(Statistic::Percentile));
    html! {
        tr {
            th { (name) } td.left { (badge(outcome)) }
            @if columns.open { td { @if let Some(open) = &client.open_loop { (short(open.achieved_rate)) } } }
            @if client.requests == 0 {
                td { "–" } @for _ in latencies { td { "–" } } @for _ in columns.further { td { "–" } } td { "–" }
            } @else {
                td { (short(client.throughput())) (interval(summary, Statistic::Throughput, rate)) }
                @for statistic in latencies { (cell(summary, statistic)) }
                @for figure_at in columns.further { (named(summary, *figure_at)) }
                td { (time(client.latency.percentile_ns(100.0) as f64)) }
            }
            td { (percent(client.failed, client.requests + client.failed)) }
            td { (rate(client.requests as f64)) }
        }
    }
}

fn cell(level: &LevelSummary, statistic: Statistic) -> Markup {
    let needed = match statistic {
        Statistic::Percentile(percentile) => early_stopping_floor(percentile).unwrap_or(0),
        _ => 0,
    };
    let few = level.client.latency.count() < needed;
    html! {
        td.few[few] title=[few.then(|| format!("{} needs {needed} samples", statistic.name()))] {
            (time(value(statistic, &level.client)))
            (interval(level, statistic, time))
        }
    }
}

/// A figure of the catalogue, if the level has it.
fn named(level: &LevelSummary, figure_at: FigureAt) -> Markup {
    let unit = figure_at.figure.unit;
    html! { td { @match figure_at.value(level) {
        Some(found) => {
            (unit.show(found.value))
            @if let Some(Interval { low, high }) = found.interval {
                span.interval { (bare(&unit.show(low), &unit.show(high))) " – " (unit.show(high)) }
            }
        }
        None => "–",
    } } }
}

/// An interval, in the unit of the value above it.
fn interval(level: &LevelSummary, statistic: Statistic, show: fn(f64) -> String) -> Markup {
    html! { @if let Some(Interval { low, high }) = StatisticEstimate::find(&level.intervals, statistic) {
        span.interval { (bare(&show(low), &show(high))) " – " (show(high)) }
    } }
}

/// What the starts of the model differ by, for levels that were measured at several (`--restarts`).
pub fn restarts(result: &RunResult) -> Markup {
    let rows: Vec<_> = result.levels.iter().filter_map(|summary| Some((summary, summary.restarts.as_ref()?))).collect();
    html! {
        @if !rows.is_empty() {
            h3 { "Starts of the model" }
            ul { @for (summary, restarts) in rows { @for figure in restarts.shown() {
                li { (level(summary)) ", over " (restarts.starts) " starts: " (starts::estimate_text(figure)) }
            } } }
        }
    }
}

/// What the server told of itself and of its GPUs, for levels that have it (`--collect-metrics`).
pub fn server_figures(result: &RunResult) -> Markup {
    // Of several servers a table has the other figures.
    let figures = |summary: &LevelSummary| match summary.host {
        Some(host) if summary.hosts.is_empty() => server_metrics::figures(&host),
        host => host?.load.map(|load| server_load::text(&load)),
    };
    let rows: Vec<_> = result.levels.iter().filter_map(|summary| Some((summary, figures(summary)?))).collect();
    html! {
        @if !rows.is_empty() {
            h3 { "The server, by its own figures" }
            ul { @for (summary, figures) in &rows { li { (level(summary)) ": " (figures) } } }
        }
        (gpus(result))
    }
}

/// A row for each GPU at each level.
fn gpus<'a>(result: &'a RunResult) -> Markup {
    let of_level = |summary: &'a LevelSummary| summary.gpus.iter().flatten().map(move |gpu| (summary, gpu));
    let rows: Vec<(&LevelSummary, &GpuMetrics)> = result.levels.iter().flat_map(of_level).collect();
    let or_dash = |value: Option<String>| value.unwrap_or_else(|| "–".to_owned());
    html! {
        @if !rows.is_empty() {
            h3 { "GPUs" }
            div.scroll tabindex="0" { table {
                thead { tr {
                    th { "load" } th.left { "GPU" } th { "mean utilisation" } th { "mean power" } th { "most memory" } th { "of" }
                } }
                tbody { @for (summary, gpu) in rows { tr {
                    th { (level(summary)) } td.left { (shown(&server_metrics::gpu_name(&result.setup, gpu))) }
                    td { (or_dash(gpu.utilization.map(|share| format!("{} %", short(100.0 * share))))) }
                    td { (or_dash(gpu.power_watts.map(|watts| format!("{} W", short(watts))))) }
                    td { (or_dash(gpu.memory_used_bytes.map(memory))) } td { (or_dash(gpu.memory_total_bytes.map(memory))) }
                } } }
            } }
        }
    }
}

/// What each of several servers told of itself, for levels that have it (`--collect-metrics`).
pub fn servers(result: &RunResult) -> Markup {
    let row = |summary: &LevelSummary, address: &str, host: &HostMetrics| {
        html! { tr { th { (level(summary)) } td.left { (shown(address)) } td.left { (server_metrics::text(host)) } } }
    };
    html! {
        @if result.levels.iter().any(|summary| !summary.hosts.is_empty()) {
            h3 { "Each server, by its own figures" }
            div.scroll tabindex="0" { table {
                thead { tr { th { "load" } th.left { "server" } th.left { "figures" } } }
                tbody { @for summary in &result.levels {
                    @for (address, host) in result.setup.servers.iter().zip(&summary.hosts) { (row(summary, address, host)) }
                } }
            } }
        }
    }
}

/// Without its unit, if the next value has the same.
fn bare(low: &str, high: &str) -> String {
    match (low.rsplit_once(' '), high.rsplit_once(' ')) {
        (Some((number, low_unit)), Some((_, high_unit))) if low_unit == high_unit => number.to_owned(),
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
    let mut groups: Vec<Group> = Vec::new();
    let is_invalid = |level: &LevelSummary| Outcome::new(level) != Outcome::Valid;
    for (summary, earlier) in result.levels_with_earlier().filter(|(level, _)| is_invalid(level)) {
        let (outcome, words) = (Outcome::new(summary), problems(result, summary));
        let name = row_name(result, summary, earlier);
        match groups.last_mut() {
            Some(last) if last.outcome == outcome && last.words == words => last.names.push(name),
            _ => groups.push(Group { names: vec![name], outcome, words }),
        }
    }
    let remarked = || result.levels_with_earlier().filter(|(level, _)| !level.remarks.is_empty());
    html! {
        @if !groups.is_empty() || remarked().next().is_some() { h3 { "Verdicts" } }
        @for (summary, earlier) in remarked() { @for remark in &summary.remarks {
            p { b { (row_name(result, summary, earlier)) } " " span.note { (shown(&remark.text)) "." } }
        } }
        @if !groups.is_empty() {
            @let (first, others) = groups.split_at(groups.len().min(MAX_VERDICTS));
            (list(first))
            @if !others.is_empty() {
                details { summary { "Further levels that are not valid: " (others.iter().map(|group| group.names.len()).sum::<usize>()) } (list(others)) }
            }
        }
    }
}

/// Levels that follow each other with one verdict.
struct Group {
    names: Vec<String>,
    outcome: Outcome,
    words: Vec<[String; 2]>,
}

fn list(groups: &[Group]) -> Markup {
    html! { ul.verdicts { @for Group { names, outcome, words } in groups { li {
        b { (names.join(", ")) } " " (badge(*outcome))
        @for [problem, remedy] in words { div { @if *problem != outcome.to_string() { (capital(&shown(problem))) ". " } span.note { "To change: " (remedy) "." } } }
    } } } }
}

/// A sentence begins with a capital letter, unless that is the name of a percentile.
fn capital(words: &str) -> String {
    if words.split(' ').next().is_some_and(|first| first.contains(|letter: char| letter.is_ascii_digit())) {
        return words.to_owned();
    }
    let mut letters = words.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// What is wrong with a level, and what to change, for each reason.
fn problems(result: &RunResult, level: &LevelSummary) -> Vec<[String; 2]> {
    let plan = &result.setup.measurement;
    let mut words = Vec::new();
    if let Verdict::Invalid(reasons) = &level.verdict {
        words.extend(
            reasons.iter().map(|reason| [reason.to_string(), reason.remedy(plan, level.disturbances.disturbed > 0)]),
        );
    }
    let limit = plan.latency_threshold.map(|limit| time(limit.as_nanos() as f64)).unwrap_or_default();
    let besides = match Outcome::new(level) {
        Outcome::OverThreshold => {
            Some([format!("The latency is above the threshold of {limit}"), "lower the load".to_owned()])
        }
        Outcome::Undecided => {
            let problem = format!("The confidence interval of the latency contains the threshold of {limit}");
            Some([problem, "measure longer".to_owned()])
        }
        _ => None,
    };
    words.extend(besides);
    words
}
