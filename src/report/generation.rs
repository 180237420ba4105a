//! What language models generated, for the report, CSV files and the export: tokens, and the times to them and between
//! them.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::measure::summary::{ClientSummary, Distribution, Generated, LevelSummary};
use crate::report::number::{percent, significant, whole_us};

/// With more events per read than this, gaps of zero are an artefact of the transport.
const SHARED_READS: f64 = 1.2;

/// A distribution, with its names in the report, CSV files and the export.
struct Times {
    line: &'static str,
    column: &'static str,
    key: &'static str,
    of: fn(&Generated) -> &Distribution,
}

const TIMES: [Times; 5] = [
    Times {
        line: "Time to first token",
        column: "time to first token",
        key: "time_to_first_token_ns",
        of: |all| &all.first_token,
    },
    Times {
        line: "Time to second token",
        column: "time to second token",
        key: "time_to_second_token_ns",
        of: |all| &all.second_token,
    },
    Times {
        line: "Inter token latency",
        column: "inter token latency",
        key: "inter_token_latency_ns",
        of: |all| &all.inter_token,
    },
    Times {
        line: "Inter chunk latency",
        column: "inter chunk latency",
        key: "inter_chunk_latency_ns",
        of: |all| &all.gap,
    },
    Times {
        line: "Normalized latency (per token)",
        column: "normalized latency",
        key: "normalized_latency_ns",
        of: |all| &all.normalised,
    },
];

/// The lines of a level; `row` formats a distribution.
pub fn text(client: &ClientSummary, row: fn(&str, bool, &Distribution) -> String) -> String {
    let mut text = String::new();
    if let Some((rate, share)) = client.goodput() {
        let _ = writeln!(text, "    Goodput: {} requests/sec ({} of requests)", significant(rate), percent(share));
    }
    let Some(generated) = &client.generated else { return text };
    if generated.with_tokens() > 0 {
        let rate = significant(client.token_throughput());
        let _ = write!(text, "    Output token throughput: {rate} tokens/sec ({} tokens", generated.tokens);
        text += match (generated.counted, generated.by_tokenizer, generated.by_chunks) {
            (_, 0, 0) => ", counted by the server)\n",
            (0, _, 0) => ", counted by the tokenizer: the server reports no usage)\n",
            (_, _, 0) => ", where the server reports no usage counted by the tokenizer)\n",
            (0, 0, _) => ", each chunk counted as one: the server reports no usage)\n",
            (_, 0, _) => ", where the server reports no usage each chunk counted as one)\n",
            _ => ", some answers counted by the tokenizer, others with each chunk counted as one)\n",
        };
    }
    if let Some(rate) = generated.tokens_per_user() {
        let _ = writeln!(text, "    Output token throughput per user: {} tokens/sec", significant(rate));
    }
    for Times { line, of, .. } in TIMES {
        let times = of(generated);
        if times.count() > 0 {
            text += &row(line, false, times);
        }
    }
    text + &notes(generated)
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
    let each = generated.events_per_read();
    if each > SHARED_READS {
        let why = "events that arrive in one read share its time, so gaps of 0 come from the transport";
        let _ = writeln!(text, "    Events per read: {each:.2} ({why})");
    }
    text
}

/// A column's name, and how a level fills it.
type Column = (String, Box<dyn Fn(&LevelSummary) -> String>);

/// The columns of levels with generated text or with limits; empty if no level has them.
pub fn columns(levels: &[&LevelSummary]) -> Vec<Column> {
    let mut columns: Vec<Column> = Vec::new();
    if levels.iter().any(|level| level.client.good.is_some()) {
        let cell = |level: &LevelSummary| level.client.goodput();
        columns.push((
            "Goodput".to_owned(),
            Box::new(move |level| cell(level).map_or_else(String::new, |(rate, _)| significant(rate))),
        ));
        columns.push((
            "Goodput Share".to_owned(),
            Box::new(move |level| cell(level).map_or_else(String::new, |(_, share)| format!("{share:.4}"))),
        ));
    }
    let all = levels.iter().filter_map(|level| level.client.generated.as_ref());
    let all: Vec<_> = all.collect();
    if all.iter().any(|generated| generated.with_tokens() > 0) {
        columns
            .push(("Output Tokens/Second".to_owned(), Box::new(|level| significant(level.client.token_throughput()))));
        let per_user = |level: &LevelSummary| level.client.generated.as_ref()?.tokens_per_user();
        columns.push((
            "Output Tokens/Second per User".to_owned(),
            Box::new(move |level| per_user(level).map_or_else(String::new, significant)),
        ));
    }
    for Times { column, of, .. } in TIMES {
        if !all.iter().any(|generated| of(generated).count() > 0) {
            continue;
        }
        let mut add = |title: String, cell: fn(&Distribution) -> f64| {
            let fill = move |level: &LevelSummary| {
                let times = level.client.generated.as_ref().map(|generated| of(generated));
                let times = times.filter(|times| times.count() > 0);
                times.map_or_else(String::new, |times| whole_us(cell(times)).to_string())
            };
            columns.push((title, Box::new(fill)));
        };
        add(format!("Avg {column}"), Distribution::mean_ns);
        add(format!("p50 {column}"), |times| times.percentile_ns(50.0) as f64);
        add(format!("p99 {column}"), |times| times.percentile_ns(99.0) as f64);
    }
    columns
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
    for Times { key, of, .. } in TIMES {
        put(key, times(of(generated)));
    }
    put("empty_answers", json!(generated.empty));
    put("streams_without_done", json!(generated.unended));
    put("events_per_read", json!(generated.events_per_read()));
    all
}
