//! What the clients of a load counted although it is odd: it contradicts the model's configuration, or cannot be read.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// Kinds are kept apart for this many models; those of further ones are only counted with the last.
const MAX_KEPT: usize = 64;

/// What is odd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OddityKind {
    /// A response can be read, but the model's configuration says otherwise.
    Contradiction,
    /// A response cannot be read.
    Undecodable,
    /// A response came for a request that was over.
    Stray,
}

/// Odd responses of one kind and one model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Oddity {
    /// What is odd about them.
    pub kind: OddityKind,
    /// The model that was asked.
    pub model: String,
    /// The first one, in words.
    pub first: String,
    /// Their number.
    pub count: u64,
}

/// The odd responses of a load; shared by its clients.
#[derive(Debug, Default)]
pub struct Oddities {
    checked: AtomicU64,
    kept: Mutex<Vec<Oddity>>,
}

impl Oddities {
    /// Another response was checked.
    pub(super) fn checked(&self) {
        self.checked.fetch_add(1, Ordering::Relaxed);
    }

    /// A response is odd, and counts as a success all the same.
    pub(super) fn add(&self, kind: OddityKind, model: &str, description: &str) {
        let mut kept = self.kept.lock();
        let is_full = kept.len() >= MAX_KEPT;
        let same = kept.iter_mut().find(|odd| odd.kind == kind && (is_full || odd.model == model));
        match same {
            Some(odd) => odd.count += 1,
            None => kept.push(Oddity { kind, model: model.to_owned(), first: description.to_owned(), count: 1 }),
        }
    }

    /// A response came for a request that was over, although none has failed.
    pub fn add_stray(&self, model: &str) {
        self.add(OddityKind::Stray, model, "");
    }

    /// How many responses were checked.
    pub fn number_checked(&self) -> u64 {
        self.checked.load(Ordering::Relaxed)
    }

    /// Those seen so far, in the order of their first ones.
    pub fn all(&self) -> Vec<Oddity> {
        self.kept.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_responses_are_counted_by_kind_and_model() {
        let all = Oddities::default();
        all.add(OddityKind::Contradiction, "m", "one");
        all.add(OddityKind::Contradiction, "m", "another");
        all.add(OddityKind::Undecodable, "m", "third");
        (0..2 * MAX_KEPT).for_each(|number| all.add(OddityKind::Contradiction, &number.to_string(), "more"));
        let kept = all.all();
        assert_eq!((kept[0].first.as_str(), kept[1].first.as_str(), kept[1].count), ("one", "third", 1));
        assert_eq!(kept.iter().map(|odd| odd.count).sum::<u64>(), 3 + 2 * MAX_KEPT as u64);
        assert_eq!(kept.len(), MAX_KEPT);
    }
}
