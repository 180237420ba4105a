//! The program's files and output, from outside, against a byte-level server: files that cannot be written, pipes,
//! hostile text.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::http_server::{Act, HttpServer, Received, good_answer, reply};
use crate::support::{Finished, Program};

/// Longer than this, something waits for what does not come.
const SOON: Duration = Duration::from_secs(15);

fn good(_: &Received) -> Vec<Act> {
    vec![Act::Send(good_answer())]
}

/// A short run on `server`.
fn program(server: &HttpServer) -> Program {
    Program::new().args("-m m --request-count 40 -u").arg(server.url())
}

fn pipe(folder: &Path) -> PathBuf {
    let path = folder.join("pipe");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    path
}

fn requests(path: &Path) -> usize {
    let export: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).expect("the export is whole");
    export["experiments"][0]["requests"].as_array().unwrap().len()
}

#[test]
fn timed_one_signal_ends_the_wait_for_the_reader_of_a_pipe() {
    let server = HttpServer::start(good);
    let folder = tempfile::tempdir().unwrap();
    let pipe = pipe(folder.path());
    // Before the run there is nothing to report; after it, the report is out.
    for (flag, code) in [("--profile-export-file", 130), ("-f", 99)] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_triton-bench"));
        command.args(["-m", "m", "--request-count", "40", "-u", &server.url(), flag]).arg(&pipe);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut text = String::new();
        while !text.contains("pipe: waiting for someone to read this pipe") {
            assert!(stderr.read_line(&mut text).unwrap() > 0, "it ended without a wait: {text}");
        }
        assert!(Command::new("kill").arg("-TERM").arg(child.id().to_string()).status().unwrap().success());
        let signalled = Instant::now();
        stderr.read_to_string(&mut text).unwrap();
        let finished = child.wait_with_output().unwrap();
        assert!(signalled.elapsed() < SOON, "{flag}: {:?}", signalled.elapsed());
        assert_eq!(finished.status.code(), Some(code), "{flag}: {text}");
        assert!(text.contains("pipe: cannot be written: nobody reads this pipe"), "{text}");
        let stdout = String::from_utf8(finished.stdout).unwrap();
        assert_eq!(stdout.contains("Throughput: "), flag == "-f", "{stdout}");
    }
}

#[test]
fn an_export_that_meets_the_end_of_the_disk_keeps_what_is_in_it() {
    let server = HttpServer::start(good);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("export.json");
    // A limit of the file's size stands for a full disk: 512 blocks of 512 bytes.
    let script = format!(
        "trap '' XFSZ; ulimit -f 512; exec '{}' -m m --request-count 3000 -u {} --profile-export-file '{}'",
        env!("CARGO_BIN_EXE_triton-bench"),
        server.url(),
        path.display()
    );
    let output = Command::new("sh").arg("-c").arg(script).output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(99), "{stderr}");
    let kept = requests(&path);
    assert!(
        stderr.contains("File too large (os error 27)")
            && stderr.contains(&format!("it holds the first {kept} requests")),
        "{stderr}"
    );
    assert!((100..3000).contains(&kept), "{kept}");
    assert!(stdout.contains("  Request count: 3000"), "what was measured is reported: {stdout}");
    let names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["export.json"]);
}

#[test]
fn a_limit_of_the_sizes_of_files_is_said_by_every_command() {
    let server = HttpServer::start(good);
    let folder = tempfile::tempdir().unwrap();
    let (result, page, out) = (folder.path().join("r.json"), folder.path().join("p"), folder.path().join("o"));
    program(&server).arg("--summary-file").arg(&result).run().report();
    let limited =
        |command: &str, lines: &str| Program::new().args(command).under(&format!("ulimit -c 0 -f 0{lines}")).run();
    let (result, page) = (result.display(), page.display());
    for flag in ["-o", "--markdown"] {
        let refused = limited(&format!("report {result} {flag} {page}"), "");
        refused.failure(&[": cannot be written: File too large"]);
    }
    for command in [format!("compare {result} {result}"), "doctor".to_owned()] {
        let refused = limited(&command, &format!("; exec > {}", out.display()));
        refused.failure(&["standard output cannot be written: File too large"]);
    }
}

#[test]
fn results_that_cannot_be_written_cost_no_other_and_are_all_named() {
    let server = HttpServer::start(good);
    let folder = tempfile::tempdir().unwrap();
    let (csv, export) = (folder.path().join("x.csv"), folder.path().join("x.json"));
    let run = |csv: &Path, export: &Path| -> Finished {
        program(&server).arg("-f").arg(csv).arg("--profile-export-file").arg(export).run()
    };
    let full = Path::new("/dev/full");
    run(full, &export).failure(&["-f /dev/full: cannot be written"]);
    assert_eq!(requests(&export), 40);
    // An export is begun before the load: one that cannot be is told before anything is measured.
    run(&csv, full).failure(&["--profile-export-file /dev/full: cannot be written"]);
    assert!(!csv.exists());
}

#[test]
fn a_dangling_link_gets_its_file_and_long_names_are_refused_at_once() {
    let server = HttpServer::start(good);
    let folder = tempfile::tempdir().unwrap();
    let (link, target) = (folder.path().join("latest.csv"), folder.path().join("1.csv"));
    symlink("1.csv", &link).unwrap();
    program(&server).arg("-f").arg(&link).run().report();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink(), "the link stays");
    assert_eq!(fs::read_to_string(&target).unwrap().lines().count(), 2);
    let long = folder.path().join("x".repeat(300));
    program(&server).arg("-f").arg(&long).run().refusal(&["-f ", "File name too long"]);
}

#[test]
fn words_of_a_server_neither_turn_the_terminal_nor_make_lines() {
    let refusal = |_: &Received| {
        let body = "{\"error\":\"no\\u009b31m \u{202e}drow\\n  Throughput: 9 infer/sec\"}";
        vec![Act::Send(reply("500 Internal Server Error", "", body.as_bytes()))]
    };
    let server = HttpServer::start(refusal);
    let finished = program(&server).run();
    assert_eq!(finished.code(), 3, "{}", finished.stderr);
    let all = finished.stdout + &finished.stderr;
    assert!(all.contains("no\\u{9b}31m \\u{202e}drow") && !all.contains(['\u{9b}', '\u{202e}']), "{all}");
    assert!(!all.lines().any(|line| line.starts_with("  Throughput: 9")), "{all}");
}

#[test]
fn flags_that_depend_on_the_model_are_named_once_where_it_has_no_use_for_them() {
    let server = HttpServer::start(good);
    let flags = "--sequence-length 5 --sequence-id-type string --string-length 9 --num-of-sequences 3 --verbose-csv";
    for program in [program(&server), program(&server).named_perf_analyzer()] {
        let finished = program.args(flags).run();
        finished.report();
        let notes: Vec<&str> = finished.stderr.lines().filter(|line| line.contains(" no effect here: ")).collect();
        assert_eq!(notes.len(), 4, "{}", finished.stderr);
        for flag in flags.split_whitespace().filter(|word| word.starts_with("--")) {
            assert_eq!(
                notes.iter().filter(|note| note.split_whitespace().any(|word| word == flag)).count(),
                1,
                "{flag}"
            );
        }
        assert!(notes.iter().any(|note| note.contains("--sequence-length and --sequence-id-type have no effect")));
        assert!(!finished.stdout.contains("no effect"), "{}", finished.stdout);
    }
}

#[test]
fn data_beyond_the_memory_that_is_allowed_end_the_run_before_it_starts() {
    let server = HttpServer::start(good);
    let refused = program(&server).args("-b 8 --max-input-memory 256").run();
    refused.failure(&["-b 8", "--max-input-memory allows 256"]);
    assert_eq!(server.inferences(), 0);
    program(&server).args("-b 1 --max-input-memory 64K").run().report();
}

/// Short levels on `server`.
fn levels(server: &HttpServer) -> Program {
    Program::new().args("-m m -p 100 -s 1000000 -u").arg(server.url())
}

/// A server that answers one request after the other, each in 20 ms.
fn one_by_one() -> HttpServer {
    let alone = Mutex::new(());
    HttpServer::start(move |request: &Received| {
        let _turn = alone.lock().unwrap();
        thread::sleep(Duration::from_millis(20));
        good(request)
    })
}

/// Callers of perf_analyzer take the last row of its file for the best level within the limit.
#[test]
fn timed_a_level_beyond_the_limit_has_a_row_only_under_our_own_name() {
    let server = one_by_one();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("levels.csv");
    let run = || levels(&server).args("-p 400 --concurrency-range 1:6:5 -l 60 -f").arg(&file);
    for (program, rows) in [(run(), vec!["1", "6"]), (run().named_perf_analyzer(), vec!["1"])] {
        let finished = program.run();
        assert_eq!(finished.code(), 0, "{}", finished.stderr);
        // Scripts take the lines of the final block for results, and the last one for the best.
        let (is_own, lines) = (rows.len() == 2, finished.stdout.matches(" infer/sec, latency ").count());
        assert_eq!((lines, finished.stdout.contains("Concurrency: 6, ")), (rows.len(), is_own), "{}", finished.stdout);
        assert_eq!(finished.stdout.contains("[over latency threshold]"), is_own, "{}", finished.stdout);
        assert!(
            finished.stderr.contains("Measured latency went over the set limit of 60 msec."),
            "{}",
            finished.stderr
        );
        let text = fs::read_to_string(&file).unwrap();
        let found: Vec<&str> = text.lines().skip(1).map(|row| row.split(',').next().unwrap()).collect();
        assert_eq!(found.iter().copied().collect::<BTreeSet<_>>(), BTreeSet::from_iter(rows), "{text}");
    }
}

#[test]
fn an_interrupt_while_it_warms_up_measures_nothing() {
    for warm_up in ["--warmup-duration 60s", "--warm-up concurrency:1:60s"] {
        let server = HttpServer::start(good);
        let running = levels(&server).args("--concurrency-range 1 -p 300").args(warm_up).start();
        while server.inferences() < 5 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        running.signal(2);
        let finished = running.finish();
        assert_eq!(finished.code(), 130, "{warm_up}: {finished:#?}");
        assert!(!finished.stdout.contains("infer/sec"), "{warm_up}: {}", finished.stdout);
    }
}

#[test]
fn an_export_has_the_version_that_the_program_tells() {
    let server = HttpServer::start(good);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("export.json");
    let run = || program(&server).arg("--profile-export-file").arg(&file);
    let banner = Program::new().args("--version").named_perf_analyzer().run().stderr;
    run().named_perf_analyzer().run().report();
    let export: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    let version = export["version"].as_str().unwrap();
    assert!(banner.starts_with(&format!("Perf Analyzer Version {version} (")), "{banner}");
    assert_eq!(export["triton_bench_version"], env!("CARGO_PKG_VERSION"));
    fs::remove_file(&file).unwrap();
    run().run().report();
    let export: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!((&export["version"], export.get("triton_bench_version")), (&env!("CARGO_PKG_VERSION").into(), None));
}

fn summary(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).expect("the result is whole")
}

#[test]
fn a_result_has_every_level_and_no_secret() {
    let server = HttpServer::start(good);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("result.json");
    let run = levels(&server).args("--concurrency-range 1:3:2 -H token:geheim --max-errors 5% --summary-file");
    let finished = run.arg(&path).run();
    assert!(path.exists(), "{}{}", finished.stdout, finished.stderr);
    let value = summary(&path);
    let levels = value["levels"].as_array().unwrap();
    assert_eq!(levels.len(), 2, "{value}");
    for (level, concurrency) in levels.iter().zip([1, 3]) {
        assert_eq!((&level["load"]["kind"], &level["load"]["value"]), (&"concurrency".into(), &concurrency.into()));
        assert!(level["client"]["requests"].as_u64() > Some(0));
        let outcome = level["outcome"].as_str().unwrap();
        let line = finished.stdout.lines().find(|line| line.starts_with(&format!("Concurrency: {concurrency},")));
        let summary_line = line.unwrap();
        assert!(outcome == "valid" || summary_line.contains(&format!("[{outcome}]")), "{summary_line}: {outcome}");
        let mean = level["figures"]["avg"].as_f64().unwrap() / 1e3;
        assert!(summary_line.contains(&format!("latency {} usec", mean as u64)), "{summary_line}: {mean}");
    }
    assert_eq!(value["exit_code"], finished.code());
    let flag = |name: &str| value["flags"].as_array().unwrap().iter().find(|flag| flag["name"] == name).cloned();
    assert_eq!(flag("--max-errors").unwrap()["values"][0], "5%");
    assert_eq!(flag("--seed").unwrap()["given"], false);
    assert!(value["host"]["processors"].as_u64() > Some(0) && value["models"][0]["name"] == "m");
    assert!(!value.to_string().contains("geheim") && value.to_string().contains("token:…"), "{value}");
}

#[test]
fn a_killed_run_leaves_the_levels_that_were_finished() {
    let server = HttpServer::start(good);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("result.json");
    let endless = levels(&server).args("--concurrency-range 1:1000 --async --summary-file");
    let running = endless.arg(&path).start();
    let until = Instant::now() + SOON;
    while fs::read_to_string(&path).map_or(0, |text| text.matches("\"kind\":\"concurrency\"").count()) < 3 {
        assert!(Instant::now() < until, "no result after {SOON:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
    running.signal(9);
    drop(running);
    let left = summary(&path);
    assert!(left["levels"].as_array().unwrap().len() >= 3);
    assert_eq!(
        (&left["interrupted"], &left["exit_code"]),
        (&true.into(), &130.into()),
        "nobody may take it for the whole"
    );
    let names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["result.json"]);
}

#[test]
fn a_result_on_standard_output_follows_the_report_whatever_that_is() {
    let server = HttpServer::start(good);
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.txt");
    let run = levels(&server).args("--concurrency-range 1:3:2 --summary-file /dev/stdout");
    run.under(&format!("exec > {}", out.display())).run();
    let text = fs::read_to_string(&out).unwrap();
    let (report, result) = text.split_at(text.find("{\"schema\":").unwrap());
    assert!(report.contains("\nConcurrency: 3, throughput: "), "{report}");
    let result: Value = serde_json::from_str(result).unwrap();
    assert_eq!(result["levels"].as_array().unwrap().len(), 2);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_result_goes_into_a_pipe_once_and_into_no_other_result() {
    let server = HttpServer::start(good);
    let folder = tempfile::tempdir().unwrap();
    let pipe = pipe(folder.path());
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || summary(&pipe)
    });
    levels(&server).args("--concurrency-range 1:2 --summary-file").arg(&pipe).run();
    assert_eq!(reader.join().unwrap()["levels"].as_array().unwrap().len(), 2);
    let same = folder.path().join("x");
    let run = program(&server).arg("-f").arg(&same).arg("--summary-file").arg(&same).run();
    run.refusal(&["--summary-file", "is also the file of -f"]);
    program(&server).args("--summary-file /nonexistent/x.json").run().refusal(&["--summary-file /nonexistent/x.json"]);
    program(&server).args("--summary-file /dev/full").run().failure(&["--summary-file /dev/full: cannot be written"]);
}

/// The cells of a requirement's row in the table of a report.
fn row_of<'a>(stdout: &'a str, requirement: &str) -> Vec<&'a str> {
    let row = stdout.lines().find(|line| line.starts_with(&format!("  {requirement} ")));
    row.unwrap_or_default().split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect()
}

#[test]
fn what_is_required_decides_the_exit_code() {
    let server = HttpServer::start(good);
    let folder = tempfile::tempdir().unwrap();
    let (result, xml) = (folder.path().join("base.json"), folder.path().join("gate.xml"));
    let counted = |flags: &str| program(&server).args("--percentile 50").args(flags);
    counted("--require p50<60s --summary-file").arg(&result).run().report();
    let held = counted("--require p50<60s --require throughput>0 --require avg<60s --junit").arg(&xml).run();
    assert_eq!(held.code(), 7, "what is undecided is not held: {}{}", held.stdout, held.stderr);
    assert_eq!(row_of(&held.stdout, "requirement"), ["requirement", "level", "value", "95% confidence", "outcome"]);
    for (requirement, word) in [("p50<60s", "holds"), ("throughput>0", "holds"), ("avg<60s", "undecided")] {
        let row = row_of(&held.stdout, requirement);
        assert!(row.get(1) == Some(&"concurrency 1") && row.last() == Some(&word), "{row:?} of {}", held.stdout);
    }
    let junit = fs::read_to_string(&xml).unwrap();
    for part in [
        "tests=\"3\" failures=\"0\" errors=\"0\" skipped=\"1\"",
        "<property name=\"bound\" value=\"60000000000\"/>",
        "<property name=\"value\" value=\"",
        "<property name=\"high\" value=\"",
        "<property name=\"seconds\" value=\"",
        "<skipped message=\"concurrency 1: ",
    ] {
        assert!(junit.contains(part), "{part}: {junit}");
    }
    for (undecided, code) in [("pass", 0), ("fail", 6)] {
        let run = counted("--require avg<60s --undecided").arg(undecided).run();
        assert_eq!(run.code(), code, "{undecided}: {}", run.stdout);
    }
    let flags = "--require p50<1ns --require avg<1s@concurrency:7 --junit";
    let broken = counted(flags).arg(&xml).run();
    assert_eq!(broken.code(), 6, "{}{}", broken.stdout, broken.stderr);
    assert_eq!(row_of(&broken.stdout, "p50<1ns").last(), Some(&"does not hold"), "{}", broken.stdout);
    assert!(broken.stdout.contains("\n  there is no such level\n"), "{}", broken.stdout);
    assert!(fs::read_to_string(&xml).unwrap().contains("tests=\"2\" failures=\"2\""));
    assert_eq!(counted(flags).arg(&xml).named_perf_analyzer().run().code(), 0, "a code that its callers do not know");
    let (page, text) = (folder.path().join("gate.html"), folder.path().join("gate.md"));
    let compared = counted("--require p50<+100000% --baseline").arg(&result);
    let compared = compared.arg("--report").arg(&page).arg("--markdown").arg(&text).run();
    assert_eq!(compared.code(), 0, "{}{}", compared.stdout, compared.stderr);
    assert!(compared.stdout.contains(" of the baseline's"), "{}", compared.stdout);
    let (page, text) = (fs::read_to_string(page).unwrap(), fs::read_to_string(text).unwrap());
    assert!(
        page.find("<p class=\"gate\">").unwrap() < page.find("<p class=\"answer\">").unwrap(),
        "the gate was asked"
    );
    assert!(text.starts_with("**Passed: p50&lt;+100000%"), "{text}");
    counted("--require p50<+5%").run().refusal(&["--require p50<+5%", "--baseline"]);
    counted("--require p50<5").run().refusal(&["--require 'p50<5'", "20ms"]);
    counted("--require p50<+5% --baseline").arg(&xml).run().refusal(&["gate.xml", "no result", "--summary-file"]);
}

#[test]
fn a_run_that_fails_before_its_first_level_says_so_where_its_outcome_is_looked_for() {
    let folder = tempfile::tempdir().unwrap();
    let xml = folder.path().join("gate.xml");
    for earlier in [None, Some("<testsuite tests=\"1\" failures=\"0\"/>")] {
        earlier.map_or(Ok(()), |text| fs::write(&xml, text)).unwrap();
        let run =
            Program::new().args("-m m -u 127.0.0.1:1 --require p50<60s --require errors<1% --junit").arg(&xml).run();
        assert_eq!(run.code(), 99, "{run:#?}");
        let junit = fs::read_to_string(&xml).unwrap();
        assert!(
            junit.contains("<testsuite name=\"m\" tests=\"2\" failures=\"0\" errors=\"2\" skipped=\"0\""),
            "{junit}"
        );
        assert!(junit.contains("name=\"p50&lt;60s\"") && junit.matches("<error message=\"").count() == 2, "{junit}");
        assert!(junit.contains("127.0.0.1:1"), "{junit}");
    }
    // What was measured is judged, whatever else cannot be written.
    let server = HttpServer::start(good);
    let full = program(&server).args("--require throughput>0 -f /dev/full --junit").arg(&xml).run();
    assert_eq!(full.code(), 99, "{full:#?}");
    assert!(fs::read_to_string(&xml).unwrap().contains("errors=\"0\""), "{full:#?}");
}

#[test]
fn two_results_are_held_against_each_other() {
    let server = HttpServer::start(good);
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    for (name, flags) in [("a", "--concurrency-range 1:2"), ("b", "--concurrency-range 2:3"), ("other", "--async")] {
        levels(&server).args(flags).arg("--summary-file").arg(file(name)).run();
    }
    let compare = |first: &str, second: &str| Program::new().args("compare").arg(file(first)).arg(file(second));
    let same = compare("a", "a").run();
    assert_eq!(same.code(), 0, "{}", same.stderr);
    for row in same.stdout.lines().filter(|line| line.starts_with("  p50")) {
        assert!(row.contains(" +0.0% ") && row.ends_with("same") || row.ends_with("undecided"), "{row}");
    }
    let apart = compare("a", "b").run();
    assert!(apart.stdout.starts_with("concurrency 2:\n"), "{}", apart.stdout);
    assert!(apart.stdout.contains("In one result only: concurrency 1, concurrency 3\n"), "{}", apart.stdout);
    compare("a", "other").run().refusal(&["calls: 'synchronous' and 'asynchronous'", "--force"]);
    assert_eq!(compare("a", "other").args("--force").run().code(), 0);
    Program::new().args("compare").arg(file("a")).arg(file("none")).run().refusal(&["none", "--summary-file"]);
    Program::new().args("compare a").run().refusal(&["compare takes two files"]);
    let overlay = Program::new().args("report").arg(file("a")).arg(file("b")).arg("-o").arg(file("both.html")).run();
    assert_eq!(overlay.code(), 0, "{}", overlay.stderr);
    let first = compare("both.html", "a").run();
    assert!(first.stderr.contains("a report of 2 results, of which only"), "{}", first.stderr);
    // The answer names the files.
    let table = |text: &str| text.rsplit_once("\n\n").map(|(table, _)| table.to_owned()).expect("an answer below");
    let words = same.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(" is undecided (mean latency ") || words.contains(" is as fast as "), "{}", same.stdout);
    assert_eq!(table(&first.stdout), table(&same.stdout));
    // A pipe can be read only once.
    let pipe = file("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let content = std::fs::read(file("a")).unwrap();
    let writer = std::thread::spawn(move || std::fs::write(pipe, content));
    assert_eq!(table(&compare("pipe", "a").run().stdout), table(&same.stdout));
    writer.join().unwrap().unwrap();
}

#[test]
fn no_file_takes_the_place_of_another_or_of_what_is_read() {
    let server = HttpServer::start(good);
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let base = file("base.json");
    assert_eq!(levels(&server).arg("--summary-file").arg(&base).run().code(), 0);
    let kept = fs::read_to_string(&base).unwrap();
    for (first, second) in [("--summary-file", "--report"), ("-f", "--markdown"), ("--baseline", "--summary-file")] {
        let run = levels(&server).arg(first).arg(&base).arg(second).arg(&base).run();
        run.failure_after_notes(&[second, first, "name two files"]);
    }
    for flag in ["-o", "--markdown"] {
        Program::new().args("report").arg(&base).arg(flag).arg(&base).run().refusal(&[
            flag,
            "a result",
            "name two files",
        ]);
    }
    let search = Program::new().args("tune -m m --search delay=1 -u").arg(server.url()).arg("--output");
    let search = search.arg(folder.path()).arg("-f").arg(&base).arg("--summary-file").arg(&base).run();
    search.failure_after_notes(&["--summary-file", "-f", "name two files"]);
    assert_eq!(fs::read_to_string(&base).unwrap(), kept);
    // A report has a result in it, but is none.
    let page = file("page.html");
    assert_eq!(levels(&server).args("--resume").arg(&base).arg("--report").arg(&page).run().code(), 0);
    levels(&server).arg("--resume").arg(&page).run().failure_after_notes(&["is a report", "add --summary-file"]);
    assert!(fs::read_to_string(&page).unwrap().starts_with("<!DOCTYPE html>"));
    let kept = fs::read_to_string(&base).unwrap();
    // A baseline of something else means nothing.
    let changed = kept.replacen("\"name\":\"m\"", "\"name\":\"other\"", 1);
    assert_ne!(changed, kept);
    fs::write(file("other.json"), changed).unwrap();
    let gate = |name: &str| levels(&server).args("--require p50<+5000% --baseline").arg(file(name)).run();
    assert_eq!(gate("base.json").code(), 0);
    gate("other.json").failure_after_notes(&["it measured something else", "models: 'other' and 'm'"]);
    // Levels are no rounds.
    let variants = levels(&server).args("--variant a:--sync --variant b:--async --resume").arg(&base).run();
    variants.refusal(&["--resume", "another plan", "--variant was absent and is "]);
    assert_eq!(fs::read_to_string(&base).unwrap(), kept);
}

#[test]
fn no_result_takes_the_place_of_an_input() {
    const OPENAI: &str = "--service-kind openai --endpoint v1/chat/completions --streaming";
    let server = HttpServer::start(good);
    let folder = tempfile::tempdir().unwrap();
    // Whatever is in it: files are looked for before any is read.
    let input = folder.path().join("input.json");
    fs::write(&input, "mine").unwrap();
    let path = input.display();
    for (flag, flags) in [
        ("--input-data", format!("--input-data {path}")),
        ("--request-intervals", format!("--request-intervals {path}")),
        ("--trace-replay", format!("--trace-replay {path}")),
        ("--trace-replay", format!("--trace-replay {path} --stage replay:1 --stage concurrency:1:2s")),
        ("--trace-lengths", format!("--trace-lengths {path} --trace-input IDS")),
        ("--input-data", format!("{OPENAI} --input-data {path}")),
        ("--prompt-tokens", format!("{OPENAI} --prompt-tokens trace:{path}")),
        ("--prompt-tokens", format!("{OPENAI} --prompt-tokens dataset:{path}")),
        ("--tokenizer", format!("{OPENAI} --prompt-tokens 5 --tokenizer {path}")),
        ("--session-trace", format!("{OPENAI} --session-concurrency 1 --session-trace weka:{path}")),
        ("--proto", format!("--service-kind dynamic_grpc --grpc-method a.B/C --proto {path} --input-data Cargo.toml")),
        (
            "--ssl-https-ca-certificates-file",
            format!("-u https://{} --ssl-https-ca-certificates-file {path}", server.url()),
        ),
    ] {
        let run = Program::new().args("-m m").args(&flags).arg("--report").arg(&input).run();
        run.failure_after_notes(&["--report ", flag, "name two files"]);
    }
    let variants = levels(&server).args("--variant a:--sync --variant").arg(format!("b:--input-data {path}"));
    variants.arg("--report").arg(&input).run().failure_after_notes(&["--report ", "--input-data", "name two files"]);
    assert_eq!(fs::read_to_string(&input).unwrap(), "mine");
    let (base, other) = (folder.path().join("base.json"), folder.path().join("other.json"));
    assert_eq!(levels(&server).arg("--summary-file").arg(&base).run().code(), 0);
    let resumed = || levels(&server).arg("--resume").arg(&base);
    let taken = resumed().arg("--summary-file").arg(&other).arg("-f").arg(&base).run();
    taken.failure_after_notes(&["-f ", "--resume", "name two files"]);
    // It is continued under whatever name.
    let same = folder.path().join("./base.json");
    assert_eq!(resumed().arg("--summary-file").arg(&same).run().code(), 0);
}

#[test]
fn timed_what_is_undecided_is_measured_on_as_one_level() {
    let server = HttpServer::start(good);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.json");
    levels(&server).arg("--summary-file").arg(&path).run();
    let latency = summary(&path)["levels"][0]["client"]["latency"]["mean_ns"].as_f64().unwrap();
    // On the bound, within what this machine's noise moves it.
    for tenths in [10, 9, 11, 8, 12, 7, 13, 6, 14] {
        let bound = latency * f64::from(tenths) / 10.0 / 1e6;
        let run = levels(&server).args("--gate-time 2s --require").arg(format!("avg<{bound:.4}ms"));
        let run = run.arg("--summary-file").arg(&path).run();
        let on = run.stderr.matches("ms is undecided: the level is measured on, for 2s at most (--gate-time)").count();
        let level = &summary(&path)["levels"][0];
        assert!([0, 6, 7].contains(&run.code()), "{}{}", run.stdout, run.stderr);
        assert_eq!(run.stdout.matches("\nRequest concurrency: 1\n").count(), 1, "{}", run.stdout);
        assert!(level["client"]["duration_s"].as_f64().unwrap() < 2.2, "{level}");
        if on > 0 {
            assert!(level["looks"].as_u64().unwrap() > 1 && level["windows"].as_array().unwrap().len() > 3, "{level}");
            let at_once = levels(&server).args("--gate-time 0 --require").arg(format!("avg<{bound:.4}ms")).run();
            assert!(!at_once.stderr.contains("measured on"), "{}", at_once.stderr);
            return;
        }
    }
    panic!("no bound was undecided");
}

#[test]
fn what_a_baseline_cannot_answer_for_is_said_before_anything_is_measured() {
    let server = one_by_one();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    levels(&server).args("--concurrency-range 1:2 -p 500 --percentile 50 --summary-file").arg(file("base.json")).run();
    let kept = summary(&file("base.json"));
    let change = |name: &str, change: &dyn Fn(&mut Value)| {
        let mut result = kept.clone();
        change(&mut result);
        fs::write(file(name), result.to_string()).unwrap();
    };
    change("unstable.json", &|result| {
        result["levels"][1]["ending"] = "unstable".into();
        result["levels"][1]["verdict"] = "valid".into();
    });
    change("elsewhere.json", &|result| result["host"]["processor"] = "Another One".into());
    let before = server.inferences();
    let gate = |name: &str, flags: &str| levels(&server).args(flags).arg("--baseline").arg(file(name)).run();
    let refused = [
        ("base.json", "--concurrency-range 1:3 --require p50<+5%", "it lacks concurrency 3"),
        ("base.json", "--concurrency-range 3 --require p50<+5%", "it lacks concurrency 3"),
        ("base.json", "--require p99.9<+5%", "does not tell how well that figure is known"),
        ("unstable.json", "--concurrency-range 1:2 --require p50<+5%", "its concurrency 2 is not valid (unstable)"),
    ];
    for (name, flags, reason) in refused {
        gate(name, flags).failure_after_notes(&["--baseline", name, reason, "has no answer; "]);
    }
    assert_eq!(server.inferences(), before, "nothing was measured");
    // What a user may well mean is only named.
    let run = gate("elsewhere.json", "--require p50<+90000%@concurrency:1 --gate-time 1s");
    assert!([0, 7].contains(&run.code()), "{}{}", run.stdout, run.stderr);
    for part in ["measured on another machine: processor: 'Another One' and ", "it is from one start of the server"] {
        assert!(run.stderr.contains(part), "{part}: {}", run.stderr);
    }
    let early = gate("base.json", "--concurrency-range 1:3 -l 60000 --require p50<+90000% --gate-time 1s");
    assert!(early.stderr.contains("it lacks concurrency 3; measure the same levels in both"), "{}", early.stderr);
}

#[test]
fn a_baseline_of_several_starts_brings_how_they_differ() {
    let server = one_by_one();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("base.json");
    levels(&server).args("-p 500 --percentile 50 --restarts 3 --summary-file").arg(&path).run();
    let mut base = summary(&path);
    let figures = base["levels"][0]["restarts"]["figures"].as_array_mut().unwrap();
    let median = figures.iter_mut().find(|figure| figure["of"]["percentile"] == 50.0).unwrap();
    assert_eq!(median["values"].as_array().unwrap().len(), 3);
    // Starts that differ by half.
    let middle = median["values"][0].as_f64().unwrap();
    median["values"] = serde_json::json!([middle * 0.5, middle, middle * 1.5]);
    assert!(figures.iter().any(|figure| figure["of"]["percentile"] == 99.0), "further figures: {figures:?}");
    fs::write(&path, base.to_string()).unwrap();
    let gate = |bound: &str| {
        let run = levels(&server).args("--percentile 50 --gate-time 1s --require").arg(format!("p50<{bound}"));
        run.arg("--baseline").arg(&path).run()
    };
    let near = gate("+20%");
    assert_eq!(near.code(), 7, "{}{}", near.stdout, near.stderr);
    assert!(!near.stderr.contains("one start"), "{}", near.stderr);
    assert_eq!(gate("+10000%").code(), 0);
}

/// The shell script in a workflow of docs/results.md: the lines of the block that has `mark`, after the one that ends in
/// `begin`, as long as they are further to the right.
fn script_of(mark: &str, begin: &str) -> String {
    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/results.md")).unwrap();
    let block = text.split("```").find(|block| block.starts_with("yaml") && block.contains(mark)).unwrap();
    let mut lines = block.lines().skip_while(|line| !line.trim_end().ends_with(begin));
    let indent = |line: &str| line.len() - line.trim_start().len();
    let outer = indent(lines.next().unwrap());
    let body: Vec<&str> = lines.take_while(|line| line.trim().is_empty() || indent(line) > outer).collect();
    body.iter().map(|line| line.trim_start().trim_start_matches("- ").to_owned() + "\n").collect()
}

#[test]
fn the_workflows_in_the_docs_run() {
    let server = HttpServer::start(good);
    let folder = tempfile::tempdir().unwrap();
    let programs = folder.path().join("bin");
    fs::create_dir(&programs).unwrap();
    symlink(env!("CARGO_BIN_EXE_triton-bench"), programs.join("triton-bench")).unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let bench = format!("-u {} -p 100 -s 1000000 --percentile 50 --gate-time 3s", server.url());
    let run = |script: &str, variables: &[(&str, &str)]| {
        let mut shell = Command::new("bash");
        shell.args(["-e", "-c", script]).current_dir(folder.path()).env("PATH", &path);
        shell.envs(variables.iter().copied()).env("GITHUB_STEP_SUMMARY", folder.path().join("page.md"));
        let ended = shell.output().unwrap();
        let output = String::from_utf8_lossy(&ended.stdout).into_owned() + &String::from_utf8_lossy(&ended.stderr);
        (ended.status.code().unwrap(), output)
    };
    let has = |name: &str, part: &str| fs::read_to_string(folder.path().join(name)).unwrap().contains(part);
    let github = script_of("GITHUB_STEP_SUMMARY", "run: |");
    let of_m = format!("-m m {bench}");
    let (code, messages) = run(&github, &[("GITHUB_REF", "refs/heads/main"), ("BENCH", &of_m)]);
    assert_eq!(code, 0, "{messages}");
    assert!(has("baseline.json", "\"starts\":5") || has("baseline.json", "\"starts\": 5"), "{messages}");
    let (code, messages) = run(&github, &[("GITHUB_REF", "refs/pull/1/merge"), ("BENCH", &of_m)]);
    assert!([0, 6].contains(&code), "{code}: {messages}");
    assert!(has("gate.xml", "name=\"p50&lt;+10%\"") && has("page.md", "p50&lt;+10%"), "{messages}");
    fs::remove_file(folder.path().join("gate.xml")).unwrap();
    let gitlab = script_of("allow_failure", "script:");
    let (code, messages) = run(&gitlab, &[("BENCH", &bench), ("BEFORE", "-m m"), ("AFTER", "-m m")]);
    assert!([0, 6, 7].contains(&code), "{code}: {messages}");
    assert!(has("gate.xml", "classname=\"m after concurrency 1\""), "{messages}");
}

/// Makes a whole result one that an interrupt has left, with some `changes`.
fn break_off(path: &Path, changes: impl FnOnce(&mut Value)) {
    let mut result = summary(path);
    result["interrupted"] = true.into();
    changes(&mut result);
    fs::write(path, result.to_string()).unwrap();
}

/// Levels that a resumed run has taken from the earlier one.
fn taken(resumed: &Finished) -> usize {
    resumed.stderr.matches(": measured before (--resume)").count()
}

#[test]
fn a_level_is_finished_with_its_last_start() {
    let server = HttpServer::start(good);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.json");
    let run = || levels(&server).args("--concurrency-range 1:3 --restarts 3");
    run().arg("--summary-file").arg(&path).run();
    // The third start of one level was broken off, and the second of another.
    break_off(&path, |result| {
        result["levels"][1]["restarts"]["starts"] = 2.into();
        result["levels"][2]["restarts"] = Value::Null;
    });
    let resumed = run().arg("--resume").arg(&path).run();
    let whole = summary(&path);
    let starts: Vec<_> =
        whole["levels"].as_array().unwrap().iter().map(|level| level["restarts"]["starts"].as_u64()).collect();
    assert_eq!((taken(&resumed), starts), (1, vec![Some(3); 3]), "{}", resumed.stderr);
    let before = server.inferences();
    let again = run().arg("--resume").arg(&path).run();
    assert_eq!((taken(&again), server.inferences()), (3, before), "{}", again.stderr);
}

#[test]
fn what_is_resumed_keeps_the_seed_that_was_drawn() {
    let server = HttpServer::start(good);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.json");
    let run = |flags: &str, seed: &str, file: &str| {
        levels(&server).args(flags).args("--on-disturbance ignore --seed").arg(seed).arg(file).arg(&path).run()
    };
    let orders = || {
        let rounds = summary(&path)["variants"]["cells"][0]["rounds"].take();
        rounds.as_array().unwrap().iter().map(|round| round["order"].clone()).collect::<Vec<_>>()
    };
    let variants = "--rounds 8 --order random --variant a:--sync --variant b:--async --variant c:";
    for (flags, levels) in [("--concurrency-range 1:2", 2), (variants, 0)] {
        assert!(run(flags, "time", "--summary-file").code() < 99);
        let drawn = if levels == 0 { orders() } else { Vec::new() };
        break_off(&path, |result| {
            result["levels"].as_array_mut().unwrap().truncate(1);
            let rounds = result.pointer_mut("/variants/cells/0/rounds").and_then(Value::as_array_mut);
            rounds.into_iter().for_each(|rounds| rounds.truncate(4));
        });
        let left = summary(&path);
        let seed = left["seed"].to_string();
        // Another seed would draw other loads, and other orders, for what is left.
        let refused = run(flags, "time", "--resume");
        refused.failure_after_notes(&[
            "--seed was '",
            &seed,
            "and is '",
            &format!("with --seed {seed}, or start over"),
        ]);
        assert_eq!(summary(&path), left);
        let resumed = run(flags, &seed, "--resume");
        let whole = summary(&path);
        assert!(resumed.code() < 99, "{}", resumed.stderr);
        assert_eq!((whole["seed"].to_string(), whole["levels"].as_array().unwrap().len()), (seed, levels));
        assert_eq!(taken(&resumed), 1, "{}", resumed.stderr);
        if levels == 0 {
            assert_eq!(orders(), drawn);
        }
    }
}

#[test]
fn timed_the_end_of_a_range_is_measured_once_more_where_an_interrupt_was_in_the_way() {
    let server = one_by_one();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.json");
    let run = |flag: &str| levels(&server).args("-p 400 --concurrency-range 1:6:5 -l 60").arg(flag).arg(&path).run();
    let again = |run: &Finished| run.stderr.matches("measured once more, because the range ends there").count();
    let first = run("--summary-file");
    assert_eq!(again(&first), 1, "{}", first.stderr);
    let over = run("--resume");
    assert_eq!((again(&over), taken(&over)), (0, 2), "{}", over.stderr);
    break_off(&path, |_| ());
    let resumed = run("--resume");
    assert_eq!((again(&resumed), taken(&resumed)), (1, 2), "{}", resumed.stderr);
}

#[test]
fn levels_of_several_batch_sizes_are_told_apart() {
    let server = HttpServer::start(good);
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let run = levels(&server).args("-b 1,2 --require p50<10s --summary-file").arg(file("r.json"));
    let run = run.arg("--junit").arg(file("j.xml")).arg("--markdown").arg(file("t.md")).run();
    // This server knows no batches; the level has its name all the same.
    assert!(run.stdout.contains("concurrency 1, batch size 2"), "{}\n{}", run.stdout, run.stderr);
    let read = |name: &str| fs::read_to_string(file(name)).unwrap();
    assert!(read("j.xml").contains("classname=\"m concurrency 1, batch size 2\""), "{}", read("j.xml"));
    assert!(read("t.md").contains(", batch 2 |"), "{}", read("t.md"));
    let compared = Program::new().args("compare").arg(file("r.json")).arg(file("r.json")).run();
    assert!(compared.stdout.contains("concurrency 1, batch size 2:\n"), "{}", compared.stdout);
}

#[test]
fn timed_standard_error_that_nobody_reads_holds_up_no_end() {
    const CAPACITY: usize = 65_536;
    let server = HttpServer::start(good);
    let (reader, mut writer) = std::io::pipe().unwrap();
    // What comes after that waits for a reader.
    writer.write_all(&[b'x'; CAPACITY]).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_triton-bench"));
    child.args(["-m", "m", "-p", "60000", "-u", &server.url()]).stdout(Stdio::piped()).stderr(writer);
    let mut child = child.spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut text = String::new();
    while !text.contains("Request concurrency: 1") {
        assert!(stdout.read_line(&mut text).unwrap() > 0, "it ended: {text}");
    }
    let signalled = Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(signalled.elapsed() < SOON, "it did not end");
        assert!(Command::new("kill").arg("-TERM").arg(child.id().to_string()).status().unwrap().success());
        thread::sleep(Duration::from_millis(200));
    }
    drop(reader);
}

#[test]
fn whoever_has_seen_enough_of_a_text_hears_nothing_of_it() {
    for words in [&["doctor"][..], &["--help"], &["completions", "bash"]] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_triton-bench"));
        let mut child = child.args(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // Before anything can be written, or soon after.
        drop(child.stdout.take());
        let ended = child.wait_with_output().unwrap();
        assert_eq!((ended.status.code(), String::from_utf8_lossy(&ended.stderr).as_ref()), (Some(0), ""), "{words:?}");
    }
}

#[test]
fn callers_of_perf_analyzer_that_close_its_output_have_all_levels_in_the_file() {
    let server = HttpServer::start(good);
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("levels.csv");
    let mut child = Command::new(env!("CARGO_BIN_EXE_perf_analyzer"));
    child.args(["-m", "m", "-u", &server.url(), "--concurrency-range", "1:3", "--request-count", "20", "-f"]).arg(&csv);
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
    assert_eq!(fs::read_to_string(&csv).unwrap().lines().filter(|line| !line.is_empty()).count(), 1 + 3);
}

#[test]
fn a_result_that_cannot_be_written_ends_no_measurement() {
    let server = HttpServer::start(good);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("result.json");
    let running = levels(&server).args("--concurrency-range 1:12 --summary-file").arg(&path).start();
    running.wait_for("Request concurrency: 2");
    folder.close().unwrap();
    let finished = running.finish();
    assert_eq!(finished.code(), 99, "{}", finished.stderr);
    assert!(finished.stdout.contains("\nConcurrency: 12, throughput: "), "{}", finished.stdout);
    let last = finished.stderr.lines().last().unwrap();
    assert!(last.starts_with("error: --summary-file ") && last.contains("cannot be written"), "{}", finished.stderr);
}

#[test]
fn the_programs_own_log_goes_to_standard_error_and_only_if_asked_for() {
    let server = HttpServer::start(good);
    let quiet = program(&server).run();
    assert!(!quiet.stderr.contains("triton_bench::"), "{}", quiet.stderr);
    let logged = program(&server).env("TRITON_BENCH_LOG", "debug").run();
    assert!(logged.stderr.contains(" DEBUG triton_bench::app::runner] measuring Concurrency(1)"), "{}", logged.stderr);
    assert!(logged.stderr.contains("triton_bench::measure"), "{}", logged.stderr);
    assert!(!logged.stdout.contains("DEBUG"), "{}", logged.stdout);
    let part = program(&server).env("TRITON_BENCH_LOG", "triton_bench::measure=debug").run();
    assert!(part.stderr.contains("triton_bench::measure") && !part.stderr.contains("app::runner"), "{}", part.stderr);
    let refused = program(&server).env("TRITON_BENCH_LOG", "app=loud").run();
    assert_eq!(refused.code(), 99);
    assert!(refused.stderr.contains("TRITON_BENCH_LOG") && refused.stderr.contains("debug"), "{}", refused.stderr);
}

#[test]
fn timed_the_most_paced_streams_within_a_limit_are_the_answer() {
    // A server that takes 20 ms for each has time for two streams of ten requests a second, and none for eight.
    let flags = "--concurrency-range 2:8:6 --paced 100ms --request-count 60 --percentile 50 -l 90";
    let mut runs = (0..6).map(|_| {
        let server = one_by_one();
        levels(&server).args(flags).run().stdout
    });
    // Where a busy machine keeps the client from sending in time, that says nothing about the server.
    let is_delivered = |stdout: &String| !stdout.contains("the load of 2 streams was not delivered");
    let stdout = runs.find(is_delivered).expect("two streams are sent in time");
    assert!(stdout.contains("\nMost streams within p50 < 90 ms: 2 (p50 "), "{stdout}");
}

#[cfg(feature = "png")]
#[test]
fn a_chart_is_written_as_pixels_where_its_name_says_so() {
    let server = HttpServer::start(good);
    let folder = tempfile::tempdir().unwrap();
    let (pixels, lines) = (folder.path().join("t.PNG"), folder.path().join("t.svg"));
    let run = program(&server).args("--svg").arg(format!("throughput:{}", pixels.display()));
    run.args("--svg").arg(format!("throughput:{}", lines.display())).run().report_even_if_late();
    let bytes = std::fs::read(&pixels).unwrap();
    assert!(bytes.starts_with(b"\x89PNG") && bytes[16..20] == 1920_u32.to_be_bytes(), "{:?}", &bytes[..24]);
    assert!(std::fs::read_to_string(&lines).unwrap().starts_with("<?xml"));
    // One that cannot be written is refused as any other.
    let refused = program(&server).args("--svg throughput:/none/such/t.png").run();
    refused.refusal(&["--svg throughput /none/such/t.png", "no folder"]);
}

/// A server that takes 10 ms for each, and fails those with these numbers.
fn failing(numbers: std::ops::Range<usize>) -> HttpServer {
    HttpServer::start(move |request: &Received| {
        let answer = match numbers.contains(&request.ordinal) {
            true => reply("500 Internal Server Error", "", b"busy"),
            false => good_answer(),
        };
        vec![Act::Wait(Duration::from_millis(10)), Act::Send(answer)]
    })
}

#[test]
fn timed_failures_end_a_level_only_where_it_cannot_keep_to_what_is_allowed() {
    // One of the 20 requests of a window, and of all that are sent until it settles or its time is over, less than 4 %.
    let server = failing(30..31);
    let run = levels(&server).args("-c 1 -p 200 --max-errors 4% --on-disturbance mark").run();
    assert!([0, 2].contains(&run.code()), "{}{}", run.stdout, run.stderr);
    assert!(
        run.stdout.contains("Failed request count: 1 ") || !run.stdout.contains("Failed request count"),
        "{}",
        run.stdout
    );
    // All fail from the second window on: of the requests that its time has room for, that is too much.
    let server = failing(30..usize::MAX);
    let run = levels(&server).args("-c 1 -p 200 --max-errors 4%").run();
    assert_eq!(run.code(), 3, "{}{}", run.stdout, run.stderr);
    assert!(
        run.wall < Duration::from_secs(8) && run.stdout.contains(" requests failed"),
        "{:?}: {}",
        run.wall,
        run.stdout
    );
}

#[test]
fn timed_an_interrupt_decides_no_requirement_and_is_no_fault_of_a_picture() {
    let server = one_by_one();
    let folder = tempfile::tempdir().unwrap();
    let figure = format!("timeline:{}", folder.path().join("t.svg").display());
    let interrupted = |flags: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_triton-bench"));
        command.args(["-m", "m", "-u", &server.url()]).args(flags);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        thread::sleep(Duration::from_millis(900));
        assert!(Command::new("kill").arg("-INT").arg(child.id().to_string()).status().unwrap().success());
        let finished = child.wait_with_output().unwrap();
        (finished.status.code().unwrap(), String::from_utf8([finished.stdout, finished.stderr].concat()).unwrap())
    };
    let (code, text) = interrupted(&["-c", "1", "-p", "5000", "--require", "p50<10s"]);
    assert!(code == 7 && text.contains("interrupted while it was measured"), "{code}: {text}");
    let (code, text) = interrupted(&["-c", "1", "--warm-up", "concurrency:1:3s", "--svg", &figure]);
    assert!(code == 130 && text.contains("nothing was measured"), "{code}: {text}");
}
