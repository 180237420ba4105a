//! Files of recorded sessions, in each format.

use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Deserializer, Value};

use crate::error::{Error, Result};
use crate::replay::{TraceFormat, TraceOptions};
use crate::session_trace::Recorded;
use crate::session_trace::call::{self, UnsentParts};
use crate::session_trace::weka::Trace;
use crate::text::{fault_in_line, read_text};

/// Limit on the bytes of a file: it is read at once.
const MAX_BYTES: u64 = 4 << 30;

/// What a file holds.
#[derive(Default)]
pub(super) struct Read {
    /// Its sessions.
    pub(super) sessions: Vec<Recorded>,
    /// What is wrong with rows that were left out.
    pub(super) left_out: Vec<String>,
    /// Parts of the sessions' messages that are not sent.
    pub(super) unsent: UnsentParts,
}

impl Read {
    /// Adds to the parts that are not sent.
    pub(super) fn add_unsent(&mut self, more: UnsentParts) {
        for (kind, count) in more {
            *self.unsent.entry(kind).or_default() += count;
        }
    }
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

/// Sessions of OpenTelemetry spans: each row is one, or, if rows are spans, all are one. Rows are lines, of which none after
/// the last that is wanted is read, or in one value.
fn spans(text: &str, options: &TraceOptions, most: usize) -> Result<Read, String> {
    let mut found = Spans { options, most, read: Read::default(), loose: Vec::new(), has_calls: false };
    match lines(text) {
        Some(lines) => {
            for (number, line) in lines {
                let row =
                    serde_json::from_str(line).map_err(|error| format!("it is not JSON: {}", fault_in_line(&error)));
                if !found.take(row, || format!("line {number}"))? {
                    break;
                }
            }
        }
        None => match serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}"))? {
            Value::Array(rows) => {
                for (number, row) in (1..).zip(rows) {
                    if !found.take(Ok(row), || format!("row {number}"))? {
                        break;
                    }
                }
            }
            row => found.whole(row)?,
        },
    }
    found.done()
}

/// Sessions of spans, as they are read.
struct Spans<'a> {
    options: &'a TraceOptions,
    /// How many sessions are wanted.
    most: usize,
    read: Read,
    /// Rows that are spans themselves.
    loose: Vec<Value>,
    has_calls: bool,
}

impl Spans<'_> {
    /// Takes a row of that name. Returns whether another one is wanted.
    ///
    /// # Errors
    /// What is wrong with it, unless such rows are left out.
    fn take(&mut self, row: Result<Value, String>, name: impl Fn() -> String) -> Result<bool, String> {
        let taken = match row {
            Ok(row) if row.get("span_id").is_some() => {
                self.loose.push(row);
                Ok(())
            }
            Ok(row) => self.session(row),
            Err(rule) => Err(rule),
        };
        match taken {
            Ok(()) => Ok(self.read.sessions.len() < self.most),
            Err(rule) if self.options.skip_invalid => {
                self.read.left_out.push(format!("{}: {rule}", name()));
                Ok(true)
            }
            Err(rule) => Err(format!("{}: {rule}", name())),
        }
    }

    /// Takes a row that is the whole file.
    fn whole(&mut self, row: Value) -> Result<(), String> {
        if row.get("span_id").is_some() {
            self.loose.push(row);
            return Ok(());
        }
        self.session(row)
    }

    /// Takes the session of a row.
    fn session(&mut self, mut row: Value) -> Result<(), String> {
        let spans = match row.get_mut("spans").map(Value::take) {
            Some(Value::String(text)) => serde_json::from_str(&text).unwrap_or(Value::Null),
            other => other.unwrap_or(Value::Null),
        };
        let Value::Array(spans) = spans else { return Err("it has no list of 'spans'".to_owned()) };
        self.add(&spans)
    }

    fn add(&mut self, spans: &[Value]) -> Result<(), String> {
        let mut unsent = UnsentParts::new();
        let calls = call::of_spans(spans, self.options.errors, &mut unsent)?;
        let Some(longest) = calls.iter().map(|call| call.all_tokens).max() else { return Ok(()) };
        self.has_calls = true;
        if self.options.below_tokens.is_none_or(|bound| longest < bound) && self.read.sessions.len() < self.most {
            self.read.sessions.push(Recorded::Calls(calls));
            self.read.add_unsent(unsent);
        }
        Ok(())
    }

    fn done(mut self) -> Result<Read, String> {
        let loose = std::mem::take(&mut self.loose);
        self.add(&loose)?;
        let rule =
            "none of its spans is a call of a language model (gen_ai.operation.name chat, gen_ai.input.messages)";
        match self.has_calls || !self.read.left_out.is_empty() {
            true => Ok(self.read),
            false => Err(rule.to_owned()),
        }
    }
}

/// The lines of a text and their numbers, if each of them is a value; nothing if the text is one, which may have many lines.
fn lines(text: &str) -> Option<impl Iterator<Item = (usize, &str)>> {
    let filled = || (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let is_whole = |text: &str| serde_json::from_str::<IgnoredAny>(text).is_ok();
    // The first line may be one that cannot be used.
    let is_row = |line: &str| line.trim_start().starts_with('{') && is_whole(line);
    let has_rows = || !is_whole(text) && filled().any(|(_, line)| is_row(line));
    let first = filled().next();
    let is_list = text.trim_start().starts_with('[');
    (!is_list && (first.is_some_and(|(_, line)| is_whole(line)) || has_rows())).then(filled)
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
    match lines(text) {
        None if text.trim_start().starts_with('[') => {
            for trace in serde_json::from_str::<Vec<Trace>>(text).map_err(unusable)? {
                keep(trace)?;
            }
        }
        None => {
            keep(serde_json::from_str(text).map_err(unusable)?)?;
        }
        Some(lines) => {
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
    }
    Ok(Read { sessions, left_out, ..Read::default() })
}

fn unusable(rule: impl Display) -> String {
    format!("it is no trace with an id and requests, each with type, t, in, out and hash_ids: {rule}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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

    fn span(question: &str) -> Value {
        let messages = json!([{ "role": "user", "content": question }]).to_string();
        json!({ "span_id": "s", "name": "chat m", "start_time": 0, "attributes": { "gen_ai.input.messages": messages } })
    }

    /// What the first call of each session asks.
    fn questions(read: &Read) -> Vec<&str> {
        fn question(recorded: &Recorded) -> &str {
            match recorded {
                Recorded::Blocks(_) => "blocks",
                Recorded::Calls(calls) => &calls[0].messages[0].text,
            }
        }
        read.sessions.iter().map(question).collect()
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
    fn rows_of_spans_are_judged_one_by_one() {
        let lenient = TraceOptions { skip_invalid: true, ..TraceOptions::default() };
        let strict = TraceOptions::default();
        let otel = |text: &str, options, most| read(text, TraceFormat::OpenTelemetry, options, most);
        let row = |question: &str| json!({ "spans": [span(question)] });
        let no_time = json!({ "spans": [{ "span_id": "t", "name": "chat m", "attributes": span("x")["attributes"] }] });
        let lines = format!("{}\n{{\"spans\": 1}}\n\n{{\n{no_time}\n{}\n", row("a"), row("b"));
        let found = otel(&lines, &lenient, 9).unwrap();
        assert_eq!(questions(&found), ["a", "b"]);
        let wanted = [
            "line 2: it has no list of 'spans'",
            "line 4: it is not JSON: ",
            "line 5: the span 't': 'start_time' is no time",
        ];
        assert!(
            found.left_out.iter().zip(wanted).all(|(found, wanted)| found.starts_with(wanted)),
            "{:?}",
            found.left_out
        );
        assert_eq!(found.left_out.len(), wanted.len());
        let message = otel(&lines, &strict, 9).err().unwrap();
        assert!(message.starts_with("line 2: it has no list of 'spans'"), "{message}");
        assert_eq!(questions(&otel(&lines, &strict, 1).unwrap()), ["a"], "no more is read");
        let list = serde_json::to_string_pretty(&[row("a"), no_time, row("b")]).unwrap();
        let found = otel(&list, &lenient, 9).unwrap();
        assert_eq!((questions(&found), &found.left_out[0][..7]), (vec!["a", "b"], "row 2: "));
        assert!(otel(&list, &strict, 9).err().unwrap().starts_with("row 2: the span 't'"));
        let begun_badly = format!("{{\n{}", row("a"));
        assert_eq!(questions(&otel(&begun_badly, &lenient, 9).unwrap()), ["a"]);
        assert!(otel(&begun_badly, &strict, 9).err().unwrap().starts_with("line 1: it is not JSON"));
        assert!(otel("{\"spans\": [", &lenient, 9).err().unwrap().starts_with("it is not JSON: EOF"));
    }

    #[test]
    fn lines_that_are_spans_are_one_session() {
        let lenient = TraceOptions { skip_invalid: true, ..TraceOptions::default() };
        let mut later = span("b");
        later["start_time"] = json!(5_000_000);
        let text = format!("{}\nnothing\n{later}\n", span("a"));
        let found = read(&text, TraceFormat::OpenTelemetry, &lenient, 9).unwrap();
        let Recorded::Calls(calls) = &found.sessions[0] else { panic!("blocks") };
        assert_eq!((calls.len(), found.sessions.len(), found.left_out.len()), (2, 1, 1));
    }

    #[test]
    fn formats_are_told_by_what_a_file_holds() {
        let span = span("q");
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
