//! [`EntryOrder`]: the order in which a request stream takes the entries of a model's data.
//!
//! Request stream `l` of `L` takes entries `l, l + L, l + 2L, …`, so request streams that keep step walk through the data
//! once before any entry repeats, without sharing a counter. A request stream that has sent all its entries begins again;
//! now and then it moves on to the next set, so that every request stream reaches every entry however fast the others
//! are.
//!
//! Request streams that need not keep step, such as those of a closed loop, first get each entry once from a shared counter
//! ([`FirstPass`]): as many requests as there are entries then carry all of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crossbeam::utils::CachePadded;

use crate::ranks::Part;

/// With up to this many entries, a request stream moves on to the next set as soon as it has sent its own.
const FEW_ENTRIES: u32 = 64;
/// With more entries, a request stream repeats its own this many times: what the client keeps for an entry and a request
/// stream then stays in the cache, and all request streams together touch no more than all entries.
const ROUNDS: u32 = 256;

/// Counts the entries assigned in the request streams' first pass through the data; and which part of all is assigned here.
#[derive(Clone, Debug)]
pub(super) struct FirstPass {
    assigned: Arc<CachePadded<AtomicU64>>,
    part: Part,
}

impl FirstPass {
    /// None yet.
    pub(super) fn new(part: Part) -> Self {
        Self { assigned: Arc::default(), part }
    }
}

/// The position of a request stream. Calls must not overlap; they contain neither a division nor a locked instruction once the
/// first pass is over.
#[derive(Debug)]
pub(super) struct EntryOrder {
    entries: u32,
    stride: u32,
    /// Steps through the request stream's own entries, and rounds before it moves on; 0: it never does.
    period: u32,
    rounds: u32,
    /// The next entry, and the first one of the round.
    next: AtomicU32,
    first: AtomicU32,
    /// Step within the round; equal to the period where a round begins, and throughout the first pass.
    step: AtomicU32,
    /// Rounds begun since the request stream moved on.
    round: AtomicU32,
    /// Whether the first pass is over.
    passed: AtomicBool,
    pass: Option<Pass>,
}

/// A shared first pass, which begins with entry `offset`.
#[derive(Debug)]
struct Pass {
    entries: FirstPass,
    offset: u64,
}

impl EntryOrder {
    /// The order of `request_stream` among `request_streams`, starting `offset` entries further on, after a shared first
    /// pass if there is one. `entries` and `request_streams` are not 0.
    pub(super) fn new(
        entries: usize,
        request_stream: usize,
        request_streams: usize,
        offset: u64,
        first_pass: Option<&FirstPass>,
    ) -> Self {
        let start = request_stream % entries;
        let (period, rounds) = match entries > FEW_ENTRIES as usize {
            true => ((entries - start).div_ceil(request_streams) as u32, ROUNDS),
            false => match greatest_common_divisor(entries, request_streams) {
                // The stride alone reaches every entry, again and again.
                1 => (u32::MAX, 0),
                common => ((entries / common) as u32, 1),
            },
        };
        let offset = offset % entries as u64;
        let first = ((start as u64 + offset) % entries as u64) as u32;
        Self {
            entries: entries as u32,
            stride: (request_streams % entries) as u32,
            period,
            rounds,
            next: first.into(),
            first: first.into(),
            step: period.into(),
            round: 0.into(),
            passed: first_pass.is_none().into(),
            pass: first_pass.map(|entries| Pass { entries: entries.clone(), offset }),
        }
    }

    /// The next entry.
    #[inline]
    pub(super) fn next(&self) -> usize {
        let step = self.step.load(Ordering::Relaxed);
        if step == self.period {
            return self.begin_round();
        }
        let entry = self.next.load(Ordering::Relaxed);
        self.step.store(step + 1, Ordering::Relaxed);
        self.next.store(self.wrap(entry + self.stride), Ordering::Relaxed);
        entry as usize
    }

    fn begin_round(&self) -> usize {
        if !self.passed.load(Ordering::Relaxed)
            && let Some(entry) = self.assign()
        {
            return entry;
        }
        let (mut first, mut round) = (self.first.load(Ordering::Relaxed), self.round.load(Ordering::Relaxed));
        if self.rounds > 0 {
            if round == self.rounds {
                (first, round) = (self.wrap(first + 1), 0);
                self.first.store(first, Ordering::Relaxed);
            }
            self.round.store(round + 1, Ordering::Relaxed);
        }
        self.step.store(1, Ordering::Relaxed);
        self.next.store(self.wrap(first + self.stride), Ordering::Relaxed);
        first as usize
    }

    /// The next entry of the first pass; `None` once it is over.
    #[cold]
    fn assign(&self) -> Option<usize> {
        let entries = u64::from(self.entries);
        let entry = self.pass.as_ref().and_then(|pass| {
            let FirstPass { assigned, part } = &pass.entries;
            let number = assigned.fetch_add(1, Ordering::Relaxed) * part.size as u64 + part.rank as u64;
            (number < entries).then_some((number + pass.offset) % entries)
        });
        self.passed.store(entry.is_none(), Ordering::Relaxed);
        entry.map(|entry| entry as usize)
    }

    #[inline]
    fn wrap(&self, entry: u32) -> u32 {
        if entry >= self.entries { entry - self.entries } else { entry }
    }
}

fn greatest_common_divisor(mut a: usize, mut b: usize) -> usize {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    fn orders(entries: usize, request_streams: usize) -> Vec<EntryOrder> {
        (0..request_streams)
            .map(|request_stream| EntryOrder::new(entries, request_stream, request_streams, 0, None))
            .collect()
    }

    fn steps(order: &EntryOrder, count: usize) -> Vec<usize> {
        (0..count).map(|_| order.next()).collect()
    }

    #[test]
    fn request_streams_share_the_entries() {
        let request_streams = orders(5, 2);
        assert_eq!(steps(&request_streams[0], 10), [0, 2, 4, 1, 3, 0, 2, 4, 1, 3]);
        assert_eq!(steps(&request_streams[1], 5), [1, 3, 0, 2, 4]);
        assert_eq!(steps(&orders(3, 1)[0], 7), [0, 1, 2, 0, 1, 2, 0]);
        let round: Vec<usize> = (0..200).collect();
        assert_eq!(steps(&orders(200, 1)[0], 400), round.repeat(2));
    }

    #[test]
    fn an_order_may_begin_further_on() {
        let from =
            |request_stream, request_streams| steps(&EntryOrder::new(5, request_stream, request_streams, 13, None), 4);
        assert_eq!(from(0, 1), [3, 4, 0, 1]);
        assert_eq!((from(0, 2), from(1, 2)), (vec![3, 0, 2, 4], vec![4, 1, 3, 0]));
        assert_eq!(steps(&EntryOrder::new(100, 1, 2, u64::MAX, None), 2), [16, 18]);
    }

    #[test]
    fn every_request_stream_reaches_every_entry() {
        for (entries, request_streams) in [(1, 4), (4, 1), (4, 4), (6, 4), (2, 8), (7, 3), (12, 8), (100, 8), (65, 80)]
        {
            let many = entries > FEW_ENTRIES as usize;
            let count = match many {
                true => entries * entries.div_ceil(request_streams) * ROUNDS as usize,
                false => 2 * entries * request_streams,
            };
            let rounds: Vec<Vec<usize>> =
                orders(entries, request_streams).iter().map(|order| steps(order, count)).collect();
            for round in &rounds {
                assert!(
                    (0..entries).all(|entry| round.contains(&entry)),
                    "{entries} entries, {request_streams} request streams: {round:?}"
                );
            }
            let mut counts = vec![0_usize; entries];
            rounds.iter().flatten().for_each(|&entry| counts[entry] += 1);
            let uneven = if many { request_streams * ROUNDS as usize } else { request_streams };
            assert!(counts.iter().all(|&count| count.abs_diff(counts[0]) <= uneven), "{counts:?}");
        }
    }

    #[test]
    fn many_entries_are_assigned_to_request_streams_that_keep_to_theirs_for_a_while() {
        for (entries, request_streams) in [(100, 8), (1000, 32), (65, 80)] {
            let mut owners = vec![0; entries];
            for (request_stream, order) in orders(entries, request_streams).iter().enumerate().take(entries) {
                let share = (entries - request_stream).div_ceil(request_streams);
                let round = steps(order, share);
                assert_eq!(round, (request_stream..entries).step_by(request_streams).collect::<Vec<_>>());
                round.iter().for_each(|&entry| owners[entry] += 1);
                assert_eq!(steps(order, share * (ROUNDS as usize - 1)), round.repeat(ROUNDS as usize - 1));
                assert_eq!(steps(order, 1), [(request_stream + 1) % entries], "one further");
            }
            assert!(owners.iter().all(|&count| count == 1), "each entry has one owner");
        }
    }

    #[test]
    fn a_shared_first_pass_assigns_every_entry_once_however_fast_request_streams_are() {
        for (entries, request_streams) in [(1, 4), (4, 4), (5, 2), (12, 8), (1000, 4), (65, 80)] {
            let pass = FirstPass::new(Part::WHOLE);
            let request_streams: Vec<EntryOrder> = (0..request_streams)
                .map(|request_stream| EntryOrder::new(entries, request_stream, request_streams, 7, Some(&pass)))
                .collect();
            // The first request stream is three times as fast as the others.
            let order = (0..).map(|turn: usize| if turn % 4 < 3 { 0 } else { turn / 4 % request_streams.len() });
            let first: Vec<usize> =
                order.take(entries).map(|request_stream| request_streams[request_stream].next()).collect();
            assert_eq!(first, (0..entries).map(|number| (number + 7) % entries).collect::<Vec<_>>());
            for (number, request_stream) in request_streams.iter().enumerate() {
                let solo = EntryOrder::new(entries, number, request_streams.len(), 7, None);
                assert_eq!(steps(request_stream, 3 * entries), steps(&solo, 3 * entries), "its own way afterwards");
            }
        }
    }
}
