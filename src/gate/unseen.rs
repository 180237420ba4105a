//! Time that latencies lack: that of requests which are still under way and have waited for long.

use crate::result::reasons::{InvalidReason, Verdict};
use crate::result::statistic::CONFIDENCE;
use crate::result::summary::LevelSummary;
use crate::stats::{Proportion, share_interval};
use crate::terms::Statistic;

/// Requests whose time no latency has yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unseen {
    /// How long they have waited, as a share of what all latencies come to.
    time: f64,
    /// Their share of all requests, and what it may be.
    share: f64,
    most: f64,
}

impl Unseen {
    /// Those of a level with more requests under way than its answers explain.
    pub(super) fn new(level: &LevelSummary) -> Option<Self> {
        let Verdict::Invalid(reasons) = &level.verdict else { return None };
        let gap = reasons.iter().find_map(|reason| match reason {
            InvalidReason::LittlesLaw(gap) => Some(*gap),
            _ => None,
        })?;
        if gap >= 0.0 {
            return None;
        }
        let client = &level.client;
        let time = -gap / (1.0 + gap).max(f64::MIN_POSITIVE);
        let waiting = (client.request_rate() * client.latency.mean_ns() / 1e9 * time).round().max(1.0) as u64;
        let waiting = Proportion { hits: waiting, all: client.requests.saturating_add(waiting) };
        Some(Self { time, share: waiting.share(), most: share_interval(waiting.into(), CONFIDENCE)?.high })
    }

    /// The upper bound of a latency that is `high` without them. A mean has their time as far as they have waited, as often as that
    /// may happen; a percentile is not known where they may be more than are beyond it.
    pub(super) fn bound(self, statistic: Statistic, high: f64) -> Option<f64> {
        match statistic {
            Statistic::Throughput => Some(high),
            Statistic::MeanLatency => Some(high * (1.0 + self.time * self.most / self.share)),
            Statistic::Percentile(percentile) => (self.most < 1.0 - percentile / 100.0).then_some(high),
        }
    }
}
