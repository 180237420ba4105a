//! Remarks on a level: what was measured although it contradicts something, and how often.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Unit;
use crate::backend::{Oddities, Oddity, OddityKind};
use crate::number::counted;
use crate::record::Generated;
use crate::terms::Statistic;

/// Of a level's time a block is this share.
const TO_A_BLOCK: f64 = 0.02;

/// A cache that answers such a share of the requests decides the level's figures.
const NEARLY_ALL: f64 = 0.9;

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
    /// Requests that the server's response cache answered, of those that were looked up in it.
    CacheHits,
    /// Milliseconds of the level's load in which the server warmed up; their windows are left out of the result.
    WarmUp,
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
                    "{} came for requests that were over: a second answer to one request, or one after the final response",
                    counted(count, "response")
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

    /// A model's response cache answered `hits` of the requests that were looked up in it: nearly all.
    pub fn of_cache(model: &str, hits: u64, lookups: u64) -> Option<Self> {
        if hits == 0 || (hits as f64) < NEARLY_ALL * lookups as f64 {
            return None;
        }
        let text = format!(
            "the server's response cache answered {hits} of {} for model '{model}': the times are the cache's, and not \
             the model's; only data that it has not seen reach the model (--input-data)",
            counted(lookups, "request")
        );
        Some(Self { kind: RemarkKind::CacheHits, count: hits, total: Some(lookups), text })
    }

    fn of_bodies(count: u64) -> Self {
        let none = if count == 1 {
            "the only answer is no stream".to_owned()
        } else {
            format!("none of {count} answers is a stream")
        };
        let text = format!(
            "{none}, although --streaming asked for them: nothing is known of the times to the first token and between \
             tokens"
        );
        Self { kind: RemarkKind::NoStreams, count, total: Some(count), text }
    }

    fn of_empty(empty: u64) -> Self {
        let all = match empty {
            1 => {
                "the only answer is a success without any content: its times are not those of generated text".to_owned()
            }
            _ => format!(
                "all {empty} answers are successes without any content: their times are not those of generated text"
            ),
        };
        let text = format!("{all}; look at one, and at the endpoint and the model's name");
        Self { kind: RemarkKind::EmptyAnswers, count: empty, total: Some(empty), text }
    }

    /// The server warmed up for so long after the load began, in which a figure went from one value to another.
    pub fn of_warm_up(length: Duration, statistic: Statistic, [before, after]: [f64; 2]) -> Self {
        let unit = Unit::new(statistic);
        let (before, after) = (unit.show(before), unit.show(after));
        // The end of the block is known in which it was over.
        let flag = match length.as_secs_f64() * (1.0 - TO_A_BLOCK) {
            seconds if seconds > 1.0 => format!("{}s", seconds.ceil()),
            seconds => format!("{}ms", (10.0 * seconds).ceil() * 100.0),
        };
        let text = format!(
            "the server warmed up: {statistic} was {before} at first, and {after} after {:.1} s; the windows before that are \
             left out of the result, and --warmup-duration {flag} does without them",
            length.as_secs_f64()
        );
        let count = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
        Self { kind: RemarkKind::WarmUp, count, total: None, text }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_that_answers_nearly_all_is_told() {
        let told = |hits, lookups| Remark::of_cache("m", hits, lookups).map(|remark| (remark.count, remark.total));
        assert_eq!(told(90, 100), Some((90, Some(100))));
        assert_eq!([told(89, 100), told(0, 0), told(0, 100)], [None; 3]);
    }

    #[test]
    fn one_is_told_as_one() {
        assert!(Remark::of_cache("m", 1, 1).unwrap().text.contains("answered 1 of 1 request for model 'm'"));
        let answers = |empty, unstreamed| {
            let mut generated = Generated::empty();
            (generated.empty, generated.unstreamed) = (empty, unstreamed);
            Remark::of_answers(Some(&generated), empty.max(unstreamed)).unwrap().text
        };
        assert!(answers(1, 0).starts_with("the only answer is a success without any content: its times"));
        assert!(answers(2, 0).starts_with("all 2 answers are successes without any content: their times"));
        assert!(answers(0, 1).starts_with("the only answer is no stream, although --streaming asked for them"));
    }

    #[test]
    fn a_warm_up_is_told_with_the_flag_that_leaves_it_out() {
        let text = |ms: u64| Remark::of_warm_up(Duration::from_millis(ms), Statistic::MeanLatency, [50e6, 10e6]).text;
        let long = text(9_940);
        assert!(long.contains("average latency was 50 ms at first, and 10 ms after 9.9 s"), "{long}");
        assert!(long.ends_with("--warmup-duration 10s does without them"), "{long}");
        assert!(text(720).contains("--warmup-duration 800ms ") && text(1_000).contains("--warmup-duration 1000ms "));
        assert!(text(10_100).ends_with("--warmup-duration 10s does without them"));
    }
}
