//! Files of recorded sessions, in each format.

use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Deserializer, Value, json};

use crate::error::{Error, Result};
use crate::replay::{TraceFormat, TraceOptions};
use crate::session_trace::Recorded;
use crate::session_trace::call::{self, Call};
use crate::session_trace::weka::Trace;
use crate::text::{fault_in_line, read_text};

/// Limit on the bytes of a file: it is read at once.
const MAX_BYTES: u64 = 4 << 30;

/// What a file holds.
pub(super) struct Read {
    /// Its sessions.
    pub(super) sessions: Vec<Recorded>,
    /// What is wrong with lines that were left out.
    pub(super) left_out: Vec<String>,
}

/// The files of a path, in the order of their names.
///
/// # Errors
/// If it cannot be read.
pub(super) fn files(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let failed = |error| Error::input(format!("--session-trace '{}': cannot be read: {error}", path.display()));
    let is_trace = |path: &PathBuf| path.extension().is_some_and(|found| found == "json" || found == "jsonl");
    let mut files: Vec<PathBuf> =
        fs::read_dir(path).map_err(failed)?.filter_map(|entry| Some(entry.ok()?.path())).filter(is_trace).collect();
    files.sort();
    Ok(files)
}

/// The first `most` sessions of a file: it is one, or has one in each line.
///
/// # Errors
/// What is wrong with it.
pub(super) fn sessions(path: &Path, format: TraceFormat, options: &TraceOptions, most: usize) -> Result<Read, String> {
    let size = fs::metadata(path).map_err(|error| format!("cannot be read: {error}"))?.len();
    if size > MAX_BYTES {
        return Err(format!("it has {size} bytes, and at most {MAX_BYTES} are read: split it"));
    }
    let text = read_text(path)?;
    match (recognised(&text), format) {
        (Some(found), asked) if found != asked => {
            Err(format!("it does not hold what '{}:' says: write '{}:' before its path", asked.word(), found.word()))
        }
        (_, TraceFormat::OpenTelemetry) => spans(&text, options, most),
        (_, TraceFormat::Weka) => traces(&text, options, most),
    }
}

/// The format of a file, as its first value tells.
fn recognised(text: &str) -> Option<TraceFormat> {
    #[derive(Deserialize)]
    struct First {
        requests: Option<IgnoredAny>,
        spans: Option<IgnoredAny>,
        span_id: Option<IgnoredAny>,
    }
    let text = text.trim_start();
    let text = text.strip_prefix('[').unwrap_or(text);
    let first: First = Deserializer::from_str(text).into_iter().next()?.ok()?;
    match (first.requests, first.spans.or(first.span_id)) {
        (_, Some(_)) => Some(TraceFormat::OpenTelemetry),
        (Some(_), None) => Some(TraceFormat::Weka),
        (None, None) => None,
    }
}

/// Sessions of OpenTelemetry spans.
fn spans(text: &str, options: &TraceOptions, most: usize) -> Result<Read, String> {
    let rows: Vec<Value> = match serde_json::from_str(text) {
        Ok(Value::Array(rows)) => rows,
        Ok(row) => vec![row],
        Err(whole) => {
            let lines = text.lines().filter(|line| !line.trim().is_empty()).map(serde_json::from_str);
            lines.collect::<Result<_, _>>().map_err(|_| format!("it is not JSON: {whole}"))?
        }
    };
    // A list of spans is one session.
    let rows = if rows.iter().all(|row| row.get("span_id").is_some()) { vec![json!({ "spans": rows })] } else { rows };
    let calls = |row: &Value| {
        let spans = row.get("spans").map(|spans| match spans {
            Value::String(text) => serde_json::from_str(text).unwrap_or(Value::Null),
            other => other.clone(),
        });
        let Some(Value::Array(spans)) = spans else { return Err("it has no list of 'spans'".to_owned()) };
        call::of_spans(&spans, options.errors)
    };
    let sessions = rows.iter().map(calls).collect::<Result<Vec<_>, String>>()?;
    let is_short = |calls: &Vec<Call>| {
        let longest = calls.iter().map(|call| call.all_tokens).max();
        options.below_tokens.is_none_or(|most| longest.is_some_and(|longest| longest < most))
    };
    let sessions: Vec<_> = sessions.into_iter().filter(|calls| !calls.is_empty()).collect();
    let rule = "none of its spans is a call of a language model (gen_ai.operation.name chat, gen_ai.input.messages)";
    if sessions.is_empty() {
        return Err(rule.to_owned());
    }
    let sessions = sessions.into_iter().filter(is_short).take(most).map(Recorded::Calls).collect();
    Ok(Read { sessions, left_out: Vec::new() })
}

/// Sessions in Weka's format. They are large, so lines are read one by one, and none after the last that is wanted.
fn traces(text: &str, options: &TraceOptions, most: usize) -> Result<Read, String> {
    let (mut sessions, mut left_out) = (Vec::new(), Vec::new());
    let mut keep = |trace: Trace| {
        trace.check()?;
        if sessions.len() < most && options.below_tokens.is_none_or(|bound| trace.longest() < bound) {
            sessions.push(Recorded::Blocks(trace));
        }
        Ok::<_, String>(sessions.len() < most)
    };
    let mut lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()).peekable();
    let is_whole = |line: &str| serde_json::from_str::<IgnoredAny>(line).is_ok();
    if text.trim_start().starts_with('[') {
        for trace in serde_json::from_str::<Vec<Trace>>(text).map_err(unusable)? {
            keep(trace)?;
        }
    } else if !lines.peek().is_some_and(|(_, line)| is_whole(line)) {
        keep(serde_json::from_str(text).map_err(unusable)?)?;
    } else {
        for (number, line) in lines {
            let trace = serde_json::from_str(line).map_err(|error| unusable(fault_in_line(&error)));
            match trace.and_then(&mut keep) {
                Ok(true) => {}
                Ok(false) => break,
                Err(rule) if options.skip_invalid => left_out.push(format!("line {number}: {rule}")),
                Err(rule) => return Err(format!("line {number}: {rule}")),
            }
        }
    }
    Ok(Read { sessions, left_out })
}

fn unusable(rule: impl Display) -> String {
    format!("it is no trace with an id and requests, each with type, t, in, out and hash_ids: {rule}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, format: TraceFormat, options: &TraceOptions, most: usize) -> Result<Read, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        fs::write(&path, text).unwrap();
        sessions(&path, format, options, most)
    }

    fn trace(id: &str, input: u64) -> Value {
        json!({ "id": id, "requests": [{ "t": 0, "type": "n", "in": input, "out": 10, "hash_ids": [1] }] })
    }

    fn names(read: &Read) -> Vec<&str> {
        fn name(recorded: &Recorded) -> &str {
            match recorded {
                Recorded::Blocks(trace) => trace.id.as_str(),
                Recorded::Calls(_) => "spans",
            }
        }
        read.sessions.iter().map(name).collect()
    }

    #[test]
    fn traces_are_a_file_a_list_or_lines() {
        let options = TraceOptions::default();
        let (a, b, c) = (trace("a", 5), trace("b", 500), trace("c", 5));
        let weka = |text: &str, most| read(text, TraceFormat::Weka, &options, most).unwrap();
        assert_eq!(names(&weka(&serde_json::to_string_pretty(&a).unwrap(), 9)), ["a"]);
        assert_eq!(names(&weka(&format!("\n{a}\n\n{b}\n{c}\n"), 9)), ["a", "b", "c"]);
        assert_eq!(names(&weka(&format!("\u{feff}{a}\n{b}\n"), 9)), ["a", "b"]);
        assert_eq!(names(&weka(&serde_json::to_string_pretty(&[&a, &b, &c]).unwrap(), 2)), ["a", "b"]);
        assert_eq!(names(&weka(&format!("{a}\n{b}\nno more is read"), 2)), ["a", "b"]);
        let short = TraceOptions { below_tokens: Some(510), ..options.clone() };
        assert_eq!(names(&read(&format!("{a}\n{b}\n{c}"), TraceFormat::Weka, &short, 9).unwrap()), ["a", "c"]);
    }

    #[test]
    fn lines_that_cannot_be_used_are_left_out_where_that_is_asked_for() {
        let text = format!("{}\n{{\"id\": 1}}\n{}\n{{", trace("a", 5), trace("b", 5));
        let lenient = TraceOptions { skip_invalid: true, ..TraceOptions::default() };
        let found = read(&text, TraceFormat::Weka, &lenient, 9).unwrap();
        assert_eq!(names(&found), ["a", "b"]);
        assert!(found.left_out[0].starts_with("line 2: it is no trace"), "{:?}", found.left_out);
        assert!(found.left_out[1].starts_with("line 4: it is no trace") && found.left_out.len() == 2);
        let message = read(&text, TraceFormat::Weka, &TraceOptions::default(), 9).err().unwrap();
        assert!(message.starts_with("line 2: it is no trace") && !message.contains("line 1"), "{message}");
    }

    #[test]
    fn formats_are_told_by_what_a_file_holds() {
        let span = json!({ "span_id": "s", "name": "chat m", "start_time": 0, "attributes": { "gen_ai.input.messages": "[]" } });
        let spans = [json!({ "spans": [span] }).to_string(), json!([span]).to_string(), format!("{span}\n{span}")];
        for text in &spans {
            assert_eq!(recognised(text), Some(TraceFormat::OpenTelemetry), "{text}");
            let message = read(text, TraceFormat::Weka, &TraceOptions::default(), 9).err().unwrap();
            assert!(message.ends_with("write 'otel:' before its path"), "{message}");
            assert_eq!(names(&read(text, TraceFormat::OpenTelemetry, &TraceOptions::default(), 9).unwrap()), ["spans"]);
        }
        let traces = trace("a", 5);
        for text in [traces.to_string(), format!("[{traces},{traces}]"), serde_json::to_string_pretty(&traces).unwrap()]
        {
            assert_eq!(recognised(&text), Some(TraceFormat::Weka), "{text}");
            let message = read(&text, TraceFormat::OpenTelemetry, &TraceOptions::default(), 9).err().unwrap();
            assert!(message.ends_with("write 'weka:' before its path"), "{message}");
        }
        assert_eq!(["", "[]", "{", "{\"a\": 1}"].map(recognised), [None; 4]);
    }
}
