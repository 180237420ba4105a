//! `--sweep` against a server that one request at a time can ask, because the client holds the others back.

use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::support::Program;
use crate::support::http_server::{Act, HttpServer, Received, reply};

#[test]
fn timed_what_holds_the_client_back_is_told_and_is_no_fault_of_flags() {
    let turn = Mutex::new(());
    let server = HttpServer::start(move |_: &Received| {
        // One at a time, each 5 ms: evenly spaced requests find it idle, drawn gaps often do not.
        let alone = turn.lock().unwrap();
        std::thread::sleep(Duration::from_millis(5));
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
        std::thread::sleep(Duration::from_millis(10));
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
fn timed_a_server_whose_answers_take_longer_than_a_window_is_waited_for() {
    let server = HttpServer::start(move |_: &Received| {
        let body = r#"{"choices":[{"text":"hi","finish_reason":"stop"}]}"#;
        let answer = Act::Send(reply("200 OK", "Content-Type: application/json\r\n", body.as_bytes()));
        vec![Act::Wait(Duration::from_millis(1_800)), answer]
    });
    let run = Program::new().args("-m m --service-kind openai --endpoint v1/completions --prompt-tokens 4");
    let run = run.args("--sweep linear:2 -p 500 -s 1000000 --max-outstanding 40 --on-disturbance ignore -u");
    let run = run.arg(server.url()).run();
    assert!(run.stderr.contains("requests at once, none ended in 500ms; fewer, for longer"), "{}", run.stderr);
    assert!(run.stderr.contains(" requests/sec: sustained"), "{}", run.stderr);
    assert!(!run.stderr.contains("no request ended"), "{}", run.stderr);
}
