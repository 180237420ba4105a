//! One load after another.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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

    /// How many requests it sends at most, if that follows from it: gaps that are drawn may be shorter than their mean.
    pub fn most_requests(&self) -> Option<u64> {
        let rate = match (self.length, self.load) {
            (StageLength::Requests(count), _) => return Some(count),
            (_, StageLoad::RequestRate(rate)) => rate,
            (_, StageLoad::Ramp(ramp)) => ramp.mean(),
            _ => return None,
        };
        let StageLength::Time(time) = self.length else { return None };
        let mean = rate * time.as_secs_f64();
        Some((mean + 4.0 * mean.sqrt() + 1.0) as u64)
    }

    /// Requests outstanding; none if a rate is held.
    pub fn concurrency(&self) -> Option<u32> {
        match self.load {
            StageLoad::Concurrency(requests) => Some(requests),
            StageLoad::Sessions { concurrency, .. } => Some(concurrency.max(1)),
            StageLoad::RequestRate(_) | StageLoad::Ramp(_) | StageLoad::Replay { .. } => None,
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
    /// A rate that changes evenly from the beginning of the stage to its end.
    Ramp(Ramp),
    /// The recorded trace of the load, whole.
    Replay {
        /// How much faster than recorded; 1 is as recorded.
        speed: f64,
    },
    /// Conversations at a time, each played once.
    Sessions {
        /// How many; all of the stage's if 0.
        concurrency: u32,
        /// How many begin in a second, at most; no limit if absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rate: Option<f64>,
    },
}

/// From one rate to another, in requests a second; not both 0.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ramp {
    /// At the beginning.
    pub from: f64,
    /// At the end.
    pub to: f64,
}

impl Ramp {
    /// The mean rate, in requests a second.
    pub fn mean(self) -> f64 {
        f64::midpoint(self.from, self.to)
    }
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
    /// The next conversations, this many; all that are left if absent.
    Sessions(Option<u64>),
    /// As long as what is replayed.
    Recorded,
}
