//! `data`: what requests carry.

use std::path::Path;

use crate::config::fields::{Fields, text, whole};
use crate::config::flags::Flags;
use crate::config::inference_perf::distribution::{Distribution, length};
use crate::config::inference_perf::load::trace_file;
use crate::config::inference_perf::{OUTPUT_TOKENS, agents, conversations, media, recordings};
use crate::config::yaml::{Fault, Node, Value};

/// Words of inference-perf's mock prompts: `1 2 3` and a number.
pub const MOCK: u32 = 4;

/// All types that are taken, or refused with what to do instead.
const TYPES: &[&str] = &[
    "mock",
    "random",
    "synthetic",
    "shared_prefix",
    "shareGPT",
    "cnn_dailymail",
    "infinity_instruct",
    "billsum_conversations",
    "conversation_replay",
    "otel_trace_replay",
    "weka_trace_replay",
    "visionarena",
    "synthetic_agentic",
];
/// Sections of types.
const SECTIONS: &[&str] =
    &["otel_trace_replay", "weka_trace_replay", "conversation_replay", "visionarena", "synthetic_agentic"];
/// What to do with a data set of pictures.
const VISION: &str = "download lmarena-ai/VisionArena-Chat (Hugging Face), and write its prompts with their pictures (image_url) as \
    payloads into a JSON file for --input-data (docs/input-data.md)";

/// Data sets, and where they are to be had.
const SETS: &[(&str, &str)] = &[
    ("shareGPT", "ShareGPT_V3_unfiltered_cleaned_split.json of anon8231489123/ShareGPT_Vicuna_unfiltered"),
    ("cnn_dailymail", "the train split of abisee/cnn_dailymail, version 3.0.0, as JSON lines"),
    ("infinity_instruct", "BAAI/Infinity-Instruct as JSON lines"),
    ("billsum_conversations", "BillSum's conversations as JSON lines"),
];

/// Reads the section.
///
/// # Errors
/// What is not theirs, or has no counterpart.
pub fn data(node: Option<&Node>, flags: &mut Flags) -> Result<(), Fault> {
    let Some(node) = node else {
        flags.add("prompt-tokens", MOCK);
        return Ok(());
    };
    let mut data = Fields::new("data", node)?;
    let kind = data.choice("type", TYPES)?.unwrap_or("mock");
    match kind {
        "mock" => {
            let drawn = "only the types random and synthetic take it";
            ["input_distribution", "output_distribution", "trace"]
                .iter()
                .try_for_each(|key| data.refuse(key, drawn))?;
            flags.at_key(&data, "type").add("prompt-tokens", MOCK);
        }
        "shared_prefix" => shared_prefix(&mut data, node, flags)?,
        "conversation_replay" => conversations::replay(&mut data, node, flags)?,
        "otel_trace_replay" => recordings::otel(&mut data, node, flags)?,
        "synthetic_agentic" => agents::sessions(&mut data, node, flags)?,
        "weka_trace_replay" => recordings::weka(&mut data, node, flags)?,
        "visionarena" => {
            let rule = format!("'data.type: visionarena' has no counterpart: {VISION}");
            return Err(Fault::new(data.place("type"), rule));
        }
        "random" | "synthetic" => generated(&mut data, kind, node, flags)?,
        set => dataset(&mut data, set, node, flags)?,
    }
    flags.notes.extend(data.no_effect("corpus_file_path", "no effect, because prompts are made of common words"));
    flags.notes.extend(data.no_effect("path", "no effect: prompts are generated"));
    data.take("shared_prefix");
    data.pass_over(SECTIONS);
    let media_of = ["random", "synthetic", "shared_prefix"];
    if let Some(node) = data.take("multimodal").filter(|_| media_of.contains(&kind)) {
        media::media("data.multimodal", node, "media", flags)?;
    }
    chat_template(&mut data, kind, flags)?;
    data.finish()
}

/// Prompts of the type random in a chat's template are as long as without.
fn chat_template(data: &mut Fields<'_>, kind: &str, flags: &mut Flags) -> Result<(), Fault> {
    let at = data.place("use_chat_template");
    match (data.switch("use_chat_template")? == Some(true), kind) {
        (true, "random") => flags.note(
            "data.use_chat_template: prompts are as long as with a template, which is part of their length, but have none; \
             api.type chat lets the server apply it",
        ),
        (true, _) => {
            return Err(Fault::new(at, format!("'data.use_chat_template' is for the type random, not for {kind}")));
        }
        (false, _) => {}
    }
    Ok(())
}

/// Prompts of drawn or recorded lengths.
fn generated(data: &mut Fields<'_>, kind: &str, node: &Node, flags: &mut Flags) -> Result<(), Fault> {
    if let Some(trace) = data.take("trace") {
        flags.at(trace.at).add("prompt-tokens", format!("trace:{}", trace_file("data.trace", trace)?));
        let ignored = ["input_distribution", "output_distribution"].map(|key| data.take(key).is_some());
        if ignored.contains(&true) {
            flags.note(
                "data.input_distribution and output_distribution are ignored beside data.trace, as in inference-perf",
            );
        }
        return Ok(());
    }
    let missing = |key: &str| Fault::new(node.at, format!("the type {kind} needs 'data.{key}' or 'data.trace'"));
    let (input, output) = (data.take("input_distribution"), data.take("output_distribution"));
    let input = input.ok_or_else(|| missing("input_distribution"))?;
    let output = output.ok_or_else(|| missing("output_distribution"))?;
    let name = "data.input_distribution";
    // With media, prompts are made by a generator that draws as all others do.
    let prompt = match kind == "synthetic" && data.peek("multimodal").is_some() {
        true => Distribution::read(name, input)?.length(flags)?,
        false => length(name, input, flags)?,
    };
    flags.at(input.at).add("prompt-tokens", prompt);
    let answer = length("data.output_distribution", output, flags)?;
    flags.at(output.at).add("output-tokens", answer);
    // No request of inference-perf repeats another's words, whatever its `total_count`.
    flags.at(input.at).add("num-prompts", "unique");
    Ok(())
}

/// Prompts in groups that begin alike.
fn shared_prefix(data: &mut Fields<'_>, node: &Node, flags: &mut Flags) -> Result<(), Fault> {
    let missing = || Fault::new(node.at, "the type shared_prefix needs 'data.shared_prefix'");
    let mut fields = data.section("shared_prefix")?.ok_or_else(missing)?;
    let groups = fields.either("num_unique_system_prompts", "num_groups")?.unwrap_or(10);
    let prompts = fields.either("num_users_per_system_prompt", "num_prompts_per_group")?.unwrap_or(10);
    let is_conversation = fields.switch("enable_multi_turn_chat")? == Some(true);
    for (key, older, usual, flag) in [
        ("system_prompt_len", "", 100, "prefix-tokens"),
        ("question_len", "question_distribution", 50, "prompt-tokens"),
        ("output_len", "output_distribution", 50, "output-tokens"),
    ] {
        let at = if fields.peek(older).is_some() { fields.place(older) } else { fields.place(key) };
        let (newer, older) = (fields.take(key), fields.take(older));
        let length = match older.or(newer) {
            Some(node) if matches!(node.value, Value::Map(_)) => {
                Distribution::read(&fields.name(key), node)?.length(flags)?
            }
            Some(node) => text(node)
                .and_then(whole)
                .filter(|tokens| *tokens <= u64::from(::data::MAX_TOKENS))
                .ok_or_else(|| {
                    Fault::new(node.at, format!("'{}' takes a number of tokens or a distribution", fields.name(key)))
                })?
                .to_string(),
            None => usual.to_string(),
        };
        match (length.as_str(), flag) {
            // There, a limit of 0 is none, and requests get the usual one.
            ("0", "output-tokens") => flags.at(at).add(flag, OUTPUT_TOKENS),
            ("0", _) => {}
            _ => flags.at(at).add(flag, length),
        }
    }
    if flags.settings.iter().any(|setting| setting.name == "prefix-tokens") {
        flags.at_key(&fields, "num_groups").add("num-prefixes", groups);
    }
    let all = groups.saturating_mul(prompts);
    if is_conversation {
        flags.at_key(&fields, "enable_multi_turn_chat").add("conversations", all);
        flags.add("turns", "endless");
    } else {
        flags.at_key(&fields, "num_prompts_per_group").add("num-prompts", all);
    }
    flags.notes.extend(fields.no_effect("seed", "no effect: load.base_seed, or --seed, draws the prompts, too"));
    if let Some(node) = fields.take("multimodal") {
        media::media("data.shared_prefix.multimodal", node, "prefix-media", flags)?;
    }
    fields.finish()
}

/// The prompts of a data set, which a file has.
fn dataset(data: &mut Fields<'_>, set: &str, node: &Node, flags: &mut Flags) -> Result<(), Fault> {
    let path = data.text("path")?;
    let source = SETS.iter().find(|(name, _)| *name == set).map_or("", |(_, source)| source);
    let path = path.ok_or_else(|| {
        let rule = format!(
            "the type {set} needs 'data.path': download {source} (Hugging Face), and name the file there or as \
             --prompt-tokens dataset:FILE"
        );
        Fault::new(node.at, rule)
    })?;
    let mut bounds = |key: &str| -> Result<Option<(u64, u64)>, Fault> {
        let Some(mut fields) = data.section(key)? else { return Ok(None) };
        let pair = (fields.whole("min", 0)?.unwrap_or(10), fields.whole("max", 1)?.unwrap_or(1024));
        fields.pass_over(&["mean", "std_dev", "std", "variance", "skew", "total_count", "type"]);
        fields.finish().map(|()| Some(pair))
    };
    let (input, output) = (bounds("input_distribution")?, bounds("output_distribution")?);
    let pair = |(least, most): (u64, u64)| format!("{least}:{most}:");
    let unbounded = (0, u64::from(::data::MAX_TOKENS));
    let bounds = match (input, output) {
        (None, None) => String::new(),
        (input, None) => input.map(pair).unwrap_or_default(),
        (input, Some(output)) => pair(input.unwrap_or(unbounded)) + &pair(output),
    };
    flags.at_key(data, "path").add("prompt-tokens", format!("dataset:{bounds}{path}"));
    Ok(())
}

/// Reads `tokenizer`: a file of this machine counts tokens, unless the command line names one.
///
/// # Errors
/// What is not theirs.
pub fn tokenizer(node: Option<&Node>, is_asked: bool, flags: &mut Flags) -> Result<(), Fault> {
    let Some(node) = node else { return Ok(()) };
    let mut fields = Fields::new("tokenizer", node)?;
    let name = fields.text("pretrained_model_name_or_path")?;
    fields.pass_over(&["trust_remote_code", "token", "load_timeout", "data"]);
    fields.finish()?;
    if !is_asked {
        return Ok(());
    }
    let folder = Path::new(name.unwrap_or_default());
    let file = if folder.is_dir() { folder.join("tokenizer.json") } else { folder.to_owned() };
    if file.extension().is_some_and(|end| end == "json") && file.is_file() {
        flags.at(node.at).add("tokenizer", file.display());
    } else {
        flags.note(
            "tokenizer: lengths count words, because a name on a model hub is no file; --tokenizer names the model's \
             tokenizer.json",
        );
    }
    Ok(())
}
