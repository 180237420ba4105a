//! Whole sequences, for the report, CSV files and the export: how long they took, and how long their last answers did.

use serde_json::{Value, json};

use crate::measure::summary::{ClientSummary, Distribution, LevelSummary, SequenceTimes};
use crate::report::number::{percent, whole_us};
use crate::result::Setup;

/// A distribution of them: how the report, CSV files and the export name it.
struct Times {
    line: &'static str,
    column: &'static str,
    key: &'static str,
    of: fn(&SequenceTimes) -> &Distribution,
}

const TIMES: [Times; 2] = [
    Times {
        line: "Sequence duration (first send to last answer)",
        column: "sequence duration",
        key: "duration_ns",
        of: |all| &all.duration,
    },
    Times {
        line: "Final latency (last request of a sequence)",
        column: "final latency",
        key: "final_latency_ns",
        of: |all| &all.last,
    },
];

/// The lines of a level; `row` is how a distribution is shown.
pub fn text(client: &ClientSummary, row: fn(&str, bool, &Distribution) -> String) -> String {
    let Some(sequences) = &client.sequence_times else { return String::new() };
    let times: String = TIMES.iter().map(|Times { line, of, .. }| row(line, false, of(sequences))).collect();
    let in_time = sequences.in_time.filter(|_| sequences.count() > 0).map(|in_time| {
        let (count, share) = (sequences.count(), percent(in_time as f64 / sequences.count() as f64));
        format!(
            "    Sequences in time (last answer before a further request was due): {in_time} of {count} ({share})\n"
        )
    });
    times + &in_time.unwrap_or_default()
}

/// A column's name, and how a level fills it.
type Column = (String, Box<dyn Fn(&LevelSummary) -> String>);

/// The columns of a run whose models take sequences.
pub fn columns(setup: &Setup) -> Vec<Column> {
    if !setup.sequences || setup.detail.as_upstream {
        return Vec::new();
    }
    let mut columns: Vec<Column> = Vec::new();
    for Times { column, of, .. } in TIMES {
        let mut time = |title: &str, value: fn(&Distribution) -> f64| {
            let cell = move |level: &LevelSummary| {
                let times = level.client.sequence_times.as_deref().map(of);
                times.map_or_else(String::new, |times| whole_us(value(times)).to_string())
            };
            columns.push((format!("{title} {column}"), Box::new(cell)));
        };
        time("Avg", Distribution::mean_ns);
        time("p50", |times| times.percentile_ns(50.0) as f64);
        time("p99", |times| times.percentile_ns(99.0) as f64);
    }
    columns
}

/// The figures of a level whose models take sequences; `times` is how a distribution is written.
pub fn figures(client: &ClientSummary, times: fn(&Distribution) -> Value) -> Option<Value> {
    let sequences = client.sequence_times.as_deref()?;
    let mut all = json!({ "count": sequences.count() });
    if let Some(in_time) = sequences.in_time {
        all["in_time"] = json!(in_time);
    }
    for Times { key, of, .. } in TIMES {
        all[key] = times(of(sequences));
    }
    Some(all)
}
