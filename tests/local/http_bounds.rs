//! Bounds on what a server can cost us over HTTP: time, memory, results. Byte-level servers answer without end,
//! trickle, expand to a thousand times their length, or answer something that was not asked for.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use triton_bench::backend::{Backend, ReplyRule};
use triton_bench::backends::kserve_http::HttpBackend;
use triton_bench::model::ModelId;
use triton_bench::plan::{Compression, ConnectionPlan, Protocol, TensorFormat, Tls};

use crate::support::authority::Authority;
use crate::support::http_server::{Act, HttpServer, Received, answer_parts, good_answer, reply};
use crate::support::load::{Run, RunSpec};
use crate::support::program::{Finished, Running};
use crate::support::{Program, until};

const MIB: u64 = 1 << 20;
/// The end of metadata: the model that [`good_answer`] is from.
const TENSORS: &str = r#""inputs":[{"name":"INPUT0","datatype":"FP32","shape":[-1,16]}],
    "outputs":[{"name":"OUTPUT0","datatype":"FP32","shape":[-1,16]}]}"#;

fn good(_: &Received) -> Vec<Act> {
    vec![Act::Send(good_answer())]
}

fn https(script: fn(&Received) -> Vec<Act>) -> HttpServer {
    let authority = Authority::new();
    let config = authority.server_config(&authority.issue(&["localhost"], 2090), false);
    HttpServer::start_with(TcpListener::bind("127.0.0.1:0").unwrap(), Some(config), script)
}

/// The program against a server under TLS.
fn secure(server: &HttpServer) -> Program {
    let port = server.url().rsplit(':').next().unwrap().to_owned();
    Program::new().args("-m m --ssl-https-verify-peer 0 -u").arg(format!("https://localhost:{port}"))
}

fn plain(server: &HttpServer) -> Program {
    Program::new().args("-m m -u").arg(server.url())
}

/// Largest memory of a run until its end, in bytes, and how it ended.
fn watched(running: Running) -> (Finished, u64) {
    let status = format!("/proc/{}/status", running.id());
    let watcher = thread::spawn(move || {
        let mut most = 0;
        while let Ok(text) = std::fs::read_to_string(&status) {
            // A process that has ended but was not waited for has no memory any more.
            let Some(line) = text.lines().find(|line| line.starts_with("VmHWM:")) else { break };
            most = line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024;
            thread::sleep(Duration::from_millis(2));
        }
        most
    });
    let finished = running.finish();
    (finished, watcher.join().unwrap())
}

fn connection(server: &HttpServer, json_outputs: bool) -> ConnectionPlan {
    ConnectionPlan {
        protocol: Protocol::Http {
            inputs: TensorFormat::Served,
            outputs: if json_outputs { TensorFormat::Json } else { TensorFormat::Served },
            compression: Compression::None,
        },
        url: server.url(),
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
    HttpBackend::connect(&connection(server, false)).unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn timed_a_handshake_that_trickles_ends_with_the_patience_for_the_start() {
    let server = https(good);
    server.trickle_handshakes();
    let grpc = Program::new().args("-m m -i grpc --ssl-grpc-use-ssl -u").arg(server.url());
    for program in [secure(&server), grpc] {
        let run = program.args("--server-wait 1").run();
        assert_eq!(run.code(), 99, "{}", run.stderr);
        assert!(run.stderr.contains("did not answer in time"), "{}", run.stderr);
        assert!(run.wall < Duration::from_secs(8), "{:?}", run.wall);
    }
}

#[test]
fn timed_statistics_that_trickle_cost_only_the_servers_figures() {
    for encrypted in [true, false] {
        let server = if encrypted { https(good) } else { HttpServer::start(good) };
        let program = if encrypted { secure(&server) } else { plain(&server) };
        let running = program.args("-p 400 -r 8 -s 0.001").start();
        // The second are asked for when the first window ends: it counts, whatever becomes of them.
        while server.others().iter().filter(|request| request.head.contains("/stats HTTP")).count() < 2 {
            thread::sleep(Duration::from_millis(2));
        }
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n".to_vec();
        let trickle = Act::Trickle(vec![b' '; 100_000], Duration::from_millis(50));
        server.act_instead("/stats", if encrypted { vec![Act::Close] } else { vec![Act::Send(head), trickle] });
        // Over plain HTTP a handshake is no reply at all.
        if encrypted {
            server.trickle_handshakes();
        }
        let started = Instant::now();
        let run = running.finish();
        assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
        // Requests are answered all the while; windows of that precision do not settle.
        let report = run.report_with(2);
        assert!(report.level().client_number("Request count") > 5.0, "{}", report.text);
        assert!(run.stderr.contains("from that time are left out") && run.stderr.contains("in time"), "{}", run.stderr);
    }
}

#[test]
fn timed_one_interrupt_ends_connections_that_trickle_and_keeps_the_results() {
    let server = https(good);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("levels.csv");
    let program = secure(&server).args("-p 200 -r 3 -s 1000000 --concurrency-range 1:64 -f").arg(&file);
    let before = server.connections();
    let running = program.start();
    while server.connections() < before + 3 {
        thread::sleep(Duration::from_millis(1));
    }
    // A level may be measured already; the next one's connections are never made.
    server.trickle_handshakes();
    while server.trickling() == 0 {
        thread::sleep(Duration::from_millis(1));
    }
    running.signal(2);
    let interrupted = Instant::now();
    let run = running.finish();
    assert!(interrupted.elapsed() < Duration::from_secs(3), "{:?}", interrupted.elapsed());
    let report = run.report();
    assert!(report.levels[0].client_number("Request count") > 0.0, "{}", report.text);
    assert!(run.stderr.contains("the user interrupted before the server had answered"), "{}", run.stderr);
    assert!(std::fs::read_to_string(&file).unwrap().lines().count() > 1, "{}", run.stderr);
}

#[test]
fn questions_keep_their_connection_and_find_a_new_one_where_it_was_closed() {
    let server = HttpServer::start(good);
    let backend = connect(&server);
    for _ in 0..20 {
        backend.statistics(&ModelId::latest("m")).unwrap();
    }
    assert_eq!(server.connections(), 1);
    let (body, asked) = (br#"{"model_stats":[]}"#, server.others().len());
    let closing = reply("200 OK", "", body);
    server.act_instead("/stats", vec![Act::Send(closing), Act::Close]);
    for _ in 0..20 {
        assert!(backend.statistics(&ModelId::latest("m")).unwrap().models.is_empty());
    }
    assert!((20..=21).contains(&server.connections()), "{}", server.connections());
    assert_eq!(server.others().len() - asked, 20, "each is asked once");
}

#[test]
fn timed_connections_are_made_before_the_first_window() {
    let server = https(good);
    server.delay_connections(Duration::from_millis(400));
    let report = secure(&server).args("-p 300 -s 1000000 --concurrency-range 4 --percentile 99").run().report();
    let slowest = report.level().client_number("p99 latency");
    assert!(slowest < 300_000.0, "{slowest} us: {}", report.text);
    let counted = secure(&server).args("--request-count 40 --concurrency-range 4").run().report();
    assert!(counted.level().client_number("Throughput") > 100.0, "{}", counted.text);
}

/// The rate that was sent, and when requests left after they were due: the 90th percentile in milliseconds.
fn sent(program: Program) -> (f64, f64) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("result.json");
    let run = program.arg("--summary-file").arg(&file).run();
    let result: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).expect(&run.stderr)).unwrap();
    let client = &result["levels"][0]["client"];
    assert_eq!(client["failed"], 0, "{}", run.stdout);
    let late = run.stdout.split("Schedule delay: ").nth(1).and_then(|row| row.split("p90 ").nth(1)).unwrap();
    let late: f64 = late.split(',').next().unwrap().parse().unwrap();
    (client["sent"].as_f64().unwrap() / client["duration_s"].as_f64().unwrap(), late / 1e3)
}

#[test]
fn timed_a_server_that_accepts_nobody_holds_up_no_later_request() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::listen(&listener, 8).unwrap();
    let server = HttpServer::start_with(listener, None, |request| {
        [vec![Act::Wait(Duration::from_millis(10))], good(request)].concat()
    });
    let (rate, late) = thread::scope(|scope| {
        let program = Program::new().args("-m m -b 1 --on-disturbance ignore --request-rate-range 150 -r 1 -p 5000 -u");
        let running = scope.spawn(|| sent(program.arg(server.url())));
        while server.inferences() < 150 {
            thread::sleep(Duration::from_millis(1));
        }
        server.stand_still(Duration::from_millis(1500));
        running.join().unwrap()
    });
    assert!(rate > 145.0 && late < 50.0, "{rate} a second, {late} ms late");
}

#[test]
fn timed_handshakes_hold_up_no_other_request() {
    let server = https(|request| [vec![Act::Wait(Duration::from_millis(200))], good(request)].concat());
    server.delay_connections(Duration::from_millis(150));
    let flags = "-b 1 --on-disturbance ignore --request-rate-range 60 --request-count 180";
    let (_, late) = sent(secure(&server).args(flags));
    assert!(late < 150.0, "{late} ms late");
}

#[test]
fn compression_that_was_not_asked_for_is_refused() {
    let server = HttpServer::start(|_| {
        let (json, tensors) = answer_parts();
        let fields = format!("Content-Encoding: gzip\r\nInference-Header-Content-Length: {}\r\n", json.len());
        vec![Act::Send(reply("200 OK", &fields, &gzip(&[json.as_bytes(), &tensors].concat())))]
    });
    let backend = connect(&server);
    for watch in [false, true] {
        let spec = RunSpec { requests: 4, watch, ..RunSpec::default() };
        let mut run = Run::open(&backend, "m", &spec).unwrap();
        let counter = run.finish(Duration::from_secs(10));
        assert_eq!(counter.succeeded(), 0);
        assert!(counter.texts().contains("compressed in a way that was not asked for"), "{}", counter.texts());
    }
    let asked =
        ConnectionPlan { headers: vec![("Accept-Encoding".into(), "gzip".into())], ..connection(&server, false) };
    let backend = HttpBackend::connect(&asked).unwrap();
    let mut run = Run::open(&backend, "m", &RunSpec::default()).unwrap();
    assert_eq!(run.finish(Duration::from_secs(10)).succeeded(), 20);
    // A refusal is told in any case.
    let down = HttpServer::start(|_| {
        let page = gzip(b"<html>no upstream</html>");
        vec![Act::Send(reply("502 Bad Gateway", "Content-Encoding: gzip\r\n", &page))]
    });
    let mut run = Run::open(&connect(&down), "m", &RunSpec { requests: 4, ..RunSpec::default() }).unwrap();
    let counter = run.finish(Duration::from_secs(10));
    assert!(counter.texts().contains("HTTP 502: <html>no upstream</html>"), "{}", counter.texts());
    down.answer_instead("/m", reply("503 Service Unavailable", "Content-Encoding: gzip\r\n", &gzip(b"later")));
    let error = connect(&down).model(&ModelId::latest("m")).unwrap_err().to_string();
    assert!(error.contains("HTTP 503: later"), "{error}");
    let metadata = gzip(br#"{"name":"m","inputs":[],"outputs":[]}"#);
    server.answer_instead("/m", reply("200 OK", "Content-Encoding: gzip\r\n", &metadata));
    let error = connect(&server).model(&ModelId::latest("m")).unwrap_err().to_string();
    assert!(error.contains("not asked for") && error.contains("metadata of model 'm'"), "{error}");
}

#[test]
fn a_compressed_answer_is_there_once_it_is_decompressed() {
    let json = format!(r#"{{"model_name":"m","outputs":[]{}}}"#, " ".repeat(4_100_000));
    let packed = gzip(json.as_bytes());
    let decompress = || {
        let began = Instant::now();
        flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut Vec::new()).unwrap();
        began.elapsed()
    };
    // Others may take the processor from it at times.
    let alone = (0..5).map(|_| decompress()).min().unwrap();
    let server = HttpServer::start(move |_| vec![Act::Send(reply("200 OK", "Content-Encoding: gzip\r\n", &packed))]);
    let asked =
        ConnectionPlan { headers: vec![("Accept-Encoding".into(), "gzip".into())], ..connection(&server, false) };
    let backend = HttpBackend::connect(&asked).unwrap();
    for watch in [false, true] {
        let mut run = Run::open(&backend, "m", &RunSpec { requests: 2, watch, ..RunSpec::default() }).unwrap();
        let counter = run.finish(Duration::from_secs(10));
        let latencies = counter.latencies.lock().unwrap().clone();
        assert_eq!(latencies.len(), 2, "{}", counter.texts());
        let shortest = Duration::from_nanos(*latencies.iter().min().unwrap());
        assert!(shortest > alone / 2, "{shortest:?} with {alone:?} of decompressing");
    }
}

#[test]
fn what_speaks_http2_may_be_the_grpc_port() {
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0].repeat(4);
    let server = HttpServer::start(good);
    server.act_instead("/live", vec![Act::Send(settings), Act::Close]);
    let run = plain(&server).args("--server-wait 30 --request-count 2").run();
    assert_eq!(run.code(), 99, "{}", run.stderr);
    let words = ["speaks another protocol", "is this its gRPC port? use -i grpc"];
    assert!(words.iter().all(|words| run.stderr.contains(words)), "{}", run.stderr);
    assert!(!run.stderr.contains("start it") && run.wall < Duration::from_secs(20), "{}", run.stderr);
}

#[test]
fn a_port_that_hangs_up_on_tls_may_speak_none() {
    let closing = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = closing.local_addr().unwrap().port();
    thread::spawn(move || {
        for connection in closing.incoming().flatten() {
            let _ = (&connection).read(&mut [0; 1 << 12]);
        }
    });
    let run = Program::new().args(&format!("-m m -u https://localhost:{port}")).run();
    assert!(run.stderr.contains("does that port speak TLS?"), "{}", run.stderr);
}

#[test]
fn metadata_have_a_bound_packed_and_unpacked_and_take_little_more_than_their_length() {
    let chunk = [b"100000\r\n".as_slice(), &vec![b' '; 1 << 20], b"\r\n"].concat();
    let head = |fields: &str| Act::Send(format!("HTTP/1.1 200 OK\r\n{fields}\r\n").into_bytes());
    let bomb = gzip(&vec![b' '; 80 << 20]);
    let packed = format!("Content-Encoding: gzip\r\nContent-Length: {}\r\n", bomb.len());
    let zeros = format!(r#"{{"name":"m","x":[{}0],"y":[{}0],"#, "0,".repeat(6 << 20), "[],".repeat(4 << 20));
    for (flags, acts, code) in [
        ("", vec![head("Transfer-Encoding: chunked\r\n"), Act::Forever(chunk)], 99),
        ("", vec![head("Content-Length: 300000000\r\n"), Act::Forever(vec![b' '; 1 << 20])], 99),
        ("-H Accept-Encoding:gzip", vec![head(&packed), Act::Send(bomb)], 99),
        ("", vec![Act::Send(reply("200 OK", "", format!("{zeros}{TENSORS}").as_bytes()))], 0),
    ] {
        let server = HttpServer::start(good);
        server.act_instead("/m", acts);
        let (run, memory) = watched(plain(&server).args(flags).args("--request-count 2").start());
        assert!(memory < 180 * MIB, "{} MiB: {}", memory / MIB, run.stderr);
        assert!(run.wall < Duration::from_secs(30), "{:?}", run.wall);
        assert_eq!(run.code(), code, "{}", run.stderr);
        assert!(code != 99 || run.stderr.contains("more than") || run.stderr.contains("longer than"), "{}", run.stderr);
    }
}

#[test]
fn timed_a_model_of_many_tensors_is_loaded_in_time_with_their_number() {
    let server = HttpServer::start(|_| vec![Act::Send(reply("200 OK", "", br#"{"error":"too much"}"#))]);
    let list = |prefix: &str, more: &str| {
        let tensor = |index| format!(r#"{{"name":"{prefix}{index}",{more}}}"#);
        (0..20_000).map(tensor).collect::<Vec<_>>().join(",")
    };
    let (types, flags) = (r#""datatype":"FP32","shape":[1]"#, r#""optional":true"#);
    let (inputs, outputs) = (list("I", types), list("O", types));
    let metadata = format!(r#"{{"name":"m","versions":["1"],"inputs":[{inputs}],"outputs":[{outputs}]}}"#);
    let config = format!(r#"{{"name":"m","input":[{}],"output":[{}]}}"#, list("I", flags), list("O", flags));
    server.answer_instead("/m", reply("200 OK", "", metadata.as_bytes()));
    server.answer_instead("/config", reply("200 OK", "", config.as_bytes()));
    let run = plain(&server).args("--request-count 2").run();
    assert_eq!(run.code(), 3, "{}", run.stderr);
    assert!(run.wall < Duration::from_secs(15), "{:?}", run.wall);
}

/// How often all threads of a process have gone to sleep.
fn sleeps(process: u32) -> u64 {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let status = threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("status")).ok());
    let count = |text: String| {
        text.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")?.trim().parse::<u64>().ok())
    };
    status.filter_map(count).sum::<u64>()
}

/// Threads that wait for an answer mostly sleep: thousands that look ten or twenty times a second each take the processors from the
/// server.
#[test]
fn threads_that_wait_long_wake_rarely() {
    let server = HttpServer::start(|_| vec![Act::Wait(Duration::from_secs(6)), Act::Send(good_answer())]);
    let running = plain(&server).args("--sync --concurrency-range 600 --request-count 600").start();
    until(|| server.inferences() == 600, "600 requests");
    thread::sleep(Duration::from_secs(1));
    let (before, begun) = (sleeps(running.id()), Instant::now());
    thread::sleep(Duration::from_secs(2));
    let rate = (sleeps(running.id()) - before) as f64 / begun.elapsed().as_secs_f64();
    assert_eq!(running.finish().report().level().client_number("Request count"), 600.0);
    // 4 000 of those that wait, and 1 000 of the one that measures; 12 000 if each looks twenty times.
    assert!(rate < 7_000.0, "{rate}");
}

#[test]
fn timed_metrics_without_end_take_little_memory() {
    let server = HttpServer::start(good);
    let line = |number: usize| {
        format!("nv_gpu_power_usage{{gpu_uuid=\"GPU-{number:08}-aaaa-bbbb-cccc-dddddddddddd\"}} {number}\n")
    };
    let page = (0..5_000).map(line).collect::<String>().into_bytes();
    let head = Act::Send(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n".to_vec());
    let url = format!("{}/metrics", server.url());
    let program = || plain(&server).args("-p 200 -r 3 -s 1000000 --collect-metrics --metrics-url").arg(&url);
    server.act_instead("/metrics", vec![head.clone(), Act::Forever(page.clone())]);
    let (run, memory) = watched(program().start());
    assert_eq!(run.code(), 99, "{}", run.stderr);
    assert!(run.stderr.contains("--collect-metrics"), "{}", run.stderr);
    assert!(memory < 60 * MIB && run.wall < Duration::from_secs(6), "{} MiB, {:?}", memory / MIB, run.wall);
    server.act_instead("/metrics", vec![head, Act::Send(page), Act::Close]);
    let (run, memory) = watched(program().start());
    run.report();
    assert!(memory < 60 * MIB, "{} MiB", memory / MIB);
}

#[test]
fn timed_replies_without_end_fail_their_requests_in_little_memory() {
    let chunk = || [b"100000\r\n".as_slice(), &vec![b' '; 1 << 20], b"\r\n"].concat();
    let head = |_: &Received| Act::Send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec());
    let server = HttpServer::start(move |request| vec![head(request), Act::Forever(chunk())]);
    let program = || plain(&server).args("--request-count 8 --concurrency-range 4");
    let (run, memory) = watched(program().start());
    let report = run.report_with(3);
    assert_eq!(report.level().client_number("Failed request count") as u64, 8, "{}", report.text);
    assert!(report.text.contains("many times what the model's outputs take"), "{}", report.text);
    assert!(memory < 80 * MIB && run.wall < Duration::from_secs(10), "{} MiB, {:?}", memory / MIB, run.wall);
    let variable = br#"{"name":"m","inputs":[{"name":"INPUT0","datatype":"FP32","shape":[-1,16]}],
        "outputs":[{"name":"OUTPUT0","datatype":"FP32","shape":[-1,-1]}]}"#;
    server.answer_instead("/m", reply("200 OK", "", variable));
    for flags in ["", "--output-tensor-format json"] {
        let (run, memory) = watched(program().args("--max-reply-bytes 4000000").args(flags).start());
        let report = run.report_with(3);
        assert!(report.text.contains("longer than 4000000 bytes (--max-reply-bytes)"), "{}", report.text);
        assert!(memory < 80 * MIB && run.wall < Duration::from_secs(10), "{} MiB, {:?}", memory / MIB, run.wall);
    }
}

/// A reply whose JSON was changed; its output has 64 bytes.
fn changed(from: &str, to: &str) -> Vec<u8> {
    let (json, tensors) = answer_parts();
    let json = json.replace(from, to);
    let fields = format!("Inference-Header-Content-Length: {}\r\n", json.len());
    reply("200 OK", &fields, &[json.as_bytes(), &tensors].concat())
}

#[test]
fn replies_that_can_be_decoded_are_successes_whatever_the_configuration_says() {
    for (from, to, text) in [
        ("FP32", "INT32", "is INT32 instead of FP32"),
        ("[1,16]", "[2,8]", "has shape [2, 8] instead of [1, 16]"),
        ("OUTPUT0", "OUTPUT1", "no output 'OUTPUT1'"),
        (r#""model_name":"m""#, r#""model_name":"n""#, "from model 'n'"),
        (r#""model_version":"1""#, r#""model_version":"2""#, "from version '2'"),
    ] {
        let answer = changed(from, to);
        odd(move |_| vec![Act::Send(answer.clone())], false, text, true);
    }
    let nothing = br#"{"model_name":"m","outputs":[]}"#;
    odd(|_| vec![Act::Send(reply("200 OK", "", nothing))], false, "has no outputs", true);
    // Larger than configured: whoever runs the model does not read the configuration.
    let large = vec![0; 1 << 20];
    let json = answer_parts().0.replace("[1,16]", "[1,262144]").replace("64", "1048576");
    let fields = format!("Inference-Header-Content-Length: {}\r\n", json.len());
    let answer = reply("200 OK", &fields, &[json.as_bytes(), &large].concat());
    odd(move |_| vec![Act::Send(answer.clone())], false, "has shape [1, 262144]", true);
}

#[test]
fn replies_that_cannot_be_decoded_are_failures_but_for_perf_analyzers_callers() {
    // Four floats in no bytes, as NumPy 2 makes them under Triton's python backend.
    let json = answer_parts().0.replace(r#""binary_data_size":64"#, r#""binary_data_size":0"#);
    let fields = format!("Inference-Header-Content-Length: {}\r\n", json.len());
    let answer = reply("200 OK", &fields, json.as_bytes());
    odd(move |_| vec![Act::Send(answer.clone())], false, "takes 64 bytes", false);
    let answer_with = |datatype: &str, data: &str| {
        let output = format!(r#"{{"name":"OUTPUT0","datatype":"{datatype}","shape":[1,16]{data}}}"#);
        reply("200 OK", "", format!(r#"{{"model_name":"m","outputs":[{output}]}}"#).as_bytes())
    };
    let elements = |element: &str, count| format!(",\"data\":[{}]", vec![element; count].join(","));
    for (answer, text) in [
        (answer_with("FP32", &elements("1", 17)), "17 elements"),
        (answer_with("FP32", &elements("1", 0)), "0 elements"),
        (answer_with("FP32", &elements("\"x\"", 16)), "FP32"),
        (answer_with("FP32", ""), "neither data nor binary_data_size"),
        (answer_with("FP99", &elements("1", 16)), "unknown datatype 'FP99'"),
    ] {
        odd(move |_| vec![Act::Send(answer.clone())], true, text, false);
    }
}

/// Every answer is odd because of `text`, whether outputs are looked at or not: it counts and is noted, or fails, as the rule says.
fn odd(script: impl Fn(&Received) -> Vec<Act> + Send + Sync + 'static, json: bool, text: &str, decodable: bool) {
    let server = HttpServer::start(script);
    let backend = HttpBackend::connect(&connection(&server, json)).unwrap();
    for (replies, counts) in [(ReplyRule::Readable, decodable), (ReplyRule::Any, true), (ReplyRule::Fitting, false)] {
        for (watch, slots) in [(false, 1), (true, 1), (false, 4), (true, 4)] {
            let mut run = Run::open(&backend, "m", &RunSpec { watch, slots, replies, ..RunSpec::default() }).unwrap();
            let oddities = Arc::clone(&run.oddities);
            let counter = run.finish(Duration::from_secs(10));
            let noted = oddities.all();
            if counts {
                assert_eq!((counter.succeeded(), counter.failed()), (20, 0), "{text}: {}", counter.texts());
                assert!(noted.len() == 1 && noted[0].first.contains(text), "{text}: {noted:?}");
                assert!(noted[0].count >= slots as u64, "{text}: {noted:?}");
            } else {
                assert_eq!((counter.succeeded(), counter.failed()), (0, 20), "{text}: {}", counter.texts());
                assert!(counter.texts().contains(text) && noted.is_empty(), "{text}: {}", counter.texts());
            }
        }
    }
}

#[test]
fn odd_replies_are_in_report_and_result_file() {
    let answer = changed("[1,16]", "[2,8]");
    // Slow enough for the second connection to have a share of the requests.
    let server = HttpServer::start(move |_| vec![Act::Wait(Duration::from_millis(20)), Act::Send(answer.clone())]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("s.json");
    let run = plain(&server).args("--request-count 40 --concurrency-range 2 --summary-file").arg(&file).run();
    let report = run.report();
    assert_eq!(report.level().client_number("Request count"), 40.0, "{}", report.text);
    let warning = "[WARNING] 2 of 2 responses that were checked are not as model 'm' is configured: output 'OUTPUT0' has shape [2, 8]";
    assert!(report.text.contains(warning), "{}", report.text);
    let result: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let remarks = result["levels"][0]["remarks"].as_array().unwrap();
    let remark = remarks.iter().find(|remark| remark["kind"] == "unlike_configuration").unwrap();
    assert_eq!(
        (&remark["kind"], &remark["count"], &remark["of"]),
        (&"unlike_configuration".into(), &2.into(), &2.into())
    );
    let failed = plain(&server).args("--request-count 40 --validate-replies").run().report_with(3);
    assert_eq!(failed.level().client_number("Failed request count"), 40.0, "{}", failed.text);
    let short = answer_parts().0.replace(r#""binary_data_size":64"#, r#""binary_data_size":0"#);
    let fields = format!("Inference-Header-Content-Length: {}\r\n", short.len());
    let server = HttpServer::start(move |_| vec![Act::Send(reply("200 OK", &fields, short.as_bytes()))]);
    assert_eq!(plain(&server).args("--request-count 40").run().code(), 3);
    let run = plain(&server).named_perf_analyzer().args("--request-count 40").run();
    let warning =
        "1 of 1 responses that were checked cannot be decoded, and count because the server calls them successes";
    assert!(run.code() == 0 && run.stdout.contains(warning), "{run:#?}");
}

#[test]
fn later_replies_are_held_against_the_model_if_asked() {
    let answer = changed("[1,16]", "[16,1]");
    let server = HttpServer::start(move |request| match request.ordinal % 10 {
        9 => vec![Act::Send(answer.clone())],
        _ => good(request),
    });
    for (flags, failed) in [("", 0), ("--validate-replies", 4)] {
        let report = plain(&server).args("--request-count 40 --max-errors 50%").args(flags).run().report();
        let level = report.level();
        assert_eq!(level.client_number("Request count") as u64, 40 - failed, "{}", report.text);
        assert_eq!(report.text.contains("instead of [1, 16]"), failed > 0, "{}", report.text);
    }
}

/// One of twelve requests may fail here; after a second it is one of seven.
#[test]
fn an_early_failure_ends_no_load_that_may_still_keep_to_max_errors() {
    let failing_first = |request: &Received| match request.ordinal {
        0 => vec![Act::Send(reply("500 Oops", "", b""))],
        _ => vec![Act::Wait(Duration::from_millis(150)), Act::Send(good_answer())],
    };
    for load in ["--request-count 12", "--stage concurrency:1:12req", "--stage concurrency:1:3s"] {
        let server = HttpServer::start(failing_first);
        let report = plain(&server).args("--max-errors 10%").args(load).run().report();
        let level = report.level();
        assert_eq!(level.client_number("Failed request count"), 1.0, "{load}: {}", report.text);
        assert!(level.client_number("Request count") > 9.0, "{load}: {}", report.text);
    }
}

#[test]
fn bytes_that_are_no_text_are_explained_where_json_was_asked_for() {
    let body = b"{\"model_name\":\"m\",\"outputs\":[{\"name\":\"OUTPUT0\",\"datatype\":\"BYTES\",\"shape\":[1,1],\"data\":[\"\xff\"]}]}";
    let server = HttpServer::start(move |_| vec![Act::Send(reply("200 OK", "", body))]);
    let metadata = br#"{"name":"m","inputs":[{"name":"INPUT0","datatype":"FP32","shape":[-1,16]}],
        "outputs":[{"name":"OUTPUT0","datatype":"BYTES","shape":[-1,1]}]}"#;
    server.answer_instead("/m", reply("200 OK", "", metadata));
    let backend = HttpBackend::connect(&connection(&server, true)).unwrap();
    let mut run = Run::open(&backend, "m", &RunSpec::default()).unwrap();
    assert_eq!(run.finish(Duration::from_secs(10)).succeeded(), 20, "whoever does not look need not know");
    let mut run = Run::open(&backend, "m", &RunSpec { watch: true, ..RunSpec::default() }).unwrap();
    let counter = run.finish(Duration::from_secs(10));
    assert!(counter.texts().contains("--output-tensor-format binary takes them"), "{}", counter.texts());
}

#[test]
fn of_names_that_are_given_twice_only_the_last_is_sent() {
    let received = Arc::new(Mutex::new(Vec::new()));
    let requests = Arc::clone(&received);
    let server = HttpServer::start(move |request: &Received| {
        requests.lock().unwrap().push(request.clone());
        good(request)
    });
    let parameters = "--request-parameter lora:one:string --request-parameter lora:two:string";
    plain(&server).args(&format!("{parameters} -H X-Key:1 -H x-key:2 --request-count 3")).run().report();
    let received = received.lock().unwrap();
    assert!(!received.is_empty());
    for request in &*received {
        let keys = request.head.lines().filter(|line| line.to_ascii_lowercase().starts_with("x-key:"));
        assert_eq!(keys.collect::<Vec<_>>(), ["x-key: 2"]);
        let body = String::from_utf8_lossy(&request.body);
        assert!(body.matches("\"lora\"").count() == 1 && body.contains("\"lora\":\"two\""), "{body}");
    }
}

#[test]
fn nothing_that_may_be_a_credential_is_repeated() {
    let server = HttpServer::start(good);
    for program in [
        Program::new().args("-m m -u").arg("http://me:s3cret@localhost:8000"),
        Program::new().args("-m m --collect-metrics --metrics-url http://me:s3cret@h/metrics -u").arg(server.url()),
        plain(&server).arg("-H").arg("Authorization Bearer s3cret"),
        plain(&server).arg("-H").arg("Authorization Bearer s3cret:"),
        plain(&server).arg("-H").arg("Content-Length: s3cret"),
        plain(&server).args("-i grpc -H").arg("grpc-timeout: s3cret"),
        plain(&server).args("--request-count 1 -H Authorization: Bearer s3cret"),
    ] {
        let run = program.run();
        assert!(!run.stderr.contains("s3cret") && !run.stdout.contains("s3cret"), "{}{}", run.stdout, run.stderr);
        assert!(run.code() == 99 || run.stderr.contains("2 words that belong to no flag"), "{}", run.stderr);
    }
}
