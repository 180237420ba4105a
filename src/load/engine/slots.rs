//! The slots of a worker, whose number may grow: a table that callbacks read while it grows, and the list of free
//! slots.
//!
//! Only the issuing thread grows the table and takes free slots; completions, on any thread, give slots back. Nobody
//! waits: the table is made of [`Chunks`], and the list is a stack of slot numbers that completions push to and the
//! issuing thread takes as a whole, so that no slot number can reappear under a push (there is no ABA problem).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crossbeam::utils::CachePadded;

use crate::backend::{Request, SequencePosition, SlotId};
use crate::chunks::Chunks;
use crate::clock::Stamp;
use crate::data::PayloadId;

/// A slot's state: its request, and the counts of earlier ones. Calls for one slot never overlap, so relaxed loads and
/// stores are enough; the list of free slots hands it back to the issuing thread. What every request touches is in the
/// first 64 bytes.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Slot {
    /// Payload of its request, and its place in a sequence; see [`Slot::request`].
    request: AtomicU64,
    /// When its request should have been sent, in open loops.
    pub(super) intended: AtomicU64,
    /// When its request was issued, if that is recorded; distinguishes a later request in the slot from an earlier one.
    /// 0 if none is outstanding.
    pub(super) issued: AtomicU64,
    /// When its latest response arrived; 0 before the first.
    pub(super) last_response: AtomicU64,
    /// End of its previous request; 0 before the first.
    pub(super) end: AtomicU64,
    /// Number of requests sent in it, and how many succeeded and failed.
    pub(super) sent: AtomicU64,
    pub(super) completed: AtomicU64,
    pub(super) failed: AtomicU64,
    /// Id of the sequence that its request belongs to, if it does.
    sequence_id: AtomicU64,
    /// When the first request of the sequence was due that its request ends; 0 if that one was not played whole.
    pub(super) sequence_begun: AtomicU64,
    /// Request stream of the input source that its request came from.
    pub(super) request_stream: AtomicU32,
    /// The next free slot, while it is free; the server of its request, where there are several, while it is not: together
    /// the slot keeps its size.
    next_free_or_server: AtomicU32,
}

/// Flag in `request`, above the payload.
const IN_SEQUENCE: u64 = 1 << 32;
const STARTS: u64 = 1 << 33;
const ENDS: u64 = 1 << 34;

impl Slot {
    /// When its request should have been sent.
    #[inline]
    pub(super) fn intended(&self) -> Stamp {
        Stamp(self.intended.load(Ordering::Relaxed))
    }

    /// Stores the request that is about to be sent. `follow` is told its place in a sequence, if it has one.
    #[inline]
    pub(super) fn remember(&self, request: Request, follow: impl FnOnce(SequencePosition)) {
        let mut word = u64::from(request.payload.0);
        if let Some(position @ SequencePosition { id, start, end }) = request.sequence {
            self.sequence_id.store(id, Ordering::Relaxed);
            word |= IN_SEQUENCE | if start { STARTS } else { 0 } | if end { ENDS } else { 0 };
            follow(position);
        }
        self.request.store(word, Ordering::Relaxed);
        bump(&self.sent);
    }

    /// What its request carries.
    #[inline]
    pub(super) fn payload(&self) -> PayloadId {
        PayloadId(self.request.load(Ordering::Relaxed) as u32)
    }

    /// Whether its request ends a sequence.
    #[inline]
    pub(super) fn ends_sequence(&self) -> bool {
        self.request.load(Ordering::Relaxed) & ENDS != 0
    }

    /// When the first request of the sequence was due that its request ends, if all of it was played.
    pub(super) fn sequence_begun(&self) -> Option<Stamp> {
        Some(Stamp(self.sequence_begun.load(Ordering::Relaxed))).filter(|begun| begun.0 > 0)
    }

    /// Its request goes to that server.
    pub(super) fn assign(&self, server: usize) {
        self.next_free_or_server.store(server as u32, Ordering::Relaxed);
    }

    /// The server of its request, where there are several.
    pub(super) fn server(&self) -> usize {
        self.next_free_or_server.load(Ordering::Relaxed) as usize
    }

    /// The stored request.
    #[inline]
    pub(super) fn request(&self) -> Request {
        let word = self.request.load(Ordering::Relaxed);
        let position = || SequencePosition {
            id: self.sequence_id.load(Ordering::Relaxed),
            start: word & STARTS != 0,
            end: word & ENDS != 0,
        };
        Request { payload: PayloadId(word as u32), sequence: (word & IN_SEQUENCE != 0).then(position) }
    }
}

/// Increments a counter that has one writer at a time. Who reads it with `Acquire` sees what was counted before.
#[inline]
pub(super) fn bump(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Release);
}

/// Numbers of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) sent: u64,
    pub(super) completed: u64,
    pub(super) failed: u64,
}

/// No slot.
const NONE: u32 = u32::MAX;

/// Slots that can be added to while completions use them.
pub(super) struct SlotTable {
    slots: Chunks<CachePadded<Slot>>,
    freed: AtomicU32,
}

impl SlotTable {
    /// A table of `slots` slots.
    pub(super) fn new(slots: usize) -> Self {
        Self { slots: Chunks::new(slots), freed: AtomicU32::new(NONE) }
    }

    /// Makes sure that the slots below `slots` exist.
    pub(super) fn grow(&self, slots: usize) {
        self.slots.grow(slots);
    }

    /// A slot.
    ///
    /// # Panics
    /// Where the table was not grown to it.
    #[inline]
    pub(super) fn get(&self, slot: SlotId) -> &Slot {
        self.slots.get(slot.index())
    }

    /// The requests of the first `count` slots. They may go on meanwhile, so those that are over are counted first: no
    /// more of them than were sent.
    pub(super) fn counts(&self, count: usize) -> Counts {
        let total = |counter: fn(&Slot) -> &AtomicU64| -> u64 {
            (0..count as u32).map(|slot| counter(self.get(SlotId(slot))).load(Ordering::Acquire)).sum()
        };
        let (failed, completed) = (total(|slot| &slot.failed), total(|slot| &slot.completed));
        Counts { sent: total(|slot| &slot.sent), completed, failed }
    }

    /// Gives a slot back; callable on any thread.
    #[inline]
    pub(super) fn free(&self, slot: SlotId) {
        let state = self.get(slot);
        let mut head = self.freed.load(Ordering::Relaxed);
        loop {
            state.next_free_or_server.store(head, Ordering::Relaxed);
            match self.freed.compare_exchange_weak(head, slot.0, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Appends the slots that were given back to `free`, in that order. One thread only.
    pub(super) fn take_freed(&self, free: &mut VecDeque<SlotId>) {
        // A thread that drives its client asks at every turn, and mostly there is nothing.
        if self.freed.load(Ordering::SeqCst) == NONE {
            return;
        }
        let mut slot = self.freed.swap(NONE, Ordering::SeqCst);
        let held = free.len();
        while slot != NONE {
            free.push_back(SlotId(slot));
            slot = self.get(SlotId(slot)).next_free_or_server.load(Ordering::Relaxed);
        }
        free.make_contiguous()[held..].reverse();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn a_slot_remembers_its_request() {
        let slot = Slot::default();
        for sequence in [None, Some(SequencePosition { id: 7, start: true, end: false })] {
            let request = Request { payload: PayloadId(3), sequence };
            slot.remember(request, |_| {});
            assert_eq!(slot.request(), request);
        }
    }

    #[test]
    fn no_more_requests_are_over_than_were_sent() {
        const SLOTS: u32 = 4;
        let table = SlotTable::new(0);
        table.grow(SLOTS as usize);
        let stop = AtomicBool::new(false);
        let request = Request { payload: PayloadId(0), sequence: None };
        let odd = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    for slot in (0..SLOTS).map(|slot| table.get(SlotId(slot))) {
                        slot.remember(request, |_| {});
                        bump(&slot.completed);
                        slot.remember(request, |_| {});
                        bump(&slot.failed);
                    }
                }
            });
            let mut counts = (0..200_000).map(|_| table.counts(SLOTS as usize));
            let odd = counts.find(|counts| counts.completed + counts.failed > counts.sent);
            stop.store(true, Ordering::Relaxed);
            odd
        });
        assert_eq!(odd, None);
    }

    #[test]
    fn slots_are_found_across_chunks() {
        let table = SlotTable::new(0);
        table.grow(1000);
        for index in 0..1000 {
            table.get(SlotId(index)).request_stream.store(index, Ordering::Relaxed);
        }
        table.grow(5000);
        assert!((0..1000).all(|index| table.get(SlotId(index)).request_stream.load(Ordering::Relaxed) == index));
        assert_eq!(table.get(SlotId(4999)).request_stream.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn freed_slots_come_back_once_and_in_order() {
        let table = SlotTable::new(0);
        table.grow(10);
        let mut free = VecDeque::from([SlotId(9)]);
        [3, 1, 4].into_iter().for_each(|slot| table.free(SlotId(slot)));
        table.take_freed(&mut free);
        assert_eq!(free, [9, 3, 1, 4].map(SlotId));
        table.take_freed(&mut free);
        assert_eq!(free.len(), 4);
    }

    #[test]
    fn no_slot_is_lost_or_doubled_under_contention() {
        const SLOTS: u32 = 256;
        const ROUNDS: usize = 20_000;
        let table = SlotTable::new(0);
        table.grow(SLOTS as usize);
        let (to_threads, work) = crossbeam::channel::unbounded::<SlotId>();
        std::thread::scope(|scope| {
            for _ in 0..3 {
                let (table, work) = (&table, work.clone());
                scope.spawn(move || work.iter().for_each(|slot| table.free(slot)));
            }
            let mut out = [false; SLOTS as usize];
            let mut free: VecDeque<SlotId> = (0..SLOTS).map(SlotId).collect();
            let mut sent = 0;
            while sent < ROUNDS {
                match free.pop_front() {
                    Some(slot) => {
                        assert!(!out[slot.index()]);
                        out[slot.index()] = true;
                        to_threads.send(slot).unwrap();
                        sent += 1;
                    }
                    None => {
                        table.take_freed(&mut free);
                        free.iter().for_each(|slot| out[slot.index()] = false);
                    }
                }
            }
            drop(to_threads);
        });
        let mut leftover = VecDeque::new();
        table.take_freed(&mut leftover);
        let mut leftover: Vec<u32> = leftover.iter().map(|slot| slot.0).collect();
        leftover.sort_unstable();
        leftover.dedup();
        assert!(leftover.iter().all(|&slot| slot < SLOTS));
    }
}
