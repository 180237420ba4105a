//! What language models generated in one window: times to tokens and between them, and how many there were.

#[cfg(not(loom))]
use schemars::JsonSchema;
#[cfg(not(loom))]
use serde::{Deserialize, Serialize};

use crate::backend::{Generation, InputTokens};
use crate::clock::Stamp;
use crate::distribution::Distribution;
use crate::histogram::{AtomicHistogram, CoarseHistogram};
use crate::sync::{AtomicU64, Ordering};

/// Limits that a request has to keep to be a good one, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Of the latency, from the intended send in open loops.
    pub latency: Option<u64>,
    /// Of the time to the first token.
    pub first_token: Option<u64>,
    /// Of the mean time between its tokens.
    pub inter_token: Option<u64>,
    /// Of the latency divided by the number of its tokens.
    pub normalized: Option<u64>,
}

/// The figures of a request that limits hold for, in nanoseconds.
struct Judged {
    latency: u64,
    first_token: Option<u64>,
    inter_token: Option<u64>,
    normalized: Option<u64>,
}

impl Limits {
    /// Whether there is any.
    pub fn is_any(&self) -> bool {
        *self != Self::default()
    }

    /// Whether a request keeps them that has only a latency.
    pub fn keeps_latency(&self, latency_ns: u64) -> bool {
        self.latency.is_none_or(|limit| latency_ns < limit)
    }

    /// Whether a request keeps them. One of which a time is not known does not keep the limit of that time.
    fn keeps(&self, judged: &Judged) -> bool {
        let has = |limit: Option<u64>, found: Option<u64>| limit.is_none_or(|limit| found.is_some_and(|ns| ns < limit));
        self.keeps_latency(judged.latency)
            && has(self.first_token, judged.first_token)
            && has(self.normalized, judged.normalized)
            && has(self.inter_token, judged.inter_token)
    }
}

/// One window's counters in one shard. Threads add without waiting.
pub(super) struct GenerationBank {
    first_token: AtomicHistogram,
    second_token: AtomicHistogram,
    gap: AtomicHistogram,
    inter_token: AtomicHistogram,
    normalised: AtomicHistogram,
    input_lengths: CoarseHistogram,
    output_lengths: CoarseHistogram,
    request_bytes: CoarseHistogram,
    /// Thousandths of tokens a second, of requests with tokens at different times, summed.
    user_rates: AtomicU64,
    users: AtomicU64,
    tokens: AtomicU64,
    counted: AtomicU64,
    by_tokenizer: AtomicU64,
    by_chunks: AtomicU64,
    empty: AtomicU64,
    unended: AtomicU64,
    unreadable: AtomicU64,
    unstreamed: AtomicU64,
    events: AtomicU64,
    reads: AtomicU64,
    input: AtomicU64,
    inputs: AtomicU64,
    inputs_by_tokenizer: AtomicU64,
    cacheable: AtomicU64,
    cached: AtomicU64,
}

impl GenerationBank {
    pub(super) fn new() -> Self {
        let (zero, histogram) = (|| AtomicU64::new(0), AtomicHistogram::new);
        Self {
            first_token: histogram(),
            second_token: histogram(),
            gap: histogram(),
            inter_token: histogram(),
            normalised: histogram(),
            input_lengths: CoarseHistogram::new(),
            output_lengths: CoarseHistogram::new(),
            request_bytes: CoarseHistogram::new(),
            user_rates: zero(),
            users: zero(),
            tokens: zero(),
            counted: zero(),
            by_tokenizer: zero(),
            by_chunks: zero(),
            empty: zero(),
            unended: zero(),
            unreadable: zero(),
            unstreamed: zero(),
            events: zero(),
            reads: zero(),
            input: zero(),
            inputs: zero(),
            inputs_by_tokenizer: zero(),
            cacheable: zero(),
            cached: zero(),
        }
    }

    pub(super) fn gap(&self, ns: u64) {
        self.gap.record(ns);
    }

    /// Adds what a request brought that began at `start`; whether it keeps the `limits`.
    pub(super) fn record(&self, start: Stamp, generation: &Generation, limits: &Limits) -> bool {
        let Generation { end, first, second, chunks, .. } = *generation;
        let since_start = |stamp: Stamp| stamp.since(start);
        first.into_iter().for_each(|first| self.first_token.record(since_start(first)));
        first.zip(second).into_iter().for_each(|(first, second)| self.second_token.record(second.since(first)));
        add(&self.events, u64::from(generation.events));
        add(&self.reads, u64::from(generation.reads));
        add(&self.input, generation.input.all.unwrap_or(0));
        generation.input.all.into_iter().for_each(|tokens| self.input_lengths.record(tokens));
        // Where the request is no text, nobody counts its bytes.
        if generation.request_bytes > 0 {
            self.request_bytes.record(generation.request_bytes);
        }
        add(&self.inputs, u64::from(generation.input.all.is_some()));
        add(&self.inputs_by_tokenizer, u64::from(generation.input.by_tokenizer));
        if let InputTokens { all: Some(all), cached: Some(cached), .. } = generation.input {
            add(&self.cacheable, all);
            add(&self.cached, cached.min(all));
        }
        add(&self.empty, u64::from(chunks == 0));
        add(&self.unended, u64::from(generation.unended));
        add(&self.unreadable, u64::from(generation.unreadable));
        add(&self.unstreamed, u64::from(generation.unstreamed));
        let latency_ns = since_start(end);
        // Chunks of a body say nothing of its tokens.
        let tokens = generation.tokens.or_else(|| first.map(|_| u64::from(chunks))).filter(|&tokens| tokens > 0);
        let inter_token = first.map(|first| (generation.later_tokens(), end.since(first)));
        let inter_token = inter_token.filter(|&(later, ns)| later > 0 && ns > 0);
        if let Some(tokens) = tokens {
            add(&self.tokens, tokens);
            self.output_lengths.record(tokens);
            let counter = match generation.tokens {
                Some(_) if generation.by_tokenizer => &self.by_tokenizer,
                Some(_) => &self.counted,
                None => &self.by_chunks,
            };
            add(counter, 1);
            self.normalised.record(latency_ns / tokens);
        }
        if let Some((later, ns)) = inter_token {
            self.inter_token.record(ns / later);
            let rate = u128::from(later) * 1_000_000_000_000 / u128::from(ns);
            add(&self.user_rates, u64::try_from(rate).unwrap_or(u64::MAX));
            add(&self.users, 1);
        }
        limits.keeps(&Judged {
            latency: latency_ns,
            first_token: first.map(since_start),
            inter_token: inter_token.map(|(later, ns)| ns / later),
            normalized: tokens.map(|tokens| latency_ns / tokens),
        })
    }

    pub(super) fn drain_into(&self, generated: &mut Generated) {
        let times = [
            (&self.first_token, &mut generated.first_token),
            (&self.second_token, &mut generated.second_token),
            (&self.gap, &mut generated.gap),
            (&self.inter_token, &mut generated.inter_token),
            (&self.normalised, &mut generated.normalised),
        ];
        times.into_iter().for_each(|(from, to)| from.drain_into(to));
        let sizes = [
            (&self.input_lengths, &mut generated.input_lengths),
            (&self.output_lengths, &mut generated.output_lengths),
            (&self.request_bytes, &mut generated.request_bytes),
        ];
        sizes.into_iter().for_each(|(from, to)| from.drain_into(to));
        let counts = [
            (&self.user_rates, &mut generated.user_rates),
            (&self.users, &mut generated.users),
            (&self.tokens, &mut generated.tokens),
            (&self.counted, &mut generated.counted),
            (&self.by_tokenizer, &mut generated.by_tokenizer),
            (&self.by_chunks, &mut generated.by_chunks),
            (&self.empty, &mut generated.empty),
            (&self.unended, &mut generated.unended),
            (&self.unreadable, &mut generated.unreadable),
            (&self.unstreamed, &mut generated.unstreamed),
            (&self.events, &mut generated.events),
            (&self.reads, &mut generated.reads),
            (&self.input, &mut generated.input_tokens),
            (&self.inputs, &mut generated.inputs),
            (&self.inputs_by_tokenizer, &mut generated.inputs_by_tokenizer),
            (&self.cacheable, &mut generated.cacheable_tokens),
            (&self.cached, &mut generated.cached_tokens),
        ];
        counts.into_iter().for_each(|(from, to)| *to += from.swap(0, Ordering::Relaxed));
    }
}

#[inline]
fn add(counter: &AtomicU64, amount: u64) {
    if amount > 0 {
        counter.fetch_add(amount, Ordering::Relaxed);
    }
}

/// What was generated in one window, or in several.
#[derive(Clone, Debug)]
#[cfg_attr(not(loom), derive(Serialize, Deserialize, JsonSchema))]
pub struct Generated {
    /// From the start of a request (the intended send in open loops) to its first content event.
    pub first_token: Distribution,
    /// From there to the second one.
    pub second_token: Distribution,
    /// Between neighbouring content events, of all requests.
    pub gap: Distribution,
    /// Mean time between the tokens of a request after its first content event, of requests with further ones.
    pub inter_token: Distribution,
    /// Latency by the tokens of a request.
    pub normalised: Distribution,
    /// Tokens of each input that the server counted.
    #[cfg_attr(not(loom), serde(default = "Distribution::empty"))]
    pub input_lengths: Distribution,
    /// Tokens of each output.
    #[cfg_attr(not(loom), serde(default = "Distribution::empty"))]
    pub output_lengths: Distribution,
    /// Bytes of each request's body.
    #[cfg_attr(not(loom), serde(default = "Distribution::empty"))]
    pub request_bytes: Distribution,
    /// Tokens a second of each user, summed.
    user_rates: u64,
    /// Number of requests in the sum.
    users: u64,
    /// Tokens of all outputs.
    pub tokens: u64,
    /// Requests whose tokens the server counted.
    pub counted: u64,
    /// Requests whose tokens were counted with `--tokenizer`, because the server does not report them.
    #[cfg_attr(not(loom), serde(default))]
    pub by_tokenizer: u64,
    /// Requests whose content events are counted as tokens, because the server does not report tokens.
    pub by_chunks: u64,
    /// Requests that succeeded without content.
    pub empty: u64,
    /// Requests whose stream ended without `[DONE]`.
    pub unended: u64,
    /// Requests whose usage has a count that cannot be read, or cannot be.
    #[cfg_attr(not(loom), serde(default))]
    pub unreadable: u64,
    /// Requests for which a stream was asked, and whose answer was none.
    #[cfg_attr(not(loom), serde(default))]
    pub unstreamed: u64,
    /// Events of all streams.
    pub events: u64,
    /// Reads from the network that events ended in.
    pub reads: u64,
    /// Tokens of all inputs whose tokens were counted.
    #[cfg_attr(not(loom), serde(default))]
    pub input_tokens: u64,
    /// Number of these inputs.
    #[cfg_attr(not(loom), serde(default))]
    pub inputs: u64,
    /// Those of them that were counted with `--tokenizer`, because the server does not report their tokens.
    #[cfg_attr(not(loom), serde(default))]
    pub inputs_by_tokenizer: u64,
    /// Tokens of the inputs of which the server said how many came from a cache.
    #[cfg_attr(not(loom), serde(default))]
    pub cacheable_tokens: u64,
    /// Those that did.
    #[cfg_attr(not(loom), serde(default))]
    pub cached_tokens: u64,
}

impl Generated {
    /// Nothing yet.
    pub fn empty() -> Self {
        let times = Distribution::empty;
        Self {
            first_token: times(),
            second_token: times(),
            gap: times(),
            inter_token: times(),
            normalised: times(),
            input_lengths: times(),
            output_lengths: times(),
            request_bytes: times(),
            user_rates: 0,
            users: 0,
            tokens: 0,
            counted: 0,
            by_tokenizer: 0,
            by_chunks: 0,
            empty: 0,
            unended: 0,
            unreadable: 0,
            unstreamed: 0,
            events: 0,
            reads: 0,
            input_tokens: 0,
            inputs: 0,
            inputs_by_tokenizer: 0,
            cacheable_tokens: 0,
            cached_tokens: 0,
        }
    }

    /// Mean over requests of the tokens a second that each one's user sees, after the first; none if nothing is known of it.
    pub fn tokens_per_user(&self) -> Option<f64> {
        (self.users > 0).then(|| self.user_rates as f64 / 1000.0 / self.users as f64)
    }

    /// Requests whose tokens are known, or taken to be.
    pub fn with_tokens(&self) -> u64 {
        self.counted + self.by_tokenizer + self.by_chunks
    }

    /// Events that end in one read, on average; 0 where there are no streams.
    pub fn events_per_read(&self) -> f64 {
        if self.reads == 0 { 0.0 } else { self.events as f64 / self.reads as f64 }
    }

    /// Adds everything that `other` holds.
    pub fn merge(&mut self, other: &Self) {
        let times = [
            (&mut self.first_token, &other.first_token),
            (&mut self.second_token, &other.second_token),
            (&mut self.gap, &other.gap),
            (&mut self.inter_token, &other.inter_token),
            (&mut self.normalised, &other.normalised),
            (&mut self.input_lengths, &other.input_lengths),
            (&mut self.output_lengths, &other.output_lengths),
            (&mut self.request_bytes, &other.request_bytes),
        ];
        times.into_iter().for_each(|(mine, theirs)| mine.merge(theirs));
        let counts = [
            (&mut self.user_rates, other.user_rates),
            (&mut self.users, other.users),
            (&mut self.tokens, other.tokens),
            (&mut self.counted, other.counted),
            (&mut self.by_tokenizer, other.by_tokenizer),
            (&mut self.by_chunks, other.by_chunks),
            (&mut self.empty, other.empty),
            (&mut self.unended, other.unended),
            (&mut self.unreadable, other.unreadable),
            (&mut self.unstreamed, other.unstreamed),
            (&mut self.events, other.events),
            (&mut self.reads, other.reads),
            (&mut self.input_tokens, other.input_tokens),
            (&mut self.inputs, other.inputs),
            (&mut self.inputs_by_tokenizer, other.inputs_by_tokenizer),
            (&mut self.cacheable_tokens, other.cacheable_tokens),
            (&mut self.cached_tokens, other.cached_tokens),
        ];
        counts.into_iter().for_each(|(mine, theirs)| *mine += theirs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A stream that began at 0, whose first token came after 50 ms, and one more every 10 ms.
    fn stream(chunks: u32, tokens: Option<u64>) -> Generation {
        let at = |chunk: u64| Stamp((50 + 10 * chunk) * MS);
        Generation {
            sent: Stamp(0),
            end: at(u64::from(chunks) - 1),
            first: Some(at(0)),
            second: (chunks > 1).then(|| at(1)),
            chunks,
            first_chunks: 1,
            size: 0,
            first_size: 0,
            tokens,
            by_tokenizer: false,
            input: InputTokens::default(),
            request_bytes: 0,
            events: chunks + 2,
            reads: chunks,
            unended: false,
            unreadable: false,
            unstreamed: false,
        }
    }

    fn generated(generations: &[Generation]) -> Generated {
        let (bank, mut generated) = (GenerationBank::new(), Generated::empty());
        generations.iter().for_each(|generation| assert!(bank.record(Stamp(0), generation, &Limits::default())));
        bank.drain_into(&mut generated);
        generated
    }

    fn near(times: &Distribution, count: u64, mean_ms: f64) {
        assert_eq!(times.count(), count);
        assert!((times.mean_ns() / MS as f64 - mean_ms).abs() < 1e-6, "{} ns", times.mean_ns());
    }

    #[test]
    fn figures_follow_their_definitions() {
        let all = generated(&[stream(5, Some(9))]);
        near(&all.first_token, 1, 50.0);
        near(&all.second_token, 1, 10.0);
        near(&all.inter_token, 1, 40.0 / 8.0);
        near(&all.normalised, 1, 10.0);
        assert_eq!((all.tokens, all.counted, all.by_chunks), (9, 1, 0));
        assert_eq!(all.tokens_per_user(), Some(200.0));
        assert!((all.events_per_read() - 1.4).abs() < 1e-9);
    }

    #[test]
    fn without_usage_chunks_stand_for_tokens_and_one_token_has_no_gap() {
        let all = generated(&[stream(5, None), stream(1, None), stream(1, Some(1))]);
        assert_eq!((all.tokens, all.counted, all.by_chunks), (7, 1, 2));
        near(&all.first_token, 3, 50.0);
        near(&all.second_token, 1, 10.0);
        near(&all.inter_token, 1, 10.0);
    }

    #[test]
    fn inputs_count_where_the_server_counts_them() {
        let inputs =
            |all, cached| Generation { input: InputTokens { all, cached, by_tokenizer: false }, ..stream(3, Some(3)) };
        let all = generated(&[
            inputs(Some(100), Some(60)),
            inputs(Some(50), None),
            inputs(None, Some(9)),
            inputs(Some(10), Some(99)),
        ]);
        assert_eq!((all.input_tokens, all.inputs, all.cacheable_tokens, all.cached_tokens), (160, 3, 110, 70));
        let lengths = &all.input_lengths.histogram;
        assert_eq!((lengths.len(), lengths.min(), lengths.max(), all.input_lengths.sum_ns), (3, 10, 100, 160));
    }

    #[test]
    fn lengths_of_outputs_and_requests_have_distributions() {
        let requests = [(40, 900), (20, 700), (10, 0)];
        let all = requests.map(|(tokens, bytes)| Generation { request_bytes: bytes, ..stream(3, Some(tokens)) });
        let all = generated(&all);
        let of = |sizes: &Distribution| (sizes.count(), sizes.histogram.min(), sizes.sum_ns);
        assert_eq!((of(&all.output_lengths), all.output_lengths.histogram.max()), ((3, 10, 70), 40));
        assert_eq!((of(&all.request_bytes).0, all.request_bytes.sum_ns), (2, 1_600));
    }

    #[test]
    fn bodies_have_tokens_and_no_first_one_and_empty_answers_have_nothing() {
        let body = Generation { end: Stamp(80 * MS), chunks: 1, tokens: Some(8), ..Generation::default() };
        let untold = Generation { tokens: None, ..body };
        let empty = Generation { chunks: 0, tokens: Some(0), ..body };
        let all = generated(&[body, untold, empty]);
        assert_eq!((all.tokens, all.counted, all.by_chunks, all.empty), (8, 1, 0, 1));
        assert_eq!((all.first_token.count(), all.inter_token.count()), (0, 0));
        near(&all.normalised, 1, 10.0);
        assert_eq!((all.tokens_per_user(), all.events_per_read()), (None, 0.0));
    }

    #[test]
    fn the_tokens_of_the_first_chunk_have_no_time_between_them() {
        // Five tokens at once, then one every 10 ms.
        let all = generated(&[Generation { size: 90, first_size: 50, ..stream(5, Some(9)) }]);
        near(&all.inter_token, 1, 10.0);
        assert_eq!((all.tokens, all.tokens_per_user()), (9, Some(100.0)));
    }

    #[test]
    fn tokens_that_come_at_once_have_no_time_between_them() {
        let in_one_read = Generation { end: Stamp(50 * MS), second: None, first_chunks: 5, ..stream(5, None) };
        let in_one_chunk = stream(1, Some(100));
        for at_once in [in_one_read, in_one_chunk] {
            let all = generated(&[at_once]);
            assert_eq!((all.inter_token.count(), all.tokens_per_user()), (0, None));
            let limits = Limits { inter_token: Some(MS), ..Limits::default() };
            assert!(!GenerationBank::new().record(Stamp(0), &at_once, &limits), "what is not known is not good");
        }
    }

    #[test]
    fn good_requests_keep_every_limit() {
        let bank = GenerationBank::new();
        let keeps = |latency, first_token, inter_token| {
            let nanos = |ms: Option<u64>| ms.map(|ms| ms * MS);
            let (latency, first_token, inter_token) = (nanos(latency), nanos(first_token), nanos(inter_token));
            let limits = Limits { latency, first_token, inter_token, normalized: None };
            bank.record(Stamp(0), &stream(5, None), &limits)
        };
        assert!(keeps(None, None, None) && keeps(Some(91), Some(51), Some(11)));
        assert!(!keeps(Some(90), None, None) && !keeps(None, Some(50), None) && !keeps(None, None, Some(10)));
        let body = Generation { end: Stamp(MS), chunks: 1, ..Generation::default() };
        let first = Limits { first_token: Some(MS), ..Limits::default() };
        assert!(!bank.record(Stamp(0), &body, &first), "a body has no first token");
        let inter = Limits { inter_token: Some(MS), ..Limits::default() };
        assert!(!bank.record(Stamp(0), &body, &inter), "nor a time between tokens");
        let per_token = |ns| Limits { normalized: Some(ns), ..Limits::default() };
        assert!(bank.record(Stamp(0), &stream(5, None), &per_token(90 * MS / 5 + 1)), "90 ms for 5 tokens");
        assert!(!bank.record(Stamp(0), &stream(5, None), &per_token(90 * MS / 5)));
        assert!(!bank.record(Stamp(0), &body, &per_token(u64::MAX)), "nothing says how many tokens a body has");
    }

    #[test]
    fn merging_adds_everything() {
        let mut sum = generated(&[stream(5, Some(9))]);
        sum.merge(&generated(&[stream(3, None)]));
        assert_eq!((sum.tokens, sum.counted, sum.by_chunks, sum.events, sum.reads), (12, 1, 1, 12, 8));
        near(&sum.first_token, 2, 50.0);
        assert_eq!(sum.tokens_per_user(), Some(150.0));
    }
}
