//! The columns of parts of the requests: entries of a mix, and servers that requests are spread over.

use crate::csv::{Columns, at};
use crate::distinct;
use crate::number::{significant, whole_us};
use crate::result::Setup;
use crate::result::summary::{ClientSummary, Distribution, LevelSummary};
use crate::terms::PERCENTILES;

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
    for (number, name) in distinct(names).iter().enumerate() {
        let mut add = |title: &str, cell: Box<dyn Fn(&ClientSummary) -> String>| {
            let cell = move |level: &LevelSummary| parts(level).get(number).map(&cell).unwrap_or_default();
            columns.add(format!("{name} {title}"), cell);
        };
        add("Inferences/Second", Box::new(|part| significant(part.throughput())));
        add("Failed Requests", Box::new(|part| part.failed.to_string()));
        // Of a part without successes there is no latency, and not one of zero.
        let mut add = |title: &str, cell: Box<dyn Fn(&Distribution) -> String>| {
            let filled = move |part: &ClientSummary| {
                if part.latency.count() == 0 { String::new() } else { cell(&part.latency) }
            };
            add(title, Box::new(filled));
        };
        add("Avg latency", Box::new(|times| whole_us(times.mean_ns()).to_string()));
        for percentile in PERCENTILES {
            add(&format!("p{percentile} latency"), Box::new(move |times| at(times, percentile)));
        }
    }
}
