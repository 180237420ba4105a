//! Interrupts of runs over HTTP: what was measured stays, what was not is not shown, and what fails for them is no failure.

use std::fs;
use std::io::PipeWriter;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use serde_json::Value;

use crate::support::http_server::{Act, HttpServer, Received, good_answer};
use crate::support::watched::Watched;
use crate::support::{Finished, Program, Running};

const SIGINT: i32 = 2;
const SIGTERM: i32 = 15;

/// A server that answers after so many milliseconds.
fn server(ms: u64) -> HttpServer {
    HttpServer::start(move |_: &Received| vec![Act::Wait(Duration::from_millis(ms)), Act::Send(good_answer())])
}

fn on(server: &HttpServer) -> Program {
    Program::new().args("-m m --on-disturbance ignore -s 1000000 -u").arg(server.url())
}

/// Waits until the server has been asked for so many inferences in all.
fn wait_for_requests(server: &HttpServer, count: usize) {
    let started = Instant::now();
    while server.inferences() < count {
        assert!(started.elapsed() < Duration::from_secs(20), "{} requests", server.inferences());
        thread::sleep(Duration::from_millis(1));
    }
}

fn interrupted(running: Running) -> Finished {
    running.signal(SIGINT);
    running.finish()
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).expect("it is whole")
}

fn levels(path: &Path) -> Vec<Value> {
    json(path)["levels"].as_array().unwrap().clone()
}

/// Nothing was measured, which the report says, and no figure is there.
fn assert_nothing(finished: &Finished, label: &str) {
    assert_eq!(finished.code(), 130, "{label}: {finished:#?}");
    let all = finished.stdout.clone() + &finished.stderr;
    assert!(all.contains("nothing was measured"), "{label}: {finished:#?}");
    assert!(!all.contains("infer/s") && !all.contains("ended early"), "{label}: {finished:#?}");
}

#[test]
fn a_run_that_measures_nothing_leaves_older_files_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let names = ["r.json", "r.csv", "r.html", "j.xml"];
    for (flags, ms) in [
        ("--warmup-request-count 5000", 1),
        ("--warmup-request-count 5000 --request-count 9", 1),
        ("--warmup-duration 60s", 1),
        ("--warmup-duration 60s --stage rate:50:5s", 1),
        ("--warm-up concurrency:1:60s", 1),
        ("-p 60000", 1_000),
        ("--request-count 9", 1_000),
        ("--stage concurrency:1:60s", 1_000),
    ] {
        let server = server(ms);
        names.iter().for_each(|name| fs::write(folder.path().join(name), "old").unwrap());
        let file = |name: &str| folder.path().join(name);
        let program = on(&server).args(flags).arg("--summary-file").arg(file("r.json")).arg("-f").arg(file("r.csv"));
        let running = program.arg("--report").arg(file("r.html")).arg("--junit").arg(file("j.xml"));
        let running = running.args("--require p50<10s").start();
        wait_for_requests(&server, if ms > 1 { 1 } else { 20 });
        assert_nothing(&interrupted(running), flags);
        for name in names {
            assert_eq!(fs::read_to_string(file(name)).unwrap(), "old", "{flags}: {name}");
        }
    }
}

#[test]
fn no_export_has_requests_of_a_warm_up_that_was_interrupted() {
    for warm_up in ["--warmup-duration 60s", "--warmup-request-count 50000", "--warm-up concurrency:1:60s"] {
        let (server, folder) = (server(1), tempfile::tempdir().unwrap());
        let file = folder.path().join("p.json");
        let running = on(&server).args(warm_up).arg("--profile-export-file").arg(&file).start();
        wait_for_requests(&server, 200);
        assert_nothing(&interrupted(running), warm_up);
        assert!(!file.exists(), "{warm_up}: {}", fs::read_to_string(file).unwrap());
    }
    let (server, folder) = (server(1), tempfile::tempdir().unwrap());
    let (file, result) = (folder.path().join("p.json"), folder.path().join("r.json"));
    let program = on(&server).args("--warmup-duration 700ms -p 100 -r 3 --concurrency-range 1:9 --profile-export-file");
    let running = program.arg(&file).arg("--summary-file").arg(&result).start();
    let started = Instant::now();
    while !result.exists() {
        assert!(started.elapsed() < Duration::from_secs(20), "no level");
        thread::sleep(Duration::from_millis(1));
    }
    wait_for_requests(&server, server.inferences() + 100);
    let finished = interrupted(running);
    assert!(finished.stderr.contains("interrupted while it warmed up"), "{finished:#?}");
    let experiments = json(&file)["experiments"].as_array().unwrap().clone();
    assert_eq!((experiments.len(), levels(&result).len()), (1, 1), "{}", finished.stderr);
    assert!(!experiments[0]["requests"].as_array().unwrap().is_empty());
}

#[test]
fn a_resumed_run_that_measures_less_of_a_level_keeps_what_there_was() {
    let (server, folder) = (server(2), tempfile::tempdir().unwrap());
    let file = folder.path().join("r.json");
    for load in ["-p 60000 --concurrency-range 4", "--stage concurrency:4:60s"] {
        let start = |flag: &str| on(&server).args(load).arg(flag).arg(&file).start();
        let before = server.inferences();
        let running = start("--summary-file");
        wait_for_requests(&server, before + 1_000);
        interrupted(running).report();
        let first = levels(&file)[0]["client"]["requests"].as_u64().unwrap();
        assert!(first > 500, "{first}");
        let before = server.inferences();
        let running = start("--resume");
        wait_for_requests(&server, before + 200);
        let resumed = interrupted(running);
        assert_eq!(resumed.code(), 0, "{resumed:#?}");
        assert!(resumed.stderr.contains("the earlier run has measured more of it, which stays"), "{resumed:#?}");
        let kept = levels(&file);
        assert_eq!((kept.len(), kept[0]["client"]["requests"].as_u64()), (1, Some(first)), "{load}");
        // Others are interrupted as they begin.
        for pause in (20..120).step_by(20) {
            let running = start("--resume");
            thread::sleep(Duration::from_millis(pause));
            let resumed = interrupted(running);
            let kept = levels(&file);
            assert_eq!((kept.len(), kept[0]["client"]["requests"].as_u64()), (1, Some(first)), "{load}: {pause} ms");
            assert!(!resumed.stdout.contains(" 0 infer/s"), "{load}: {pause} ms: {resumed:#?}");
        }
        // One that measures more has its own.
        let before = server.inferences();
        let running = start("--resume");
        wait_for_requests(&server, before + 2_000);
        interrupted(running).report();
        assert!(levels(&file)[0]["client"]["requests"].as_u64() > Some(first), "{load}");
    }
}

#[test]
fn what_a_silent_server_leaves_unread_after_an_interrupt_is_no_failure() {
    for load in ["--stage rate:50:60s", "--stage concurrency:2:60s", "-p 60000", "--request-rate-range 50 -p 60000"] {
        let server = server(2);
        let running = on(&server).args(load).start();
        wait_for_requests(&server, 40);
        server.act_instead("/stats", vec![Act::Wait(Duration::from_secs(3))]);
        let finished = interrupted(running);
        finished.report();
        assert!(finished.stdout.contains("[interrupted]"), "{load}: {finished:#?}");
        assert!(!finished.stderr.contains("ended early"), "{load}: {finished:#?}");
    }
}

/// `timeout` signals the program, and then its group.
#[test]
fn two_signals_of_one_cause_are_one_interrupt() {
    for pause in [0, 5, 20, 80] {
        let server = server(2);
        let running = on(&server).args("-p 60000").start();
        wait_for_requests(&server, 20);
        running.signal(SIGTERM);
        thread::sleep(Duration::from_millis(pause));
        running.try_signal(SIGTERM);
        running.finish().report();
    }
    let server = server(3_000);
    let running = on(&server).args("-p 60000").start();
    wait_for_requests(&server, 1);
    running.signal(SIGTERM);
    thread::sleep(Duration::from_millis(300));
    running.signal(SIGTERM);
    let finished = running.finish();
    assert!(finished.code() == 130 && !finished.stderr.contains("nothing was measured"), "{finished:#?}");
}

/// Fills a pipe that nobody reads: it takes nothing more.
fn fill(writer: &PipeWriter) {
    let flags = fcntl_getfl(writer).unwrap();
    fcntl_setfl(writer, flags | OFlags::NONBLOCK).unwrap();
    while rustix::io::write(writer, &[b'x'; 4096]).is_ok() {}
    fcntl_setfl(writer, flags).unwrap();
}

#[test]
fn a_report_that_nobody_reads_keeps_no_interrupted_run_from_its_end() {
    for signal in [SIGINT, SIGTERM] {
        let (server, folder, (_reader, writer)) = (server(1), tempfile::tempdir().unwrap(), std::io::pipe().unwrap());
        let file = folder.path().join("r.json");
        let program = on(&server).args("-p 60000 --summary-file").arg(&file);
        let mut command = Command::new(program.command().get_program());
        command.args(program.command().get_args()).stdin(Stdio::null()).stderr(Stdio::null());
        command.stdout(writer.try_clone().unwrap());
        let mut process = Watched::start(&mut command);
        wait_for_requests(&server, 200);
        fill(&writer);
        process.signal(signal);
        let status = process.wait(Duration::from_secs(60));
        assert_eq!(status.code(), Some(99), "{status:?}");
        assert_eq!(levels(&file).len(), 1, "what was measured is in its file");
    }
}
