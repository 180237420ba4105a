//! Which sessions of agents are generated: how many, how large and how they branch.

use crate::lengths::{Delay, TokenLength};

/// Sessions of agents that call tools and give work to further agents, as inference-perf 0.7 generates them
/// (`synthetic_agentic`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AgentSpec {
    /// How many sessions.
    pub sessions: u32,
    /// Tokens that a user, or whoever gives work to an agent, says at a time.
    pub input: TokenLength,
    /// Tokens of an agent's answer.
    pub output: TokenLength,
    /// How often the user says something.
    pub turns: TokenLength,
    /// Tokens of the system prompt, of which agents that users talk to have one and those that work for them another; none if 0.
    pub system_tokens: u32,
    /// Calls of tools before an answer.
    pub loops: TokenLength,
    /// Tools that are called at once.
    pub parallel: TokenLength,
    /// Tools that are offered; without any, none is called.
    pub tools: TokenLength,
    /// How likely an agent gives work to others, from 0 to 1.
    pub fanout: f64,
    /// To how many.
    pub children: TokenLength,
    /// How many agents may work for each other below the first.
    pub max_depth: u32,
    /// Calls of a session at most.
    pub max_calls: u32,
    /// How long tools take.
    pub tool_delay: Delay,
    /// How long the user thinks before saying something again.
    pub think_delay: Delay,
    /// When what was said is replaced by a summary; never if absent.
    pub compaction: Option<Compaction>,
}

/// A summary in place of all that was said.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Compaction {
    /// Tokens of a conversation, with its tools, that are too many to go on.
    pub above: TokenLength,
    /// Tokens of the summary.
    pub summary: TokenLength,
}
