//! Generated payloads for language models: prompts of a given number of words, in the format of an endpoint.

use crate::dataset;
use crate::documents::Documents;
use crate::error::Result;
use crate::lengths::{Blocks, MAX_TOKENS, PromptLength, SharedPrefix, TokenCounts};
use crate::media::{Studio, text_part};
use crate::seed::{self, Purpose};
use crate::steps::{Loaded, Target};
use crate::tokenizer::Tokenizer;
use crate::{PromptCount, PromptSpec};

/// Default number of different prompts.
const USUAL_PROMPTS: u32 = 100;
/// How many unique prompts there are if nobody knows how many requests are sent.
const UNIQUE_PROMPTS: u64 = 10_000;
/// How many bytes of unique prompts are kept in memory; then they repeat.
const MOST_UNIQUE: usize = 1 << 29;

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

/// Generates payloads, the same for the same seed, whatever else is asked for; `rows` are recorded lengths, and `blocks`
/// what recorded prompts have in common.
///
/// # Errors
/// If the model's requests are not JSON documents, a data set cannot be read, or memory is lacking.
pub(crate) fn load(
    target: &Target<'_>,
    spec: &PromptSpec,
    rows: &[TokenCounts],
    blocks: Option<&Blocks>,
) -> Result<Loaded> {
    let mut payloads = Documents::of_form(target, spec.form)?;
    let tokenizer = spec.tokenizer.as_deref().map(Tokenizer::read).transpose()?;
    if let PromptLength::Dataset(dataset) = &spec.prompt {
        let wanted =
            dataset::Wanted { dataset, form: spec.form, tokenizer: tokenizer.as_ref(), count: exactly(spec.count) };
        let notes = add_dataset(&mut payloads, spec, &wanted)?;
        return Ok(payloads.loaded(notes));
    }
    let block_tokens = blocks.map_or(0, |blocks| blocks.size(rows));
    let writer = Writer { spec, seed: target.spec.seed, tokenizer: tokenizer.as_ref(), rows, blocks, block_tokens };
    let count = match spec.count {
        PromptCount::Exactly(count) => count,
        PromptCount::Usual if rows.is_empty() => USUAL_PROMPTS,
        PromptCount::Usual => u32::try_from(rows.len()).unwrap_or(u32::MAX),
        // Pictures and films are made before anything is sent.
        PromptCount::Unique if !spec.media.is_empty() || !spec.prefix_media.is_empty() => USUAL_PROMPTS,
        PromptCount::Unique => u32::try_from(target.spec.requests.unwrap_or(UNIQUE_PROMPTS)).unwrap_or(u32::MAX),
    };
    let (prefixes, order) = (writer.prefixes(0)?, writer.order(count));
    let (mut inexact, mut studio) = (0, Studio::default());
    let (mut bytes, mut warnings) = (0, Vec::new());
    warnings
        .extend(blocks.and_then(|blocks| size_note("--prompt-tokens trace", u64::from(blocks.tokens), block_tokens)));
    for number in 0..count {
        let group = order.get(number as usize).copied();
        let shared = group.map(|group| GroupPrefix { group, prefix: &prefixes[group as usize] });
        if !spec.media.is_empty() || !spec.prefix_media.is_empty() {
            let (question, output, is_exact) = writer.prompt(number, None)?;
            inexact += u32::from(!is_exact);
            let content = with_media(&mut studio, &writer, shared, number, &question)?;
            let message = serde_json::json!({ "role": "user", "content": content });
            payloads.add(&dataset::Prompt::Messages(vec![message]).fields(spec.form), output, None)?;
            continue;
        }
        let (prompt, output, is_exact) = writer.prompt(number, shared.map(|shared| shared.prefix))?;
        inexact += u32::from(!is_exact);
        bytes += prompt.len();
        payloads.add(&dataset::Prompt::Text(prompt).fields(spec.form), output, None)?;
        if spec.count == PromptCount::Unique && bytes > MOST_UNIQUE && number + 1 < count {
            let made = number + 1;
            warnings.push(format!(
                "--num-prompts unique: {made} prompts of {count} fill 512 MB; further requests send them again"
            ));
            break;
        }
    }
    warnings.extend(inexact_warning(inexact));
    Ok(payloads.loaded(warnings))
}

/// Adds the prompts of a data set. Returns what is to be said of it.
fn add_dataset(
    payloads: &mut Documents<'_, '_>,
    spec: &PromptSpec,
    wanted: &dataset::Wanted<'_>,
) -> Result<Vec<String>> {
    let found = dataset::read(wanted)?;
    for (number, entry) in found.entries.into_iter().enumerate() {
        let draws = Draws::new(payloads.seed(), Purpose::Prompts, number as u64);
        let output = spec.output.map(|length| length.draw(draws.seed, 2)).or(entry.output);
        let output = output.or(spec.form.least_output());
        payloads.add(&entry.prompt.fields(spec.form), output, None)?;
    }
    let notes = [
        (found.unknown, "entries of no known form are left out (docs/services.md)"),
        (
            found.without_pictures,
            "entries with pictures are sent without them: only the messages of chats hold them, and files must be there",
        ),
    ];
    let notes = notes.into_iter().filter(|(count, _)| *count > 0);
    Ok(notes.map(|(count, note)| format!("--prompt-tokens dataset: {note}: {count}")).collect())
}

/// The number that was asked for.
fn exactly(count: PromptCount) -> Option<u32> {
    if let PromptCount::Exactly(count) = count { Some(count) } else { None }
}

/// The prefix of a prompt, which those of its group share.
#[derive(Clone, Copy)]
struct GroupPrefix<'a> {
    group: u32,
    prefix: &'a Prefix,
}

/// The content of a prompt with media: its prefix, which has its own, and its question.
fn with_media(
    studio: &mut Studio,
    writer: &Writer<'_>,
    shared: Option<GroupPrefix<'_>>,
    number: u32,
    question: &str,
) -> Result<Vec<serde_json::Value>> {
    let stream = |purpose, number: u32| seed::hash(seed::derive(writer.seed, purpose), u64::from(number));
    let PromptSpec { media, prefix_media, .. } = writer.spec;
    let text = shared.map_or("", |shared| shared.prefix.text.as_str());
    let group = shared.map_or(0, |shared| shared.group);
    let mut all = studio.content(text, prefix_media, stream(Purpose::Prefixes, group))?;
    let mut question_parts = studio.content(question, media, stream(Purpose::Prompts, number))?;
    let text_of = |part: Option<&serde_json::Value>| part.and_then(|part| part["text"].as_str()).map(str::to_owned);
    // A blank is between both, as in a prompt without media.
    match (text_of(all.last()), text_of(question_parts.first())) {
        (Some(before), Some(after)) => {
            all.pop();
            question_parts[0] = text_part(&format!("{before} {after}"));
        }
        _ if !all.is_empty() && !question_parts.is_empty() => all.push(text_part(" ")),
        _ => {}
    }
    all.extend(question_parts);
    Ok(all)
}

/// What is said where the tokenizer could not be met exactly.
pub(super) fn inexact_warning(count: u32) -> Option<String> {
    (count > 0).then(|| format!("--tokenizer: {count} prompts have slightly more or fewer tokens than asked for"))
}

/// What is said where blocks of recorded prompts have another size than is usual.
pub(super) fn size_note(flag: &str, usual: u64, size: u64) -> Option<String> {
    (size != usual).then(|| {
        format!("{flag}: prompts have more blocks (`hash_ids`) than {usual} tokens would fill: a block is taken to be {size}")
    })
}

/// What a prompt begins with, and how many tokens that has.
pub(super) struct Prefix {
    pub(super) text: String,
    tokens: u64,
}

/// Writes prompts of words.
pub(super) struct Writer<'a> {
    pub(super) spec: &'a PromptSpec,
    pub(super) seed: u64,
    pub(super) tokenizer: Option<&'a Tokenizer>,
    pub(super) rows: &'a [TokenCounts],
    pub(super) blocks: Option<&'a Blocks>,
    pub(super) block_tokens: u64,
}

impl Writer<'_> {
    /// The prefixes that prompts share, if they do, in a stage of the load.
    pub(super) fn prefixes(&self, stage: u32) -> Result<Vec<Prefix>> {
        let Some(SharedPrefix { length, count }) = self.spec.prefix else { return Ok(Vec::new()) };
        let prefix = |number| {
            let number = u64::from(stage) * u64::from(count) + u64::from(number);
            let draws = Draws::new(self.seed, Purpose::Prefixes, number);
            let tokens = length.draw(draws.seed, 0);
            Ok(Prefix { text: self.text(&draws, tokens)?, tokens })
        };
        (0..count).map(prefix).collect()
    }

    /// The prefix of each prompt: of all equally many, in an order that is drawn.
    pub(super) fn order(&self, prompts: u32) -> Vec<u32> {
        let Some(SharedPrefix { count, .. }) = self.spec.prefix else { return Vec::new() };
        let mut order: Vec<u32> = (0..prompts).map(|number| number % count).collect();
        let draws = seed::derive(self.seed, Purpose::PrefixOrder);
        for last in (1..order.len()).rev() {
            order.swap(last, (seed::hash(draws, last as u64) % (last as u64 + 1)) as usize);
        }
        order
    }

    /// A prompt, the limit on output tokens, if any, and whether the prompt has exactly the tokens that are asked for.
    pub(super) fn prompt(&self, number: u32, prefix: Option<&Prefix>) -> Result<(String, Option<u64>, bool)> {
        let at = number as usize % self.rows.len().max(1);
        let draws = Draws::new(self.seed, Purpose::Prompts, u64::from(number));
        let (tokens, output) = draws.lengths(self.spec, self.rows.get(at));
        let words = match self.blocks {
            Some(blocks) => draws.words_of_blocks(tokens, &blocks.each[at], self.block_tokens, self.seed),
            None => draws.drawn_words(tokens),
        };
        let (text, tokens) = match prefix {
            Some(prefix) => (format!("{} {words}", prefix.text), prefix.tokens + tokens),
            None => (words, tokens),
        };
        match self.tokenizer {
            Some(tokenizer) => tokenizer.fit(text, tokens as usize).map(|(text, is_exact)| (text, output, is_exact)),
            None => Ok((text, output, true)),
        }
    }

    /// A text of that many tokens, drawn by `draws`.
    ///
    /// # Errors
    /// If the tokenizer cannot count them.
    pub(super) fn text(&self, draws: &Draws, tokens: u64) -> Result<String> {
        draws.text(tokens, self.tokenizer).map(|(text, _)| text)
    }
}

/// The random draws of one prompt.
pub(super) struct Draws {
    pub(super) seed: u64,
}

impl Draws {
    pub(super) fn new(run_seed: u64, purpose: Purpose, number: u64) -> Self {
        Self { seed: seed::hash(seed::derive(run_seed, purpose), number) }
    }

    /// Tokens of the prompt, and the limit on output tokens, if any.
    fn lengths(&self, spec: &PromptSpec, row: Option<&TokenCounts>) -> (u64, Option<u64>) {
        let most = u64::from(MAX_TOKENS);
        let prompt = match (&spec.prompt, row) {
            (PromptLength::Drawn(length), _) => length.draw(self.seed, 0),
            (PromptLength::Recorded(_) | PromptLength::Dataset(_), row) => {
                row.map_or(1, |row| row.context.clamp(1, most))
            }
        };
        let recorded = row.and_then(|row| row.generated).map(|tokens| tokens.clamp(1, most));
        let output = spec.output.map(|length| length.draw(self.seed, 2)).or(recorded);
        (prompt, output.or(spec.form.least_output()))
    }

    /// A text of that many tokens, and whether it has exactly that many; words without a tokenizer.
    ///
    /// # Errors
    /// If the tokenizer cannot count them.
    pub(super) fn text(&self, tokens: u64, tokenizer: Option<&Tokenizer>) -> Result<(String, bool)> {
        let words = self.drawn_words(tokens);
        match tokenizer {
            Some(tokenizer) => tokenizer.fit(words, tokens as usize),
            None => Ok((words, true)),
        }
    }

    /// So many words, which are the same as in other prompts of a run where blocks of `size` words have the same number, and its own
    /// beyond them.
    pub(super) fn words_of_blocks(&self, count: u64, blocks: &[u64], size: u64, run_seed: u64) -> String {
        let mut parts = Vec::new();
        let mut left = count;
        for block in blocks {
            let words = left.min(size);
            if words > 0 {
                parts.push(Self::new(run_seed, Purpose::Prefixes, *block).drawn_words(words));
            }
            left -= words;
        }
        if left > 0 {
            parts.push(self.drawn_words(left));
        }
        parts.join(" ")
    }

    /// `count` words, separated by blanks.
    pub(super) fn drawn_words(&self, count: u64) -> String {
        let word = |number| WORDS[(seed::hash(self.seed, DRAWS + number) % WORDS.len() as u64) as usize];
        (0..count).map(word).collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PromptForm;
    use crate::documents::document;
    use crate::lengths::{LengthShape, TokenLength};

    fn generated(spec: &PromptSpec, count: u64) -> Vec<serde_json::Value> {
        (0..count)
            .map(|number| {
                let mut out = Vec::new();
                let draws = Draws { seed: seed::hash(7, number) };
                let (words, output) = draws.lengths(spec, None);
                let prompt = dataset::Prompt::Text(draws.drawn_words(words)).fields(spec.form);
                document(&mut out, "m\"", &prompt, spec.form.limit(), output);
                serde_json::from_slice(&out).unwrap()
            })
            .collect()
    }

    #[test]
    fn prompts_have_the_form_and_the_length_that_is_asked_for() {
        let fixed = |mean| TokenLength::unbounded(LengthShape::Normal(mean, 0.0));
        let spec = PromptSpec {
            prompt: PromptLength::Drawn(fixed(12.0)),
            prefix: None,
            output: Some(fixed(5.0)),
            count: PromptCount::Exactly(1),
            form: PromptForm::Messages,
            tokenizer: None,
            media: Vec::new(),
            prefix_media: Vec::new(),
            conversations: None,
        };
        let chat = &generated(&spec, 1)[0];
        assert_eq!((&chat["model"], &chat["max_tokens"]), (&"m\"".into(), &5.into()));
        assert_eq!(chat["messages"][0]["role"], "user");
        assert_eq!(chat["messages"][0]["content"].as_str().unwrap().split(' ').count(), 12);
        let plain = PromptSpec { output: None, form: PromptForm::Prompt, ..spec.clone() };
        assert!(generated(&plain, 1)[0]["prompt"].is_string() && generated(&plain, 1)[0]["max_tokens"].is_null());
        let embedding = PromptSpec { form: PromptForm::Input, ..plain.clone() };
        assert!(generated(&embedding, 1)[0]["input"].is_string());
        let responses = PromptSpec { form: PromptForm::Responses, ..spec.clone() };
        let body = &generated(&responses, 1)[0];
        assert!(body["input"].is_string() && body["max_output_tokens"] == 5 && body["max_tokens"].is_null(), "{body}");
    }

    #[test]
    fn lengths_are_spread_as_asked_and_never_below_one() {
        let spec = PromptSpec {
            prompt: PromptLength::Drawn(TokenLength::unbounded(LengthShape::Normal(100.0, 20.0))),
            prefix: None,
            output: Some(TokenLength::unbounded(LengthShape::Normal(2.0, 50.0))),
            count: PromptCount::Exactly(1),
            form: PromptForm::Prompt,
            tokenizer: None,
            media: Vec::new(),
            prefix_media: Vec::new(),
            conversations: None,
        };
        let all = generated(&spec, 2000);
        let lengths: Vec<f64> =
            all.iter().map(|entry| entry["prompt"].as_str().unwrap().split(' ').count() as f64).collect();
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
            prefix: None,
            output: None,
            count: PromptCount::Usual,
            form: PromptForm::Prompt,
            tokenizer: None,
            media: Vec::new(),
            prefix_media: Vec::new(),
            conversations: None,
        };
        let draws = Draws { seed: 1 };
        let row = |context, generated| TokenCounts { context, generated };
        assert_eq!(draws.lengths(&spec, Some(&row(150, Some(20)))), (150, Some(20)));
        assert_eq!(draws.lengths(&spec, Some(&row(0, Some(u64::MAX)))), (1, Some(u64::from(MAX_TOKENS))));
        assert_eq!(draws.lengths(&spec, Some(&row(150, None))), (150, None), "none was recorded");
    }

    fn spec(tokens: f64, prefix: Option<(f64, u32)>) -> PromptSpec {
        let fixed = |mean| TokenLength::unbounded(LengthShape::Normal(mean, 0.0));
        PromptSpec {
            prompt: PromptLength::Drawn(fixed(tokens)),
            prefix: prefix.map(|(tokens, count)| SharedPrefix { length: fixed(tokens), count }),
            output: None,
            count: PromptCount::Usual,
            form: PromptForm::Prompt,
            tokenizer: None,
            media: Vec::new(),
            prefix_media: Vec::new(),
            conversations: None,
        }
    }

    #[test]
    fn prompts_share_prefixes_in_groups_of_one_size() {
        let spec = spec(5.0, Some((20.0, 4)));
        let writer = Writer { spec: &spec, seed: 3, tokenizer: None, rows: &[], blocks: None, block_tokens: 0 };
        let (prefixes, order) = (writer.prefixes(0).unwrap(), writer.order(12));
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]);
        assert_ne!(order, sorted, "groups are mixed");
        let texts: Vec<String> = (0..12)
            .map(|number| writer.prompt(number, Some(&prefixes[order[number as usize] as usize])).unwrap().0)
            .collect();
        let begins = |text: &String| text.split(' ').take(20).collect::<Vec<_>>().join(" ");
        for (text, group) in texts.iter().zip(&order) {
            assert_eq!(text.split(' ').count(), 25);
            for (other, theirs) in texts.iter().zip(&order) {
                assert_eq!(begins(text) == begins(other), group == theirs);
            }
        }
        let questions: std::collections::HashSet<&str> = texts.iter().map(|text| &text[begins(text).len()..]).collect();
        assert_eq!(questions.len(), 12, "each has a question of its own");
    }

    #[test]
    fn blocks_of_one_number_are_the_same_text() {
        let blocks = Blocks { each: vec![[1, 2].into(), [1, 3].into(), [1, 2, 9].into()], tokens: 8 };
        let row = |context| TokenCounts { context, generated: Some(4) };
        let rows = [row(12), row(16), row(20)];
        let spec = PromptSpec { prompt: PromptLength::Recorded("t.jsonl".into()), ..spec(1.0, None) };
        let writer = Writer {
            spec: &spec,
            seed: 3,
            tokenizer: None,
            rows: &rows,
            blocks: Some(&blocks),
            block_tokens: blocks.size(&rows),
        };
        let words = |number| -> Vec<String> {
            let (text, output, _) = writer.prompt(number, None).unwrap();
            assert_eq!(output, Some(4));
            text.split(' ').map(str::to_owned).collect()
        };
        let (first, second, third) = (words(0), words(1), words(2));
        assert_eq!((first.len(), second.len(), third.len()), (12, 16, 20));
        assert_eq!((&first[..8], &first[8..]), (&second[..8], &third[8..12]));
        assert_ne!(second[8..16], third[8..16]);
        assert_eq!(words(3), first, "rows repeat");
    }
}
