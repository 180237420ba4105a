//! `--sweep` against a server that one request at a time can ask, because the client holds the others back.

use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::Program;
use crate::support::http_server::{Act, HttpServer, Received, reply};

#[test]
fn timed_what_holds_the_client_back_is_told_and_is_no_fault_of_flags() {
    let turn = Mutex::new(());
    let server = HttpServer::start(move |_: &Received| {
        // One at a time, each 5 ms: evenly spaced requests find it idle, drawn gaps often do not.
        let alone = turn.lock().unwrap();
        thread::sleep(Duration::from_millis(5));
        drop(alone);
        let body = r#"{"choices":[{"text":"hi","finish_reason":"stop"}]}"#;
        vec![Act::Send(reply("200 OK", "Content-Type: application/json\r\n", body.as_bytes()))]
    });
    let run = Program::new().args("-m m --service-kind openai --endpoint v1/completions --prompt-tokens 4");
    let run = run.args("--sweep linear:2 --request-distribution poisson -p 500 -s 1000000 --max-outstanding 1");
    let finished = run.args("--on-disturbance mark -u").arg(server.url()).run();
    assert_eq!(finished.code(), 4, "{}\n{}", finished.stdout, finished.stderr);
    let line = finished.stderr.lines().find(|line| line.contains("--sweep: ")).unwrap_or_default();
    assert!(line.contains("sustained") && line.contains("--max-outstanding"), "{}", finished.stderr);
    assert!(!finished.stderr.contains("sustained no rate"), "{}", finished.stderr);
}

#[test]
fn timed_a_server_that_sheds_load_is_asked_for_less_at_once() {
    let turn = Mutex::new(());
    let waiting = AtomicUsize::new(0);
    let server = HttpServer::start(move |_: &Received| {
        // One at a time, each 10 ms; whoever would be the sixth is sent away.
        if waiting.fetch_add(1, Relaxed) >= 5 {
            waiting.fetch_sub(1, Relaxed);
            return vec![Act::Send(reply("503 Service Unavailable", "", b"{\"error\":\"busy\"}"))];
        }
        let alone = turn.lock().unwrap();
        thread::sleep(Duration::from_millis(10));
        drop(alone);
        waiting.fetch_sub(1, Relaxed);
        let body = r#"{"choices":[{"text":"hi","finish_reason":"stop"}]}"#;
        vec![Act::Send(reply("200 OK", "Content-Type: application/json\r\n", body.as_bytes()))]
    });
    let run = Program::new().args("-m m --service-kind openai --endpoint v1/completions --prompt-tokens 4");
    let run = run.args("--sweep linear:2 -p 500 -s 1000000 --on-disturbance ignore -u").arg(server.url()).run();
    assert!(run.stderr.contains("sweep: of 256 requests at once, more fail"), "{}", run.stderr);
    let line = run.stdout.lines().find(|line| line.starts_with("Saturation: ")).expect(&run.stderr);
    // It completes 100 a second, and one in a hundred may fail.
    let rate: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!((40.0..=102.0).contains(&rate), "{line}");
}

#[test]
fn a_server_whose_answers_take_longer_than_a_window_is_waited_for() {
    const BURSTS: usize = 256 + 32;
    let server = HttpServer::start(move |_: &Received| {
        let body = r#"{"choices":[{"text":"hi","finish_reason":"stop"}]}"#;
        let answer = Act::Send(reply("200 OK", "Content-Type: application/json\r\n", body.as_bytes()));
        vec![Act::Wait(Duration::from_millis(1_800)), answer]
    });
    let run = Program::new().args("-m m --service-kind openai --endpoint v1/completions --prompt-tokens 4");
    let run = run.args("--sweep linear:2 -p 500 -s 1000000 --on-disturbance ignore -u").arg(server.url());
    let running = run.start();
    let started = Instant::now();
    // Rates are tried once a burst has been answered.
    while server.inferences() < BURSTS + 64 {
        assert!(started.elapsed() < Duration::from_secs(40), "{} requests", server.inferences());
        thread::sleep(Duration::from_millis(10));
    }
    running.signal(2);
    let stderr = running.finish().stderr;
    assert!(stderr.contains("sweep: of 256 requests at once, none ended in 500ms; fewer, for longer"), "{stderr}");
    assert!(!stderr.contains("no request ended") && !stderr.contains("of 32 requests"), "{stderr}");
}
