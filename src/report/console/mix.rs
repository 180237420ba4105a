//! The results of each entry of a mix.

use std::fmt::Write as _;

use crate::measure::summary::{ClientSummary, EntrySummary};
use crate::report::console::detail::row;
use crate::report::number::{percent, significant};
use crate::stdio::shown;

/// A title, and a block for each entry: its share of the requests, throughput, failures and the headline latency.
pub fn mix(title: &str, entries: &[EntrySummary], client: &ClientSummary) -> String {
    if client.entries.is_empty() {
        return String::new();
    }
    let all: u64 = client.entries.iter().map(ClientSummary::completed).sum();
    let mut text = format!("    {title}:\n");
    for (entry, part) in entries.iter().zip(&client.entries) {
        let share = if all == 0 { 0.0 } else { part.completed() as f64 / all as f64 };
        let _ = writeln!(
            text,
            "      {}: {} requests ({} of all, {} asked for), {} infer/sec, {} failed",
            shown(&entry.name),
            part.requests,
            percent(share),
            percent(entry.share),
            significant(part.throughput()),
            part.failed
        );
        let _ = write!(text, "    {}", row("Latency", false, &part.latency));
    }
    text
}
