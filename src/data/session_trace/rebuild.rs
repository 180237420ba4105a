//! Prompts of which only lengths and the numbers of blocks were recorded: equal numbers become equal text, so a server finds
//! exactly those beginnings in its cache that it found then.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::json;

use crate::error::Result;
use crate::prompts::Draws;
use crate::seed::{self, Purpose};
use crate::session_trace::call::Message;
use crate::tokenizer::Tokenizer;

const SYSTEM: &str = "system";
const USER: &str = "user";
const ASSISTANT: &str = "assistant";
/// Times are rounded, up to whole seconds: a call may seem to begin that much before the answer that it sends was there.
const ROUNDING_S: f64 = 1.0;

/// The texts of a session's blocks, and of what is in no block.
pub(super) struct Texts<'a> {
    block_tokens: u32,
    tokenizer: Option<&'a Tokenizer>,
    /// Seeds of the blocks, and of the rest.
    blocks_seed: u64,
    tails_seed: u64,
    block_texts: HashMap<u64, Arc<str>>,
    /// Texts that have slightly more or fewer tokens than they should.
    pub(super) inexact: u32,
}

/// What tells the texts of sessions apart.
#[derive(Clone, Copy)]
pub(super) struct Session<'a> {
    /// Seed of the run.
    pub(super) seed: u64,
    /// Name of the session.
    pub(super) name: &'a str,
    /// Whether other sessions have the same blocks.
    pub(super) shares_blocks: bool,
    /// How often it was there before, in the same run.
    pub(super) repetition: u64,
}

impl<'a> Texts<'a> {
    /// Texts of a session, the same for the same seed.
    pub(super) fn new(session: Session<'_>, block_tokens: u32, tokenizer: Option<&'a Tokenizer>) -> Self {
        let named = |stream| session.name.bytes().fold(stream, |stream, byte| seed::hash(stream, u64::from(byte)));
        let stream = |purpose| seed::hash(seed::derive(session.seed, purpose), session.repetition);
        let blocks = stream(Purpose::Prefixes);
        Self {
            block_tokens,
            tokenizer,
            blocks_seed: if session.shares_blocks { blocks } else { named(blocks) },
            tails_seed: named(stream(Purpose::Prompts)),
            block_texts: HashMap::new(),
            inexact: 0,
        }
    }

    /// The text of blocks and what follows them.
    fn text(&mut self, blocks: &[u64], tail: Tail) -> Result<String> {
        let mut parts = Vec::with_capacity(blocks.len() + 1);
        for number in blocks {
            parts.push(self.block(*number)?);
        }
        if tail.tokens > 0 {
            parts.push(self.drawn(seed::hash(self.tails_seed, tail.call as u64), tail.tokens)?);
        }
        Ok(parts.join(" "))
    }

    fn block(&mut self, number: u64) -> Result<Arc<str>> {
        if let Some(text) = self.block_texts.get(&number) {
            return Ok(Arc::clone(text));
        }
        let text = self.drawn(seed::hash(self.blocks_seed, number), u64::from(self.block_tokens))?;
        self.block_texts.insert(number, Arc::clone(&text));
        Ok(text)
    }

    fn drawn(&mut self, seed: u64, tokens: u64) -> Result<Arc<str>> {
        let (text, is_exact) = Draws { seed }.text(tokens, self.tokenizer)?;
        self.inexact += u32::from(!is_exact);
        Ok(text.into())
    }
}

/// Tokens after the blocks of a prompt, which a call shares with no other.
#[derive(Clone, Copy)]
struct Tail {
    call: usize,
    tokens: u64,
}

/// A call as it was recorded.
#[derive(Clone, Copy)]
pub(super) struct Turn<'a> {
    /// Its number in the session.
    pub(super) call: usize,
    /// When it began, in seconds.
    pub(super) start_s: f64,
    /// How long its answer took.
    pub(super) took_s: f64,
    /// The numbers of its prompt's blocks.
    pub(super) blocks: &'a [u64],
    /// Tokens of its prompt.
    pub(super) input: u64,
    /// Tokens of its answer.
    pub(super) output: u64,
}

/// The prompt of a call.
pub(super) struct Prompt {
    /// Its messages: an agent's system prompt, and then what its user and the assistant say in turn, the user last.
    pub(super) messages: Vec<Arc<Message>>,
    /// The answer that it sends last, if any.
    pub(super) answer: Option<Answer>,
}

/// The answer to a call.
pub(super) struct Answer {
    /// The call's number.
    pub(super) call: usize,
    /// What it was answered.
    pub(super) message: Arc<Message>,
}

/// What an agent has said so far, in one conversation or several.
pub(super) struct Conversation<'a> {
    /// Tokens of its tools and system prompt.
    prefix_tokens: u64,
    earlier: Vec<Earlier<'a>>,
    /// The tree of all beginnings: from the root, 0, a block leads to a node.
    nodes: HashMap<Edge, usize>,
    /// The calls of each node but the root.
    beginnings: Vec<Beginning>,
}

/// The calls that begin with the same blocks.
struct Beginning {
    /// The last of them.
    latest: usize,
    /// The last that has no further blocks.
    ends: Option<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Edge {
    node: usize,
    block: u64,
}

/// A call whose prompt is known.
struct Earlier<'a> {
    turn: Turn<'a>,
    parts: Vec<Part>,
}

/// A message as the blocks that it is made of.
#[derive(Clone)]
struct Part {
    role: &'static str,
    /// The block after its last one.
    end: usize,
    /// The same in words, if it was needed without what is in no block.
    message: Option<Arc<Message>>,
}

impl Part {
    fn new(role: &'static str, end: usize) -> Self {
        Self { role, end, message: None }
    }
}

impl Earlier<'_> {
    /// Its messages as far as they are in the first `depth` blocks.
    fn until(&self, depth: usize) -> Vec<Part> {
        let mut kept = Vec::new();
        let mut begin = 0;
        for part in &self.parts {
            if begin >= depth {
                break;
            }
            kept.push(if part.end <= depth { part.clone() } else { Part::new(part.role, depth) });
            begin = part.end;
        }
        kept
    }

    /// Whether it was answered when another call began.
    fn was_over(&self, start_s: f64) -> bool {
        let rounded_s = ROUNDING_S.min(self.turn.took_s / 2.0);
        self.turn.start_s + self.turn.took_s <= start_s + rounded_s
    }
}

impl<'a> Conversation<'a> {
    /// Nothing said yet, by an agent with so many tokens of tools and system prompt.
    pub(super) fn new(prefix_tokens: u64) -> Self {
        Self { prefix_tokens, earlier: Vec::new(), nodes: HashMap::new(), beginnings: Vec::new() }
    }

    /// The prompt of the agent's next call, in the order in which they began. It goes on from the call with the longest
    /// beginning in common: what is new are that call's answer, by its length, and what the user says to it. A call that has
    /// no more than the system prompt in common begins another conversation.
    ///
    /// # Errors
    /// If the tokenizer cannot count tokens.
    pub(super) fn add(&mut self, turn: &Turn<'a>, texts: &mut Texts<'_>) -> Result<Prompt> {
        let size = u64::from(texts.block_tokens);
        let whole = turn.blocks.len().min((turn.input / size) as usize);
        let blocks = &turn.blocks[..whole];
        let beyond = turn.input - whole as u64 * size;
        // The user says something, be it a token.
        let tail = Tail { call: turn.call, tokens: if whole == 0 { beyond.max(1) } else { beyond } };
        let room = whole - usize::from(tail.tokens == 0);
        let prefix = (self.prefix_tokens.div_ceil(size) as usize).min(room);
        let (mut parts, mut answered) = (Vec::new(), None);
        match self.deepest(blocks, turn.start_s).filter(|shared| shared.depth > prefix) {
            Some(Shared { depth, call }) => {
                let before = &self.earlier[call];
                parts = before.until(depth.min(room));
                let answer = (before.turn.output.div_ceil(size) as usize).min(room.saturating_sub(depth));
                let is_asked = parts.last().is_some_and(|part| part.role == USER);
                if answer > 0 && is_asked && before.was_over(turn.start_s) {
                    answered = Some(before.turn.call);
                    parts.push(Part::new(ASSISTANT, depth + answer));
                }
            }
            None if prefix > 0 => parts.push(Part::new(SYSTEM, prefix)),
            None => {}
        }
        match parts.last_mut() {
            Some(last) if last.role == USER && last.end == whole => {}
            Some(last) if last.role == USER => *last = Part::new(USER, whole),
            _ => parts.push(Part::new(USER, whole)),
        }
        let messages = in_words(&mut parts, blocks, tail, texts)?;
        let answer = answered.map(|call| Answer { call, message: Arc::clone(&messages[messages.len() - 2]) });
        self.remember(blocks);
        self.earlier.push(Earlier { turn: *turn, parts });
        Ok(Prompt { messages, answer })
    }

    /// What a prompt has in common with the call whose beginning it shares for longest: with one that it goes on from as a
    /// whole if that has been answered, else with the last.
    fn deepest(&self, blocks: &[u64], start_s: f64) -> Option<Shared> {
        let mut node = 0;
        let mut depth = 0;
        while let Some(block) = blocks.get(depth)
            && let Some(next) = self.nodes.get(&Edge { node, block: *block })
        {
            node = *next;
            depth += 1;
        }
        let Beginning { latest, ends } = self.beginnings.get(node.checked_sub(1)?)?;
        let call = ends.filter(|ended| self.earlier[*ended].was_over(start_s)).unwrap_or(*latest);
        Some(Shared { depth, call })
    }

    /// Notes how the next call begins.
    fn remember(&mut self, blocks: &[u64]) {
        let call = self.earlier.len();
        let mut node = 0;
        for (number, block) in blocks.iter().enumerate() {
            let next = self.beginnings.len() + 1;
            node = *self.nodes.entry(Edge { node, block: *block }).or_insert(next);
            if node == next {
                self.beginnings.push(Beginning { latest: call, ends: None });
            }
            let beginning = &mut self.beginnings[node - 1];
            beginning.latest = call;
            if number + 1 == blocks.len() {
                beginning.ends = Some(call);
            }
        }
    }
}

/// A beginning that a prompt has in common with a call.
struct Shared {
    /// Its blocks.
    depth: usize,
    /// The call, by its place among the agent's.
    call: usize,
}

/// The messages of parts; the last also holds what is in no block.
fn in_words(parts: &mut [Part], blocks: &[u64], tail: Tail, texts: &mut Texts<'_>) -> Result<Vec<Arc<Message>>> {
    let mut messages = Vec::with_capacity(parts.len());
    let (mut begin, last) = (0, parts.len() - 1);
    for (number, part) in parts.iter_mut().enumerate() {
        let range = &blocks[begin..part.end];
        begin = part.end;
        if number == last && tail.tokens > 0 {
            messages.push(message(part.role, texts.text(range, tail)?));
            continue;
        }
        let spoken = match part.message.take() {
            Some(before) => before,
            None => message(part.role, texts.text(range, Tail { tokens: 0, ..tail })?),
        };
        part.message = Some(Arc::clone(&spoken));
        messages.push(spoken);
    }
    Ok(messages)
}

fn message(role: &str, text: String) -> Arc<Message> {
    let wire = json!({ "role": role, "content": text });
    Arc::new(Message { wire, role: role.to_owned(), text, tool_ids: HashSet::new() })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn with_a_tokenizer_blocks_have_its_tokens() {
        // Words of common letters only, so that most of what is drawn is no word that it knows, but pieces of one.
        let pieces = ["t", "h", "e", "o", "a", "##t", "##h", "##e", "##o", "##n", "##a", "##r", "##s", "##i", "[UNK]"];
        let vocabulary: serde_json::Map<String, serde_json::Value> =
            pieces.iter().enumerate().map(|(number, piece)| ((*piece).to_owned(), number.into())).collect();
        let whole = json!({
            "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null, "post_processor": null,
            "pre_tokenizer": { "type": "Whitespace" }, "decoder": null,
            "model": { "type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
                "vocab": vocabulary },
        });
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokenizer.json");
        fs::write(&path, whole.to_string()).unwrap();
        let tokenizer = Tokenizer::read(&path).unwrap();
        let session = Session { seed: 3, name: "a", shares_blocks: false, repetition: 0 };
        let mut texts = Texts::new(session, 16, Some(&tokenizer));
        let mut agent = Conversation::new(20);
        let turn = Turn { call: 0, start_s: 0.0, took_s: 0.0, blocks: &[4, 5, 6, 7], input: 75, output: 2 };
        let prompt = agent.add(&turn, &mut texts).unwrap();
        let counts: Vec<u64> = prompt.messages.iter().map(|message| tokenizer.count(&message.text).unwrap()).collect();
        assert_eq!((counts, texts.inexact), (vec![32, 43], 0));
        let words = prompt.messages[0].text.split(' ').count();
        assert!(words < 32, "{words} words of more than one token");
    }
}
