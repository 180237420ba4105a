//! What the next request of a lane carries: payload, model and place in a sequence.
//!
//! A *lane* is whatever asks for requests one at a time: a slot of a closed loop, an issuing thread of an open one, a live
//! sequence. Lane `l` of `L` takes entries `l, l + L, l + 2L, …` of the data, so all lanes together walk through it once
//! before it comes round again, without sharing a counter. A lane that is back at its own first entry before it has had
//! them all goes on with the next one now and then, so that every lane comes by every entry however fast the others are.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam::utils::CachePadded;

use crate::backend::Request;
use crate::data::PayloadId;
use crate::error::{Error, Result};
use crate::load::mix::Mix;
use crate::load::sequence::{SequenceSpec, SequenceStep, Sequences};

/// Where the payloads of one model are in the payload table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PayloadIndex {
    /// In the order in which a model without sequences gets them; round and round.
    pub cycle: Vec<PayloadId>,
    /// Per stream, one per step, for models with sequences.
    pub streams: Vec<Vec<PayloadId>>,
}

/// Deals requests to lanes. Calls for one lane must not overlap, those for different lanes may; nothing blocks or
/// allocates, so a completion may ask for the next request on the server's own thread.
#[derive(Debug)]
pub struct Feed {
    models: Box<[PayloadIndex]>,
    mix: Mix,
    order: Order,
    /// Entry of the data that the first request carries.
    first: u64,
}

#[derive(Debug)]
enum Order {
    /// Per lane, how many requests it has had; per model, how a lane walks through its entries.
    Cycle(Box<[CachePadded<AtomicU64>]>, Box<[Walk]>),
    Sequences(Sequences),
}

impl Feed {
    /// Requests that are independent of each other, one model per share of the mix.
    ///
    /// # Errors
    /// Where a model has no payload.
    pub fn independent(models: Vec<PayloadIndex>, mix: Mix, lanes: usize) -> Result<Self> {
        check(&models, &mix, |index| !index.cycle.is_empty())?;
        let counters = (0..lanes).map(|_| CachePadded::default()).collect();
        let walks = models.iter().map(|index| Walk::of(index.cycle.len() as u64, lanes as u64)).collect();
        Ok(Self { models: models.into(), mix, order: Order::Cycle(counters, walks), first: 0 })
    }

    /// Requests in sequences, one live sequence per lane. A sequence goes to one model of the mix.
    ///
    /// # Errors
    /// Where a model has no stream or an empty one, or as [`Sequences::new`].
    pub fn sequences(models: Vec<PayloadIndex>, mix: Mix, spec: SequenceSpec, lanes: usize) -> Result<Self> {
        check(&models, &mix, |index| {
            !index.streams.is_empty() && index.streams.iter().all(|stream| !stream.is_empty())
        })?;
        Ok(Self { models: models.into(), mix, order: Order::Sequences(Sequences::new(spec, lanes)?), first: 0 })
    }

    /// The same, beginning with entry `first` of the data, as if those before it had been sent. Sequences always begin with
    /// their first.
    pub fn starting_at(self, first: u64) -> Self {
        Self { first, ..self }
    }

    /// How many lanes there are.
    pub fn lanes(&self) -> usize {
        match &self.order {
            Order::Cycle(counters, _) => counters.len(),
            Order::Sequences(sequences) => sequences.lanes(),
        }
    }

    /// The next request of a lane.
    pub fn next(&self, lane: usize) -> Request {
        match &self.order {
            Order::Cycle(counters, walks) => {
                let number = counters[lane].fetch_add(1, Ordering::Relaxed);
                let (lane, lanes) = (lane as u64, counters.len() as u64);
                let model = self.mix.pick(number.wrapping_mul(lanes).wrapping_add(lane).wrapping_add(self.first));
                let cycle = &self.models[model].cycle;
                let entry = walks[model].entry(number, (lane, lanes)).wrapping_add(self.first);
                Request { payload: cycle[(entry % cycle.len() as u64) as usize], sequence: None }
            }
            Order::Sequences(sequences) => {
                self.request(sequences.next(lane, |ordinal, turn| self.stream(ordinal, turn).len() as u64))
            }
        }
    }

    /// A request that ends the lane's sequence before its time; `None` where none is open.
    pub fn close(&self, lane: usize) -> Option<Request> {
        match &self.order {
            Order::Cycle(..) => None,
            Order::Sequences(sequences) => sequences.close(lane).map(|step| self.request(step)),
        }
    }

    /// Lets the lane's next request end its sequence, because its start failed.
    pub fn cut_short(&self, lane: usize) {
        if let Order::Sequences(sequences) = &self.order {
            sequences.cut_short(lane);
        }
    }

    fn stream(&self, ordinal: u64, turn: u64) -> &[PayloadId] {
        let streams = &self.models[self.mix.pick(ordinal)].streams;
        &streams[(turn % streams.len() as u64) as usize]
    }

    fn request(&self, step: SequenceStep) -> Request {
        let stream = self.stream(step.ordinal, step.turn);
        Request { payload: stream[(step.step % stream.len() as u64) as usize], sequence: Some(step.position) }
    }
}

/// Up to so many entries, the lanes keep to their order for ever.
const FEW_ENTRIES: u64 = 64;
/// With more of them a lane goes so often through those that are its own: what belongs to an entry then stays near the
/// processor, and all lanes together touch no more than all entries.
const ROUNDS: u64 = 64;

/// How the lanes walk through the entries of a model. Their first walk through all of them is the same in both ways.
#[derive(Clone, Copy, Debug)]
enum Walk {
    /// From entry to entry, on behind the last one; a lane that is back at its own first one after so many requests, before
    /// it has had them all, goes on with the next.
    On(Option<NonZeroU64>),
    /// Of so many entries, every lane goes [`ROUNDS`] times through its own, then through those one further.
    Rounds(u64),
}

impl Walk {
    fn of(entries: u64, lanes: u64) -> Self {
        if entries > FEW_ENTRIES {
            return Self::Rounds(entries);
        }
        let (mut common, mut rest) = (entries, lanes);
        while rest > 0 {
            (common, rest) = (rest, common % rest);
        }
        Self::On(entries.checked_div(common).and_then(NonZeroU64::new).filter(|_| common > 1))
    }

    /// The entry of a lane's request `number`, of which it is the remainder by the number of entries.
    #[inline]
    fn entry(self, number: u64, (lane, lanes): (u64, u64)) -> u64 {
        match self {
            Self::On(period) => {
                let shift = period.map_or(0, |period| number / period);
                number.wrapping_mul(lanes).wrapping_add(lane).wrapping_add(shift)
            }
            Self::Rounds(entries) => {
                let start = lane % entries;
                let own = (entries - start).div_ceil(lanes);
                start + number % own * lanes + number / (own * ROUNDS)
            }
        }
    }
}

fn check(models: &[PayloadIndex], mix: &Mix, usable: impl Fn(&PayloadIndex) -> bool) -> Result<()> {
    if models.len() != mix.models() {
        return Err(Error::usage(format!(
            "there are data for {} models, but the mix names {}",
            models.len(),
            mix.models()
        )));
    }
    match models.iter().position(|index| !usable(index)) {
        Some(model) => {
            Err(Error::input(format!("there are no input data for model number {}: give at least one step", model + 1)))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::sequence::SequenceLength;

    fn ids(range: std::ops::Range<u32>) -> Vec<PayloadId> {
        range.map(PayloadId).collect()
    }

    fn cycle(range: std::ops::Range<u32>) -> PayloadIndex {
        PayloadIndex { cycle: ids(range), streams: Vec::new() }
    }

    fn payloads(feed: &Feed, lane: usize, count: usize) -> Vec<u32> {
        (0..count).map(|_| feed.next(lane).payload.0).collect()
    }

    #[test]
    fn lanes_share_the_cycle_without_a_counter() {
        let feed = Feed::independent(vec![cycle(0..5)], Mix::single(), 2).unwrap();
        assert_eq!(payloads(&feed, 0, 5), [0, 2, 4, 1, 3]);
        assert_eq!(payloads(&feed, 1, 5), [1, 3, 0, 2, 4]);
        assert_eq!(feed.next(0).sequence, None);
        assert_eq!(feed.close(0), None);
        assert_eq!(feed.lanes(), 2);
    }

    #[test]
    fn a_feed_may_begin_in_the_middle() {
        let feed = |lanes| Feed::independent(vec![cycle(0..5)], Mix::single(), lanes).unwrap().starting_at(3);
        assert_eq!(payloads(&feed(1), 0, 4), [3, 4, 0, 1]);
        let two = feed(2);
        assert_eq!((payloads(&two, 0, 2), payloads(&two, 1, 2)), (vec![3, 0], vec![4, 1]));
    }

    #[test]
    fn every_lane_comes_by_every_entry() {
        for (entries, lanes) in [(1, 4), (4, 1), (4, 4), (6, 4), (2, 8), (7, 3), (12, 8), (100, 8), (65, 80)] {
            let feed = Feed::independent(vec![cycle(0..entries)], Mix::single(), lanes).unwrap();
            let many = u64::from(entries) > FEW_ENTRIES;
            let count = match many {
                true => entries as usize * (entries as usize).div_ceil(lanes) * ROUNDS as usize,
                false => 2 * entries as usize * lanes,
            };
            let rounds: Vec<Vec<u32>> = (0..lanes).map(|lane| payloads(&feed, lane, count)).collect();
            for round in &rounds {
                assert!(
                    (0..entries).all(|entry| round.contains(&entry)),
                    "{entries} entries, {lanes} lanes: {round:?}"
                );
            }
            let counts: Vec<usize> =
                (0..entries).map(|entry| rounds.iter().flatten().filter(|&&got| got == entry).count()).collect();
            let uneven = if many { lanes * ROUNDS as usize } else { lanes };
            assert!(counts.iter().all(|&count| count.abs_diff(counts[0]) <= uneven), "{counts:?}");
        }
    }

    #[test]
    fn many_entries_are_dealt_to_lanes_that_keep_to_theirs_for_a_while() {
        for (entries, lanes) in [(100, 8), (1000, 32), (65, 80)] {
            let feed = Feed::independent(vec![cycle(0..entries)], Mix::single(), lanes).unwrap();
            let mut owners = vec![0; entries as usize];
            for lane in 0..lanes.min(entries as usize) {
                let own = (entries as usize - lane).div_ceil(lanes);
                let round = payloads(&feed, lane, own);
                assert_eq!(round, (lane as u32..entries).step_by(lanes).collect::<Vec<_>>());
                round.iter().for_each(|&entry| owners[entry as usize] += 1);
                assert_eq!(payloads(&feed, lane, own * (ROUNDS as usize - 1)), round.repeat(ROUNDS as usize - 1));
                assert_eq!(payloads(&feed, lane, 1), [(lane as u32 + 1) % entries], "one further");
            }
            assert!(owners.iter().all(|&count| count == 1), "each entry has one owner");
        }
    }

    #[test]
    fn a_mix_draws_models_by_the_number_of_the_request() {
        let feed = |lanes| {
            Feed::independent(vec![cycle(0..1), cycle(10..11)], Mix::new(&[0.25, 0.75], 1).unwrap(), lanes).unwrap()
        };
        let one = payloads(&feed(1), 0, 4000);
        let second = one.iter().filter(|&&payload| payload == 10).count();
        assert!((2850..3150).contains(&second), "{second}");
        let two = feed(2);
        let halves = [payloads(&two, 0, 100), payloads(&two, 1, 100)];
        let merged: Vec<u32> = (0..200).map(|i| halves[i % 2][i / 2]).collect();
        assert_eq!(merged, one[..200]);
    }

    #[test]
    fn sequences_walk_their_stream_and_wrap() {
        let index = PayloadIndex { cycle: Vec::new(), streams: vec![ids(0..2), ids(10..13)] };
        let spec = |length| SequenceSpec { first_id: 1, ids: 10, length, seed: 0 };
        let by_stream = Feed::sequences(vec![index.clone()], Mix::single(), spec(SequenceLength::Stream), 1).unwrap();
        assert_eq!(payloads(&by_stream, 0, 7), [0, 1, 10, 11, 12, 0, 1]);
        let longer = Feed::sequences(vec![index], Mix::single(), spec(SequenceLength::About(4, 0.0)), 1).unwrap();
        assert_eq!(payloads(&longer, 0, 6), [0, 1, 0, 1, 10, 11]);
        let end = longer.close(0).unwrap();
        assert_eq!((end.payload, end.sequence.unwrap().end), (PayloadId(12), true));
        assert_eq!(longer.close(0), None);
    }

    #[test]
    fn a_sequence_stays_with_one_model() {
        let stream = |range| PayloadIndex { cycle: Vec::new(), streams: vec![ids(range)] };
        let spec = SequenceSpec { first_id: 1, ids: 10, length: SequenceLength::About(5, 0.0), seed: 0 };
        let models = vec![stream(0..5), stream(10..15)];
        let feed = Feed::sequences(models, Mix::new(&[0.5, 0.5], 9).unwrap(), spec, 1).unwrap();
        let all = payloads(&feed, 0, 100);
        let models: Vec<u32> = all.chunks(5).map(|sequence| sequence[0] / 10).collect();
        assert!(all.chunks(5).all(|sequence| sequence.iter().all(|payload| payload / 10 == sequence[0] / 10)));
        assert!(models.contains(&0) && models.contains(&1));
    }

    #[test]
    fn models_without_data_are_refused() {
        assert!(Feed::independent(vec![cycle(0..0)], Mix::single(), 1).is_err());
        assert!(Feed::independent(vec![cycle(0..1)], Mix::new(&[0.5, 0.5], 0).unwrap(), 1).is_err());
        let spec = SequenceSpec { first_id: 1, ids: 1, length: SequenceLength::Stream, seed: 0 };
        assert!(Feed::sequences(vec![cycle(0..1)], Mix::single(), spec, 1).is_err());
    }
}
