//! Conversations that were played, for the report, CSV files and the export: how many, how long they took, and how long of it they
//! waited for answers.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::number::{counted, significant};
use crate::result::Setup;
use crate::result::summary::{ClientSummary, Distribution, LevelSummary, Sessions};
use crate::times::{Column, Times};

const TIMES: [Times<Sessions>; 2] = [
    Times {
        line: "Session duration (with its delays)",
        column: "session duration",
        key: "duration_ns",
        distribution: |all| &all.duration,
    },
    Times {
        line: "Session latency (all of its turns)",
        column: "session latency",
        key: "latency_ns",
        distribution: |all| &all.waiting,
    },
];

/// What the entries of a mix are called, which may be turns instead.
pub fn entries_title(setup: &Setup) -> &'static str {
    match (setup.mode.sessions(), setup.has_turns()) {
        (Some(_), _) => "Turns of the sessions",
        (None, true) => "Turns of the conversations",
        (None, false) => "Models of the mix",
    }
}

/// The lines of a level; `row` is how a distribution is shown.
pub fn text(client: &ClientSummary, row: fn(&str, bool, &Distribution) -> String) -> String {
    let Some(sessions) = &client.sessions else { return String::new() };
    let turns = significant(sessions.turns_each());
    let mut text = format!("    Sessions: {} ({}, {turns} each", sessions.count(), counted(sessions.turns, "turn"));
    if sessions.broken > 0 {
        let _ = write!(text, "; {} with a turn that failed", sessions.broken);
    }
    text += ")\n";
    for Times { line, distribution, .. } in TIMES {
        text += &row(line, false, distribution(sessions));
    }
    text
}

/// The columns of levels that played conversations; none if no level did.
pub fn columns(levels: &[&LevelSummary]) -> Vec<Column> {
    if levels.iter().all(|level| level.client.sessions.is_none()) {
        return Vec::new();
    }
    let mut columns: Vec<Column> = Vec::new();
    let mut add = |title: String, cell: Box<dyn Fn(&Sessions) -> String>| {
        let fill = move |level: &LevelSummary| level.client.sessions.as_deref().map_or_else(String::new, &cell);
        columns.push((title, Box::new(fill)));
    };
    add("Sessions".to_owned(), Box::new(|sessions| sessions.count().to_string()));
    add("Turns per Session".to_owned(), Box::new(|sessions| significant(sessions.turns_each())));
    columns.extend(TIMES.iter().flat_map(|times| times.columns(|level| level.client.sessions.as_deref())));
    columns
}

/// The figures of a level, where it played any; `times` is how a distribution is written.
pub fn figures(client: &ClientSummary, times: fn(&Distribution) -> Value) -> Option<Value> {
    let sessions = client.sessions.as_deref()?;
    let mut all = json!({ "count": sessions.count(), "turns": sessions.turns, "broken": sessions.broken });
    for Times { key, distribution, .. } in TIMES {
        all[key] = times(distribution(sessions));
    }
    Some(all)
}
