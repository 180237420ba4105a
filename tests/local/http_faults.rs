//! HTTP against a byte-level server: whatever it does, every request completes exactly once, with its answer or the
//! reason for the failure.

use std::io::Write;
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use triton_bench::backend::{Backend, Parameter, ParameterValue, RequestOptions};
use triton_bench::backends::kserve::trace_settings::{TraceControl, values};
use triton_bench::backends::kserve_http::HttpBackend;
use triton_bench::clock::Stamp;
use triton_bench::model::{CorrelationForm, ModelId};
use triton_bench::plan::{Compression, ConnectionPlan, Protocol, TensorFormat, Tls, TraceLevel, TraceSettings};
use triton_bench::shm::Placement;

use crate::support::http_server::{Act, HttpServer, Received, answer_parts, good_answer, reply};
use crate::support::load::{Run, RunSpec};
use crate::support::skip;

const LIMIT: Duration = Duration::from_secs(10);

fn connection(url: &str) -> ConnectionPlan {
    ConnectionPlan {
        protocol: Protocol::Http {
            inputs: TensorFormat::Served,
            outputs: TensorFormat::Served,
            compression: Compression::None,
        },
        url: url.to_owned(),
        headers: Vec::new(),
        tls: Tls::default(),
        server_wait: Duration::ZERO,
        reconnect: false,
        renew: false,
        metrics_url: None,
        client_timeout: None,
    }
}

fn connect(server: &HttpServer) -> HttpBackend {
    HttpBackend::connect(&connection(&server.url())).unwrap()
}

fn good(_: &Received) -> Vec<Act> {
    vec![Act::Send(good_answer())]
}

/// Runs `requests` through `slots` against a script, with and without looking at outputs; returns failures by code, and
/// their texts.
fn run(script: fn(&Received) -> Vec<Act>, slots: usize, requests: i64) -> (u64, String) {
    let mut results = [false, true].map(|watch| {
        let server = HttpServer::start(script);
        let backend = connect(&server);
        let spec = RunSpec { slots, requests, watch, ..RunSpec::default() };
        let mut run = Run::open(&backend, "m", &spec).unwrap();
        let counter = run.finish(LIMIT);
        assert_eq!(counter.succeeded() + counter.failed(), requests as u64);
        (counter.succeeded(), counter.texts())
    });
    // A lost slot among others fails one request each 20 ms: how many it gets is a matter of time, not of watching.
    let by_time = slots > 1 && results.iter().any(|(_, texts)| texts.contains("Connection lost"));
    assert!(by_time || results[0].0 == results[1].0, "watching changes what succeeds: {results:?}");
    std::mem::take(&mut results[0])
}

/// The script fails the 5th inference; all others succeed on `slots` connections.
fn one_failure(script: fn(&Received) -> Vec<Act>, text: &str) {
    for slots in [1, 4] {
        let (succeeded, texts) = run(script, slots, 40);
        assert_eq!(succeeded, 39, "{slots} slots: {texts}");
        assert!(texts.contains(text), "{slots} slots: {texts}");
    }
}

/// Good answers but for the 5th inference.
macro_rules! fifth {
    ($acts:expr) => {
        |request: &Received| if request.ordinal == 4 { $acts } else { good(request) }
    };
}

#[test]
fn requests_succeed_on_one_connection_per_slot() {
    for slots in [1, 2, 16] {
        let server = HttpServer::start(good);
        let backend = connect(&server);
        let before = server.connections();
        let mut run = Run::open(&backend, "m", &RunSpec { slots, requests: 500, ..RunSpec::default() }).unwrap();
        let counter = run.finish(LIMIT);
        assert_eq!((counter.succeeded(), counter.failed()), (500, 0), "{}", counter.texts());
        assert_eq!(server.inferences(), 500);
        assert_eq!((before, server.connections() - before), (1, slots), "questions keep their connection");
    }
}

#[test]
fn clients_grow_from_blocking_to_many_slots() {
    let server = HttpServer::start(good);
    let backend = connect(&server);
    let mut run = Run::open(&backend, "m", &RunSpec { requests: 1, ..RunSpec::default() }).unwrap();
    run.begin();
    run.client.grow(8).unwrap();
    assert!(run.drive(LIMIT));
    assert_eq!(run.counter.succeeded(), 1);
}

#[test]
fn outputs_are_shown_to_those_who_watch() {
    for script in [good, |_: &Received| vec![Act::Send(chunked(&good_answer()))]] {
        let server = HttpServer::start(script);
        let mut run =
            Run::open(&connect(&server), "m", &RunSpec { requests: 3, watch: true, ..RunSpec::default() }).unwrap();
        let counter = run.finish(LIMIT);
        let outputs = counter.outputs.lock().unwrap();
        assert_eq!(outputs.len(), 3);
        let output = &outputs[0][0];
        assert_eq!(
            (output.name.as_str(), &output.shape[..], &output.bytes[..]),
            ("OUTPUT0", &[1, 16][..], &[0; 64][..])
        );
    }
}

/// A plain reply in chunks of 7 bytes.
fn chunked(plain: &[u8]) -> Vec<u8> {
    let at = plain.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
    let head: String = std::str::from_utf8(&plain[..at - 2])
        .unwrap()
        .lines()
        .filter(|line| !line.starts_with("Content-Length"))
        .map(|line| format!("{line}\r\n"))
        .collect();
    let mut out = format!("{head}Transfer-Encoding: chunked\r\n\r\n").into_bytes();
    for piece in plain[at..].chunks(7) {
        write!(out, "{:x}\r\n", piece.len()).unwrap();
        out.extend_from_slice(piece);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"0\r\nX-Trailer: 1\r\n\r\n");
    out
}

#[test]
fn chunked_slow_and_interim_replies_are_answers() {
    let all = |script, slots| assert_eq!(run(script, slots, 12), (12, String::new()));
    for slots in [1, 3] {
        all(|_| vec![Act::Send(chunked(&good_answer()))], slots);
        all(|_| vec![Act::Send([b"HTTP/1.1 100 Continue\r\n\r\n".to_vec(), good_answer()].concat())], slots);
        // Ends of lines that no length counts, behind the answer or before the next.
        all(|_| vec![Act::Send([good_answer(), b"\r\n".to_vec()].concat())], slots);
        all(|_| vec![Act::Send([good_answer(), b"\n\n".to_vec()].concat())], slots);
        all(|_| vec![Act::Send([b"\r\n".to_vec(), good_answer()].concat())], slots);
        all(
            |_| {
                good_answer()
                    .chunks(40)
                    .flat_map(|piece| [Act::Send(piece.to_vec()), Act::Wait(Duration::from_millis(1))])
                    .collect()
            },
            slots,
        );
    }
    let (succeeded, texts) = run(|_| good_answer().chunks(1).map(|byte| Act::Send(byte.to_vec())).collect(), 1, 3);
    assert_eq!(succeeded, 3, "{texts}");
}

#[test]
fn announced_ends_of_connections_are_no_failures() {
    for slots in [1, 4] {
        let closing = |_: &Received| {
            let (json, tensors) = answer_parts();
            let fields = format!("Connection: close\r\nInference-Header-Content-Length: {}\r\n", json.len());
            vec![Act::Send(reply("200 OK", &fields, &[json.as_bytes(), &tensors].concat())), Act::Close]
        };
        assert_eq!(run(closing, slots, 20), (20, String::new()));
        let old = |_: &Received| {
            let (json, tensors) = answer_parts();
            let head = format!("HTTP/1.0 200 OK\r\nInference-Header-Content-Length: {}\r\n\r\n{json}", json.len());
            vec![Act::Send([head.as_bytes(), &tensors].concat()), Act::Close]
        };
        assert_eq!(run(old, slots, 20), (20, String::new()));
    }
}

#[test]
fn refusals_carry_the_servers_words() {
    one_failure(
        fifth!(vec![Act::Send(reply("400 Bad Request", "", br#"{"error":"unexpected shape for input"}"#))]),
        "HTTP 400: unexpected shape for input",
    );
    one_failure(
        fifth!(vec![Act::Send(reply("503 Service Unavailable", "", b"queue is full"))]),
        "HTTP 503: queue is full",
    );
    one_failure(
        fifth!(vec![Act::Send(reply("500 Internal Server Error", "Connection: close\r\n", b"")), Act::Close]),
        "HTTP 500: the server gave no reason",
    );
    one_failure(
        fifth!(vec![Act::Send(reply("307 Temporary Redirect", "Location: http://elsewhere/\r\n", b""))]),
        "http://elsewhere/",
    );
    one_failure(fifth!(vec![Act::Send(reply("200 OK", "", br#"{"error":"late trouble"}"#))]), "late trouble");
}

#[test]
fn malformed_replies_fail_their_request_alone() {
    one_failure(
        fifth!(vec![Act::Send(reply("200 OK", "", b"{\"model_name\":\"m\",\"outputs\":[{"))]),
        "Malformed reply: its JSON",
    );
    one_failure(fifth!(vec![Act::Send(reply("200 OK", "", b"{}"))]), "not an inference response");
    one_failure(fifth!(vec![Act::Send(b"what do you want?\r\n\r\n".to_vec())]), "not an HTTP/1 reply");
    one_failure(
        fifth!(vec![Act::Send(b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n".to_vec())]),
        "is not a length",
    );
    one_failure(
        fifth!(vec![Act::Send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n".to_vec())]),
        "hexadecimal",
    );
    one_failure(fifth!(vec![Act::Send([good_answer(), b"and more".to_vec()].concat())]), "8 bytes more than");
    const CODED: &str = "Content-Encoding: gzip\r\nInference-Header-Content-Length: 2\r\n";
    one_failure(fifth!(vec![Act::Send(reply("200 OK", CODED, b"no gzip"))]), "was not asked for");
    one_failure(fifth!(vec![Act::Send(reply("200 OK", &CODED.replace("gzip", "br"), b"{}"))]), "was not asked for");
    let inside = "Inference-Header-Content-Length is 500, but the body has only 2 bytes";
    one_failure(fifth!(vec![Act::Send(reply("200 OK", "Inference-Header-Content-Length: 500\r\n", b"{}"))]), inside);
}

fn damaged(change: fn(&mut String, &mut Vec<u8>)) -> Vec<u8> {
    let (mut json, mut tensors) = answer_parts();
    change(&mut json, &mut tensors);
    let fields = format!("Inference-Header-Content-Length: {}\r\n", json.len());
    reply("200 OK", &fields, &[json.as_bytes(), &tensors].concat())
}

#[test]
fn tensors_that_do_not_fit_their_json_fail_their_request() {
    let missing = "neither data nor binary_data_size";
    one_failure(
        fifth!(vec![Act::Send(
            damaged(|json, _| *json = json.replace(r#","parameters":{"binary_data_size":64}"#, ""))
        )]),
        missing,
    );
    one_failure(
        fifth!(vec![Act::Send(damaged(|_, tensors| tensors.push(0)))]),
        "promises 64 bytes of tensors, but 65 came",
    );
    one_failure(
        fifth!(vec![Act::Send(damaged(|_, tensors| tensors.truncate(60)))]),
        "promises 64 bytes of tensors, but 60 came",
    );
    one_failure(fifth!(vec![Act::Send(damaged(|json, _| *json = json.replace("64", "32")))]), "takes 64 bytes");
}

/// Failures by code of 40 requests where the 5th breaks its connection.
fn broken(script: fn(&Received) -> Vec<Act>, text: &str) {
    for slots in [1, 4] {
        let (succeeded, texts) = run(script, slots, 40);
        assert!(texts.contains(text), "{slots} slots: {texts}");
        assert_eq!(succeeded, 39, "{slots} slots: {texts}");
    }
}

#[test]
fn broken_connections_fail_their_requests_alone() {
    broken(fifth!(vec![Act::Reset]), "Connection reset");
    broken(fifth!(vec![Act::Close]), "Connection closed: the server closed the connection before any reply");
    broken(fifth!(vec![Act::HalfClose, Act::Wait(Duration::from_millis(300))]), "before any reply");
    broken(fifth!(vec![Act::Send(good_answer()[..30].to_vec()), Act::Close]), "within the head of the reply");
    broken(fifth!(vec![Act::Send(good_answer()[..good_answer().len() - 5].to_vec()), Act::Close]), "bytes");
    broken(
        fifth!(vec![Act::Send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab".to_vec()), Act::Close]),
        "within the chunked reply",
    );
}

#[test]
fn lost_connections_are_made_again() {
    for slots in [1, 4] {
        let server =
            HttpServer::start(|request| if request.ordinal % 7 == 4 { vec![Act::Close] } else { good(request) });
        let backend = connect(&server);
        let mut run = Run::open(&backend, "m", &RunSpec { slots, requests: 70, ..RunSpec::default() }).unwrap();
        let counter = run.finish(LIMIT);
        assert_eq!((counter.succeeded(), counter.failed()), (60, 10), "{}", counter.texts());
    }
}

#[test]
fn fewer_connections_than_requests_are_shared_and_waiting_for_one_counts() {
    const PAUSE: Duration = Duration::from_millis(2);
    for (connections, slots) in [(1, 1), (1, 6), (3, 8), (8, 3)] {
        let server = HttpServer::start(|request| [vec![Act::Wait(PAUSE)], good(request)].concat());
        let backend = connect(&server);
        backend.model(&ModelId::latest("m")).unwrap();
        let before = server.connections();
        let spec = RunSpec { slots, requests: 120, connections: Some(connections), ..RunSpec::default() };
        let mut run = Run::open(&backend, "m", &spec).unwrap();
        let counter = run.finish(LIMIT);
        assert_eq!((counter.succeeded(), counter.texts().as_str()), (120, ""));
        assert_eq!(server.connections() - before, connections.min(slots));
        let mut latencies = counter.latencies.lock().unwrap().clone();
        latencies.sort_unstable();
        // All but the first few wait until as many as share a connection were answered.
        let least = PAUSE.as_nanos() as u64 * (slots / connections).max(1) as u64;
        assert!(latencies[slots..].iter().all(|&ns| ns >= least * 9 / 10), "{connections} of {slots}: {latencies:?}");
    }
}

#[test]
fn a_shared_connection_that_breaks_fails_one_request_and_none_that_waits() {
    for connections in [1, 2] {
        let server = HttpServer::start(fifth!(vec![Act::Reset]));
        let backend = connect(&server);
        let spec = RunSpec { slots: 6, requests: 60, connections: Some(connections), ..RunSpec::default() };
        let mut run = Run::open(&backend, "m", &spec).unwrap();
        let counter = run.finish(LIMIT);
        assert_eq!((counter.succeeded(), counter.failed()), (59, 1), "{}", counter.texts());
    }
}

#[test]
fn what_waits_for_a_connection_can_be_late_and_given_up() {
    let server = HttpServer::start(|_| vec![Act::Wait(Duration::from_secs(30))]);
    let late = ConnectionPlan { client_timeout: Some(Duration::from_millis(60)), ..connection(&server.url()) };
    let backend = HttpBackend::connect(&late).unwrap();
    let spec = RunSpec { slots: 4, requests: 8, connections: Some(1), ..RunSpec::default() };
    let mut run = Run::open(&backend, "m", &spec).unwrap();
    let counter = run.finish(LIMIT);
    assert_eq!(counter.codes().get("Deadline exceeded"), Some(&8), "{}", counter.texts());
    let backend = connect(&server);
    let mut run = Run::open(&backend, "m", &RunSpec { requests: 4, ..spec }).unwrap();
    run.begin();
    (0..4).for_each(|slot| assert!(run.client.cancel(triton_bench::backend::SlotId(3 - slot), Stamp::now())));
    assert!(run.drive(LIMIT));
    assert_eq!(run.counter.codes().get("Cancelled"), Some(&4));
}

#[test]
fn timed_a_silent_server_neither_blocks_nor_hangs_the_client() {
    for slots in [1, 4] {
        let server = HttpServer::start(|_| vec![Act::Wait(Duration::from_secs(30))]);
        let backend = connect(&server);
        let mut run = Run::open(&backend, "m", &RunSpec { slots, ..RunSpec::default() }).unwrap();
        run.begin();
        for wait in [0, 3, 120] {
            let started = Instant::now();
            run.client.drive(Stamp::now().plus(wait * 1_000_000)).unwrap();
            let took = started.elapsed().as_millis() as u64;
            assert!(took >= wait && took < wait + 100, "{took} ms instead of {wait}");
        }
        assert_eq!(run.client.drain(Duration::from_millis(50)), slots);
        run.stop();
        for slot in 0..slots as u32 {
            assert!(run.client.cancel(triton_bench::backend::SlotId(slot), Stamp::now()));
        }
        assert!(run.drive(LIMIT));
        assert_eq!(run.counter.codes().get("Cancelled"), Some(&(slots as u64)));
        let started = Instant::now();
        drop(run);
        assert!(started.elapsed() < Duration::from_secs(1));
    }
}

#[test]
fn timed_answers_that_come_too_late_are_failures_and_spare_the_slot() {
    for slots in [1, 4] {
        let server = HttpServer::start(fifth!(vec![Act::Wait(Duration::from_secs(2)), Act::Send(good_answer())]));
        let patience = Some(Duration::from_millis(150));
        let backend =
            HttpBackend::connect(&ConnectionPlan { client_timeout: patience, ..connection(&server.url()) }).unwrap();
        let mut run = Run::open(&backend, "m", &RunSpec { slots, requests: 40, ..RunSpec::default() }).unwrap();
        let started = Instant::now();
        let counter = run.finish(LIMIT);
        assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
        assert_eq!((counter.succeeded(), counter.failed()), (39, 1), "{}", counter.texts());
        let late = "Deadline exceeded: no answer within 150000 us (--client-timeout-us)";
        assert!(counter.texts().contains(late), "{}", counter.texts());
    }
}

#[test]
fn timed_a_host_that_swallows_connections_holds_up_nothing_but_what_waits_for_them() {
    let mut server = HttpServer::start(|request| [vec![Act::Wait(Duration::from_millis(5))], good(request)].concat());
    let patience = Some(Duration::from_millis(700));
    let plan = ConnectionPlan { reconnect: true, client_timeout: patience, ..connection(&server.url()) };
    let backend = HttpBackend::connect(&plan).unwrap();
    let mut run = Run::open(&backend, "m", &RunSpec { slots: 16, requests: i64::MAX, ..RunSpec::default() }).unwrap();
    run.begin();
    run.drive(Duration::from_millis(50));
    let address: std::net::SocketAddr = server.url().parse().unwrap();
    server.kill();
    // A queue that is full: the kernel drops further attempts to connect.
    let listener = TcpListener::bind(address).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let fill = || std::net::TcpStream::connect_timeout(&address, Duration::from_millis(100));
    let queued: Vec<_> = std::iter::from_fn(|| fill().ok()).take(64).collect();
    assert!(queued.len() < 64, "the queue takes them all");
    let (started, mut longest) = (Instant::now(), Duration::ZERO);
    while run.counter.failed() < 48 {
        let turn = Instant::now();
        run.client.drive(Stamp::now().plus(50_000_000)).unwrap();
        longest = longest.max(turn.elapsed());
        assert!(started.elapsed() < Duration::from_secs(5), "{} failures", run.counter.failed());
    }
    assert!(longest < Duration::from_millis(300), "{longest:?}");
    assert!(run.counter.texts().contains("Deadline exceeded"), "{}", run.counter.texts());
    assert!(!backend.network().unwrap().is_gone(), "it is to be reached again");
    run.stop();
    let stopped = Instant::now();
    assert!(run.drive(LIMIT));
    assert!(stopped.elapsed() < Duration::from_millis(1500), "{:?}", stopped.elapsed());
}

/// A run whose requests carry 16 MiB.
fn large(server: &HttpServer, slots: usize, requests: i64) -> Run {
    let spec = RunSpec { slots, requests, values: vec![0.5; 4 << 20], ..RunSpec::default() };
    Run::open(&connect(server), "m", &spec).unwrap()
}

#[test]
fn large_requests_are_sent_whole() {
    for slots in [1, 2] {
        let server = HttpServer::start(good);
        let mut run = large(&server, slots, 6);
        let counter = run.finish(LIMIT);
        assert_eq!(counter.succeeded(), 6, "{}", counter.texts());
    }
}

#[test]
fn timed_a_server_that_does_not_read_does_not_block_the_client() {
    for slots in [1, 2] {
        let server = HttpServer::start(good);
        server.answer_early(vec![Act::Wait(Duration::from_secs(2))]);
        let mut run = large(&server, slots, 2);
        let started = Instant::now();
        run.begin();
        run.client.drive(Stamp::now().plus(100_000_000)).unwrap();
        assert!(started.elapsed() < Duration::from_millis(500), "{:?}", started.elapsed());
        assert_eq!(run.client.drain(Duration::ZERO), slots);
    }
}

#[test]
fn a_refusal_before_the_request_was_read_is_heard() {
    for slots in [1, 2] {
        let server = HttpServer::start(good);
        let refusal = reply("413 Payload Too Large", "Connection: close\r\n", br#"{"error":"too large for me"}"#);
        server.answer_early(vec![Act::Send(refusal), Act::Wait(Duration::from_millis(50)), Act::Close]);
        let mut run = large(&server, slots, 4);
        let counter = run.finish(LIMIT);
        assert_eq!(counter.failed(), 4);
        assert!(counter.texts().contains("HTTP 413: too large for me"), "{}", counter.texts());
    }
}

#[test]
fn timed_a_killed_server_ends_a_run_quickly_and_a_new_one_takes_over() {
    for slots in [1, 4] {
        let slow = |request: &Received| [vec![Act::Wait(Duration::from_millis(2))], good(request)].concat();
        let mut server = HttpServer::start(slow);
        let url = server.url();
        let backend = HttpBackend::connect(&ConnectionPlan { reconnect: true, ..connection(&url) }).unwrap();
        let mut run = Run::open(&backend, "m", &RunSpec { slots, requests: i64::MAX, ..RunSpec::default() }).unwrap();
        run.begin();
        run.drive(Duration::from_millis(100));
        server.kill();
        run.drive(Duration::from_millis(200));
        let failed = run.counter.failed();
        assert!(failed > 0 && failed < 20 * slots as u64, "failures are paced: {failed}, {}", run.counter.texts());
        assert!(run.counter.texts().contains("Connection refused"), "{}", run.counter.texts());
        let started = Instant::now();
        assert!(backend.statistics(&ModelId::latest("m")).is_err());
        assert!(started.elapsed() < Duration::from_secs(2));
        let before = run.counter.succeeded();
        let _again = HttpServer::start_with(TcpListener::bind(&url).unwrap(), None, slow);
        run.drive(Duration::from_millis(300));
        assert!(run.counter.succeeded() > before);
        run.stop();
        assert!(run.drive(LIMIT));
    }
}

#[test]
fn a_server_that_is_not_there_is_waited_for_only_if_asked() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("127.0.0.1:{port}");
    let error = HttpBackend::connect(&connection(&url)).err().unwrap().to_string();
    assert!(error.contains("Connection refused") && error.contains(&url) && error.contains("--server-wait"), "{error}");
    let later = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        HttpServer::start_with(TcpListener::bind(("127.0.0.1", port)).unwrap(), None, good)
    });
    let waiting = ConnectionPlan { server_wait: Duration::from_secs(10), ..connection(&url) };
    let backend = HttpBackend::connect(&waiting).unwrap();
    assert_eq!(backend.model(&ModelId::latest("m")).unwrap().max_batch_size, 8);
    drop(later.join().unwrap());
}

#[test]
fn a_server_that_says_nothing_is_waited_for_only_if_asked() {
    use triton_bench::backends::kserve_grpc::GrpcBackend;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = listener.local_addr().unwrap().to_string();
    let grpc = Protocol::Grpc { streaming: false, compression: Compression::None };
    for wait in [0, 2] {
        let connection = ConnectionPlan { server_wait: Duration::from_secs(wait), ..connection(&url) };
        let started = Instant::now();
        let error = HttpBackend::connect(&connection).err().unwrap().to_string();
        assert!(error.contains("timed out") && error.contains(&url), "{error}");
        let error = GrpcBackend::connect(&ConnectionPlan { protocol: grpc.clone(), ..connection }).err().unwrap();
        assert!(error.to_string().contains("in time") && error.to_string().contains(&url), "{error}");
        let took = started.elapsed().as_secs();
        assert!((2 * wait.max(1)..2 * wait.max(1) + 2).contains(&took), "{took} s where {wait} s were asked for");
    }
}

#[test]
fn requests_say_what_they_carry() {
    static SEEN: AtomicUsize = AtomicUsize::new(0);
    let server = HttpServer::start(|request| {
        let length: usize = request.field("Inference-Header-Content-Length").unwrap().parse().unwrap();
        let json: serde_json::Value = serde_json::from_slice(&request.body[..length]).unwrap();
        let number = SEEN.fetch_add(1, Ordering::SeqCst) as u64;
        let parameters = &json["parameters"];
        assert_eq!(parameters["sequence_id"], (number / 3 + 1).to_string());
        assert_eq!(parameters["sequence_start"], number.is_multiple_of(3));
        assert_eq!(parameters["sequence_end"], number % 3 == 2);
        assert_eq!((&parameters["priority"], &parameters["timeout"]), (&7.into(), &9000.into()));
        assert_eq!(
            (&parameters["a"], &parameters["b"], &parameters["c\""]),
            (&(-1).into(), &true.into(), &"x\n".into())
        );
        assert_eq!(json["inputs"][0]["name"], "INPUT0");
        assert_eq!(json["inputs"][0]["shape"], serde_json::json!([1, 16]));
        assert_eq!(request.body.len() - length, 64);
        assert_eq!(&request.body[length + 4..length + 8], &1.0_f32.to_le_bytes());
        assert_eq!((request.field("X-Mine"), request.field("Host")), (Some("1"), Some("example.org")));
        good(request)
    });
    let headers = vec![("X-Mine".to_owned(), "1".to_owned()), ("Host".to_owned(), "example.org".to_owned())];
    let backend = HttpBackend::connect(&ConnectionPlan { headers, ..connection(&server.url()) }).unwrap();
    let parameter = |name: &str, value| Parameter { name: name.to_owned(), value };
    let options = RequestOptions {
        parameters: vec![
            parameter("a", ParameterValue::Int(-1)),
            parameter("b", ParameterValue::Bool(true)),
            parameter("c\"", ParameterValue::Text("x\n".to_owned())),
        ],
        priority: 7,
        timeout_us: 9000,
        correlation: Some(CorrelationForm::Text),
    };
    let spec = RunSpec { requests: 9, sequences: true, options, ..RunSpec::default() };
    let mut run = Run::open(&backend, "m", &spec).unwrap();
    let counter = run.finish(LIMIT);
    assert_eq!(counter.succeeded(), 9, "{}", counter.texts());
}

#[test]
fn compressed_requests_unpack_to_the_plain_ones() {
    use std::io::Read;
    for (compression, sequences) in [
        (Compression::Gzip, false),
        (Compression::Deflate, false),
        (Compression::Gzip, true),
        (Compression::Deflate, true),
    ] {
        let server = HttpServer::start(move |request| {
            let mut body = Vec::new();
            let coding = request.field("Content-Encoding").unwrap();
            match coding {
                "gzip" => flate2::read::GzDecoder::new(&request.body[..]).read_to_end(&mut body).unwrap(),
                _ => flate2::read::ZlibDecoder::new(&request.body[..]).read_to_end(&mut body).unwrap(),
            };
            let length: usize = request.field("Inference-Header-Content-Length").unwrap().parse().unwrap();
            let json: serde_json::Value = serde_json::from_slice(&body[..length]).unwrap();
            assert_eq!(json["parameters"]["sequence_id"].is_u64(), sequences);
            assert_eq!((body.len() - length, request.field("Accept-Encoding")), (64, Some(coding)));
            good(request)
        });
        let protocol = Protocol::Http { inputs: TensorFormat::Served, outputs: TensorFormat::Served, compression };
        let backend = HttpBackend::connect(&ConnectionPlan { protocol, ..connection(&server.url()) }).unwrap();
        let mut run = Run::open(&backend, "m", &RunSpec { sequences, slots: 2, ..RunSpec::default() }).unwrap();
        let counter = run.finish(LIMIT);
        assert_eq!(counter.succeeded(), 20, "{}", counter.texts());
    }
}

#[test]
fn json_inputs_and_outputs_are_spoken() {
    let server = HttpServer::start(|request| {
        assert_eq!(request.field("Content-Type"), Some("application/json"));
        let body = String::from_utf8_lossy(&request.body).replace("[NaN,Infinity,-Infinity]", "[0,0,0]");
        let json: serde_json::Value = serde_json::from_str(&body).unwrap();
        let data = json["inputs"][0]["data"].as_array().unwrap();
        assert!(data[data.len() - 1] == if data.len() == 3 { 0.0 } else { 15.0 }, "{body}");
        assert!(json["parameters"].get("binary_data_output").is_none());
        vec![Act::Send(reply(
            "200 OK",
            "",
            br#"{"outputs":[{"name":"OUTPUT0","datatype":"FP32","shape":[1,16],
                "data":[0.5,-1,-Infinity,3,4,5,6,7,8,9,10,11,12,13,14,15]}]}"#,
        ))]
    });
    let protocol =
        Protocol::Http { inputs: TensorFormat::Json, outputs: TensorFormat::Json, compression: Compression::None };
    let backend = HttpBackend::connect(&ConnectionPlan { protocol, ..connection(&server.url()) }).unwrap();
    let mut run = Run::open(&backend, "m", &RunSpec { watch: true, requests: 2, ..RunSpec::default() }).unwrap();
    let counter = run.finish(LIMIT);
    assert_eq!(counter.succeeded(), 2, "{}", counter.texts());
    let expected: Vec<u8> = [0.5_f32, -1.0, f32::NEG_INFINITY].iter().flat_map(|value| value.to_le_bytes()).collect();
    assert_eq!(counter.outputs.lock().unwrap()[1][0].bytes[..12], expected);
    // Triton reads words for numbers that JSON does not have.
    let values = vec![f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
    let mut run = Run::open(&backend, "m", &RunSpec { values, requests: 2, ..RunSpec::default() }).unwrap();
    let counter = run.finish(LIMIT);
    assert_eq!(counter.succeeded(), 2, "{}", counter.texts());
}

#[test]
fn addresses_are_reached_by_number_and_by_name() {
    let v6 = TcpListener::bind("[::1]:0");
    let Ok(listener) = v6 else { return skip("this machine has no IPv6") };
    let server = HttpServer::start_with(listener, None, good);
    let port = server.url().rsplit(':').next().unwrap().to_owned();
    // A name may have several addresses; the first that answers is taken.
    for url in [format!("[::1]:{port}"), format!("http://[::1]:{port}/")] {
        let backend = HttpBackend::connect(&connection(&url)).unwrap();
        let mut run = Run::open(&backend, "m", &RunSpec::default()).unwrap();
        assert_eq!(run.finish(LIMIT).succeeded(), 20, "{url}");
    }
    let error = HttpBackend::connect(&connection("no-such-host.invalid:1")).err().unwrap().to_string();
    assert!(error.contains("no-such-host.invalid:1") && error.contains("-u HOST:PORT"), "{error}");
}

#[test]
fn a_server_that_forbids_shared_memory_gives_its_reason() {
    let reason = "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable.";
    let server = HttpServer::start(good);
    let json = serde_json::json!({ "error": reason }).to_string();
    server.answer_instead("/register", reply("503 Service Unavailable", "", json.as_bytes()));
    let backend = connect(&server);
    for (inputs, outputs) in [(Placement::System, Placement::Pageable), (Placement::Pageable, Placement::System)] {
        let spec = RunSpec { inputs, outputs, ..RunSpec::default() };
        let error = Run::open(&backend, "m", &spec).err().unwrap().to_string();
        assert!(
            error.contains(reason) && error.contains("--shared-memory: the server at http://127.0.0.1:"),
            "{error}"
        );
    }
    assert!(!server.others().iter().any(|request| request.head.contains("/unregister")), "nothing was registered");
}

#[test]
fn timed_metrics_that_hang_or_lie_are_errors_soon() {
    let server = HttpServer::start(good);
    let hanging = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/metrics", hanging.local_addr().unwrap());
    let backend =
        HttpBackend::connect(&ConnectionPlan { metrics_url: Some(url), ..connection(&server.url()) }).unwrap();
    let started = Instant::now();
    let error = backend.metrics(0, &mut |_| ()).unwrap_err().to_string();
    assert!(started.elapsed() < Duration::from_secs(2) && error.contains("timed out"), "{error}");
    let url = format!("{}/nothing", server.url());
    let backend =
        HttpBackend::connect(&ConnectionPlan { metrics_url: Some(url), ..connection(&server.url()) }).unwrap();
    assert!(backend.metrics(0, &mut |_| ()).unwrap_err().to_string().contains("HTTP 404: no such path"));
}

#[test]
fn traces_are_set_and_statistics_read() {
    let server = HttpServer::start(good);
    let backend = connect(&server);
    let settings =
        TraceSettings { levels: Some(vec![TraceLevel::Timestamps]), rate: Some(5), count: None, log_frequency: None };
    backend.put_traces("m", &values(&settings)).unwrap();
    let sent = server.others().pop().unwrap();
    assert!(sent.head.starts_with("POST /v2/models/m/trace/setting "), "{}", sent.head);
    let body: serde_json::Value = serde_json::from_slice(&sent.body).unwrap();
    assert_eq!(body, serde_json::json!({"trace_level": ["TIMESTAMPS"], "trace_rate": "5"}));
    let statistics = backend.statistics(&ModelId::latest("m")).unwrap();
    assert_eq!(statistics.models[&("m".to_owned(), "1".to_owned())].inferences, 5);
    assert!(backend.capabilities().statistics);
}
