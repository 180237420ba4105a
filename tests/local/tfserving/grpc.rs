//! Over gRPC.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;

use super::messages::{bytes, find, metadata, response, status, tensor};
use super::server::{Call, Reply, Server};
use super::{Data, report, run};
use crate::support::Report;

/// As published for model `m`, signature `serving_default`, input `x`, FP32 [1,2] of 1.0 and 2.0.
const GOLDEN: &str =
    "0a140a016d1a0f73657276696e675f64656661756c74121b0a0178121608011208120208011202080222080000803f00000040";

/// An answer of the usual model to a request of one row.
fn row(_: &Call) -> Reply {
    Reply::Message(response(&[("y", tensor(1, &[1, 2], &bytes(5, &[0; 8])))]))
}

fn data() -> Data {
    Data::of(&json!({"data": [{"x": {"content": [1.0, 2.0], "shape": [1, 2]}}]}))
}

/// A server that keeps its predictions.
fn recording() -> (Server, Arc<Mutex<Vec<Call>>>) {
    let calls = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&calls);
    let server = Server::start(move |call| {
        kept.lock().unwrap().push(call.clone());
        row(call)
    });
    (server, calls)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn count(finished: &super::Finished) -> f64 {
    report(finished).level().client_number("Request count")
}

#[test]
fn a_request_is_the_golden_one() {
    let (server, calls) = recording();
    let data = data();
    let finished = run(server.url(), &format!("{} -H X-Key:secret --request-count 5", data.flag()));
    assert_eq!(count(&finished), 5.0);
    for call in &*calls.lock().unwrap() {
        assert_eq!(hex(&call.message), GOLDEN);
        assert_eq!(
            (&call.headers["x-key"], &call.headers["te"]),
            (&"secret".parse().unwrap(), &"trailers".parse().unwrap())
        );
    }
    let asked = server.others();
    let paths: Vec<&str> = asked.iter().map(|call| call.path.rsplit('/').next().unwrap()).collect();
    assert_eq!(paths, ["GetModelStatus", "GetModelMetadata"]);
    assert_eq!(hex(&asked[1].message), format!("0a030a016d120d{}", hex(b"signature_def")));
    assert!(asked.iter().all(|call| call.headers["x-key"] == "secret"));
}

#[test]
fn versions_are_numbers_and_other_words_are_labels() {
    for (flag, spec) in [("-x 7", "0a016d12020807"), ("-x stable", "0a016d2206737461626c65"), ("-x -1", "0a016d")] {
        let (server, calls) = recording();
        let data = data();
        let flags = format!("{} {flag} --model-signature-name serving_default --request-count 2", data.flag());
        assert_eq!(count(&run(server.url(), &flags)), 2.0);
        let named = hex(&find(&calls.lock().unwrap()[0].message, 1).unwrap());
        let signature = format!("1a0f{}", hex(b"serving_default"));
        assert_eq!(named.replace(&signature, ""), spec);
        assert!(server.others().iter().all(|call| hex(&find(&call.message, 1).unwrap()) == spec));
    }
}

#[test]
fn a_batch_has_a_dimension_of_its_own_where_it_is_asked_for() {
    for (batch, dims) in [(1, "1202080112020802"), (3, "1202080312020802")] {
        let (server, calls) = recording();
        let flags = format!("-b {batch} --input-data zero --request-count 4 --max-errors 100%");
        let finished = run(server.url(), &flags);
        let input = find(&calls.lock().unwrap()[0].message, 2).unwrap();
        let tensor = find(&input, 2).unwrap();
        assert_eq!(hex(&find(&tensor, 2).unwrap()), dims);
        assert_eq!(find(&tensor, 4).unwrap().len(), 8 * batch);
        assert!(finished.stdout.contains(&format!("Batch size: {batch}\n")), "{finished:#?}");
        // The answer has one row.
        assert_eq!(
            finished.stdout.contains("output 'y' has shape [1, 2] instead of [3, 2]"),
            batch == 3,
            "{finished:#?}"
        );
    }
    let server = Server::answering(
        |call| {
            let signature = metadata("serving_default", &[("x", 1, Some(&[4, 2]))], &[]);
            call.path.ends_with("Metadata").then_some(Reply::Message(signature))
        },
        row,
    );
    run(server.url(), "-b 1")
        .refusal(&["Can not specify -b flag for saved model with input not having their first dim as -1"]);
    let server = Server::answering(
        |call| {
            let signature = metadata("serving_default", &[("x", 1, None)], &[]);
            call.path.ends_with("Metadata").then_some(Reply::Message(signature))
        },
        row,
    );
    run(server.url(), "-b 2").refusal(&["Can not specify -b flag for saved model with unknown ranked inputs"]);
    run(server.url(), "").refusal(&["input 'x'", "--shape x:DIM"]);
    let shaped = run(server.url(), "--shape x:2,3 --request-count 2");
    assert_eq!(count(&shaped), 2.0);
}

#[test]
fn free_dimensions_need_a_shape() {
    let server = Server::start(row);
    run(server.url(), "").refusal(&["input 'x' has the shape [-1, 2]", "--shape x:DIM"]);
    assert_eq!(count(&run(server.url(), "--shape x:1,2 --request-count 2")), 2.0);
}

/// Every type that a tensor may have: its number, input data, and the same elements as a server lists them.
fn types() -> Vec<(u64, serde_json::Value, Vec<u8>)> {
    let floats = [1.5_f32, -2.0].map(f32::to_le_bytes).concat();
    let doubles = [1.5_f64, -2.0].map(f64::to_le_bytes).concat();
    let list = |field, numbers: [i64; 2]| bytes(field, &numbers.map(|n| super::messages::varint(n as u64)).concat());
    vec![
        (1, json!([1.5, -2.0]), bytes(5, &floats)),
        (2, json!([1.5, -2.0]), bytes(6, &doubles)),
        (3, json!([-5, 70000]), list(7, [-5, 70000])),
        (4, json!([0, 255]), list(7, [0, 255])),
        (5, json!([-300, 300]), list(7, [-300, 300])),
        (6, json!([-128, 127]), list(7, [-128, 127])),
        (7, json!(["ab", ""]), [bytes(8, b"ab"), bytes(8, b"")].concat()),
        (9, json!([-1, 4_611_686_018_427_387_904_i64]), list(10, [-1, 4_611_686_018_427_387_904])),
        (10, json!([true, false]), list(11, [1, 0])),
        (14, json!([1.5, -2.0]), list(13, [0x3fc0, 0xc000])),
        (17, json!([0, 65535]), list(7, [0, 65535])),
        (19, json!([1.5, -2.0]), list(13, [0x3e00, 0xc000])),
        (22, json!([0, 4_294_967_295_u32]), list(16, [0, 4_294_967_295])),
        (23, json!([0, u64::MAX]), list(17, [0, -1])),
    ]
}

#[test]
fn every_type_goes_out_raw_and_comes_back_listed() {
    for (dtype, values, listed) in types() {
        let answer = response(&[("y", tensor(dtype, &[2], &listed))]);
        let contents = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&contents);
        let server = Server::answering(
            move |call| {
                let info = |name| (name, dtype, Some(&[2_i64][..]));
                let signature = metadata("serving_default", &[info("x")], &[info("y")]);
                call.path.ends_with("Metadata").then_some(Reply::Message(signature))
            },
            move |call| {
                let sent = find(&find(&call.message, 2).unwrap(), 2).unwrap();
                kept.lock().unwrap().push((find(&sent, 4), find(&sent, 8)));
                Reply::Message(answer.clone())
            },
        );
        // What comes back must be what went out.
        let data = Data::of(&json!({"data": [{"x": values}], "validation_data": [{"y": values}]}));
        let finished = run(server.url(), &format!("{} --validate-replies --request-count 4", data.flag()));
        assert_eq!(count(&finished), 4.0, "type {dtype}: {finished:#?}");
        let (content, strings) = contents.lock().unwrap()[0].clone();
        assert_eq!((content.is_some(), strings.is_some()), (dtype != 7, dtype == 7), "type {dtype}");
    }
}

#[test]
fn types_that_no_request_carries_are_named() {
    for (dtype, name) in [(8, "DT_COMPLEX64"), (21, "DT_VARIANT"), (99, "DT_99")] {
        let server = Server::answering(
            move |call| {
                let signature = metadata("serving_default", &[("x", dtype, Some(&[2]))], &[]);
                call.path.ends_with("Metadata").then_some(Reply::Message(signature))
            },
            row,
        );
        run(server.url(), "").refusal(&["input 'x'", &format!("unsupported datatype encountered {name}")]);
    }
}

#[test]
fn a_signature_that_is_not_there_is_said_with_those_that_are() {
    let server = Server::start(row);
    let finished = run(server.url(), "--model-signature-name predict");
    finished.refusal(&["Failed to find signature_name \"predict\" in the metadata", "serving_default", "model 'm'"]);
}

#[test]
fn every_load_is_there_and_counts_are_the_servers() {
    for (flags, levels) in [
        ("--concurrency-range 1:3 -p 100 -s 1000000", 3),
        ("--async --concurrency-range 4 --request-count 200", 1),
        ("--sync --concurrency-range 3 --request-count 200", 1),
        ("--request-rate-range 50 --request-count 60", 1),
        ("--stage rate:200:40req --stage concurrency:3:60req", 2),
        ("--grpc-compression-algorithm gzip --request-count 30", 1),
    ] {
        let server = Server::start(row);
        let report = report(&run(server.url(), &format!("--shape x:1,2 {flags}")));
        let counts = report.text.lines().filter_map(|line| line.trim().strip_prefix("Request count: "));
        let counts: Vec<usize> = counts.map(|count| count.parse().unwrap()).collect();
        assert_eq!(counts.len(), levels, "{flags}: {}", report.text);
        let sum: usize = counts.iter().sum();
        match flags.contains("-p 100") {
            true => assert!(sum > 0 && sum <= server.predictions(), "{flags}: {}", report.text),
            false => assert_eq!(sum, server.predictions(), "{flags}: {}", report.text),
        }
        assert!(report.text.contains("  Service Kind: TENSORFLOW_SERVING\n"), "{}", report.text);
        assert!(!report.text.contains("Batch size:") && !report.text.contains("Server:"), "{}", report.text);
        assert!(
            report.text.contains("Avg gRPC time: ") && report.text.contains("((un)marshal request/response "),
            "{}",
            report.text
        );
    }
}

#[test]
fn files_of_results_have_the_clients_half_and_the_outputs() {
    let answer = response(&[("y", tensor(1, &[1, 2], &bytes(5, &[2.5_f32, 3.5].map(f32::to_le_bytes).concat())))]);
    let server = Server::start(move |_| Reply::Message(answer.clone()));
    let data = data();
    let flags = format!(
        "{} --request-count 6 -f {} --profile-export-file {}",
        data.flag(),
        data.file("level.csv").display(),
        data.file("export.json").display()
    );
    assert_eq!(count(&run(server.url(), &flags)), 6.0);
    let csv = std::fs::read_to_string(data.file("level.csv")).unwrap();
    assert!(csv.starts_with("Concurrency,Inferences/Second,Client Send,Client Recv,p50 latency"), "{csv}");
    let export: serde_json::Value = serde_json::from_slice(&std::fs::read(data.file("export.json")).unwrap()).unwrap();
    assert_eq!(export["service_kind"], "tfserving");
    for request in export["experiments"][0]["requests"].as_array().unwrap() {
        assert_eq!(
            (&request["request_inputs"]["x"], &request["response_outputs"][0]["y"]),
            (&json!([1.0, 2.0]), &json!([2.5, 3.5]))
        );
    }
}

#[test]
fn outputs_are_asked_for_where_something_is_expected_of_them() {
    let (server, calls) = recording();
    let data = Data::of(&json!({
        "data": [{"x": {"content": [1.0, 2.0], "shape": [1, 2]}}],
        "validation_data": [{"y": {"content": [0.0, 0.0], "shape": [1, 2]}}]
    }));
    assert_eq!(count(&run(server.url(), &format!("{} --request-count 3", data.flag()))), 3.0);
    assert_eq!(find(&calls.lock().unwrap()[0].message, 3).as_deref(), Some(&b"y"[..]));
}

/// The rows of errors: status, text, and the word of the report.
const ERRORS: &[(u32, &str, &str)] = &[
    (5, "Servable not found for request: Latest(m)", "Not found"),
    (5, "Servable not found for request: Specific(m, 7)", "Not found"),
    (3, "Unrecognized servable version label: L", "Invalid argument"),
    (14, "Labels are not yet known", "Unavailable"),
    (9, "Serving signature key \"S\" not found.", "Failed precondition"),
    (
        3,
        "input size does not match signature: 0!=1 len({}) != len({x}). Sent extra: {}. Missing but required: {x}.",
        "Invalid argument",
    ),
    (3, "Missing ModelSpec", "Invalid argument"),
    (3, "ModelSpec has no name specified.", "Invalid argument"),
    (8, "too many", "Resource exhausted"),
    (4, "late", "Deadline exceeded"),
    (13, "long...TRUNCATED", "Internal"),
];

#[test]
fn errors_are_counted_in_the_servers_words() {
    for &(code, text, word) in ERRORS {
        for load in ["--sync", "--async --concurrency-range 4"] {
            let server = Server::start(move |call| match call.ordinal % 4 {
                3 => Reply::Status(code, text.to_owned()),
                _ => row(call),
            });
            let finished = run(server.url(), &format!("--shape x:1,2 {load} --request-count 40 --max-errors 100%"));
            assert!(finished.stdout.contains(&format!("10 x {word}: {text}")), "{finished:#?}");
            let failed = Report::parse(&finished.stdout).level().client_number("Failed request count");
            assert_eq!(failed, 10.0, "{finished:#?}");
        }
    }
}

#[test]
fn answers_that_are_none_of_the_model_are_failures() {
    let shaped = |dims: &'static [i64], values: Vec<u8>| response(&[("y", tensor(1, dims, &values))]);
    for (answer, words) in [
        (response(&[]), "it has no outputs"),
        (response(&[("z", tensor(1, &[1, 2], &bytes(4, &[0; 8])))]), "it has no outputs"),
        (response(&[("y", tensor(3, &[1, 2], &bytes(4, &[0; 8])))]), "output 'y' is INT32 instead of FP32"),
        (shaped(&[1, 3], bytes(4, &[0; 12])), "output 'y' has shape [1, 3]"),
        (shaped(&[1, 2], bytes(4, &[0; 12])), "comes with 12 bytes"),
        (shaped(&[1, 2], bytes(5, &[0; 12])), "comes with 3 elements"),
        (shaped(&[1 << 40, 1 << 20], Vec::new()), "more than an answer holds"),
        (vec![0x0a, 0x7f, 1], "not a message of the protocol"),
    ] {
        let server = Server::start(move |_| Reply::Message(answer.clone()));
        let finished = run(server.url(), "--shape x:1,2 --request-count 3 --validate-replies");
        assert_eq!(finished.code(), 3, "{words}: {finished:#?}");
        assert!(finished.stdout.contains(words), "{words}: {finished:#?}");
    }
}

#[test]
fn later_answers_are_at_least_answers() {
    let server = Server::start(|call| match call.ordinal {
        3 => Reply::Message(response(&[])),
        5 => Reply::Message(vec![0x0a, 0x7f, 1]),
        _ => row(call),
    });
    let finished = run(server.url(), "--shape x:1,2 --request-count 20 --max-errors 100%");
    for words in ["1 x Malformed reply: it has no outputs", "1 x Malformed reply: it is not a message of the protocol"]
    {
        assert!(finished.stdout.contains(words), "{words}: {finished:#?}");
    }
}

#[test]
fn requests_that_take_too_long_are_given_up_and_the_server_is_told_the_deadline() {
    let deadlines = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&deadlines);
    let server = Server::start(move |call| {
        counted.fetch_add(usize::from(call.headers["grpc-timeout"] == "20000000n"), Ordering::SeqCst);
        Reply::Late(Duration::from_secs(2), response(&[]))
    });
    let flags = "--shape x:1,2 --client-timeout-us 20000 --request-count 4 --concurrency-range 2";
    let finished = run(server.url(), flags);
    assert!(finished.stdout.contains("4 x Deadline exceeded: no answer within 20000 us"), "{finished:#?}");
    assert_eq!(deadlines.load(Ordering::SeqCst), 4);
}

#[test]
fn a_model_is_waited_for_until_a_version_is_available() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let server = Server::answering(
        move |call| {
            let number = call.path.ends_with("GetModelStatus").then(|| counted.fetch_add(1, Ordering::SeqCst))?;
            (number < 3).then(|| Reply::Message(status(1, 20, "still reading")))
        },
        row,
    );
    assert_eq!(count(&run(server.url(), "--server-wait 60 --shape x:1,2 --request-count 2")), 2.0);
    assert_eq!(asked.load(Ordering::SeqCst), 4);
    for (reply, words) in [
        (Reply::Message(status(3, 50, "cannot be read")), "version 3 is END, cannot be read"),
        (
            Reply::Status(5, "Could not find any versions of model m".to_owned()),
            "Could not find any versions of model m",
        ),
        (Reply::Message(vec![0xff]), "malformed"),
    ] {
        let server = Server::answering(move |call| call.path.ends_with("GetModelStatus").then(|| reply.clone()), row);
        let finished = run(server.url(), "--server-wait 0.3");
        finished.refusal(&["model 'm' was not ready within 0.3 s", words]);
    }
}

#[test]
fn a_server_that_does_not_tell_of_versions_is_asked_for_metadata() {
    let untold = |call: &Call| call.path.ends_with("GetModelStatus").then(|| Reply::Status(12, String::new()));
    let server = Server::answering(untold, row);
    assert_eq!(count(&run(server.url(), "--shape x:1,2 --request-count 2")), 2.0);
    let server = Server::answering(
        |call| match call.path.rsplit('/').next() {
            Some("GetModelMetadata") => Some(Reply::Status(5, "Servable not found for request: Latest(m)".to_owned())),
            _ => None,
        },
        row,
    );
    run(server.url(), "").refusal(&["failed to get model metadata", "Servable not found for request: Latest(m)"]);
    assert_eq!(server.predictions(), 0);
}

#[test]
fn nobody_who_listens_is_said_after_the_wait() {
    run("127.0.0.1:1", "--server-wait 0").refusal(&["127.0.0.1:1", "Connection refused"]);
}
