//! How variants differ: a table for each of them against the reference, level by level.

use std::slice;

use maud::{Markup, html};

use crate::plan::Picture;
use crate::report::figures::{Shown, draw};
use crate::report::html::figure;
use crate::report::level_name;
use crate::report::variants::{compact, factor, in_unit, interval, p_value, title};
use crate::result::compare::Direction;
use crate::result::variants::{Cell, Comparison, FigureChange, VariantsResult};
use crate::stdio::shown;

/// The section; empty if the run had no variants.
pub fn section(one: &Shown<'_>) -> Markup {
    let Some(result) = &one.result.variants else { return html! {} };
    html! {
        section id="variants" {
            h2 { "Variants" }
            p.note { (result.rounds.count) " rounds, each of which measured every variant. The first is the \
                reference." }
            div.scroll tabindex="0" { table {
                thead { tr { th.left { "variant" } th.left { "flags" } } }
                tbody { @for one in &result.variants { tr { th.left { (shown(&one.name)) } td.left { (shown(&one.flags))
                    @if let Some(problem) = &one.problem { " " span.badge.bad { (shown(problem)) } } } } } }
            } }
            @if let Some(drawn) = draw(Picture::Comparison, slice::from_ref(one), 0) { (figure(&drawn, "")) }
            @for cell in &result.cells { @for comparison in result.comparisons(cell) { (table(result, cell, &comparison)) } }
        }
    }
}

fn table(result: &VariantsResult, cell: &Cell, comparison: &Comparison) -> Markup {
    let name = |number: usize| result.variants.get(number).map(|one| shown(&one.name).into_owned()).unwrap_or_default();
    let level = cell.loads.get(comparison.variant).map(|load| level_name(*load)).unwrap_or_default();
    html! {
        h3 { (name(comparison.variant)) " against " (name(0)) ", " (level)
            @if let Some(size) = cell.size { ", inputs of " (size) " bytes" } }
        div.scroll tabindex="0" { table {
            thead { tr {
                th.left { "figure" } th { (name(0)) } th { (name(comparison.variant)) } th { "ratio" } th { "95 % interval" } th { "p" }
                th.left { "verdict" }
            } }
            tbody { @for figure in &comparison.figures { (row(figure)) } }
        } }
        p.note { (comparison.rounds) " rounds count, " (comparison.disturbed) " of them disturbed." }
    }
}

fn row(figure: &FigureChange) -> Markup {
    let class = match figure.verdict {
        Direction::Better => "badge good",
        Direction::Worse => "badge bad",
        Direction::Undecided => "badge warn",
        Direction::Same => "badge",
    };
    html! { tr {
        th.left { (title(figure.of)) }
        td { (compact(in_unit(figure.of, figure.reference))) } td { (compact(in_unit(figure.of, figure.value))) }
        td { (factor(figure.ratio)) } td { (interval(figure.interval)) } td { (p_value(figure.p)) }
        td.left { span class=(class) { (figure.verdict) } }
    } }
}
