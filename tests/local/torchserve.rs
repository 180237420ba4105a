//! TorchServe: the program from outside, against a byte-level server that answers as TorchServe does.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::support::authority::Authority;
use crate::support::http_server::{Act, HttpServer, Received, reply};
use crate::support::{Finished, Program, Report};

/// What the handler of the server answers.
const ANSWER: &[u8] = br#"{"tabby": 0.9}"#;
/// What the file holds that requests carry.
const CONTENTS: &[u8] = b"\x89PNG\r\n--not a boundary\r\n\0\xff";

fn good(_: &Received) -> Vec<Act> {
    vec![Act::Send(reply("200 OK", "", ANSWER))]
}

/// Input data in a folder of their own.
struct Data {
    folder: tempfile::TempDir,
}

impl Data {
    /// One step for each of these contents.
    fn of(contents: &[&[u8]]) -> Self {
        let data = Self { folder: tempfile::tempdir().unwrap() };
        let steps = contents.iter().enumerate().map(|(number, bytes)| {
            let path = data.file(&format!("step{number}"));
            fs::write(&path, bytes).unwrap();
            serde_json::json!({"TORCHSERVE_INPUT": [path]})
        });
        let steps: Vec<_> = steps.collect();
        fs::write(data.file("data.json"), serde_json::json!({"data": steps}).to_string()).unwrap();
        data
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The program on a model `m` at `url`, with these data.
    fn program(&self, url: &str) -> Program {
        Program::new()
            .args(&format!("--service-kind torchserve -m m -u {url} --on-disturbance mark --input-data"))
            .arg(self.file("data.json"))
    }
}

fn run(server: &HttpServer, flags: &str) -> Finished {
    Data::of(&[CONTENTS]).program(&server.url()).args(flags).run()
}

/// The report of a run that may have left late on a busy machine.
fn report(finished: &Finished) -> Report {
    finished.report_even_if_late()
}

/// The boundary of a request, and its body without it.
fn body_of(request: &Received) -> (String, Vec<u8>) {
    let content = request.field("content-type").unwrap();
    let boundary = content.strip_prefix("multipart/form-data; boundary=").unwrap().to_owned();
    let opening = format!("--{boundary}\r\nContent-Disposition: form-data; name=\"data\"\r\n\r\n");
    let closing = format!("\r\n--{boundary}--\r\n");
    let inside = request.body.strip_prefix(opening.as_bytes()).and_then(|tail| tail.strip_suffix(closing.as_bytes()));
    (boundary, inside.unwrap_or_else(|| panic!("no form: {}", String::from_utf8_lossy(&request.body))).to_vec())
}

#[test]
fn a_file_is_sent_as_perf_analyzer_sends_it() {
    let received = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&received);
    let server = HttpServer::start(move |request| {
        kept.lock().unwrap().push(request.clone());
        good(request)
    });
    let large = vec![b'-'; 3_000_000];
    let data = Data::of(&[CONTENTS, b"", &large]);
    let url = format!("http://{}/base", server.url());
    let finished = data.program(&url).args("-x 1.0 -H Authorization:Bearer-k --request-count 6").run();
    assert_eq!(report(&finished).level().client_number("Request count"), 6.0);
    let received = received.lock().unwrap();
    for (request, contents) in received.iter().zip([CONTENTS, b"", &large].iter().cycle()) {
        assert!(request.head.starts_with("POST /base/predictions/m/1.0 HTTP/1.1\r\n"), "{}", request.head);
        assert_eq!(request.field("authorization"), Some("Bearer-k"));
        assert_eq!((request.field("expect"), request.field("transfer-encoding")), (None, None));
        let (boundary, inside) = body_of(request);
        assert_eq!(&inside, contents);
        assert!(!inside.windows(boundary.len()).any(|part| part == boundary.as_bytes()));
    }
    let pings = server.others();
    assert!(pings[0].head.starts_with("GET /base/ping HTTP/1.1\r\n"), "{}", pings[0].head);
    assert_eq!(pings[0].field("authorization"), Some("Bearer-k"));
}

#[test]
fn files_are_read_once_and_a_missing_one_is_said_before_anything_is_sent() {
    let data = Arc::new(Data::of(&[CONTENTS]));
    let gone = data.file("step0");
    let server = HttpServer::start(move |request| {
        let _ = fs::remove_file(&gone);
        good(request)
    });
    let finished = data.program(&server.url()).args("--concurrency-range 3 --request-count 60").run();
    assert_eq!(report(&finished).level().client_number("Request count"), 60.0);
    let before = server.inferences();
    data.program(&server.url()).run().refusal(&["TORCHSERVE_INPUT of stream 0, step 0", "step0", "No such file"]);
    fs::create_dir(data.file("step0")).unwrap();
    data.program(&server.url()).run().refusal(&["step0", "a directory"]);
    assert_eq!(server.inferences(), before);
}

#[test]
fn files_count_as_input_data_of_which_there_may_be_so_much() {
    let server = HttpServer::start(good);
    let finished = Data::of(&[&[7; 200_000]]).program(&server.url()).args("--max-input-memory 100000").run();
    finished.refusal(&["--max-input-memory", "200000 bytes"]);
}

#[test]
fn every_load_is_there_and_counts_are_the_servers() {
    for (flags, levels) in [
        ("--concurrency-range 1:3 --quick", 3),
        ("--async --concurrency-range 4 --request-count 200", 1),
        ("--sync --concurrency-range 3 --request-count 200", 1),
        ("--request-rate-range 50 --request-count 60", 1),
        ("--stage rate:200:40req --stage concurrency:3:60req", 2),
    ] {
        let server = HttpServer::start(good);
        let finished = run(&server, &flags.replace("--quick", "-p 100 -s 1000000"));
        let report = report(&finished);
        let counts = report.text.lines().filter_map(|line| line.trim().strip_prefix("Request count: "));
        let counts: Vec<usize> = counts.map(|count| count.parse().unwrap()).collect();
        assert_eq!(counts.len(), levels, "{flags}: {}", report.text);
        let sum: usize = counts.iter().sum();
        match flags.contains("--quick") {
            true => assert!(sum > 0 && sum <= server.inferences(), "{flags}: {}", report.text),
            false => assert_eq!(sum, server.inferences(), "{flags}: {}", report.text),
        }
        assert!(report.text.contains("  Service Kind: TORCHSERVE\n"), "{}", report.text);
        assert!(!report.text.contains("Batch size:") && !report.text.contains("Server:"), "{}", report.text);
        assert!(report.text.contains("Avg HTTP time: "), "{}", report.text);
    }
}

#[test]
fn files_of_results_have_the_clients_half() {
    let server = HttpServer::start(good);
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let flags = format!(
        "-b 1 --request-count 10 -f {} --profile-export-file {}",
        file("level.csv").display(),
        file("export.json").display()
    );
    let report = report(&run(&server, &flags));
    assert!(report.text.contains("  Batch size: 1\n"), "{}", report.text);
    let csv = fs::read_to_string(file("level.csv")).unwrap();
    assert!(csv.starts_with("Concurrency,Inferences/Second,Client Send,Client Recv,p50 latency"), "{csv}");
    let export: serde_json::Value = serde_json::from_slice(&fs::read(file("export.json")).unwrap()).unwrap();
    assert_eq!(export["service_kind"], "torchserve");
    let requests = export["experiments"][0]["requests"].as_array().unwrap();
    assert_eq!(requests.len(), 10);
    assert!(requests.iter().all(|request| request["response_timestamps"].as_array().unwrap().len() == 1));
}

#[test]
fn streaming_answers_come_in_chunks_and_are_one_answer() {
    let server = HttpServer::start(|_| {
        let chunk = |text: &str| Act::Send(format!("{:x}\r\n{text}\r\n", text.len()).into_bytes());
        let head = Act::Send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec());
        let pause = || Act::Wait(Duration::from_millis(10));
        vec![head, chunk("hello "), pause(), chunk("world"), pause(), Act::Send(b"0\r\n\r\n".to_vec())]
    });
    for load in ["--sync", "--async"] {
        let report = report(&run(&server, &format!("{load} --concurrency-range 2 --request-count 20")));
        let level = report.level();
        assert_eq!(level.client_number("Request count"), 20.0);
        assert!(level.client_number("Avg latency") >= 20_000.0, "{}", report.text);
    }
}

/// The runs against each of the server's errors: the answer, and what the report says of it.
const ERRORS: &[(&str, &str, &str)] = &[
    (
        "404 Not Found",
        r#"{"code": 404, "type": "ModelNotFoundException", "message": "Model not found: m"}"#,
        "HTTP 404: ModelNotFoundException: Model not found: m",
    ),
    (
        "503 Service Unavailable",
        r#"{"code": 503, "type": "ServiceUnavailableException", "message": "Model \"m\" has no worker to serve inference request."}"#,
        "HTTP 503: ServiceUnavailableException: Model \"m\" has no worker",
    ),
    (
        "503 Service Unavailable",
        r#"{"code": 503, "type": "InternalServerException", "message": "Prediction failed"}"#,
        "HTTP 503: InternalServerException: Prediction failed",
    ),
    (
        "507 Insufficient Storage",
        r#"{"code": 507, "type": "InternalServerException", "message": "Out of resources"}"#,
        "HTTP 507: InternalServerException: Out of resources",
    ),
    (
        "418 I'm a teapot",
        r#"{"code": 418, "type": "InternalServerException", "message": "the handler's own"}"#,
        "HTTP 418: InternalServerException: the handler's own",
    ),
    (
        "400 Bad Request",
        r#"{"code": 400, "type": "InvalidKeyException", "message": "Token Authorization failed. Token either incorrect, expired, or not provided correctly"}"#,
        "HTTP 400: InvalidKeyException: Token Authorization failed.",
    ),
    ("502 Bad Gateway", "<html>bad gateway</html>", "HTTP 502: <html>bad gateway</html>"),
    ("500 Internal Server Error", "", "HTTP 500: the server gave no reason"),
    ("202 Accepted", "later", "HTTP 202: later"),
];

#[test]
fn errors_are_counted_in_the_servers_words() {
    for &(status, body, message) in ERRORS {
        for load in ["--sync", "--async --concurrency-range 4"] {
            let server = HttpServer::start(move |request| match request.ordinal % 4 {
                3 => vec![Act::Send(reply(status, "", body.as_bytes()))],
                _ => good(request),
            });
            let finished = run(&server, &format!("{load} --request-count 40 --max-errors 100%"));
            assert!(finished.stdout.contains(&format!("10 x {message}")), "{status}: {finished:#?}");
            let failed = Report::parse(&finished.stdout).level().client_number("Failed request count");
            assert_eq!(failed, 10.0, "{finished:#?}");
        }
    }
}

/// What a server does that breaks the protocol, and what the report says of it.
fn broken(ordinal: usize) -> Vec<Act> {
    let good = reply("200 OK", "", ANSWER);
    match ordinal {
        0 => vec![Act::Send(good[..good.len() - 3].to_vec()), Act::Close],
        1 => vec![Act::Send(b"SSH-2.0-OpenSSH\r\n\r\n".to_vec())],
        2 => vec![Act::Close],
        3 => vec![Act::Send(reply("200 OK", "Content-Encoding: gzip\r\n", ANSWER))],
        4 => vec![Act::Send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n".to_vec())],
        5 => vec![Act::Send([good, b"more".to_vec()].concat())],
        6 => vec![Act::Trickle(good, Duration::from_millis(1))],
        7 => vec![Act::Send(reply("503 Service Unavailable", "Content-Encoding: gzip\r\n", b"not now"))],
        _ => vec![Act::Send(good)],
    }
}

#[test]
fn whatever_the_server_does_every_request_ends_once() {
    for load in ["--sync", "--async --concurrency-range 3"] {
        let server = HttpServer::start(|request| broken(request.ordinal));
        let finished = run(&server, &format!("{load} --reconnect --request-count 60 --max-errors 100%"));
        let report = Report::parse(&finished.stdout);
        let level = report.level();
        assert_eq!(level.client_number("Failed request count"), 7.0, "{finished:#?}");
        assert_eq!(level.client_number("Request count"), 53.0, "{finished:#?}");
        for words in ["Connection closed", "Malformed reply", "not asked for", "4 bytes more", "HTTP 503: not now"] {
            assert!(report.text.contains(words), "{words}: {}", report.text);
        }
    }
}

#[test]
fn answers_may_be_so_long_and_take_so_long() {
    let server = HttpServer::start(|_| vec![Act::Send(reply("200 OK", "", &[b'x'; 5000]))]);
    let finished = run(&server, "--max-reply-bytes 4999 --request-count 5 --max-errors 100%");
    assert!(finished.stdout.contains("longer than 4999 bytes (--max-reply-bytes)"), "{finished:#?}");
    let slow = HttpServer::start(|_| vec![Act::Wait(Duration::from_secs(2))]);
    let finished = run(&slow, "--client-timeout-us 20000 --request-count 4 --concurrency-range 2 --max-errors 100%");
    assert!(finished.stdout.contains("Deadline exceeded: no answer within 20000 us"), "{finished:#?}");
}

#[test]
fn a_server_is_waited_for_until_it_is_healthy() {
    let unhealthy = reply("500 Internal Server Error", "", br#"{"status": "Unhealthy"}"#);
    let server = Arc::new(HttpServer::start(good));
    server.answer_instead("/ping", unhealthy.clone());
    let finished = run(&server, "--server-wait 1");
    finished.failure(&["does not say that it is healthy", "HTTP 500", "Unhealthy", "--server-wait"]);
    assert!(finished.wall >= Duration::from_secs(1) && server.others().len() > 2, "{finished:#?}");
    // It becomes healthy while it is waited for.
    let asked = server.others().len();
    let waiting = Data::of(&[CONTENTS]);
    let running = waiting.program(&server.url()).args("--server-wait 60 --request-count 5").start();
    while server.others().len() < asked + 2 {
        thread::sleep(Duration::from_millis(5));
    }
    server.answer_instead("/ping", reply("200 OK", "", br#"{"status": "Healthy"}"#));
    assert_eq!(report(&running.finish()).level().client_number("Request count"), 5.0);
    // Old servers say so without an error.
    server.answer_instead("/ping", reply("200 OK", "", br#"{"status": "Unhealthy"}"#));
    let before = server.inferences();
    run(&server, "--server-wait 0").failure(&[
        "does not say that it is healthy",
        "HTTP 200: Unhealthy",
        "--server-wait",
    ]);
    assert_eq!(server.inferences(), before);
    // What stands before it may not know the question.
    server.answer_instead("/ping", reply("404 Not Found", "", b""));
    assert_eq!(report(&run(&server, "--request-count 5")).level().client_number("Request count"), 5.0);
}

#[test]
fn a_missing_token_is_said_at_once() {
    let server = HttpServer::start(good);
    let body = br#"{"code": 400, "type": "InvalidKeyException", "message": "Token Authorization failed."}"#;
    server.answer_instead("/ping", reply("400 Bad Request", "", body));
    let finished = run(&server, "--server-wait 30");
    finished.refusal(&["HTTP 400: InvalidKeyException: Token Authorization failed.", "-H 'Authorization: Bearer KEY'"]);
    assert_eq!(server.inferences(), 0);
}

#[test]
fn requests_are_encrypted_if_asked() {
    let authority = Authority::new();
    let config = authority.server_config(&authority.issue(&["localhost"], 2090), false);
    let server = HttpServer::start_with(TcpListener::bind("127.0.0.1:0").unwrap(), Some(config), good);
    let url = format!("https://localhost:{}", server.url().rsplit(':').next().unwrap());
    let data = Data::of(&[&[5; 400_000]]);
    let trusted = format!("--ssl-https-ca-certificates-file {}", authority.file("ca.pem").display());
    for load in ["--sync", "--async --concurrency-range 4"] {
        let finished = data.program(&url).args(&format!("{load} --request-count 40 {trusted}")).run();
        assert_eq!(report(&finished).level().client_number("Request count"), 40.0);
    }
    data.program(&url).run().refusal(&["UnknownIssuer", "--ssl-https-ca-certificates-file"]);
}

/// The metrics of a server with these counters, until the test ends; its URL.
fn metrics(requests: Arc<AtomicUsize>, gone: Arc<AtomicBool>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/metrics", listener.local_addr().unwrap());
    thread::spawn(move || {
        for mut socket in listener.incoming().map_while(Result::ok) {
            let _ = socket.read(&mut [0; 4096]);
            let count = requests.load(Ordering::SeqCst) as f64;
            let labels = "model_name=\"m\",model_version=\"default\",hostname=\"h\",";
            let page = format!(
                "# TYPE ts_inference_requests_total counter\nts_inference_requests_total{{{labels}}} {count}\n\
                 ts_inference_latency_microseconds{{{labels}}} {}\nts_queue_latency_microseconds{{{labels}}} {}\n",
                7_000.5 * count,
                2_000.25 * count
            );
            let status = if gone.load(Ordering::SeqCst) { "404 Not Found" } else { "200 OK" };
            let _ = socket.write_all(&reply(status, "Connection: close\r\n", page.as_bytes()));
        }
    });
    url
}

#[test]
fn counters_of_the_server_are_its_figures() {
    let (requests, gone) = (Arc::new(AtomicUsize::new(1_000)), Arc::new(AtomicBool::new(false)));
    let counted = Arc::clone(&requests);
    let server = HttpServer::start(move |request| {
        counted.fetch_add(1, Ordering::SeqCst);
        good(request)
    });
    let url = metrics(Arc::clone(&requests), Arc::clone(&gone));
    let report = report(&run(&server, &format!("--request-count 50 --concurrency-range 2 --metrics-url {url}")));
    let level = report.level();
    assert_eq!(level.server_number("Successful request count"), 50.0, "{}", report.text);
    let line = level.server().lines().find(|line| line.contains("Avg request latency")).unwrap();
    assert!(line.contains("7000 usec (overhead") && line.contains("queue 2000 usec"), "{line}");
    assert!(line.contains("compute infer 5000 usec"), "{line}");
    assert!(!level.server().contains("Execution count"), "nobody has counted them: {}", report.text);
    gone.store(true, Ordering::SeqCst);
    let refused = run(&server, &format!("--metrics-url {url}"));
    refused.refusal(&["metrics", "HTTP 404", "8082"]);
}

#[test]
fn flags_that_torchserve_has_no_use_for_are_refused() {
    let server = HttpServer::start(good);
    for (flags, words) in [
        ("-i grpc", &["-i grpc", "HTTP"][..]),
        ("--collect-metrics", &["Server-side metric collection is only supported with Triton client backend."]),
        ("--model-signature-name s", &["--model-signature-name s is for --service-kind tfserving"]),
        ("--streaming", &["--streaming is for --service-kind triton or triton_c_api"]),
        ("--shared-memory system", &["--shared-memory system is for --service-kind triton"]),
        ("--http-compression gzip", &["--http-compression gzip is for --service-kind triton:"]),
        ("-b 2", &["-b 2", "carries one file", "batch_size", "--concurrency-range"]),
        ("--management-key k", &["--management-key", "--management-url"]),
    ] {
        run(&server, flags).refusal(words);
    }
    let plain = format!("--service-kind torchserve -m m -u {}", server.url());
    Program::new()
        .args(&plain)
        .run()
        .refusal(&["--input-data should be provided with a json file with input data for torchserve."]);
    assert_eq!(server.inferences(), 0);
}

/// What the server says of a model with these workers and batches.
fn described(workers: &[&str], batch: u64) -> Vec<u8> {
    let workers: Vec<_> = workers.iter().map(|status| serde_json::json!({"id": "9000", "status": status})).collect();
    let model = serde_json::json!([{"modelName": "m", "modelVersion": "1.0", "runtime": "python", "batchSize": batch,
        "maxBatchDelay": 100, "workers": workers}]);
    reply("200 OK", "Content-Type: application/json\r\n", model.to_string().as_bytes())
}

#[test]
fn the_management_port_tells_of_the_model_before_anything_is_sent() {
    let (server, management) = (HttpServer::start(good), HttpServer::start(good));
    let flags = format!("--management-url http://{}/admin --request-count 5", management.url());
    management.answer_instead("/models/m", described(&["READY", "READY"], 4));
    let data = Data::of(&[CONTENTS]);
    let folder = tempfile::tempdir().unwrap();
    let summary = folder.path().join("result.json");
    let finished = data.program(&server.url()).args(&flags).args("-H Authorization:Bearer-i --management-key k:1");
    let finished = finished.args("--summary-file").arg(&summary).run();
    assert_eq!(report(&finished).level().client_number("Request count"), 5.0);
    let message = "model 'm 1.0': 2 of 2 workers are ready, which take up to 4 requests at once and wait up to 100 ms";
    assert!(finished.stderr.contains(message), "{}", finished.stderr);
    let asked = management.others();
    assert!(asked[0].head.starts_with("GET /admin/models/m HTTP/1.1\r\n"), "{}", asked[0].head);
    assert_eq!(asked[0].field("authorization"), Some("Bearer k:1"), "management has a key of its own");
    assert_eq!(server.others()[0].field("authorization"), Some("Bearer-i"));
    let result = fs::read_to_string(&summary).unwrap();
    assert!(!result.contains("k:1") && !result.contains("\"k\""), "a key is a secret: {result}");
    let result: serde_json::Value = serde_json::from_str(&result).unwrap();
    assert_eq!(result["models"][0]["versions"], serde_json::json!(["1.0"]));
    management.answer_instead("/models/m/2.0", described(&["READY"], 1));
    let finished = run(&server, &format!("{flags} -x 2.0"));
    assert!(finished.stderr.contains("each of which takes one request at a time"), "{}", finished.stderr);
}

#[test]
fn a_model_that_is_not_there_or_has_no_worker_is_said_before_anything_is_sent() {
    let (server, management) = (HttpServer::start(good), Arc::new(HttpServer::start(good)));
    let flags = format!("--management-url {}", management.url());
    let error = |code: u16, kind: &str, message: &str| {
        let body = serde_json::json!({"code": code, "type": kind, "message": message}).to_string();
        reply(&format!("{code} No"), "", body.as_bytes())
    };
    for (answer, words) in [
        (
            error(404, "ModelNotFoundException", "Model not found: m"),
            &["--management-url", "model 'm'", "HTTP 404: ModelNotFoundException: Model not found: m", "register it"][..],
        ),
        (error(400, "InvalidKeyException", "Token Authorization failed."), &["HTTP 400", "--management-key KEY"]),
        (described(&["LOADING", "UNLOADING"], 1), &["none of its 2 workers is ready", "--server-wait"]),
        (described(&[], 1), &["none of its 0 workers is ready", "min_worker"]),
        (reply("200 OK", "", b"<html>"), &["Malformed reply", "no description", "leave that out"]),
    ] {
        management.answer_instead("/models/m", answer);
        run(&server, &format!("{flags} --server-wait 200ms")).refusal(words);
    }
    // Nor is a model waited for that nobody registers.
    management.answer_instead("/models/m", error(404, "ModelNotFoundException", "Model not found: m"));
    run(&server, &flags).refusal(&["HTTP 404"]);
    assert_eq!(server.inferences(), 0);
    // Its worker is ready while it is waited for.
    management.answer_instead("/models/m", described(&["LOADING"], 1));
    let asked = management.others().len();
    let waiting = Data::of(&[CONTENTS]);
    let running = waiting.program(&server.url()).args(&flags).args("--server-wait 60 --request-count 5").start();
    while management.others().len() < asked + 2 {
        thread::sleep(Duration::from_millis(5));
    }
    management.answer_instead("/models/m", described(&["READY"], 1));
    assert_eq!(report(&running.finish()).level().client_number("Request count"), 5.0);
}
