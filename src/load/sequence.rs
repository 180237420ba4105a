//! Sequences: ids, lengths, start and end flags, as functions of the seed and of counters.
//!
//! A *request stream* plays one sequence after the other; there are as many active sequences as request streams.
//! Everything about the `n`-th sequence of request stream `l` follows from `l`, `n` and the plan, so request streams
//! share nothing and runs repeat exactly:
//!
//! * its id: request stream `l` of `L` owns the ids `first + l, first + l + L, …` of the range and takes them in turn, so two
//!   active sequences cannot have the same id;
//! * its stream: the next of all, in the order of `n · L + l` (`load::input_source` deals them);
//! * its length: the flag's, or the stream's, varied by a draw that belongs to `n · L + l`.
//!
//! Calls for one request stream must not overlap, those for different request streams may; nothing blocks or allocates.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crossbeam::utils::CachePadded;

use crate::backend::SequencePosition;
use crate::clock::Stamp;
use crate::error::{Error, Result};
use crate::plan::SequencePlan;
use crate::request_streams::LocalRequestStreams;
use crate::seed::{self, Purpose};

/// The length rule of sequences.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SequenceLength {
    /// As many as its stream has steps.
    Stream,
    /// A number of requests, varied by up to a percentage either way; steps of the stream are repeated or left out.
    About(u64, f64),
}

impl SequenceLength {
    /// The rule of a plan: the flag, else the data's own lengths where `data_has_steps`, else the default length.
    pub fn new(plan: &SequencePlan, data_has_steps: bool) -> Self {
        match plan.length {
            Some(length) => Self::About(length, plan.variation_percent),
            None if data_has_steps => Self::Stream,
            None => Self::About(plan.default_length, plan.variation_percent),
        }
    }
}

/// What all sequences of a level have in common.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SequenceSpec {
    /// Smallest id; not 0, which means "no sequence" to the server.
    pub first_id: u64,
    /// Number of ids.
    pub ids: u64,
    /// Requests in a sequence.
    pub length: SequenceLength,
    /// The run's seed.
    pub seed: u64,
}

/// The sequences of a level.
#[derive(Debug)]
pub struct Sequences {
    spec: SequenceSpec,
    lengths_seed: u64,
    /// Number of request streams in all processes together.
    all_request_streams: u64,
    request_streams: Box<[CachePadded<RequestStreamState>]>,
}

/// The state of a request stream. Relaxed atomics are enough: the caller orders the calls for one request stream.
#[derive(Debug)]
struct RequestStreamState {
    /// Its number among all request streams.
    number: u64,
    /// Number of sequences begun.
    begun: AtomicU64,
    /// Number of requests made in the open sequence.
    made: AtomicU64,
    /// Length of the open sequence; 0 if none is open.
    length: AtomicU64,
    /// The number of its stream.
    stream: AtomicUsize,
    /// When the first request of the latest sequence was due; 0 if that one is ended early.
    first_due: AtomicU64,
}

/// The stream of data that a sequence plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DealtStream {
    /// Its number.
    pub number: usize,
    /// How many steps it has.
    pub steps: u64,
}

/// One request of a sequence, before it has a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceStep {
    /// Number of its sequence in the level, the same on every run.
    pub ordinal: u64,
    /// The number of its stream.
    pub stream: usize,
    /// Its number in the sequence, counted from 0.
    pub step: u64,
    /// Id and flags.
    pub position: SequencePosition,
}

impl Sequences {
    /// Sequences for `request_streams` request streams.
    ///
    /// # Errors
    /// If the ids are fewer than the request streams, start at 0 or do not fit 64 bits, or a length or variation is unusable.
    pub fn new(spec: SequenceSpec, request_streams: impl Into<LocalRequestStreams>) -> Result<Self> {
        let request_streams: LocalRequestStreams = request_streams.into();
        let SequenceSpec { first_id, ids, length, seed } = spec;
        if first_id == 0 || first_id.checked_add(ids).is_none() {
            return Err(Error::usage(format!(
                "--sequence-id-range: {ids} ids from {first_id} are not usable: ids run from 1 to {}",
                u64::MAX
            )));
        }
        if ids < request_streams.all as u64 {
            return Err(Error::usage(format!(
                "--sequence-id-range holds {ids} ids, but {} sequences are active at once and each needs its own: \
                 widen the range or lower the concurrency (--num-of-sequences in rate modes)",
                request_streams.all
            )));
        }
        if let SequenceLength::About(length, percent) = length {
            if length == 0 {
                return Err(Error::usage("--sequence-length 0 is not usable: a sequence has at least one request"));
            }
            if !(percent >= 0.0 && percent.is_finite()) {
                return Err(Error::usage(format!(
                    "--sequence-length-variation {percent} is not usable: it must be a percentage of at least 0"
                )));
            }
        }
        let lengths_seed = seed::derive(seed, Purpose::SequenceLengths);
        let request_stream = |number: usize| {
            let (begun, made, length, first_due) = Default::default();
            let stream = AtomicUsize::default();
            CachePadded::new(RequestStreamState { number: number as u64, begun, made, length, stream, first_due })
        };
        let local_request_streams = request_streams.numbers().map(request_stream).collect();
        Ok(Self {
            spec,
            lengths_seed,
            all_request_streams: request_streams.all as u64,
            request_streams: local_request_streams,
        })
    }

    /// Number of request streams.
    pub fn request_streams(&self) -> usize {
        self.request_streams.len()
    }

    /// The next request of a request stream. Where a new sequence begins, `deal` tells for its ordinal which stream it plays.
    // Not inlined into the input source's own `next`, which would slow down requests without sequences.
    #[inline(never)]
    pub fn next(&self, request_stream: usize, deal: impl FnOnce(u64) -> DealtStream) -> SequenceStep {
        let state = &self.request_streams[request_stream];
        let mut length = state.length.load(Ordering::Relaxed);
        let start = length == 0;
        if start {
            let number = state.begun.fetch_add(1, Ordering::Relaxed);
            let ordinal = self.ordinal(request_stream, number);
            let stream = deal(ordinal);
            state.stream.store(stream.number, Ordering::Relaxed);
            length = match self.spec.length {
                SequenceLength::Stream => stream.steps.max(1),
                SequenceLength::About(length, percent) => self.varied(length, percent, ordinal),
            };
            state.length.store(length, Ordering::Relaxed);
            state.made.store(0, Ordering::Relaxed);
        }
        let made = state.made.load(Ordering::Relaxed);
        let end = made + 1 >= length;
        if end {
            state.length.store(0, Ordering::Relaxed);
        }
        state.made.store(made + 1, Ordering::Relaxed);
        self.step(request_stream, made, start, end)
    }

    /// A request that ends the request stream's sequence early; `None` if none is open.
    pub fn close(&self, request_stream: usize) -> Option<SequenceStep> {
        let state = &self.request_streams[request_stream];
        let open = state.length.swap(0, Ordering::Relaxed) > 0;
        if open {
            state.first_due.store(0, Ordering::Relaxed);
        }
        open.then(|| self.step(request_stream, state.made.load(Ordering::Relaxed), false, true))
    }

    /// Makes the request stream's next request end its sequence, whose start failed: its model may know nothing of it, but
    /// Triton's sequence batcher holds a place for it until an end comes, or `max_sequence_idle_microseconds` are over.
    pub fn cut_short(&self, request_stream: usize) {
        let state = &self.request_streams[request_stream];
        if state.length.load(Ordering::Relaxed) > 0 {
            state.length.store(state.made.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            state.first_due.store(0, Ordering::Relaxed);
        }
    }

    /// The first request of the request stream's open sequence is due at that moment.
    pub fn begin(&self, request_stream: usize, due: Stamp) {
        self.request_streams[request_stream].first_due.store(due.0, Ordering::Relaxed);
    }

    /// When the first request of the request stream's latest sequence was due, if that one is played whole.
    pub fn begun(&self, request_stream: usize) -> Option<Stamp> {
        Some(Stamp(self.request_streams[request_stream].first_due.load(Ordering::Relaxed))).filter(|due| due.0 > 0)
    }

    fn step(&self, request_stream: usize, step: u64, start: bool, end: bool) -> SequenceStep {
        let state = &self.request_streams[request_stream];
        let number = state.begun.load(Ordering::Relaxed) - 1;
        SequenceStep {
            ordinal: self.ordinal(request_stream, number),
            stream: state.stream.load(Ordering::Relaxed),
            step,
            position: SequencePosition { id: self.id(request_stream, number), start, end },
        }
    }

    fn ordinal(&self, request_stream: usize, number: u64) -> u64 {
        number.wrapping_mul(self.all_request_streams).wrapping_add(self.request_streams[request_stream].number)
    }

    fn id(&self, request_stream: usize, number: u64) -> u64 {
        let (request_stream, request_streams) = (self.request_streams[request_stream].number, self.all_request_streams);
        // Number of ids of the range that belong to this request stream; at least one, because there are as many as
        // request streams.
        let stream_ids = (self.spec.ids - request_stream).div_ceil(request_streams);
        self.spec.first_id + request_stream + number % stream_ids * request_streams
    }

    fn varied(&self, length: u64, percent: f64, ordinal: u64) -> u64 {
        let draw = 2.0 * seed::unit(seed::hash(self.lengths_seed, ordinal)) - 1.0;
        let varied = length as f64 + (draw * percent / 100.0 * length as f64).trunc();
        (varied as u64).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(ids: u64, length: SequenceLength) -> SequenceSpec {
        SequenceSpec { first_id: 100, ids, length, seed: 3 }
    }

    fn sequences(request_streams: usize, ids: u64, length: SequenceLength) -> Sequences {
        Sequences::new(spec(ids, length), request_streams).unwrap()
    }

    /// A stream of so many steps, which is its number, too.
    fn dealt(steps: u64) -> DealtStream {
        DealtStream { number: steps as usize, steps }
    }

    /// One whole sequence of a request stream.
    fn play(sequences: &Sequences, request_stream: usize) -> Vec<SequenceStep> {
        let mut steps = Vec::new();
        loop {
            let step = sequences.next(request_stream, |ordinal| dealt(1 + ordinal % 3));
            steps.push(step);
            if step.position.end {
                return steps;
            }
        }
    }

    #[test]
    fn flags_steps_and_ids_of_whole_sequences() {
        let sequences = sequences(2, 1000, SequenceLength::About(3, 0.0));
        let first = play(&sequences, 1);
        let flags: Vec<_> = first.iter().map(|step| (step.step, step.position.start, step.position.end)).collect();
        assert_eq!(flags, [(0, true, false), (1, false, false), (2, false, true)]);
        assert!(first.iter().all(|step| step.position.id == 101 && step.ordinal == 1));
        assert!(play(&sequences, 1).iter().all(|step| step.position.id == 103 && step.ordinal == 3));
    }

    #[test]
    fn a_sequence_of_one_carries_both_flags() {
        let sequences = sequences(1, 5, SequenceLength::About(1, 0.0));
        let step = sequences.next(0, |_| dealt(9));
        assert!(step.position.start && step.position.end);
        assert_eq!(sequences.close(0), None);
    }

    #[test]
    fn streams_give_lengths_and_are_dealt_in_the_order_of_sequences() {
        let sequences = sequences(2, 10, SequenceLength::Stream);
        let streams = |request_stream| {
            let all = (0..4).map(|_| play(&sequences, request_stream));
            all.map(|steps| (steps.len(), steps.last().unwrap().stream)).collect::<Vec<_>>()
        };
        assert_eq!(streams(0), [(1, 1), (3, 3), (2, 2), (1, 1)]);
        assert_eq!(streams(1), [(2, 2), (1, 1), (3, 3), (2, 2)]);
    }

    #[test]
    fn live_sequences_never_share_an_id_and_ids_stay_in_range() {
        for (request_streams, ids) in [(1, 1), (3, 3), (3, 4), (4, 10), (7, 50)] {
            let sequences = sequences(request_streams, ids, SequenceLength::About(5, 60.0));
            let mut live = vec![0; request_streams];
            let mut used_ids = std::collections::BTreeSet::new();
            for turn in 0..5000_u64 {
                let request_stream = (seed::hash(1, turn) % request_streams as u64) as usize;
                let step = sequences.next(request_stream, |_| dealt(1));
                let id = step.position.id;
                assert!((100..100 + ids).contains(&id));
                assert!(
                    live.iter().enumerate().all(|(other, &held)| other == request_stream || held != id),
                    "id {id} twice"
                );
                live[request_stream] = if step.position.end { 0 } else { id };
                used_ids.insert(id);
            }
            assert_eq!(used_ids.len() as u64, ids, "every id of the range is used");
        }
    }

    #[test]
    fn lengths_vary_within_bounds_and_follow_the_seed() {
        let lengths = |seed| {
            let spec = SequenceSpec { seed, ..spec(10, SequenceLength::About(20, 25.0)) };
            let sequences = Sequences::new(spec, 1).unwrap();
            (0..300).map(|_| play(&sequences, 0).len()).collect::<Vec<_>>()
        };
        let drawn = lengths(3);
        assert!(drawn.iter().all(|length| (15..=25).contains(length)));
        assert!((15..=25).filter(|length| drawn.contains(length)).count() >= 9);
        assert_eq!(drawn, lengths(3));
        assert_ne!(drawn, lengths(4));
    }

    #[test]
    fn lengths_that_vary_by_more_than_themselves_are_at_least_one() {
        let sequences = sequences(1, 10, SequenceLength::About(4, 300.0));
        let drawn: Vec<usize> = (0..300).map(|_| play(&sequences, 0).len()).collect();
        assert!(drawn.iter().all(|length| (1..=16).contains(length)), "{drawn:?}");
        assert!(drawn.contains(&1) && drawn.iter().any(|length| *length > 8), "{drawn:?}");
    }

    #[test]
    fn open_sequences_are_closed_once_and_the_next_starts_afresh() {
        let sequences = sequences(1, 10, SequenceLength::About(4, 0.0));
        assert_eq!(sequences.close(0), None);
        sequences.next(0, |_| dealt(1));
        let end = sequences.close(0).unwrap();
        assert_eq!(end.position, SequencePosition { id: 100, start: false, end: true });
        assert_eq!(end.step, 1);
        assert_eq!(sequences.close(0), None);
        let next = sequences.next(0, |_| dealt(1)).position;
        assert_eq!(next, SequencePosition { id: 101, start: true, end: false });
        sequences.cut_short(0);
        let end = sequences.next(0, |_| dealt(1)).position;
        assert_eq!(end, SequencePosition { id: 101, start: false, end: true });
        sequences.cut_short(0);
        assert_eq!(sequences.close(0), None);
        assert!(sequences.next(0, |_| dealt(1)).position.start);
    }

    #[test]
    fn only_whole_sequences_have_a_beginning() {
        let sequences = sequences(2, 10, SequenceLength::About(2, 0.0));
        let begin = |at| {
            sequences.next(0, |_| dealt(1));
            sequences.begin(0, Stamp(at));
        };
        begin(7);
        sequences.next(0, |_| dealt(1));
        assert_eq!((sequences.begun(0), sequences.begun(1)), (Some(Stamp(7)), None));
        assert_eq!(sequences.close(0), None);
        assert_eq!(sequences.begun(0), Some(Stamp(7)), "its end has been sent");
        begin(9);
        sequences.close(0);
        assert_eq!(sequences.begun(0), None);
        begin(11);
        sequences.cut_short(0);
        sequences.next(0, |_| dealt(1));
        assert_eq!(sequences.begun(0), None);
    }

    #[test]
    fn unusable_specs_are_refused() {
        let refuse = |spec, request_streams| Sequences::new(spec, request_streams).unwrap_err().to_string();
        assert!(refuse(spec(3, SequenceLength::Stream), 4).contains("holds 3 ids, but 4 sequences"));
        assert!(refuse(spec(0, SequenceLength::Stream), 1).contains("holds 0 ids"));
        assert!(refuse(SequenceSpec { first_id: 0, ..spec(3, SequenceLength::Stream) }, 1).contains("from 0"));
        assert!(refuse(spec(u64::MAX, SequenceLength::Stream), 1).contains("--sequence-id-range"));
        assert!(refuse(spec(3, SequenceLength::About(0, 0.0)), 1).contains("--sequence-length 0"));
        for percent in [-1.0, f64::INFINITY, f64::NAN] {
            assert!(refuse(spec(3, SequenceLength::About(5, percent)), 1).contains("--sequence-length-variation"));
        }
    }

    #[test]
    fn the_plan_decides_where_lengths_come_from() {
        let plan = |length| SequencePlan {
            length,
            default_length: 20,
            variation_percent: 10.0,
            first_id: 1,
            ids: 10,
            serial: false,
            concurrent: 4,
            correlation: None,
        };
        assert_eq!(SequenceLength::new(&plan(None), true), SequenceLength::Stream);
        assert_eq!(SequenceLength::new(&plan(None), false), SequenceLength::About(20, 10.0));
        assert_eq!(SequenceLength::new(&plan(Some(7)), true), SequenceLength::About(7, 10.0));
    }
}
