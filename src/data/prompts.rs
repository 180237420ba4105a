//! Generated payloads for language models: prompts of so many words, in the form that an endpoint takes.

use std::f64::consts::TAU;

use crate::data::steps::{Loaded, Stream, Target, Value};
use crate::data::strings;
use crate::error::{Error, Result};
use crate::model::DataType;
use crate::seed::{self, Purpose};
use crate::shm::RegionBuilder;

/// How many tokens: normally distributed, at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenLength {
    /// The mean.
    pub mean: u32,
    /// The standard deviation.
    pub deviation: u32,
}

/// Which field of a payload the prompt is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptForm {
    /// `messages`, as chat completions have it.
    Messages,
    /// `prompt`, as completions have it.
    Prompt,
    /// `input`, as embeddings have it.
    Input,
}

/// What payloads are to be generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PromptSpec {
    /// Length of the prompts. A word stands for a token.
    pub prompt: TokenLength,
    /// Most tokens of the outputs; as the server has it if absent.
    pub output: Option<TokenLength>,
    /// How many different ones.
    pub count: u32,
    /// Where in the payload they are.
    pub form: PromptForm,
}

/// Words of which most tokenizers make one token each.
const WORDS: [&str; 96] = [
    "the", "of", "and", "to", "in", "is", "that", "for", "it", "as", "was", "with", "be", "by", "on", "not", "he",
    "his", "but", "at", "are", "this", "have", "from", "or", "had", "an", "they", "which", "one", "you", "were", "her",
    "all", "she", "there", "would", "their", "we", "him", "been", "has", "when", "who", "will", "more", "no", "if",
    "out", "so", "said", "what", "up", "its", "about", "into", "than", "them", "can", "only", "other", "new", "some",
    "could", "time", "these", "two", "may", "then", "do", "first", "any", "my", "now", "such", "like", "our", "over",
    "man", "me", "even", "most", "made", "after", "also", "did", "many", "before", "must", "through", "years", "where",
    "much", "your", "way", "well",
];

/// Draws of one prompt before its words: the two of each length.
const DRAWS: u64 = 4;

/// Generates payloads, the same for the same seed, whatever else is asked for.
///
/// # Errors
/// Where the model's requests are no JSON documents, or memory is lacking.
pub(crate) fn load(target: &Target<'_>, spec: &PromptSpec) -> Result<Loaded> {
    let [input] = &target.model.inputs[..] else { return Err(unfit()) };
    if input.datatype != DataType::Json {
        return Err(unfit());
    }
    let mut memory = RegionBuilder::within(target.spec.memory)?;
    let stream_seed = seed::derive(target.spec.seed, Purpose::Prompts);
    let (mut stream, mut text) = (Stream::default(), Vec::new());
    for number in 0..spec.count {
        target.take_steps(1)?;
        let draws = Draws { seed: seed::hash(stream_seed, u64::from(number)) };
        text.clear();
        document(&mut text, &target.model.id.name, spec, &draws);
        let offset = memory.align()?;
        strings::append(&mut memory, &text)?;
        let shape = target.shapes.inputs[0].clone();
        stream.push([Some(Value { region: 0, offset, len: memory.len() - offset, shape })]);
    }
    Ok(Loaded { regions: vec![memory.finish()], streams: vec![stream], ..Loaded::default() })
}

fn unfit() -> Error {
    Error::input("--prompt-tokens makes payloads for language models, and this model takes tensors")
}

/// The random draws of one prompt.
struct Draws {
    seed: u64,
}

impl Draws {
    /// A length, from the draws `first` and the one after it.
    fn length(&self, length: TokenLength, first: u64) -> u64 {
        let unit = |number| seed::unit(seed::hash(self.seed, number));
        // Box and Muller's transform; the logarithm's argument is never 0.
        let normal = (-2.0 * (1.0 - unit(first)).ln()).sqrt() * (TAU * unit(first + 1)).cos();
        (f64::from(length.mean) + normal * f64::from(length.deviation)).round().max(1.0) as u64
    }

    fn word(&self, number: u64) -> &'static str {
        WORDS[(seed::hash(self.seed, DRAWS + number) % WORDS.len() as u64) as usize]
    }
}

fn document(out: &mut Vec<u8>, model: &str, spec: &PromptSpec, draws: &Draws) {
    out.extend_from_slice(b"{\"model\":");
    serde_json::to_writer(&mut *out, model).expect("writing to memory cannot fail");
    out.extend_from_slice(match spec.form {
        PromptForm::Messages => b",\"messages\":[{\"role\":\"user\",\"content\":\"",
        PromptForm::Prompt => b",\"prompt\":\"",
        PromptForm::Input => b",\"input\":\"",
    });
    for number in 0..draws.length(spec.prompt, 0) {
        if number > 0 {
            out.push(b' ');
        }
        out.extend_from_slice(draws.word(number).as_bytes());
    }
    out.extend_from_slice(if spec.form == PromptForm::Messages { b"\"}]" } else { b"\"" });
    if let Some(output) = spec.output {
        out.extend_from_slice(format!(",\"max_tokens\":{}", draws.length(output, 2)).as_bytes());
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generated(spec: &PromptSpec, count: u64) -> Vec<serde_json::Value> {
        (0..count)
            .map(|number| {
                let mut out = Vec::new();
                document(&mut out, "m\"", spec, &Draws { seed: seed::hash(7, number) });
                serde_json::from_slice(&out).unwrap()
            })
            .collect()
    }

    #[test]
    fn prompts_have_the_form_and_the_length_that_is_asked_for() {
        let fixed = |mean| TokenLength { mean, deviation: 0 };
        let spec = PromptSpec { prompt: fixed(12), output: Some(fixed(5)), count: 1, form: PromptForm::Messages };
        let chat = &generated(&spec, 1)[0];
        assert_eq!((&chat["model"], &chat["max_tokens"]), (&"m\"".into(), &5.into()));
        assert_eq!(chat["messages"][0]["role"], "user");
        assert_eq!(chat["messages"][0]["content"].as_str().unwrap().split(' ').count(), 12);
        let plain = PromptSpec { output: None, form: PromptForm::Prompt, ..spec };
        assert!(generated(&plain, 1)[0]["prompt"].is_string() && generated(&plain, 1)[0]["max_tokens"].is_null());
        let embedding = PromptSpec { form: PromptForm::Input, ..plain };
        assert!(generated(&embedding, 1)[0]["input"].is_string());
    }

    #[test]
    fn lengths_are_spread_as_asked_and_never_below_one() {
        let spec = PromptSpec {
            prompt: TokenLength { mean: 100, deviation: 20 },
            output: Some(TokenLength { mean: 2, deviation: 50 }),
            count: 1,
            form: PromptForm::Prompt,
        };
        let all = generated(&spec, 2000);
        let lengths: Vec<f64> =
            all.iter().map(|one| one["prompt"].as_str().unwrap().split(' ').count() as f64).collect();
        let mean = lengths.iter().sum::<f64>() / 2000.0;
        let deviation = (lengths.iter().map(|length| (length - mean).powi(2)).sum::<f64>() / 2000.0).sqrt();
        assert!((mean - 100.0).abs() < 2.0 && (deviation - 20.0).abs() < 2.0, "{mean} {deviation}");
        assert!(all.iter().all(|one| one["max_tokens"].as_u64().unwrap() >= 1));
        assert_ne!(all[0], all[1]);
        assert_eq!(generated(&spec, 5), all[..5], "the same seed, the same prompts");
    }
}
