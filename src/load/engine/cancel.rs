//! Finds requests that have been under way for too long (`--cancel-after-us`).

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::backend::{Client, SlotId};
use crate::clock::Stamp;
use crate::engine::slots::SlotTable;

/// How often all slots are scanned, if completions issue requests.
const SCAN_EVERY: Duration = Duration::from_micros(100);

/// How overdue requests are found.
pub(super) enum Overdue {
    /// Nothing is cancelled.
    Never,
    /// This thread issues all requests: keeps those that may have to be cancelled and when they were issued, in that
    /// order.
    InOrder(Duration, VecDeque<(SlotId, Stamp)>),
    /// Completions issue requests: scans all slots.
    Scan(Duration),
}

impl Overdue {
    /// Requests are cancelled `after` this long, if at all; `reissued` if completions issue them.
    pub(super) fn new(after: Option<Duration>, reissued: bool) -> Self {
        match after {
            None => Self::Never,
            Some(after) if reissued => Self::Scan(after),
            Some(after) => Self::InOrder(after, VecDeque::new()),
        }
    }

    /// A request was issued by this thread.
    pub(super) fn note(&mut self, slot: SlotId, issued: Stamp) {
        if let Self::InOrder(_, issues) = self {
            issues.push_back((slot, issued));
        }
    }

    /// When to look for overdue requests again.
    pub(super) fn next_look(&self) -> Stamp {
        match self {
            Self::Never => Stamp::NEVER,
            Self::InOrder(after, issues) => {
                issues.front().map_or(Stamp::NEVER, |(_, issued)| issued.plus_duration(*after))
            }
            Self::Scan(_) => Stamp::now().plus_duration(SCAN_EVERY),
        }
    }

    /// Cancels overdue requests in the first `count` slots.
    pub(super) fn cancel(&mut self, slots: &SlotTable, count: usize, client: &mut dyn Client) {
        match self {
            Self::Never => {}
            Self::InOrder(after, issues) => {
                while let Some(&(slot, issued)) = issues.front() {
                    if issued.plus_duration(*after) > Stamp::now() {
                        return;
                    }
                    issues.pop_front();
                    if slots.get(slot).issued.load(Ordering::Acquire) == issued.0 {
                        client.cancel(slot, Stamp::now());
                    }
                }
            }
            Self::Scan(after) => (0..count as u32).for_each(|slot| scan(slots, SlotId(slot), *after, client)),
        }
    }
}

fn scan(slots: &SlotTable, slot: SlotId, after: Duration, client: &mut dyn Client) {
    let (state, now) = (slots.get(slot), Stamp::now());
    let issued = state.issued.load(Ordering::Acquire);
    let overdue = issued != 0 && now >= Stamp(issued).plus_duration(after);
    // If it cannot be cancelled yet, the next scan asks again.
    if overdue && client.cancel(slot, now) {
        // Unless the slot's next request has stored its own time there.
        let _ = state.issued.compare_exchange(issued, 0, Ordering::AcqRel, Ordering::Relaxed);
    }
}
