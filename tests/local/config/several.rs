//! Several runs from one file, by the whole program.

use std::time::Duration;
use std::{process, thread};

use serde_json::Value;

use super::*;
use crate::support::http_server::{Act, HttpServer, Received, good_answer};
use crate::support::{Program, Running, until};

fn good(_: &Received) -> Vec<Act> {
    vec![Act::Send(good_answer())]
}

fn requests(path: PathBuf) -> Value {
    let result: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).expect("the result is whole");
    result["levels"][0]["client"]["requests"].clone()
}

#[test]
fn every_run_is_done_and_the_gravest_code_counts() {
    let server = HttpServer::start(good);
    let text = format!(
        "model: m\nurl: {}\nruns:\n  first: {{request-count: 40, summary-file: F/first.json}}\n  gate:\n    extends: first\n    \
         summary-file: F/gate.json\n    require: throughput>=100000000\n  last: {{request-count: 50, summary-file: F/last.json}}\n",
        server.url()
    );
    let file = Config::of("");
    let folder = file.path().parent().unwrap().to_owned();
    fs::write(file.path(), text.replace('F', &folder.display().to_string())).unwrap();
    let run = Program::new().args("--config").arg(file.path()).run();
    assert_eq!(run.code(), 6, "{} {}", run.stdout, run.stderr);
    for heading in ["run 'first' (1 of 3)", "run 'gate' (2 of 3)", "run 'last' (3 of 3)"] {
        assert!(run.stderr.contains(heading), "{}", run.stderr);
    }
    for name in ["first", "gate", "last"] {
        assert!(folder.join(format!("{name}.json")).exists(), "{name}");
    }
    assert_ne!(requests(folder.join("last.json")), Value::Null);

    let run = Program::new().args("--run gate --require throughput>=0 --config").arg(file.path()).run();
    assert_eq!(run.code(), 0, "{} {}", run.stdout, run.stderr);
    assert!(!run.stderr.contains("run 'gate'"), "{}", run.stderr);
}

#[test]
fn what_cannot_be_done_is_said_before_anything_is() {
    let file = Config::of("model: m\ncsv: a.csv\nruns: {a: {}, b: {async: true, sync: true}}\n");
    assert!(file.error(&[]).starts_with("--run 'b': "), "{}", file.error(&[]));
    let file = Config::of("model: m\ncsv: a.csv\nruns: {a: {}, b: {seed: 2}}\n");
    let twice = file.error(&["--run", "a", "--run", "a"]);
    assert!(twice.starts_with("--csv=a.csv: the runs 'a' and 'a' would overwrite"), "{twice}");
    assert_eq!(
        file.error(&[]),
        "--csv=a.csv: the runs 'a' and 'b' would overwrite each other's file; give each its own"
    );
}

#[test]
fn a_file_is_the_same_however_it_is_named() {
    let config = |first: &str, second: &str| {
        Config::of(&format!("model: m\nmodel-repository: /r\nruns: {{a: {{{first}}}, b: {{{second}}}}}\n"))
    };
    for (first, second) in [
        ("csv: x.csv", "csv: ./x.csv"),
        ("csv: src/../x.csv", "csv: x.csv"),
        ("csv: x.csv", "markdown: x.csv"),
        ("svg: 'throughput:x.svg'", "svg: 'spectrum:x.svg'"),
        ("resume: x.json", "resume: x.json"),
        ("resume: x.json", "summary-file: x.json"),
        ("log-file: /tmp/../l", "log-file: /l"),
    ] {
        let error = config(first, second).error(&[]);
        assert!(error.contains("the runs 'a' and 'b' would overwrite each other's file"), "{first} {second}: {error}");
    }
    for (first, second) in [
        ("csv: x.csv", "csv: y.csv"),
        ("csv: /dev/null", "csv: /dev/null"),
        ("resume: x.json, summary-file: a.json", "resume: x.json, summary-file: b.json"),
    ] {
        assert!(matches!(config(first, second).and(&[]), Ok(Command::Runs(_))), "{first} {second}");
    }
}

#[test]
fn the_rank_is_put_in_wherever_flags_come_from() {
    let printed = |program: Program| {
        let run = program.env("OMPI_COMM_WORLD_RANK", "3").args("--print-config").run();
        assert_eq!(run.code(), 0, "{}", run.stderr);
        run.stdout
    };
    let of_file = |text: &str| {
        let file = Config::of(text);
        printed(Program::new().args("--config").arg(file.path()))
    };
    let lines = of_file("model: m\nenable-mpi: true\ncsv: out{rank}.csv\n");
    assert!(lines.contains("csv: out3.csv"), "{lines}");
    let several = of_file("model: m\nenable-mpi: true\nruns:\n  a:\n    csv: a{rank}.csv\n  b:\n    seed: 2\n");
    assert!(several.contains("csv: a3.csv"), "{several}");
    let shortened = printed(Program::new().args("-m m --enable-m -f out{rank}.csv"));
    assert!(shortened.contains("csv: out3.csv"), "{shortened}");
    let without = of_file("model: m\ncsv: out{rank}.csv\n");
    assert!(without.contains("out{rank}.csv"), "{without}");
}

/// A file of two runs of a minute each against `server`, with results and an export in its folder.
fn two_long_runs(server: &HttpServer) -> (Config, PathBuf) {
    let file = Config::of("");
    let folder = file.path().parent().unwrap().to_owned();
    let run = |name: &str| {
        let folder = folder.display();
        format!(
            "  {name}: {{measurement-interval: 60000, summary-file: {folder}/{name}.json, profile-export-file: \
             {folder}/{name}-requests.json}}\n"
        )
    };
    fs::write(file.path(), format!("model: m\nurl: {}\nruns:\n{}{}", server.url(), run("first"), run("last"))).unwrap();
    (file, folder)
}

/// Starts the runs, and waits until the first has sent so many requests that its window has begun.
fn under_way(program: Program, file: &Config, server: &HttpServer) -> Running {
    let running = program.args("--config").arg(file.path()).start();
    until(|| server.inferences() >= 1000, "the run does not measure");
    running
}

#[test]
fn what_a_whole_group_is_sent_interrupts_once() {
    let server = HttpServer::start(good);
    let (file, folder) = two_long_runs(&server);
    let running = under_way(Program::new().through(process::Command::new("setsid")), &file, &server);
    let group = format!("-{}", running.id());
    assert!(process::Command::new("kill").args(["-TERM", "--", &group]).status().unwrap().success());
    let run = running.finish();
    assert_eq!(run.code(), 0, "{} {}", run.stdout, run.stderr);
    assert!(run.stderr.contains("the runs from 'last' on are left out"), "{}", run.stderr);
    assert!(requests(folder.join("first.json")).as_u64().unwrap() > 0);
    assert!(folder.join("first-requests.json").exists() && !folder.join("last.json").exists());
}

#[test]
fn runs_that_hangups_are_kept_from_go_on() {
    let server = HttpServer::start(good);
    let (file, folder) = two_long_runs(&server);
    let running = under_way(Program::new().under("trap '' HUP"), &file, &server);
    running.signal(1);
    thread::sleep(Duration::from_millis(300));
    running.signal(2);
    let run = running.finish();
    assert_eq!(run.code(), 0, "{} {}", run.stdout, run.stderr);
    assert_eq!(
        run.stdout.matches("interrupted; reporting").count() + run.stderr.matches("interrupted; reporting").count(),
        1
    );
    assert!(folder.join("first.json").exists());
}

/// The memory that a process of ours has in the system's shared memory.
fn shared_memory_of(process: &str) -> Vec<OsString> {
    let names = fs::read_dir("/dev/shm").unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().starts_with(&format!("triton-bench-{process}-"))).collect()
}

#[test]
fn a_run_cleans_up_when_its_file_is_quit() {
    let server = HttpServer::start(good);
    let (file, _) = two_long_runs(&server);
    let running = under_way(Program::new().args("--shared-memory system"), &file, &server);
    let id = running.id();
    let run = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap().trim().to_owned();
    assert!(!shared_memory_of(&run).is_empty(), "process {run}");
    running.signal(3);
    let finished = running.finish();
    assert_eq!(finished.signal(), Some(3), "{}", finished.stderr);
    assert!(shared_memory_of(&run).is_empty(), "{:?}", shared_memory_of(&run));
}
