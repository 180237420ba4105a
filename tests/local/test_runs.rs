//! What fails a test run: death by a signal even if a retry passed, and a missing prerequisite.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;
use std::time::Duration;

use crate::support::skip::MAY_SKIP;
use crate::support::watched::DEATHS;
use crate::support::{Program, Repository, TritonServer};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Runs shell commands as `scripts/test` does, with the deaths noted in `file`.
fn script(folder: &Path, file: &Path, commands: &str) -> Output {
    let lines = format!(
        "set -euo pipefail\nsource '{ROOT}/scripts/lib/common.sh'\nsource '{ROOT}/scripts/lib/deaths.sh'\n\
         watch_deaths '{}'\n{commands}",
        file.display()
    );
    let mut bash = Command::new("bash");
    // What nextest and cargo tell this test is not meant for those that it starts.
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("NEXTEST") || name.starts_with("CARGO_")) {
        if name != "CARGO_HOME" {
            bash.env_remove(name);
        }
    }
    bash.args(["-c", &lines]).current_dir(folder).output().unwrap()
}

/// A package with one test, which dies in its first try and passes in the second.
fn dying_once() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("src")).unwrap();
    fs::write(path("Cargo.toml"), "[package]\nname = 'dying'\nversion = '0.0.0'\nedition = '2024'\n[workspace]\n")
        .unwrap();
    let test = r#"
#[test]
fn dies_once() {
    if !std::path::Path::new("tried").exists() {
        std::fs::write("tried", "").unwrap();
        std::process::abort();
    }
}
"#;
    fs::write(path("src/lib.rs"), test).unwrap();
    folder
}

#[test]
fn a_test_that_dies_in_its_first_try_fails_the_run() {
    let package = dying_once();
    let deaths = package.path().join("target/deaths");
    // nextest tries again by itself; without it there is only one try.
    let run = "if have cargo-nextest; then cargo nextest run --offline --retries 1 \"${NOTING_DEATHS[@]}\"; \
        else cargo test --offline \"${NOTING_DEATHS[@]}\" || cargo test --offline \"${NOTING_DEATHS[@]}\"; fi\n\
        echo passed\nno_deaths";
    let first = script(package.path(), &deaths, run);
    let stderr = String::from_utf8_lossy(&first.stderr);
    assert_eq!(String::from_utf8_lossy(&first.stdout).trim().lines().last(), Some("passed"), "{stderr}");
    assert_eq!(first.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("died by signal 6"), "{stderr}");
    // Nobody dies in the next run, which begins anew.
    let second = script(package.path(), &deaths, run);
    assert_eq!(second.status.code(), Some(0), "{}", String::from_utf8_lossy(&second.stderr));
}

#[test]
fn a_test_that_fails_is_no_death() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("deaths");
    let note = format!("'{ROOT}/scripts/lib/note-death'");
    let run = script(folder.path(), &file, &format!("{note} sh -c 'exit 101' || echo $?\n{note} true\nno_deaths"));
    assert_eq!((run.status.code(), run.stdout.as_slice()), (Some(0), &b"101\n"[..]));
    let run = script(folder.path(), &file, &format!("{note} sh -c 'kill -SEGV $$' || echo $?\nno_deaths"));
    assert_eq!((run.status.code(), run.stdout.as_slice()), (Some(1), &b"139\n"[..]));
}

/// This program again, with one of its tests that are started by another.
fn helper(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--ignored", "--nocapture"]);
    command
}

/// Waits for a server that is not there, which takes as long as it is let.
fn waiting() -> Program {
    Program::new().args("-m m -u localhost:9 --server-wait 50")
}

/// Run by the test below in a process of its own, whose deaths are noted elsewhere.
#[test]
#[ignore = "started by the test below"]
fn programs_that_die() {
    let ours = waiting().start();
    ours.signal(9);
    ours.finish();
    let kill = |id: u32| assert!(Command::new("kill").args(["-ABRT", &id.to_string()]).status().unwrap().success());
    let finished = waiting().start();
    kill(finished.id());
    assert!(catch_unwind(AssertUnwindSafe(|| finished.finish())).is_err(), "a death goes unnoticed");
    let dropped = waiting().start();
    kill(dropped.id());
    let stat = format!("/proc/{}/stat", dropped.id());
    while !fs::read_to_string(&stat).unwrap().contains(") Z ") {
        thread::sleep(Duration::from_millis(1));
    }
    drop(dropped);
}

#[test]
fn a_program_that_dies_is_noted_whatever_the_test_makes_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let deaths = folder.path().join("deaths");
    let run = helper("test_runs::programs_that_die").env(DEATHS, &deaths).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let noted = fs::read_to_string(&deaths).unwrap();
    assert_eq!(noted.matches(": died by signal 6: ").count(), 2, "{noted}");
    assert_eq!(noted.lines().count(), 2, "what the test itself kills is no death: {noted}");
}

#[test]
fn only_what_is_held_to_the_clock_is_tried_again() {
    let rules = fs::read_to_string(Path::new(ROOT).join(".config/nextest.toml")).unwrap();
    let tried_again: Vec<&str> = rules.split("[[").filter(|rule| rule.contains("\nretries")).collect();
    let [rule] = tried_again[..] else { panic!("not one rule: {tried_again:?}") };
    let clocks = "filter = 'test(/(^|::)(alone::|measured::|slow::|timed_)/) or test(/^(tune::(endings|isolation|laws|network|trusted)|ranks::faults)::/)'\n";
    assert!(rule.contains(clocks), "{rule}");
    assert_eq!(rules.matches("retries").count(), 1, "{rules}");
}

#[test]
#[ignore = "started by the test below"]
fn a_test_that_needs_a_server() {
    let Some(_server) = TritonServer::start(&Repository::of(&[])) else { return };
}

#[test]
fn what_a_test_needs_is_there_or_it_fails() {
    let empty = tempfile::tempdir().unwrap();
    for (allowed, passes) in [(None, false), (Some("0"), false), (Some("1"), true)] {
        let mut test = helper("test_runs::a_test_that_needs_a_server");
        test.env("TRITON_SERVER_DIRECTORY", empty.path()).env_remove(MAY_SKIP);
        let run = test.envs(allowed.map(|value| (MAY_SKIP, value))).output().unwrap();
        let stderr = String::from_utf8_lossy(&run.stderr);
        assert_eq!(run.status.success(), passes, "{allowed:?}: {stderr}");
        assert!(stderr.contains("bin/tritonserver does not exist"), "{stderr}");
    }
}

/// The end of a run must not change how it ended: once a long list that was cut short by `head` killed what wrote it.
#[test]
fn the_slowest_of_many_tests_are_printed_and_the_run_stays_passed() {
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("nextest/default/junit.xml");
    fs::create_dir_all(results.parent().unwrap()).unwrap();
    let tests: String = (0..5000)
        .map(|i| format!("<testcase name=\"test_{i}\" classname=\"a_package_with_a_name\" time=\"{i}.5\">\n"))
        .collect();
    fs::write(&results, tests).unwrap();
    let commands = format!(
        "source '{ROOT}/scripts/lib/steps.sh'\nTARGET_DIR='{}'\ntrap 'print_slowest; print_steps' EXIT\nstep tests true",
        folder.path().display()
    );
    let run = script(folder.path(), &folder.path().join("deaths"), &commands);
    let stderr = String::from_utf8_lossy(&run.stderr);
    assert_eq!(run.status.code(), Some(0), "{stderr}");
    let slowest: Vec<&str> = stderr.lines().filter(|line| line.contains("a_package")).collect();
    assert_eq!(slowest.len(), 20, "{stderr}");
    assert!(slowest[0].ends_with("test_4999"), "{stderr}");
    assert!(stderr.trim_end().ends_with("all"), "{stderr}");
}

#[test]
fn a_step_beside_others_is_waited_for_and_fails_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let steps = |beside: &str| {
        let commands = format!(
            "source '{ROOT}/scripts/lib/steps.sh'\ntrap print_steps EXIT\n{beside}\nstep second echo second >&2\n\
             await_steps\nstep third echo third >&2"
        );
        let run = script(folder.path(), &folder.path().join("deaths"), &commands);
        (run.status.code(), String::from_utf8_lossy(&run.stderr).into_owned())
    };
    let (code, output) = steps("beside first sh -c 'sleep 0.3; echo ended'");
    assert_eq!(code, Some(0), "{output}");
    let position =
        |word: &str| output.lines().position(|line| line == word).unwrap_or_else(|| panic!("{word}: {output}"));
    assert!(position("second") < position("ended") && position("ended") < position("third"), "{output}");
    assert!(output.contains("first (beside others)"), "{output}");
    for way in ["echo ended; exit 7", "kill -KILL $PPID"] {
        let (code, output) = steps(&format!("beside first sh -c '{way}'"));
        assert_eq!(code, Some(1), "{output}");
        assert!(
            output.contains("first failed; to see only this step, run: 'sh' '-c'") && !output.contains("third"),
            "{output}"
        );
        // Again after the times of the steps, where a long log is read first.
        let end = output.rfind(" all\n").map(|index| &output[index..]).unwrap();
        assert!(end.contains("first failed"), "{output}");
        assert_eq!(end.trim_end().ends_with("ended"), way.contains("ended"), "{output}");
    }
}

/// Does a command behind a pipe end before it has read everything?
fn stops_reading(line: &str) -> bool {
    line.replace("||", "\n").lines().flat_map(|command| command.split('|').skip(1)).any(|command| {
        let mut words = command.split_whitespace();
        match (words.next(), words.next()) {
            (Some("head"), _) => true,
            (Some("grep"), Some(flags)) => flags.starts_with('-') && flags.contains('q'),
            _ => false,
        }
    })
}

/// Every file below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// Under `pipefail` a reader that stops early may fail the script: what writes to it dies by a signal, or not, by chance.
#[test]
fn no_script_pipes_into_what_stops_reading() {
    assert!(
        stops_reading("sort x | head -n 1") && stops_reading("a || b | grep -qx 1") && !stops_reading("a || grep -q b")
    );
    let mut found = Vec::new();
    for path in ["scripts", ".ci"].iter().flat_map(|folder| files(&Path::new(ROOT).join(folder))) {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let lines = text.lines().filter(|line| stops_reading(line));
        found.extend(lines.map(|line| format!("{}: {line}", path.display())));
    }
    assert!(found.is_empty(), "{found:#?}");
}

/// A copy of `scripts/check-soundness` with checks that end with these codes.
fn checks(codes: &[(&str, i32)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let scripts = folder.path().join("scripts");
    fs::create_dir_all(scripts.join("soundness")).unwrap();
    symlink(Path::new(ROOT).join("scripts/lib"), scripts.join("lib")).unwrap();
    fs::copy(Path::new(ROOT).join("scripts/check-soundness"), scripts.join("check-soundness")).unwrap();
    for (name, code) in codes {
        let check = scripts.join("soundness").join(name);
        fs::write(&check, format!("#!/bin/sh\nexit {code}\n")).unwrap();
        fs::set_permissions(&check, fs::Permissions::from_mode(0o755)).unwrap();
    }
    folder
}

#[test]
fn a_check_that_could_not_run_has_not_passed() {
    let folder = checks(&[("bad", 1), ("good", 0), ("lacking", 77)]);
    let script = folder.path().join("scripts/check-soundness");
    for (names, code, words) in [
        (&[][..], 1, "bad FAILED good passed lacking skipped"),
        (&["good"], 0, "good passed"),
        (&["good", "lacking"], 77, "good passed lacking skipped"),
        (&["--lenient", "lacking"], 0, "lacking skipped"),
        (&["--lenient", "bad", "lacking"], 1, "bad FAILED lacking skipped"),
        (&["none"], 1, ""),
    ] {
        let run = Command::new(&script).args(names).output().unwrap();
        let table = String::from_utf8_lossy(&run.stdout);
        let rows: Vec<&str> = table.lines().skip(1).flat_map(|row| row.split_whitespace().take(2)).collect();
        assert_eq!((run.status.code(), rows.join(" ").as_str()), (Some(code), words), "{names:?}: {run:?}");
    }
}
