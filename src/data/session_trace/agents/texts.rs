//! What agents, users and tools say.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::error::Result;
use crate::prompts::Draws;
use crate::seed::{self, Purpose};
use crate::session_trace::agents::transcript::{Text, ToolCalls};
use crate::session_trace::agents::{Draw, Stream};
use crate::tokenizer::Tokenizer;

/// The tool that gives work to another agent.
pub(super) const DISPATCH: &str = "dispatch_agent";
/// Tokens of an answer to a report while others are outstanding.
pub(super) const NOTED_TOKENS: u64 = 48;
/// Tokens beyond a call of tools for what a model writes around it.
const MARGIN_TOKENS: u64 = 64;
/// Words that describe a tool, and words of its answer: about as many as inference-perf's have.
const DESCRIPTION_WORDS: u64 = 90;
const RESULT_WORDS: u64 = 30;
/// Words of what a tool is asked, and of what another agent is to do.
const ARGUMENT_WORDS: u64 = 4;
const OBJECTIVE_WORDS: u64 = 12;
/// Names of tools, which are numbered when there are more.
const TOOLS: [&str; 10] = [
    "list_entries",
    "read_entry",
    "search_text",
    "find_name",
    "compare_versions",
    "run_checks",
    "query_records",
    "fetch_page",
    "edit_entry",
    "write_entry",
];
const TO_USER: &str =
    "No further tool is called from here on. Answer the user now, in plain sentences and without a call of a tool.";
const TO_AGENT: &str = "No further tool is called from here on. Report now what was found, in two or three plain sentences and without a \
    call of a tool.";
const LAUNCHED: &str = "The agent has been launched and works on it. Its report arrives as soon as it is done.";

/// Draws texts of a number of tokens.
pub(in crate::session_trace) struct Words<'a> {
    seed: u64,
    tokenizer: Option<&'a Tokenizer>,
    /// The system prompts of both kinds of agents.
    heads: [Option<Text>; 2],
    /// Texts that have slightly more or fewer tokens than they should.
    pub(in crate::session_trace) inexact: u32,
}

impl<'a> Words<'a> {
    /// Those of a run with that seed; without a tokenizer a word counts as a token.
    pub(in crate::session_trace) fn new(seed: u64, tokenizer: Option<&'a Tokenizer>) -> Self {
        Self { seed: seed::derive(seed, Purpose::Prefixes), tokenizer, heads: [None, None], inexact: 0 }
    }

    /// So many tokens.
    pub(super) fn drawn(&mut self, stream: Stream, tokens: u64) -> Result<Text> {
        let (text, is_exact) = Draws { seed: stream.0 }.text(tokens, self.tokenizer)?;
        self.inexact += u32::from(!is_exact);
        Ok(Text { text, tokens })
    }

    /// The system prompt of a kind of agents, the same in all sessions.
    pub(super) fn head(&mut self, is_root: bool, tokens: u64) -> Result<Text> {
        let kind = usize::from(is_root);
        if self.heads[kind].is_none() {
            self.heads[kind] = Some(self.drawn(Stream(self.seed).child(kind as u64), tokens)?);
        }
        Ok(self.heads[kind].clone().unwrap_or_else(|| Text { text: String::new(), tokens: 0 }))
    }

    fn fixed(&self, text: &str) -> Text {
        Text { text: text.to_owned(), tokens: self.count(text) }
    }

    fn count(&self, text: &str) -> u64 {
        let words = || text.split_whitespace().count() as u64;
        self.tokenizer.and_then(|tokenizer| tokenizer.count(text)).unwrap_or_else(words)
    }

    /// Tokens of tools.
    pub(super) fn count_all(&self, tools: &[Value]) -> u64 {
        tools.iter().map(|tool| self.count(&tool.to_string())).sum()
    }

    /// That the agent is to answer.
    pub(super) fn closing(&self, is_root: bool) -> Text {
        self.fixed(if is_root { TO_USER } else { TO_AGENT })
    }

    /// That the agent is to give work to so many others.
    pub(super) fn delegation(&self, agents: u64) -> Text {
        self.fixed(&format!(
            "Give this work to {agents} agents. Their reports arrive one at a time, each when its agent is done."
        ))
    }

    /// A report of another agent.
    pub(super) fn report(&mut self, stream: Stream, tokens: u64) -> Result<Text> {
        let Text { text, tokens } = self.drawn(stream, tokens)?;
        Ok(Text { text: format!("<task-notification>\n<result>\n{text}\n</result>\n</task-notification>"), tokens })
    }

    /// So many tools, the same in all sessions.
    pub(super) fn catalog(&self, count: u64) -> Arc<[Value]> {
        let tool = |number: u64| {
            let name = TOOLS[(number % TOOLS.len() as u64) as usize];
            let name = if number < TOOLS.len() as u64 { name.to_owned() } else { format!("{name}_{number}") };
            self.tool(&name, "query", number)
        };
        (0..count).map(tool).collect()
    }

    /// The tool that gives work to another agent.
    pub(super) fn dispatch_tool(&self) -> Value {
        self.tool(DISPATCH, "objective", u64::MAX)
    }

    fn tool(&self, name: &str, argument: &str, number: u64) -> Value {
        let description = self.plain(Stream(self.seed).draw(Draw::Catalog).child(number), DESCRIPTION_WORDS);
        let parameters =
            json!({ "type": "object", "properties": { argument: { "type": "string" } }, "required": [argument] });
        json!({ "type": "function", "function": { "name": name, "description": description, "parameters": parameters } })
    }

    /// So many words.
    fn plain(&self, stream: Stream, words: u64) -> String {
        Draws { seed: stream.0 }.drawn_words(words)
    }

    /// Calls of so many tools, from that number of the catalog on.
    pub(super) fn tool_calls(&self, stream: Stream, catalog: &[Value], range: ToolRange) -> ToolCalls {
        let tool = |number: u64| {
            let tool = &catalog[((range.first + number) % catalog.len() as u64) as usize];
            tool["function"]["name"].as_str().unwrap_or_default().to_owned()
        };
        let names: Vec<String> = (0..range.count).map(tool).collect();
        let argument = |number: u64| json!({ "query": self.plain(stream.child(number), ARGUMENT_WORDS) }).to_string();
        let arguments: Vec<String> = (0..range.count).map(argument).collect();
        let result = |number: u64| self.fixed(&self.plain(stream.draw(Draw::ToolWords).child(number), RESULT_WORDS));
        let results = (0..range.count).map(result).collect();
        self.called(stream, names, &arguments, results)
    }

    /// Calls that give work to so many agents.
    pub(super) fn dispatches(&self, stream: Stream, agents: u64) -> ToolCalls {
        let objective =
            |number: u64| json!({ "objective": self.plain(stream.child(number), OBJECTIVE_WORDS) }).to_string();
        let arguments: Vec<String> = (0..agents).map(objective).collect();
        let names = vec![DISPATCH.to_owned(); arguments.len()];
        let results = vec![self.fixed(LAUNCHED); arguments.len()];
        self.called(stream, names, &arguments, results)
    }

    fn called(&self, stream: Stream, names: Vec<String>, arguments: &[String], results: Vec<Text>) -> ToolCalls {
        let call = |(number, (name, arguments)): (usize, (&String, &String))| {
            let id = format!("call_{:016x}_{number}", stream.0);
            json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments } })
        };
        let wire: Value = names.iter().zip(arguments).enumerate().map(call).collect();
        ToolCalls { tokens: self.count(&wire.to_string()) + MARGIN_TOKENS, wire, names, results }
    }
}

/// Tools of a catalog, which begins again after its last.
#[derive(Clone, Copy)]
pub(super) struct ToolRange {
    pub(super) first: u64,
    pub(super) count: u64,
}
