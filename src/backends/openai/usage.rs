//! [`Usage`]: how many tokens a server counts, in the forms in use.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::backend::InputTokens;

/// A count above this is none: no text has so many tokens, and sums of such counts mean nothing.
const MOST: u64 = 1 << 40;

/// Counts of tokens. As text: whatever else a server writes here does not make another document of its answer.
#[derive(Clone, Copy, Default, Deserialize)]
pub(super) struct Usage<'a> {
    #[serde(default, borrow)]
    completion_tokens: Option<&'a RawValue>,
    /// The Responses API's name for them.
    #[serde(default, borrow)]
    output_tokens: Option<&'a RawValue>,
    /// Those of the input, under both names.
    #[serde(default, borrow)]
    prompt_tokens: Option<&'a RawValue>,
    #[serde(default, borrow)]
    input_tokens: Option<&'a RawValue>,
    #[serde(default, borrow)]
    prompt_tokens_details: Option<&'a RawValue>,
    #[serde(default, borrow)]
    input_tokens_details: Option<&'a RawValue>,
    /// Those of both together.
    #[serde(default, borrow)]
    total_tokens: Option<&'a RawValue>,
    /// Of the input, what came from the cache: DeepSeek's name, and Moonshot's.
    #[serde(default, borrow)]
    prompt_cache_hit_tokens: Option<&'a RawValue>,
    #[serde(default, borrow)]
    cached_tokens: Option<&'a RawValue>,
    /// Of Anthropic's messages: what came from the cache, and what was put into it.
    #[serde(default, borrow)]
    cache_read_input_tokens: Option<&'a RawValue>,
    #[serde(default, borrow)]
    cache_creation_input_tokens: Option<&'a RawValue>,
}

/// Of the tokens of an input.
#[derive(Deserialize)]
struct Details<'a> {
    #[serde(default, borrow)]
    cached_tokens: Option<&'a RawValue>,
}

impl<'a> Usage<'a> {
    /// What a server writes as its usage; `None` where that is something else.
    pub(super) fn read(text: &'a RawValue) -> Option<Self> {
        members(text)
    }

    /// Output tokens.
    pub(super) fn generated(self) -> Option<u64> {
        self.completion_tokens.or(self.output_tokens).and_then(number)
    }

    /// Whether a count of all tokens of the input or output is no number that it may be.
    pub(super) fn is_unreadable(self) -> bool {
        let counts = [self.completion_tokens, self.output_tokens, self.prompt_tokens, self.input_tokens];
        counts.into_iter().flatten().any(|count| number(count).is_none())
    }

    /// Input tokens.
    pub(super) fn input(self) -> InputTokens {
        let [read, written] =
            [self.cache_read_input_tokens, self.cache_creation_input_tokens].map(|text| text.and_then(number));
        // Anthropic's input_tokens are those alone that were neither read from the cache nor written into it
        // (https://docs.anthropic.com/en/docs/build-with-claude/prompt-caching); others count all under either name.
        let whole = |tokens: u64| tokens.saturating_add(read.unwrap_or(0)).saturating_add(written.unwrap_or(0));
        let details = self.prompt_tokens_details.or(self.input_tokens_details);
        let details = details.and_then(members::<Details<'_>>);
        let others = || self.prompt_cache_hit_tokens.or(self.cached_tokens).and_then(number);
        InputTokens {
            all: match self.prompt_tokens {
                Some(tokens) => number(tokens),
                None => self.input_tokens.and_then(number).map(whole),
            }
            // Some servers write 0 where they do not count.
            .filter(|all| *all > 0),
            cached: details.and_then(|details| details.cached_tokens).and_then(number).or(read).or_else(others),
            by_tokenizer: false,
        }
    }

    /// Input tokens of an answer without output, such as an embedding or a ranking, where only the sum is told.
    pub(super) fn input_alone(self) -> InputTokens {
        let parts = [self.completion_tokens, self.output_tokens, self.prompt_tokens, self.input_tokens];
        let sum = if parts.iter().all(Option::is_none) { self.total_tokens } else { None };
        InputTokens { all: sum.and_then(number), ..InputTokens::default() }
    }

    /// Input tokens of an event of Anthropic's messages, if it tells: some servers write 0 into the beginning or into the end,
    /// and have the number in the other.
    pub(super) fn known_input(self) -> Option<InputTokens> {
        Some(self.input()).filter(|input| input.all.is_some())
    }
}

/// What a service counts beside a text, in a form without a usage.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    /// Output tokens so far.
    pub(super) tokens: Option<u64>,
    /// Input tokens.
    pub(super) input: InputTokens,
}

impl Counts {
    /// Those of a document that writes them beside everything else, as llama.cpp and Ollama do.
    pub(super) fn plain(tokens: Option<&RawValue>, input: Option<&RawValue>) -> Self {
        let input = InputTokens { all: input.and_then(number), ..InputTokens::default() };
        Self { tokens: tokens.and_then(number), input }
    }

    /// Those in TGI's `details` of an answer.
    pub(super) fn of_details(details: &RawValue) -> Self {
        #[derive(Deserialize)]
        struct Details<'a> {
            #[serde(default, borrow)]
            generated_tokens: Option<&'a RawValue>,
            /// Of streams alone.
            #[serde(default, borrow)]
            input_length: Option<&'a RawValue>,
        }
        let details = members::<Details<'_>>(details);
        details.map_or_else(Self::default, |counts| Self::plain(counts.generated_tokens, counts.input_length))
    }

    /// Those in SGLang's `meta_info` of an answer, or of an event: there they are those so far.
    pub(super) fn of_meta_info(meta_info: &RawValue) -> Self {
        #[derive(Deserialize)]
        struct MetaInfo<'a> {
            #[serde(default, borrow)]
            completion_tokens: Option<&'a RawValue>,
            #[serde(default, borrow)]
            prompt_tokens: Option<&'a RawValue>,
            #[serde(default, borrow)]
            cached_tokens: Option<&'a RawValue>,
        }
        let Some(counts) = members::<MetaInfo<'_>>(meta_info) else { return Self::default() };
        let Self { tokens, input } = Self::plain(counts.completion_tokens, counts.prompt_tokens);
        Self { tokens, input: InputTokens { cached: counts.cached_tokens.and_then(number), ..input } }
    }

    /// The first of each that there is.
    pub(super) fn or(self, other: Self) -> Self {
        Self { tokens: self.tokens.or(other.tokens), input: self.input.or(other.input) }
    }
}

/// The members of an object; `None` of anything else. A list would be read as members without names.
pub(super) fn members<'a, T: Deserialize<'a>>(text: &'a RawValue) -> Option<T> {
    let text = text.get();
    if text.starts_with('{') { serde_json::from_str(text).ok() } else { None }
}

/// A whole number that a count of tokens may be, however it is written; none if a server writes something else there.
pub(super) fn number(text: &RawValue) -> Option<u64> {
    let text = text.get();
    let fraction =
        || text.parse().ok().filter(|number: &f64| number.fract() == 0.0 && (0.0..=MOST as f64).contains(number));
    text.parse().ok().or_else(|| fraction().map(|number| number as u64)).filter(|count| *count <= MOST)
}
