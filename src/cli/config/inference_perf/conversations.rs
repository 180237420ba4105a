//! `data.conversation_replay`: conversations that are generated.

use crate::config::fields::Fields;
use crate::config::flags::Flags;
use crate::config::inference_perf::distribution::Distribution;
use crate::config::yaml::{Fault, Node};

/// Tokens of the system prompt that all conversations share.
const SHARED: u64 = 8359;

/// Conversations of drawn lengths.
///
/// # Errors
/// What is not theirs, or has no counterpart.
pub fn replay(data: &mut Fields<'_>, node: &Node, flags: &mut Flags) -> Result<(), Fault> {
    let missing = || Fault::new(node.at, "the type conversation_replay needs 'data.conversation_replay'");
    let mut fields = data.section("conversation_replay")?.ok_or_else(missing)?;
    let seed = fields.whole("seed", 0)?.unwrap_or(42);
    let count = fields.whole("num_conversations", 1)?.unwrap_or(200);
    flags.at_key(&fields, "num_conversations").add("conversations", count);
    let shared = fields.whole("shared_system_prompt_len", 0)?.unwrap_or(SHARED);
    if shared > 0 {
        flags.at_key(&fields, "shared_system_prompt_len").add("prefix-tokens", shared);
    }
    for (key, usual, flag) in [
        ("dynamic_system_prompt_len", None, "system-tokens"),
        ("turns_per_conversation", Some("10"), "turns"),
        ("input_tokens_per_turn", Some("512"), "prompt-tokens"),
        ("output_tokens_per_turn", Some("256"), "output-tokens"),
    ] {
        let Some(node) = fields.take(key) else {
            usual.into_iter().for_each(|usual| flags.at_key(&fields, key).add(flag, usual));
            continue;
        };
        let distribution = Distribution::read(&fields.name(key), node)?;
        // A system prompt is all that may be absent.
        if flag != "system-tokens" || !distribution.is_nothing() {
            let length = distribution.length(flags)?;
            flags.at(node.at).add(flag, length);
        }
    }
    if let Some(node) = fields.take("tool_call_latency_sec") {
        let pause = Distribution::read(&fields.name("tool_call_latency_sec"), node)?.pause()?;
        pause.into_iter().for_each(|pause| flags.at(node.at).add("turn-delay", pause));
    }
    let uncut = "no effect: a conversation is sent whole, and one that is too long for the model fails";
    flags.notes.extend(fields.no_effect("max_model_len", uncut));
    if flags.settings.iter().any(|setting| setting.name == "seed" && setting.arguments == ["--seed=time"]) {
        flags.settings.retain(|setting| setting.name != "seed");
        flags.at_key(&fields, "seed").add("seed", seed);
    }
    fields.finish()
}
