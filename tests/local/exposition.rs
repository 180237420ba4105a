//! `--metrics-listen`: what Prometheus reads while a run goes on.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use triton_bench::wire::prometheus;

use crate::support::Program;
use crate::support::http_server::{Act, HttpServer, Received, good_answer, reply};

/// Answers after 5 ms, and fails one request in four.
fn server() -> HttpServer {
    HttpServer::start(|request: &Received| {
        let answer = if request.ordinal % 4 == 3 { reply("503 Busy", "", b"{}") } else { good_answer() };
        vec![Act::Wait(Duration::from_millis(5)), Act::Send(answer)]
    })
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Asks for a path; the answer's head and body.
fn ask(port: u16, question: &str) -> (String, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap_or_else(|error| panic!("{question}: {error}"));
    write!(stream, "{question} HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

/// The sum of a metric's samples with these labels.
fn value(page: &str, name: &str, labels: &[(&str, &str)]) -> f64 {
    let samples = page.lines().filter_map(prometheus::sample);
    let family = samples.filter(|sample| sample.name == name);
    family
        .filter(|sample| labels.iter().all(|(label, value)| sample.label(label) == Some(value)))
        .map(|sample| sample.value)
        .sum()
}

fn wait_for_requests(port: u16, server: &str, least: f64) -> String {
    let started = Instant::now();
    loop {
        let (_, page) = ask(port, "GET /metrics");
        if value(&page, "triton_bench_requests_total", &[("server", server)]) >= least {
            return page;
        }
        assert!(started.elapsed() < Duration::from_secs(20), "{page}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_scrape_in_the_middle_of_a_run_has_its_figures_so_far() {
    for load in ["--concurrency-range 2 -p 500 -r 4 -s 1", "--stage rate:100:2s --stage concurrency:2:1s"] {
        let (first, second) = (server(), server());
        let port = free_port();
        let running = Program::new()
            .args("-m m --on-disturbance ignore -u")
            .arg(first.url())
            .arg("-u")
            .arg(second.url())
            .args(&format!("--max-errors 1 --metrics-listen {port} {load}"))
            .start();
        running.wait_for(&format!("the run's metrics are at http://127.0.0.1:{port}/metrics"));
        let early = wait_for_requests(port, &first.url(), 20.0);
        let late = wait_for_requests(port, &first.url(), 60.0);
        for server in [&first, &second] {
            let url = server.url();
            let requests = |page: &str, outcome: &str| {
                value(page, "triton_bench_requests_total", &[("server", &url), ("outcome", outcome), ("model", "m")])
            };
            assert!(requests(&late, "succeeded") > requests(&early, "succeeded"), "{load}\n{early}\n{late}");
            assert!(requests(&late, "failed") >= 5.0 && requests(&late, "cancelled") == 0.0, "{load}\n{late}");
            assert!(
                requests(&late, "succeeded") + requests(&late, "failed") <= server.inferences() as f64,
                "{load}\n{late}"
            );
            let latency = |name: &str, more: &[(&str, &str)]| {
                value(&late, &format!("triton_bench_latency_seconds{name}"), &[&[("server", &*url)], more].concat())
            };
            assert_eq!(latency("_count", &[]), requests(&late, "succeeded"), "{load}\n{late}");
            let mean = latency("_sum", &[]) / latency("_count", &[]);
            assert!((0.005..0.1).contains(&mean), "{load}\n{late}");
            let quantiles = ["0.5", "0.9", "0.99", "0.999"].map(|quantile| latency("", &[("quantile", quantile)]));
            assert!(quantiles.is_sorted() && quantiles[0] > 0.005, "{load}\n{late}");
            assert!(value(&late, "triton_bench_throughput", &[("server", &url)]) > 10.0, "{load}\n{late}");
        }
        let kind = if load.starts_with("--stage") { "request_rate" } else { "concurrency" };
        assert!(value(&late, "triton_bench_load", &[("kind", kind)]) >= 2.0, "{load}\n{late}");
        let (head, _) = ask(port, "GET /metrics");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4"), "{head}");
        assert!(ask(port, "GET /other").0.starts_with("HTTP/1.1 404 "));
        assert!(ask(port, "POST /metrics").0.starts_with("HTTP/1.1 405 "));
        assert_eq!(ask(port, "HEAD /metrics").1, "");
        // Whoever asks and says nothing holds up neither the run nor, for long, its end.
        let silent = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let run = running.finish();
        drop(silent);
        assert!(run.silent < Duration::from_secs(3), "{run:#?}");
        assert!(run.stdout.contains("    Servers:\n"), "{run:#?}");
        assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "it ends with the run");
    }
}

#[test]
fn an_address_that_cannot_be_had_is_refused_before_the_run() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let server = server();
    let on = |address: &str| {
        Program::new().args("-m m -u").arg(server.url()).args(&format!("--metrics-listen {address}")).run()
    };
    on(&port.to_string()).failure(&["--metrics-listen 127.0.0.1:", &port.to_string(), "in use", "free port"]);
    on("somewhere").refusal(&["--metrics-listen", "somewhere", "0.0.0.0:9400"]);
    on(":9400").refusal(&["--metrics-listen", ":9400"]);
    on("99999").refusal(&["--metrics-listen", "99999"]);
    on("9400 --variant a:--async --variant b:--sync").refusal(&["--metrics-listen 9400", "variants"]);
    assert_eq!(server.inferences(), 0);
}
