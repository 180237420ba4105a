//! A study of memory or transports: pictures over the size of tensors, ratios and bandwidths as tables, and all figures of
//! each cell below.

use maud::{Markup, html};

use crate::html::parts::beside;
use crate::html::{captions, change_class, figure};
use crate::level_name;
use crate::number::{bandwidth, binary, rate, time};
use crate::pictures::{OverSize, of_rounds, over_size};
use crate::result::variants::{Cell, VariantsResult};
use crate::stdio::shown;
use crate::variants::{Way, factor, interval, latency_word, levels_of, ways};

/// Whether it was measured with several sizes.
pub fn has_sizes(result: &VariantsResult) -> bool {
    over_size(result, 0, OverSize::Latency).is_some()
}

/// Pictures and tables of every level, and the cells.
pub fn study(result: &VariantsResult) -> Markup {
    let levels = levels_of(result);
    html! {
        @for (number, load) in levels.iter().enumerate() {
            @let cells: Vec<&Cell> = result.cells.iter().filter(|cell| cell.loads.first() == Some(load)).collect();
            @if levels.len() > 1 { h3 { (level_name(*load)) } }
            @if let Some(drawn) = over_size(result, number, OverSize::Bandwidth) { (figure(&drawn, captions::BANDWIDTH)) }
            @if let Some(drawn) = over_size(result, number, OverSize::Latency) {
                (figure(&drawn, &[("", "Geometric means over the rounds, with their 95 % intervals.")]))
            }
            @if has_sizes(result) {
                h3 { "Latency (" (latency_word(result)) "), as a multiple of " (first(result)) "'s" }
                (by_size(&cells, result, &ratio))
                h3 { "Bytes of inputs a second" }
                (by_size(&cells, result, &|way: &Way<'_>| optional(way.bandwidth.input, bandwidth)))
            }
        }
        @for cell in &result.cells { (one(result, cell)) }
    }
}

fn first(result: &VariantsResult) -> String {
    result.variants.first().map(|first| shown(&first.name).into_owned()).unwrap_or_default()
}

fn optional(value: Option<f64>, show: fn(f64) -> String) -> Markup {
    html! { td { (value.map_or_else(|| "–".to_owned(), show)) } }
}

/// A ratio with its verdict; of the reference the latency itself.
fn ratio(way: &Way<'_>) -> Markup {
    match &way.change {
        Some(change) => {
            html! { td { span class=(change_class(change.verdict)) title=(interval(change.interval)) { (factor(change.ratio)) } } }
        }
        None => optional(way.latency_ns, time),
    }
}

/// A row for each way, a column for each size.
fn by_size(cells: &[&Cell], result: &VariantsResult, show: &dyn Fn(&Way<'_>) -> Markup) -> Markup {
    let all: Vec<Vec<Way<'_>>> = cells.iter().map(|cell| ways(result, cell)).collect();
    html! {
        div.scroll tabindex="0" { table {
            thead { tr { th.left { "inputs of" } @for cell in cells { th { (cell.size.map(binary).unwrap_or_default()) } } } }
            tbody { @for (number, variant) in result.variants.iter().enumerate() {
                tr { th.left { (shown(&variant.name)) } @for cell in &all { (show(&cell[number])) } }
            } }
        } }
    }
}

/// Every figure of a cell; closed where there are many.
fn one(result: &VariantsResult, cell: &Cell) -> Markup {
    let load = cell.loads.first().map(|load| level_name(*load)).unwrap_or_default();
    let size = cell.size.map(|bytes| format!(", inputs of {}", binary(bytes))).unwrap_or_default();
    let content = html! {
        (rows(result, cell))
        (beside(result, cell))
        @if let Some(drawn) = of_rounds(result, cell) { (figure(&drawn, captions::ROUNDS)) }
    };
    html! {
        @if result.cells.len() > 1 { details { summary { (load) (size) } (content) } } @else { h3 { (load) (size) } (content) }
    }
}

fn rows(result: &VariantsResult, cell: &Cell) -> Markup {
    let latency = latency_word(result);
    html! {
        div.scroll tabindex="0" { table {
            thead { tr {
                th.left { "way" } th { "inferences/s" } th { "in" } th { "out" } th { (latency) " latency" } th { "ratio" }
                th { "95 % interval" } th.left { "verdict" }
            } }
            tbody { @for way in ways(result, cell) { tr {
                th.left { (shown(way.name)) }
                @match way.problem {
                    Some(problem) => { td.left colspan="7" { "not measured: " (shown(problem)) } },
                    None => {
                        (optional(way.rate, rate)) (optional(way.bandwidth.input, bandwidth)) (optional(way.bandwidth.output, bandwidth))
                        (optional(way.latency_ns, time))
                        @match &way.change {
                            Some(change) => {
                                td { (factor(change.ratio)) } td { (interval(change.interval)) }
                                td.left { span class=(change_class(change.verdict)) { (change.verdict) } }
                            },
                            None => { td {} td {} td.left { "the reference" } },
                        }
                    },
                }
            } } }
        } }
    }
}
