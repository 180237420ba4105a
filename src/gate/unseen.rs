//! Time that latencies lack: that of requests which are still under way and have waited for long.

use crate::result::Unit;
use crate::result::figures::FigureAt;
use crate::result::reasons::{InvalidReason, Verdict};
use crate::result::statistic::CONFIDENCE;
use crate::result::summary::LevelSummary;
use crate::stats::{Proportion, share_interval};
use crate::terms::Statistic;
use crate::{Found, wider};

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

    /// The upper bound of a figure of `level` that is `found` without them. A mean has their time as far as they have waited, as often
    /// as that may happen. All of them may be beyond a percentile, beside the answers that are: with as many fewer of these, its bound
    /// is that of a higher one, if there is any.
    pub(super) fn high(self, level: &LevelSummary, statistic: Statistic, found: &Found) -> Option<f64> {
        let high = found.bounds.high?;
        let percentile = match statistic {
            Statistic::Throughput => return Some(high),
            Statistic::MeanLatency => return Some(high * (1.0 + self.time * self.most / self.share)),
            Statistic::Percentile(percentile) => percentile,
        };
        let higher = percentile + 100.0 * self.most;
        if higher >= 100.0 {
            return None;
        }
        let at = |percentile| FigureAt::of_statistic(Statistic::Percentile(percentile)).value_in(&level.client);
        // Bounds are further away at each look.
        let times = (at(higher)?.bounds.high? / at(percentile)?.value).max(1.0).powf(wider(level.looks));
        // The bound of a ratio has what the other side lacks as well.
        Some(if found.unit == Unit::Ratio { high * times } else { high.max(found.value * times) })
    }
}
