//! `ModelStreamInfer` streams: which requests they carry, matching answers by id, and what ends a stream.

use std::time::Duration;

use triton_bench::backend::{ReplyRule, Request, SequencePosition, SlotId};
use triton_bench::clock::Stamp;

use super::peer::{
    DATA, END_STREAM, Peer, RST_STREAM, WIDE, data, field, fitting, frame, headers, message, output, response_headers,
    trailers,
};
use super::{Bench, PLAIN, Setup};

pub const STREAMING: Setup = Setup { streaming: true, decoupled: true, watch: true, ..PLAIN };

/// Settings that allow one stream at a time, which all requests must share.
const NARROW: &[(u16, u32)] = &[(4, 1 << 30), (3, 1)];

/// The ids of the requests that the client sends, one after the other.
pub fn next_id(peer: &mut Peer) -> Option<(u32, Vec<u8>)> {
    let frame = peer.next_of(DATA)?;
    if frame.flags & END_STREAM != 0 {
        return None;
    }
    let at = frame.payload.windows(2).position(|pair| pair == [3 << 3 | 2, 17]).unwrap() + 2;
    Some((frame.stream, frame.payload[at..at + 17].to_vec()))
}

pub struct Reply<'a> {
    pub error: &'a str,
    pub last: Option<bool>,
    pub outputs: bool,
}

pub fn reply(stream: u32, id: &[u8], reply: &Reply<'_>) -> Vec<u8> {
    let mut response = field(3, id);
    if let Some(last) = reply.last {
        let flag = field(2, &[8, u8::from(last)]);
        response.extend(field(4, &[field(1, b"triton_final_response"), flag].concat()));
    }
    if reply.outputs {
        response.extend(fitting(&[4, 2]));
    }
    let error = if reply.error.is_empty() { vec![] } else { field(1, reply.error.as_bytes()) };
    data(stream, &message(&[error, field(2, &response)].concat()))
}

pub const DATA_REPLY: Reply<'_> = Reply { error: "", last: Some(false), outputs: true };
pub const EMPTY_FINAL: Reply<'_> = Reply { error: "", last: Some(true), outputs: false };

#[test]
fn decoupled_answers_are_counted_until_the_final_flag() {
    let mut bench = Bench::new(Setup { slots: 2, ..STREAMING }, |_, mut peer| {
        peer.shake_hands(NARROW);
        let (stream, first) = next_id(&mut peer).unwrap();
        let (same, second) = next_id(&mut peer).unwrap();
        assert_eq!(stream, same);
        peer.say(&response_headers(stream));
        peer.say(
            &[
                reply(stream, &first, &DATA_REPLY),
                reply(stream, &second, &DATA_REPLY),
                reply(stream, &first, &DATA_REPLY),
                reply(stream, &first, &EMPTY_FINAL),
                reply(stream, &second, &Reply { last: Some(true), ..DATA_REPLY }),
                // After its end: nobody's.
                reply(stream, &second, &DATA_REPLY),
            ]
            .concat(),
        );
        let (_, third) = next_id(&mut peer).unwrap();
        assert_ne!(third, first);
        peer.say(&reply(stream, &third, &EMPTY_FINAL));
        peer.linger();
    });
    bench.submit(0);
    bench.submit(1);
    assert_eq!(bench.outcomes(2), [(0, Ok(2)), (1, Ok(2))]);
    assert_eq!(bench.infer(), Ok(0));
    let lines = bench.log.responses.lock().unwrap().clone();
    assert_eq!(lines.iter().filter(|line| line.contains("empty=true")).count(), 2);
    assert_eq!(lines.iter().filter(|line| line.contains("O=[4, 2]")).count(), 4);
}

#[test]
fn an_error_without_the_final_flag_is_final() {
    let mut bench = Bench::new(STREAMING, |_, mut peer| {
        peer.shake_hands(WIDE);
        let mut begun = false;
        let kinds = [
            Reply { error: "no such model", last: None, outputs: false },
            Reply { error: "failed on the way", last: Some(false), outputs: false },
            EMPTY_FINAL,
            EMPTY_FINAL,
        ];
        let mut kinds = kinds.iter();
        while let Some((stream, id)) = next_id(&mut peer) {
            if !std::mem::replace(&mut begun, true) {
                peer.say(&response_headers(stream));
            }
            let kind = kinds.next().unwrap();
            peer.say(&reply(stream, &id, kind));
            if kind.last == Some(false) {
                peer.say(&reply(stream, &id, kinds.next().unwrap()));
            }
        }
    });
    bench.fails("Inference failed", "no such model");
    bench.fails("Inference failed", "failed on the way");
    assert_eq!(bench.infer(), Ok(0));
}

#[test]
fn models_that_are_not_decoupled_end_with_any_answer() {
    let setup = Setup { decoupled: false, ..STREAMING };
    let mut bench = Bench::new(setup, |_, mut peer| {
        peer.shake_hands(WIDE);
        let (stream, id) = next_id(&mut peer).unwrap();
        peer.say(&response_headers(stream));
        peer.say(&reply(stream, &id, &Reply { last: None, ..DATA_REPLY }));
        peer.linger();
    });
    assert_eq!(bench.infer(), Ok(1));
}

#[test]
fn the_end_of_the_stream_ends_its_requests_and_the_next_opens_another() {
    type Ending = fn(u32) -> Vec<u8>;
    let endings: [(Ending, &str, &str); 6] = [
        (
            |stream| headers(stream, END_STREAM, &[("grpc-status", "13"), ("grpc-message", "broke")]),
            "Internal",
            "broke",
        ),
        (|stream| trailers(stream, "0"), "Protocol error", "ended the stream"),
        (|stream| frame(RST_STREAM, 0, stream, &2_u32.to_be_bytes()), "Stream reset", "INTERNAL_ERROR"),
        (|stream| data(stream, &message(&[0xff; 9])), "Protocol error", "not a message"),
        (|stream| reply(stream, b"whose", &DATA_REPLY), "Protocol error", "names no request"),
        (|stream| reply(stream, b"", &Reply { error: "overloaded", ..EMPTY_FINAL }), "Inference failed", "overloaded"),
    ];
    for (ending, code, text) in endings {
        let mut bench = Bench::new(Setup { slots: 2, ..STREAMING }, move |_, mut peer| {
            peer.shake_hands(NARROW);
            let (stream, _) = next_id(&mut peer).unwrap();
            next_id(&mut peer).unwrap();
            peer.say(&response_headers(stream));
            peer.say(&ending(stream));
            let (other, id) = next_id(&mut peer).unwrap();
            assert_ne!(other, stream);
            peer.say(&response_headers(other));
            peer.say(&reply(other, &id, &Reply { last: Some(true), ..DATA_REPLY }));
            peer.linger();
        });
        bench.submit(0);
        bench.submit(1);
        for (_, outcome) in bench.outcomes(2) {
            let (found, message) = outcome.unwrap_err();
            assert_eq!(found, code, "{message}");
            assert!(message.contains(text), "{message}");
        }
        assert_eq!(bench.infer(), Ok(1));
    }
}

#[test]
fn a_stream_that_is_answered_by_a_page_fails_with_the_status_of_http() {
    for body in [&b"<html>bad gateway</html>"[..], b""] {
        let mut bench = Bench::new(STREAMING, move |_, mut peer| {
            peer.shake_hands(WIDE);
            let (stream, _) = next_id(&mut peer).unwrap();
            let head = headers(stream, 0, &[(":status", "502"), ("content-type", "text/html")]);
            peer.say(&[head, frame(DATA, END_STREAM, stream, body)].concat());
            peer.linger();
        });
        bench.fails("Unavailable", "HTTP status 502 without a gRPC status, with content-type text/html");
    }
}

#[test]
fn every_slot_has_a_stream_whose_end_is_not_that_of_others() {
    let mut bench = Bench::new(Setup { slots: 3, ..STREAMING }, |_, mut peer| {
        peer.shake_hands(WIDE);
        let requests: Vec<_> = (0..3).map(|_| next_id(&mut peer).unwrap()).collect();
        assert!(requests[0].0 < requests[1].0 && requests[1].0 < requests[2].0);
        let (broken, reset, good) = (requests[0].0, requests[1].0, requests[2].0);
        peer.say(&response_headers(broken));
        peer.say(&data(broken, &message(&[0xff; 9])));
        peer.say(&frame(RST_STREAM, 0, reset, &2_u32.to_be_bytes()));
        assert_eq!(peer.next_of(RST_STREAM).unwrap().stream, broken);
        peer.say(&response_headers(good));
        peer.say(&reply(good, &requests[2].1, &EMPTY_FINAL));
        // Those that ended are opened again at their next request, the other goes on.
        let (again, first) = next_id(&mut peer).unwrap();
        let (same, second) = next_id(&mut peer).unwrap();
        assert!(again > good && same == good);
        peer.say(&response_headers(again));
        peer.say(&[reply(again, &first, &EMPTY_FINAL), reply(same, &second, &EMPTY_FINAL)].concat());
        peer.linger();
    });
    (0..3).for_each(|slot| bench.submit(slot));
    let outcomes = bench.outcomes(3);
    assert_eq!(outcomes[0].1.as_ref().unwrap_err().0, "Protocol error");
    assert_eq!(outcomes[1].1.as_ref().unwrap_err().0, "Stream reset");
    assert_eq!(outcomes[2].1, Ok(0));
    bench.submit(0);
    bench.submit(2);
    assert_eq!(bench.outcomes(2), [(0, Ok(0)), (2, Ok(0))]);
}

#[test]
fn requests_of_a_sequence_stay_on_one_stream_whatever_their_slot() {
    let mut bench = Bench::new(Setup { slots: 3, ..STREAMING }, |_, mut peer| {
        peer.shake_hands(WIDE);
        let requests: Vec<_> = (0..4).map(|_| next_id(&mut peer).unwrap()).collect();
        let streams: Vec<u32> = requests.iter().map(|request| request.0).collect();
        assert_eq!((streams[1], streams[3]), (streams[0], streams[2]), "{streams:?}");
        assert_ne!(streams[0], streams[2]);
        peer.say(&[response_headers(streams[0]), response_headers(streams[2])].concat());
        let answers: Vec<_> = requests.iter().map(|(stream, id)| reply(*stream, id, &EMPTY_FINAL)).collect();
        peer.say(&answers.concat());
        peer.linger();
    });
    let request = |id, start, end| Request { sequence: Some(SequencePosition { id, start, end }), ..super::REQUEST };
    bench.client.submit(SlotId(0), request(7, true, false)).unwrap();
    bench.client.submit(SlotId(1), request(7, false, true)).unwrap();
    bench.client.submit(SlotId(2), request(8, true, false)).unwrap();
    bench.client.grow(4).unwrap();
    bench.client.submit(SlotId(3), request(8, false, true)).unwrap();
    assert_eq!(bench.outcomes(4), [(0, Ok(0)), (1, Ok(0)), (2, Ok(0)), (3, Ok(0))]);
}

#[test]
fn a_request_that_shares_its_stream_is_not_cancelled_until_it_is_alone() {
    let mut bench = Bench::new(Setup { slots: 2, ..STREAMING }, |_, mut peer| {
        peer.shake_hands(NARROW);
        let (stream, first) = next_id(&mut peer).unwrap();
        let (_, second) = next_id(&mut peer).unwrap();
        std::thread::sleep(Duration::from_millis(100));
        peer.say(&response_headers(stream));
        peer.say(&[reply(stream, &first, &EMPTY_FINAL), reply(stream, &second, &EMPTY_FINAL)].concat());
        let (_, _third) = next_id(&mut peer).unwrap();
        let (_, fourth) = next_id(&mut peer).unwrap();
        peer.say(&reply(stream, &fourth, &EMPTY_FINAL));
        peer.linger();
    });
    bench.submit(0);
    bench.submit(1);
    assert!(!bench.client.cancel(SlotId(0), Stamp::now()), "it can be asked again");
    assert_eq!(bench.outcomes(2), [(0, Ok(0)), (1, Ok(0))]);
    assert!(bench.client.cancel(SlotId(0), Stamp::now()), "there is nothing to cancel");
    bench.submit(0);
    bench.submit(1);
    assert_eq!(bench.outcomes(1), [(1, Ok(0))]);
    assert!(bench.client.cancel(SlotId(0), Stamp::now()));
    assert_eq!(bench.outcomes(1)[0].1.as_ref().unwrap_err().0, "Cancelled");
}

#[test]
fn the_only_request_of_a_stream_can_be_cancelled() {
    let mut bench = Bench::new(STREAMING, |_, mut peer| {
        peer.shake_hands(WIDE);
        next_id(&mut peer).unwrap();
        peer.next_of(RST_STREAM).unwrap();
        let (stream, id) = next_id(&mut peer).unwrap();
        peer.say(&response_headers(stream));
        peer.say(&reply(stream, &id, &EMPTY_FINAL));
        peer.linger();
    });
    bench.submit(0);
    assert!(bench.client.cancel(SlotId(0), Stamp::now()));
    assert_eq!(bench.outcomes(1)[0].1.as_ref().unwrap_err().0, "Cancelled");
    assert_eq!(bench.infer(), Ok(0));
}

#[test]
fn timed_deadlines_hold_on_a_stream_that_requests_share() {
    let setup = Setup { deadline: Some(Duration::from_millis(100)), slots: 2, ..STREAMING };
    let mut bench = Bench::new(setup, |_, mut peer| {
        peer.shake_hands(NARROW);
        let (stream, late) = next_id(&mut peer).unwrap();
        let (_, early) = next_id(&mut peer).unwrap();
        peer.say(&response_headers(stream));
        peer.say(&reply(stream, &early, &EMPTY_FINAL));
        std::thread::sleep(Duration::from_millis(200));
        peer.say(&reply(stream, &late, &DATA_REPLY));
        // The late one was alone: its stream was given up.
        assert_eq!(peer.next_of(RST_STREAM).unwrap().stream, stream);
        let (other, id) = next_id(&mut peer).unwrap();
        assert_ne!(other, stream);
        peer.say(&response_headers(other));
        peer.say(&reply(other, &id, &EMPTY_FINAL));
        peer.linger();
    });
    bench.submit(0);
    bench.submit(1);
    let outcomes = bench.outcomes(2);
    assert_eq!(outcomes[0].1.as_ref().unwrap_err().0, "Deadline exceeded");
    assert_eq!(outcomes[1].1, Ok(0));
    std::thread::sleep(Duration::from_millis(150));
    assert_eq!(bench.infer(), Ok(0));
}

#[test]
fn answers_on_streams_fit_the_model() {
    type Answer = fn(&[u8]) -> Vec<u8>;
    let wrong: [Answer; 3] = [
        |id| [field(3, id), output("O", "INT8", &[2], &[4, 2])].concat(),
        |id| [field(3, id), output("P", "UINT8", &[2], &[4, 2])].concat(),
        // An empty answer is an end for decoupled models alone.
        |id| field(3, id),
    ];
    for (number, response) in wrong.into_iter().enumerate() {
        for decoupled in [false, true] {
            let setup = Setup { decoupled, output: 2, replies: ReplyRule::Fitting, ..STREAMING };
            let mut bench = Bench::new(setup, move |_, mut peer| {
                peer.shake_hands(WIDE);
                let (stream, id) = next_id(&mut peer).unwrap();
                peer.say(&response_headers(stream));
                let last = field(4, &[field(1, b"triton_final_response"), field(2, &[8, 1])].concat());
                peer.say(&data(stream, &message(&field(2, &[response(&id), last].concat()))));
                peer.linger();
            });
            match (number, decoupled) {
                (2, true) => assert_eq!(bench.infer(), Ok(0)),
                _ => bench.fails("Unexpected response", ""),
            }
        }
    }
}
