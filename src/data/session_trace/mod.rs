//! Recorded sessions of language models (OpenTelemetry spans): every span of a call becomes a turn, which follows the calls that
//! it needed then, and waits as long as it waited then.

mod call;
mod graph;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::documents::{Documents, TurnOf};
use crate::error::{Error, Result};
use crate::replay::{SessionTrace, TraceOptions};
use crate::session_trace::call::Call;
use crate::session_trace::graph::{Link, links};
use crate::steps::{Loaded, Target};

/// Limit on the bytes of a file: it is read at once.
const MAX_BYTES: u64 = 4 << 30;
/// Fewest output tokens where a call is to end in calls of tools, which a cut answer cannot hold.
const TOOL_TOKENS: u64 = 4096;

/// Reads the sessions as payloads.
///
/// # Errors
/// If a file cannot be read, or holds no session; if memory is lacking.
pub(crate) fn load(target: &Target<'_>, trace: &SessionTrace) -> Result<Loaded> {
    let (mut sessions, mut left_out) = (Vec::new(), Vec::new());
    for path in trace.paths.iter().map(|path| files(path)).collect::<Result<Vec<_>>>()?.concat() {
        match read(&path, trace.options) {
            Ok(read) => sessions.extend(read),
            Err(rule) if trace.options.skip_invalid => left_out.push(format!("{} ({rule})", path.display())),
            Err(rule) => return Err(Error::input(format!("--session-trace '{}': {rule}", path.display()))),
        }
    }
    if sessions.is_empty() {
        let skipped = if left_out.is_empty() { String::new() } else { format!(": {}", left_out.join(", ")) };
        return Err(Error::input(format!("--session-trace: there is no session in its files{skipped}")));
    }
    let mut out = Documents::new(target)?;
    let count = trace.options.sessions.map_or(sessions.len(), |count| sessions.len().max(count as usize));
    for number in 0..count {
        write(&mut out, number, &sessions[number % sessions.len()], trace.options, &target.model.id.name)?;
    }
    let warning = |files: Vec<String>| format!("--session-trace: left out {}", files.join(", "));
    Ok(out.loaded((!left_out.is_empty()).then(|| warning(left_out)).into_iter().collect()))
}

/// The files of a path, in the order of their names.
fn files(path: &Path) -> Result<Vec<PathBuf>> {
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

/// The sessions of a file: it is one, or has one in each line.
fn read(path: &Path, options: TraceOptions) -> Result<Vec<Vec<Call>>, String> {
    let size = fs::metadata(path).map_err(|error| format!("cannot be read: {error}"))?.len();
    if size > MAX_BYTES {
        return Err(format!("it has {size} bytes, and at most {MAX_BYTES} are read: split it"));
    }
    let text = fs::read_to_string(path).map_err(|error| format!("cannot be read: {error}"))?;
    let rows: Vec<Value> = match serde_json::from_str(&text) {
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
    Ok(sessions.into_iter().filter(is_short).collect())
}

/// Writes the turns of a session.
fn write(out: &mut Documents<'_, '_>, number: usize, calls: &[Call], options: TraceOptions, model: &str) -> Result<()> {
    for (call, Link { after, wait_ms, answers }) in calls.iter().zip(links(calls)) {
        let mut messages: Vec<Value> = call.messages.iter().map(|message| message.wire.clone()).collect();
        for (at, turn) in answers.iter().filter(|_| options.live_answers) {
            messages[*at]["answer_of"] = json!(turn);
        }
        let tokens = if call.tokens == 0 { options.default_tokens } else { call.tokens };
        let mut document = json!({ "model": model, "messages": messages, "max_tokens": tokens });
        if let Some(tools) = &call.tools {
            document["tools"] = tools.clone();
            if let Some(choice) = call.tool_choice() {
                document["tool_choice"] = choice;
                document["max_tokens"] = json!(TOOL_TOKENS.max(tokens.saturating_mul(4)));
                document["ignore_eos"] = json!(false);
            }
        }
        let after = Some((after.as_slice(), wait_ms.min(options.max_wait_ms)));
        let turn = TurnOf { session: &number.to_string(), delay_ms: 0, after };
        out.add_document(document.to_string().as_bytes(), Some(&turn))?;
    }
    Ok(())
}
