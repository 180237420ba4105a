//! The common stream of `ModelStreamInfer`: answers that are matched by id, and what ends them.

use std::time::Duration;

use triton_bench::backend::SlotId;
use triton_bench::clock::Stamp;

use crate::peer::{
    DATA, END_STREAM, Peer, RST_STREAM, WIDE, data, frame, headers, message, response_headers, trailers,
};
use crate::{Bench, PLAIN, Setup};

const STREAMING: Setup = Setup { streaming: true, decoupled: true, watch: true, ..PLAIN };

/// The ids of the requests that the client sends, one after the other.
fn next_id(peer: &mut Peer) -> Option<(u32, Vec<u8>)> {
    let frame = peer.next_of(DATA)?;
    if frame.flags & END_STREAM != 0 {
        return None;
    }
    let at = frame.payload.windows(2).position(|pair| pair == [3 << 3 | 2, 17]).unwrap() + 2;
    Some((frame.stream, frame.payload[at..at + 17].to_vec()))
}

fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    assert!(bytes.len() < 128);
    [&[number << 3 | 2, bytes.len() as u8], bytes].concat()
}

struct Reply<'a> {
    error: &'a str,
    last: Option<bool>,
    outputs: bool,
}

fn reply(stream: u32, id: &[u8], reply: &Reply<'_>) -> Vec<u8> {
    let mut response = field(3, id);
    if let Some(last) = reply.last {
        let flag = field(2, &[8, u8::from(last)]);
        response.extend(field(4, &[field(1, b"triton_final_response"), flag].concat()));
    }
    if reply.outputs {
        response.extend(field(5, &[field(1, b"O"), field(2, b"UINT8")].concat()));
        response.extend(field(6, &[4, 2]));
    }
    let error = if reply.error.is_empty() { vec![] } else { field(1, reply.error.as_bytes()) };
    data(stream, &message(&[error, field(2, &response)].concat()))
}

const DATA_REPLY: Reply<'_> = Reply { error: "", last: Some(false), outputs: true };
const EMPTY_FINAL: Reply<'_> = Reply { error: "", last: Some(true), outputs: false };

#[test]
fn decoupled_answers_are_counted_until_the_final_flag() {
    let mut bench = Bench::new(Setup { slots: 2, ..STREAMING }, |_, mut peer| {
        peer.shake_hands(WIDE);
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
        (|stream| data(stream, &message(&[0xff; 9])), "Protocol error", "no message"),
        (|stream| reply(stream, b"whose", &DATA_REPLY), "Protocol error", "names no request"),
        (|stream| reply(stream, b"", &Reply { error: "overloaded", ..EMPTY_FINAL }), "Inference failed", "overloaded"),
    ];
    for (ending, code, text) in endings {
        let mut bench = Bench::new(Setup { slots: 2, ..STREAMING }, move |_, mut peer| {
            peer.shake_hands(WIDE);
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
fn deadlines_hold_on_the_common_stream() {
    let setup = Setup { deadline: Some(Duration::from_millis(100)), slots: 2, ..STREAMING };
    let mut bench = Bench::new(setup, |_, mut peer| {
        peer.shake_hands(WIDE);
        let (stream, late) = next_id(&mut peer).unwrap();
        let (_, early) = next_id(&mut peer).unwrap();
        peer.say(&response_headers(stream));
        peer.say(&reply(stream, &early, &EMPTY_FINAL));
        std::thread::sleep(Duration::from_millis(200));
        peer.say(&reply(stream, &late, &DATA_REPLY));
        let (_, id) = next_id(&mut peer).unwrap();
        peer.say(&reply(stream, &id, &EMPTY_FINAL));
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
