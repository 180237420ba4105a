//! Whole sequences, for the report, CSV files and the export: how long they took, and how long their last answers did.

use serde_json::{Value, json};

use crate::number::percent;
use crate::result::Setup;
use crate::result::summary::{ClientSummary, Distribution, SequenceTimes};
use crate::times::{Column, Times};

const TIMES: [Times<SequenceTimes>; 2] = [
    Times {
        line: "Sequence duration (first send to last answer)",
        column: "sequence duration",
        key: "duration_ns",
        distribution: |all| &all.duration,
    },
    Times {
        line: "Final latency (last request of a sequence)",
        column: "final latency",
        key: "final_latency_ns",
        distribution: |all| &all.last,
    },
];

/// The lines of a level; `row` is how a distribution is shown.
pub fn text(client: &ClientSummary, row: fn(&str, bool, &Distribution) -> String) -> String {
    let Some(sequences) = &client.sequence_times else { return String::new() };
    let times: String =
        TIMES.iter().map(|Times { line, distribution, .. }| row(line, false, distribution(sequences))).collect();
    let in_time = sequences.in_time.filter(|_| sequences.count() > 0).map(|in_time| {
        let (count, share) = (sequences.count(), percent(in_time as f64 / sequences.count() as f64));
        format!(
            "    Sequences in time (last answer before a further request was due): {in_time} of {count} ({share})\n"
        )
    });
    times + &in_time.unwrap_or_default()
}

/// The columns of a run whose models take sequences.
pub fn columns(setup: &Setup) -> Vec<Column> {
    if !setup.sequences || setup.detail.as_upstream {
        return Vec::new();
    }
    TIMES.iter().flat_map(|times| times.columns(|level| level.client.sequence_times.as_deref())).collect()
}

/// The figures of a level whose models take sequences; `times` is how a distribution is written.
pub fn figures(client: &ClientSummary, times: fn(&Distribution) -> Value) -> Option<Value> {
    let sequences = client.sequence_times.as_deref()?;
    let mut all = json!({ "count": sequences.count() });
    if let Some(in_time) = sequences.in_time {
        all["in_time"] = json!(in_time);
    }
    for Times { key, distribution, .. } in TIMES {
        all[key] = times(distribution(sequences));
    }
    Some(all)
}
