//! Generated payloads for language models: prompts of a given number of words, in the format of an endpoint.

use crate::data::lengths::{MAX_TOKENS, PromptLength, TokenCounts};
use crate::data::steps::{Loaded, Stream, Target, Value};
use crate::data::tokenizer::Tokenizer;
use crate::data::{PromptForm, PromptSpec, strings};
use crate::error::{Error, Result};
use crate::model::DataType;
use crate::seed::{self, Purpose};
use crate::shm::RegionBuilder;

/// Default number of different prompts.
const USUAL_PROMPTS: u32 = 100;

/// Words that most tokenizers encode as one token each.
const WORDS: [&str; 96] = [
    "the", "of", "and", "to", "in", "is", "that", "for", "it", "as", "was", "with", "be", "by", "on", "not", "he",
    "his", "but", "at", "are", "this", "have", "from", "or", "had", "an", "they", "which", "one", "you", "were", "her",
    "all", "she", "there", "would", "their", "we", "him", "been", "has", "when", "who", "will", "more", "no", "if",
    "out", "so", "said", "what", "up", "its", "about", "into", "than", "them", "can", "only", "other", "new", "some",
    "could", "time", "these", "two", "may", "then", "do", "first", "any", "my", "now", "such", "like", "our", "over",
    "man", "me", "even", "most", "made", "after", "also", "did", "many", "before", "must", "through", "years", "where",
    "much", "your", "way", "well",
];

/// Draws of one prompt before its words: two for each length.
const DRAWS: u64 = 4;

/// Generates payloads, the same for the same seed, whatever else is asked for; `rows` are recorded lengths.
///
/// # Errors
/// If the model's requests are not JSON documents, or memory is lacking.
pub(crate) fn load(target: &Target<'_>, spec: &PromptSpec, rows: &[TokenCounts]) -> Result<Loaded> {
    let [input] = &target.model.inputs[..] else { return Err(unfit()) };
    if input.datatype != DataType::Json {
        return Err(unfit());
    }
    let mut memory = RegionBuilder::within(target.spec.memory)?;
    let stream_seed = seed::derive(target.spec.seed, Purpose::Prompts);
    let (mut stream, mut text) = (Stream::default(), Vec::new());
    let tokenizer = spec.tokenizer.as_deref().map(Tokenizer::read).transpose()?;
    let mut inexact = 0;
    let usual = if rows.is_empty() { USUAL_PROMPTS } else { u32::try_from(rows.len()).unwrap_or(u32::MAX) };
    for number in 0..spec.count.unwrap_or(usual) {
        target.take_steps(1)?;
        let draws = Draws { seed: seed::hash(stream_seed, u64::from(number)) };
        let (tokens, output) = draws.lengths(spec, rows.get(number as usize % rows.len().max(1)));
        let prompt = match &tokenizer {
            Some(tokenizer) => {
                let (prompt, is_exact) = tokenizer.fit(draws.words(tokens), tokens as usize)?;
                inexact += u32::from(!is_exact);
                prompt
            }
            None => draws.words(tokens),
        };
        text.clear();
        document(&mut text, &target.model.id.name, (spec.form, &prompt), output);
        let offset = memory.align()?;
        strings::append(&mut memory, &text)?;
        let shape = target.shapes.inputs[0].clone();
        stream.push([Some(Value { region: 0, offset, len: memory.len() - offset, shape })]);
    }
    let warnings = (inexact > 0)
        .then(|| format!("--tokenizer: {inexact} prompts have slightly more or fewer tokens than asked for"));
    let warnings = warnings.into_iter().collect();
    Ok(Loaded { regions: vec![memory.finish()], streams: vec![stream], warnings })
}

fn unfit() -> Error {
    Error::input("--prompt-tokens makes payloads for language models, and this model takes tensors")
}

/// The random draws of one prompt.
struct Draws {
    seed: u64,
}

impl Draws {
    /// Tokens of the prompt, and the limit on output tokens, if any.
    fn lengths(&self, spec: &PromptSpec, row: Option<&TokenCounts>) -> (u64, Option<u64>) {
        let most = u64::from(MAX_TOKENS);
        let prompt = match (&spec.prompt, row) {
            (PromptLength::Drawn(length), _) => length.draw(self.seed, 0),
            (PromptLength::Recorded(_), row) => row.map_or(1, |row| row.context.clamp(1, most)),
        };
        let recorded = row.map(|row| row.generated.clamp(1, most));
        (prompt, spec.output.map(|length| length.draw(self.seed, 2)).or(recorded))
    }

    /// `count` words, separated by blanks.
    fn words(&self, count: u64) -> String {
        let word = |number| WORDS[(seed::hash(self.seed, DRAWS + number) % WORDS.len() as u64) as usize];
        (0..count).map(word).collect::<Vec<_>>().join(" ")
    }
}

/// The payload around a prompt of plain words.
fn document(out: &mut Vec<u8>, model: &str, (form, prompt): (PromptForm, &str), output: Option<u64>) {
    out.extend_from_slice(b"{\"model\":");
    serde_json::to_writer(&mut *out, model).expect("writing to memory cannot fail");
    out.extend_from_slice(match form {
        PromptForm::Messages => b",\"messages\":[{\"role\":\"user\",\"content\":\"",
        PromptForm::Prompt => b",\"prompt\":\"",
        PromptForm::Input => b",\"input\":\"",
    });
    out.extend_from_slice(prompt.as_bytes());
    out.extend_from_slice(if form == PromptForm::Messages { b"\"}]" } else { b"\"" });
    if let Some(output) = output {
        out.extend_from_slice(format!(",\"max_tokens\":{output}").as_bytes());
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::lengths::{LengthShape, TokenLength};

    fn generated(spec: &PromptSpec, count: u64) -> Vec<serde_json::Value> {
        (0..count)
            .map(|number| {
                let mut out = Vec::new();
                let draws = Draws { seed: seed::hash(7, number) };
                let (words, output) = draws.lengths(spec, None);
                document(&mut out, "m\"", (spec.form, &draws.words(words)), output);
                serde_json::from_slice(&out).unwrap()
            })
            .collect()
    }

    #[test]
    fn prompts_have_the_form_and_the_length_that_is_asked_for() {
        let fixed = |mean| TokenLength::unbounded(LengthShape::Normal(mean, 0.0));
        let spec = PromptSpec {
            prompt: PromptLength::Drawn(fixed(12.0)),
            output: Some(fixed(5.0)),
            count: Some(1),
            form: PromptForm::Messages,
            tokenizer: None,
        };
        let chat = &generated(&spec, 1)[0];
        assert_eq!((&chat["model"], &chat["max_tokens"]), (&"m\"".into(), &5.into()));
        assert_eq!(chat["messages"][0]["role"], "user");
        assert_eq!(chat["messages"][0]["content"].as_str().unwrap().split(' ').count(), 12);
        let plain = PromptSpec { output: None, form: PromptForm::Prompt, ..spec.clone() };
        assert!(generated(&plain, 1)[0]["prompt"].is_string() && generated(&plain, 1)[0]["max_tokens"].is_null());
        let embedding = PromptSpec { form: PromptForm::Input, ..plain.clone() };
        assert!(generated(&embedding, 1)[0]["input"].is_string());
    }

    #[test]
    fn lengths_are_spread_as_asked_and_never_below_one() {
        let spec = PromptSpec {
            prompt: PromptLength::Drawn(TokenLength::unbounded(LengthShape::Normal(100.0, 20.0))),
            output: Some(TokenLength::unbounded(LengthShape::Normal(2.0, 50.0))),
            count: Some(1),
            form: PromptForm::Prompt,
            tokenizer: None,
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

    #[test]
    fn recorded_lengths_are_kept() {
        let spec = PromptSpec {
            prompt: PromptLength::Recorded("trace.csv".into()),
            output: None,
            count: None,
            form: PromptForm::Prompt,
            tokenizer: None,
        };
        let draws = Draws { seed: 1 };
        let row = |context, generated| TokenCounts { context, generated };
        assert_eq!(draws.lengths(&spec, Some(&row(150, 20))), (150, Some(20)));
        assert_eq!(draws.lengths(&spec, Some(&row(0, u64::MAX))), (1, Some(u64::from(MAX_TOKENS))));
    }
}
