//! Request options on a real Triton, in process, over HTTP and over gRPC: what a model receives, which requests time
//! out, and which are traced.

use serde_json::json;

use crate::support::{Finished, Model, Program, Repository, TritonServer};

/// The same call through every transport that there is: each with its name.
fn everywhere(repository: &Repository, model: &str, flags: &str) -> Vec<(&'static str, Finished)> {
    let mut runs = vec![("in process", Program::on(repository, model))];
    let server = TritonServer::start(repository);
    if let Some(server) = &server {
        runs.push(("HTTP", server.program("http", model)));
        runs.push(("gRPC", server.program("grpc", model)));
        runs.push(("gRPC streams", server.program("grpc", model).args("--streaming")));
    }
    runs.into_iter().map(|(name, run)| (name, run.args(flags).run())).collect()
}

/// A model that takes 20 ms for one request at a time, with this queue policy.
fn queueing(name: &str, policy: &str) -> Model {
    let queue = format!("dynamic_batching {{ default_queue_policy {{ timeout_action: REJECT {policy} }} }}");
    Model::sleeping(name, 20).batches(1).with(&queue)
}

#[test]
fn parameters_of_every_type_reach_the_model() {
    let repository = Repository::of(&[]);
    repository.add(&repository.journaling(Model::identity("m").parameter("echo_parameters", "true")));
    let flags = "--request-count 3 --request-parameter max_tokens:256:uint --request-parameter low:-3:int \
        --request-parameter on:true:bool --request-parameter who:me:string";
    for (transport, run) in everywhere(&repository, "m", flags) {
        assert_eq!(run.report().level().client_number("Request count"), 3.0, "{transport}");
    }
    for request in repository.journal("m") {
        let parameters = &request["parameters"];
        assert_eq!((&parameters["max_tokens"], &parameters["low"]), (&json!(256), &json!(-3)), "{request}");
        assert_eq!((&parameters["on"], &parameters["who"]), (&json!(true), &json!("me")), "{request}");
    }
}

#[test]
fn a_request_can_shorten_the_time_that_its_queue_allows() {
    let repository =
        Repository::of(&[queueing("m", "allow_timeout_override: true default_timeout_microseconds: 60000000")]);
    let flags = "--concurrency-range 6 --request-count 30 --max-errors 1 --request-timeout-us 60000";
    // The sixth waits for 100 ms, the first for none.
    for (transport, run) in everywhere(&repository, "m", flags) {
        let report = run.report();
        assert!(report.level().failures("Request timeout expired") > 0, "{transport}: {}", report.text);
    }
}

#[test]
fn triton_ignores_a_timeout_where_the_queue_has_none_or_allows_none() {
    for policy in ["allow_timeout_override: true", "default_timeout_microseconds: 60000000"] {
        let repository = Repository::of(&[queueing("m", policy)]);
        let flags = "--concurrency-range 3 --request-count 6 --request-timeout-us 1000";
        for (transport, run) in everywhere(&repository, "m", flags) {
            assert_eq!(run.report().level().client_number("Request count"), 6.0, "{transport}: {policy}");
        }
    }
}

#[test]
fn traced_requests_are_in_the_servers_file_and_its_settings_are_put_back() {
    let repository = Repository::of(&[Model::identity("m")]);
    let flags = "--request-count 4 --trace-level TIMESTAMPS --trace-rate 1 --log-frequency 2";
    if let Some(server) = TritonServer::start(&repository) {
        for protocol in ["http", "grpc"] {
            server
                .program(protocol, "m")
                .args(flags)
                .run()
                .refusal(&["trace settings of model 'm'", "--trace-config=triton"]);
        }
    }
    let file = repository.file("trace.json");
    let config = format!("--trace-config=triton,file={}", file.display());
    let Some(server) = TritonServer::start_with(&repository, &[&config]) else { return };
    let before = server.get("/v2/models/m/trace/setting").unwrap();
    let before = before.split_once("\r\n\r\n").unwrap().1;
    for (protocol, request) in [("http", "HTTP infer request"), ("grpc", "GRPC infer request")] {
        let traced = server.program(protocol, "m").args(flags).args("--trace-count 2").run();
        traced.report();
        let hint = format!("triton-bench trace-summary {}.*", file.display());
        assert!(traced.stderr.contains(&hint), "{}", traced.stderr);
        let file = repository.file(if protocol == "http" { "trace.json.0" } else { "trace.json.1" });
        let summary = Program::new().args("trace-summary").arg(&file).run();
        assert_eq!(summary.code(), 0, "{}", summary.stderr);
        assert!(
            summary.stdout.contains(&format!("Summary for m (1): trace count = 2\n{request}")),
            "{}",
            summary.stdout
        );
        // The settings are the server's own again.
        let settings = server.get("/v2/models/m/trace/setting").unwrap();
        assert_eq!(settings.split_once("\r\n\r\n").unwrap().1, before, "{protocol}");
    }
    // A single file is the server's to end when it stops, but what was traced is in it.
    let whole = "--request-count 4 --trace-level TIMESTAMPS --trace-rate 1";
    let traced = server.program("http", "m").args(whole).run();
    traced.report();
    let hint = format!("triton-bench trace-summary {}\n", file.display());
    assert!(traced.stderr.contains(&hint), "{}", traced.stderr);
    let summary = Program::new().args("trace-summary").arg(&file).run();
    assert_eq!(summary.code(), 0, "{}", summary.stderr);
    assert!(summary.stdout.contains("Summary for m (1): trace count = 4\n"), "{}", summary.stdout);
}
