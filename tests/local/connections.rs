//! Connections that end: those of `--connections new`, which each request makes for itself, and those that a server closes
//! when it likes.

use std::time::Duration;

use crate::support::http_server::{Act, HttpServer, Received, good_answer};
use crate::support::{Finished, Program};

/// Connections of questions beside the load.
const BESIDE: usize = 3;

/// A server whose connections are served after 20 ms each.
fn server() -> HttpServer {
    let server = HttpServer::start(|_: &Received| vec![Act::Send(good_answer())]);
    server.delay_connections(Duration::from_millis(20));
    server
}

fn run(server: &HttpServer, more: &str) -> Finished {
    Program::new().args("-m m --on-disturbance ignore --request-count 60 -u").arg(server.url()).args(more).run()
}

#[test]
fn each_request_has_its_own_and_pays_for_it() {
    for load in [
        "--sync --concurrency-range 3",
        "--async --concurrency-range 3",
        "--async --concurrency-range 6 --max-connections 2",
        "--request-rate-range 60",
    ] {
        let renewed = server();
        let level = run(&renewed, &format!("--connections new {load}")).report_even_if_late();
        assert_eq!(level.level().client_number("Request count"), 60.0, "{load}");
        assert!((60..=60 + BESIDE).contains(&renewed.connections()), "{load}: {}", renewed.connections());
        let p50 = level.level().client_number("p50 latency");
        assert!(p50 > 20_000.0, "{load}: {p50}");
        let kept = server();
        let level = run(&kept, load).report_even_if_late();
        assert!(kept.connections() < renewed.connections(), "{load}: {}", kept.connections());
        assert!(level.level().client_number("p50 latency") < p50, "{load}");
    }
}

#[test]
fn one_that_is_lost_costs_its_request_alone() {
    let server = HttpServer::start(|request: &Received| match request.ordinal % 3 {
        0 => vec![Act::Close],
        _ => vec![Act::Send(good_answer())],
    });
    let run = run(&server, "--connections new");
    assert_eq!(server.inferences(), 60, "{run:#?}");
    assert!(run.stdout.contains("Failed request count: 20 (33.33%)"), "{run:#?}");
}

#[test]
fn each_request_says_that_it_keeps_no_connection() {
    let server = HttpServer::start(|request: &Received| {
        assert_eq!(request.field("Connection"), Some("close"));
        vec![Act::Send(good_answer())]
    });
    run(&server, "--connections new").report();
}

#[test]
fn it_is_refused_where_it_has_no_meaning() {
    let run = |line: &str| Program::new().args("-m m").args(line).run();
    run("--service-kind triton_c_api --model-repository /nowhere --connections new").refusal(&["--connections"]);
    run("--connections sometimes").refusal(&["--connections", "new", "keep"]);
}

/// Servers close connections that have been idle for a while, and some after a number of requests, without a word before.
#[test]
fn timed_one_that_a_server_closes_between_requests_costs_none() {
    let closes = |_: &Received| vec![Act::Send(good_answer()), Act::Wait(Duration::from_millis(5)), Act::Close];
    let loads =
        ["", "--max-threads 1", "--sync", "--max-connections 2"].map(|more| format!("--request-rate-range 10 {more}"));
    for load in loads.iter().map(String::as_str).chain(["--stage rate:10:2s"]) {
        let server = HttpServer::start(closes);
        let count = if load.starts_with("--stage") { "" } else { "--request-count 20" };
        let program = Program::new().args("-m m --on-disturbance ignore").args(count).args("-u").arg(server.url());
        let report = program.args(load).run().report_even_if_late();
        assert_eq!(report.level().client_number("Request count"), 20.0, "{load}: {}", report.text);
        assert!(!report.text.contains("Failed"), "{load}: {}", report.text);
        assert!(server.connections() >= 20, "{load}: {}", server.connections());
    }
}

/// At a low rate few connections are used, however many slots there are: others would be idle for so long that servers close them.
#[test]
fn the_connection_that_was_used_last_is_used_next() {
    let server = HttpServer::start(|_: &Received| vec![Act::Send(good_answer())]);
    server.close_idle_after(Duration::from_millis(200));
    let program = Program::new().args("-m m --on-disturbance ignore --request-count 40 --request-rate-range 20");
    let report = program.args("--max-threads 1 -u").arg(server.url()).run().report_even_if_late();
    assert_eq!(report.level().client_number("Request count"), 40.0, "{}", report.text);
    assert!(server.connections() < 25, "{}", server.connections());
}

#[test]
fn a_matrix_of_a_server_that_runs_measures_what_there_is() {
    let (server, nobody) = (server(), closed());
    for (kind, named) in [
        (format!("transports -u {},{nobody}", server.url()), ["C API and C API + shared memory are left out", "gRPC "]),
        (format!("memory -u {}", server.url()), ["pinned ", "system shm "]),
    ] {
        let finished = Program::new().args("-m m --rounds 2 --request-count 5 --matrix").args(&kind).run();
        let said = format!("{}{}", finished.stderr, finished.stdout);
        assert!(named.iter().all(|words| said.contains(words)) && !said.contains("triton_c_api"), "{said}");
        assert_eq!(finished.code(), 0, "{said}");
    }
}

/// An address at which nobody listens.
fn closed() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}
