//! JSON payloads described by a .proto file.

use serde_json::{Value, json};

use super::{ONE, framed, generator, program, service, steps};
use crate::grpc_faults::peer::{answer, data, field, message, response_headers, trailers};

const PROTO: &str = r#"syntax = "proto3";
package demo;
import "words.proto";
message Line { string text = 1; repeated int32 numbers = 2; demo.words.Mark mark = 3; }
service Echo { rpc Say(stream Line) returns (stream Line); }
"#;

fn written(folder: &tempfile::TempDir) -> String {
    let (file, include) = (folder.path().join("echo.proto"), folder.path().join("shared"));
    std::fs::create_dir_all(&include).unwrap();
    std::fs::write(&file, PROTO).unwrap();
    std::fs::write(
        include.join("words.proto"),
        "syntax = \"proto3\"; package demo.words; enum Mark { NONE = 0; END = 1; }",
    )
    .unwrap();
    format!("--proto {} --proto-include {}", file.display(), include.display())
}

#[test]
fn messages_whose_json_is_a_single_value_are_sent() {
    let folder = tempfile::tempdir().unwrap();
    for (message_type, payloads, bodies) in [
        ("StringValue", json!(["Sam", ["a", "b"]]), vec![vec![field(1, b"Sam")], vec![field(1, b"a"), field(1, b"b")]]),
        ("Int32Value", json!([7]), vec![vec![vec![8, 7]]]),
        ("BoolValue", json!([true]), vec![vec![vec![8, 1]]]),
        ("DoubleValue", json!([1.5]), vec![vec![[&[9][..], &1.5_f64.to_le_bytes()].concat()]]),
        ("Timestamp", json!(["1970-01-01T00:00:05Z"]), vec![vec![vec![8, 5]]]),
        ("Duration", json!(["2s", ["3s"]]), vec![vec![vec![8, 2]], vec![vec![8, 3]]]),
        ("Value", json!(["x", {"a": null}]), vec![vec![field(3, b"x")]]),
    ] {
        let file = match message_type {
            "Timestamp" => "timestamp",
            "Duration" => "duration",
            "Value" => "struct",
            _ => "wrappers",
        };
        let proto = folder.path().join("say.proto");
        let text = format!(
            "syntax = \"proto3\"; package demo; import \"google/protobuf/{file}.proto\";
            message Reply {{}}
            service Echo {{ rpc Say(stream google.protobuf.{message_type}) returns (Reply); }}"
        );
        std::fs::write(&proto, text).unwrap();
        let all: Vec<Value> =
            payloads.as_array().unwrap().iter().map(|payload| json!({ "payload": payload })).collect();
        let data = steps(&folder, &Value::from(all));
        let (url, calls) = service(|call| answer(call.stream, b""));
        let count = payloads.as_array().unwrap().len();
        let flags = format!("{ONE} --proto {} --request-count {count} --input-data {data}", proto.display());
        let finished = program(&url, &flags).run();
        assert_eq!(finished.code(), 0, "{message_type}: {finished:#?}");
        let calls = calls.lock().unwrap();
        assert_eq!(calls.len(), count, "{message_type}");
        for (call, body) in calls.iter().zip(bodies) {
            let messages: Vec<&[u8]> = body.iter().map(Vec::as_slice).collect();
            assert_eq!(call.body, framed(&messages), "{message_type}");
        }
    }
}

#[test]
fn payloads_are_sent_as_messages_and_answers_exported_as_json() {
    let folder = tempfile::tempdir().unwrap();
    let proto = written(&folder);
    let file = steps(
        &folder,
        &json!([
            {"payload": {"text": "hi", "numbers": [1, 300]}},
            {"payload": [{"text": "a"}, {"mark": "END"}, {}]},
            {"message_generator": generator(&[&field(1, b"raw")])},
        ]),
    );
    let (url, calls) = service(|call| {
        let two = [data(call.stream, &message(&field(1, b"pong"))), data(call.stream, &message(&[24, 1]))].concat();
        [response_headers(call.stream), two, trailers(call.stream, "0")].concat()
    });
    let export = folder.path().join("export.json");
    let flags =
        format!("{ONE} {proto} --request-count 6 --input-data {file} --profile-export-file {}", export.display());
    let finished = program(&url, &flags).run();
    assert_eq!(finished.report().level().client_number("Request count"), 6.0, "{finished:#?}");
    let bodies = [
        framed(&[&[&field(1, b"hi")[..], &[18, 3, 1, 0xac, 2]].concat()]),
        framed(&[&field(1, b"a"), &[24, 1], &[]]),
        framed(&[&field(1, b"raw")]),
    ];
    for (number, call) in calls.lock().unwrap().iter().enumerate() {
        assert_eq!(call.body, bodies[number % 3], "call {number}");
    }
    let export: Value = serde_json::from_slice(&std::fs::read(&export).unwrap()).unwrap();
    assert_eq!(export["service_kind"], "dynamic_grpc");
    let requests = export["experiments"][0]["requests"].as_array().unwrap();
    assert_eq!(requests.len(), 6);
    for request in requests {
        let answers: Vec<Value> = (request["response_outputs"].as_array().unwrap().iter())
            .map(|output| serde_json::from_str(output["response"].as_str().unwrap()).unwrap())
            .collect();
        assert_eq!(answers, [json!({"text": "pong"}), json!({"mark": "END"})], "{request}");
    }
    let sent: Value = serde_json::from_str(requests[0]["request_inputs"]["payload"].as_str().unwrap()).unwrap();
    assert_eq!(sent, json!({"text": "hi", "numbers": [1, 300]}));
}

#[test]
fn what_does_not_fit_the_description_is_refused_or_fails() {
    let folder = tempfile::tempdir().unwrap();
    let proto = written(&folder);
    let (url, _) = service(|call| answer(call.stream, &[10, 9, b'x']));
    for (step, words) in [
        (json!({"payload": {"txt": "hi"}}), &["stream 0, step 0", "demo.Line", "txt"][..]),
        (json!({"payload": [{}, {"numbers": ["many"]}]}), &["stream 0, step 0", "demo.Line"]),
        (json!({"payload": []}), &["stream 0, step 0"]),
        (json!({}), &["stream 0, step 0", "neither payload nor message_generator"]),
        (json!({"payload": {}, "message_generator": "true"}), &["both payload and message_generator"]),
    ] {
        let file = steps(&folder, &json!([step]));
        program(&url, &format!("{proto} --request-count 3 --input-data {file}")).run().refusal(words);
    }
    let file = steps(&folder, &json!([{"payload": {}}]));
    let finished =
        program(&url, &format!("{ONE} {proto} --request-count 3 --max-errors 100% --input-data {file}")).run();
    assert!(finished.stdout.contains("cannot be decoded: a message of the answer is not a demo.Line"), "{finished:#?}");
    let flags = format!("--request-count 3 --input-data {file}");
    program(&url, &flags).run().refusal(&["payload", "message_generator"]);
}
