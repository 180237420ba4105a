//! Well-formed answers that do not fit the requested model do not count as inferences.

use triton_bench::backend::ReplyRule;

use super::peer::{
    END_STREAM, HEADERS, WIDE, answer, data, field, fitting, headers, message, output, response_headers, trailers,
};
use super::{Bench, PLAIN, Setup, replies};

/// Answers that do not fit a model `m` with an output `O` of 2 UINT8, what is said of each, and whether it can be decoded.
fn misfits() -> Vec<(Vec<u8>, &'static str, bool)> {
    vec![
        ([field(1, b"m"), field(3, b"id")].concat(), "has no outputs", true),
        (output("P", "UINT8", &[2], &[4, 2]), "the model has no output 'P'", true),
        (output("O", "INT8", &[2], &[4, 2]), "INT8 instead of UINT8", true),
        (output("O", "UINT8", &[3], &[4, 2, 1]), "shape [3] instead of [2]", true),
        (output("O", "UINT8", &[1, 2], &[4, 2]), "shape [1, 2] instead of [2]", true),
        ([field(1, b"n"), fitting(&[4, 2])].concat(), "from model 'n'", true),
        ([field(2, b"7"), fitting(&[4, 2])].concat(), "from version '7'", true),
        (output("O", "UINT8", &[2], &[4, 2, 1]), "comes with 3 bytes", false),
        (output("O", "UINT9", &[2], &[4, 2]), "unknown datatype 'UINT9'", false),
    ]
}

#[test]
fn an_answer_that_can_be_decoded_is_a_success_and_noted_whoever_looks() {
    for watch in [false, true] {
        for (reply, word, decodable) in misfits() {
            for (rule, counts) in
                [(ReplyRule::Readable, decodable), (ReplyRule::Any, true), (ReplyRule::Fitting, false)]
            {
                let (answered, setup) = (reply.clone(), Setup { watch, output: 2, replies: rule, ..PLAIN });
                let mut bench = Bench::new(setup, replies(move |stream| answer(stream, &answered)));
                if counts {
                    assert_eq!((bench.infer(), bench.infer()), (Ok(1), Ok(1)), "{word}");
                    let noted = bench.oddities.all();
                    assert!(noted.len() == 1 && noted[0].first.contains(word), "{noted:?}");
                } else {
                    // One that fails leaves the next one to be looked at.
                    bench.fails("Unexpected response", word);
                    bench.fails("Unexpected response", word);
                    assert!(bench.oddities.all().is_empty());
                }
            }
        }
    }
    Bench::new(PLAIN, replies(|stream| answer(stream, &[]))).fails("Protocol error", "an answer is empty");
}

#[test]
fn one_that_comes_in_pieces_is_looked_at_too() {
    let pieces = |stream| {
        let whole = message(&output("O", "INT8", &[2], &[4, 2]));
        let (first, second) = whole.split_at(9);
        [response_headers(stream), data(stream, first), data(stream, second), trailers(stream, "0")].concat()
    };
    let setup = Setup { output: 2, replies: ReplyRule::Fitting, ..PLAIN };
    Bench::new(setup, replies(pieces)).fails("Unexpected response", "INT8 instead of UINT8");
}

#[test]
fn later_answers_are_looked_at_if_asked_for_and_empty_ones_always() {
    let script = |later: Vec<u8>| {
        move |_: usize, mut peer: super::peer::Peer| {
            peer.shake_hands(WIDE);
            let (first, _) = peer.request().unwrap();
            peer.say(&answer(first, &[field(1, b"m"), fitting(&[4, 2])].concat()));
            while let Some((stream, _)) = peer.request() {
                peer.say(&answer(stream, &later));
            }
        }
    };
    for (reply, word, _) in misfits() {
        let empty = word.contains("no outputs");
        let mut quick = Bench::new(Setup { output: 2, ..PLAIN }, script(reply.clone()));
        assert_eq!((quick.infer(), quick.infer()), (Ok(1), Ok(1)), "{word}");
        assert_eq!(quick.oddities.all().len(), usize::from(empty), "{word}");
        let every = Setup { output: 2, replies: ReplyRule::Fitting, ..PLAIN };
        let mut careful = Bench::new(every, script(reply));
        assert_eq!(careful.infer(), Ok(1));
        careful.fails("Unexpected response", word);
    }
}

#[test]
fn an_answer_that_contradicts_its_protocol_is_a_failure() {
    let body = || message(&fitting(&[4, 2]));
    type Answer = Box<dyn Fn(u32) -> Vec<u8> + Send + Sync>;
    let cases: [(&str, Answer); 6] = [
        (
            "the statuses 0 and 13 at once",
            Box::new(move |stream| {
                let trailers = headers(stream, END_STREAM, &[("grpc-status", "0"), ("grpc-status", "13")]);
                [response_headers(stream), data(stream, &body()), trailers].concat()
            }),
        ),
        (
            "goes on after its headers have given a status",
            Box::new(move |stream| {
                let first = headers(stream, 0, &[(":status", "200"), ("grpc-status", "13")]);
                [first, data(stream, &body()), trailers(stream, "0")].concat()
            }),
        ),
        (
            "have no :status",
            Box::new(move |stream| {
                let first = headers(stream, 0, &[("content-type", "application/grpc")]);
                [first, data(stream, &body()), trailers(stream, "0")].concat()
            }),
        ),
        ("have no :status", Box::new(|stream| trailers(stream, "0"))),
        ("begins without headers", Box::new(move |stream| [data(stream, &body()), trailers(stream, "0")].concat())),
        (
            "headers twice",
            Box::new(move |stream| {
                let twice = [response_headers(stream), response_headers(stream)].concat();
                [twice, data(stream, &body()), trailers(stream, "0")].concat()
            }),
        ),
    ];
    for (word, reply) in cases {
        let mut bench = Bench::new(Setup { output: 2, ..PLAIN }, replies(reply));
        bench.fails("Protocol error", word);
    }
}

#[test]
fn an_answer_that_comes_before_its_request_was_sent_is_a_failure() {
    let early = |_: usize, mut peer: super::peer::Peer| {
        // A window that the request does not fit into.
        peer.shake_hands(&[]);
        while let Some(request) = peer.next_of(HEADERS) {
            peer.say(&answer(request.stream, &fitting(&[4, 2])));
        }
    };
    let mut bench = Bench::new(Setup { bytes: 1 << 20, output: 2, ..PLAIN }, early);
    bench.fails("Protocol error", "before the whole request was sent");
    bench.fails("Protocol error", "before the whole request was sent");
}
