//! What contradicts itself while it is measured is said: the server's counts, a client that stood still. And lines of our own
//! do not contradict what scripts expect of perf_analyzer's.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::support::Program;
use crate::support::http_server::{Act, HttpServer, Received, good_answer, reply};

fn slow(_: &Received) -> Vec<Act> {
    vec![Act::Wait(Duration::from_millis(5)), Act::Send(good_answer())]
}

fn on(server: &HttpServer) -> Program {
    Program::new().args("-m m --on-disturbance ignore -u").arg(server.url())
}

#[test]
fn counts_of_the_server_that_are_not_the_clients_are_said() {
    // It counts nothing.
    let server = HttpServer::start(slow);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("s.json");
    let run = on(&server).args("-p 300 -r 3 -s 900 --summary-file").arg(&file).run();
    let report = run.report();
    let warning = "[WARNING] the server counted 0 requests for model 'm' while the client counted ";
    assert!(report.text.contains(warning), "{}", report.text);
    let result: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let level = &result["levels"][0];
    let remark = &level["remarks"][0];
    assert_eq!((&remark["kind"], &remark["count"]), (&"server_counts".into(), &0.into()));
    assert_eq!(remark["of"], level["client"]["requests"]);
}

#[test]
fn a_program_that_was_stopped_says_so() {
    for load in ["--request-count 300", "--stage concurrency:1:3s", "-p 500 -r 4 -s 900"] {
        let requests = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&requests);
        let server = HttpServer::start(move |request: &Received| {
            count.fetch_add(1, Ordering::Relaxed);
            slow(request)
        });
        let running = on(&server).args(load).start();
        while requests.load(Ordering::Relaxed) < 60 {
            thread::sleep(Duration::from_millis(1));
        }
        running.signal(libc::SIGSTOP);
        thread::sleep(Duration::from_millis(1500));
        running.signal(libc::SIGCONT);
        let run = running.finish();
        assert!(run.stdout.contains("this process stood still for 1."), "{load}: {run:#?}");
        assert!(!run.stdout.contains("Verdict: valid") || run.stdout.contains("outside of the windows"), "{run:#?}");
    }
}

#[test]
fn scripts_find_perf_analyzers_lines_and_no_others() {
    let server = HttpServer::start(slow);
    let run = on(&server).named_perf_analyzer().args("-p 300 -r 3 -s 900 --request-rate-range 50").run();
    for word in ["p50", "p90", "p95", "p99"] {
        let found: Vec<&str> = run.stdout.lines().filter(|line| line.contains(word)).collect();
        let [only] = found[..] else { panic!("{word}: {found:#?}") };
        assert!(only.split_whitespace().nth(2).unwrap().parse::<u64>().is_ok(), "{only}");
    }
    let found: Vec<&str> = run.stdout.lines().filter(|line| line.contains("infer/sec")).collect();
    assert!(found.iter().all(|line| line.contains("hroughput: ") || line.contains("send request rate")), "{found:#?}");
    assert!(run.stdout.contains("Schedule delay: avg") && run.stdout.contains("P99"), "{}", run.stdout);
}

/// As Model Analyzer gives it: one command for several models.
#[test]
fn a_shape_of_no_input_is_only_refused_under_our_own_name() {
    let server = HttpServer::start(slow);
    let program = || on(&server).args("--request-count 4 --shape NONE:1");
    let run = program().named_perf_analyzer().run();
    assert!(run.code() == 0 && run.stderr.contains("--shape NONE has no effect"), "{run:#?}");
    program().run().refusal(&["--shape NONE", "no input of this name"]);
}

#[test]
fn a_counted_load_that_ends_for_its_failures_says_so() {
    let failing = |_: &Received| {
        let refused = reply("500 Internal Server Error", "", b"{\"error\":\"no\"}");
        vec![Act::Wait(Duration::from_millis(5)), Act::Send(refused)]
    };
    let run = on(&HttpServer::start(failing)).args("--request-count 100000").run();
    assert!(run.code() == 3 && run.stderr.contains("the load ends before all 100000 requests are sent"), "{run:#?}");
}
