//! Over HTTP.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::{program, said_once};
use crate::support::http_server::{Act, HttpServer, Received, reply};

/// What such a server says of paths that it does not have.
const UNKNOWN: &[u8] = br#"{"detail":"Not Found"}"#;

fn json_reply(body: &Value) -> Vec<u8> {
    reply("200 OK", "Content-Type: application/json\r\n", body.to_string().as_bytes())
}

/// A server that answers with its input, in JSON, and the requests that it got.
fn foreign() -> (HttpServer, Arc<Mutex<Vec<Received>>>) {
    let requests = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&requests);
    let server = HttpServer::start(move |request: &Received| {
        kept.lock().unwrap().push(request.clone());
        let Ok(body) = serde_json::from_slice::<Value>(&request.body) else {
            return vec![Act::Send(reply("422 Unprocessable", "", br#"{"detail":[{"msg":"no JSON"}]}"#))];
        };
        let input = &body["inputs"][0];
        let answer = json!({"model_name": "m", "model_version": null, "id": "x", "parameters": null, "outputs": [
            {"name": "OUT", "shape": input["shape"], "datatype": "FP32", "parameters": null, "data": input["data"]}]});
        vec![Act::Send(json_reply(&answer))]
    });
    lack(&server);
    (server, requests)
}

/// No extensions, no configurations, a model with an open first dimension.
pub fn lack(server: &HttpServer) {
    let metadata = json!({"name": "m", "versions": [], "platform": "",
        "inputs": [{"name": "IN", "datatype": "FP32", "shape": [-1, 4], "parameters": null}],
        "outputs": [{"name": "OUT", "datatype": "FP32", "shape": [-1, 4]}]});
    server.answer_instead("/v2", json_reply(&json!({"name": "mlserver", "version": "1", "extensions": []})));
    for model in ["/models/m", "/models/other"] {
        server.answer_instead(model, json_reply(&metadata));
    }
    for path in ["/config", "/stats"] {
        server.answer_instead(path, reply("404 Not Found", "", UNKNOWN));
    }
}

fn data_file(folder: &tempfile::TempDir) -> String {
    let step = json!([0.5, -1.0, 2.0, 3e8]);
    let data = json!({"data": [{"IN": step}], "validation_data": [{"OUT": step}]});
    let path = folder.path().join("data.json");
    std::fs::write(&path, data.to_string()).unwrap();
    path.display().to_string()
}

#[test]
fn tensors_travel_as_json_and_batches_are_the_first_dimension_if_asked() {
    let folder = tempfile::tempdir().unwrap();
    let data = data_file(&folder);
    for (load, batch) in
        [("--concurrency-range 2", 1), ("--concurrency-range 2 --async", 3), ("--request-rate-range 20", 2)]
    {
        let (server, requests) = foreign();
        let flags = format!("-b {batch} {load} --request-count 20 --input-data {data}");
        let finished = program(&server.url(), &flags).run();
        let report = finished.report_even_if_late();
        assert_eq!(report.level().client_number("Request count"), 20.0, "{}", finished.stdout);
        assert!(!finished.stdout.contains("Server:"), "{}", finished.stdout);
        let line = said_once(&finished);
        for word in ["no model configurations", "no statistics", "no binary tensors"] {
            assert!(line.contains(word), "{line}");
        }
        let requests = requests.lock().unwrap();
        assert_eq!(requests.len(), 20);
        let body: Value = serde_json::from_slice(&requests[0].body).unwrap();
        assert_eq!(body["inputs"][0]["shape"], json!([batch, 4]));
        assert_eq!(body["inputs"][0]["data"].as_array().unwrap().len(), 4 * batch);
        assert_eq!(body.get("parameters"), None, "binary outputs were asked for");
        assert_eq!(requests[0].field("Inference-Header-Content-Length"), None);
        assert_eq!(requests[0].field("Content-Type"), Some("application/json"));
    }
}

#[test]
fn formats_that_are_asked_for_are_kept_and_refusals_told_in_the_servers_words() {
    let (server, _) = foreign();
    let flags = "-b 1 --input-tensor-format binary --output-tensor-format json --request-count 5 --max-errors 100%";
    let finished = program(&server.url(), flags).run();
    assert!(finished.stdout.contains(r#"5 x HTTP 422: [{"msg":"no JSON"}]"#), "{finished:#?}");
    assert!(!said_once(&finished).contains("binary"), "{finished:#?}");
}

#[test]
fn without_a_batch_open_shapes_are_the_users() {
    let (server, requests) = foreign();
    program(&server.url(), "--request-count 5").run().failure_after_notes(&["--shape IN:DIM"]);
    let finished = program(&server.url(), "--request-count 5 --shape IN:7,4").run();
    finished.report();
    let body: Value = serde_json::from_slice(&requests.lock().unwrap()[0].body).unwrap();
    assert_eq!(body["inputs"][0]["shape"], json!([7, 4]));
    // A dimension that is fixed is no batch.
    let fixed = json!({"name": "m", "inputs": [{"name": "IN", "datatype": "FP32", "shape": [2, 4]}], "outputs": []});
    server.answer_instead("/models/m", json_reply(&fixed));
    program(&server.url(), "-b 1 --request-count 5").run().report();
    let refused = program(&server.url(), "-b 2 --request-count 5").run();
    refused.failure_after_notes(&["-b 2", "does not batch"]);
}

#[test]
fn only_a_path_that_is_unknown_is_taken_for_a_lack() {
    let (server, _) = foreign();
    server.answer_instead("/config", reply("503 Busy", "", br#"{"detail":"loading"}"#));
    program(&server.url(), "-b 1 --request-count 5")
        .run()
        .failure(&["configuration of model 'm'", "HTTP 503: loading"]);
    server.answer_instead("/models/m", reply("404 Not Found", "", br#"{"detail":"Model m not found"}"#));
    program(&server.url(), "-b 1 --request-count 5").run().failure(&["metadata of model 'm'", "Model m not found"]);
}

#[test]
fn a_server_that_withholds_its_health_is_live_once_it_answers_for_itself_and_its_model() {
    const RESTRICTED: &[u8] = br#"{"error":"This API is restricted, expecting header 'key'"}"#;
    let (server, requests) = foreign();
    for (status, body) in [("404 Not Found", UNKNOWN), ("403 Forbidden", RESTRICTED)] {
        for path in ["/health/live", "/models/m/ready"] {
            server.answer_instead(path, reply(status, "", body));
        }
        let finished = program(&server.url(), "-b 1 --request-count 5").run();
        assert_eq!(finished.report().level().client_number("Request count"), 5.0, "{}", finished.stdout);
    }
    assert_eq!(requests.lock().unwrap().len(), 10);
    // A model that is there and not ready is no unknown path.
    server.answer_instead("/models/m/ready", reply("400 Bad Request", "", b"{}"));
    program(&server.url(), "-b 1 --server-wait 0 --request-count 5").run().failure(&["model 'm' was not ready"]);
    // Nor is a server live that says nothing of itself either.
    server.answer_instead("/v2", reply("404 Not Found", "", UNKNOWN));
    let finished = program(&server.url(), "-b 1 --server-wait 0 --request-count 5").run();
    finished.failure(&["does not say that it is a live server", "HTTP 403: This API is restricted"]);
}

#[test]
fn a_model_whose_inputs_the_server_does_not_describe_is_named() {
    let server =
        HttpServer::start(|_: &Received| vec![Act::Send(json_reply(&json!({"model_name": "m", "outputs": []})))]);
    lack(&server);
    for (inputs, times) in [(json!([]), 1), (json!([{"name": "IN", "datatype": "FP32", "shape": [4]}]), 0)] {
        server.answer_instead("/models/m", json_reply(&json!({"name": "m", "inputs": inputs, "outputs": []})));
        let finished = program(&server.url(), "--concurrency-range 1:2 --request-count 5 --max-errors 100%").run();
        assert_eq!(finished.stderr.matches("does not say what model 'm' takes").count(), times, "{}", finished.stderr);
    }
}
