//! Servers that announce the end of a connection, under loads that issue again whatever becomes of a request.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use triton_bench::backend::{Backend, ClientSpec, Completion, CompletionSink, Next, OutputPlan, Response, SlotId};
use triton_bench::backends::kserve_grpc::GrpcBackend;
use triton_bench::clock::Stamp;
use triton_bench::shm::Placement;

use super::peer::{Peer, RST_STREAM, WIDE, answer, be_ready, field, fitting, goaway, serve, serve_all};
use super::{ACK, Bench, Log, PATIENCE, PLAIN, REQUEST, SETTINGS, Setup, backend, spec};

/// Issues again until it is stopped.
#[derive(Default)]
struct Again {
    log: Log,
    stopped: AtomicBool,
}

impl CompletionSink for Again {
    fn response(&self, _: SlotId, _: &Response<'_>) {}

    fn complete(&self, slot: SlotId, completion: &Completion<'_>) -> Next {
        self.log.complete(slot, completion);
        if self.stopped.load(Ordering::Relaxed) { Next::Idle } else { Next::Issue(REQUEST) }
    }
}

impl Again {
    /// How many requests were answered, and how many failed.
    fn counts(&self) -> (usize, usize) {
        let completions = self.log.completions.lock().unwrap();
        let answered = completions.iter().filter(|(_, outcome)| outcome.is_ok()).count();
        (answered, completions.len() - answered)
    }
}

/// A load with a request in every slot, driven until it `is_over`. Requests may not fail as fast as they can be issued.
fn load(backend: &GrpcBackend, setup: Setup, is_over: impl Fn(&Again) -> bool) -> Arc<Again> {
    let sink = Arc::new(Again::default());
    let mut client = backend.open_client(spec(setup), Arc::clone(&sink) as Arc<dyn CompletionSink>).unwrap();
    (0..setup.slots as u32).for_each(|slot| client.submit(SlotId(slot), REQUEST).unwrap());
    let end = Instant::now() + PATIENCE;
    while !is_over(&sink) {
        assert!(Instant::now() < end, "after {PATIENCE:?}: {:?}", sink.counts());
        client.drive(Stamp::now().plus(10_000_000)).unwrap();
        assert!(sink.counts().1 < 1000, "it spins: {:?}", sink.counts());
    }
    sink.stopped.store(true, Ordering::Relaxed);
    sink
}

/// Says farewell while two requests are under way, and answers them one after the other.
fn part(mut peer: Peer) {
    peer.shake_hands(WIDE);
    let (first, _) = peer.request().unwrap();
    let (second, _) = peer.request().unwrap();
    peer.say(&[goaway(second, 0, "maintenance"), answer(first, &fitting(b"x"))].concat());
    thread::sleep(Duration::from_millis(50));
    peer.say(&answer(second, &fitting(b"x")));
    peer.linger();
}

/// Answers everything.
fn serve_all_of_it(mut peer: Peer) {
    peer.shake_hands(WIDE);
    serve_rest(peer);
}

/// The same once settings were exchanged.
fn serve_rest(mut peer: Peer) {
    while let Some((stream, _)) = peer.request() {
        peer.say(&answer(stream, &fitting(b"x")));
    }
}

#[test]
fn what_was_accepted_is_answered_behind_a_goaway_and_then_the_server_is_gone() {
    let setup = Setup { slots: 2, ..PLAIN };
    let (address, _) = serve(|number, peer| if number == 0 { part(peer) } else { drop(peer) });
    let backend = backend(&address, setup);
    let sink = load(&backend, setup, |_| backend.network().unwrap().is_gone());
    assert_eq!(sink.counts().0, 2);
}

#[test]
fn what_was_accepted_is_answered_behind_a_goaway_and_then_another_connection_is_made() {
    let setup = Setup { slots: 2, ..PLAIN };
    let (address, _) = serve(|number, peer| if number == 0 { part(peer) } else { serve_all_of_it(peer) });
    let sink = load(&backend(&address, setup), setup, |sink| sink.counts().0 >= 12);
    assert_eq!(sink.counts().1, 0);
}

/// Answers each request after so long, and leaves in peace after so many of a connection.
fn leave_after(requests: u32, delay: Duration, mut peer: Peer) {
    peer.shake_hands(WIDE);
    let speaking = Arc::new(Mutex::new(Peer(peer.0.try_clone().unwrap())));
    for number in 1.. {
        let Some((stream, _)) = peer.request() else { return };
        if number == requests {
            speaking.lock().unwrap().say(&goaway(stream, 0, "enough"));
        }
        let speaking = Arc::clone(&speaking);
        thread::spawn(move || {
            thread::sleep(delay);
            speaking.lock().unwrap().say(&answer(stream, &fitting(b"x")));
        });
    }
}

#[test]
fn a_load_loses_nothing_on_connections_that_the_server_leaves_again_and_again() {
    let setup = Setup { slots: 16, ..PLAIN };
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    let address = serve_all(move |number, peer| match number {
        0 => be_ready(peer),
        _ => {
            counted.fetch_add(1, Ordering::Relaxed);
            leave_after(50, Duration::from_millis(5), peer);
        }
    });
    let sink = load(&backend(&address, setup), setup, |sink| sink.counts().0 >= 1500);
    assert_eq!(sink.counts().1, 0);
    assert!(connections.load(Ordering::Relaxed) >= 30, "{connections:?}");
}

/// A client of three slots whose first request is on a connection that the server has left, and the second on the next: there
/// requests are answered at once, here `script` goes on with that of stream 1.
fn beside(setup: Setup, script: impl Fn(&mut Peer) + Send + Sync + 'static) -> Bench {
    let setup = Setup { slots: 3, ..setup };
    let mut bench = Bench::new(setup, move |number, mut peer| {
        if number > 0 {
            return serve_all_of_it(peer);
        }
        peer.shake_hands(WIDE);
        peer.request();
        peer.say(&goaway(1, 0, "maintenance"));
        script(&mut peer);
        peer.linger();
    });
    bench.submit(0);
    // The farewell arrives.
    bench.client.drive(Stamp::now().plus(30_000_000)).unwrap();
    bench.submit(1);
    bench
}

#[test]
fn a_call_on_a_connection_that_the_server_leaves_is_answered_there() {
    let mut bench = beside(PLAIN, |peer| {
        thread::sleep(Duration::from_millis(200));
        peer.say(&answer(1, &fitting(b"x")));
    });
    assert_eq!(bench.outcomes(1), [(1, Ok(1))]);
    assert_eq!(bench.outcomes(1), [(0, Ok(1))]);
    bench.submit(0);
    bench.submit(2);
    assert_eq!(bench.outcomes(2), [(0, Ok(1)), (2, Ok(1))]);
}

#[test]
fn what_ends_a_connection_that_the_server_leaves_ends_its_calls_alone() {
    type Script = fn(&mut Peer);
    let scripts: [(Script, &str); 2] = [
        (|peer| drop(peer.0.shutdown(std::net::Shutdown::Both)), "Unavailable"),
        (|peer| peer.say(b"\0\0\x01\x06\0\0\0\0\0 a ping of one byte"), "Protocol error"),
    ];
    for (script, code) in scripts {
        let mut bench = Bench::new(Setup { slots: 2, ..PLAIN }, move |number, mut peer| {
            peer.shake_hands(WIDE);
            let (stream, _) = peer.request().unwrap();
            if number == 0 {
                peer.say(&goaway(stream, 0, "maintenance"));
                thread::sleep(Duration::from_millis(150));
                script(&mut peer);
                return peer.linger();
            }
            thread::sleep(Duration::from_millis(300));
            peer.say(&answer(stream, &fitting(b"x")));
            serve_rest(peer);
        });
        bench.submit(0);
        bench.client.drive(Stamp::now().plus(30_000_000)).unwrap();
        bench.submit(1);
        let (slot, failed) = bench.outcomes(1).remove(0);
        assert_eq!((slot, &failed.unwrap_err().0[..]), (0, code));
        assert_eq!(bench.outcomes(1), [(1, Ok(1))]);
        assert_eq!(bench.infer(), Ok(1));
    }
}

#[test]
fn a_call_on_a_connection_that_the_server_leaves_can_be_given_up_there() {
    let (sender, receiver) = sync_channel(2);
    let reset = move |peer: &mut Peer| {
        assert_eq!(peer.next_of(RST_STREAM).unwrap().stream, 1);
        // Nothing keeps it open.
        assert!(peer.frame().is_none());
        sender.send(()).unwrap();
    };
    let mut bench = beside(PLAIN, reset.clone());
    assert_eq!(bench.outcomes(1), [(1, Ok(1))]);
    assert!(bench.client.cancel(SlotId(0), Stamp::now()));
    assert_eq!(bench.outcomes(1)[0].1.as_ref().unwrap_err().0, "Cancelled");
    assert_eq!(bench.infer(), Ok(1));
    receiver.recv_timeout(PATIENCE).unwrap();
    // Long enough for all but the first, however busy the machine is.
    let mut bench = beside(Setup { deadline: Some(Duration::from_secs(3)), ..PLAIN }, reset);
    assert_eq!(bench.outcomes(1), [(1, Ok(1))]);
    let (slot, late) = bench.outcomes(1).remove(0);
    assert_eq!((slot, &late.unwrap_err().0[..]), (0, "Deadline exceeded"));
    assert_eq!(bench.infer(), Ok(1));
    receiver.recv_timeout(PATIENCE).unwrap();
}

/// Servers announce first that they leave, and say a little later which calls they have looked at.
#[test]
fn what_a_second_goaway_does_not_cover_goes_to_the_next_connection_and_is_given_up_there() {
    let (sender, receiver) = sync_channel(1);
    let mut bench = Bench::new(Setup { slots: 3, ..PLAIN }, move |number, mut peer| {
        peer.shake_hands(WIDE);
        if number > 0 {
            let (stream, _) = peer.request().unwrap();
            peer.say(&answer(stream, &fitting(b"x")));
            let (stream, _) = peer.request().unwrap();
            assert_eq!(peer.next_of(RST_STREAM).unwrap().stream, stream);
            return sender.send(()).unwrap();
        }
        peer.request();
        peer.request();
        peer.say(&goaway((1 << 31) - 1, 0, "soon"));
        thread::sleep(Duration::from_millis(100));
        peer.say(&goaway(1, 0, "now"));
        thread::sleep(Duration::from_millis(300));
        peer.say(&answer(1, &fitting(b"x")));
        peer.linger();
    });
    bench.submit(0);
    bench.submit(1);
    bench.client.drive(Stamp::now().plus(30_000_000)).unwrap();
    bench.submit(2);
    assert_eq!(bench.outcomes(1), [(2, Ok(1))]);
    bench.client.drive(Stamp::now().plus(150_000_000)).unwrap();
    assert!(bench.client.cancel(SlotId(1), Stamp::now()));
    assert_eq!(bench.outcomes(1)[0].1.as_ref().unwrap_err().0, "Cancelled");
    receiver.recv_timeout(PATIENCE).unwrap();
    assert_eq!(bench.outcomes(1), [(0, Ok(1))]);
}

/// What takes the next connection may be another process, which has not been given the regions: with a request under way on the
/// connection before, and without.
#[test]
fn what_follows_a_connection_that_the_server_leaves_is_given_the_shared_memory_again() {
    let output = field(5, &[field(1, b"O"), field(2, b"UINT8"), field(3, &[1])].concat());
    for last in [1, 0] {
        let setup = Setup { slots: 2, reconnect: true, ..PLAIN };
        let (events, output) = (Arc::new(Mutex::new(Vec::new())), output.clone());
        let noted = Arc::clone(&events);
        let address = serve_all(move |number, mut peer| {
            peer.shake_hands(WIDE);
            let take = |peer: &mut Peer, event| {
                let (stream, _) = peer.request()?;
                noted.lock().unwrap().push(event);
                Some(stream)
            };
            match number {
                0 => {
                    let mut answers = [&[8, 1][..], &[]].into_iter();
                    while let Some(stream) = take(&mut peer, "question") {
                        peer.say(&answer(stream, answers.next().unwrap_or_default()));
                    }
                }
                1 => {
                    let streams = [(); 2].map(|()| take(&mut peer, "first"));
                    assert_eq!(streams, [Some(1), Some(3)]);
                    peer.say(&goaway(last, 0, "another takes over"));
                    thread::sleep(Duration::from_millis(100));
                    if last > 0 {
                        peer.say(&answer(last, &output));
                    }
                    peer.linger();
                }
                _ => {
                    while let Some(stream) = take(&mut peer, "next") {
                        peer.say(&answer(stream, &output));
                    }
                }
            }
        });
        let (backend, log) = (backend(&address, setup), Arc::new(Log::default()));
        let outputs = OutputPlan { placements: Placement::System.into(), variable_bytes: 64 };
        let spec = ClientSpec { outputs, ..spec(setup) };
        let oddities = Arc::clone(&spec.oddities);
        let client = backend.open_client(spec, Arc::clone(&log) as Arc<dyn CompletionSink>).unwrap();
        let mut bench = Bench { log, client, oddities };
        (0..2).for_each(|slot| bench.submit(slot));
        assert_eq!(bench.outcomes(2), [(0, Ok(1)), (1, Ok(1))]);
        let events = events.lock().unwrap();
        let begun = |event| events.iter().position(|other| *other == event).unwrap();
        let questions = |from, to| events[from..to].iter().filter(|event| **event == "question").count();
        // Readiness, metadata, what others have left, and the regions of both slots; then the regions.
        let counts = (questions(0, begun("first")), questions(begun("first"), begun("next")));
        assert_eq!(counts, (5, 2), "{last}: {events:?}");
    }
}

/// A backend whose first connection for requests gets a GOAWAY before any; returns once that has been sent.
fn parted(setup: Setup) -> (GrpcBackend, Bench) {
    let (sender, receiver) = sync_channel(1);
    let sender = Mutex::new(sender);
    let (address, _) = serve(move |number, mut peer| {
        if number > 0 {
            return serve_all_of_it(peer);
        }
        peer.shake_hands(WIDE);
        // Only then has the client its connection.
        while peer.frame().is_some_and(|frame| (frame.kind, frame.flags) != (SETTINGS, ACK)) {}
        peer.say(&goaway(0, 0, "maintenance"));
        sender.lock().unwrap().send(()).unwrap();
        peer.linger();
    });
    let backend = backend(&address, setup);
    let bench = Bench::through(&backend, setup);
    receiver.recv_timeout(PATIENCE).unwrap();
    (backend, bench)
}

#[test]
fn a_goaway_before_the_first_request_costs_none() {
    let (_backend, mut bench) = parted(PLAIN);
    assert_eq!(bench.infer(), Ok(1));
}

/// A question beside the load, on a connection that the server has left while it was idle, or leaves as the question comes.
#[test]
fn a_question_that_a_goaway_does_not_cover_is_asked_again() {
    for comes_first in [true, false] {
        let (sender, receiver) = sync_channel(1);
        let sender = Mutex::new(sender);
        let address = serve_all(move |number, mut peer| {
            peer.shake_hands(WIDE);
            if number == 0 {
                let [ready, metadata] = [&[8, 1][..], &[]].map(|body| {
                    let (stream, _) = peer.request().unwrap();
                    peer.say(&answer(stream, body));
                    stream
                });
                assert!(ready < metadata);
                if !comes_first {
                    peer.request();
                }
                peer.say(&goaway(metadata, 0, "idle"));
                sender.lock().unwrap().send(()).unwrap();
                return;
            }
            while let Some((stream, _)) = peer.request() {
                peer.say(&answer(stream, &[]));
            }
        });
        let backend = backend(&address, PLAIN);
        if comes_first {
            receiver.recv_timeout(PATIENCE).unwrap();
        }
        assert_eq!(backend.index().map_err(|error| error.to_string()).map(|models| models.len()), Ok(0));
    }
}

/// Servers that take no request on any connection: by a GOAWAY that covers none, before and after the first, and by allowing no stream
/// until they hang up.
#[test]
fn a_server_that_takes_no_requests_is_not_asked_without_end() {
    const MAX_STREAMS: u16 = 3;
    let scripts: [fn(&mut Peer); 3] = [
        |peer| {
            peer.shake_hands(WIDE);
            peer.request();
            peer.say(&goaway(0, 0, "full"));
            peer.linger();
        },
        |peer| {
            peer.shake_hands(WIDE);
            peer.say(&goaway(0, 0, "full"));
            peer.linger();
        },
        |peer| {
            peer.shake_hands(&[(MAX_STREAMS, 0)]);
            thread::sleep(Duration::from_millis(100));
        },
    ];
    for script in scripts {
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        let address = serve_all(move |number, mut peer| {
            if number == 0 {
                return be_ready(peer);
            }
            counted.fetch_add(1, Ordering::Relaxed);
            script(&mut peer);
        });
        let backend = backend(&address, PLAIN);
        let mut bench = Bench::through(&backend, PLAIN);
        assert!(bench.infer().is_err());
        assert!(backend.network().unwrap().is_gone());
        assert!((2..=4).contains(&connections.load(Ordering::Relaxed)), "{connections:?}");
    }
}

#[test]
fn timed_a_connection_that_is_made_again_slowly_holds_up_nothing_but_what_waits_for_it() {
    let setup = Setup { slots: 3, ..PLAIN };
    let (address, _) = serve(|number, mut peer| match number {
        0 => {
            peer.shake_hands(WIDE);
            peer.request();
        }
        _ => {
            thread::sleep(Duration::from_millis(800));
            serve_all_of_it(peer);
        }
    });
    let mut bench = Bench::at(&address, setup);
    assert!(bench.infer().is_err(), "the server hangs up");
    let begun = Instant::now();
    bench.submit(1);
    bench.client.drive(Stamp::now().plus(20_000_000)).unwrap();
    assert!(begun.elapsed() < Duration::from_millis(300), "{:?}", begun.elapsed());
    assert!(bench.client.cancel(SlotId(1), Stamp::now()), "who waits for a connection can be given up");
    assert!(bench.outcomes(1)[0].1.is_err());
    bench.submit(2);
    assert_eq!(bench.outcomes(1), [(2, Ok(1))]);
    assert!(begun.elapsed() >= Duration::from_millis(700), "{:?}", begun.elapsed());
}
