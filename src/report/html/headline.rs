//! The top of a page: the answer to what was asked, and its figures as tiles.

use maud::{Markup, html};

use crate::figures::rate;
use crate::headline;
use crate::html::Page;
use crate::html::parts::percent;
use crate::result::answer::{Answer, GateAnswer, ReportedFigure, Sureness};
use crate::result::checked::Judgement;
use crate::result::figures::FigureAt;
use crate::result::outcome::Outcome;
use crate::result::{RunResult, Unit};
use crate::stdio::shown;

/// Most figures that are tiles.
const MOST: usize = 6;

/// The answers that a page gives: what a gate came to, how results differ, and what each of those says that the page is about.
pub fn answers(page: &Page<'_>) -> Vec<Answer> {
    let results = page.results;
    let each = results.iter().skip(page.main).filter_map(|run| headline::answer_of(run, results));
    let (gates, others): (Vec<Answer>, Vec<Answer>) = each.partition(|answer| answer.gate.is_some());
    gates.into_iter().chain(headline::comparisons(results)).chain(others).collect()
}

/// The sentence, and what is missing.
pub fn sentence(answer: &Answer) -> Markup {
    html! {
        @if let Some(gate) = &answer.gate {
            p.gate { span class=(gate_class(gate)) { (shown(&gate.words)) } }
        }
        p.answer { (shown(&answer.words)) }
        @if let Some(missing) = &answer.missing {
            p.sub { @if answer.sure != Sureness::Sure { span.badge.warn { "not sure" } " " } (shown(&missing.text())) }
            @if let Some(command) = &missing.command { pre { (shown(command)) } }
        }
    }
}

/// An undecided gate is neither green nor red.
fn gate_class(gate: &GateAnswer) -> &'static str {
    match gate.outcome {
        Judgement::Undecided => "badge warn",
        _ if gate.passed => "badge good",
        _ => "badge bad",
    }
}

/// The figures of an answer.
pub fn tiles(answer: &Answer) -> Markup {
    html! { @for figure in answer.figures.iter().take(MOST) { (tile(figure)) } }
}

fn tile(figure: &ReportedFigure) -> Markup {
    let name = FigureAt::named(&figure.key).map_or_else(|| figure.key.clone(), FigureAt::short);
    let name = if figure.unit == Unit::Ratio { format!("{name}, ratio") } else { name };
    let value = figure.unit.show(figure.value);
    let (number, unit) = value.split_once(' ').unwrap_or((&value, ""));
    let interval = figure.interval.map(|interval| figure.unit.show_between(interval.low, interval.high));
    html! {
        div { dt { (name) } dd { (number) @if !unit.is_empty() { small { " " (unit) } } }
            dd.note { (shown(&figure.subject)) @if let Some(interval) = interval { ": " (interval) } } }
    }
}

/// Whether what is below can be believed, and how much failed.
pub fn trust(result: &RunResult) -> Markup {
    let levels = &result.levels;
    let valid = levels.iter().filter(|level| Outcome::new(level).is_valid()).count();
    let disturbed = levels.iter().filter(|level| level.disturbances.disturbed > 0).count();
    let failed: u64 = levels.iter().map(|level| level.client.failed).sum();
    let all: u64 = levels.iter().map(|level| level.client.requests + level.client.failed).sum();
    html! { @if !levels.is_empty() {
        div { dt { "failed" } dd { (percent(failed, all)) }
            dd.note { (failed) " of " (rate(all as f64)) " requests" } }
        div { dt { "valid levels" } dd { (valid) small { " of " (levels.len()) } }
            dd.note { @if valid < levels.len() { "see below what to change" } @else if disturbed > 0 { (disturbed) " of them disturbed" } @else { "all can be believed" } } }
    } }
}
