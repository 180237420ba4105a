//! Tables of parts of the requests: models of a mix, turns of sessions, and servers that requests are spread over.

use maud::{Markup, html};

use crate::html::parts::{percent, percentile_of, whose};
use crate::pictures::{Shown, level, short};
use crate::result::summary::{ClientSummary, LevelSummary};
use crate::sessions;
use crate::stdio::shown;
use crate::terms::FEW_PERCENTILES;

/// What the requests of a result are divided into.
struct Division<'a> {
    id: &'a str,
    title: &'a str,
    /// The heading of the parts' names.
    each: &'a str,
    names: Vec<&'a str>,
    parts: fn(&LevelSummary) -> &Vec<ClientSummary>,
}

/// The sections of a result, as far as it has such parts.
pub fn sections(results: &[Shown<'_>], number: usize) -> Markup {
    let setup = &results[number].result.setup;
    let noun = if setup.has_turns() { "turn" } else { "model" };
    let names = setup.entries.iter().map(|entry| entry.name.as_str()).collect();
    let entries = Division {
        id: "mix",
        title: sessions::entries_title(setup),
        each: noun,
        names,
        parts: |level| &level.client.entries,
    };
    let names = setup.servers.iter().map(String::as_str).collect();
    let servers =
        Division { id: "servers", title: "Servers", each: "server", names, parts: |level| &level.client.servers };
    html! { @for division in [entries, servers] { @if division.names.len() > 1 { (section(results, number, &division)) } } }
}

fn section(results: &[Shown<'_>], number: usize, division: &Division<'_>) -> Markup {
    html! { section id=(division.id) {
        h2 { (division.title) }
        (whose(results, number))
        div.scroll tabindex="0" { table {
            thead { tr {
                th { "load" } th.left { (division.each) } th { "share" } th { "inferences/s" } @for percentile in FEW_PERCENTILES { th { "p" (percentile) } } th { "failed" }
            } }
            tbody { @for summary in &results[number].result.levels { (rows(summary, division)) } }
        } }
    } }
}

fn rows(summary: &LevelSummary, division: &Division<'_>) -> Markup {
    let parts = (division.parts)(summary);
    let all: u64 = parts.iter().map(ClientSummary::completed).sum();
    html! { @for (name, part) in division.names.iter().zip(parts) { tr {
        th { (level(summary)) } td.left { (shown(name)) } td { (percent(part.completed(), all)) } td { (short(part.throughput())) }
        @for percentile in FEW_PERCENTILES { td { (percentile_of(&part.latency, percentile)) } }
        td { (percent(part.failed, part.completed())) }
    } } }
}
