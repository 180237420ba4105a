//! Sessions of language models, recorded (OpenTelemetry spans, Weka's traces) or generated: every call becomes a turn, which
//! follows the calls that it needed, and waits as long as it waited.

mod agents;
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
use crate::replay::{SessionTrace, TraceFormat, TraceOptions, TraceSource};
use crate::seed::{self, Purpose};
use crate::session_trace::agents::AgentWords;
use crate::session_trace::call::Call;
use crate::session_trace::graph::{Link, links};
use crate::session_trace::read::{Read, files, sessions};
use crate::session_trace::rebuild::{Session, Texts};
use crate::session_trace::weka::Trace;
use crate::steps::{Loaded, Target};
use crate::tokenizer::Tokenizer;

/// Fewest output tokens where a call is to end in calls of tools, which a cut answer cannot hold.
const TOOL_TOKENS: u64 = 4096;
/// How many of the rows and files that are left out are named.
const MOST_NAMED: usize = 5;

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
    let mut warnings: Vec<String> = idle_options(trace).into_iter().collect();
    let tokenizer = trace.tokenizer.as_deref().map(Tokenizer::read).transpose()?;
    let mut out = Documents::new(target)?;
    warnings.extend(generate(&mut out, trace, tokenizer.as_ref())?);
    if trace.sources.is_empty() {
        return Ok(out.loaded(warnings));
    }
    let sessions = all(&trace.sources, options, &mut warnings)?;
    let count = options.sessions.map_or(sessions.len(), |count| sessions.len().max(count as usize));
    let mut inexact = 0;
    for number in 0..count {
        let recorded = &sessions[number % sessions.len()];
        let repetition = (number / sessions.len()) as u64;
        let mut tag = None;
        let (calls, is_live) = match recorded {
            Recorded::Calls(calls) => {
                tag = (repetition > 0 || options.tags_all).then(|| self::tag(target.spec.seed, number as u64));
                (Cow::Borrowed(calls.as_slice()), true)
            }
            Recorded::Blocks(trace) => {
                let (name, shares_blocks) = (trace.id.as_str(), trace.shares_blocks());
                let session = Session { seed: target.spec.seed, name, shares_blocks, repetition };
                let mut texts = Texts::new(session, trace.block_tokens(options.block_tokens), tokenizer.as_ref());
                let calls = trace.calls(&mut texts, options)?;
                inexact += texts.inexact;
                (Cow::Owned(calls), false)
            }
        };
        let is_live = options.live_answers.unwrap_or(is_live);
        let links = links(&calls, is_live);
        let session = Turns { name: number.to_string(), calls: calls.iter().zip(links), tag };
        session.write(&mut out, options)?;
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

/// What is to be said of options that change nothing, because there are no sessions of the kind that they are about.
fn idle_options(SessionTrace { sources, options, .. }: &SessionTrace) -> Option<String> {
    let usual = TraceOptions::default();
    let has = |format| sources.iter().any(|source| source.format == format);
    let (spans, blocks) = (has(TraceFormat::OpenTelemetry), has(TraceFormat::Weka));
    let changed = [
        ("errors", options.errors != usual.errors, spans),
        ("tags", options.tags_all, spans),
        ("skip-invalid", options.skip_invalid, spans || blocks),
        ("below-tokens", options.below_tokens.is_some(), spans || blocks),
        ("first", options.first.is_some(), spans || blocks),
        ("sessions", options.sessions.is_some(), spans || blocks),
        ("model.RECORDED", !options.models.is_empty(), spans || blocks),
        ("idle-gap", options.idle_gap_ms != usual.idle_gap_ms, blocks),
        ("think-time", options.think_time, blocks),
        ("block-tokens", options.block_tokens != usual.block_tokens, blocks),
    ];
    let idle: Vec<&str> =
        changed.iter().filter(|(_, is_given, has_effect)| *is_given && !has_effect).map(|(name, ..)| *name).collect();
    let kinds = match (spans, blocks) {
        (true, _) => "OpenTelemetry's sessions",
        (false, true) => "Weka's sessions",
        (false, false) => "generated sessions, whose number and sizes --session-trace tells",
    };
    (!idle.is_empty()).then(|| format!("--session-trace-options: no effect on {kinds}: {}", idle.join(", ")))
}

/// The sessions of all files; what was left out is said in `warnings`.
fn all(sources: &[TraceSource], options: &TraceOptions, warnings: &mut Vec<String>) -> Result<Vec<Recorded>> {
    let mut found = Read::default();
    let most = options.first.map_or(usize::MAX, |first| first as usize);
    for source in sources {
        for path in files(&source.path)? {
            if found.sessions.len() >= most {
                break;
            }
            match sessions(&path, source.format, options, most - found.sessions.len()) {
                Ok(read) => {
                    found.left_out.extend(read.left_out.iter().map(|rule| format!("{} ({rule})", path.display())));
                    found.sessions.extend(read.sessions);
                    found.add_unsent(read.unsent);
                }
                Err(rule) if options.skip_invalid => found.left_out.push(format!("{} ({rule})", path.display())),
                Err(rule) => return Err(Error::input(format!("--session-trace '{}': {rule}", path.display()))),
            }
        }
    }
    let left_out = named(&found.left_out);
    if found.sessions.is_empty() {
        let skipped = if left_out.is_empty() { String::new() } else { format!(": {left_out}") };
        return Err(Error::input(format!("--session-trace: there is no session in its files{skipped}")));
    }
    check_names(&found.sessions)?;
    if !left_out.is_empty() {
        warnings.push(format!("--session-trace: left out {left_out}"));
    }
    if !found.unsent.is_empty() {
        let kinds: Vec<String> = found.unsent.iter().map(|(kind, count)| format!("{count} of {kind}")).collect();
        let rule = "only texts and calls of tools are sent, so prompts are shorter than recorded";
        warnings.push(format!("--session-trace: left out parts of messages: {}; {rule}", kinds.join(", ")));
    }
    Ok(found.sessions)
}

/// What is said of things of which there may be many: the first, and how many more there are.
fn named(all: &[String]) -> String {
    let first = all.iter().take(MOST_NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match all.len().saturating_sub(MOST_NAMED) {
        0 => first,
        more => format!("{}: {first}, and {more} more", all.len()),
    }
}

/// Refuses a trace that is there twice.
fn check_names(sessions: &[Recorded]) -> Result<()> {
    let mut names = HashSet::new();
    for recorded in sessions {
        if let Recorded::Blocks(trace) = recorded
            && !names.insert(&trace.id)
        {
            let rule = "is there twice, and equal names mean equal prompts: leave one out, or repeat all by sessions=N \
                (--session-trace-options)";
            return Err(Error::input(format!("--session-trace: the trace '{}' {rule}", trace.id)));
        }
    }
    Ok(())
}

/// A text that no other session has, in the form of inference-perf's (`replay_graph_session_datagen.py`).
fn tag(seed: u64, session: u64) -> String {
    format!("[SESS:{:016x}]", seed::hash(seed::derive(seed, Purpose::Conversations), session))
}

/// Lets messages begin with a tag, so that a server has none of them in its cache from another session. It stands in the
/// first that is sent as it is recorded.
fn put_before(tag: &str, messages: &mut [Value]) {
    let Some(message) = messages.iter_mut().find(|message| message.get("answer_of").is_none()) else { return };
    match &mut message["content"] {
        Value::String(text) => *text = format!("{tag} {text}"),
        Value::Array(parts) => parts.insert(0, json!({ "type": "text", "text": tag })),
        nothing => *nothing = json!(tag),
    }
}

/// The turns of a session.
struct Turns<C> {
    name: String,
    /// Its calls, and what each follows.
    calls: C,
    /// What its prompts begin with, if they are not sent as they were recorded.
    tag: Option<String>,
}

impl<'a, C: Iterator<Item = (&'a Call, Link)>> Turns<C> {
    fn write(self, out: &mut Documents<'_, '_>, options: &TraceOptions) -> Result<()> {
        for (call, Link { after, wait_ms, answers }) in self.calls {
            let mut messages: Vec<Value> = call.messages.iter().map(|message| message.wire.clone()).collect();
            for (at, turn) in answers {
                messages[at]["answer_of"] = json!(turn);
            }
            if let Some(tag) = &self.tag {
                put_before(tag, &mut messages);
            }
            let asked = options.models.iter().find(|model| model.recorded == call.model);
            let model = asked.map_or(out.model(), |model| &model.name);
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

/// Adds generated sessions. Returns what is to be said of them.
fn generate(
    out: &mut Documents<'_, '_>,
    SessionTrace { agents, options, .. }: &SessionTrace,
    tokenizer: Option<&Tokenizer>,
) -> Result<Option<String>> {
    let seed = out.seed();
    let mut words = AgentWords::new(seed, tokenizer);
    let sessions = agents.iter().flat_map(|spec| (0..spec.sessions).map(move |_| spec));
    for (number, spec) in (0..).zip(sessions) {
        let session_seed = seed::hash(seed::derive(seed, Purpose::Conversations), number);
        let mut calls = agents::calls(spec, session_seed, &mut words)?;
        if options.live_answers == Some(false) {
            calls.iter_mut().for_each(|(_, link)| link.answers.clear());
        }
        let calls = calls.iter().map(|(call, link)| (call, link.clone()));
        Turns { name: format!("agents-{number}"), calls, tag: None }.write(out, options)?;
    }
    Ok((words.inexact > 0).then(|| {
        format!("--tokenizer: {} generated texts have slightly more or fewer tokens than asked for", words.inexact)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_stands_before_the_first_message_that_is_not_answered_live() {
        let tagged = |mut messages: Value| {
            put_before("[T]", messages.as_array_mut().unwrap());
            messages
        };
        for (content, wanted) in [
            (json!("hi"), json!("[T] hi")),
            (
                json!([{ "type": "text", "text": "hi" }]),
                json!([{ "type": "text", "text": "[T]" }, { "type": "text", "text": "hi" }]),
            ),
            (Value::Null, json!("[T]")),
        ] {
            let answer = json!({ "role": "assistant", "content": "yes", "answer_of": 0 });
            let found =
                tagged(json!([answer, { "role": "user", "content": content }, { "role": "user", "content": "x" }]));
            assert_eq!((&found[0], &found[1]["content"], &found[2]["content"]), (&answer, &wanted, &json!("x")));
        }
        assert_eq!(tagged(json!([])), json!([]));
    }

    #[test]
    fn tags_are_those_of_a_session_and_a_seed() {
        assert_eq!(tag(1, 2), tag(1, 2));
        assert!(tag(1, 2) != tag(1, 3) && tag(1, 2) != tag(2, 2));
        assert_eq!(tag(1, 2).len(), "[SESS:]".len() + 16);
    }

    #[test]
    fn options_without_effect_are_named() {
        let source = |format| TraceSource { format, path: "t".into() };
        let said = |formats: &[TraceFormat], options: &TraceOptions| {
            let sources = formats.iter().map(|format| source(*format)).collect();
            idle_options(&SessionTrace { sources, agents: Vec::new(), options: options.clone(), tokenizer: None })
        };
        let all = TraceOptions {
            sessions: Some(9),
            tags_all: true,
            think_time: true,
            max_wait_ms: 5,
            default_tokens: 30,
            live_answers: Some(false),
            ..TraceOptions::default()
        };
        let generated = said(&[], &all).unwrap();
        assert!(generated.ends_with("no effect on generated sessions, whose number and sizes --session-trace tells: tags, sessions, think-time"), "{generated}");
        let spans = said(&[TraceFormat::OpenTelemetry], &all).unwrap();
        assert!(spans.ends_with("no effect on OpenTelemetry's sessions: think-time"), "{spans}");
        assert!(said(&[TraceFormat::Weka], &all).unwrap().ends_with("no effect on Weka's sessions: tags"));
        assert_eq!((said(&TraceFormat::ALL, &all), said(&[], &TraceOptions::default())), (None, None));
    }

    #[test]
    fn many_things_are_named_by_the_first() {
        let all: Vec<String> = (0..7).map(|number| number.to_string()).collect();
        assert_eq!(named(&all), "7: 0, 1, 2, 3, 4, and 2 more");
        assert_eq!(named(&all[..2]), "0, 1");
    }
}
