//! [`RankPart`]: the part of one of several processes in the windows of a shared load.

use crate::measure::blocks::Block;
use crate::measure::reasons::InvalidReason;
use crate::measure::summary::ClientSummary;
use crate::measure::verdict::DELAYED_TOLERANCE;

/// What one process has of some windows.
#[derive(Clone, Debug)]
pub(super) struct RankPart {
    /// Requests and latencies.
    pub(super) block: Block,
    sent: u64,
    delayed: u64,
}

impl RankPart {
    /// That of a window.
    pub(super) fn of(client: &ClientSummary) -> Self {
        Self { block: Block::of(client), sent: client.sent, delayed: client.delayed }
    }

    /// Adds the windows that follow.
    pub(super) fn absorb(&mut self, later: &Self) {
        self.block.absorb(&later.block);
        self.sent += later.sent;
        self.delayed += later.delayed;
    }

    /// What the rank can be blamed for, where the sums of all may hide it.
    pub(super) fn reason(&self, rank: usize) -> Option<InvalidReason> {
        let late = if self.sent > 0 { self.delayed as f64 / self.sent as f64 } else { 0.0 };
        if self.block.requests == 0 {
            Some(InvalidReason::RankWithout(rank))
        } else if self.delayed > 1 && late > DELAYED_TOLERANCE {
            // Of few requests, one alone is chance.
            Some(InvalidReason::RankLate(rank, late))
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::summary::sample;

    #[test]
    fn a_rank_is_blamed_for_what_is_its_own() {
        let part = |sent, delayed, requests| {
            RankPart::of(&ClientSummary { sent, delayed, ..sample::client(requests, 1_000_000) })
        };
        assert_eq!(part(1_000, 5, 900).reason(1), None);
        assert_eq!(part(1_000, 50, 900).reason(1), Some(InvalidReason::RankLate(1, 0.05)));
        assert_eq!(part(15, 1, 15).reason(1), None);
        assert_eq!(part(10, 0, 0).reason(2), Some(InvalidReason::RankWithout(2)));
        let mut both = part(1_000, 0, 900);
        both.absorb(&part(1_000, 50, 900));
        assert_eq!(both.reason(0), Some(InvalidReason::RankLate(0, 0.025)));
    }
}
