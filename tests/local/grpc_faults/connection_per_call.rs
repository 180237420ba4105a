//! `--connections new` over gRPC: each request makes a connection, pays for it, and fails alone.

use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use triton_bench::clock::Stamp;

use super::peer::{
    END_STREAM, HEADERS, Peer, RST_STREAM, WIDE, answer, data, fitting, frame, goaway, message, response_headers,
    serve, trailers, window,
};
use super::{Bench, PATIENCE, PLAIN, SETTINGS, Setup};

const ANEW: Setup = Setup { renew: true, ..PLAIN };

/// Answers one request on its connection, and waits until the client has closed that.
fn answer_one(peer: &mut Peer) {
    peer.shake_hands(WIDE);
    let (stream, _) = peer.request().unwrap();
    peer.say(&answer(stream, &fitting(b"x")));
    peer.linger();
}

#[test]
fn each_request_makes_a_connection_and_closes_it() {
    let (closed, closings) = mpsc::channel();
    let closed = Mutex::new(closed);
    let mut bench = Bench::new(ANEW, move |number, mut peer| {
        peer.shake_hands(WIDE);
        let (stream, _) = peer.request().unwrap();
        peer.say(&answer(stream, &fitting(b"x")));
        peer.linger();
        closed.lock().unwrap().send((number, stream)).unwrap();
    });
    assert!(closings.recv_timeout(Duration::from_millis(50)).is_err(), "none is made before there is a request");
    for number in 0..4 {
        assert_eq!(bench.infer(), Ok(1));
        let closing = closings.recv_timeout(PATIENCE).unwrap();
        assert_eq!(closing, (number, 1), "the first stream of a connection of its own, which is over with it");
    }
}

#[test]
fn several_at_once_have_one_each() {
    let open = Arc::new(AtomicUsize::new(0));
    for (connections, most) in [(None, 3), (Some(1), 1)] {
        let (at_once, peak) = (Arc::clone(&open), Arc::new(AtomicUsize::new(0)));
        let seen = Arc::clone(&peak);
        let mut bench = Bench::new(Setup { slots: 3, connections, ..ANEW }, move |_, mut peer| {
            peer.shake_hands(WIDE);
            let (stream, _) = peer.request().unwrap();
            seen.fetch_max(at_once.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            thread::sleep(Duration::from_millis(50));
            at_once.fetch_sub(1, Ordering::SeqCst);
            peer.say(&answer(stream, &fitting(b"x")));
            peer.linger();
        });
        (0..3).for_each(|slot| bench.submit(slot));
        assert_eq!(bench.outcomes(3), [(0, Ok(1)), (1, Ok(1)), (2, Ok(1))]);
        assert_eq!(peak.load(Ordering::SeqCst), most, "{connections:?}");
    }
}

#[test]
fn timed_the_way_to_the_connection_is_part_of_the_latency() {
    let late = Duration::from_millis(60);
    let mut bench = Bench::new(ANEW, move |_, mut peer| {
        thread::sleep(late);
        answer_one(&mut peer);
    });
    for _ in 0..3 {
        assert_eq!(bench.infer(), Ok(1));
    }
    let latencies = bench.log.latencies.lock().unwrap().clone();
    assert!(latencies.iter().all(|latency| *latency >= late), "{latencies:?}");
}

#[test]
fn a_connection_that_is_not_made_costs_its_request_alone() {
    let mut bench = Bench::new(ANEW, |number, mut peer| match number {
        // Before it has said anything, and after the request.
        0 => drop(peer),
        1 => {
            peer.shake_hands(WIDE);
            peer.request();
        }
        2 => {
            peer.shake_hands(WIDE);
            peer.say(&goaway(0, 0, "draining"));
            peer.request();
            peer.linger();
        }
        _ => answer_one(&mut peer),
    });
    let (code, message) = bench.infer().unwrap_err();
    assert!(code.starts_with("Connection ") && message.contains("cannot connect to "), "{code}: {message}");
    let (code, message) = bench.infer().unwrap_err();
    assert!(code.starts_with("Connection "), "{code}: {message}");
    bench.fails("Unavailable", "draining");
    assert_eq!(bench.infer(), Ok(1));
}

#[test]
fn a_server_that_is_gone_fails_every_request_until_it_is_back() {
    let (address, server) = serve(|_, _| ());
    let backend = super::backend(&address, ANEW);
    // All that it accepts.
    (0..7).for_each(|_| drop(std::net::TcpStream::connect(&address)));
    server.join().ok();
    let mut bench = Bench::through(&backend, ANEW);
    for _ in 0..3 {
        bench.fails("Connection refused", "nothing listens at that address");
    }
    let listener = TcpListener::bind(&address).unwrap();
    thread::spawn(move || answer_one(&mut Peer(listener.accept().unwrap().0)));
    // After a refusal there is a pause.
    thread::sleep(Duration::from_millis(120));
    assert_eq!(bench.infer(), Ok(1));
}

#[test]
fn timed_a_server_that_says_nothing_is_not_waited_for_beyond_the_deadline() {
    let (closed, closings) = mpsc::channel();
    let closed = Mutex::new(closed);
    let setup = Setup { deadline: Some(Duration::from_millis(100)), ..ANEW };
    let mut bench = Bench::new(setup, move |number, mut peer| match number {
        0 => {
            peer.linger();
            closed.lock().unwrap().send(()).unwrap();
        }
        _ => answer_one(&mut peer),
    });
    let begin = Instant::now();
    bench.fails("Deadline exceeded", "no answer within 100000 us (--client-timeout-us)");
    assert!(begin.elapsed() >= Duration::from_millis(100));
    closings.recv_timeout(PATIENCE).unwrap();
    assert_eq!(bench.infer(), Ok(1));
}

#[test]
fn one_that_is_cancelled_is_reset_and_closed() {
    let (reset, resets) = mpsc::channel();
    let reset = Mutex::new(reset);
    let mut bench = Bench::new(Setup { slots: 2, ..ANEW }, move |_, mut peer| {
        peer.shake_hands(WIDE);
        let frame = peer.next_of(RST_STREAM);
        reset.lock().unwrap().send(frame.map(|frame| frame.payload)).unwrap();
        assert!(peer.frame().is_none());
    });
    bench.submit(1);
    bench.client.drive(Stamp::now().plus(100_000_000)).unwrap();
    assert!(bench.client.cancel(triton_bench::backend::SlotId(1), Stamp::NEVER));
    assert_eq!(bench.outcomes(1)[0].1.as_ref().unwrap_err().0, "Cancelled");
    assert_eq!(resets.recv_timeout(PATIENCE).unwrap(), Some(8_u32.to_be_bytes().to_vec()));
}

#[test]
fn long_requests_leave_as_the_server_takes_them() {
    const LENGTH: usize = 3 << 20;
    let mut bench = Bench::new(Setup { bytes: LENGTH, ..ANEW }, |_, mut peer| {
        // The protocol's first window, opened little by little.
        peer.shake_hands(&[]);
        let mut taken = 0;
        loop {
            let Some(next) = peer.next_of(super::DATA) else { return };
            taken += next.payload.len();
            if next.flags & END_STREAM != 0 {
                break;
            }
            peer.say(&window(1, next.payload.len() as u32));
        }
        assert!(taken > LENGTH);
        peer.say(&answer(1, &fitting(b"x")));
        peer.linger();
    });
    for _ in 0..2 {
        assert_eq!(bench.infer(), Ok(1));
    }
}

#[test]
fn a_request_waits_for_a_server_that_allows_none_at_first() {
    let mut bench = Bench::new(ANEW, |_, mut peer| {
        peer.shake_hands(&[(4, 1 << 30), (3, 0)]);
        thread::sleep(Duration::from_millis(30));
        peer.0.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        while let Some(next) = peer.frame() {
            assert_ne!(next.kind, HEADERS, "it was not allowed");
        }
        peer.0.set_read_timeout(Some(PATIENCE)).unwrap();
        peer.say(&frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 1]));
        let (stream, _) = peer.request().unwrap();
        peer.say(&answer(stream, &fitting(b"x")));
        peer.linger();
    });
    assert_eq!(bench.infer(), Ok(1));
}

#[test]
fn with_streaming_each_request_has_a_stream_of_its_own_that_the_server_ends() {
    let setup = Setup { streaming: true, decoupled: true, watch: true, slots: 2, ..ANEW };
    let mut bench = Bench::new(setup, |number, mut peer| {
        peer.shake_hands(WIDE);
        // The client ends its side with the request.
        let (stream, body) = peer.request().unwrap();
        assert!(!body.windows(4).any(|part| part == b"empt"), "an empty final response needs no asking");
        let one = data(stream, &message(&super::peer::field(2, &fitting(b"x"))));
        let answers = one.repeat(number + 1);
        peer.say(&[response_headers(stream), answers, trailers(stream, "0")].concat());
        peer.linger();
    });
    for responses in 1..=3 {
        bench.submit(responses % 2);
        assert_eq!(bench.outcomes(1)[0].1, Ok(responses));
    }
}
