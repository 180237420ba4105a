//! How variants differ: a table for each of them against the reference, level by level; of a matrix the study.

use std::slice;

use maud::{Markup, html};

use crate::html::parts::{beside, whose};
use crate::html::{captions, change_class, figure, study};
use crate::level_name;
use crate::number::counted;
use crate::pictures::{Shown, draw, of_rounds, time, variant_figure};
use crate::result::Unit;
use crate::result::rounds::Figure;
use crate::result::variants::{Cell, Comparison, ErrorsChange, FigureChange, VariantsResult};
use crate::stdio::shown;
use crate::terms::Picture;
use crate::variants::{factor, interval, p_value, points, share};

/// The section of one of the results; empty if that run had no variants.
pub fn section(results: &[Shown<'_>], number: usize) -> Markup {
    let run = &results[number];
    let Some(result) = &run.result.variants else { return html! {} };
    let is_study = result.matrix.is_some();
    let rounds = result.cells.iter().map(|cell| cell.rounds.len()).max().unwrap_or(0);
    html! {
        section id="variants" {
            (heading(is_study))
            (whose(results, number))
            p.note { (counted(rounds as u64, "round")) ", each of which measured every " @if is_study { "way" } @else { "variant" }
                ". The first is the reference." }
            @if !is_study { (flags(result)) }
            @if !(is_study && study::has_sizes(result)) {
                @if let Some(drawn) = draw(Picture::Comparison, slice::from_ref(run), 0) { (figure(&drawn, &[("", "Changes with their 95 % intervals.")])) }
            }
            @if is_study { (study::study(result)) }
            @else { @for cell in &result.cells { (level(result, cell)) } }
        }
    }
}

/// The section's heading.
pub fn heading(is_study: bool) -> Markup {
    html! { h2 { @if is_study { "Study" } @else { "Variants" } } }
}

fn flags(result: &VariantsResult) -> Markup {
    html! {
        div.scroll tabindex="0" { table {
            thead { tr { th.left { "variant" } th.left { "flags" } } }
            tbody { @for variant in &result.variants { tr { th.left { (shown(&variant.name)) } td.left { @if variant.flags.is_empty() { span.note { "as the run" } } @else { (shown(&variant.flags)) }
                @if let Some(problem) = &variant.problem { " " span.badge.bad { (shown(problem)) } } } } } }
        } }
    }
}

fn level(result: &VariantsResult, cell: &Cell) -> Markup {
    html! {
        @for comparison in result.comparisons(cell) { (table(result, cell, &comparison)) }
        (beside(result, cell))
        @if let Some(drawn) = of_rounds(result, cell) {
            (figure(&drawn, captions::ROUNDS))
        }
    }
}

fn table(result: &VariantsResult, cell: &Cell, comparison: &Comparison) -> Markup {
    let name = |number: usize| {
        result.variants.get(number).map(|variant| shown(&variant.name).into_owned()).unwrap_or_default()
    };
    let level = cell.loads.get(comparison.variant).map(|load| level_name(*load)).unwrap_or_default();
    html! {
        h3 { (name(comparison.variant)) " against " (name(0)) ", " (level) }
        div.scroll tabindex="0" { table {
            thead { tr {
                th.left { "figure" } th { (name(0)) } th { (name(comparison.variant)) } th { "ratio" } th { "95 % interval" } th { "p" }
                th.left { "verdict" }
            } }
            tbody {
                @for figure in &comparison.figures { (row(figure)) }
                @if let Some(errors) = &comparison.errors { (failed(errors)) }
            }
        } }
        p.note { (comparison.rounds) " rounds count." }
    }
}

fn show(figure: Figure, value: f64) -> String {
    match figure {
        Figure::Client(statistic) => Unit::new(statistic).show(value),
        Figure::Server(_) => time(value),
    }
}

fn row(figure: &FigureChange) -> Markup {
    html! { tr {
        th.left { (variant_figure(figure.figure)) }
        @for value in [figure.reference, figure.value] { td { (show(figure.figure, value)) } }
        td { (factor(figure.ratio)) } td { (interval(figure.interval)) } td { (p_value(figure.p)) }
        td.left { span class=(change_class(figure.verdict)) { (figure.verdict) } }
    } }
}

/// The shares of requests that failed.
fn failed(errors: &ErrorsChange) -> Markup {
    html! { tr {
        th.left { "errors" }
        @for value in [errors.reference, errors.value] { td { (share(value)) } }
        td { "–" } td { (points(errors)) } td { "–" }
        td.left { span class=(change_class(errors.verdict)) { (errors.verdict) } }
    } }
}
