//! Small parts of the page.

use maud::{Markup, html};

use crate::pictures::{Shown, letter, short, time};
use crate::result::compare::Direction;
use crate::result::summary::Distribution;
use crate::result::variants::{Cell, VariantsResult};
use crate::variants::{longer, remarks};

/// A share in percent.
pub fn percent(part: u64, all: u64) -> String {
    if all == 0 { "–".to_owned() } else { format!("{} %", short(100.0 * part as f64 / all as f64)) }
}

/// A percentile of times, of which there may be none: that is no time of zero.
pub fn percentile_of(times: &Distribution, percentile: f64) -> String {
    if times.count() == 0 { "–".to_owned() } else { time(times.percentile_ns(percentile) as f64) }
}

/// The name of a result above its part, if there are several.
pub fn whose(results: &[Shown<'_>], number: usize) -> Markup {
    html! { @if results.len() > 1 { p.whose { span.badge.letter { (letter(number)) } " " (results[number].name) } } }
}

/// The classes of a change's verdict.
pub fn change_class(verdict: Direction) -> &'static str {
    match verdict {
        Direction::Better => "badge good",
        Direction::Worse => "badge bad",
        Direction::Undecided => "badge warn",
        Direction::Same => "badge",
    }
}

/// What there is to say beside the figures of a cell.
pub fn beside(result: &VariantsResult, cell: &Cell) -> Markup {
    html! { @for words in longer(result, cell).into_iter().chain(remarks(result, cell)) { p.note { (words) "." } } }
}
