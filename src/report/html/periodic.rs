//! The batches of a periodic load.

use maud::{Markup, html};

use crate::periodic::{ending, failures, rows};
use crate::result::RunResult;
use crate::stdio::shown;

/// A row for each batch, and what became of all requests; empty for other loads.
pub fn section(result: &RunResult) -> Markup {
    let Some(periodic) = &result.periodic else { return html! {} };
    let rows = rows(&periodic.batches);
    html! {
        section id="batches" {
            h2 { "Batches" }
            div.scroll tabindex="0" {
                table {
                    @for heading in rows.iter().take(1) { thead { tr { @for cell in heading { th { (cell) } } } } }
                    tbody { @for row in rows.iter().skip(1) {
                        tr { @for (column, cell) in row.iter().enumerate() {
                            @if column == 0 { th { (cell) } } @else { td { (cell) } } } } } }
                }
            }
            p.note { "Times in microseconds. A batch is sent once every request of the one before it has had its responses." }
            @for line in ending(periodic) { p { (line) } }
            @for remark in &periodic.remarks { p { (shown(&remark.text)) } }
            @let failures: Vec<String> = failures(periodic).collect();
            @if !failures.is_empty() { ul { @for failure in &failures { li { (shown(failure)) } } } }
        }
    }
}
