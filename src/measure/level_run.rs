//! What a level is measured with, and what comes of it.

use std::sync::Arc;

use crate::clock::Stamp;
use crate::error::{BROKEN_OFF, Error};
use crate::gate::Questions;
use crate::model::statistics::StatisticsSnapshot;
use crate::record::LoadReport;
use crate::record::Recorder;
use crate::result::summary::{Ending, LevelLoad, LevelSummary};
use crate::sending::Sending;
use crate::waterfall::Tracing;
use crate::window_summary::WindowFacts;

/// A load that is to be measured.
pub struct LevelRun {
    /// Its name in reports.
    pub load: LevelLoad,
    /// Where it records.
    pub recorder: Arc<Recorder>,
    /// What its windows' summaries need.
    pub facts: WindowFacts,
    /// Requests that must have completed before the first window, so that the start is not measured.
    pub ramp: u64,
    /// The load ends by itself: it is one window.
    pub finite: bool,
    /// How many requests such a load has, where that is known.
    pub requests: Option<u64>,
    /// The server's counters before such a load began, and when they were read, so that none of its requests is missing from
    /// their difference.
    pub baseline: Option<(Stamp, StatisticsSnapshot)>,
    /// Standard deviation of the gaps between intended sends, as a multiple of their mean.
    pub gap_variation: f64,
    /// How long an open loop sends, where that is known.
    pub sending: Option<Sending>,
    /// What is traced of its requests.
    pub tracing: Tracing,
    /// What is to be decided of it before it ends.
    pub questions: Questions,
}

/// A level, and what became of all its requests.
pub struct MeasuredLevel {
    /// Its result.
    pub summary: LevelSummary,
    /// Requests of the whole load, those outside the windows included.
    pub requests: LoadReport,
    /// When its windows began and ended, in order.
    pub boundaries: Vec<Stamp>,
    /// What ended it early: a client broke, or the server does not answer any more.
    pub trouble: Option<Error>,
}

/// Whether an interrupt ended a level before any of its requests was over, but for those that it broke off.
pub fn says_nothing(level: &LevelSummary) -> bool {
    let client = &level.client;
    let is_broken_off = client.errors.iter().all(|(error, _)| error.message.contains(BROKEN_OFF));
    level.ending == Ending::Interrupted && client.requests + client.cancelled == 0 && is_broken_off
}
