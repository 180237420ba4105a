//! What language models generated, for the report, CSV files and the export: tokens, and the times to them and between
//! them.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::number::{self, percent, significant, whole_us};
use crate::result::Unit;
use crate::result::figures::{Figure, FigureAt, Group, rows};
use crate::result::summary::{ClientSummary, Distribution, Generated, LevelSummary};
use crate::terms::{FEW_PERCENTILES, Point};

/// With more events per read than this, gaps of zero are an artefact of the transport.
const SHARED_READS: f64 = 1.2;

/// The lines of a level; `row` formats a distribution.
pub fn text(client: &ClientSummary, row: fn(&str, bool, &Distribution) -> String) -> String {
    let mut text = String::new();
    if let Some((rate, share)) = client.goodput() {
        let _ = writeln!(text, "    Goodput: {} requests/sec ({} of requests)", significant(rate), percent(share));
    }
    let Some(generated) = &client.generated else { return text };
    if generated.with_tokens() > 0 {
        let rate = significant(client.token_throughput());
        let tokens = number::counted(generated.tokens, "token");
        let _ = write!(text, "    Output token throughput: {rate} tokens/sec ({tokens}");
        text += &counted(generated);
    }
    if let Some(rate) = generated.tokens_per_user() {
        let _ = writeln!(text, "    Output token throughput per user: {} tokens/sec", significant(rate));
    }
    for row_of in rows(Group::Generation) {
        let times = row_of.times(client);
        text.extend(times.map(|times| row(&line(row_of), false, times)));
    }
    text + &notes(generated)
}

/// Who counted the tokens.
fn counted(generated: &Generated) -> String {
    let why = if generated.unreadable > 0 { "its usage cannot be read" } else { "the server reports no usage" };
    match (generated.counted, generated.by_tokenizer, generated.by_chunks) {
        (_, 0, 0) => ", counted by the server)\n".to_owned(),
        (0, _, 0) => format!(", counted by the tokenizer: {why})\n"),
        (_, _, 0) => format!(", where {why} counted by the tokenizer)\n"),
        (0, 0, _) => format!(", each chunk counted as one: {why})\n"),
        (_, 0, _) => format!(", where {why} each chunk counted as one)\n"),
        _ => ", some answers counted by the tokenizer, others with each chunk counted as one)\n".to_owned(),
    }
}

/// The name of a figure's line.
fn line(row: &Figure) -> String {
    let suffix = if row.key == "normalized_latency" { " (per token)" } else { "" };
    capitalised(row.title) + suffix
}

/// The inputs' tokens; perf_analyzer's callers do not know these lines.
pub fn inputs(client: &ClientSummary) -> String {
    let Some((generated, rate)) = client.generated.as_ref().zip(client.input_throughput()) else {
        return String::new();
    };
    let total = significant(rate + client.token_throughput());
    let length = significant(generated.input_tokens as f64 / generated.inputs as f64);
    let rate = significant(rate);
    let counted = match generated.inputs_by_tokenizer {
        0 => "",
        count if count == generated.inputs => ", counted by the tokenizer",
        _ => ", some counted by the tokenizer",
    };
    let mut text =
        format!("    Input token throughput: {rate} tokens/sec ({length} tokens each{counted}; in all {total})\n");
    if generated.cacheable_tokens > 0 {
        let share = generated.cached_tokens as f64 / generated.cacheable_tokens as f64;
        let _ = writeln!(text, "    Cache hit rate: {} of input tokens", percent(share));
    }
    text
}

/// Notes on streams beside their figures.
fn notes(generated: &Generated) -> String {
    let mut text = String::new();
    if generated.empty > 0 {
        let _ = writeln!(text, "    Empty answers: {} (successes without any content)", generated.empty);
    }
    if generated.unended > 0 {
        let _ = writeln!(text, "    Streams without [DONE]: {} (they did report a finish_reason)", generated.unended);
    }
    if generated.unreadable > 0 {
        let why = "a count of tokens is no whole number of at most 2^40, and counts as none";
        let _ = writeln!(text, "    Answers whose usage cannot be read: {} ({why})", generated.unreadable);
    }
    let events = generated.events_per_read();
    if events > SHARED_READS {
        let why = "events that arrive in one read share its time, so gaps of 0 come from the transport";
        let _ = writeln!(text, "    Events per read: {events:.2} ({why})");
    }
    text
}

/// A column's name, and how a level fills it.
type Column = (String, Box<dyn Fn(&LevelSummary) -> String>);

/// The titles of columns that came before the catalogue had them.
const COLUMNS: [(&str, &str); 4] = [
    ("goodput", "Goodput"),
    ("goodput_share", "Goodput Share"),
    ("output_token_throughput", "Output Tokens/Second"),
    ("output_token_throughput_per_user", "Output Tokens/Second per User"),
];

/// The columns of levels with generated text or with limits, values before times; empty if no level has them. Those
/// that came with the catalogue are left out `as_upstream`, whose callers count columns.
pub fn columns(levels: &[&LevelSummary], as_upstream: bool) -> Vec<Column> {
    let upstream_title = |row: &Figure| COLUMNS.iter().find(|(key, _)| *key == row.key).map(|(_, title)| *title);
    let is_there = |row: &&Figure| levels.iter().any(|level| row.is_in(&level.client));
    let all: Vec<&'static Figure> = rows(Group::Generation).filter(is_there).collect();
    let values = all.iter().filter(|row| !row.has_points()).filter(|row| !as_upstream || upstream_title(row).is_some());
    let mut columns: Vec<Column> = Vec::new();
    let mut add = |title: String, figure_at: FigureAt| {
        let cell = move |level: &LevelSummary| {
            figure_at.value(level).map_or_else(String::new, |found| shown(figure_at, found.value))
        };
        columns.push((title, Box::new(cell)));
    };
    values.for_each(|row| add(upstream_title(row).map_or_else(|| capitalised(row.title), str::to_owned), row.at(None)));
    for row in all.iter().filter(|row| row.has_points()) {
        add(format!("Avg {}", row.title), row.at(Some(Point::Mean)));
        for percentile in FEW_PERCENTILES {
            add(format!("p{percentile} {}", row.title), row.at(Some(Point::Percentile(percentile))));
        }
    }
    columns
}

/// A cell: whole microseconds, shares with four decimals.
fn shown(figure_at: FigureAt, value: f64) -> String {
    match figure_at.figure.unit {
        Unit::Nanoseconds => whole_us(value).to_string(),
        Unit::Share => format!("{value:.4}"),
        _ => significant(value),
    }
}

fn capitalised(title: &str) -> String {
    let mut letters = title.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// The figures of a level; `times` formats a distribution.
pub fn figures(client: &ClientSummary, times: fn(&Distribution) -> Value) -> Map<String, Value> {
    let mut all = Map::new();
    let mut put = |name: &str, value: Value| drop(all.insert(name.to_owned(), value));
    if let Some((rate, share)) = client.goodput() {
        put("goodput", json!(rate));
        put("goodput_share", json!(share));
    }
    let Some(generated) = &client.generated else { return all };
    put("output_tokens", json!(generated.tokens));
    put("output_token_throughput", json!(client.token_throughput()));
    put("output_token_throughput_per_user", json!(generated.tokens_per_user()));
    let counted = match (generated.counted, generated.by_tokenizer, generated.by_chunks) {
        (0, 0, 0) => Value::Null,
        (_, 0, 0) => json!("usage"),
        (0, _, 0) => json!("tokenizer"),
        (0, 0, _) => json!("chunks"),
        _ => json!("mixed"),
    };
    put("output_tokens_from", counted);
    for row in rows(Group::Generation).filter(|row| row.has_points()) {
        let found = row.times(client).map_or(Value::Null, times);
        put(&format!("{}_ns", row.title.replace(' ', "_")), found);
    }
    put("empty_answers", json!(generated.empty));
    put("streams_without_done", json!(generated.unended));
    put("events_per_read", json!(generated.events_per_read()));
    all
}
