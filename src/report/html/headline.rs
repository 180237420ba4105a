//! The top of a page: the answer to what was asked.

use maud::{Markup, html};

use crate::headline;
use crate::html::Page;
use crate::result::answer::{Answer, GateAnswer};
use crate::result::checked::Judgement;
use crate::stdio::shown;

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
            p.sub { span.badge.warn { (missing.label().to_lowercase()) } " " (shown(&missing.text())) }
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
