//! The page of a search: the verdict, the candidates as points and as a table, and the reasons.

use maud::{Markup, PreEscaped, html};

use crate::html::{Shell, captions, embed, figure, headline};
use crate::pictures::{rate, short, time, tuned};
use crate::result::{CandidateResult, CandidateStatus, TuneFigures, TuneResult};
use crate::stdio::shown;
use crate::terms::asked;

/// The page.
pub fn page(result: &TuneResult) -> String {
    let title = shown(&result.model).into_owned();
    let shell = Shell {
        title: &title,
        reads: "",
        data: html! {
            script type="application/json" id="data" { (PreEscaped(embed::inert_json(result))) }
        },
    };
    let sections = [("candidates", "Candidates"), ("why", "Why")];
    let contents = html! { nav { @for (id, name) in sections { a href={ "#" (id) } { (name) } } } };
    shell.text(&heading(result, &title), &contents, &html! { (candidates(result)) (why(result)) })
}

fn heading(result: &TuneResult, title: &str) -> Markup {
    html! {
        p.over { "Search for a configuration" }
        h1 { (title) }
        @let goal = if result.objective == "throughput" { "most throughput".to_owned() } else { format!("least {} latency", result.objective) };
        p.sub { b { (goal) } @if !result.constraints.is_empty() { " with " (result.constraints.join(", ")) } " · " (result.load) }
        (headline::sentence(&result.answer()))
        (tiles(result))
    }
}

fn tiles(result: &TuneResult) -> Markup {
    let candidate_of =
        |number: Option<usize>| result.candidates.iter().find(|candidate| Some(candidate.number) == number);
    let figures = |number| candidate_of(number).and_then(|candidate| candidate.figures.as_ref());
    let (yours, winner) = (figures(Some(0)), figures(result.verdict.winner));
    let percentile = format!("p{}", result.percentile);
    html! {
        dl.tiles {
            @for (name, found) in [("yours", yours), ("the winner", winner.filter(|_| result.verdict.winner != Some(0)))] {
                @if let Some(found) = found {
                    div { dt { (name) } dd { (rate(found.means.throughput)) small { " infer/s" } }
                        dd.note { (percentile) " " (time(found.means.latency_ns)) } }
                }
            }
            div { dt { "searched" } dd { (short(result.spent_s)) small { " s" } }
                dd.note { "of " (short(result.budget_s)) " s, " (result.space) " candidates" } }
        }
    }
}

fn candidates(result: &TuneResult) -> Markup {
    html! {
        section id="candidates" {
            h2 { "Candidates" }
            @match tuned(result) {
                Some(drawn) => (figure(&drawn, captions::CANDIDATES)),
                None => p.none { "Nothing to show: nothing could be measured." },
            }
            div.scroll tabindex="0" { table {
                thead { tr {
                    th { "#" }
                    @for setting in &result.settings { th { (shown(setting)) } }
                    th { "outstanding" } th { "inferences/s" } th { "p" (result.percentile) } th { "executed batch" } th.words { "verdict" }
                } }
                tbody { @for candidate in &result.candidates { (row(candidate)) } }
            } }
        }
    }
}

fn row(candidate: &CandidateResult) -> Markup {
    let class = match candidate.status {
        CandidateStatus::Winner => "badge good",
        CandidateStatus::Failed => "badge bad",
        CandidateStatus::Worse | CandidateStatus::Undecided | CandidateStatus::NotMeasured => "badge warn",
        _ => "badge",
    };
    let figure = |show: fn(&TuneFigures) -> String| candidate.figures.as_ref().map_or_else(|| "–".to_owned(), show);
    html! { tr {
        th { (candidate.number) }
        @for value in &candidate.values { td { (shown(&asked(value))) } }
        td { (figure(|figures| figures.means.concurrency.map_or_else(|| "–".to_owned(), |load| load.to_string()))) }
        td { (figure(|figures| rate(figures.means.throughput))) }
        td { (figure(|figures| time(figures.means.latency_ns))) }
        td { (figure(|figures| short(figures.means.executed_batch))) }
        td.words { span class=(class) { (candidate.status.name()) } @if let Some(reason) = &candidate.reason { " " (shown(reason)) } }
    } }
}

fn why(result: &TuneResult) -> Markup {
    html! {
        section id="why" {
            h2 { "Why" }
            ul { @for reason in &result.why { li { (shown(reason)) } } }
            @if result.interrupted { p.note { "The search was interrupted." } }
        }
    }
}
