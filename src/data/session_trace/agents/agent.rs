//! The work of an agent.

use std::sync::Arc;

use serde_json::Value;

use crate::AgentSpec;
use crate::error::Result;
use crate::session_trace::agents::texts::{NOTED_TOKENS, ToolRange, Words};
use crate::session_trace::agents::transcript::{ToolCalls, Transcript};
use crate::session_trace::agents::{Draw, LinkedCall, Stream};
use crate::session_trace::call::{Call, Sends};
use crate::session_trace::graph::Link;

/// Calls of an agent that only answers.
const LEAST_CALLS: usize = 1;

/// A call that is planned.
struct Planned {
    sent: Transcript,
    after: Vec<u32>,
    wait_ms: u64,
    /// Tools that it must call; it answers if there are none.
    called: Vec<String>,
    /// Tokens of its answer; 0 if nothing says how many.
    tokens: u64,
    /// Whether it may also give work to other agents.
    can_dispatch: bool,
}

/// What an agent is to do.
pub(super) struct Task {
    pub(super) stream: Stream,
    /// How many agents it works for.
    pub(super) depth: u32,
    /// Whether a user talks to it.
    pub(super) is_root: bool,
    /// Calls that agents above it will still make.
    pub(super) reserved: usize,
    /// What was said before, if anything.
    pub(super) begun: Option<Transcript>,
    /// Tokens of the first message at least.
    pub(super) least_input: u64,
    /// The calls that it follows.
    pub(super) after: Vec<u32>,
    pub(super) wait_ms: u64,
}

impl Default for Task {
    fn default() -> Self {
        let (after, begun) = (Vec::new(), None);
        Self { stream: Stream(0), depth: 0, is_root: true, reserved: 0, begun, least_input: 0, after, wait_ms: 0 }
    }
}

/// The last call of an agent, and the tools that it has called.
struct Latest {
    call: u32,
    tools: Option<ToolCalls>,
}

/// All agents of a session.
pub(super) struct Agents<'a, 'b> {
    spec: &'a AgentSpec,
    words: &'a mut Words<'b>,
    catalog: Arc<[Value]>,
    calls: Vec<Planned>,
}

impl<'a, 'b> Agents<'a, 'b> {
    pub(super) fn new(spec: &'a AgentSpec, words: &'a mut Words<'b>, catalog: Arc<[Value]>) -> Self {
        Self { spec, words, catalog, calls: Vec::new() }
    }

    /// What a call sends.
    pub(super) fn sent(&self, call: u32) -> Transcript {
        self.calls[call as usize].sent.clone()
    }

    /// A conversation with the answer to its last call.
    pub(super) fn answered(&mut self, stream: Stream, mut transcript: Transcript, call: u32) -> Result<Transcript> {
        let tokens = self.calls[call as usize].tokens;
        let answer = self.words.drawn(stream.draw(Draw::Output), tokens)?;
        transcript.answer(call, &answer);
        Ok(transcript)
    }

    /// Whether so many calls are left beside those that are reserved.
    fn has_room(&self, calls: usize, reserved: usize) -> bool {
        self.calls.len() + reserved + calls <= self.spec.max_calls as usize
    }

    fn plan(&mut self, call: Planned) -> u32 {
        self.calls.push(call);
        (self.calls.len() - 1) as u32
    }

    /// Plans the calls of an agent. Returns the one that is its answer; none if there is no room for it.
    pub(super) fn work(&mut self, mut task: Task) -> Result<Option<u32>> {
        if !self.has_room(LEAST_CALLS, task.reserved) {
            return Ok(None);
        }
        let loops = if self.catalog.is_empty() { 0 } else { task.stream.draw(Draw::Loops).count(&self.spec.loops) };
        let spawns = task.stream.draw(Draw::Spawns).unit() < self.spec.fanout && task.depth < self.spec.max_depth;
        let mut latest = self.begin(&mut task, loops, spawns)?;
        for number in 0..if spawns { loops.saturating_sub(1) } else { loops } {
            if !self.has_room(1, task.reserved) {
                break;
            }
            latest = self.go_on(&task, &latest, Step { number, is_last: !spawns && number + 1 == loops });
        }
        if spawns {
            latest = self.delegate(&task, latest)?;
        }
        let answer = task.stream.draw(Draw::Output).count(&self.spec.output);
        let last = &mut self.calls[latest.call as usize];
        if !last.called.is_empty() {
            // There was no room for what follows the tools.
            last.called.clear();
            last.tokens = answer;
        }
        Ok(Some(latest.call))
    }

    /// The first call of an agent.
    fn begin(&mut self, task: &mut Task, loops: u64, spawns: bool) -> Result<Latest> {
        let stream = task.stream;
        let mut sent = match task.begun.take() {
            Some(transcript) => transcript,
            None => self.opening(task.is_root)?,
        };
        let input = stream.draw(Draw::Input).count(&self.spec.input).max(task.least_input);
        sent.say("user", &self.words.drawn(stream.draw(Draw::InputWords), input)?);
        let mut call = Planned {
            sent,
            after: std::mem::take(&mut task.after),
            wait_ms: task.wait_ms,
            called: Vec::new(),
            tokens: 0,
            can_dispatch: false,
        };
        let mut tools = None;
        if loops > 0 {
            let next = self.tools(stream, 0);
            (call.called, call.tokens) = (next.names.clone(), next.tokens);
            tools = Some(next);
        } else if !spawns {
            if !(task.is_root && self.catalog.is_empty()) {
                call.sent.say("user", &self.words.closing(task.is_root));
            }
            call.tokens = stream.draw(Draw::Output).count(&self.spec.output);
        }
        Ok(Latest { call: self.plan(call), tools })
    }

    /// The system prompt, if there is one.
    fn opening(&mut self, is_root: bool) -> Result<Transcript> {
        let mut transcript = Transcript::default();
        if self.spec.system_tokens > 0 {
            transcript.say("system", &self.words.head(is_root, u64::from(self.spec.system_tokens))?);
        }
        Ok(transcript)
    }

    /// The tools that are called in a step.
    fn tools(&self, stream: Stream, step: u64) -> ToolCalls {
        let calling = stream.draw(Draw::Parallel).child(step);
        let range = ToolRange { first: step, count: calling.count(&self.spec.parallel).max(1) };
        self.words.tool_calls(calling, &self.catalog, range)
    }

    /// A call with what tools have answered.
    fn go_on(&mut self, task: &Task, latest: &Latest, step: Step) -> Latest {
        let mut sent = self.sent(latest.call);
        latest.tools.iter().for_each(|tools| sent.use_tools(tools));
        let wait_ms = task.stream.draw(Draw::ToolDelay).child(step.number).pause_ms(&self.spec.tool_delay);
        let mut call =
            Planned { sent, after: vec![latest.call], wait_ms, called: Vec::new(), tokens: 0, can_dispatch: false };
        if step.is_last {
            call.sent.say("user", &self.words.closing(task.is_root));
            call.tokens = task.stream.draw(Draw::Output).count(&self.spec.output);
            return Latest { call: self.plan(call), tools: None };
        }
        let tools = self.tools(task.stream, step.number + 1);
        (call.called, call.tokens) = (tools.names.clone(), tools.tokens);
        Latest { call: self.plan(call), tools: Some(tools) }
    }

    /// Gives work to other agents, if there is room for all that follows from it: the agent notes that they work, and then each
    /// report as it comes; its answer follows the last.
    fn delegate(&mut self, task: &Task, latest: Latest) -> Result<Latest> {
        let agents = task.stream.draw(Draw::Children).count(&self.spec.children) as usize;
        let tail = agents + 1;
        if agents == 0 || !self.has_room(1 + agents * LEAST_CALLS + tail, task.reserved) {
            return Ok(latest);
        }
        let mut sent = self.sent(latest.call);
        latest.tools.iter().for_each(|tools| sent.use_tools(tools));
        sent.say("user", &self.words.delegation(agents as u64));
        let dispatches = self.words.dispatches(task.stream.draw(Draw::Child), agents as u64);
        let planned = self.calls.len();
        let spawn = self.plan(Planned {
            sent,
            after: vec![latest.call],
            wait_ms: 0,
            called: dispatches.names.clone(),
            tokens: dispatches.tokens,
            can_dispatch: true,
        });
        let mut reports = Vec::new();
        for number in 0..agents {
            let reserved = task.reserved + tail + (agents - number - 1) * LEAST_CALLS;
            let stream = task.stream.draw(Draw::Child).child(number as u64);
            let child = Task { stream, depth: task.depth + 1, is_root: false, reserved, ..Task::default() };
            match self.work(Task { after: vec![spawn], ..child })? {
                Some(report) => reports.push(report),
                None => break,
            }
        }
        if reports.len() < agents || !self.has_room(tail, task.reserved) {
            self.calls.truncate(planned);
            return Ok(latest);
        }
        let mut sent = self.sent(spawn);
        sent.use_tools(&dispatches);
        self.note_reports(task, Noted { spawn, sent, reports: &reports })
    }

    /// The calls that note what other agents do and report.
    fn note_reports(&mut self, task: &Task, Noted { spawn, mut sent, reports }: Noted<'_>) -> Result<Latest> {
        let note = |sent: &Transcript, after: Vec<u32>, tokens: u64| Planned {
            sent: sent.clone(),
            after,
            wait_ms: 0,
            called: Vec::new(),
            tokens,
            can_dispatch: true,
        };
        let mut last = self.plan(note(&sent, vec![spawn], NOTED_TOKENS));
        for (number, report) in reports.iter().enumerate() {
            let tokens = self.calls[*report as usize].tokens;
            let stream = task.stream.draw(Draw::OutputWords).child(number as u64);
            sent.say("user", &self.words.report(stream, tokens)?);
            let is_last = number + 1 == reports.len();
            let mut tokens = NOTED_TOKENS;
            if is_last {
                sent.say("user", &self.words.closing(task.is_root));
                tokens = task.stream.draw(Draw::Output).count(&self.spec.output);
            }
            last = self.plan(note(&sent, vec![last, *report], tokens));
        }
        Ok(Latest { call: last, tools: None })
    }

    /// All calls, and what each follows.
    pub(super) fn linked(self) -> Vec<LinkedCall> {
        let dispatch = self.words.dispatch_tool();
        let offered = |can_dispatch: bool| {
            let more = can_dispatch.then(|| dispatch.clone());
            let tools: Vec<Value> = self.catalog.iter().cloned().chain(more).collect();
            (!tools.is_empty()).then(|| Value::from(tools))
        };
        let linked = |call: Planned| {
            let link = Link { after: call.after, wait_ms: call.wait_ms, answers: call.sent.answers };
            let call = Call {
                start_ms: 0,
                end_ms: 0,
                wait_ms: None,
                model: String::new(),
                messages: call.sent.messages,
                sends: Sends::ByText,
                answer: None,
                tokens: call.tokens,
                all_tokens: call.sent.tokens + call.tokens,
                tools: offered(call.can_dispatch),
                called: call.called,
            };
            (call, link)
        };
        self.calls.into_iter().map(linked).collect()
    }
}

/// A step of an agent's loop.
#[derive(Clone, Copy)]
struct Step {
    number: u64,
    /// Whether the agent then answers.
    is_last: bool,
}

/// Work that other agents have begun.
struct Noted<'a> {
    /// The call that gave it to them.
    spawn: u32,
    /// What was said until then.
    sent: Transcript,
    /// The calls that are their reports.
    reports: &'a [u32],
}
