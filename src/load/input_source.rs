//! What the next request of a request stream carries: payload, model and place in a sequence.
//!
//! A *request stream* is whatever asks for requests one at a time: a slot of a closed loop, an issuing thread of an open one, an
//! active sequence. Independent requests walk through the data (`load::entry_order`), one order per request stream.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam::utils::CachePadded;

use crate::backend::Request;
use crate::clock::Stamp;
use crate::data::PayloadId;
use crate::entry_order::{EntryOrder, FirstPass};
use crate::error::{Error, Result};
use crate::mix::Mix;
use crate::ranks::Part;
use crate::request_streams::LocalRequestStreams;
use crate::sequence::{DealtStream, SequenceSpec, SequenceStep, Sequences};

/// Where the payloads of one model are in the payload table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PayloadIndex {
    /// In the order in which a model without sequences gets them, repeated.
    pub cycle: Vec<PayloadId>,
    /// Per stream, one per step, for models with sequences.
    pub streams: Vec<Vec<PayloadId>>,
}

/// Assigns requests to request streams. Calls for one request stream must not overlap, those for different request
/// streams may; nothing blocks or allocates, so a completion may ask for the next request on the server's own thread.
#[derive(Debug)]
pub struct InputSource {
    models: Box<[PayloadIndex]>,
    mix: Mix,
    /// Number of request streams in all processes together.
    all_request_streams: u64,
    /// By model, after how many sequences each request stream would get the streams of data again that it has had, if some are
    /// not among them.
    rounds: Box<[Option<u64>]>,
    order: Order,
}

#[derive(Debug)]
enum Order {
    Cycle(Box<[RequestStream]>),
    Sequences(Sequences),
}

/// A request stream of independent requests.
#[derive(Debug)]
struct RequestStream {
    /// The number of its next draw of a model; used only with several models.
    draw: AtomicU64,
    /// Per model.
    orders: Box<[CachePadded<EntryOrder>]>,
}

/// A first pass through each model's data that all loads of a run share, so that none sends what another has sent.
#[derive(Clone, Debug)]
pub struct RunPass(Arc<[Option<FirstPass>]>);

impl RunPass {
    /// Nothing is sent yet of the data of so many models; `part` is this process' part of all requests.
    pub fn new(models: usize, part: Part) -> Self {
        Self((0..models).map(|_| Some(FirstPass::new(part))).collect())
    }
}

/// How request streams share the first pass through the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryAssignment {
    /// By number: request `n` of a schedule carries entry `n`, whichever thread is ahead. While request streams keep step, every
    /// entry is sent before any repeats.
    InStep,
    /// By demand: the first request stream to ask gets the next entry, so every entry is sent before any repeats, however fast
    /// request streams are.
    OnDemand,
}

impl InputSource {
    /// Independent requests, with one model per share of the mix. The first of them carries entry `first` of the data,
    /// as if those before it had been sent.
    ///
    /// # Errors
    /// If a model has no payload.
    pub fn independent(
        models: Vec<PayloadIndex>,
        mix: Mix,
        request_streams: impl Into<LocalRequestStreams>,
        assignment: EntryAssignment,
        first: u64,
    ) -> Result<Self> {
        let request_streams: LocalRequestStreams = request_streams.into();
        let pass = |_: &_| (assignment == EntryAssignment::OnDemand).then(|| FirstPass::new(request_streams.part));
        let passes: Vec<_> = models.iter().map(pass).collect();
        Self::in_cycles(models, mix, request_streams, &passes, first)
    }

    /// The same, by demand, where a first pass that other loads have begun goes on: until it is over, no entry is sent twice.
    ///
    /// # Errors
    /// If a model has no payload.
    pub fn going_on(
        models: Vec<PayloadIndex>,
        mix: Mix,
        request_streams: impl Into<LocalRequestStreams>,
        pass: &RunPass,
    ) -> Result<Self> {
        Self::in_cycles(models, mix, request_streams.into(), &pass.0, 0)
    }

    fn in_cycles(
        models: Vec<PayloadIndex>,
        mix: Mix,
        request_streams: LocalRequestStreams,
        passes: &[Option<FirstPass>],
        first: u64,
    ) -> Result<Self> {
        check(&models, &mix, |index| !index.cycle.is_empty())?;
        let order = |(index, pass): (&PayloadIndex, &Option<FirstPass>), request_stream| {
            EntryOrder::new(index.cycle.len(), request_stream, request_streams.all, first, pass.as_ref()).into()
        };
        let request_stream = |request_stream| RequestStream {
            draw: first.wrapping_add(request_stream as u64).into(),
            orders: models.iter().zip(passes).map(|model| order(model, request_stream)).collect(),
        };
        let order = Order::Cycle(request_streams.numbers().map(request_stream).collect());
        let all_request_streams = request_streams.all as u64;
        Ok(Self { models: models.into(), mix, all_request_streams, rounds: Box::default(), order })
    }

    /// Requests in sequences, one active sequence per request stream. A sequence goes to one model of the mix.
    ///
    /// # Errors
    /// If a model has no stream or an empty one, or as [`Sequences::new`].
    pub fn sequences(
        models: Vec<PayloadIndex>,
        mix: Mix,
        spec: SequenceSpec,
        request_streams: impl Into<LocalRequestStreams>,
    ) -> Result<Self> {
        let request_streams = request_streams.into();
        check(&models, &mix, |index| {
            !index.streams.is_empty() && index.streams.iter().all(|stream| !stream.is_empty())
        })?;
        let order = Order::Sequences(Sequences::new(spec, request_streams)?);
        let all_request_streams = request_streams.all as u64;
        let rounds = models.iter().map(|index| round(all_request_streams, index.streams.len() as u64)).collect();
        Ok(Self { models: models.into(), mix, all_request_streams, rounds, order })
    }

    /// Number of request streams.
    pub fn request_streams(&self) -> usize {
        match &self.order {
            Order::Cycle(request_streams) => request_streams.len(),
            Order::Sequences(sequences) => sequences.request_streams(),
        }
    }

    /// The next request of a request stream.
    pub fn next(&self, request_stream: usize) -> Request {
        match &self.order {
            Order::Cycle(request_streams) => {
                let RequestStream { draw, orders } = &request_streams[request_stream];
                let model = if orders.len() == 1 { 0 } else { self.draw(draw) };
                Request { payload: self.models[model].cycle[orders[model].next()], sequence: None }
            }
            Order::Sequences(sequences) => self.request(sequences.next(request_stream, |ordinal| self.deal(ordinal))),
        }
    }

    fn draw(&self, draw: &AtomicU64) -> usize {
        let number = draw.load(Ordering::Relaxed);
        draw.store(number.wrapping_add(self.all_request_streams), Ordering::Relaxed);
        self.mix.pick(number)
    }

    /// Whether the requests of a request stream belong together.
    pub fn has_sequences(&self) -> bool {
        matches!(self.order, Order::Sequences(_))
    }

    /// A request that ends the request stream's sequence early; `None` if none is open.
    pub fn close(&self, request_stream: usize) -> Option<Request> {
        match &self.order {
            Order::Cycle(..) => None,
            Order::Sequences(sequences) => sequences.close(request_stream).map(|step| self.request(step)),
        }
    }

    /// Makes the request stream's next request end its sequence, because its start failed.
    pub fn cut_short(&self, request_stream: usize) {
        if let Order::Sequences(sequences) = &self.order {
            sequences.cut_short(request_stream);
        }
    }

    /// The request that starts the request stream's open sequence is due at that moment.
    #[cold]
    #[inline(never)]
    pub fn begin(&self, request_stream: usize, due: Stamp) {
        if let Order::Sequences(sequences) = &self.order {
            sequences.begin(request_stream, due);
        }
    }

    /// When the first request of the request stream's latest sequence was due, if that one is played whole.
    pub fn begun(&self, request_stream: usize) -> Option<Stamp> {
        if let Order::Sequences(sequences) = &self.order { sequences.begun(request_stream) } else { None }
    }

    /// The stream of data for a sequence: each gets the next. Where a request stream would get the same few again and again, all
    /// go one further after each round.
    fn deal(&self, ordinal: u64) -> DealtStream {
        let model = self.mix.pick(ordinal);
        let streams = &self.models[model].streams;
        let further = self.rounds[model].map_or(0, |round| ordinal / round);
        let number = (ordinal.wrapping_add(further) % streams.len() as u64) as usize;
        DealtStream { number, steps: streams[number].len() as u64 }
    }

    fn request(&self, step: SequenceStep) -> Request {
        let stream = &self.models[self.mix.pick(step.ordinal)].streams[step.stream];
        Request { payload: stream[(step.step % stream.len() as u64) as usize], sequence: Some(step.position) }
    }
}

/// The sequences after which all `request_streams` would get the same of so many streams of data again; `None` if each gets all
/// of them.
fn round(request_streams: u64, streams: u64) -> Option<u64> {
    let common = common_divisor(request_streams, streams);
    (common > 1).then(|| request_streams / common * streams)
}

fn common_divisor(left: u64, right: u64) -> u64 {
    if right == 0 { left } else { common_divisor(right, left % right) }
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
    use crate::sequence::SequenceLength;

    fn ids(range: std::ops::Range<u32>) -> Vec<PayloadId> {
        range.map(PayloadId).collect()
    }

    fn cycle(range: std::ops::Range<u32>) -> PayloadIndex {
        PayloadIndex { cycle: ids(range), streams: Vec::new() }
    }

    fn payloads(input_source: &InputSource, request_stream: usize, count: usize) -> Vec<u32> {
        (0..count).map(|_| input_source.next(request_stream).payload.0).collect()
    }

    #[test]
    fn request_streams_share_the_cycle_without_a_counter() {
        let input_source =
            InputSource::independent(vec![cycle(0..5)], Mix::single(), 2, EntryAssignment::InStep, 0).unwrap();
        assert_eq!(payloads(&input_source, 0, 5), [0, 2, 4, 1, 3]);
        assert_eq!(payloads(&input_source, 1, 5), [1, 3, 0, 2, 4]);
        assert_eq!(input_source.next(0).sequence, None);
        assert_eq!(input_source.close(0), None);
        assert_eq!(input_source.request_streams(), 2);
    }

    #[test]
    fn an_input_source_may_begin_in_the_middle() {
        let input_source = |request_streams| {
            InputSource::independent(vec![cycle(0..5)], Mix::single(), request_streams, EntryAssignment::InStep, 3)
                .unwrap()
        };
        assert_eq!(payloads(&input_source(1), 0, 4), [3, 4, 0, 1]);
        let two = input_source(2);
        assert_eq!((payloads(&two, 0, 2), payloads(&two, 1, 2)), (vec![3, 0], vec![4, 1]));
    }

    #[test]
    fn entries_on_demand_are_each_sent_once_first() {
        let input_source = |first| {
            InputSource::independent(vec![cycle(0..100)], Mix::single(), 4, EntryAssignment::OnDemand, first).unwrap()
        };
        let begun = input_source(0);
        let order = [payloads(&begun, 0, 70), payloads(&begun, 3, 20), payloads(&begun, 1, 10)].concat();
        assert_eq!(order, (0..100).collect::<Vec<_>>());
        assert_eq!(payloads(&begun, 2, 3), [2, 6, 10], "then each request stream goes its own way");
        assert_eq!(payloads(&input_source(98), 2, 4), [98, 99, 0, 1]);
    }

    #[test]
    fn a_pass_of_the_run_goes_on_over_its_loads() {
        for part in [Part::WHOLE, Part { rank: 1, size: 2 }] {
            let pass = RunPass::new(1, part);
            let load = || InputSource::going_on(vec![cycle(0..100)], Mix::single(), 4, &pass).unwrap();
            let (first, second) = (load(), load());
            let sent = [payloads(&first, 0, 20), payloads(&second, 2, 20), payloads(&first, 1, 10)].concat();
            let own: Vec<u32> = (0..50).map(|index| part.number(index) as u32).collect();
            assert_eq!(sent, own);
        }
    }

    #[test]
    fn a_mix_draws_models_by_the_number_of_the_request() {
        let input_source = |request_streams| {
            InputSource::independent(
                vec![cycle(0..1), cycle(10..11)],
                Mix::new(&[0.25, 0.75], 1).unwrap(),
                request_streams,
                EntryAssignment::InStep,
                0,
            )
            .unwrap()
        };
        let whole = payloads(&input_source(1), 0, 4000);
        let second = whole.iter().filter(|&&payload| payload == 10).count();
        assert!((2850..3150).contains(&second), "{second}");
        let two = input_source(2);
        let halves = [payloads(&two, 0, 100), payloads(&two, 1, 100)];
        let merged: Vec<u32> = (0..200).map(|i| halves[i % 2][i / 2]).collect();
        assert_eq!(merged, whole[..200]);
    }

    #[test]
    fn sequences_walk_their_stream_and_wrap() {
        let index = PayloadIndex { cycle: Vec::new(), streams: vec![ids(0..2), ids(10..13)] };
        let spec = |length| SequenceSpec { first_id: 1, ids: 10, length, seed: 0 };
        let by_stream =
            InputSource::sequences(vec![index.clone()], Mix::single(), spec(SequenceLength::Stream), 1).unwrap();
        assert_eq!(payloads(&by_stream, 0, 7), [0, 1, 10, 11, 12, 0, 1]);
        let longer =
            InputSource::sequences(vec![index], Mix::single(), spec(SequenceLength::About(4, 0.0)), 1).unwrap();
        assert_eq!(payloads(&longer, 0, 6), [0, 1, 0, 1, 10, 11]);
        let end = longer.close(0).unwrap();
        assert_eq!((end.payload, end.sequence.unwrap().end), (PayloadId(12), true));
        assert_eq!(longer.close(0), None);
    }

    #[test]
    fn streams_of_data_are_dealt_round_robin_to_sequences_of_all_request_streams() {
        for (request_streams, streams) in [(1, 3), (16, 100), (8, 8), (16, 8), (3, 7), (4, 6)] {
            let index = PayloadIndex { cycle: Vec::new(), streams: (0..streams).map(|id| ids(id..id + 1)).collect() };
            let spec = SequenceSpec { first_id: 1, ids: 1000, length: SequenceLength::Stream, seed: 0 };
            let source = InputSource::sequences(vec![index], Mix::single(), spec, request_streams).unwrap();
            let mut of_each = vec![std::collections::BTreeSet::new(); request_streams];
            let mut played = Vec::new();
            for number in 0..40 * streams as usize * request_streams {
                let payload = source.next(number % request_streams).payload.0;
                of_each[number % request_streams].insert(payload);
                played.push(payload);
            }
            assert_eq!(played[..streams as usize], (0..streams).collect::<Vec<_>>(), "in the order of the data first");
            for pass in played.chunks(streams as usize) {
                let mut pass = pass.to_vec();
                pass.sort_unstable();
                assert_eq!(pass, (0..streams).collect::<Vec<_>>(), "each once: {request_streams}, {streams}");
            }
            assert!(of_each.iter().all(|streams_played| streams_played.len() == streams as usize), "{of_each:?}");
        }
    }

    #[test]
    fn a_sequence_stays_with_one_model() {
        let stream = |range| PayloadIndex { cycle: Vec::new(), streams: vec![ids(range)] };
        let spec = SequenceSpec { first_id: 1, ids: 10, length: SequenceLength::About(5, 0.0), seed: 0 };
        let models = vec![stream(0..5), stream(10..15)];
        let input_source = InputSource::sequences(models, Mix::new(&[0.5, 0.5], 9).unwrap(), spec, 1).unwrap();
        let all = payloads(&input_source, 0, 100);
        let models: Vec<u32> = all.chunks(5).map(|sequence| sequence[0] / 10).collect();
        assert!(all.chunks(5).all(|sequence| sequence.iter().all(|payload| payload / 10 == sequence[0] / 10)));
        assert!(models.contains(&0) && models.contains(&1));
    }

    #[test]
    fn models_without_data_are_refused() {
        assert!(InputSource::independent(vec![cycle(0..0)], Mix::single(), 1, EntryAssignment::InStep, 0).is_err());
        assert!(
            InputSource::independent(
                vec![cycle(0..1)],
                Mix::new(&[0.5, 0.5], 0).unwrap(),
                1,
                EntryAssignment::InStep,
                0
            )
            .is_err()
        );
        let spec = SequenceSpec { first_id: 1, ids: 1, length: SequenceLength::Stream, seed: 0 };
        assert!(InputSource::sequences(vec![cycle(0..1)], Mix::single(), spec, 1).is_err());
    }
}
