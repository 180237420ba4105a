//! When requests leave.

use std::path::PathBuf;

use crate::model::CorrelationForm;
use crate::ranks::RanksPlan;
use crate::terms::{LoadMode, Stage, StageLoad, TokenUse};

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
    /// Loads before the first level that are not measured.
    pub warm_up: Vec<Stage>,
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
        self.mode.tokens().or(self.lengths.as_ref().map(|(_, tokens)| tokens))
    }

    /// In how many stages conversations take turns; 1 where they are no stages, or where each conversation is played once.
    pub fn stages_of_turns(&self) -> u32 {
        let stages = self.mode.stages();
        let has_turns = |stage: &Stage| !matches!(stage.load, StageLoad::Sessions { .. } | StageLoad::Replay { .. });
        if stages.iter().all(has_turns) { u32::try_from(stages.len()).unwrap_or(u32::MAX).max(1) } else { 1 }
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
    /// Form in which IDs are sent; `None` for what the model asks for.
    pub correlation: Option<CorrelationForm>,
}
