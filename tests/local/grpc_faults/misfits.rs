//! Well-formed answers that do not fit the requested model do not count as inferences.

use super::peer::{WIDE, answer, data, field, fitting, message, output, response_headers, trailers};
use super::{Bench, PLAIN, Setup, replies};

/// Answers that do not fit a model `m` with an output `O` of 2 UINT8, and what is said of each.
fn misfits() -> Vec<(Vec<u8>, &'static str)> {
    vec![
        (Vec::new(), "has no outputs"),
        ([field(1, b"m"), field(3, b"id")].concat(), "has no outputs"),
        (output("P", "UINT8", &[2], &[4, 2]), "the model has no output 'P'"),
        (output("O", "INT8", &[2], &[4, 2]), "INT8 instead of UINT8"),
        (output("O", "UINT8", &[3], &[4, 2, 1]), "shape [3] instead of [2]"),
        (output("O", "UINT8", &[1, 2], &[4, 2]), "shape [1, 2] instead of [2]"),
        (output("O", "UINT8", &[2], &[4, 2, 1]), "comes with 3 bytes"),
        ([field(1, b"n"), fitting(&[4, 2])].concat(), "from model 'n'"),
    ]
}

#[test]
fn an_answer_that_does_not_fit_is_a_failure_whoever_looks() {
    for watch in [false, true] {
        for (reply, word) in misfits() {
            let setup = Setup { watch, output: 2, ..PLAIN };
            let mut bench = Bench::new(setup, replies(move |stream| answer(stream, &reply)));
            // One that fails leaves the next one to be looked at.
            bench.fails("Unexpected response", word);
            bench.fails("Unexpected response", word);
        }
    }
}

#[test]
fn one_that_comes_in_pieces_is_looked_at_too() {
    let pieces = |stream| {
        let whole = message(&output("O", "INT8", &[2], &[4, 2]));
        let (first, second) = whole.split_at(9);
        [response_headers(stream), data(stream, first), data(stream, second), trailers(stream, "0")].concat()
    };
    Bench::new(Setup { output: 2, ..PLAIN }, replies(pieces)).fails("Unexpected response", "INT8 instead of UINT8");
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
    for (reply, word) in misfits() {
        let empty = word.contains("no outputs");
        let mut quick = Bench::new(Setup { output: 2, ..PLAIN }, script(reply.clone()));
        assert_eq!(quick.infer(), Ok(1));
        assert_eq!(quick.infer().is_err(), empty, "{word}");
        let every = Setup { output: 2, validate_replies: true, ..PLAIN };
        let mut careful = Bench::new(every, script(reply));
        assert_eq!(careful.infer(), Ok(1));
        careful.fails("Unexpected response", word);
    }
}
