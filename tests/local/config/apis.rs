//! `api.type` of files in inference-perf's format: what arrives at the server.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::*;
use crate::support::Program;
use crate::support::http_server::{Act, HttpServer, Received, reply};

/// A request: its path, the version that it names, and its body.
#[derive(Clone, Debug)]
struct Came {
    path: String,
    version: Option<String>,
    body: Value,
}

/// What comes of a file, at a server that gives every request this answer.
fn play(text: &str, answer: Value) -> Vec<Came> {
    let log = Arc::new(Mutex::new(Vec::new()));
    let came = Arc::clone(&log);
    let server = HttpServer::start(move |request: &Received| {
        let body = serde_json::from_slice(&request.body).unwrap();
        let version = request.field("anthropic-version").map(str::to_owned);
        let path = request.head.split(' ').nth(1).unwrap().to_owned();
        came.lock().unwrap().push(Came { path, version, body });
        vec![Act::Send(reply("200 OK", "Content-Type: application/json\r\n", answer.to_string().as_bytes()))]
    });
    let file = Config::of(text);
    let run = Program::new().args("-m m --on-disturbance mark --report-dir");
    let run = run.arg(file.path().parent().unwrap().join("reports"));
    let run = run.args("--config").arg(file.path()).args("-u").arg(server.url()).run();
    run.report_even_if_late();
    log.lock().unwrap().clone()
}

#[test]
fn anthropic_messages_keep_the_system_prompt_beside_the_conversation() {
    let came = play(
        "data:\n  type: conversation_replay\n  conversation_replay:\n    num_conversations: 1\n    shared_system_prompt_len: 5\n    \
         turns_per_conversation: {type: fixed, mean: 2}\n    input_tokens_per_turn: {type: fixed, mean: 3}\n    \
         output_tokens_per_turn: {type: fixed, mean: 7}\n\
         load: {type: concurrent, interval: 0, stages: [{num_requests: 2, concurrency_level: 1}]}\n\
         api: {type: anthropic_messages}\n",
        json!({ "type": "message", "content": [{ "type": "text", "text": "yes" }], "usage": { "output_tokens": 1 } }),
    );
    assert_eq!(came.len(), 2);
    let [first, second] = [&came[0], &came[1]];
    for request in &came {
        assert_eq!((request.path.as_str(), request.version.as_deref()), ("/v1/messages", Some("2023-06-01")));
        assert_eq!((&request.body["max_tokens"], request.body.get("ignore_eos")), (&json!(7), None));
        assert_eq!(request.body["system"].as_str().unwrap().split(' ').count(), 5, "{request:?}");
    }
    assert_eq!(first.body["system"], second.body["system"]);
    let roles = |request: &Came| {
        let messages = request.body["messages"].as_array().unwrap().iter();
        messages.map(|message| message["role"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(
        (roles(first), roles(second)),
        (vec!["user".to_owned()], ["user", "assistant", "user"].map(str::to_owned).to_vec())
    );
    assert_eq!(second.body["messages"][1]["content"], json!([{ "type": "text", "text": "yes" }]));
}

#[test]
fn anthropic_messages_without_a_length_have_the_limit_that_inference_perf_sends() {
    let came = play(
        "load: {type: concurrent, interval: 0, stages: [{num_requests: 2, concurrency_level: 1}]}\napi: {type: anthropic_messages}\n",
        json!({ "type": "message", "content": [{ "type": "text", "text": "yes" }] }),
    );
    assert!(came.len() == 2 && came.iter().all(|request| request.body["max_tokens"] == 30), "{came:?}");
}

#[test]
fn embeddings_have_an_input_and_nothing_that_is_about_generated_text() {
    let came = play(
        "data: {type: random, input_distribution: {mean: 9, min: 9, max: 9, std_dev: 0, total_count: 4}, \
         output_distribution: {mean: 9, min: 9, max: 9, std_dev: 0, total_count: 4}}\n\
         load: {type: concurrent, interval: 0, stages: [{num_requests: 4, concurrency_level: 1}]}\napi: {type: embeddings}\n",
        json!({ "object": "list", "data": [{ "embedding": [0.5] }], "usage": { "prompt_tokens": 9, "total_tokens": 9 } }),
    );
    assert_eq!(came.len(), 4);
    for request in &came {
        let fields: Vec<&str> = request.body.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!((request.path.as_str(), fields), ("/v1/embeddings", vec!["input", "model"]));
        assert_eq!(request.body["input"].as_str().unwrap().split(' ').count(), 9);
    }
}
