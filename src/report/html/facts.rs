//! The tables of the page: failures, the instrument, disturbances, requirements, comparisons.

use maud::{Markup, html};

use crate::console::row;
use crate::html::parts::{percent, percentile_of, whose};
use crate::html::{figure, shares};
use crate::model::statistics::CountedTime;
use crate::number::counted;
use crate::pictures::{
    MARGIN, Part, Shown, change as signed, draw, figure_name, full_name, level, parts, rate, short, time,
};
use crate::result::RunResult;
use crate::result::compare::{Direction, changes, differences as unlike, differing_flags, reach};
use crate::result::figures::{Figure, Group, rows};
use crate::result::summary::{ClientSummary, Distribution, LevelSummary};
use crate::stdio::shown;
use crate::terms::{FEW_PERCENTILES, OnDisturbance, Picture};
use crate::variants::{points, share};
use crate::{generation, memory, requirements as gate, sequences, sessions};

/// Maximum number of failure reasons of a level.
const MAX_REASONS: usize = 8;

/// The sections after the pictures.
pub fn sections(results: &[Shown<'_>]) -> Markup {
    let per_run = |render: fn(&RunResult) -> Markup| {
        html! { @for (number, run) in results.iter().enumerate() { (whose(results, number)) (render(run.result)) } }
    };
    html! {
        @for number in 0..results.len() { (responses(results, number)) }
        section id="failures" {
            h2 { "Failures" }
            @for number in 0..results.len() {
                (whose(results, number))
                @if let Some(drawn) = draw(Picture::Failures, results, number) {
                    (figure(&drawn, &[("", "Failures a second, stacked by reason.")]))
                }
                (failures(results[number].result))
            }
        }
        section id="instrument" { h2 { "The instrument" } (per_run(instrument)) }
        section id="disturbance" { h2 { "Disturbance" } (per_run(disturbance)) }
    }
}

/// The numbers of the waterfall.
pub fn waterfall(result: &RunResult) -> Markup {
    let rows: Vec<(&LevelSummary, Vec<Part>)> =
        result.levels.iter().filter_map(|level| Some((level, parts(&result.setup, level)?))).collect();
    let mut names: Vec<&str> = Vec::new();
    for part in rows.iter().flat_map(|(_, parts)| parts) {
        if !names.contains(&part.name) {
            names.push(part.name);
        }
    }
    let cell = |parts: &[Part], name: &str| {
        parts.iter().find(|part| part.name == name).map_or("–".to_owned(), |part| time(part.ns))
    };
    html! {
        @if !rows.is_empty() {
            div.scroll tabindex="0" { table {
                thead { tr { th { "load" } @for name in &names { th { (name) } } } }
                tbody { @for (summary, parts) in &rows { tr {
                    th { (level(summary)) } @for name in &names { td { (cell(parts, name)) } }
                } } }
            } }
        }
        (composing(result))
    }
}

/// The models that an ensemble calls, of the last level.
fn composing(result: &RunResult) -> Markup {
    let Some(server) = result.levels.iter().rev().find_map(|level| level.server.as_ref()) else { return html! {} };
    let mean = |counted: CountedTime| {
        if counted.count == 0 { "–".to_owned() } else { time(counted.ns as f64 / counted.count as f64) }
    };
    html! {
        @if !server.composing.is_empty() {
            h3 { "Models that it calls, at the last level" }
            div.scroll tabindex="0" { table {
                thead { tr { th { "model" } th { "requests" } th { "queue" } th { "compute input" } th { "compute infer" } th { "compute output" } } }
                tbody { @for part in &server.composing { @let delta = &part.delta; tr {
                    th { (shown(&part.name)) } td { (rate(delta.success.count as f64)) } td { (mean(delta.queue)) }
                    td { (mean(delta.compute_input)) } td { (mean(delta.compute_infer)) } td { (mean(delta.compute_output)) }
                } } }
            } }
        }
    }
}

/// Percentiles of responses: a page has room for one more than tables of many figures.
const RESPONSE_PERCENTILES: [f64; 3] = [FEW_PERCENTILES[0], 90.0, FEW_PERCENTILES[1]];

/// Additional figures of decoupled models, language models, mixes and several servers.
fn responses(results: &[Shown<'_>], number: usize) -> Markup {
    let levels = &results[number].result.levels;
    let has_text = levels.iter().any(|level| level.client.generated.is_some());
    html! {
        @if levels.iter().any(|level| level.client.decoupled.is_some()) || has_text {
            section id="responses" {
                h2 { "Responses" }
                (whose(results, number))
                div.scroll tabindex="0" { table {
                    thead { tr { th { "load" } th.left { "time" } th { "mean" } @for p in RESPONSE_PERCENTILES { th { "p" (p) } } } }
                    tbody { @for summary in levels { @for (number, (row, times)) in response_times(summary).into_iter().enumerate() {
                        tr {
                            th { @if number == 0 { (level(summary)) } }
                            td.left title=(row.meaning) { (row.title) } td { (time(times.mean_ns())) }
                            @for p in RESPONSE_PERCENTILES { td { (time(times.percentile_ns(p) as f64)) } }
                        }
                    } } }
                } }
                @if has_text { @for summary in levels { @let text = text(&summary.client);
                    @if !text.is_empty() { h3 { (level(summary)) } pre { (shown_lines(&text)) } } } }
            }
        }
        (shares::sections(results, number))
    }
}

/// The times of responses, tokens and conversations that a level has.
fn response_times(level: &LevelSummary) -> Vec<(&'static Figure, &Distribution)> {
    let all = [Group::Generation, Group::Responses, Group::Sequences, Group::Sessions].into_iter().flat_map(rows);
    all.filter_map(|row| Some((row, row.times(&level.client)?))).collect()
}

/// What was generated, and of conversations.
fn text(client: &ClientSummary) -> String {
    let text = generation::text(client, row) + &generation::inputs(client);
    text + &sequences::text(client, row) + &sessions::text(client, row)
}

fn shown_lines(text: &str) -> String {
    text.lines().map(|line| shown(line.trim()).into_owned() + "\n").collect()
}

fn failures(result: &RunResult) -> Markup {
    let failed: Vec<&LevelSummary> = result.levels.iter().filter(|level| !level.client.errors.is_empty()).collect();
    html! {
        @if failed.is_empty() {
            p.none { "No request failed." }
        } @else {
            div.scroll tabindex="0" { table {
                thead { tr { th { "load" } th { "failed" } th { "share" } th.words { "reason" } } }
                tbody { @for summary in failed { (reasons(summary)) } }
            } }
        }
    }
}

/// The most frequent reasons of a level, and the sum of the others.
fn reasons(summary: &LevelSummary) -> Markup {
    let all = summary.client.requests + summary.client.failed;
    let (head, tail) = summary.client.errors.split_at(summary.client.errors.len().min(MAX_REASONS));
    let others: u64 = tail.iter().map(|(_, count)| count).sum();
    html! {
        @for (error, count) in head { tr {
            th { (level(summary)) } td { (count) } td { (percent(*count, all)) } td.words { (shown(&error.to_string())) }
        } }
        @if others > 0 { tr {
            th { (level(summary)) } td { (others) } td { (percent(others, all)) } td.words { "for " (counted(tail.len() as u64, "more reason")) }
        } }
    }
}

fn instrument(result: &RunResult) -> Markup {
    let levels = &result.levels;
    let open = levels.iter().any(|level| level.client.open_loop.is_some());
    let wakes = levels.iter().any(|level| level.client.wakeup.is_some());
    let used = levels.iter().any(|level| level.client_usage.is_some());
    let serves = levels.iter().any(|level| level.server_usage.is_some());
    let usage = |reading: Option<crate::machine::usage::Usage>| {
        reading.map_or("–".to_owned(), |usage| {
            let memory = usage.memory_bytes.map(|bytes| format!(", {}", memory(bytes))).unwrap_or_default();
            format!("{} CPU{memory}", short(usage.processors))
        })
    };
    let at = |times: Option<&Distribution>, p: f64| times.map_or("–".to_owned(), |times| percentile_of(times, p));
    let few = |name: &str| {
        html! { @for (number, p) in FEW_PERCENTILES.into_iter().enumerate() {
            th { @if number == 0 { (name) ": " } "p" (p) }
        } }
    };
    html! {
        p { "The client's own work costs " b { (time(result.setup.client_cost_ns)) } " a request, measured on a server that does nothing." }
        div.scroll tabindex="0" { table {
            thead { tr {
                th { "load" } th { "client overhead" }
                @if open { (few("sent late")) th { "max" } th { "over 1 ms" } }
                @if wakes { (few("wake-up")) }
                @if used { th { "client" } }
                @if serves { th { "server" } }
            } }
            tbody { @for summary in levels {
                @let client = &summary.client; @let late = client.open_loop.as_ref().map(|open| &open.schedule_delay);
                tr {
                    th { (level(summary)) } td { (own_share(client.overhead_share)) }
                    @if open { @for p in FEW_PERCENTILES { td { (at(late, p)) } } td { (at(late, 100.0)) } td { (short(100.0 * client.delayed_share())) " %" } }
                    @if wakes { @for p in FEW_PERCENTILES { td { (at(client.wakeup.as_ref(), p)) } } }
                    @if used { td { (usage(summary.client_usage)) } }
                    @if serves { td { (usage(summary.server_usage)) } }
                }
            } }
        } }
        h3 { "What this run cannot show" }
        ul {
            li { "How much another start of the server would differ"
                @if levels.iter().all(|level| level.restarts.is_none()) { ": " code { "--restarts" } " measures that." } @else { " beyond the starts that were measured." } }
            @if result.setup.service_kind == "TRITON_C_API" { li { "What a network would add: client and server are one process and share its processors." } }
            @if !open && !levels.is_empty() { li { "How long requests would wait in an open loop: a closed loop \
                sends the next only when the last is answered." } }
        }
    }
}

/// The share of its threads' time that the client's own work took; one of less than this is not worth its digits.
fn own_share(share: f64) -> String {
    const LEAST: f64 = 1e-4;
    if share > 0.0 && share < LEAST { "below 0.01 %".to_owned() } else { format!("{} %", short(100.0 * share)) }
}

fn disturbance(result: &RunResult) -> Markup {
    let found = result.levels.iter().filter_map(|level| Some((level, level.disturbances.worst?)));
    let rows: Vec<_> = found.collect();
    html! {
        @if rows.is_empty() && result.setup.measurement.on_disturbance == Some(OnDisturbance::Ignore) {
            p.none { "What others took of the machine was not looked at (" code { "--on-disturbance ignore" } ")." }
        } @else if rows.is_empty() {
            p.none { "No other process used much of the machine during the measurement, as far as the kernel shows." }
        } @else {
            div.scroll tabindex="0" { table {
                thead { tr { th { "load" } th { "windows" } th { "disturbed" } th { "measured again" } th.words { "at worst" } } }
                tbody { @for (summary, worst) in &rows { tr {
                    @let disturbances = &summary.disturbances;
                    th { (level(summary)) } td { (disturbances.windows) } td { (disturbances.disturbed) } td { (disturbances.replaced) }
                    td.words { (worst) }
                } } }
            } }
        }
    }
}

/// The outcomes of the requirements, with the values that they were judged on.
pub fn requirements(result: &RunResult) -> Markup {
    html! {
        @if !result.requirements.is_empty() {
            h3 { "Requirements" }
            div.scroll tabindex="0" { table {
                thead { tr { th { "condition" } th.left { "outcome" } th.left { "level" } th { "value" } th { "95 % interval" } } }
                tbody { @for checked in &result.requirements {
                    @let (value, interval) = gate::cells(checked);
                    tr {
                        th { (shown(&checked.text)) }
                        td.left { span class=(if checked.passes { "badge good" } else if checked.open { "badge warn" } else { "badge bad" }) { (gate::verdict_name(checked)) } }
                        td.left { (gate::about(checked)) }
                        td { (value) } td { (interval) }
                    }
                } }
            } }
            @for note in gate::notes(&result.requirements) { p.note { (shown(note)) } }
        }
    }
}

/// The differences between the results' setups.
pub fn differences(results: &[Shown<'_>]) -> Markup {
    let Some((first, others)) = results.split_first() else { return html! {} };
    html! {
        @for run in others {
            @let found = unlike(&first.result.setup, &run.result.setup);
            @if !found.is_empty() {
                p { span.badge.warn { "not alike" } " " b { (run.name) } ": " (shown(&found.join("; "))) }
            }
            @let flags = differing_flags(&first.result.setup, &run.result.setup);
            @if !flags.is_empty() {
                p.note { "Flags of " (first.name) " and " (run.name) " that differ: " (shown(&flags.join("; "))) "." }
            }
        }
    }
}

/// Every figure of levels that results have in common.
pub fn comparison(results: &[Shown<'_>]) -> Markup {
    let Some((first, others)) = results.split_first() else { return html! {} };
    let all: Vec<_> = others.iter().map(|run| (run, changes(first.result, run.result, MARGIN))).collect();
    html! {
        @for (run, changes) in all.iter().filter(|(_, changes)| !changes.is_empty()) {
            h3 { (run.name) " against " (first.name) }
            div.scroll tabindex="0" { table {
                thead { tr { th { "load" } th.left { "figure" } th { (first.name) } th { (run.name) } th { "change" } th { "95 % interval" } th { "verdict" } } }
                tbody { @for change in changes {
                    @if change.figures.is_empty() {
                        @let [before, after] = change.outcomes;
                        tr { th { (full_name(change.load, change.distinction)) } td.left colspan="6" { "not compared: " (before) ", " (after) } }
                    }
                    @for figure in &change.figures { tr {
                        th { (full_name(change.load, change.distinction)) } td.left { (figure_name(figure.figure_at)) }
                        @let unit = figure.figure_at.figure.unit;
                        td { (unit.show(figure.values[0])) } td { (unit.show(figure.values[1])) }
                        td { @if figure.ratio.is_finite() { (signed(figure.ratio)) } @else { "–" } }
                        td { @match figure.interval {
                            Some(interval) => { (signed(interval.low)) " to " (signed(interval.high)) } None => "not known"
                        } }
                        td { span class=(direction(figure.verdict)) { (figure.verdict) } }
                    } }
                    @if let Some(errors) = &change.errors { tr {
                        th { (full_name(change.load, change.distinction)) } td.left { "errors" }
                        td { (share(errors.reference)) } td { (share(errors.value)) } td { "–" } td { (points(errors)) }
                        td { span class=(direction(errors.verdict)) { (errors.verdict) } }
                    } }
                } }
            } }
        }
        @if all.iter().any(|(_, changes)| !changes.is_empty()) {
            @for (run, _) in all.iter().filter(|(_, changes)| changes.is_empty()) {
                p.none { b { (run.name) } " has no level in common with " (first.name) ": it is not compared." }
            }
            p.note { "Changes up to " (short(100.0 * MARGIN)) " % count as no change. "
                (reach(all.iter().flat_map(|(_, changes)| changes))) "." }
        }
    }
}

fn direction(verdict: Direction) -> &'static str {
    match verdict {
        Direction::Worse => "badge bad",
        Direction::Better | Direction::Same => "badge good",
        Direction::Undecided => "badge warn",
    }
}
