//! Sessions of agents, generated: which calls they make, what each sends, and which calls it follows. An agent calls tools until
//! it answers; it may also give work to further agents, whose reports arrive one after the other. Counts, sizes, pauses and the
//! order of calls are those of inference-perf 0.7 (`synthetic_agentic_datagen.py`); the words are common ones.

mod agent;
mod texts;
mod transcript;

use std::sync::Arc;

use serde_json::Value;

use crate::AgentSpec;
use crate::error::Result;
use crate::lengths::{Delay, TokenLength};
use crate::seed;
use crate::session_trace::call::Call;
use crate::session_trace::graph::Link;

use agent::{Agents, Task};
use texts::Words;
use transcript::Transcript;

pub(super) use texts::Words as AgentWords;

/// A call, and what it follows.
pub(super) type LinkedCall = (Call, Link);

/// Draws that belong to one place of a session.
#[derive(Clone, Copy)]
struct Stream(u64);

impl Stream {
    fn child(self, number: u64) -> Self {
        Self(seed::hash(self.0, number))
    }

    fn count(self, length: &TokenLength) -> u64 {
        length.draw(self.0, 0)
    }

    fn pause_ms(self, delay: &Delay) -> u64 {
        delay.draw_ms(self.0, 0)
    }

    fn unit(self) -> f64 {
        seed::unit(seed::hash(self.0, 0))
    }
}

/// What a place of a session draws.
#[derive(Clone, Copy)]
enum Draw {
    Turns,
    Catalog,
    Threshold,
    Summary,
    Think,
    Input,
    InputWords,
    Output,
    OutputWords,
    Loops,
    Spawns,
    Children,
    Parallel,
    ToolDelay,
    ToolWords,
    Round,
    Child,
}

impl Stream {
    fn draw(self, draw: Draw) -> Self {
        self.child(draw as u64)
    }
}

/// The calls of a session with that seed, in an order in which each follows earlier ones; none if there is no turn.
///
/// # Errors
/// If the tokenizer cannot count tokens.
pub(super) fn calls(spec: &AgentSpec, seed: u64, words: &mut Words<'_>) -> Result<Vec<LinkedCall>> {
    let stream = Stream(seed);
    let catalog: Arc<[Value]> = words.catalog(stream.draw(Draw::Catalog).count(&spec.tools));
    let above = spec.compaction.map(|compaction| stream.draw(Draw::Threshold).count(&compaction.above));
    let summary = spec.compaction.map_or(0, |compaction| stream.draw(Draw::Summary).count(&compaction.summary));
    let catalog_tokens = words.count_all(&catalog);
    let mut agents = Agents::new(spec, words, catalog);
    let mut before: Option<(u32, Transcript)> = None;
    for turn in 0..stream.draw(Draw::Turns).count(&spec.turns) {
        let round = stream.draw(Draw::Round).child(turn);
        let mut task = Task { stream: round, depth: 0, is_root: true, reserved: 0, ..Task::default() };
        if let Some((last, transcript)) = before {
            task.after = vec![last];
            task.wait_ms = round.draw(Draw::Think).pause_ms(&spec.think_delay);
            match above.is_some_and(|above| transcript.tokens + catalog_tokens >= above) {
                true => task.least_input = summary,
                false => task.begun = Some(agents.answered(round, transcript, last)?),
            }
        }
        let Some(last) = agents.work(task)? else { break };
        before = Some((last, agents.sent(last)));
    }
    Ok(agents.linked())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lengths::LengthShape;

    fn fixed(count: f64) -> TokenLength {
        TokenLength { shape: LengthShape::Normal(count, 0.0), least: 0, most: 1_000_000 }
    }

    fn plain() -> AgentSpec {
        let seconds = |count| Delay { units: fixed(count), unit_ms: 1000 };
        AgentSpec {
            sessions: 1,
            input: fixed(20.0),
            output: fixed(7.0),
            turns: fixed(1.0),
            system_tokens: 50,
            loops: fixed(2.0),
            parallel: fixed(1.0),
            tools: fixed(3.0),
            fanout: 0.0,
            children: fixed(2.0),
            max_depth: 1,
            max_calls: 64,
            tool_delay: seconds(2.0),
            think_delay: seconds(5.0),
            compaction: None,
        }
    }

    fn session(spec: &AgentSpec) -> Vec<LinkedCall> {
        calls(spec, 5, &mut Words::new(1, None)).unwrap()
    }

    /// Roles of messages by their first letters, the calls that it follows, and how long it waits.
    fn shape((call, link): &LinkedCall) -> (String, Vec<u32>, u64) {
        (call.messages.iter().map(|message| &message.role[..1]).collect(), link.after.clone(), link.wait_ms)
    }

    fn shapes(spec: &AgentSpec) -> Vec<(String, Vec<u32>, u64)> {
        session(spec).iter().map(shape).collect()
    }

    fn words(call: &Call, message: usize) -> usize {
        call.messages[message].text.split(' ').count()
    }

    #[test]
    fn an_agent_calls_tools_and_answers() {
        let calls = session(&plain());
        let expected = [("su", vec![], 0), ("suat", vec![0], 2000), ("suatatu", vec![1], 2000)];
        for (call, (roles, after, wait_ms)) in calls.iter().zip(expected) {
            assert_eq!(shape(call), (roles.to_owned(), after, wait_ms));
        }
        let [(first, _), (second, _), (last, _)] = &calls[..] else { panic!("{} calls", calls.len()) };
        assert_eq!((words(first, 0), words(first, 1), last.tokens), (50, 20, 7));
        let names = |call: &Call| (call.called.clone(), call.tool_choice()["function"]["name"].clone());
        assert_eq!(names(first), (vec!["list_entries".to_owned()], "list_entries".into()));
        assert_eq!(names(second).0, ["read_entry"]);
        assert_eq!((last.called.len(), last.tool_choice()), (0, "none".into()));
        assert_eq!(last.tools.as_ref().unwrap().as_array().unwrap().len(), 3);
        let (called, result) = (&second.messages[2].wire["tool_calls"][0], &second.messages[3].wire);
        assert_eq!((&called["id"], &called["function"]["name"]), (&result["tool_call_id"], &"list_entries".into()));
        assert!(first.tokens > MARGIN && first.tokens < MARGIN + 20, "{}", first.tokens);
    }

    /// Tokens that a call of a tool has beside its text.
    const MARGIN: u64 = 64;

    #[test]
    fn without_tools_an_agent_only_answers() {
        let spec = AgentSpec { tools: fixed(0.0), system_tokens: 0, turns: fixed(2.0), ..plain() };
        assert_eq!(shapes(&spec), [("u".to_owned(), vec![], 0), ("uau".to_owned(), vec![0], 5000)]);
        let calls = session(&spec);
        assert_eq!((calls[1].1.answers.as_slice(), calls[1].0.tools.is_none()), ([(1, 0)].as_slice(), true));
    }

    #[test]
    fn agents_give_work_to_others_and_answer_after_the_last_report() {
        let spec = AgentSpec { fanout: 1.0, loops: fixed(1.0), ..plain() };
        // The agent, the tool's answer with the delegation; two agents of two calls; then what they report.
        let expected = [
            ("su", vec![], 0),
            ("suatu", vec![0], 0),
            ("su", vec![1], 0),
            ("suatu", vec![2], 2000),
            ("su", vec![1], 0),
            ("suatu", vec![4], 2000),
            ("suatuatt", vec![1], 0),
            ("suatuattu", vec![6, 3], 0),
            ("suatuattuuu", vec![7, 5], 0),
        ];
        let found = shapes(&spec);
        for (found, (roles, after, wait_ms)) in found.iter().zip(expected.clone()) {
            assert_eq!(*found, (roles.to_owned(), after, wait_ms));
        }
        assert_eq!(found.len(), expected.len());
        let calls = session(&spec);
        assert_eq!(calls[1].0.called, ["dispatch_agent", "dispatch_agent"]);
        let offers = |call: &Call| call.tools.as_ref().unwrap().as_array().unwrap().len();
        assert_eq!((offers(&calls[1].0), offers(&calls[2].0), offers(&calls[8].0)), (4, 3, 4));
        assert_eq!((calls[6].0.tokens, calls[7].0.tokens, calls[8].0.tokens), (48, 48, 7));
        assert_ne!(calls[2].0.messages[1].text, calls[4].0.messages[1].text, "each has work of its own");
        assert_eq!(calls[2].0.messages[0].text, calls[4].0.messages[0].text, "they share a system prompt");
        assert_ne!(calls[0].0.messages[0].text, calls[2].0.messages[0].text, "and not that of the first");
    }

    /// Calls of a session of three turns at most, by the most that there may be: those of inference-perf 0.7 itself.
    const FITTING: [usize; 39] = [
        1, 2, 3, 4, 5, 6, 6, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 24, 26, 27, 28, 29, 30,
        31, 32, 33, 34, 34, 34, 34, 38, 39,
    ];

    #[test]
    fn what_does_not_fit_is_not_begun() {
        for (most, fitting) in (1..).zip(FITTING) {
            let spec = AgentSpec { fanout: 1.0, max_depth: 2, turns: fixed(3.0), max_calls: most, ..plain() };
            let calls = session(&spec);
            assert_eq!(calls.len(), fitting, "{most}");
            let followed: Vec<u32> = calls.iter().flat_map(|(_, link)| link.after.clone()).collect();
            for (number, (call, link)) in calls.iter().enumerate() {
                assert!(link.after.iter().all(|before| (*before as usize) < number), "{most}");
                let is_answered = followed.contains(&(number as u32));
                assert!(call.called.is_empty() || is_answered, "{most}: nothing follows the tools of call {number}");
            }
        }
    }

    #[test]
    fn what_is_too_long_becomes_a_summary() {
        let compaction = crate::Compaction { above: fixed(1.0), summary: fixed(33.0) };
        let spec = AgentSpec { turns: fixed(2.0), loops: fixed(0.0), compaction: Some(compaction), ..plain() };
        assert_eq!(shapes(&spec), [("suu".to_owned(), vec![], 0), ("suu".to_owned(), vec![0], 5000)]);
        let calls = session(&spec);
        assert_eq!((words(&calls[0].0, 1), words(&calls[1].0, 1)), (20, 33));
        let grown = AgentSpec { compaction: Some(crate::Compaction { above: fixed(9e5), ..compaction }), ..spec };
        assert_eq!(shapes(&grown)[1].0, "suuauu");
    }
}
