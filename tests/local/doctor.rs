//! `doctor` on this machine, whatever its state, and on one with lowered limits.

use std::process::{Command, Output};

const PROGRAM: &str = env!("CARGO_BIN_EXE_triton-bench");

fn doctor(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).arg("doctor").args(arguments).output().expect("the program can be started")
}

fn lines(output: &Output) -> Vec<String> {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(output.stderr, b"", "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn every_check_has_a_line_of_one_form() {
    let lines = lines(&doctor(&[]));
    let (last, findings) = lines.split_last().unwrap();
    let count = |word: &str| findings.iter().filter(|line| line.starts_with(word)).count();
    let [good, notes, warnings] = ["ok       ", "note     ", "warning  "].map(count);
    assert_eq!(good + notes + warnings, findings.len(), "{lines:#?}");
    assert_eq!(*last, format!("warnings: {warnings}, notes: {notes}"));
    let checks = [
        "processors: ",
        "frequency governor: ",
        "SMT: ",
        "processor quota: ",
        "clock source: ",
        "reading the clock: ",
        "steal since the start: ",
        "load now: ",
        "/dev/shm: ",
        "locked memory: ",
        "transparent huge pages: ",
        "threads: ",
        "memory mappings: ",
        "open files: ",
    ];
    for (line, check) in findings.iter().zip(checks) {
        assert!(line[9..].starts_with(check), "'{check}' is expected: {line}");
        assert!(line.starts_with("ok ") || line.contains("; "), "no word on what to do: {line}");
    }
    assert!(
        findings.len() > checks.len() && findings[checks.len()..].iter().any(|line| line.contains("GPU")),
        "{lines:#?}"
    );
}

#[test]
fn low_limits_and_processors_that_are_not_there_are_told() {
    let shell = format!("ulimit -n 1000 -l 64; exec {PROGRAM} doctor --cpus 0 --worker-cpus=4000");
    let lines = lines(&Command::new("bash").args(["-c", &shell]).output().unwrap());
    let assert_line = |start: &str| assert!(lines.iter().any(|line| line.starts_with(start)), "'{start}': {lines:#?}");
    assert_line("note     open files: 1000 at most: ");
    assert_line("note     locked memory: 64 KiB at most: ");
    assert_line("warning  processors 4000 of --cpus or --worker-cpus: ");
}

#[test]
fn other_words_are_refused() {
    let refused = doctor(&["-m", "x"]);
    assert_eq!((refused.status.code(), refused.stdout.len()), (Some(99), 0));
    let message = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(message, "error: -m is not a flag of doctor; see triton-bench doctor --help\n");
    let upstreams = Command::new(env!("CARGO_BIN_EXE_perf_analyzer")).arg("doctor").output().unwrap();
    assert_eq!((upstreams.status.code(), upstreams.stdout.len()), (Some(99), 0), "{upstreams:?}");
    assert_eq!(doctor(&["--help"]).status.code(), Some(0));
}
