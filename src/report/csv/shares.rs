//! The columns of parts of the requests: entries of a mix, and servers that requests are spread over.

use crate::csv::{Columns, at};
use crate::number::{significant, whole_us};
use crate::result::Setup;
use crate::result::summary::{ClientSummary, LevelSummary};

/// The results of each entry of a mix.
pub(super) fn entries(columns: &mut Columns<'_>, setup: &Setup) {
    let names = setup.entries.iter().map(|entry| entry.name.as_str());
    add(columns, names, |level| &level.client.entries);
}

/// The results of each server, which is called by its address.
pub(super) fn servers(columns: &mut Columns<'_>, setup: &Setup) {
    add(columns, setup.servers.iter().map(String::as_str), |level| &level.client.servers);
}

fn add<'a>(
    columns: &mut Columns<'_>,
    names: impl Iterator<Item = &'a str>,
    parts: fn(&LevelSummary) -> &Vec<ClientSummary>,
) {
    for (number, name) in names.enumerate() {
        let mut add = |title: &str, cell: fn(&ClientSummary) -> String| {
            columns.add(format!("{name} {title}"), move |level| parts(level).get(number).map(cell).unwrap_or_default());
        };
        add("Inferences/Second", |part| significant(part.throughput()));
        add("Failed Requests", |part| part.failed.to_string());
        add("Avg latency", |part| whole_us(part.latency.mean_ns()).to_string());
        add("p50 latency", |part| at(&part.latency, 50.0));
        add("p90 latency", |part| at(&part.latency, 90.0));
        add("p95 latency", |part| at(&part.latency, 95.0));
        add("p99 latency", |part| at(&part.latency, 99.0));
    }
}
