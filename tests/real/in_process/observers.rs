//! A profile export that nobody reads, that runs out of space, or that disappears: the load is not affected.

use std::fs;
use std::io::Read;
use std::process::Command;
use std::sync::mpsc;
use std::thread;

use crate::support::{Export, Model, Program, Repository};

const COUNT: u64 = 3_000;

fn exporting(repository: &Repository, name: &str) -> Program {
    let flags = format!("--async --concurrency-range 4 --request-count {COUNT} --profile-export-file");
    Program::on(repository, "m").args(&flags).arg(repository.file(name))
}

fn pipe(repository: &Repository) {
    assert!(Command::new("mkfifo").arg(repository.file("pipe")).status().unwrap().success());
}

#[test]
fn a_pipe_that_is_read_late_gets_everything_and_holds_nothing_back() {
    let repository = Repository::counted(Model::identity("m"));
    pipe(&repository);
    let path = repository.file("pipe");
    let (go_on, wait) = mpsc::channel::<()>();
    let reader = thread::spawn(move || {
        let mut file = fs::File::open(path).unwrap();
        let _ = wait.recv();
        let mut text = String::new();
        file.read_to_string(&mut text).map(|_| text).unwrap()
    });
    // Standard output is closed after the report's last block, while nobody has read the pipe.
    let running = exporting(&repository, "pipe").start();
    running.wait_for("Inferences/Second vs. Client");
    go_on.send(()).unwrap();
    let finished = running.finish();
    let text = reader.join().unwrap();
    assert_eq!(finished.report().level().client_number("Request count"), COUNT as f64);
    let export = Export(serde_json::from_str(&text).unwrap());
    assert_eq!(export.experiments()[0]["requests"].as_array().unwrap().len() as u64, COUNT);
    assert_eq!((export.experiments()[0].get("missing_requests"), export.0.get("incomplete")), (None, None));
    assert_eq!(finished.stderr, "");
}

#[test]
fn a_pipe_whose_reader_goes_away_is_told_at_once_and_the_run_goes_on() {
    let repository = Repository::counted(Model::identity("m"));
    pipe(&repository);
    let path = repository.file("pipe");
    let reader = thread::spawn(move || fs::File::open(path).unwrap().read_exact(&mut [0; 8]).unwrap());
    let finished = exporting(&repository, "pipe").run();
    reader.join().unwrap();
    assert_eq!(finished.report_with(99).level().client_number("Request count"), COUNT as f64);
    let lines: Vec<&str> = finished.stderr.lines().collect();
    let [warning, error] = lines[..] else { panic!("{}", finished.stderr) };
    assert!(warning.contains("Broken pipe") && warning.ends_with("the load goes on without it"), "{warning}");
    assert!(error.starts_with("error: --profile-export-file") && error.ends_with("nothing of it could be kept"));
}

#[test]
fn what_a_full_disk_took_is_kept() {
    let repository = Repository::counted(Model::identity("m"));
    // A file may have 300 KiB; without the trap, the kernel ends whoever writes more.
    let finished = exporting(&repository, "a.json").under("trap '' XFSZ; ulimit -f 300").run();
    assert_eq!(finished.report_with(99).level().client_number("Request count"), COUNT as f64);
    let lines: Vec<&str> = finished.stderr.lines().collect();
    let [warning, error] = lines[..] else { panic!("{}", finished.stderr) };
    assert!(warning.contains("File too large") && warning.ends_with("the load goes on without it"), "{warning}");
    let export = Export::read(&repository.file("a.json"));
    let kept = export.experiments()[0]["requests"].as_array().unwrap().len() as u64;
    assert!((100..COUNT).contains(&kept), "{kept}");
    assert!(error.ends_with(&format!("it holds the first {kept} requests")), "{error}");
    assert!(export.0["incomplete"].as_str().unwrap().contains("File too large"), "{}", export.0["incomplete"]);
}
