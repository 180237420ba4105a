//! The parts of several processes make what one process would have sent: the same instants, the same data, the same sequences.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::data::PayloadId;
use crate::input_source::{EntryAssignment, InputSource, PayloadIndex};
use crate::mix::Mix;
use crate::open::OpenLoop;
use crate::ranks::Part;
use crate::request_streams::LocalRequestStreams;
use crate::schedule::{Arrivals, Schedule};
use crate::sequence::{SequenceLength, SequenceSpec};
use crate::terms::GapDistribution;

const SIZES: [usize; 4] = [1, 2, 3, 7];

fn parts(size: usize) -> impl Iterator<Item = Part> {
    (0..size).map(move |rank| Part { rank, size })
}

fn open_loop(arrivals: Arrivals, threads: usize, part: Part) -> OpenLoop {
    OpenLoop {
        arrivals,
        seed: 11,
        threads,
        max_outstanding: 1000,
        serial: false,
        part,
        until: None,
        spin: Duration::ZERO,
    }
}

/// Each request's number in the schedule, its instant, and what it carries and to which of two models, of all workers of one
/// process.
fn requests(arrivals: &Arrivals, threads: usize, part: Part, count: u64) -> Vec<(u64, u64, u32)> {
    let shape = open_loop(arrivals.clone(), threads, part);
    let request_streams = LocalRequestStreams { count: threads, all: threads * part.size, part };
    let cycle =
        |range: std::ops::Range<u32>| PayloadIndex { cycle: range.map(PayloadId).collect(), streams: Vec::new() };
    let input_source =
        InputSource::independent(vec![cycle(0..13)], Mix::single(), request_streams, EntryAssignment::InStep, 0)
            .unwrap();
    let mix = Mix::new(&[0.6, 0.4], 5).unwrap();
    let mixed =
        InputSource::independent(vec![cycle(0..1), cycle(100..101)], mix, request_streams, EntryAssignment::InStep, 0)
            .unwrap();
    let mut all = Vec::new();
    for (turn, turns, share) in shape.turns(threads, count) {
        let schedule = Schedule::share(arrivals, shape.seed, turn, turns);
        for (index, instant) in (0..share).zip(schedule) {
            let number = turn as u64 + index * turns as u64;
            // A worker has one request stream here.
            let request_stream = turn / part.size;
            all.push((
                number,
                instant,
                input_source.next(request_stream).payload.0 + mixed.next(request_stream).payload.0,
            ));
        }
    }
    all
}

#[test]
fn schedules_of_several_processes_are_that_of_one() {
    let poisson = Arrivals::at_rate(5_000.0, GapDistribution::Poisson).unwrap();
    let others = [
        Arrivals::at_rate(777.0, GapDistribution::Constant).unwrap(),
        Arrivals::at_rate(777.0, GapDistribution::Gamma(0.4)).unwrap(),
        Arrivals::looped(vec![5, 0, 70]).unwrap(),
        Arrivals::once((0..400).map(|number| number * number).collect()).unwrap(),
    ];
    for arrivals in [poisson].into_iter().chain(others) {
        let whole = requests(&arrivals, 1, Part::WHOLE, 400);
        let instants: Vec<u64> = Schedule::new(&arrivals, 11).take(400).collect();
        assert_eq!(whole.iter().map(|(_, instant, _)| *instant).collect::<Vec<_>>(), instants);
        for size in SIZES {
            for threads in [1, 2] {
                let mut union: Vec<_> = parts(size).flat_map(|part| requests(&arrivals, threads, part, 400)).collect();
                union.sort_unstable();
                assert_eq!(union, whole, "{size} processes with {threads} threads, {arrivals:?}");
            }
        }
    }
}

#[test]
fn a_concurrency_in_parts_sends_every_entry_once_before_one_comes_round_again() {
    for size in SIZES {
        let mut sent = BTreeSet::new();
        for part in parts(size) {
            let request_streams = LocalRequestStreams { count: part.share(8), all: 8, part };
            let index = PayloadIndex { cycle: (0..100).map(PayloadId).collect(), streams: Vec::new() };
            let input_source =
                InputSource::independent(vec![index], Mix::single(), request_streams, EntryAssignment::OnDemand, 0)
                    .unwrap();
            for request in 0..part.share(100) {
                let payload = input_source.next(request * 7 % part.share(8).max(1)).payload.0;
                assert!(sent.insert(payload), "{payload} twice with {size} processes");
            }
        }
        assert_eq!(sent.len(), 100);
    }
}

#[test]
fn sequences_in_parts_have_the_ids_lengths_and_data_of_one_process() {
    let played = |part: Part| {
        let request_streams = LocalRequestStreams { count: part.share(9), all: 9, part };
        let streams = (0..4).map(|stream| (0..5).map(|step| PayloadId(stream * 10 + step)).collect()).collect();
        let index = PayloadIndex { cycle: Vec::new(), streams };
        let spec = SequenceSpec { first_id: 100, ids: 50, length: SequenceLength::About(6, 50.0), seed: 3 };
        let input_source = InputSource::sequences(vec![index], Mix::single(), spec, request_streams).unwrap();
        let request_stream = |request_stream: usize| {
            let steps: Vec<_> = (0..60).map(|_| input_source.next(request_stream)).collect();
            let summary = |request: &crate::backend::Request| {
                let position = request.sequence.unwrap();
                (position.id, position.start, position.end, request.payload.0)
            };
            (part.number(request_stream), steps.iter().map(summary).collect::<Vec<_>>())
        };
        (0..part.share(9)).map(request_stream).collect::<Vec<_>>()
    };
    let whole = played(Part::WHOLE);
    for size in SIZES {
        let mut union: Vec<_> = parts(size).flat_map(played).collect();
        union.sort_unstable_by_key(|(request_stream, _)| *request_stream);
        assert_eq!(union, whole, "{size} processes");
    }
}
