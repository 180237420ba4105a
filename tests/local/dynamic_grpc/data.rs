//! Request payloads, and what is refused before anything is sent.

use serde_json::json;

use super::{ONE, framed, generator, program, service, steps};
use crate::grpc_faults::peer::{answer, data, message, response_headers, trailers};
use crate::support::Program;

#[test]
fn a_step_is_a_call_with_all_its_messages() {
    let folder = tempfile::tempdir().unwrap();
    let large = vec![b'x'; 1000];
    let file = steps(
        &folder,
        &json!([
            {"message_generator": generator(&[b"one"])},
            {"message_generator": [generator(&[b"two", b"!", b"three"])]},
            {"message_generator": generator(&[&large, &large, &large, &large, &large, &large])},
        ]),
    );
    let (url, calls) = service(|call| answer(call.stream, b"fine"));
    let finished = program(&url, &format!("{ONE} --request-count 6 --input-data {file} -H x-key:secret")).run();
    let report = finished.report();
    assert_eq!(report.level().client_number("Request count"), 6.0, "{finished:#?}");
    assert!(finished.stdout.contains("Service Kind: DYNAMIC_GRPC"), "{finished:#?}");
    assert!(!finished.stdout.contains("Batch size:") && !finished.stdout.contains("Server:"), "{finished:#?}");
    let calls = calls.lock().unwrap();
    let long: Vec<&[u8]> = vec![&large; 6];
    let bodies = [framed(&[b"one"]), framed(&[b"two", b"!", b"three"]), framed(&long)];
    assert_eq!(calls.len(), 6);
    for (number, call) in calls.iter().enumerate() {
        assert!(call.body == bodies[number % 3], "call {number} carries {:?}", call.body);
    }
    // The first call's header fields are literals, so they can be seen.
    let head = String::from_utf8_lossy(&calls[0].head).into_owned();
    for text in ["/demo.Echo/Say", "trailers", "application/grpc", "x-key", "secret"] {
        assert!(head.contains(text), "'{text}' is not in {head:?}");
    }
}

#[test]
fn every_load_works() {
    let folder = tempfile::tempdir().unwrap();
    let file = steps(&folder, &json!([{"message_generator": generator(&[b"a", b"b"])}]));
    let loads = [
        "--concurrency-range 3 --request-count 30",
        "--concurrency-range 3 --async --request-count 30",
        "--request-rate-range 30 --request-count 30",
        "--stage concurrency:2:10req --stage rate:40:20req",
        "--grpc-compression-algorithm gzip --request-count 30",
        "--client-timeout-us 5s --reconnect --request-count 30",
        "-b 1 --request-count 30",
    ];
    for load in loads {
        let (url, calls) = service(|call| {
            let three = [b"a", b"b", b"c"].map(|text| data(call.stream, &message(text))).concat();
            [response_headers(call.stream), three, trailers(call.stream, "0")].concat()
        });
        let finished = program(&url, &format!("{load} --input-data {file}")).run();
        let report = finished.report_even_if_late();
        let counts = report.levels.iter().map(|level| level.client_number("Request count")).sum::<f64>();
        assert_eq!((counts, calls.lock().unwrap().len()), (30.0, 30), "{load}: {finished:#?}");
        // Three messages each, with the gaps between them, and the client's own times all the same.
        let level = &report.levels[0];
        let ratio = level.client_number("Response Throughput") / level.client_number("Throughput");
        assert!((ratio - 3.0).abs() < 0.01, "{load}: {finished:#?}");
        assert!(level.client().contains("Avg gRPC time: ") && level.client().contains("send/recv"), "{finished:#?}");
        assert_eq!(finished.stdout.contains("Batch size: 1"), load.starts_with("-b"), "{finished:#?}");
    }
}

#[test]
fn periodic_loads_count_the_messages_of_streams() {
    let folder = tempfile::tempdir().unwrap();
    let file = steps(&folder, &json!([{"message_generator": generator(&[b"a"])}]));
    let (url, calls) = service(|call| {
        let many = data(call.stream, &message(b"part")).repeat(12);
        [response_headers(call.stream), many, trailers(call.stream, "0")].concat()
    });
    let flags = format!("--periodic-concurrency-range 2:8:2 --request-period 3 --input-data {file}");
    let finished = program(&url, &flags).run();
    assert_eq!(finished.code(), 0, "{finished:#?}");
    assert_eq!(calls.lock().unwrap().len(), 8, "{finished:#?}");
}

#[test]
fn generators_that_fail_are_errors_of_the_data() {
    let folder = tempfile::tempdir().unwrap();
    let good = generator(&[b"fine"]);
    let (url, calls) = service(|call| answer(call.stream, b""));
    for (command, words) in [
        ("true", "it wrote no message"),
        ("echo oh dear >&2; exit 7", "exit status: 7: oh dear"),
        ("printf 'abc'", "is cut off in the length of message 1"),
        (r"printf '\377\000\000\000abc'", "is cut off in message 1: 3 of 255 bytes"),
        (&format!("{good}; printf '\\000\\000\\000\\000more'"), "4 bytes follow"),
        (&format!("{good}; exit 1"), "exit status: 1"),
    ] {
        let file = steps(&folder, &json!([{"message_generator": good}, {"message_generator": command}]));
        let finished = program(&url, &format!("--request-count 5 --input-data {file}")).run();
        let named = format!("message_generator '{}", &command[..4]);
        finished.refusal(&["stream 0, step 1", &named, words]);
    }
    assert_eq!(calls.lock().unwrap().len(), 0, "nothing is sent before all data are there");
}

#[test]
fn perf_analyzers_usage_errors_are_kept_where_we_refuse_too() {
    let folder = tempfile::tempdir().unwrap();
    let file = steps(&folder, &json!([{"message_generator": generator(&[b"x"])}]));
    let kind = "--service-kind dynamic_grpc -u localhost:1";
    let whole = format!("{kind} --grpc-method a.B/C --input-data {file}");
    for (flags, words) in [
        (format!("{kind} --input-data {file}"), "--grpc-method"),
        (format!("{kind} --grpc-method a.B/C"), "Must supply --input-data"),
        (format!("{kind} --grpc-method a.B --input-data {file}"), "with one '/'"),
        (format!("{kind} --grpc-method a/B/C --input-data {file}"), "with one '/'"),
        (format!("{whole} -b 2"), "Dynamic gRPC does not support multi-batch at the moment."),
        (
            format!("{whole} --collect-metrics"),
            "Server-side metric collection is only supported with Triton client backend.",
        ),
        (format!("{whole} --streaming"), "--streaming"),
        (format!("{whole} --shared-memory system"), "--shared-memory system"),
        (format!("{whole} --proto-include {}", folder.path().display()), "needs --proto"),
        (format!("{whole} --proto nowhere.proto"), "--proto 'nowhere.proto'"),
        ("-m m --grpc-method a.B/C".to_owned(), "is for --service-kind dynamic_grpc"),
        (format!("{whole} --http-compression gzip"), "is for --service-kind triton"),
    ] {
        Program::new().args(&flags).run().refusal(&[words]);
    }
    // Nobody is there, and the port is upstream's where none is named.
    let away =
        format!("--service-kind dynamic_grpc --grpc-method a.B/C --input-data {file} --server-wait 0.1 -u localhost");
    Program::new().args(&away).run().refusal(&["localhost:8000", "cannot be reached within 0.1 s"]);
}
