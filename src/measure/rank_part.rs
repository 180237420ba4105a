//! [`RankPart`]: the part of one of several processes in the windows of a shared load.

use crate::blocks::Block;
use crate::result::lateness::lateness_of;
use crate::result::reasons::InvalidReason;
use crate::result::summary::ClientSummary;
use crate::verdict::Evidence;

/// What one process has of some windows.
#[derive(Clone, Debug)]
pub(super) struct RankPart {
    /// Requests and latencies.
    pub(super) block: Block,
    sent: u64,
    /// Requests that left too late.
    late: u64,
}

impl RankPart {
    /// That of a window.
    pub(super) fn new(client: &ClientSummary) -> Self {
        Self { block: Block::new(client), sent: client.sent, late: client.too_late() }
    }

    /// Adds the windows that follow.
    pub(super) fn absorb(&mut self, later: &Self) {
        self.block.absorb(&later.block);
        self.sent += later.sent;
        self.late += later.late;
    }

    /// What the rank can be blamed for, where the sums of all may hide it.
    pub(super) fn reason(&self, rank: usize, evidence: &Evidence) -> Option<InvalidReason> {
        if self.block.requests == 0 {
            return Some(InvalidReason::RankWithout(rank));
        }
        let share = lateness_of(self.late, self.sent).filter(|share| evidence.is_too_late(*share))?;
        Some(InvalidReason::RankLate(rank, share))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::summary::sample;

    #[test]
    fn a_rank_is_blamed_for_what_is_its_own() {
        let part = |sent, delayed, requests| {
            RankPart::new(&ClientSummary { sent, delayed, ..sample::client(requests, 1_000_000) })
        };
        let alone = Evidence::default();
        assert_eq!(part(1_000, 5, 900).reason(1, &alone), None);
        assert_eq!(part(1_000, 50, 900).reason(1, &alone), Some(InvalidReason::RankLate(1, 0.05)));
        let beside_others = Evidence { beside_others: true, ..alone };
        assert_eq!(part(1_000, 50, 900).reason(1, &beside_others), None);
        assert_eq!(part(15, 1, 15).reason(1, &alone), None);
        assert_eq!(part(10, 0, 0).reason(2, &alone), Some(InvalidReason::RankWithout(2)));
        let mut total = part(1_000, 0, 900);
        total.absorb(&part(1_000, 50, 900));
        assert_eq!(total.reason(0, &alone), Some(InvalidReason::RankLate(0, 0.025)));
    }
}
