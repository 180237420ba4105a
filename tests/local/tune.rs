//! `tune` on servers that do not keep up, or go away.

use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::support::Program;
use crate::support::http_server::{Act, HttpServer, Received, good_answer, reply};

/// A server that loads models on request and answers one inference after the other, each after this time.
fn one_at_a_time(time: Duration) -> HttpServer {
    let turn = Mutex::new(());
    let server = HttpServer::start(move |_: &Received| {
        let alone = turn.lock().unwrap();
        thread::sleep(time);
        drop(alone);
        vec![Act::Send(good_answer())]
    });
    server.act_instead("load", vec![Act::Send(reply("200 OK", "", b""))]);
    server
}

fn result(folder: &tempfile::TempDir) -> Value {
    serde_json::from_slice(&std::fs::read(folder.path().join("result.json")).unwrap()).unwrap()
}

#[test]
fn a_server_that_goes_away_is_no_fault_of_candidates() {
    let mut server = one_at_a_time(Duration::from_millis(2));
    let folder = tempfile::tempdir().unwrap();
    let run =
        Program::new().args("tune -m m --search batch_size=1,2,4 --at-concurrency 2 --budget 20s --server-wait 1");
    let running = run.arg("-u").arg(server.url()).arg("--output").arg(folder.path()).start();
    running.wait_for("racing");
    server.kill();
    let finished = running.finish();
    assert_eq!(finished.code(), 99, "{}\n{}", finished.stdout, finished.stderr);
    assert!(finished.stderr.contains("the search ends here, because the server is gone"), "{}", finished.stderr);
    let result = result(&folder);
    let candidates = result["candidates"].as_array().unwrap();
    assert!(candidates.iter().all(|candidate| candidate["status"] != "failed"), "{result:#}");
    assert!(!finished.stdout.contains("could not be measured"), "{}", finished.stdout);
}

#[test]
fn timed_nothing_is_recommended_that_does_not_keep_up_with_the_rate() {
    let server = one_at_a_time(Duration::from_millis(10));
    let folder = tempfile::tempdir().unwrap();
    let run = Program::new().args("tune -m m --search batch_size=1,2 --at-rate 300 --constraint p99<60s --budget 10s");
    let finished = run.arg("-u").arg(server.url()).arg("--output").arg(folder.path()).run();
    assert_eq!(finished.code(), 2, "{}\n{}", finished.stdout, finished.stderr);
    let result = result(&folder);
    let sentence = result["verdict"]["sentence"].as_str().unwrap();
    assert!(sentence.contains("up with the rate"), "{sentence}");
    assert_eq!(result["verdict"]["winner"], Value::Null, "{result:#}");
}
