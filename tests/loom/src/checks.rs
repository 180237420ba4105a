//! The checks; each runs under every interleaving.

use std::rc::Rc;
use std::time::Instant;

use loom::model::Builder;
use loom::thread;

use crate::clock::Stamp;
use crate::record::{Recorder, RecorderSpec, Sample, Source};
use crate::seat::Event::{Await, Final, Null, Release, Response};
use crate::seat::{Event, Play, Stage, Userp};

type Check = (&'static str, fn());

const CHECKS: &[Check] = &[
    ("ends_on_two_threads_then_a_reissue_on_the_stack", ends_on_two_threads),
    ("reissues_to_other_threads", reissues_to_other_threads),
    ("two_responses_at_once", two_responses_at_once),
    ("a_response_runs_while_the_request_ends", a_response_runs_on),
    ("the_last_response_comes_on_the_issuing_stack", everything_on_the_stack),
    ("half_of_it_on_the_issuing_stack", half_on_the_stack),
    ("the_owner_submits_while_a_visitor_leaves", the_owner_submits),
    ("a_refused_request", a_refused_request),
    ("cancelled_while_it_ends_and_the_next_begins", cancelled),
    ("a_server_that_never_lets_go", never_let_go),
    ("a_server_that_ends_a_request_twice", ends_twice),
    ("a_window_ends_while_two_threads_record", a_window_ends),
    ("a_record_belongs_to_its_window", belongs_to_its_window),
];

/// Runs the checks whose name holds `part`.
pub fn run(part: Option<&str>) {
    for (name, check) in CHECKS.iter().filter(|(name, _)| name.contains(part.unwrap_or_default())) {
        let started = Instant::now();
        eprint!("{name} ... ");
        check();
        eprintln!("ok, {:.1} s", started.elapsed().as_secs_f64());
    }
}

/// So many switches of threads at places where none is needed: the old way to look at a slot, two loads one after the other, is
/// found with two.
const PREEMPTIONS: usize = 3;

fn every_order(check: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(PREEMPTIONS));
    builder.check(check);
}

fn on_threads(threads: &[&[Event]]) -> Play {
    Play { threads: threads.iter().map(|events| events.to_vec()).collect(), ..Play::default() }
}

fn on_stack(events: &[Event]) -> Play {
    Play { on_stack: events.to_vec(), ..Play::default() }
}

/// The owner submits a request, gives up waiting at any moment, and takes the memory away if it may. Whatever it may not see
/// is found by the seat; at last everything is over and the slot is idle.
fn submitted(stage: impl Fn() -> Stage + Sync + Send + 'static) {
    every_order(move || {
        let stage = Rc::new(stage());
        let slot = Userp::new(&stage);
        slot.submit(1);
        let requests = stage.requests();
        let is_freed = slot.free_if_idle();
        if is_freed {
            assert_eq!(stage.completed.get(), requests, "freed early");
        }
        stage.join();
        assert_eq!(stage.completed.get(), requests);
        assert!(is_freed || slot.free_if_idle(), "a slot that nobody has a hold on is not idle");
    });
}

fn ends_on_two_threads() {
    for stack in [[Final, Release], [Release, Final], [Release, Null]] {
        submitted(move || Stage::new(vec![on_threads(&[&[Final], &[Release]]), on_stack(&stack)]));
    }
}

fn reissues_to_other_threads() {
    submitted(|| Stage::new(vec![on_threads(&[&[Final], &[Release]]), on_threads(&[&[Null], &[Release]])]));
    for play in [[Release, Final], [Final, Release]] {
        submitted(move || Stage::new((0..2).map(|_| on_threads(&[&play])).collect()));
    }
}

fn two_responses_at_once() {
    submitted(|| {
        let first = on_threads(&[&[Response, Release], &[Response, Await(2), Final]]);
        Stage::new(vec![first, on_stack(&[Final, Release])])
    });
}

fn a_response_runs_on() {
    let next = || on_stack(&[Final, Release]);
    for end in [Final, Null] {
        submitted(move || Stage::new(vec![on_threads(&[&[Response], &[Await(1), end, Release]]), next()]));
        submitted(move || Stage::new(vec![on_threads(&[&[Response, Release], &[Await(1), end]]), next()]));
    }
}

fn everything_on_the_stack() {
    for events in [[Final, Release], [Release, Final]] {
        submitted(move || Stage::new((0..3).map(|_| on_stack(&events)).collect()));
    }
}

fn half_on_the_stack() {
    for (here, there) in [(Final, Release), (Release, Final), (Release, Null)] {
        let play = move || Play { on_stack: vec![here], threads: vec![vec![there]], ..Play::default() };
        submitted(move || Stage::new(vec![play(), play()]));
    }
}

fn the_owner_submits() {
    every_order(|| {
        let plays = vec![on_threads(&[&[Final], &[Release]]), on_threads(&[&[Final, Release]])];
        let stage = Rc::new(Stage::new(plays).chained(1));
        let slot = Userp::new(&stage);
        for number in 1..=2 {
            slot.submit(number);
            stage.wait();
        }
        let is_freed = slot.free_if_idle();
        stage.join();
        assert_eq!(stage.completed.get(), 2);
        assert!(is_freed || slot.free_if_idle());
    });
}

fn a_refused_request() {
    let refused = || Play { refused: true, ..Play::default() };
    submitted(move || Stage::new(vec![on_threads(&[&[Final], &[Release]]), refused(), on_stack(&[Final, Release])]));
    submitted(move || Stage::new(vec![refused(), refused()]));
}

fn cancelled() {
    every_order(|| {
        let plays = vec![on_threads(&[&[Final], &[Release]]), on_threads(&[&[Release, Final]])];
        let stage = Rc::new(Stage::new(plays).cancels());
        let slot = Userp::new(&stage);
        slot.submit(1);
        slot.cancel();
        stage.join();
        assert!(!slot.cancel(), "nothing is left to cancel");
        assert!(slot.free_if_idle() && stage.completed.get() == 2);
    });
}

fn never_let_go() {
    for events in [&[Final][..], &[Release], &[Response, Release], &[]] {
        every_order(move || {
            let stage = Rc::new(Stage::new(vec![on_threads(&[events])]));
            let slot = Userp::new(&stage);
            slot.submit(1);
            assert!(!slot.free_if_idle());
            stage.join();
            assert!(!slot.free_if_idle() && slot.is_outstanding() && stage.completed.get() == 0);
        });
    }
}

fn ends_twice() {
    every_order(|| {
        let plays = vec![on_threads(&[&[Final, Release], &[Final, Response, Release]])];
        let stage = Rc::new(Stage::new(plays).careless());
        let slot = Userp::new(&stage);
        slot.submit(1);
        stage.join();
        assert_eq!(stage.completed.get(), 1);
        assert!(slot.free_if_idle());
    });
}

fn sample(end: u64) -> Sample {
    let (sent, end) = (Stamp(end - 1), Stamp(end));
    Sample { intended: None, sent, first_response: end, end, send_ns: None, turnaround_ns: 0, responses: 1 }
}

/// Threads that record one request each, which ended at these times, while a window that ends at 50 000 is closed.
fn recorded(ends: &'static [u64]) -> [u64; 3] {
    let recorder = Rc::new(Recorder::new(RecorderSpec::default(), 1));
    assert_eq!(recorder.end_window(Stamp(50_000)), Stamp(50_000));
    let writers: Vec<_> = ends
        .iter()
        .map(|&end| {
            let recorder = Rc::clone(&recorder);
            thread::spawn(move || recorder.record(Source { writer: 0, part: 0 }, &sample(end)))
        })
        .collect();
    let first = recorder.close();
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    let windows = [first, recorder.close(), recorder.close()];
    let times: u64 = windows.iter().map(|tally| tally.service.count()).sum();
    let total: u128 = windows.iter().map(|tally| tally.service.sum_ns).sum();
    assert_eq!((times, total), (ends.len() as u64, ends.len() as u128), "times are lost, or counted twice");
    windows.map(|tally| tally.requests)
}

fn a_window_ends() {
    every_order(|| assert_eq!(recorded(&[30, 30]).iter().sum::<u64>(), 2, "a record is lost, or counted twice"));
}

fn belongs_to_its_window() {
    every_order(|| assert_eq!(recorded(&[70_000])[0], 0, "a request that ended after the window is counted in it"));
    every_order(|| {
        let windows = recorded(&[30, 70_000]);
        assert!(windows[0] <= 1 && windows.iter().sum::<u64>() == 2, "{windows:?}");
    });
}
