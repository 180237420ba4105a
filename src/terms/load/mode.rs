//! Which load.

use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use crate::load::range::Range;
use crate::load::stage::{Stage, StageEdges, StageLoad};

/// Which load, over which range.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LoadMode {
    /// Keep this many requests outstanding.
    Concurrency(Range<u32>),
    /// Keep this many streams going, each of which sends a request every so often, answered or not.
    Paced {
        /// Streams at a time.
        range: Range<u32>,
        /// From one request of a stream to its next.
        #[serde(rename = "interval_s", with = "crate::seconds")]
        #[schemars(with = "f64")]
        interval: Duration,
    },
    /// Send this many requests a second.
    RequestRate {
        /// Requests a second.
        range: Range<f64>,
        /// Gaps between sends.
        distribution: GapDistribution,
    },
    /// Gaps between sends are the lines of this file, in microseconds, repeated.
    Intervals(
        #[serde(serialize_with = "shown")]
        #[schemars(with = "String")]
        PathBuf,
    ),
    /// Send times are in the input data: the UINT64 input `timestamp`, in milliseconds from the start.
    FixedSchedule,
    /// Send times are those of a recorded trace.
    TraceReplay {
        /// CSV with a column `TIMESTAMP` or `offset_ms`.
        #[serde(serialize_with = "shown")]
        #[schemars(with = "String")]
        file: PathBuf,
        /// How much faster than recorded; 1 is as recorded.
        speed: f64,
        /// What the recorded token counts set.
        tokens: TokenUse,
    },
    /// The number of outstanding requests grows as responses arrive.
    Periodic(Periodic),
    /// This many conversations at a time, each played once.
    Sessions(u32),
    /// One load after another.
    Stages {
        /// In order.
        stages: Vec<Stage>,
        /// Gaps between sends in stages of a rate.
        distribution: GapDistribution,
        /// What happens when one ends and the next begins.
        #[serde(default)]
        edges: StageEdges,
        /// What stages of a replay play.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trace: Option<Recording>,
    },
    /// Finds the highest rate that the server sustains, then measures rates up to it and just past it.
    Sweep {
        /// How the rates are spaced.
        spacing: Spacing,
        /// How many rates are measured.
        points: u32,
        /// Gaps between sends.
        distribution: GapDistribution,
    },
}

/// A path as text: what is not Unicode in it is lost.
fn shown<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}

/// What follows from a load. Whatever plans, runs or reports one asks here, so that a further load is not spread over
/// all of them.
impl LoadMode {
    /// This many requests outstanding, as the only level.
    pub fn one_concurrency(requests: u32) -> Self {
        Self::Concurrency(Range::with_step(requests, Some(requests), 1))
    }

    /// This many requests a second, as the only level.
    pub fn one_rate(rate: f64, distribution: GapDistribution) -> Self {
        Self::RequestRate { range: Range::with_step(rate, Some(rate), 1.0), distribution }
    }

    /// The flag that asks for it.
    pub fn flag(&self) -> &'static str {
        match self {
            Self::Concurrency(_) | Self::Paced { .. } => "--concurrency-range",
            Self::RequestRate { .. } => "--request-rate-range",
            Self::Intervals(_) => "--request-intervals",
            Self::FixedSchedule => "--fixed-schedule",
            Self::TraceReplay { .. } => "--trace-replay",
            Self::Periodic(_) => "--periodic-concurrency-range",
            Self::Sessions(_) => "--session-concurrency",
            Self::Stages { .. } => "--stage",
            Self::Sweep { .. } => "--sweep",
        }
    }

    /// Requests outstanding, or paced streams, if that is what levels vary.
    pub fn concurrency(&self) -> Option<&Range<u32>> {
        if let Self::Concurrency(range) | Self::Paced { range, .. } = self { Some(range) } else { None }
    }

    /// From one request of a stream to its next, if streams are paced.
    pub fn pace(&self) -> Option<Duration> {
        if let Self::Paced { interval, .. } = self { Some(*interval) } else { None }
    }

    /// Requests a second, if that is what levels vary.
    pub fn rate(&self) -> Option<&Range<f64>> {
        if let Self::RequestRate { range, .. } = self { Some(range) } else { None }
    }

    /// Loads that follow each other; empty if there is only one.
    pub fn stages(&self) -> &[Stage] {
        if let Self::Stages { stages, .. } = self { stages } else { &[] }
    }

    /// Whether a stage replays a trace.
    pub fn has_replays(&self) -> bool {
        self.stages().iter().any(|stage| matches!(stage.load, StageLoad::Replay { .. }))
    }

    /// How many rates a sweep measures.
    pub fn sweep(&self) -> Option<u32> {
        if let Self::Sweep { points, .. } = self { Some(*points) } else { None }
    }

    /// How many conversations there are at a time.
    pub fn sessions(&self) -> Option<u32> {
        if let Self::Sessions(concurrency) = self { Some(*concurrency) } else { None }
    }

    /// Whether it grows as responses arrive.
    pub fn is_periodic(&self) -> bool {
        matches!(self, Self::Periodic(_))
    }

    /// Whether a file has the gaps between its requests.
    pub fn is_intervals(&self) -> bool {
        matches!(self, Self::Intervals(_))
    }

    /// Whether the input data have its send times.
    pub fn is_fixed_schedule(&self) -> bool {
        matches!(self, Self::FixedSchedule)
    }

    /// Whether it is played from a recording, from the first request to the last.
    pub fn is_recorded(&self) -> bool {
        matches!(self, Self::FixedSchedule | Self::TraceReplay { .. })
    }

    /// Whether its levels are a range that the user gave, and that a search may walk through.
    pub fn is_range(&self) -> bool {
        self.concurrency().is_some() || self.rate().is_some()
    }

    /// Whether its range has no end.
    pub fn is_endless(&self) -> bool {
        let (closed, open) = (self.concurrency(), self.rate());
        closed.is_some_and(|range| range.end.is_none()) || open.is_some_and(|range| range.end.is_none())
    }

    /// Whether its range has an end above its start.
    pub fn rises(&self) -> bool {
        self.concurrency().is_some_and(Range::rises) || self.rate().is_some_and(Range::rises)
    }

    /// Whether it consists of several loads, each with its own length.
    pub fn has_parts(&self) -> bool {
        matches!(self, Self::Stages { .. } | Self::Sweep { .. })
    }

    /// How many levels it has, if each can be measured by itself, in any order.
    pub fn separate_levels(&self) -> Option<usize> {
        match self {
            Self::Concurrency(range) | Self::Paced { range, .. } => Some(range.count()),
            Self::RequestRate { range, .. } => Some(range.count()),
            Self::Stages { .. } | Self::Sweep { .. } | Self::Periodic(_) => None,
            Self::Intervals(_) | Self::TraceReplay { .. } | Self::FixedSchedule | Self::Sessions(_) => Some(1),
        }
    }

    /// Whether stages begin while others are still under way.
    pub fn overlaps(&self) -> bool {
        let Self::Stages { stages, edges, .. } = self else { return false };
        stages.iter().skip(1).any(|stage| stage.rest(*edges).is_none())
    }

    /// How gaps between sends are drawn, if they are.
    pub fn gaps(&self) -> Option<GapDistribution> {
        match self {
            Self::RequestRate { distribution, .. }
            | Self::Stages { distribution, .. }
            | Self::Sweep { distribution, .. } => Some(*distribution),
            _ => None,
        }
    }

    /// Whether it, or a stage of it, is a number of requests a second.
    pub fn has_rate(&self) -> bool {
        match self {
            Self::RequestRate { .. } | Self::Sweep { .. } => true,
            _ => self.stages().iter().any(|stage| stage.concurrency().is_none()),
        }
    }

    /// Whether requests leave only when others end.
    pub fn is_closed(&self) -> bool {
        match self {
            Self::Concurrency(_) | Self::Periodic(_) => true,
            Self::Stages { .. } => !self.has_rate(),
            _ => false,
        }
    }

    /// Whether some request leaves when a schedule says.
    pub fn has_schedule(&self) -> bool {
        !matches!(self, Self::Concurrency(_) | Self::Periodic(_) | Self::Sessions(_))
    }

    /// Whether every request leaves when a schedule says, so that no thread waits for an answer.
    pub fn follows_schedule(&self) -> bool {
        self.has_schedule() && self.stages().iter().all(|stage| stage.concurrency().is_none())
    }

    /// Whether it goes on until windows agree.
    pub fn has_windows(&self) -> bool {
        self.concurrency().is_some() || self.rate().is_some() || self.is_intervals() || self.sweep().is_some()
    }

    /// Whether several levels are measured one after the other.
    pub fn has_levels(&self) -> bool {
        match self {
            Self::Concurrency(range) | Self::Paced { range, .. } => range.end != Some(range.start),
            Self::RequestRate { range, .. } => range.end != Some(range.start),
            _ => self.sweep().is_some(),
        }
    }

    /// How many levels are measured one after the other, where none fails; none if that is not known.
    pub fn levels(&self, binary: bool) -> Option<usize> {
        match self {
            Self::Concurrency(range) | Self::Paced { range, .. } => range.levels(binary),
            Self::RequestRate { range, .. } => range.levels(binary),
            Self::Stages { stages, .. } => Some(stages.len()),
            Self::Sweep { points, .. } => Some(*points as usize),
            _ => Some(1),
        }
    }

    /// Most requests outstanding at once, or sequences alive at once, that the flags ask for; `None` if nothing
    /// bounds it or where the load is a rate.
    pub fn peak_concurrency(&self) -> Option<u32> {
        match self {
            Self::Concurrency(range) | Self::Paced { range, .. } => range.end,
            Self::Periodic(periodic) => Some(periodic.end),
            Self::Sessions(concurrency) => Some(*concurrency),
            _ => self.stages().iter().filter_map(Stage::concurrency).max(),
        }
    }

    /// Fewest requests outstanding at once, or streams, and the flag that says so; `None` if the load is a rate.
    pub fn least_concurrency(&self) -> Option<(&'static str, u32)> {
        let least = match self {
            Self::Concurrency(range) | Self::Paced { range, .. } => {
                Some(range.listed.first().copied().unwrap_or(range.start))
            }
            Self::Periodic(periodic) => Some(periodic.start),
            Self::Sessions(concurrency) => Some(*concurrency),
            _ => self.stages().iter().filter_map(Stage::concurrency).min(),
        };
        let flag = if self.stages().is_empty() { self.flag() } else { "--stage concurrency" };
        least.map(|least| (flag, least))
    }

    /// What a replay sets by the token counts of its trace, if anything.
    pub fn tokens(&self) -> Option<&TokenUse> {
        let tokens = match self {
            Self::TraceReplay { tokens, .. } => Some(tokens),
            Self::Stages { trace, .. } => trace.as_ref().map(|trace| &trace.tokens),
            _ => None,
        };
        tokens.filter(|tokens| tokens.is_any())
    }
}

/// A trace that stages replay.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Recording {
    /// CSV or JSON Lines with the times of requests.
    #[serde(serialize_with = "shown")]
    #[schemars(with = "String")]
    pub file: PathBuf,
    /// What the recorded token counts set.
    pub tokens: TokenUse,
}

/// What the token counts of a trace set in each request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TokenUse {
    /// The input whose free dimension is the number of context tokens.
    pub input: Option<TokenInput>,
    /// Request parameter (an integer) that is the number of generated tokens.
    pub parameter: Option<String>,
}

impl TokenUse {
    /// Whether they decide anything.
    pub fn is_any(&self) -> bool {
        self.input.is_some() || self.parameter.is_some()
    }
}

/// An input whose length comes from a trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TokenInput {
    /// Name in the model.
    pub name: String,
    /// Maximum length; longer recorded prompts are cut to it.
    pub longest: u64,
}

/// Growth of a periodic load: `start` requests first, then `step` more whenever every request of the latest batch has
/// had `request_period` responses, until `end` have been sent in total.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Periodic {
    /// Requests of the first batch.
    pub start: u32,
    /// Requests in total.
    pub end: u32,
    /// Requests of each further batch; divides `end - start`.
    pub step: u32,
    /// Responses that each request of the latest batch must have had.
    pub request_period: u32,
}

/// How the rates of a sweep are spaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Spacing {
    /// Equal differences.
    Linear,
    /// Equal ratios.
    Geometric,
}

/// How gaps between sends are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GapDistribution {
    /// All equal.
    Constant,
    /// Exponential.
    Poisson,
    /// Gamma with this shape; 1 is exponential, less is burstier.
    Gamma(f64),
}
