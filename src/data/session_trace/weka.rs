//! Traces of agents in Weka's format: how long each call was, when it came, and the numbers of its prompt's blocks. What was
//! said is not recorded; `rebuild` makes prompts that have the same blocks in common.
//!
//! The format is that of kv-cache-tester (`docs/trace_replay_tester.md`) and of the data sets `cc-traces-weka-…`, read as
//! inference-perf 0.7 reads it (`datagen/replay/weka_trace_replay_datagen.py`).

use serde::Deserialize;

use crate::error::Result;
use crate::lengths::MAX_TOKENS;
use crate::replay::TraceOptions;
use crate::session_trace::call::{Call, Sends};
use crate::session_trace::rebuild::{Conversation, Texts, Turn};

/// Largest time of a trace, in seconds: about three years.
const MAX_SECONDS: f64 = 1e8;
/// How much earlier than the entry of its subagent a call may seem by rounding, in seconds.
const ROUNDING: f64 = 1e-6;

/// A session.
#[derive(Debug, Deserialize)]
pub(super) struct Trace {
    /// Its name.
    pub(super) id: String,
    /// Tokens of a block.
    block_size: Option<u32>,
    /// Whether the numbers of blocks are its own (`local`), or those of all traces (`global`).
    hash_id_scope: Option<String>,
    /// Tokens of the tools that its calls begin with.
    #[serde(default)]
    tool_tokens: u64,
    /// Tokens of the system prompt after them.
    #[serde(default)]
    system_tokens: u64,
    /// Its calls, and its subagents.
    requests: Vec<Entry>,
}

/// A call, or a subagent with calls of its own.
#[derive(Debug, Deserialize)]
struct Entry {
    #[serde(rename = "type")]
    kind: Kind,
    /// Seconds since the trace began, or since the entry of the subagent.
    t: f64,
    #[serde(default)]
    model: String,
    /// Tokens of the prompt.
    #[serde(rename = "in")]
    input: Option<u64>,
    /// Tokens of the answer.
    #[serde(rename = "out")]
    output: Option<u64>,
    /// The numbers of the prompt's whole blocks.
    #[serde(default)]
    hash_ids: Vec<u64>,
    /// Seconds that the answer took.
    api_time: Option<f64>,
    /// Seconds that the client took before it called.
    think_time: Option<f64>,
    #[serde(default)]
    tool_tokens: u64,
    #[serde(default)]
    system_tokens: u64,
    #[serde(default)]
    requests: Vec<Entry>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
enum Kind {
    #[serde(rename = "n")]
    Normal,
    #[serde(rename = "s")]
    Streaming,
    #[serde(rename = "subagent")]
    Subagent,
}

/// A call, when it began, and the agent that made it.
#[derive(Clone, Copy)]
struct Planned<'a> {
    entry: &'a Entry,
    start_s: f64,
    agent: usize,
}

/// The calls of all agents, and the tokens of each agent's tools and system prompt.
#[derive(Default)]
struct Plan<'a> {
    calls: Vec<Planned<'a>>,
    prefix_tokens: Vec<u64>,
}

impl Trace {
    /// Finds out whether it can be replayed.
    ///
    /// # Errors
    /// The broken rule.
    pub(super) fn check(&self) -> Result<(), String> {
        let named = |rule: String| format!("the trace '{}': {rule}", self.id);
        if self.block_size.is_some_and(|tokens| tokens > MAX_TOKENS) {
            return Err(named(format!("a block_size is at most {MAX_TOKENS} tokens")));
        }
        let plan = self.plan();
        if plan.calls.is_empty() {
            return Err(named("it has no call: 'requests' holds none of the types n and s".to_owned()));
        }
        plan.calls.iter().try_for_each(|call| call.entry.check()).map_err(named)
    }

    /// Tokens of its longest call, with its answer.
    pub(super) fn longest(&self) -> u64 {
        let tokens = |call: &Planned<'_>| call.entry.input.unwrap_or(0).saturating_add(call.entry.output.unwrap_or(0));
        self.plan().calls.iter().map(tokens).max().unwrap_or(0)
    }

    /// Whether equal numbers mean equal blocks in other traces, too.
    pub(super) fn shares_blocks(&self) -> bool {
        self.hash_id_scope.as_deref() == Some("global")
    }

    /// Tokens of a block; `usual` where it does not say.
    pub(super) fn block_tokens(&self, usual: u32) -> u32 {
        self.block_size.filter(|tokens| *tokens > 0).unwrap_or(usual)
    }

    /// Its calls in the order in which they began, with prompts of `texts`.
    ///
    /// # Errors
    /// If the tokenizer cannot count these.
    pub(super) fn calls(&self, texts: &mut Texts<'_>, options: &TraceOptions) -> Result<Vec<Call>> {
        let plan = self.plan();
        let mut agents: Vec<Conversation<'_>> =
            plan.prefix_tokens.iter().map(|tokens| Conversation::new(*tokens)).collect();
        let starts = shortened(&plan.calls, options.idle_gap_ms);
        let mut calls = Vec::<Call>::with_capacity(plan.calls.len());
        for (planned, start_s) in plan.calls.iter().zip(starts) {
            let Planned { entry, agent, .. } = *planned;
            let (input, output) = (entry.input.unwrap_or(0), entry.output.unwrap_or(0));
            let took_s = entry.api_time.unwrap_or(0.0);
            let turn =
                Turn { call: calls.len(), start_s: planned.start_s, took_s, blocks: &entry.hash_ids, input, output };
            let prompt = agents[agent].add(&turn, texts)?;
            let sends = Sends::GoesOnFrom(prompt.answer.as_ref().map(|answer| answer.call));
            if let Some(answer) = prompt.answer {
                calls[answer.call].answer.get_or_insert(answer.message);
            }
            calls.push(Call {
                start_ms: ms(start_s),
                end_ms: ms(start_s) + ms(took_s),
                wait_ms: entry.think_time.filter(|_| options.think_time).map(|thought_s| ms(thought_s).max(0) as u64),
                model: entry.model.clone(),
                messages: prompt.messages,
                sends,
                answer: None,
                tokens: output,
                all_tokens: input.saturating_add(output),
                tools: None,
                called: Vec::new(),
            });
        }
        Ok(calls)
    }

    fn plan(&self) -> Plan<'_> {
        let mut plan =
            Plan { prefix_tokens: vec![self.tool_tokens.saturating_add(self.system_tokens)], ..Plan::default() };
        plan.gather(&self.requests, 0, Times { begin_s: 0.0, are_relative: has_relative_times(&self.requests) });
        plan.calls.sort_by(|left, right| left.start_s.total_cmp(&right.start_s));
        plan
    }
}

/// What the times of entries count from.
#[derive(Clone, Copy)]
struct Times {
    begin_s: f64,
    /// Whether those of a subagent's calls count from its entry.
    are_relative: bool,
}

impl<'a> Plan<'a> {
    fn gather(&mut self, entries: &'a [Entry], agent: usize, times: Times) {
        for entry in entries {
            let start_s = times.begin_s + entry.t;
            if entry.kind != Kind::Subagent {
                self.calls.push(Planned { entry, start_s, agent });
                continue;
            }
            self.prefix_tokens.push(entry.tool_tokens.saturating_add(entry.system_tokens));
            let begin_s = if times.are_relative { start_s } else { 0.0 };
            self.gather(&entry.requests, self.prefix_tokens.len() - 1, Times { begin_s, ..times });
        }
    }
}

impl Entry {
    fn check(&self) -> Result<(), String> {
        let at = || format!("the request at t {}", self.t);
        for (name, tokens) in [("in", self.input), ("out", self.output)] {
            match tokens {
                None => return Err(format!("{} has no '{name}'", at())),
                Some(tokens) if tokens > u64::from(MAX_TOKENS) => {
                    return Err(format!("{}: '{name}' is at most {MAX_TOKENS} tokens, not {tokens}", at()));
                }
                Some(_) => {}
            }
        }
        let times =
            [("t", self.t), ("api_time", self.api_time.unwrap_or(0.0)), ("think_time", self.think_time.unwrap_or(0.0))];
        match times.iter().find(|(_, seconds)| seconds.abs() > MAX_SECONDS) {
            Some((name, _)) => Err(format!("{}: '{name}' is no number of seconds up to {MAX_SECONDS}", at())),
            None => Ok(()),
        }
    }
}

/// Whether the times of subagents' calls count from the subagents' entries: kv-cache-tester's do, those of the data sets do not.
/// A call that seems to come before its subagent tells.
fn has_relative_times(entries: &[Entry]) -> bool {
    entries.iter().any(|entry| {
        entry.requests.iter().any(|call| call.t + ROUNDING < entry.t) || has_relative_times(&entry.requests)
    })
}

/// When calls begin if none begins more than that after the one before it.
fn shortened(calls: &[Planned<'_>], most_ms: Option<u64>) -> Vec<f64> {
    let most_s = most_ms.map_or(f64::MAX, |most| most as f64 / 1000.0);
    let mut saved_s = 0.0;
    let mut before_s = calls.first().map_or(0.0, |call| call.start_s);
    let mut start = |call: &Planned<'_>| {
        saved_s += (call.start_s - before_s - most_s).max(0.0);
        before_s = call.start_s;
        call.start_s - saved_s
    };
    calls.iter().map(&mut start).collect()
}

fn ms(seconds: f64) -> i64 {
    (seconds * 1000.0).round() as i64
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use serde_json::{Value, json};

    use super::*;
    use crate::session_trace::graph::links;
    use crate::session_trace::rebuild::Session;

    /// Tokens of a block in these tests.
    const BLOCK: u64 = 16;

    /// A call at a second: so many tokens and blocks, and so many tokens of answer.
    fn request(t: f64, input: u64, blocks: Range<u64>, output: u64) -> Value {
        json!({ "t": t, "type": "n", "model": "opus", "in": input, "out": output, "api_time": 1.0,
            "hash_ids": blocks.collect::<Vec<_>>() })
    }

    /// The same with further members.
    fn with(mut request: Value, members: &Value) -> Value {
        request.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        request
    }

    fn trace(requests: &[Value]) -> Trace {
        let whole = json!({ "id": "a", "models": ["opus"], "block_size": BLOCK, "tool_tokens": 20, "system_tokens": 12,
            "requests": requests });
        let trace: Trace = serde_json::from_value(whole).unwrap();
        trace.check().unwrap();
        trace
    }

    fn calls_with(trace: &Trace, options: &TraceOptions) -> Vec<Call> {
        calls_of(
            trace,
            Session { seed: 5, name: &trace.id, shares_blocks: trace.shares_blocks(), repetition: 0 },
            options,
        )
    }

    fn calls_of(trace: &Trace, session: Session<'_>, options: &TraceOptions) -> Vec<Call> {
        trace.calls(&mut Texts::new(session, trace.block_tokens(options.block_tokens), None), options).unwrap()
    }

    fn calls(requests: &[Value]) -> Vec<Call> {
        calls_with(&trace(requests), &TraceOptions::default())
    }

    fn words(text: &str) -> u64 {
        text.split(' ').count() as u64
    }

    /// Roles of a call's messages, and their words.
    fn shape(call: &Call) -> Vec<(&str, u64)> {
        call.messages.iter().map(|message| (message.role.as_str(), words(&message.text))).collect()
    }

    fn whole_text(call: &Call) -> String {
        call.messages.iter().map(|message| message.text.as_str()).collect::<Vec<_>>().join(" ")
    }

    fn after(calls: &[Call]) -> Vec<Vec<u32>> {
        links(calls, false).into_iter().map(|link| link.after).collect()
    }

    /// Two turns, the second with an answer of 20 tokens, which are two blocks.
    fn two_turns() -> [Value; 2] {
        [request(0.0, 90, 0..5, 20), request(4.0, 170, 0..10, 7)]
    }

    #[test]
    fn prompts_have_the_recorded_tokens_and_roles() {
        let calls = calls(&two_turns());
        assert_eq!(shape(&calls[0]), [("system", 32), ("user", 58)]);
        assert_eq!(shape(&calls[1]), [("system", 32), ("user", 48), ("assistant", 32), ("user", 58)]);
        assert_eq!((calls[0].tokens, calls[1].tokens, calls[1].all_tokens), (20, 7, 177));
        assert_eq!(calls[0].answer.as_ref().unwrap().text, calls[1].messages[2].text);
        assert_eq!((calls[0].start_ms, calls[0].end_ms, calls[1].start_ms), (0, 1000, 4000));
        let wire = &calls[1].messages[2].wire;
        assert_eq!(
            (&wire["role"], wire["content"].as_str()),
            (&json!("assistant"), Some(calls[1].messages[2].text.as_str()))
        );
    }

    #[test]
    fn equal_blocks_are_equal_text_and_what_is_in_none_is_not() {
        let calls = calls(&[request(0.0, 90, 0..5, 20), request(4.0, 90, 0..5, 20), request(8.0, 96, 0..6, 1)]);
        let texts: Vec<String> = calls.iter().map(whole_text).collect();
        let until = |text: &str, count: usize| text.split(' ').take(count).collect::<Vec<_>>().join(" ");
        assert_eq!(until(&texts[0], 80), until(&texts[1], 80));
        assert_eq!(until(&texts[0], 80), until(&texts[2], 80));
        assert_ne!(texts[0], texts[1], "ten tokens are of no block");
        assert_eq!(texts.iter().map(|text| words(text)).collect::<Vec<_>>(), [90, 90, 96]);
        let blocks: Vec<String> =
            texts[2].split(' ').collect::<Vec<_>>().chunks(16).map(|block| block.join(" ")).collect();
        assert_eq!(blocks.iter().collect::<std::collections::HashSet<_>>().len(), 6, "other numbers, other texts");
    }

    #[test]
    fn sessions_have_texts_of_their_own_unless_their_numbers_are_global() {
        let options = TraceOptions::default();
        let mut trace = trace(&two_turns());
        let session = Session { seed: 5, name: "a", shares_blocks: false, repetition: 0 };
        let text = |trace: &Trace, session| whole_text(&calls_of(trace, session, &options)[0]);
        let usual = text(&trace, session);
        assert_eq!(usual, text(&trace, session), "the same seed, the same texts");
        for other in
            [Session { seed: 6, ..session }, Session { name: "b", ..session }, Session { repetition: 1, ..session }]
        {
            assert_ne!(
                usual.split(' ').take(16).collect::<Vec<_>>(),
                text(&trace, other).split(' ').take(16).collect::<Vec<_>>()
            );
        }
        trace.hash_id_scope = Some("global".to_owned());
        let session = Session { shares_blocks: trace.shares_blocks(), ..session };
        let pair = [text(&trace, session), text(&trace, Session { name: "b", ..session })];
        let pair = pair.each_ref().map(|text| text.split(' ').collect::<Vec<_>>());
        assert_eq!(pair[0][..80], pair[1][..80]);
        assert_ne!(pair[0][80..], pair[1][80..]);
    }

    #[test]
    fn a_conversation_that_forks_or_starts_again_keeps_its_beginning() {
        let fork = with(request(4.2, 112, 0..5, 3), &json!({ "hash_ids": [0, 1, 2, 3, 4, 20, 21] }));
        let anew = with(request(9.0, 64, 0..2, 3), &json!({ "hash_ids": [0, 1, 30, 31] }));
        let back = request(12.0, 208, 0..13, 3);
        let calls = calls(&[two_turns().as_slice(), &[fork, anew, back]].concat());
        // The fork follows the first turn, for the second was not answered yet.
        assert_eq!(shape(&calls[2]), [("system", 32), ("user", 48), ("assistant", 16), ("user", 16)]);
        assert_eq!(shape(&calls[3]), [("system", 32), ("user", 32)], "only the system prompt is shared");
        assert_eq!(
            shape(&calls[4]),
            [("system", 32), ("user", 48), ("assistant", 32), ("user", 48), ("assistant", 16), ("user", 32)]
        );
        for (number, shared) in [(2, 2), (4, 3)] {
            let same = calls[1].messages.iter().zip(&calls[number].messages);
            assert_eq!(same.take_while(|(left, right)| left == right).count(), shared, "call {number}");
        }
        assert_eq!(after(&calls), [vec![], vec![0], vec![0], vec![2], vec![1, 3]]);
    }

    #[test]
    fn calls_end_with_the_user_and_roles_take_turns() {
        // No room for more than the answer; an answer of nothing; a prompt that ends where an answer did; a cut into it.
        let calls = calls(&[
            request(0.0, 80, 0..5, 64),
            request(2.0, 128, 0..8, 0),
            request(4.0, 160, 0..10, 5),
            request(6.0, 112, 0..7, 5),
            request(8.0, 0, 0..0, 5),
            request(10.0, 16, 0..1, 5),
            with(request(12.0, 128, 0..0, 5), &json!({ "hash_ids": [0, 1, 2, 3, 4, 5, 70, 71] })),
        ]);
        assert_eq!(shape(&calls[1]), [("system", 32), ("user", 48), ("assistant", 32), ("user", 16)]);
        assert_eq!(shape(&calls[2]), [("system", 32), ("user", 48), ("assistant", 32), ("user", 48)]);
        for call in &calls {
            let roles: Vec<&str> = call.messages.iter().map(|message| message.role.as_str()).collect();
            assert_eq!(roles.last(), Some(&"user"));
            assert!(
                roles.windows(2).all(|pair| pair[0] != pair[1])
                    && call.messages.iter().all(|said| !said.text.is_empty())
            );
        }
        let lengths: Vec<u64> = calls.iter().map(|call| words(&whole_text(call))).collect();
        assert_eq!(lengths, [80, 128, 160, 112, 1, 16, 128]);
    }

    #[test]
    fn calls_without_numbers_of_blocks_have_their_tokens() {
        let calls = calls(&[request(0.0, 70, 0..2, 5), request(3.0, 40, 0..0, 5)]);
        assert_eq!(shape(&calls[0]), [("system", 32), ("user", 38)]);
        assert_eq!(shape(&calls[1]), [("user", 40)]);
    }

    fn subagent(t: f64, requests: &[Value]) -> Value {
        json!({ "t": t, "type": "subagent", "agent_id": "x", "subagent_type": "explore", "duration_ms": 900, "tool_tokens": 16,
            "system_tokens": 0, "requests": requests })
    }

    #[test]
    fn subagents_have_conversations_of_their_own_beside_their_parent() {
        let inner = [request(2.0, 64, 50..54, 16), request(2.0, 48, 60..63, 16), request(5.0, 112, 50..57, 4)];
        let calls = calls(&[request(0.0, 90, 0..5, 20), subagent(2.0, &inner), request(9.0, 170, 0..10, 7)]);
        let starts: Vec<i64> = calls.iter().map(|call| call.start_ms).collect();
        assert_eq!(starts, [0, 2000, 2000, 5000, 9000]);
        assert_eq!(shape(&calls[1]), [("system", 16), ("user", 48)], "the tools of the subagent");
        assert_eq!(shape(&calls[2]), [("system", 16), ("user", 32)]);
        assert_eq!(shape(&calls[3]), [("system", 16), ("user", 48), ("assistant", 16), ("user", 32)]);
        assert_eq!(shape(&calls[4])[2..], [("assistant", 32), ("user", 58)], "the parent goes on from its own");
        // Both begin when the parent has been answered; the parent waits for what was over last.
        assert_eq!(after(&calls), [vec![], vec![0], vec![0], vec![1, 2], vec![0, 3]]);
        assert_eq!(links(&calls, false)[1].wait_ms, 1000);
    }

    #[test]
    fn times_of_subagents_may_count_from_their_beginning() {
        let inner = [request(0.0, 64, 50..54, 16), request(7.0, 112, 50..57, 4)];
        let calls = calls(&[request(0.0, 90, 0..5, 20), subagent(3.0, &inner)]);
        assert_eq!(calls.iter().map(|call| call.start_ms).collect::<Vec<_>>(), [0, 3000, 10_000]);
    }

    #[test]
    fn long_gaps_are_shortened_and_pauses_may_be_what_the_client_thought() {
        let thought = |request, seconds: f64| with(request, &json!({ "think_time": seconds }));
        let trace = trace(&[
            thought(request(10.0, 90, 0..5, 20), 3.0),
            thought(request(110.0, 170, 0..10, 7), 0.5),
            request(115.0, 250, 0..15, 7),
        ]);
        let begins =
            |options: &TraceOptions| calls_with(&trace, options).iter().map(|call| call.start_ms).collect::<Vec<_>>();
        let usual = TraceOptions::default();
        assert_eq!(begins(&usual), [10_000, 70_000, 75_000]);
        assert_eq!(begins(&TraceOptions { idle_gap_ms: Some(2000), ..usual.clone() }), [10_000, 12_000, 14_000]);
        assert_eq!(begins(&TraceOptions { idle_gap_ms: None, ..usual.clone() }), [10_000, 110_000, 115_000]);
        let waits = |options| -> Vec<u64> {
            links(&calls_with(&trace, &options), false).iter().map(|link| link.wait_ms).collect()
        };
        assert_eq!(waits(usual.clone()), [0, 59_000, 4000]);
        assert_eq!(
            waits(TraceOptions { think_time: true, ..usual }),
            [0, 500, 4000],
            "the times tell where nothing else does"
        );
    }

    #[test]
    fn answers_are_taken_for_such_although_times_are_rounded() {
        let late = with(request(0.0, 90, 0..5, 20), &json!({ "api_time": 3.4 }));
        let calls_at = |t| calls(&[late.clone(), request(t, 170, 0..10, 7)]);
        assert_eq!(shape(&calls_at(3.0)[1]).len(), 4);
        assert_eq!(after(&calls_at(3.0)), [vec![], vec![0]]);
        assert_eq!(shape(&calls_at(1.0)[1]), [("system", 32), ("user", 138)], "it began beside the first");
        assert_eq!(after(&calls_at(1.0)), vec![Vec::<u32>::new(); 2]);
    }

    #[test]
    fn live_answers_stand_where_they_were_rebuilt() {
        let found = links(&calls(&[two_turns().as_slice(), &[request(8.0, 250, 0..15, 7)]].concat()), true);
        let answers: Vec<Vec<(usize, u32)>> = found.into_iter().map(|link| link.answers).collect();
        assert_eq!(answers, [vec![], vec![(2, 0)], vec![(2, 0), (4, 1)]]);
    }

    #[test]
    fn what_cannot_be_replayed_is_refused() {
        let fault = |request: Value| {
            let whole = json!({ "id": "a", "models": [], "block_size": 16, "requests": [request] });
            match serde_json::from_value::<Trace>(whole) {
                Ok(trace) => trace.check().unwrap_err(),
                Err(error) => error.to_string(),
            }
        };
        for (request, rule) in [
            (json!({ "t": 1.5, "type": "n", "out": 1 }), "the trace 'a': the request at t 1.5 has no 'in'"),
            (json!({ "t": 1, "type": "s", "in": 1 }), "has no 'out'"),
            (
                json!({ "t": 1, "type": "s", "in": 10_000_001, "out": 1 }),
                "'in' is at most 10000000 tokens, not 10000001",
            ),
            (
                json!({ "t": 1, "type": "s", "in": 1, "out": 1, "api_time": 1e300 }),
                "'api_time' is no number of seconds",
            ),
            (json!({ "t": 1, "type": "x", "in": 1, "out": 1 }), "unknown variant `x`"),
            (json!({ "t": 1, "type": "s", "in": -1, "out": 1 }), "invalid value"),
            (subagent(1.0, &[]), "'requests' holds none of the types n and s"),
        ] {
            let message = fault(request);
            assert!(message.contains(rule), "{message}");
        }
    }

    #[test]
    fn a_block_has_the_size_of_the_trace_or_the_usual_one() {
        let tokens = |size: Value| {
            let whole = json!({ "id": "a", "block_size": size, "requests": [] });
            serde_json::from_value::<Trace>(whole).unwrap().block_tokens(64)
        };
        assert_eq!([tokens(json!(16)), tokens(json!(0)), tokens(Value::Null)], [16, 64, 64]);
    }
}
