//! Loads that end by themselves, against servers of known answer times: every request that was sent is waited for and
//! counted where it was sent, and a load is judged by its backlog, not by what was over in time.

use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::http_server::{Act, HttpServer, Received, good_answer, reply};
use crate::support::{Finished, Program};

/// Milliseconds that the server takes for each request in turn, 500 to 2000: 900 on average.
const TIMES: [u64; 6] = [500, 2_000, 600, 700, 800, 800];

fn answer_after(ms: u64) -> Vec<Act> {
    vec![Act::Wait(Duration::from_millis(ms)), Act::Send(good_answer())]
}

fn long_answers() -> HttpServer {
    HttpServer::start(|request: &Received| answer_after(TIMES[request.ordinal % TIMES.len()]))
}

/// A run on a server, and its result file.
fn run(server: &HttpServer, folder: &Path, load: &str) -> (Finished, Value) {
    let result = folder.join("result.json");
    let program = Program::new().args("-m m --on-disturbance ignore --summary-file").arg(&result);
    let finished = program.args(load).args("-u").arg(server.url()).run();
    let text = fs::read_to_string(&result).unwrap_or_else(|error| panic!("{error}: {finished:#?}"));
    (finished, serde_json::from_str(&text).unwrap())
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// The requests of a level, their mean time from the send in milliseconds, and its outcome.
fn level(level: &Value) -> (u64, f64, &str) {
    let client = &level["client"];
    let times = client["open_loop"].get("service_time").unwrap_or(&client["latency"]);
    let mean = times["mean_ns"].as_f64().unwrap();
    (client["requests"].as_u64().unwrap(), mean / 1e6, level["outcome"].as_str().unwrap())
}

fn assert_level(value: &Value, requests: u64, mean: f64, label: &str) {
    let (found, took, outcome) = level(value);
    assert_eq!(found, requests, "{label}");
    // A busy machine may send late.
    assert!(matches!(outcome, "valid" | "load not delivered"), "{label}: {outcome}");
    assert!((took / mean - 1.0).abs() < 0.08, "{label}: {took} ms instead of {mean} ms");
}

/// What was answered before a server stands still says nothing of it: the level goes on until the requests have come that waited.
#[test]
fn timed_a_server_that_stands_still_is_waited_for() {
    let stands = |request: &Received| answer_after(if (240..244).contains(&request.ordinal) { 2_500 } else { 20 });
    let (server, folder) = (HttpServer::start(stands), folder());
    let (finished, result) = run(&server, folder.path(), "--concurrency-range 4 -p 500 --max-trials 10");
    let level = &result["levels"][0];
    let latency = &level["client"]["latency"];
    assert_ne!(level["outcome"], "inconsistent", "{}", finished.stdout);
    assert!(latency["max_ns"].as_f64().unwrap() >= 2.5e9, "{}", finished.stdout);
    assert!(level["windows"].as_array().unwrap().len() > 5, "{}", finished.stdout);
}

#[test]
fn timed_a_stage_has_all_that_it_sent_wherever_that_ends() {
    let stages = "--stage rate:20:1500ms --stage rate:10:1200ms --stage rate:20:900ms";
    for edges in ["", "--stage-edges overlap", "--stage-edges drain"] {
        let (server, folder) = (long_answers(), folder());
        let export = folder.path().join("export.json");
        let load = format!("{stages} {edges} --profile-export-file {}", export.display());
        let (finished, result) = run(&server, folder.path(), &load);
        finished.report_even_if_late();
        let levels = result["levels"].as_array().unwrap();
        // Each sends a multiple of six.
        for (stage, requests) in levels.iter().zip([30, 12, 18]) {
            assert_level(stage, requests, 900.0, edges);
        }
        let export: Value = serde_json::from_str(&fs::read_to_string(&export).unwrap()).unwrap();
        let exported = export["experiments"].as_array().unwrap().iter();
        let exported: Vec<usize> =
            exported.map(|experiment| experiment["requests"].as_array().unwrap().len()).collect();
        assert_eq!(exported, [30, 12, 18], "{edges}");
        // What was sent after 1.25 s took 2 s.
        let seconds = levels[0]["client"]["duration_s"].as_f64().unwrap();
        assert!((3.2..3.4).contains(&seconds), "{edges}: {seconds}");
        let sends = &levels[0]["client"]["sending"];
        assert!((sends["last_s"].as_f64().unwrap() - 1.45).abs() < 0.1, "{edges}: {sends}");
    }
}

/// The same load on a server that answers one request after the other.
#[test]
fn timed_a_stage_whose_backlog_grows_is_overloaded() {
    let one_at_a_time = Mutex::new(());
    let server = HttpServer::start(move |_: &Received| {
        let _alone = one_at_a_time.lock().unwrap();
        std::thread::sleep(Duration::from_millis(80));
        vec![Act::Send(good_answer())]
    });
    let folder = folder();
    let (finished, result) =
        run(&server, folder.path(), "--stage rate:25:2s --stage-edges drain --stage concurrency:1:5req");
    assert_eq!(finished.code(), 4, "{} {}", finished.stdout, finished.stderr);
    let (requests, mean, outcome) = level(&result["levels"][0]);
    assert_eq!((requests, outcome), (50, "overloaded"), "{}", finished.stdout);
    // The last of 50 waits for 4 s - 2 s.
    assert!(mean > 800.0, "{mean}");
    let completed = result["levels"][0]["client"]["open_loop"]["completed_rate"].as_f64().unwrap();
    assert!((6.0..15.0).contains(&completed), "{completed} a second of 12.5");
}

#[test]
fn timed_rates_and_schedules_of_long_answers_are_whole_and_no_overload() {
    let folder = folder();
    let trace = folder.path().join("trace.csv");
    let rows: Vec<String> = (0..30).map(|number| format!("{}\n", number * 50)).collect();
    fs::write(&trace, format!("offset_ms\n{}", rows.concat())).unwrap();
    for load in [format!("--trace-replay {}", trace.display()), "--request-rate-range 20 --request-count 30".to_owned()]
    {
        let server = long_answers();
        let (finished, result) = run(&server, folder.path(), &load);
        finished.report_even_if_late();
        assert_level(&result["levels"][0], 30, 900.0, &load);
    }
}

#[test]
fn timed_conversations_are_played_to_their_last_answer() {
    let server = HttpServer::start(|request: &Received| {
        let body = r#"{"choices":[{"message":{"content":"hi"}}],"usage":{"completion_tokens":2}}"#;
        let text = String::from_utf8_lossy(&request.body).into_owned();
        // The last turn of the longest conversation outlasts everything else.
        let wait = if text.contains("s2/2") { 900 } else { 100 };
        let head = "Content-Type: application/json\r\n";
        vec![Act::Wait(Duration::from_millis(wait)), Act::Send(reply("200 OK", head, body.as_bytes()))]
    });
    let folder = folder();
    let turn = |session: usize, turn: usize| {
        let message = json!({ "role": "user", "content": format!("s{session}/{turn}") });
        json!({ "payload": [{ "model": "m", "messages": [message] }], "session_id": [format!("s{session}")] })
    };
    let turns: Vec<Value> = (0..3).flat_map(|session| (0..3).map(move |number| turn(session, number))).collect();
    fs::write(folder.path().join("data.json"), json!({ "data": turns }).to_string()).unwrap();
    let load = format!(
        "--service-kind openai --endpoint v1/chat/completions --session-concurrency 3 --input-data {}",
        folder.path().join("data.json").display()
    );
    let (finished, result) = run(&server, folder.path(), &load);
    assert_eq!(finished.code(), 0, "{} {}", finished.stdout, finished.stderr);
    assert_level(&result["levels"][0], 9, 1_700.0 / 9.0, "sessions");
    let seconds = result["levels"][0]["client"]["duration_s"].as_f64().unwrap();
    assert!((1.1..1.3).contains(&seconds), "{seconds}");
}

#[test]
fn timed_an_interrupt_ends_the_wait_for_the_last_answers_and_keeps_the_others() {
    for edges in ["overlap", "drain"] {
        let server = HttpServer::start(|request: &Received| match request.ordinal {
            // In the middle of the first stage.
            10 => answer_after(20_000),
            _ => answer_after(20),
        });
        let folder = folder();
        let result = folder.path().join("result.json");
        let program = Program::new().args("-m m --on-disturbance ignore --summary-file").arg(&result);
        let stages = format!("--stage rate:20:1s --stage-edges {edges} --stage rate:20:400ms");
        let running = program.args(&stages).args("-u").arg(server.url()).start();
        while server.inferences() < if edges == "drain" { 20 } else { 28 } {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(300));
        running.signal(2);
        let interrupted = Instant::now();
        let finished = running.finish();
        assert!(interrupted.elapsed() < Duration::from_secs(3), "{edges}: {:?}", interrupted.elapsed());
        let result: Value = serde_json::from_str(&fs::read_to_string(&result).unwrap()).unwrap();
        let levels: Vec<(u64, &str)> = result["levels"]
            .as_array()
            .unwrap()
            .iter()
            .map(level)
            .map(|(count, _, outcome)| (count, if outcome == "interrupted" { outcome } else { "whole" }))
            .collect();
        let wanted: &[(u64, &str)] =
            if edges == "drain" { &[(19, "interrupted")] } else { &[(19, "interrupted"), (8, "whole")] };
        assert_eq!(levels, wanted, "{edges}: {} {}", finished.stdout, finished.stderr);
        assert!(finished.stderr.contains("1 requests had no answer when the level ended"), "{}", finished.stderr);
    }
}

#[test]
fn timed_a_ramp_sends_more_and_more() {
    let stamps = Mutex::new(Vec::new());
    let stamps: &'static Mutex<Vec<Instant>> = Box::leak(Box::new(stamps));
    let server = HttpServer::start(move |_| {
        stamps.lock().unwrap().push(Instant::now());
        vec![Act::Send(good_answer())]
    });
    let folder = folder();
    let (finished, result) = run(&server, folder.path(), "--stage ramp:20-180:3s --stage ramp:180-20:300req");
    // A busy machine may send late.
    assert!([0, 4].contains(&finished.code()), "{finished:#?}");
    let levels = result["levels"].as_array().unwrap();
    assert_eq!(levels.iter().map(|value| level(value).0).collect::<Vec<_>>(), [300, 300], "100/s on average");
    let stamps = stamps.lock().unwrap();
    let by = |ms| stamps.iter().filter(|stamp| **stamp - stamps[0] < Duration::from_millis(ms)).count();
    // 20·1.5 + 160·1.5² / 6 = 90 in the first half; in the second stage, 210.
    assert!(by(1_500).abs_diff(90) < 12, "{}", by(1_500));
    assert!(by(4_500).abs_diff(510) < 12, "{}", by(4_500));
}

/// A third of what is sent in the first window is answered after it, and the server never queues.
#[test]
fn timed_a_rate_whose_answers_take_long_is_kept_up_with() {
    for (ms, rate) in [(300, 15), (1_500, 4)] {
        let (server, folder) = (HttpServer::start(move |_: &Received| answer_after(ms)), folder());
        let load = format!("--request-rate-range {rate} -p 1000");
        let (finished, result) = run(&server, folder.path(), &load);
        let level = &result["levels"][0];
        assert!(matches!(level["outcome"].as_str().unwrap(), "valid" | "load not delivered"), "{}", finished.stdout);
        let completed = level["client"]["open_loop"]["completed_rate"].as_f64().unwrap();
        assert!((completed / f64::from(rate) - 1.0).abs() < 0.07, "{completed} of {rate}: {}", finished.stdout);
    }
}
