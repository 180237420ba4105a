//! When requests leave.

use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

use crate::backend::CorrelationForm;
use crate::plan::ranks::RanksPlan;

/// When requests leave.
#[derive(Clone, Debug)]
pub struct LoadPlan {
    /// Which load, over which range.
    pub mode: LoadMode,
    /// Whether threads wait for answers.
    pub calls: Calls,
    /// Threads that issue requests. Synchronous closed loops have one for each outstanding request, so that a range
    /// without an end ends here.
    pub max_threads: usize,
    /// Most requests outstanding at once in open loops; `None` is without bound.
    pub max_outstanding: Option<usize>,
    /// Most connections that requests go over; `None` is one for each outstanding request, or over HTTP/2 for each thread.
    pub max_connections: Option<usize>,
    /// How a synchronous worker waits.
    pub wait: Wait,
    /// Processors that the whole process, server included, is pinned to.
    pub cpus: Option<Vec<usize>>,
    /// Processors that issuing threads are pinned to.
    pub worker_cpus: Option<Vec<usize>>,
    /// How sequences are made.
    pub sequences: SequencePlan,
    /// What it has to do with other processes.
    pub ranks: RanksPlan,
    /// A trace whose token counts requests have one after the other, under another load than its own.
    pub lengths: Option<(PathBuf, TokenUse)>,
}

/// Most requests that may be outstanding at once in a closed loop.
pub const MAX_CONCURRENCY: u32 = 100_000;
/// Most requests a second that a schedule may ask for.
pub const MAX_RATE: f64 = 1e8;

impl LoadPlan {
    /// What the token counts of a trace decide of each request, where there is one.
    pub fn tokens(&self) -> Option<&TokenUse> {
        match (&self.mode, &self.lengths) {
            (LoadMode::TraceReplay { tokens, .. }, _) => Some(tokens).filter(|tokens| tokens.is_any()),
            (_, lengths) => lengths.as_ref().map(|(_, tokens)| tokens),
        }
    }

    /// The highest concurrency that a range without an end grows to.
    pub fn most_concurrency(&self, synchronous: bool) -> u32 {
        let threads = u32::try_from(self.max_threads).unwrap_or(u32::MAX);
        if synchronous { threads.min(MAX_CONCURRENCY) } else { MAX_CONCURRENCY }
    }
}

/// Whether each outstanding request of a closed loop has a thread that waits for its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calls {
    /// It has.
    Synchronous,
    /// Answers are taken as they come.
    Asynchronous,
    /// Nothing was said: it has, unless a model takes sequences.
    ByModel,
}

impl Calls {
    /// Whether threads wait where models take `sequences`, or take none.
    pub fn wait(self, sequences: bool) -> bool {
        match self {
            Self::Synchronous => true,
            Self::Asynchronous => false,
            Self::ByModel => !sequences,
        }
    }
}

/// Which load, over which range.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LoadMode {
    /// Keep this many requests outstanding.
    Concurrency(Range<u32>),
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

impl LoadMode {
    /// Whether some request leaves when a schedule says.
    pub fn has_schedule(&self) -> bool {
        !matches!(self, Self::Concurrency(_) | Self::Periodic(_) | Self::Sessions(_))
    }

    /// Whether every request leaves when a schedule says, so that no thread waits for an answer.
    pub fn follows_schedule(&self) -> bool {
        match self {
            Self::Concurrency(_) | Self::Periodic(_) | Self::Sessions(_) => false,
            Self::Stages { stages, .. } => stages.iter().all(|stage| stage.concurrency().is_none()),
            _ => true,
        }
    }

    /// Whether it goes on until windows agree.
    pub fn has_windows(&self) -> bool {
        matches!(self, Self::Concurrency(_) | Self::RequestRate { .. } | Self::Intervals(_) | Self::Sweep { .. })
    }

    /// Whether several levels are measured one after the other.
    pub fn has_levels(&self) -> bool {
        match self {
            Self::Concurrency(range) => range.end != Some(range.start),
            Self::RequestRate { range, .. } => range.end != Some(range.start),
            Self::Sweep { .. } => true,
            _ => false,
        }
    }

    /// How many levels are measured one after the other, where none fails; none if that is not known.
    pub fn levels(&self, binary: bool) -> Option<usize> {
        match self {
            Self::Concurrency(range) => range.levels(binary),
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
            Self::Concurrency(range) => range.end,
            Self::Periodic(periodic) => Some(periodic.end),
            Self::Sessions(concurrency) => Some(*concurrency),
            Self::Stages { stages, .. } => stages.iter().filter_map(Stage::concurrency).max(),
            _ => None,
        }
    }
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

/// One stage of a load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stage {
    /// What is held.
    pub load: StageLoad,
    /// For how long.
    pub length: StageLength,
    /// How long the server is idle before it.
    #[serde(default, with = "crate::seconds", skip_serializing_if = "Duration::is_zero")]
    #[schemars(with = "f64")]
    pub pause: Duration,
}

impl Stage {
    /// Idle time before this stage; `None` if the stage before overlaps it.
    pub fn rest(&self, edges: StageEdges) -> Option<Duration> {
        (edges == StageEdges::Drain || !self.pause.is_zero()).then_some(self.pause)
    }

    /// Requests outstanding; none if a rate is held.
    pub fn concurrency(&self) -> Option<u32> {
        match self.load {
            StageLoad::Concurrency(requests) => Some(requests),
            StageLoad::RequestRate(_) => None,
        }
    }
}

/// What happens when one stage ends and the next begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StageEdges {
    /// Outstanding requests complete alongside the next stage's requests: the server sees no pause.
    #[default]
    Overlap,
    /// Outstanding requests complete first: the server never sees more than one stage's load.
    Drain,
}

/// What a stage holds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StageLoad {
    /// Requests outstanding.
    Concurrency(u32),
    /// Requests a second.
    RequestRate(f64),
}

/// How long a stage is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StageLength {
    /// This much time.
    Time(
        #[serde(with = "crate::seconds")]
        #[schemars(with = "f64")]
        Duration,
    ),
    /// This many requests.
    Requests(u64),
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

/// `start:end:step`; without an end the range grows until the latency threshold is exceeded. Or a list of values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Range<T> {
    /// First value.
    pub start: T,
    /// Last value; `None` is without bound.
    pub end: Option<T>,
    /// Stride, or the precision of a binary search.
    pub step: T,
    /// The values, ascending, if a list or a factor gives them; then `start` and `end` are only the first and last of
    /// them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub listed: Vec<T>,
}

impl<T> Range<T> {
    /// Values with a stride.
    pub fn with_step(start: T, end: Option<T>, step: T) -> Self {
        Self { start, end, step, listed: Vec::new() }
    }
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

/// How a synchronous worker waits for its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Sleeps until it is woken.
    Park,
    /// Never leaves its processor.
    Spin,
    /// Spins for a moment, then sleeps.
    Hybrid,
}

/// How sequences are made.
#[derive(Clone, Debug)]
pub struct SequencePlan {
    /// Requests in a sequence before variation; `None` takes the length of the data stream.
    pub length: Option<u64>,
    /// Length that is used where neither the flag nor data say one.
    pub default_length: u64,
    /// Variation of the length in percent.
    pub variation_percent: f64,
    /// First correlation ID.
    pub first_id: u64,
    /// How many correlation IDs there are.
    pub ids: u64,
    /// At most one request of a sequence outstanding, in rate modes.
    pub serial: bool,
    /// Sequences alive at once, in rate modes.
    pub concurrent: usize,
    /// Form in which IDs are sent.
    pub correlation: CorrelationForm,
}
