//! Remarks on a level: what was measured although it contradicts something, and how often.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::backend::{Oddities, Oddity, OddityKind};
use crate::record::Generated;

/// A remark.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Remark {
    /// What it is about.
    pub kind: RemarkKind,
    /// How many.
    pub count: u64,
    /// Of how many, or in place of how many, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "of")]
    pub total: Option<u64>,
    /// With the details, in words.
    pub text: String,
}

/// What a remark is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RemarkKind {
    /// Responses contradict the model's configuration, of those that were checked.
    UnlikeConfiguration,
    /// Responses cannot be decoded, of those that were checked, and count under perf_analyzer's name.
    Undecodable,
    /// Responses came for requests that were over.
    StrayResponses,
    /// The server counted this many requests, in place of those of the client.
    ServerCounts,
    /// Milliseconds for which the client's process stood still outside of the windows that count.
    StoodStill,
    /// Successful answers were all empty.
    EmptyAnswers,
    /// Streams were asked for, and no answer was one.
    NoStreams,
}

impl Remark {
    /// What the clients of a load noted.
    pub fn of_replies(oddities: &Oddities) -> impl Iterator<Item = Self> {
        let checked = oddities.number_checked();
        oddities.all().into_iter().map(move |odd| Self::of_reply(odd, checked))
    }

    fn of_reply(Oddity { kind, model, first, count }: Oddity, checked: u64) -> Self {
        let (kind, total, text) = match kind {
            OddityKind::Contradiction => (
                RemarkKind::UnlikeConfiguration,
                Some(checked),
                format!(
                    "{count} of {checked} responses that were checked are not as model '{model}' is configured: {first} \
                     (--validate-replies checks every response, and makes that a failure)"
                ),
            ),
            OddityKind::Undecodable => (
                RemarkKind::Undecodable,
                Some(checked),
                format!(
                    "{count} of {checked} responses that were checked cannot be decoded, and count because the server \
                     calls them successes: model '{model}', {first}"
                ),
            ),
            OddityKind::Stray => (
                RemarkKind::StrayResponses,
                None,
                format!(
                    "{count} responses came for requests that were over: a second answer to one request, or one after the \
                     final response"
                ),
            ),
        };
        Self { kind, count, total, text }
    }

    /// Every answer of a service that generates text is a success without content, or none is the stream that was asked for.
    pub fn of_answers(generated: Option<&Generated>, completed: u64) -> Option<Self> {
        let Generated { empty, unstreamed, .. } = generated?;
        let are_all = |&count: &u64| count > 0 && count >= completed;
        let unstreamed = Some(*unstreamed).filter(are_all);
        Some(*empty)
            .filter(are_all)
            .map_or_else(|| unstreamed.map(Self::of_bodies), |empty| Some(Self::of_empty(empty)))
    }

    fn of_bodies(count: u64) -> Self {
        let text = format!(
            "none of {count} answers is a stream, although --streaming asked for them: nothing is known of the times to \
             the first token and between tokens"
        );
        Self { kind: RemarkKind::NoStreams, count, total: Some(count), text }
    }

    fn of_empty(empty: u64) -> Self {
        let text = format!(
            "all {empty} answers are successes without any content: their times are not those of generated text; look at \
             one, and at the endpoint and the model's name"
        );
        Self { kind: RemarkKind::EmptyAnswers, count: empty, total: Some(empty), text }
    }

    /// How long this process stood still meanwhile.
    pub fn of_pauses(still: Duration) -> Option<Self> {
        if still.is_zero() {
            return None;
        }
        let text = format!(
            "this process stood still for {:.1} s (stopped, suspended, or without a processor), outside of the windows \
             that count",
            still.as_secs_f64()
        );
        let count = u64::try_from(still.as_millis()).unwrap_or(u64::MAX);
        Some(Self { kind: RemarkKind::StoodStill, count, total: None, text })
    }
}
