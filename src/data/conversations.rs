//! Generated conversations: a system prompt whose beginning others share, and turns of drawn lengths.

use serde_json::{Value, json};

use crate::dataset::with_system;
use crate::documents::{Documents, TurnOf};
use crate::error::Result;
use crate::lengths::{ConversationSpec, ConversationTurns};
use crate::prompts::{Draws, Prefix, Writer, inexact_warning};
use crate::seed::{self, Purpose};
use crate::steps::{Loaded, Target};
use crate::tokenizer::Tokenizer;
use crate::{PromptForm, PromptSpec};

/// Generates conversations, the same for the same seed.
///
/// # Errors
/// If the model's requests are not JSON documents, memory is lacking, or the tokenizer cannot be read.
pub(crate) fn load(target: &Target<'_>, spec: &PromptSpec, conversations: &ConversationSpec) -> Result<Loaded> {
    let mut out = Documents::of_form(target, spec.form)?;
    let tokenizer = spec.tokenizer.as_deref().map(Tokenizer::read).transpose()?;
    let writer = Writer {
        spec,
        seed: target.spec.seed,
        tokenizer: tokenizer.as_ref(),
        rows: &[],
        blocks: None,
        block_tokens: 0,
    };
    let stages = if conversations.turns == ConversationTurns::Endless { 1 } else { target.spec.stages };
    let mut inexact = 0;
    for stage in 0..stages {
        inexact += write(&writer, conversations, stage, &mut out)?;
    }
    Ok(out.loaded(inexact_warning(inexact).into_iter().collect()))
}

/// Writes every conversation as a stage plays it, turn by turn: what begins them is the stage's own, so that it finds no cache of the
/// stage before. Returns how many turns have not exactly the tokens that are asked for.
fn write(
    writer: &Writer<'_>,
    conversations: &ConversationSpec,
    stage: u32,
    out: &mut Documents<'_, '_>,
) -> Result<u32> {
    let (prefixes, order) = (writer.prefixes(stage)?, writer.order(conversations.count));
    let (mut number, mut inexact) = (0, 0);
    let is_endless = conversations.turns == ConversationTurns::Endless;
    for conversation in 0..conversations.count {
        let draws =
            Draws { seed: seed::hash(seed::derive(writer.seed, Purpose::Conversations), u64::from(conversation)) };
        let session = (u64::from(stage) * u64::from(conversations.count) + u64::from(conversation)).to_string();
        let prefix = order.get(conversation as usize).map(|group| &prefixes[*group as usize]);
        let system = system(writer, conversations, &draws, prefix)?;
        let turns = match conversations.turns {
            ConversationTurns::Drawn(length) => length.draw(draws.seed, 2),
            // What begins it, and what it goes on with.
            ConversationTurns::Endless => 2,
        };
        for turn in 0..turns {
            let (question, output, is_exact) = writer.prompt(number, None)?;
            inexact += u32::from(!is_exact);
            let repeats = is_endless && writer.spec.form == PromptForm::Prompt;
            let text = if repeats { repeated(&system, &question) } else { question };
            // A question that repeats it has it already; beside messages it is no part of what was said before.
            let is_needed = (turn == 0 && !repeats) || writer.spec.form == PromptForm::AnthropicMessages;
            let system = if is_needed { system.as_str() } else { "" };
            let delay_ms = conversations.delay.map_or(0, |delay| delay.draw_ms(draws.seed, 4 + 2 * turn));
            let turn_of = TurnOf { session: &session, delay_ms, after: None };
            out.add(&fields(writer.spec.form, system, &text), output, Some(&turn_of))?;
            // An endless conversation asks the same again and again.
            number += u32::from(!is_endless || turn == 1);
        }
    }
    Ok(inexact)
}

/// The system prompt of a conversation: what it shares with others, and what is its own.
fn system(
    writer: &Writer<'_>,
    conversations: &ConversationSpec,
    draws: &Draws,
    prefix: Option<&Prefix>,
) -> Result<String> {
    let own_prompt = conversations.own_system.map(|length| length.draw(draws.seed, 0)).filter(|tokens| *tokens > 0);
    let own_prompt = own_prompt.map(|tokens| writer.text(draws, tokens)).transpose()?;
    let parts: Vec<&str> = prefix.map(|prefix| prefix.text.as_str()).into_iter().chain(own_prompt.as_deref()).collect();
    Ok(parts.join(" "))
}

/// What each turn of an endless conversation says over completions: the prefix before each question, as inference-perf has it.
fn repeated(system: &str, question: &str) -> String {
    if system.is_empty() { question.to_owned() } else { format!("{system} {question}") }
}

fn fields(form: PromptForm, system: &str, text: &str) -> String {
    let field = if form == PromptForm::Responses { "input" } else { "messages" };
    let messages = |all: &[Value]| format!("\"{field}\":{}", Value::from(all));
    let user = json!({ "role": "user", "content": text });
    match (form, system) {
        (PromptForm::AnthropicMessages, system) => with_system(system, messages(&[user])),
        (PromptForm::Prompt, "") => format!("\"prompt\":{}", Value::from(text)),
        (PromptForm::Prompt, system) => format!("\"prompt\":{}", Value::from(format!("{system} {text}"))),
        (PromptForm::Input, _) => format!("\"input\":{}", Value::from(text)),
        (PromptForm::Messages | PromptForm::Responses | PromptForm::Unknown, "") => messages(&[user]),
        (PromptForm::Messages | PromptForm::Responses | PromptForm::Unknown, system) => {
            messages(&[json!({ "role": "system", "content": system }), user])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_of_the_responses_api_are_messages_of_its_input() {
        let turn = fields(PromptForm::Responses, "be brief", "hi");
        let expected = r#""input":[{"content":"be brief","role":"system"},{"content":"hi","role":"user"}]"#;
        assert_eq!(turn, expected);
        assert_eq!(fields(PromptForm::Responses, "", "hi"), r#""input":[{"content":"hi","role":"user"}]"#);
        assert_eq!(fields(PromptForm::Messages, "", "hi"), r#""messages":[{"content":"hi","role":"user"}]"#);
    }
}
