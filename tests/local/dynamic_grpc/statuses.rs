//! How calls end: only status 0 is a success.

use std::time::Duration;

use serde_json::json;

use super::{Call, LONG, ONE, generator, program, service, steps};
use crate::grpc_faults::peer::{
    DATA, END_STREAM, RST_STREAM, WIDE, answer, data, frame, headers, message, response_headers, serve_all, trailers,
};
use crate::support::Finished;

fn run(flags: &str, script: impl Fn(&Call) -> Vec<u8> + Send + Sync + 'static) -> Finished {
    let folder = tempfile::tempdir().unwrap();
    let file = steps(&folder, &json!([{"message_generator": generator(&[b"hi"])}]));
    let (url, _) = service(script);
    program(&url, &format!("{flags} --max-errors 100% --input-data {file}")).run()
}

fn says(finished: &Finished, reasons: &[&str]) {
    for reason in reasons {
        assert!(finished.stdout.contains(reason), "'{reason}' is missing: {}", finished.stdout);
    }
    assert!(!finished.stderr.contains("panicked"), "{}", finished.stderr);
}

#[test]
fn statuses_are_failures_by_their_word() {
    let finished = run(&format!("{ONE} --request-count 20"), |call| {
        let stream = call.stream;
        let begun = [response_headers(stream), data(stream, &message(b"part"))].concat();
        let only = |fields: &[(&str, &str)]| headers(stream, END_STREAM, fields);
        match call.ordinal % 10 {
            0 => answer(stream, b"fine"),
            // Trailers alone, as for a method that is not there.
            1 => only(&[(":status", "200"), ("grpc-status", "12"), ("grpc-message", "unknown%20method")]),
            2 => [begun, trailers(stream, "13")].concat(),
            // No message at all, and yet a success: what a stream may be.
            3 => [response_headers(stream), trailers(stream, "0")].concat(),
            4 => only(&[(":status", "503")]),
            5 => [begun, frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes())].concat(),
            6 => [begun, frame(DATA, END_STREAM, stream, &[])].concat(),
            7 => [begun, data(stream, &[0, 0, 0, 0, 9, b'x']), trailers(stream, "0")].concat(),
            8 => [begun, data(stream, &message(b"more")), trailers(stream, "99")].concat(),
            _ => only(&[(":status", "200"), ("grpc-status", "0")]),
        }
    });
    says(
        &finished,
        &[
            "Request count: 6",
            "Failed request count: 14",
            "2 x Unsupported: unknown method",
            "2 x Internal",
            "2 x Unavailable: HTTP status 503",
            "2 x Cancelled",
            "2 x Protocol error: the answer ends without a status",
            "2 x Protocol error: the answer ends inside a message",
            "2 x Unknown: status 99",
        ],
    );
}

#[test]
fn timed_a_call_that_does_not_end_meets_its_deadline() {
    for (flags, reason) in [
        ("--client-timeout-us 50ms", "4 x Deadline exceeded: no answer within 50000 us"),
        ("--cancel-after-us 50ms", "Cancelled request count: 4"),
    ] {
        let finished = run(&format!("--concurrency-range 2 --request-count 4 {flags}"), |call| {
            // It begins, and stays open.
            [response_headers(call.stream), data(call.stream, &message(b"part"))].concat()
        });
        says(&finished, &[reason]);
        assert!(finished.wall < LONG, "{finished:#?}");
    }
}

#[test]
fn timed_latency_ends_with_the_trailers_and_the_wait_with_the_first_message() {
    let late = Duration::from_millis(60);
    let folder = tempfile::tempdir().unwrap();
    let file = steps(&folder, &json!([{"message_generator": generator(&[b"hi"])}]));
    let url = serve_all(move |_, mut peer| {
        peer.shake_hands(WIDE);
        while let Some((stream, _)) = peer.request() {
            std::thread::sleep(late / 2);
            peer.say(&[response_headers(stream), data(stream, &message(b"first"))].concat());
            std::thread::sleep(late);
            peer.say(&trailers(stream, "0"));
        }
    });
    let finished = program(&url, &format!("{ONE} -v --request-count 5 --input-data {file}")).run();
    let report = finished.report();
    let client = report.level().client();
    let line = client.lines().find(|line| line.contains("Avg gRPC time: ")).unwrap();
    let number = |after: &str| -> f64 {
        let tail = line.split(after).nth(1).unwrap();
        tail.trim_start().split(' ').next().unwrap().parse().unwrap()
    };
    let (total, wait, receive) = (number("time: "), number("response wait "), number("receive "));
    // A client that is woken late sees the first message later, and the trailers not.
    assert!(receive >= 45_000.0 && wait >= 29_000.0 && total >= 89_000.0, "{line}");
    assert!(number("send ") < 30_000.0, "{line}");
    assert_eq!(report.level().client_number("Request count"), 5.0);
}

#[test]
fn lost_connections_fail_their_calls_and_are_made_again_if_asked() {
    for (flags, least) in [("", 1), ("--reconnect", 5)] {
        let folder = tempfile::tempdir().unwrap();
        let file = steps(&folder, &json!([{"message_generator": generator(&[b"hi"])}]));
        let url = serve_all(|_, mut peer| {
            peer.shake_hands(WIDE);
            for _ in 0..3 {
                let Some((stream, _)) = peer.request() else { return };
                peer.say(&answer(stream, b"fine"));
            }
            // The fourth is cut inside its answer.
            let Some((stream, _)) = peer.request() else { return };
            peer.say(&response_headers(stream));
        });
        let finished =
            program(&url, &format!("{ONE} --request-count 12 --max-errors 100% {flags} --input-data {file}")).run();
        let count = finished.report_with(finished.code()).level().client_number("Request count");
        assert!(count >= f64::from(least) && count < 12.0, "{flags}: {finished:#?}");
        says(&finished, &["x Connection"]);
    }
}
