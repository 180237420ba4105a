//! `data`: what requests carry.

use crate::cli::config::fields::{Fields, text};
use crate::cli::config::flags::Flags;
use crate::cli::config::inference_perf::load::trace_file;
use crate::cli::config::yaml::{Fault, Node};

/// Words of inference-perf's mock prompts: `1 2 3` and a number.
const MOCK: u32 = 4;

/// Data sets of inference-perf that have to be converted.
const SETS: &[&str] = &[
    "shareGPT",
    "shared_prefix",
    "cnn_dailymail",
    "infinity_instruct",
    "billsum_conversations",
    "otel_trace_replay",
    "weka_trace_replay",
    "conversation_replay",
    "visionarena",
    "synthetic_agentic",
];
const CONVERT: &str = "write its prompts as payloads into a JSON file for --input-data (docs/input-data.md)";

/// Reads the section.
///
/// # Errors
/// What is not theirs, or has no counterpart.
pub fn data(node: Option<&Node>, flags: &mut Flags) -> Result<(), Fault> {
    let Some(node) = node else {
        flags.add("prompt-tokens", MOCK);
        return Ok(());
    };
    let mut data = Fields::of("data", node)?;
    let kind = data.peek("type").and_then(text).unwrap_or("mock");
    if SETS.contains(&kind) {
        data.refuse("type", CONVERT)?;
    }
    let kind = data.word("type", &["mock", "random", "synthetic"])?.unwrap_or("mock");
    let drawn = "only the types random and synthetic take it";
    if kind == "mock" {
        ["input_distribution", "output_distribution", "trace"].iter().try_for_each(|key| data.refuse(key, drawn))?;
        flags.of(&data, "type").add("prompt-tokens", MOCK);
    } else if let Some(trace) = data.take("trace") {
        flags.at(trace.at).add("prompt-tokens", format!("trace:{}", trace_file("data.trace", trace)?));
        let ignored = ["input_distribution", "output_distribution"].map(|key| data.take(key).is_some());
        if ignored.contains(&true) {
            flags.note(
                "data.input_distribution and output_distribution are ignored beside data.trace, as in inference-perf",
            );
        }
    } else {
        let missing = |key: &str| Fault::new(node.at, format!("the type {kind} needs 'data.{key}' or 'data.trace'"));
        let (input, output) = (data.take("input_distribution"), data.take("output_distribution"));
        let input = input.ok_or_else(|| missing("input_distribution"))?;
        let output = output.ok_or_else(|| missing("output_distribution"))?;
        let (prompts, count) = length("data.input_distribution", input)?;
        let (outputs, others) = length("data.output_distribution", output)?;
        flags.at(input.at).add("prompt-tokens", prompts);
        flags.at(output.at).add("output-tokens", outputs);
        let counts = count.map(|count| (count, input.at)).into_iter().chain(others.map(|count| (count, output.at)));
        if let Some((count, at)) = counts.min_by_key(|(count, _)| *count) {
            flags.at(at).add("num-prompts", count);
        }
    }
    data.refuse("path", CONVERT)?;
    data.refuse("corpus_file_path", &format!("prompts are made of common words; for others, {CONVERT}"))?;
    SETS.iter().try_for_each(|key| data.refuse(key, CONVERT))?;
    data.refuse("multimodal", CONVERT)?;
    if data.switch("use_chat_template")? == Some(true) {
        return Err(Fault::new(
            node.at,
            "'data.use_chat_template' has no counterpart: api.type chat lets the server apply it",
        ));
    }
    data.finish()
}

/// A distribution as a value of `--prompt-tokens`, and the number of draws.
fn length(name: &str, node: &Node) -> Result<(String, Option<u64>), Fault> {
    let mut of = Fields::of(name, node)?;
    let (least, most) = (of.whole("min", 0)?.unwrap_or(10).max(1), of.whole("max", 1)?.unwrap_or(1024));
    let mean = of.positive("mean")?.unwrap_or(512.0);
    let (deviation, variance) = (of.number("std_dev", 0.0)?, of.number("variance", 0.0)?);
    let deviation = match (deviation, variance) {
        (Some(above), Some(_)) if above > 0.0 => {
            return Err(Fault::new(node.at, format!("'{name}' has both std_dev and variance: choose one")));
        }
        (_, Some(variance)) => variance.sqrt(),
        (deviation, None) => deviation.unwrap_or(200.0),
    };
    let skew = of.number("skew", f64::MIN)?.unwrap_or(0.0);
    let count = of.whole("total_count", 1)?;
    let kinds = ["normal", "skew_normal", "lognormal", "uniform", "poisson", "fixed"];
    let kind = of.word("type", &kinds)?.unwrap_or("normal");
    of.finish()?;
    if least > most {
        return Err(Fault::new(node.at, format!("'{name}.min' is above its max")));
    }
    let length = match kind {
        "skew_normal" => format!("skew-normal:{mean}:{deviation}:{skew}:{least}:{most}"),
        "uniform" => format!("uniform:{least}:{most}"),
        "poisson" => format!("poisson:{mean}:{least}:{most}"),
        "fixed" => format!("{}", mean.trunc().max(1.0)),
        kind => format!("{kind}:{mean}:{deviation}:{least}:{most}"),
    };
    Ok((length, count))
}
