//! `--otlp-endpoint`: what a collector of OpenTelemetry gets when a run ends.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::thread::{self, JoinHandle};

use serde_json::Value;

use crate::support::http_server::{Act, HttpServer, Received, good_answer};
use crate::support::{Finished, Program};

/// What a collector was asked.
struct Asked {
    first_line: String,
    head: String,
    body: Value,
}

/// Takes one request, and answers with that status.
fn collector(status: &'static str) -> (String, JoinHandle<Asked>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let thread = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream);
        let (mut first_line, mut head) = (String::new(), String::new());
        reader.read_line(&mut first_line).unwrap();
        while !head.ends_with("\r\n\r\n") {
            assert!(reader.read_line(&mut head).unwrap() > 0, "it ended within the head: {head}");
        }
        let head = head.to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:")).unwrap();
        let mut body = vec![0; length.trim().parse().unwrap()];
        reader.read_exact(&mut body).unwrap();
        write!(reader.get_mut(), "HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\n{{}}").unwrap();
        Asked { first_line, head, body: serde_json::from_slice(&body).unwrap() }
    });
    (address, thread)
}

fn run(endpoint: &str) -> Finished {
    measured("--request-count 40 --concurrency-range 1:2", endpoint)
}

fn measured(load: &str, endpoint: &str) -> Finished {
    let server = HttpServer::start(|_: &Received| vec![Act::Send(good_answer())]);
    let program = Program::new().args("-m m -u").arg(server.url()).args(load);
    program.args("--otlp-endpoint").arg(endpoint).run()
}

/// The points of a metric.
fn points<'a>(asked: &'a Asked, name: &str) -> &'a Vec<Value> {
    let metrics = asked.body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap();
    let metric = metrics.iter().find(|metric| metric["name"] == name).unwrap_or_else(|| panic!("{name}: {metrics:?}"));
    metric["gauge"]["dataPoints"].as_array().unwrap()
}

#[test]
fn a_collector_gets_every_figure_of_every_level() {
    let (address, asked) = collector("200 OK");
    let run = run(&format!("http://{address}/otlp/"));
    assert_eq!(run.code(), 0, "{}", run.stderr);
    let asked = asked.join().unwrap();
    assert_eq!(asked.first_line.trim_end(), "POST /otlp/v1/metrics HTTP/1.1");
    assert!(asked.head.contains("content-type: application/json"), "{}", asked.head);
    let loads: Vec<&Value> = points(&asked, "triton_bench.throughput")
        .iter()
        .map(|point| {
            assert!(point["asDouble"].as_f64().unwrap() > 1.0, "{point}");
            let began: u64 = point["startTimeUnixNano"].as_str().unwrap().parse().unwrap();
            let ended: u64 = point["timeUnixNano"].as_str().unwrap().parse().unwrap();
            assert!(0 < began && began <= ended, "{point}");
            let attributes = point["attributes"].as_array().unwrap();
            &attributes.iter().find(|attribute| attribute["key"] == "load").unwrap()["value"]["stringValue"]
        })
        .collect();
    assert_eq!(loads, ["concurrency 1", "concurrency 2"]);
    let p99 = &points(&asked, "triton_bench.p99")[0]["asDouble"];
    assert!((1e-6..10.0).contains(&p99.as_f64().unwrap()), "it is in seconds: {p99}");
}

#[test]
fn a_stage_that_repeats_a_load_is_told_from_the_first() {
    let (address, asked) = collector("200 OK");
    let stages = "--stage concurrency:1:200ms --stage concurrency:2:200ms --stage concurrency:1:200ms";
    let run = measured(stages, &address);
    assert!(run.code() < 99, "{}", run.stderr);
    let asked = asked.join().unwrap();
    let told = |point: &Value| {
        let attributes = point["attributes"].as_array().unwrap();
        let repetition = attributes.iter().find(|attribute| attribute["key"] == "repetition");
        let time = |key: &str| point[key].as_str().unwrap().parse::<u64>().unwrap();
        let span = [time("startTimeUnixNano"), time("timeUnixNano")];
        (repetition.map(|found| found["value"]["stringValue"].as_str().unwrap().to_owned()), span)
    };
    let told: Vec<_> = points(&asked, "triton_bench.throughput").iter().map(told).collect();
    let repetitions: Vec<_> = told.iter().map(|(repetition, _)| repetition.as_deref()).collect();
    assert_eq!(repetitions, [Some("1"), None, Some("2")]);
    // A stage begins a moment before the last answers of the one before it.
    let apart = told.windows(2).all(|pair| pair[0].1.iter().zip(pair[1].1).all(|(earlier, later)| *earlier < later));
    assert!(apart && told.iter().all(|(_, [start, end])| start < end), "each stage has its own time: {told:?}");
}

#[test]
fn a_collector_that_refuses_costs_nothing_but_the_exit_code() {
    let (address, asked) = collector("503 Service Unavailable");
    let refused = run(&address);
    asked.join().unwrap();
    assert_eq!(refused.code(), 99, "{}", refused.stderr);
    assert!(refused.stderr.contains("--otlp-endpoint: POST /v1/metrics"), "{}", refused.stderr);
    assert!(refused.stdout.contains("Concurrency: 2, throughput: "), "{}", refused.stdout);
    let wrong = run("ftp://here");
    assert_eq!(wrong.code(), 99);
    assert!(wrong.stderr.contains("--otlp-endpoint 'ftp://here'"), "{}", wrong.stderr);
}
