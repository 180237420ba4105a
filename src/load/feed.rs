//! What the next request of a lane carries: payload, model and place in a sequence.
//!
//! A *lane* is whatever asks for requests one at a time: a slot of a closed loop, an issuing thread of an open one, an
//! active sequence. Independent requests walk through the data (`load::walk`), one walk per lane.

use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam::utils::CachePadded;

use crate::backend::Request;
use crate::clock::Stamp;
use crate::data::PayloadId;
use crate::error::{Error, Result};
use crate::load::lanes::OwnLanes;
use crate::load::mix::Mix;
use crate::load::sequence::{SequenceSpec, SequenceStep, Sequences};
use crate::load::walk::{FirstPass, Walk};

/// Where the payloads of one model are in the payload table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PayloadIndex {
    /// In the order in which a model without sequences gets them, repeated.
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
    /// Number of lanes in all processes together.
    all_lanes: u64,
    order: Order,
}

#[derive(Debug)]
enum Order {
    Cycle(Box<[Lane]>),
    Sequences(Sequences),
}

/// A lane of independent requests.
#[derive(Debug)]
struct Lane {
    /// The number of its next draw of a model; used only with several models.
    draw: AtomicU64,
    /// Per model.
    walks: Box<[CachePadded<Walk>]>,
}

/// How lanes share the first pass through the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deal {
    /// By number: request `n` of a schedule carries entry `n`, whichever thread is ahead. While lanes keep step, every
    /// entry is sent before any repeats.
    InStep,
    /// By demand: the first lane to ask gets the next entry, so every entry is sent before any repeats, however fast
    /// lanes are.
    OnDemand,
}

impl Feed {
    /// Independent requests, with one model per share of the mix. The first of them carries entry `first` of the data,
    /// as if those before it had been sent.
    ///
    /// # Errors
    /// If a model has no payload.
    pub fn independent(
        models: Vec<PayloadIndex>,
        mix: Mix,
        lanes: impl Into<OwnLanes>,
        deal: Deal,
        first: u64,
    ) -> Result<Self> {
        let lanes: OwnLanes = lanes.into();
        check(&models, &mix, |index| !index.cycle.is_empty())?;
        let passes: Vec<_> =
            models.iter().map(|_| (deal == Deal::OnDemand).then(|| FirstPass::of(lanes.part))).collect();
        let walk = |(index, pass): (&PayloadIndex, &Option<FirstPass>), lane| {
            Walk::new(index.cycle.len(), lane, lanes.all, first, pass.as_ref()).into()
        };
        let lane = |lane| Lane {
            draw: first.wrapping_add(lane as u64).into(),
            walks: models.iter().zip(&passes).map(|model| walk(model, lane)).collect(),
        };
        let order = Order::Cycle(lanes.numbers().map(lane).collect());
        Ok(Self { models: models.into(), mix, all_lanes: lanes.all as u64, order })
    }

    /// Requests in sequences, one active sequence per lane. A sequence goes to one model of the mix.
    ///
    /// # Errors
    /// If a model has no stream or an empty one, or as [`Sequences::new`].
    pub fn sequences(
        models: Vec<PayloadIndex>,
        mix: Mix,
        spec: SequenceSpec,
        lanes: impl Into<OwnLanes>,
    ) -> Result<Self> {
        let lanes = lanes.into();
        check(&models, &mix, |index| {
            !index.streams.is_empty() && index.streams.iter().all(|stream| !stream.is_empty())
        })?;
        let order = Order::Sequences(Sequences::new(spec, lanes)?);
        Ok(Self { models: models.into(), mix, all_lanes: lanes.all as u64, order })
    }

    /// Number of lanes.
    pub fn lanes(&self) -> usize {
        match &self.order {
            Order::Cycle(lanes) => lanes.len(),
            Order::Sequences(sequences) => sequences.lanes(),
        }
    }

    /// The next request of a lane.
    pub fn next(&self, lane: usize) -> Request {
        match &self.order {
            Order::Cycle(lanes) => {
                let Lane { draw, walks } = &lanes[lane];
                let model = if walks.len() == 1 { 0 } else { self.draw(draw) };
                Request { payload: self.models[model].cycle[walks[model].next()], sequence: None }
            }
            Order::Sequences(sequences) => {
                self.request(sequences.next(lane, |ordinal, turn| self.stream(ordinal, turn).len() as u64))
            }
        }
    }

    fn draw(&self, draw: &AtomicU64) -> usize {
        let number = draw.load(Ordering::Relaxed);
        draw.store(number.wrapping_add(self.all_lanes), Ordering::Relaxed);
        self.mix.pick(number)
    }

    /// Whether the requests of a lane belong together.
    pub fn has_sequences(&self) -> bool {
        matches!(self.order, Order::Sequences(_))
    }

    /// A request that ends the lane's sequence early; `None` if none is open.
    pub fn close(&self, lane: usize) -> Option<Request> {
        match &self.order {
            Order::Cycle(..) => None,
            Order::Sequences(sequences) => sequences.close(lane).map(|step| self.request(step)),
        }
    }

    /// Makes the lane's next request end its sequence, because its start failed.
    pub fn cut_short(&self, lane: usize) {
        if let Order::Sequences(sequences) = &self.order {
            sequences.cut_short(lane);
        }
    }

    /// The request that starts the lane's open sequence is due at that moment.
    #[cold]
    #[inline(never)]
    pub fn begin(&self, lane: usize, due: Stamp) {
        if let Order::Sequences(sequences) = &self.order {
            sequences.begin(lane, due);
        }
    }

    /// When the first request of the lane's latest sequence was due, if that one is played whole.
    pub fn begun(&self, lane: usize) -> Option<Stamp> {
        if let Order::Sequences(sequences) = &self.order { sequences.begun(lane) } else { None }
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
        let feed = Feed::independent(vec![cycle(0..5)], Mix::single(), 2, Deal::InStep, 0).unwrap();
        assert_eq!(payloads(&feed, 0, 5), [0, 2, 4, 1, 3]);
        assert_eq!(payloads(&feed, 1, 5), [1, 3, 0, 2, 4]);
        assert_eq!(feed.next(0).sequence, None);
        assert_eq!(feed.close(0), None);
        assert_eq!(feed.lanes(), 2);
    }

    #[test]
    fn a_feed_may_begin_in_the_middle() {
        let feed = |lanes| Feed::independent(vec![cycle(0..5)], Mix::single(), lanes, Deal::InStep, 3).unwrap();
        assert_eq!(payloads(&feed(1), 0, 4), [3, 4, 0, 1]);
        let two = feed(2);
        assert_eq!((payloads(&two, 0, 2), payloads(&two, 1, 2)), (vec![3, 0], vec![4, 1]));
    }

    #[test]
    fn entries_on_demand_are_each_sent_once_first() {
        let feed = |first| Feed::independent(vec![cycle(0..100)], Mix::single(), 4, Deal::OnDemand, first).unwrap();
        let begun = feed(0);
        let order = [payloads(&begun, 0, 70), payloads(&begun, 3, 20), payloads(&begun, 1, 10)].concat();
        assert_eq!(order, (0..100).collect::<Vec<_>>());
        assert_eq!(payloads(&begun, 2, 3), [2, 6, 10], "then each lane goes its own way");
        assert_eq!(payloads(&feed(98), 2, 4), [98, 99, 0, 1]);
    }

    #[test]
    fn a_mix_draws_models_by_the_number_of_the_request() {
        let feed = |lanes| {
            Feed::independent(
                vec![cycle(0..1), cycle(10..11)],
                Mix::new(&[0.25, 0.75], 1).unwrap(),
                lanes,
                Deal::InStep,
                0,
            )
            .unwrap()
        };
        let whole = payloads(&feed(1), 0, 4000);
        let second = whole.iter().filter(|&&payload| payload == 10).count();
        assert!((2850..3150).contains(&second), "{second}");
        let two = feed(2);
        let halves = [payloads(&two, 0, 100), payloads(&two, 1, 100)];
        let merged: Vec<u32> = (0..200).map(|i| halves[i % 2][i / 2]).collect();
        assert_eq!(merged, whole[..200]);
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
        assert!(Feed::independent(vec![cycle(0..0)], Mix::single(), 1, Deal::InStep, 0).is_err());
        assert!(Feed::independent(vec![cycle(0..1)], Mix::new(&[0.5, 0.5], 0).unwrap(), 1, Deal::InStep, 0).is_err());
        let spec = SequenceSpec { first_id: 1, ids: 1, length: SequenceLength::Stream, seed: 0 };
        assert!(Feed::sequences(vec![cycle(0..1)], Mix::single(), spec, 1).is_err());
    }
}
