//! [`Placements`].

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::Placement;

/// Kinds of memory that regions use in turn, such as several devices. Clones share the turn.
#[derive(Clone, Debug)]
pub struct Placements {
    first: Placement,
    others: Arc<[Placement]>,
    taken: Arc<AtomicUsize>,
}

impl Placements {
    /// `first`, then `others`, then `first` again.
    pub fn new(first: Placement, others: impl IntoIterator<Item = Placement>) -> Self {
        Self { first, others: others.into_iter().collect(), taken: Arc::default() }
    }

    /// The first of them. All are of one kind, as far as a protocol can tell them apart.
    pub fn first(&self) -> Placement {
        self.first
    }

    /// Each of them, in order.
    pub fn all(&self) -> impl Iterator<Item = Placement> {
        std::iter::once(self.first).chain(self.others.iter().copied())
    }

    /// The next one in turn.
    pub fn take(&self) -> Placement {
        let turn = self.taken.fetch_add(1, Ordering::Relaxed) % (self.others.len() + 1);
        turn.checked_sub(1).map_or(self.first, |other| self.others[other])
    }
}

impl From<Placement> for Placements {
    /// Always the same one.
    fn from(placement: Placement) -> Self {
        Self::new(placement, [])
    }
}

impl PartialEq for Placements {
    /// Whether they are the same kinds in the same order, whatever the turn.
    fn eq(&self, other: &Self) -> bool {
        self.first == other.first && self.others == other.others
    }
}

impl Eq for Placements {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_the_turn() {
        let all = Placements::new(Placement::Cuda(2), [Placement::Cuda(0)]);
        let other = all.clone();
        assert_eq!([all.take(), other.take(), all.take()], [2, 0, 2].map(Placement::Cuda));
        let system = Placements::from(Placement::System);
        assert_eq!(
            (system.take(), system.take(), system.first()),
            (Placement::System, Placement::System, Placement::System)
        );
        assert!(all == other && all != system);
    }
}
