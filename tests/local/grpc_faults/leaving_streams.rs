//! Servers that announce the end of a connection on which streams stay open for many requests.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use triton_bench::backend::{Backend, Request, SequencePosition, SlotId};
use triton_bench::clock::Stamp;

use super::peer::{Peer, WIDE, be_ready, goaway, response_headers, serve_all, trailers};
use super::streaming::{DATA_REPLY, EMPTY_FINAL, Reply, STREAMING, next_id, reply};
use super::{Bench, PATIENCE, REQUEST, RST_STREAM, Setup, backend};

const LAST: Reply<'_> = Reply { last: Some(true), ..DATA_REPLY };

/// Answers everything on a new connection, the first request after so long.
fn serve_streams(mut peer: Peer, delay: Duration, answered: impl Fn()) {
    let mut begun = Vec::new();
    peer.shake_hands(WIDE);
    while let Some((stream, id)) = next_id(&mut peer) {
        if begun.is_empty() {
            thread::sleep(delay);
        }
        if !begun.contains(&stream) {
            begun.push(stream);
            peer.say(&response_headers(stream));
        }
        peer.say(&reply(stream, &id, &LAST));
        answered();
    }
}

/// Takes a request in each of two slots, says farewell and answers the first. Whatever else comes on the connection before the second
/// is answered, ends a stream.
fn part(peer: &mut Peer) -> (u32, Vec<u8>) {
    peer.shake_hands(WIDE);
    let ((first, id), second) = (next_id(peer).unwrap(), next_id(peer).unwrap());
    peer.say(&[response_headers(first), response_headers(second.0)].concat());
    peer.say(&[goaway((1 << 31) - 1, 0, "max_age"), reply(first, &id, &LAST)].concat());
    second
}

#[test]
fn requests_leave_streams_of_a_connection_that_the_server_leaves() {
    let (sender, receiver) = sync_channel(1);
    let (ended, has_ended) = sync_channel(1);
    let receiver = Mutex::new(receiver);
    let mut bench = Bench::new(Setup { slots: 2, ..STREAMING }, move |number, mut peer| {
        if number > 0 {
            return serve_streams(peer, Duration::ZERO, || {
                let _ = sender.try_send(());
            });
        }
        let (stream, id) = part(&mut peer);
        // The next request is on another connection while this one is under way.
        receiver.lock().unwrap().recv_timeout(PATIENCE).unwrap();
        peer.say(&[reply(stream, &id, &DATA_REPLY), reply(stream, &id, &EMPTY_FINAL)].concat());
        // Both streams are ended, and then the connection: no stream is cancelled.
        assert!(next_id(&mut peer).is_none() && next_id(&mut peer).is_none());
        thread::sleep(Duration::from_millis(100));
        peer.say(&[trailers(1, "0"), trailers(3, "0")].concat());
        assert!(peer.frame().is_none());
        ended.send(()).unwrap();
    });
    bench.submit(0);
    bench.submit(1);
    assert_eq!(bench.outcomes(1), [(0, Ok(1))]);
    bench.submit(0);
    assert_eq!(bench.outcomes(2), [(0, Ok(1)), (1, Ok(1))]);
    bench.client.drive(Stamp::now().plus(300_000_000)).unwrap();
    has_ended.recv_timeout(PATIENCE).unwrap();
    (0..2).for_each(|slot| bench.submit(slot));
    assert_eq!(bench.outcomes(2), [(0, Ok(1)), (1, Ok(1))]);
}

/// The request of slot 1 fails with its connection, and that of slot 0, of a stream of the same place, does not.
#[test]
fn what_ends_streams_that_the_server_leaves_ends_their_requests_alone() {
    let mut bench = Bench::new(Setup { slots: 2, ..STREAMING }, |number, mut peer| {
        if number == 0 {
            part(&mut peer);
            thread::sleep(Duration::from_millis(150));
            return;
        }
        serve_streams(peer, Duration::from_millis(400), || ());
    });
    bench.submit(0);
    bench.submit(1);
    assert_eq!(bench.outcomes(1), [(0, Ok(1))]);
    bench.submit(0);
    let (slot, failed) = bench.outcomes(1).remove(0);
    assert_eq!((slot, &failed.unwrap_err().0[..]), (1, "Unavailable"));
    assert_eq!(bench.outcomes(1), [(0, Ok(1))]);
    bench.submit(1);
    assert_eq!(bench.outcomes(1), [(1, Ok(1))]);
}

/// A late request is given up on the stream that it is on, whatever is on the next connection's stream of that number.
#[test]
fn requests_on_streams_that_the_server_leaves_are_given_up_there() {
    let setup = Setup { slots: 2, deadline: Some(Duration::from_millis(300)), ..STREAMING };
    let mut bench = Bench::new(setup, |number, mut peer| {
        if number > 0 {
            return serve_streams(peer, Duration::ZERO, || ());
        }
        let (stream, _) = part(&mut peer);
        let reset = peer.next_of(RST_STREAM).unwrap();
        assert_eq!(reset.stream, stream);
        peer.linger();
    });
    bench.submit(0);
    bench.submit(1);
    assert_eq!(bench.outcomes(1), [(0, Ok(1))]);
    bench.submit(0);
    assert_eq!(bench.outcomes(1), [(0, Ok(1))]);
    let (slot, late) = bench.outcomes(1).remove(0);
    assert_eq!((slot, &late.unwrap_err().0[..]), (1, "Deadline exceeded"));
    (0..2).for_each(|slot| bench.submit(slot));
    assert_eq!(bench.outcomes(2), [(0, Ok(1)), (1, Ok(1))]);
}

/// Two requests of a sequence are not on two connections at once.
#[test]
fn sequences_go_on_once_a_connection_that_the_server_leaves_has_answered() {
    let (sender, receiver) = sync_channel(1);
    let receiver = Mutex::new(receiver);
    let setup = Setup { decoupled: false, ..STREAMING };
    let mut bench = Bench::new(Setup { slots: 2, ..setup }, move |number, mut peer| {
        peer.shake_hands(WIDE);
        let (stream, id) = next_id(&mut peer).unwrap();
        peer.say(&response_headers(stream));
        if number == 0 {
            peer.say(&goaway((1 << 31) - 1, 0, "max_age"));
            thread::sleep(Duration::from_millis(200));
            sender.send(()).unwrap();
        } else {
            receiver.lock().unwrap().try_recv().expect("the one before it is answered");
        }
        peer.say(&reply(stream, &id, &LAST));
        peer.linger();
    });
    let at = |start, end| Request { sequence: Some(SequencePosition { id: 7, start, end }), ..REQUEST };
    bench.client.submit(SlotId(0), at(true, false)).unwrap();
    // The farewell arrives.
    bench.client.drive(Stamp::now().plus(50_000_000)).unwrap();
    bench.client.submit(SlotId(1), at(false, true)).unwrap();
    assert_eq!(bench.outcomes(2), [(0, Ok(1)), (1, Ok(1))]);
}

/// The last call of the connection is given up, which the server need not answer: nothing else would end the wait for it.
#[test]
fn what_waits_for_a_call_that_is_given_up_goes_on_without_the_server() {
    let setup = Setup { slots: 2, decoupled: false, deadline: Some(Duration::from_secs(1)), ..STREAMING };
    let mut bench = Bench::new(setup, |number, mut peer| {
        if number > 0 {
            return serve_streams(peer, Duration::ZERO, || ());
        }
        peer.shake_hands(WIDE);
        let (stream, _) = next_id(&mut peer).unwrap();
        peer.say(&[response_headers(stream), goaway((1 << 31) - 1, 0, "max_age")].concat());
        peer.linger();
    });
    let at = |start, end| Request { sequence: Some(SequencePosition { id: 7, start, end }), ..REQUEST };
    bench.client.submit(SlotId(0), at(true, false)).unwrap();
    bench.client.drive(Stamp::now().plus(500_000_000)).unwrap();
    bench.client.submit(SlotId(1), at(false, true)).unwrap();
    // Each ends with a request, and no wait within it ends by itself.
    (0..2).for_each(|_| bench.client.drive(Stamp::now().plus(4_000_000_000)).unwrap());
    let outcomes = bench.outcomes(2);
    assert!(matches!(&outcomes[0], (0, Err((code, _))) if code == "Deadline exceeded"), "{outcomes:?}");
    assert_eq!(outcomes[1], (1, Ok(1)));
}

/// Servers that say farewell on each connection before a request has come.
#[test]
fn a_server_that_leaves_every_connection_is_not_asked_without_end() {
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    let address = serve_all(move |number, mut peer| {
        if number == 0 {
            return be_ready(peer);
        }
        counted.fetch_add(1, Ordering::Relaxed);
        peer.shake_hands(WIDE);
        // First it announces that it leaves, and then that it has looked at no call, as servers with a largest age do.
        peer.say(&[goaway((1 << 31) - 1, 0, "max_age"), goaway(0, 0, "max_age")].concat());
        peer.linger();
    });
    let backend = backend(&address, STREAMING);
    let mut bench = Bench::through(&backend, STREAMING);
    assert!(bench.infer().is_err());
    assert!(backend.network().unwrap().is_gone());
    assert!((2..=4).contains(&connections.load(Ordering::Relaxed)), "{connections:?}");
}
