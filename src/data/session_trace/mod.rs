//! Recorded sessions of language models (OpenTelemetry spans, Weka's traces): every call becomes a turn, which follows the calls
//! that it needed then, and waits as long as it waited then.

mod call;
mod graph;
mod read;
mod rebuild;
mod weka;

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::{Value, json};

use crate::documents::{Documents, TurnOf};
use crate::error::{Error, Result};
use crate::replay::{SessionTrace, TraceOptions, TraceSource};
use crate::session_trace::call::Call;
use crate::session_trace::graph::{Link, links};
use crate::session_trace::read::{files, sessions};
use crate::session_trace::rebuild::{Session, Texts};
use crate::session_trace::weka::Trace;
use crate::steps::{Loaded, Target};
use crate::tokenizer::Tokenizer;

/// Fewest output tokens where a call is to end in calls of tools, which a cut answer cannot hold.
const TOOL_TOKENS: u64 = 4096;

/// A session as it was recorded.
enum Recorded {
    /// With what was said.
    Calls(Vec<Call>),
    /// Without.
    Blocks(Trace),
}

/// Reads the sessions as payloads.
///
/// # Errors
/// If a file cannot be read, or holds no session; if memory is lacking.
pub(crate) fn load(target: &Target<'_>, trace: &SessionTrace) -> Result<Loaded> {
    let options = &trace.options;
    let mut warnings = Vec::new();
    let sessions = all(&trace.sources, options, &mut warnings)?;
    let tokenizer = trace.tokenizer.as_deref().map(Tokenizer::read).transpose()?;
    let mut out = Documents::new(target)?;
    let count = options.sessions.map_or(sessions.len(), |count| sessions.len().max(count as usize));
    let mut inexact = 0;
    for number in 0..count {
        let recorded = &sessions[number % sessions.len()];
        let repetition = (number / sessions.len()) as u64;
        let (calls, is_live) = match recorded {
            Recorded::Calls(calls) => (Cow::Borrowed(calls.as_slice()), true),
            Recorded::Blocks(trace) => {
                let (name, shares_blocks) = (trace.id.as_str(), trace.shares_blocks());
                let session = Session { seed: target.spec.seed, name, shares_blocks, repetition };
                let mut texts = Texts::new(session, trace.block_tokens(options.block_tokens), tokenizer.as_ref());
                let calls = trace.calls(&mut texts, options)?;
                inexact += texts.inexact;
                (Cow::Owned(calls), false)
            }
        };
        let session =
            Turns { name: number.to_string(), calls: &calls, is_live: options.live_answers.unwrap_or(is_live) };
        session.write(&mut out, options, &target.model.id.name)?;
    }
    let is_rebuilt = sessions.iter().any(|session| matches!(session, Recorded::Blocks(_)));
    if is_rebuilt && tokenizer.is_none() {
        warnings.push(
            "--session-trace: rebuilt prompts have a word for each recorded token; how many tokens that is depends on the \
             server's tokenizer (--tokenizer)"
                .to_owned(),
        );
    }
    if inexact > 0 {
        warnings.push(format!("--tokenizer: {inexact} rebuilt texts have slightly more or fewer tokens than recorded"));
    }
    Ok(out.loaded(warnings))
}

/// The sessions of all files; what was left out is said in `warnings`.
fn all(sources: &[TraceSource], options: &TraceOptions, warnings: &mut Vec<String>) -> Result<Vec<Recorded>> {
    let (mut found, mut left_out, mut names) = (Vec::new(), Vec::new(), HashSet::new());
    let most = options.first.map_or(usize::MAX, |first| first as usize);
    for source in sources {
        for path in files(&source.path)? {
            if found.len() >= most {
                break;
            }
            match sessions(&path, source.format, options, most - found.len()) {
                Ok(read) => {
                    left_out.extend(read.left_out.iter().map(|rule| format!("{} ({rule})", path.display())));
                    found.extend(read.sessions);
                }
                Err(rule) if options.skip_invalid => left_out.push(format!("{} ({rule})", path.display())),
                Err(rule) => return Err(Error::input(format!("--session-trace '{}': {rule}", path.display()))),
            }
        }
    }
    let left_out = left_out.join(", ");
    if found.is_empty() {
        let skipped = if left_out.is_empty() { String::new() } else { format!(": {left_out}") };
        return Err(Error::input(format!("--session-trace: there is no session in its files{skipped}")));
    }
    for recorded in &found {
        if let Recorded::Blocks(trace) = recorded
            && !names.insert(&trace.id)
        {
            let rule = "is there twice, and equal names mean equal prompts: leave one out, or repeat all by sessions=N \
                (--session-trace-options)";
            return Err(Error::input(format!("--session-trace: the trace '{}' {rule}", trace.id)));
        }
    }
    if !left_out.is_empty() {
        warnings.push(format!("--session-trace: left out {left_out}"));
    }
    Ok(found)
}

/// The turns of a session.
struct Turns<'a> {
    name: String,
    calls: &'a [Call],
    /// Whether they send what the server has answered.
    is_live: bool,
}

impl Turns<'_> {
    fn write(&self, out: &mut Documents<'_, '_>, options: &TraceOptions, model: &str) -> Result<()> {
        for (call, Link { after, wait_ms, answers }) in self.calls.iter().zip(links(self.calls, self.is_live)) {
            let mut messages: Vec<Value> = call.messages.iter().map(|message| message.wire.clone()).collect();
            for (at, turn) in answers {
                messages[at]["answer_of"] = json!(turn);
            }
            let asked = options.models.iter().find(|model| model.recorded == call.model);
            let model = asked.map_or(model, |model| &model.name);
            let tokens = if call.tokens == 0 { options.default_tokens } else { call.tokens };
            let mut document = json!({ "model": model, "messages": messages, "max_tokens": tokens });
            if let Some(tools) = &call.tools {
                document["tools"] = tools.clone();
                // A model that ignores the end of its answer writes on after a call of a tool, into the call's arguments.
                document["ignore_eos"] = json!(false);
                if options.forces_tools {
                    document["tool_choice"] = call.tool_choice();
                }
                if options.room_for_tools && !call.called.is_empty() {
                    document["max_tokens"] = json!(TOOL_TOKENS.max(tokens.saturating_mul(4)));
                }
            }
            let after = Some((after.as_slice(), wait_ms.min(options.max_wait_ms)));
            out.add_document(
                document.to_string().as_bytes(),
                Some(&TurnOf { session: &self.name, delay_ms: 0, after }),
            )?;
        }
        Ok(())
    }
}
