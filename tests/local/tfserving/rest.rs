//! Over REST.

use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::{Data, report, run};
use crate::support::Report;
use crate::support::authority::Authority;
use crate::support::http_server::{Act, HttpServer, Received, reply};

const ANSWER: &str = r#"{"outputs": [[0.5, -Infinity]]}"#;

pub fn good(_: &Received) -> Vec<Act> {
    vec![Act::Send(reply("200 OK", "Content-Type: application/json\r\n", ANSWER.as_bytes()))]
}

fn metadata(inputs: &Value, outputs: &Value) -> String {
    let signature = json!({"inputs": inputs, "outputs": outputs, "method_name": "tensorflow/serving/predict"});
    json!({"model_spec": {"name": "m", "signature_name": "", "version": "1"},
        "metadata": {"signature_def": {"signature_def": {"serving_default": signature}}}})
    .to_string()
}

fn info(dtype: &str, dims: &[i64]) -> Value {
    let dims: Vec<Value> = dims.iter().map(|dim| json!({"size": dim.to_string(), "name": ""})).collect();
    json!({"dtype": dtype, "tensor_shape": {"dim": dims, "unknown_rank": false}, "name": "x:0"})
}

const AVAILABLE: &str = r#"{"model_version_status": [{"version": "1", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}]}"#;

/// Lets a server tell of a model with one input and one output.
pub fn usual(server: &HttpServer) {
    describe(server, AVAILABLE, &json!({"x": info("DT_FLOAT", &[-1, 2])}), &json!({"y": info("DT_FLOAT", &[-1, 2])}));
}

fn describe(server: &HttpServer, status: &str, inputs: &Value, outputs: &Value) {
    for model in ["/m", "/other"] {
        server.answer_instead(model, reply("200 OK", "", status.as_bytes()));
    }
    server.answer_instead("/metadata", reply("200 OK", "", metadata(inputs, outputs).as_bytes()));
}

fn start(script: impl Fn(&Received) -> Vec<Act> + Send + Sync + 'static) -> HttpServer {
    let server = HttpServer::start(script);
    usual(&server);
    server
}

fn rest(server: &HttpServer, flags: &str) -> super::Finished {
    run(&server.url(), &format!("-i http {flags}"))
}

fn count(finished: &super::Finished) -> f64 {
    report(finished).level().client_number("Request count")
}

#[test]
fn requests_are_columns_and_answers_are_read() {
    let received = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&received);
    let server = HttpServer::start(move |request| {
        kept.lock().unwrap().push(request.clone());
        good(request)
    });
    let inputs = json!({"x": info("DT_FLOAT", &[-1, 2]), "s": info("DT_STRING", &[1]), "n": info("DT_INT64", &[])});
    describe(&server, AVAILABLE, &inputs, &json!({"y": info("DT_FLOAT", &[-1, 2])}));
    server.answer_instead("/labels/best", reply("200 OK", "", AVAILABLE.as_bytes()));
    let step = json!({"x": {"content": [1.5, 2.0], "shape": [1, 2]}, "s": ["hi"], "n": [i64::MIN]});
    let data = Data::of(&json!({"data": [step]}));
    let export = data.file("export.json");
    let flags = format!(
        "{} -x best -H Authorization:k --request-count 4 --profile-export-file {}",
        data.flag(),
        export.display()
    );
    assert_eq!(count(&rest(&server, &flags)), 4.0);
    for request in &*received.lock().unwrap() {
        assert!(request.head.starts_with("POST /v1/models/m/labels/best:predict HTTP/1.1\r\n"), "{}", request.head);
        assert_eq!(
            (request.field("authorization"), request.field("content-type")),
            (Some("k"), Some("application/json"))
        );
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        let inputs = json!({"n": i64::MIN, "s": [{"b64": "aGk="}], "x": [[1.5, 2.0]]});
        assert_eq!(body, json!({"signature_name": "serving_default", "inputs": inputs}));
    }
    let others: Vec<String> =
        server.others().iter().map(|other| other.head.lines().next().unwrap().to_owned()).collect();
    assert_eq!(others, ["GET /v1/models/m/labels/best HTTP/1.1", "GET /v1/models/m/labels/best/metadata HTTP/1.1"]);
    let export: Value = serde_json::from_slice(&std::fs::read(export).unwrap()).unwrap();
    assert_eq!(export["service_kind"], "tfserving");
    let outputs = &export["experiments"][0]["requests"][0]["response_outputs"][0]["y"];
    assert_eq!(outputs[0], 0.5, "{outputs}");
}

#[test]
fn every_load_is_there_and_counts_are_the_servers() {
    for flags in [
        "--async --concurrency-range 4 --request-count 200",
        "--sync --concurrency-range 3 --request-count 200",
        "--request-rate-range 50 --request-count 60",
        "-b 1 --request-count 20",
        "-x 7 --request-count 20",
    ] {
        let server = start(good);
        server.answer_instead("/versions/7", reply("200 OK", "", AVAILABLE.as_bytes()));
        let shape = if flags.contains("-b 1") { "" } else { "--shape x:1,2" };
        let finished = rest(&server, &format!("{shape} {flags}"));
        assert_eq!(count(&finished), server.inferences() as f64, "{flags}");
        assert!(finished.stdout.contains("Avg HTTP time: "), "{finished:#?}");
    }
}

#[test]
fn errors_are_counted_in_the_servers_words() {
    for (status, text) in [
        ("404 Not Found", "Servable not found for request: Latest(m)"),
        ("400 Bad Request", "Serving signature key \"S\" not found."),
        ("400 Bad Request", "input size does not match signature: 0!=1 len({}) != len({x})."),
        ("409 Conflict", "aborted"),
        ("403 Forbidden", "permission denied"),
        ("401 Unauthorized", "unauthenticated"),
        ("429 Too Many Requests", "exhausted"),
        ("499 Client Closed Request", "cancelled"),
        ("504 Gateway Timeout", "deadline"),
        ("501 Not Implemented", "unimplemented"),
        ("503 Service Unavailable", "unavailable"),
        ("500 Internal Server Error", "other"),
    ] {
        let server = start(move |request| match request.ordinal % 4 {
            3 => vec![Act::Send(reply(status, "", json!({"error": text}).to_string().as_bytes()))],
            _ => good(request),
        });
        let finished = rest(&server, "--shape x:1,2 --request-count 20 --max-errors 100%");
        let code = status.split(' ').next().unwrap();
        assert!(finished.stdout.contains(&format!("5 x HTTP {code}: {text}")), "{finished:#?}");
    }
}

#[test]
fn answers_that_are_none_of_the_model_are_failures() {
    for (body, words) in [
        ("{}", "its JSON has no outputs"),
        ("[", "its JSON cannot be read"),
        (r#"{"outputs": {"z": [1]}}"#, "it has no outputs"),
        (r#"{"outputs": [[1, 2, 3]]}"#, "output 'y' has shape [1, 3]"),
        (r#"{"outputs": [["a", "b"]]}"#, "does not fit FP32"),
    ] {
        let server = start(move |_| vec![Act::Send(reply("200 OK", "", body.as_bytes()))]);
        let finished = rest(&server, "--shape x:1,2 --request-count 3 --validate-replies");
        assert_eq!(finished.code(), 3, "{words}: {finished:#?}");
        assert!(finished.stdout.contains(words), "{words}: {finished:#?}");
    }
}

#[test]
fn whatever_the_server_does_every_request_ends_once() {
    let server = start(|request| {
        let whole = reply("200 OK", "", ANSWER.as_bytes());
        match request.ordinal {
            0 => vec![Act::Send(whole[..whole.len() - 3].to_vec()), Act::Close],
            1 => vec![Act::Close],
            2 => vec![Act::Send(reply("200 OK", "Content-Encoding: gzip\r\n", ANSWER.as_bytes()))],
            3 => vec![Act::Trickle(whole, std::time::Duration::from_millis(1))],
            4 => vec![Act::Send(reply("503 Service Unavailable", "Content-Encoding: gzip\r\n", b"not now"))],
            _ => vec![Act::Send(whole)],
        }
    });
    let finished =
        rest(&server, "--shape x:1,2 --reconnect --request-count 30 --max-errors 100% --concurrency-range 3");
    let report = Report::parse(&finished.stdout);
    assert_eq!(report.level().client_number("Failed request count"), 4.0, "{finished:#?}");
    assert_eq!(report.level().client_number("Request count"), 26.0, "{finished:#?}");
    assert!(report.text.contains("HTTP 503: not now"), "{}", report.text);
}

#[test]
fn a_model_is_waited_for_and_its_metadata_may_stand_for_its_state() {
    let server = start(good);
    let loading =
        r#"{"model_version_status": [{"version": "2", "state": "LOADING", "status": {"error_message": ""}}]}"#;
    server.answer_instead("/m", reply("200 OK", "", loading.as_bytes()));
    rest(&server, "--server-wait 0.3").refusal(&["model 'm' was not ready within 0.3 s", "version 2 is LOADING"]);
    server.answer_instead("/m", reply("404 Not Found", "", br#"{"error": "Could not find any versions of model m"}"#));
    assert_eq!(count(&rest(&server, "--shape x:1,2 --request-count 3")), 3.0);
    server.answer_instead("/metadata", reply("404 Not Found", "", br#"{"error": "Servable not found"}"#));
    rest(&server, "--server-wait 0.3").refusal(&["Could not find any versions of model m"]);
    server.answer_instead("/m", reply("200 OK", "", AVAILABLE.as_bytes()));
    rest(&server, "--server-wait 0.3").refusal(&["failed to get model metadata", "Servable not found"]);
}

#[test]
fn requests_are_encrypted_if_asked() {
    let authority = Authority::new();
    let config = authority.server_config(&authority.issue(&["localhost"], 2090), false);
    let server = HttpServer::start_with(TcpListener::bind("127.0.0.1:0").unwrap(), Some(config), good);
    usual(&server);
    let url = format!("https://localhost:{}", server.url().rsplit(':').next().unwrap());
    let trusted = format!("--ssl-https-ca-certificates-file {}", authority.file("ca.pem").display());
    for load in ["--sync", "--async --concurrency-range 4"] {
        let finished = run(&url, &format!("-i http --shape x:1,2 {load} --request-count 40 {trusted}"));
        assert_eq!(count(&finished), 40.0);
    }
    run(&url, "-i http").refusal(&["UnknownIssuer", "--ssl-https-ca-certificates-file"]);
}
