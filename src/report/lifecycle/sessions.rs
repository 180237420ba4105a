//! `…session_lifecycle_metrics.json`: conversations as a whole, under inference-perf's keys. What is not kept of each
//! conversation is `null`: its tokens, and how many turns it had.

use serde_json::{Value, json};

use crate::lifecycle::figures::seconds;
use crate::result::summary::{ClientSummary, Ending, LevelLoad, LevelSummary, Sessions};

/// The report on the conversations of all `parts`, which lasted `span_s` seconds; none if no requests were part of one.
pub fn report<'a>(
    parts: impl IntoIterator<Item = &'a ClientSummary>,
    span_s: f64,
    percentiles: &[f64],
) -> Option<Value> {
    let (mut all, mut turns_completed, mut is_any) = (Sessions::empty(), 0, false);
    for part in parts {
        if let Some(sessions) = &part.sessions {
            all.merge(sessions);
            turns_completed += part.requests;
            is_any = true;
        }
    }
    let unknown = Value::Null;
    is_any.then(|| {
        json!({
            "num_sessions": all.count(),
            "num_sessions_succeeded": all.count().saturating_sub(all.broken),
            "num_sessions_failed": all.broken,
            "failures": { "count": all.broken, "by_label": {} },
            "total_events": all.turns,
            "total_events_completed": turns_completed,
            "total_events_cancelled": unknown,
            "sessions_per_second": if span_s > 0.0 { all.count() as f64 / span_s } else { 0.0 },
            "session_duration_sec": seconds(&all.duration, percentiles),
            "num_events": unknown,
            "num_events_cancelled": unknown,
            "total_input_tokens": unknown,
            "total_output_tokens": unknown,
            "total_cached_tokens": unknown,
        })
    })
}

/// The same of a stage, with what the stage was.
pub fn of_stage(stage: usize, level: &LevelSummary, span_s: f64, percentiles: &[f64]) -> Option<Value> {
    let mut found = report([&level.client], span_s, percentiles)?;
    let concurrent = match level.load {
        LevelLoad::Concurrency(number) | LevelLoad::Streams(number) => Some(number),
        LevelLoad::RequestRate(_) | LevelLoad::Schedule(_) => None,
    };
    found["stage_metadata"] = json!({
        "stage_id": stage,
        "status": if level.ending == Ending::Complete { "COMPLETED" } else { "FAILED" },
        "timeout_configured": null,
        "actual_duration": level.client.duration.as_secs_f64(),
        "concurrent_sessions": concurrent,
        "session_rate": null,
    });
    Some(found)
}
