//! The results of each entry of a mix, and of each server.

use std::fmt::Write as _;

use crate::console::detail::row;
use crate::number::{counted, percent, significant};
use crate::result::Setup;
use crate::result::summary::{ClientSummary, EntrySummary};
use crate::sessions;
use crate::stdio::shown;

/// A block for each entry of a mix, or turn: its share of the requests, throughput, failures and the headline latency.
pub fn mix(setup: &Setup, client: &ClientSummary) -> String {
    let asked = |entry: &EntrySummary| match setup.has_turns() {
        true => String::new(),
        false => format!(", {} asked for", percent(entry.share)),
    };
    let named = setup.entries.iter().map(|entry| (entry.name.as_str(), asked(entry))).zip(&client.entries);
    let parts = named.map(|((name, asked), client)| Part { name, asked, client });
    blocks(sessions::entries_title(setup), &parts.collect::<Vec<_>>())
}

/// The same for each server that requests are spread over.
pub fn servers(servers: &[String], client: &ClientSummary) -> String {
    let parts = servers.iter().zip(&client.servers);
    let parts = parts.map(|(name, client)| Part { name, asked: String::new(), client });
    blocks("Servers", &parts.collect::<Vec<_>>())
}

/// A part of the requests.
struct Part<'a> {
    name: &'a str,
    /// What was asked for, after its share.
    asked: String,
    client: &'a ClientSummary,
}

fn blocks(title: &str, parts: &[Part<'_>]) -> String {
    if parts.is_empty() {
        return String::new();
    }
    let all: u64 = parts.iter().map(|part| part.client.completed()).sum();
    let mut text = format!("    {title}:\n");
    for Part { name, asked, client } in parts {
        let share = if all == 0 { 0.0 } else { client.completed() as f64 / all as f64 };
        let _ = writeln!(
            text,
            "      {}: {} ({} of all{asked}), {} infer/sec, {} failed",
            shown(name),
            counted(client.requests, "request"),
            percent(share),
            significant(client.throughput()),
            client.failed
        );
        let _ = write!(text, "    {}", row("Latency", false, &client.latency));
    }
    text
}
