//! What a run leaves behind: result files, complete or absent, and exit codes, with and without interrupts.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::endings::{Watched, marking, watched};
use crate::support::{Export, Finished, Model, Program, Report, Repository, Running, until_it_catches};

const SIGINT: i32 = 2;
const SIGTERM: i32 = 15;

fn table(path: &Path) -> Vec<Vec<String>> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| line.split(',').map(str::to_owned).collect()).collect()
}

#[test]
fn the_table_has_a_row_per_level() {
    let repository = Repository::of(&[Model::sleeping("m", 2).instances(2)]);
    let path = repository.file("a.csv");
    Program::on(&repository, "m").quick().args("--concurrency-range 1:3 -f").arg(&path).run().report();
    let rows = table(&path);
    let columns = "Concurrency,Inferences/Second,Client Send,Network+Server Send/Recv,Server Queue,Server Compute Input,\
         Server Compute Infer,Server Compute Output,Client Recv,p50 latency,p90 latency,p95 latency,p99 latency,\
         Outcome";
    assert_eq!(rows[0].join(","), columns);
    let mut levels: Vec<&str> = rows[1..].iter().map(|row| row[0].as_str()).collect();
    levels.sort_unstable();
    assert_eq!(levels, ["1", "2", "3"]);
    let rates: Vec<f64> = rows[1..].iter().map(|row| row[1].parse().unwrap()).collect();
    assert!(rates.is_sorted(), "rows ascend by throughput: {rates:?}");
    for row in &rows[1..] {
        assert_eq!(row.len(), 14);
        assert_ne!(row[13], "", "the outcome is always there: {row:?}");
        assert!(row[9].parse::<u64>().unwrap() >= 2000, "p50 in microseconds: {row:?}");
    }
    assert_eq!(repository.files(), ["a.csv", "models"]);
}

#[test]
fn what_was_measured_is_kept_where_standard_output_breaks() {
    let repository = Repository::of(&[Model::sleeping("m", 2)]);
    let (csv, export) = (repository.file("a.csv"), repository.file("a.json"));
    // The second level is measured, and nobody is there to read what it came to.
    let finished = Program::on(&repository, "m")
        .quick()
        .args("--concurrency-range 1:3 -f")
        .arg(&csv)
        .arg("--profile-export-file")
        .arg(&export)
        .heard_until("Request concurrency: 2")
        .run();
    finished.failure_after_notes(&["standard output cannot be written"]);
    let rows = table(&csv);
    let mut levels: Vec<&str> = rows[1..].iter().map(|row| row[0].as_str()).collect();
    levels.sort_unstable();
    assert_eq!(levels, ["1", "2"]);
    assert_eq!(Export::read(&export).experiments().len(), 2);
    let stages = "--stage concurrency:1:100ms --stage concurrency:2:100ms -f";
    let path = repository.file("b.csv");
    let stages = Program::on(&repository, "m").args(stages).arg(&path).heard_until("Random seed").run();
    stages.failure_after_notes(&["standard output cannot be written"]);
    assert_eq!(table(&path).len(), 2, "the stage that could not be printed ends the run, and is kept");
}

/// The loads of a result that is written while this is read.
fn loads(path: &Path) -> Vec<u64> {
    let written: serde_json::Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    written["levels"].as_array().unwrap().iter().map(|level| level["load"]["value"].as_u64().unwrap()).collect()
}

/// Whatever ends the run, the stages that are over are there.
#[test]
fn a_stage_is_printed_and_written_as_it_ends() {
    let repository = Repository::of(&[Model::sleeping("m", 2)]);
    let path = repository.file("a.json");
    let stages = "--stage concurrency:1:60req --stage concurrency:3:60req --stage concurrency:2:50s --summary-file";
    let running = Program::on(&repository, "m").args(stages).arg(&path).start();
    running.wait_for("Request concurrency: 3\n");
    let started = Instant::now();
    while loads(&path) != [1, 3] {
        assert!(started.elapsed() < Duration::from_secs(20), "{:?}", loads(&path));
        thread::sleep(Duration::from_millis(10));
    }
    running.signal(9);
    let killed = running.finish();
    assert_eq!(killed.signal(), Some(9));
    let report = Report::parse(&killed.stdout);
    assert_eq!(report.values(), [1.0, 3.0], "{}", report.text);
    assert!(report.levels.iter().all(|level| level.client_number("Request count") > 10.0), "{}", report.text);
}

#[test]
fn an_error_before_the_first_level_leaves_files_as_they_were() {
    let repository = Repository::of(&[Model::identity("m")]);
    let csv = repository.file("a.csv");
    fs::write(&csv, "old").unwrap();
    let run = Program::on(&repository, "m").args("--output-memory gpu:1000 -f").arg(&csv);
    let finished = run.arg("--profile-export-file").arg(repository.file("a.json")).run();
    assert_eq!(finished.code(), 99, "{}", finished.stderr);
    assert_eq!(fs::read_to_string(&csv).unwrap(), "old");
    assert_eq!(repository.files(), ["a.csv", "models"]);
}

#[test]
fn what_nobody_can_read_changes_no_exit_code() {
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let program = || std::process::Command::new(env!("CARGO_BIN_EXE_triton-bench"));
    assert_eq!(program().arg("--no-such-flag").stderr(full()).status().unwrap().code(), Some(99));
    assert_eq!(program().arg("--version").stderr(full()).status().unwrap().code(), Some(0));
    let help = program().arg("--help").stdout(full()).output().unwrap();
    assert_eq!(help.status.code(), Some(99));
    let message = String::from_utf8(help.stderr).unwrap();
    assert!(message.starts_with("error: standard output cannot be written: No space left"), "{message}");
}

#[test]
fn a_run_that_nobody_listens_to_ends_well() {
    let repository = Repository::of(&[Model::identity("m")]);
    let csv = repository.file("a.csv");
    // Says something of the models, of every window, and of the validation.
    let run = Program::on(&repository, "m").args("-v -v --request-count 20 -f").arg(&csv).deaf().run();
    assert_eq!(run.code(), 0);
    assert!(fs::read_to_string(&csv).unwrap().lines().count() == 2);
}

#[test]
fn two_results_need_two_files() {
    let repository = Repository::of(&[Model::identity("m")]);
    let (path, same) = (repository.file("a"), repository.file("./a"));
    let finished = Program::on(&repository, "m").arg("-f").arg(&path).arg("--profile-export-file").arg(&same).run();
    finished.refusal(&["--profile-export-file", "-f", "name two files"]);
    assert_eq!(repository.files(), ["models"]);
}

#[test]
fn the_verbose_table_has_more_columns() {
    let repository = Repository::of(&[Model::identity("m")]);
    let path = repository.file("a.csv");
    Program::on(&repository, "m").quick().args("--verbose-csv -f").arg(&path).run().report();
    let rows = table(&path);
    let at = rows[0].iter().position(|name| name == "p99 latency").unwrap();
    assert_eq!(rows[0][at + 1..at + 4], ["Avg latency", "request/response", "response wait"]);
    assert!(rows.iter().all(|row| row.len() == rows[0].len()), "{rows:?}");
}

#[test]
fn an_ensembles_models_have_tables_of_their_own() {
    let step = r#"
platform: "ensemble"
ensemble_scheduling { step [
  { model_name: "inner" model_version: -1 input_map { key: "INPUT0" value: "INPUT0" } output_map { key: "OUTPUT0" value: "OUTPUT0" } }
] }"#;
    let repository = Repository::of(&[Model::identity("inner"), Model::identity("m").backend("").with(step)]);
    let finished = Program::on(&repository, "m").quick().arg("-f").arg(repository.file("a.csv")).run();
    finished.report();
    assert_eq!(finished.stderr, "", "the ensemble is unloaded before what it is made of");
    assert_eq!(repository.files(), ["a.csv", "inner_v1.a.csv", "models"]);
}

#[test]
fn an_existing_table_is_replaced_only_at_the_end() {
    let repository = sleeping(1);
    let path = repository.file("a.csv");
    fs::write(&path, "old").unwrap();
    let running = Program::on(&repository, "m").args("-p 1500 -s 1000000 -f").arg(&path).start();
    repository.wait_for_requests("m", 0);
    assert_eq!(fs::read_to_string(&path).unwrap(), "old");
    running.finish().report();
    assert!(fs::read_to_string(&path).unwrap().starts_with("Concurrency,"));
}

#[test]
fn the_export_holds_every_request() {
    for mode in ["--sync", "--async --concurrency-range 4"] {
        let repository = Repository::counted(Model::sleeping("m", 1));
        let path = repository.file("a.json");
        let program =
            Program::on(&repository, "m").args("--request-count 60 --profile-export-file").arg(&path).args(mode);
        program.run().report();
        let export = Export::read(&path);
        assert_eq!(export.0["service_kind"], "triton_c_api", "{}", export.0);
        assert!(
            export.0["version"].is_string() && export.0["endpoint"].is_string(),
            "{:?}",
            export.0.as_object().unwrap().keys()
        );
        let [experiment] = export.experiments() else { panic!("one level") };
        assert_eq!(experiment["experiment"]["mode"], "concurrency");
        let requests = experiment["requests"].as_array().unwrap();
        assert_eq!(requests.len(), 60);
        for request in requests {
            assert!(request["request_inputs"]["INPUT0"].is_array(), "{request}");
            let responses = request["response_timestamps"].as_array().unwrap();
            assert_eq!(responses.len(), 1);
            assert!(responses[0].as_u64() > request["timestamp"].as_u64());
            assert_eq!(request["response_outputs"].as_array().unwrap().len(), 1);
            assert!(request.get("sequence_id").is_none());
        }
        assert!(experiment["window_boundaries"].as_array().unwrap().len() >= 2);
        assert_eq!(repository.files(), ["a.json", "m.counters", "models"]);
    }
}

#[test]
fn the_export_has_an_experiment_per_level() {
    let repository = Repository::of(&[Model::sleeping("m", 5).instances(3)]);
    let path = repository.file("a.json");
    Program::on(&repository, "m")
        .quick()
        .args("--concurrency-range 1:3 --profile-export-file")
        .arg(&path)
        .run()
        .report();
    let export = Export::read(&path);
    let values: Vec<f64> =
        export.experiments().iter().map(|experiment| experiment["experiment"]["value"].as_f64().unwrap()).collect();
    assert_eq!(values, [1.0, 2.0, 3.0]);
}

#[test]
fn a_full_device_is_an_error_and_no_crash() {
    let repository = Repository::of(&[Model::identity("m")]);
    let run = |flag: &str| Program::on(&repository, "m").args("--request-count 2000").args(flag).arg("/dev/full").run();
    run("-f").failure(&["-f", "/dev/full", "No space left"]);
    run("--profile-export-file").failure(&["--profile-export-file", "/dev/full", "No space left"]);
}

#[test]
fn nothing_is_written_where_nothing_was_asked_for() {
    let repository = Repository::of(&[Model::identity("m")]);
    Program::on(&repository, "m").quick().run().report();
    assert_eq!(repository.files(), ["models"]);
}

#[test]
fn an_unstable_level_prints_its_data_and_says_so() {
    // Every window of a model whose delay is spread evenly over 40 ms differs by more than nothing.
    let model = Model::sleeping("m", 1).parameter("jitter_us", "40000");
    let repository = Repository::of(&[model]);
    let path = repository.file("a.csv");
    let finished = Program::on(&repository, "m").args("-p 100 -s 0 -r 4 -f").arg(&path).run();
    let report = finished.report_with(2);
    assert!(report.level().client_number("Throughput") > 0.0);
    assert!(report.summary()[0].contains(" [unstable]"), "{}", report.text);
    assert!(report.level().text.contains("Verdict: invalid [unstable]"), "{}", report.text);
    assert_eq!(table(&path).len(), 2, "and its row is in the table");
    // perf_analyzer's own words, which make tools such as Model Analyzer lengthen their windows and try again.
    let sentence = "Failed to obtain stable measurement within 4 measurement windows for concurrency 1. \
        Please try to increase the --measurement-interval.";
    assert!(finished.stderr.lines().any(|line| line == sentence), "{}", finished.stderr);
}

#[test]
fn a_first_level_above_the_latency_threshold_is_code_5() {
    let repository = Repository::of(&[Model::sleeping("m", 20)]);
    let finished = Program::on(&repository, "m").quick().args("-l 5 --concurrency-range 1:4").run();
    let report = finished.report_with(5);
    assert!(finished.stderr.contains("Measured latency went over the set limit of 5 msec."), "{}", finished.stderr);
    assert_eq!(report.values(), [1.0]);
    assert!(report.summary()[0].contains("over latency threshold"), "{}", report.text);
    // perf_analyzer's callers know no such code.
    Program::on(&repository, "m").quick().args("-l 5").named_perf_analyzer().run().report_with(0);
}

#[test]
fn timed_a_range_ends_at_the_latency_threshold() {
    let repository = Repository::of(&[Model::sleeping("m", 20)]);
    // One instance: 20, 40, 60 ms.
    let report = Program::on(&repository, "m").quick().args("-l 50 --concurrency-range 1:0").run().report();
    assert_eq!(report.values(), [1.0, 2.0, 3.0], "{}", report.text);
}

#[test]
fn a_level_without_success_is_code_3() {
    let repository = Repository::of(&[Model::identity("m").parameter("fail_every", "1")]);
    let report = Program::on(&repository, "m").quick().run().report_with(3);
    assert!(report.summary()[0].contains(" [failed]"), "{}", report.text);
}

#[test]
fn a_rate_that_the_server_cannot_take_is_code_4() {
    let repository = Repository::of(&[Model::sleeping("m", 20)]);
    let finished = Program::on(&repository, "m").args("-p 300 -s 100000 --request-rate-range 200").run();
    let report = finished.report_with(4);
    assert!(report.level().text.contains("Verdict: invalid"), "{}", report.text);
}

#[test]
fn a_closed_standard_output_is_an_error_and_no_crash() {
    let repository = Repository::of(&[Model::identity("m")]);
    let script = format!(
        "{} --service-kind triton_c_api --triton-server-directory {} --model-repository {} -m m -p 100 -s 1000000 | true",
        env!("CARGO_BIN_EXE_triton-bench"),
        crate::support::triton().display(),
        repository.path().display()
    );
    let shell =
        std::process::Command::new("bash").args(["-c", &format!("{script}; echo code ${{PIPESTATUS[0]}}")]).output();
    let shell = shell.unwrap();
    let (out, err) =
        (String::from_utf8_lossy(&shell.stdout).into_owned(), String::from_utf8_lossy(&shell.stderr).into_owned());
    assert!(out.contains("code 99"), "{out} {err}");
    assert!(err.contains("standard output cannot be written") && !err.contains("panicked"), "{err}");
}

/// A repository with a model that takes so long, in milliseconds, and tells when it does.
fn sleeping(delay: u64) -> Repository {
    let repository = Repository::of(&[]);
    repository.add(&repository.journaling(repository.counting(Model::sleeping("m", delay))));
    repository
}

/// A run whose first request is in the model's hands, which keeps it for `seconds`.
fn unanswered(seconds: u32, arguments: &str) -> (Watched, Running) {
    let watched = watched(marking("execute", &format!("time.sleep({seconds})")));
    let running = watched.program().args("-p 5000").args(arguments).start();
    watched.wait_for_mark();
    (watched, running)
}

/// A run that would take long, in the middle of it.
fn long_run(repository: &Repository, arguments: &str) -> Running {
    let running = Program::on(repository, "m").args("-p 5000").args(arguments).start();
    repository.wait_for_requests("m", 0);
    // What has come so far may have been before the first window.
    repository.wait_for_requests("m", 5 * repository.journal_length("m"));
    running
}

fn interrupted(signal: i32, arguments: &str) -> Finished {
    let repository = sleeping(10);
    let (table, export) = (repository.file("a.csv"), repository.file("a.json"));
    let files = format!("-f {} --profile-export-file {} {arguments}", table.display(), export.display());
    let running = long_run(&repository, &files);
    thread::sleep(Duration::from_millis(500));
    let signalled = Instant::now();
    running.signal(signal);
    let finished = running.finish();
    assert!(signalled.elapsed() < Duration::from_secs(2), "took {:?}", signalled.elapsed());
    let report = finished.report();
    assert!(report.level().client_number("Request count") > 10.0, "{}", report.text);
    assert!(report.summary()[0].contains(" [interrupted]"), "{}", report.text);
    assert_eq!(
        repository.files(),
        ["a.csv", "a.json", "m.counters", "m.journal", "models"],
        "whole files, nothing else, a clean unload"
    );
    Export::read(&export);
    finished
}

#[test]
fn timed_one_interrupt_reports_what_there_is() {
    for mode in ["--sync", "--async --concurrency-range 4"] {
        let finished = interrupted(SIGINT, mode);
        assert!(finished.stderr.contains("interrupted; reporting the results so far"), "{}", finished.stderr);
    }
}

#[test]
fn timed_a_termination_is_an_interrupt() {
    interrupted(SIGTERM, "--async");
}

#[test]
fn an_interrupt_ends_the_range() {
    let repository = sleeping(10);
    let (summary, page, table) = (repository.file("r.json"), repository.file("r.html"), repository.file("r.md"));
    let files =
        format!("--summary-file {} --report {} --markdown {}", summary.display(), page.display(), table.display());
    let running = long_run(&repository, &format!("--concurrency-range 1:8 {files}"));
    running.signal(SIGINT);
    assert_eq!(running.finish().report().values(), [1.0]);
    let text = |path| fs::read_to_string(path).unwrap();
    let result: serde_json::Value = serde_json::from_str(&text(summary)).unwrap();
    assert_eq!(result["interrupted"], true, "{result}");
    assert!([page, table].map(text).iter().all(|text| text.contains("Interrupted: what had not been measured")));
}

#[test]
fn an_interrupt_ends_a_counted_run() {
    let repository = sleeping(10);
    let running = long_run(&repository, "--request-count 100000");
    running.signal(SIGINT);
    let report = running.finish().report();
    assert!(report.summary()[0].contains(" [interrupted]"), "{}", report.text);
}

#[test]
fn an_interrupt_before_anything_was_measured_is_reported_and_no_success() {
    let (_watched, running) = unanswered(3, "");
    running.signal(SIGINT);
    let finished = running.finish();
    assert!(finished.code() == 130 && !finished.stdout.contains("infer/sec"), "{finished:#?}");
    assert!(finished.stderr.contains("nothing was measured"), "{finished:#?}");
}

#[test]
fn timed_an_interrupt_ends_the_wait_for_a_server() {
    let program = Program::new().args("-m m -u localhost:9 --server-wait 60");
    let (started, running) = (Instant::now(), program.start());
    until_it_catches(running.id() as i32, SIGINT);
    running.signal(SIGINT);
    let finished = running.finish();
    assert_eq!(finished.code(), 130, "{finished:#?}");
    assert!(started.elapsed() < Duration::from_secs(10), "took {:?}", started.elapsed());
    assert!(finished.stderr.contains("interrupted before anything was measured"), "{finished:#?}");
}

#[test]
fn timed_two_interrupts_leave_at_once() {
    // A model whose requests take long holds the end of the run back.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.csv");
    let (_watched, running) = unanswered(8, &format!("-f {}", path.display()));
    running.signal(SIGINT);
    running.wait_for("interrupted; reporting the results so far");
    // Sooner, both would be taken for one.
    thread::sleep(Duration::from_millis(250));
    let second = Instant::now();
    running.signal(SIGINT);
    let finished = running.finish();
    assert!(second.elapsed() < Duration::from_millis(1000), "took {:?}", second.elapsed());
    assert_eq!(finished.code(), 130, "{finished:#?}");
    assert!(!path.exists(), "nothing half-written");
}

/// Three windows are a level, but for a machine that stood still for a whole one.
fn assert_windows(passes: usize, report: &Report) {
    assert!((3..=10).contains(&passes), "{}", report.text);
}

#[test]
fn pass_lines_come_with_v_and_no_progress_line_without_a_terminal() {
    let repository = Repository::of(&[Model::identity("m")]);
    let finished = Program::on(&repository, "m").quick().arg("-v").run();
    let report = finished.report();
    let passes: Vec<&str> = report.text.lines().filter(|line| line.starts_with("  Pass [")).collect();
    for (index, line) in passes.iter().enumerate() {
        assert!(line.starts_with(&format!("  Pass [{}] throughput: ", index + 1)), "{}", report.text);
    }
    assert_windows(passes.len(), &report);
    assert_eq!(finished.stderr, "");
}

#[test]
fn v_given_twice_tells_more_of_windows_and_models() {
    let repository = Repository::of(&[Model::identity("m")]);
    let finished = Program::on(&repository, "m").quick().args("-v -v").run();
    let report = finished.report();
    let lines: Vec<&str> = report.text.lines().collect();
    let details = lines.windows(3).filter(|lines| {
        lines[0].starts_with("  Pass [")
            && lines[1].starts_with("    Requests: ")
            && lines[1].contains(" 0 failed in ")
            && lines[2].starts_with("    Latency: avg ")
    });
    assert_windows(details.count(), &report);
    assert_eq!(
        finished.stderr,
        "model 'm': platform 'bench', versions 1, max_batch_size 8, inputs: INPUT0 FP32 [16]; outputs: OUTPUT0 FP32 [16]\n"
    );
}

#[test]
fn the_report_has_every_line_that_readers_look_for() {
    let repository = Repository::of(&[Model::sleeping("m", 2)]);
    let report = Program::on(&repository, "m").quick().args("--percentile 95").run().report();
    for line in [
        "*** Measurement Settings ***",
        "  Service Kind: TRITON_C_API",
        "  Using \"time_windows\" mode for stabilization",
        "  Stabilizing using p95latency and throughput",
        "  Measurement window: 100 msec",
        "  Using synchronous calls for inference",
        "Request concurrency: 1",
        "  Client: ",
        "  Server: ",
        "Inferences/Second vs. Client p95 Batch Latency",
    ] {
        assert!(report.text.lines().any(|have| have == line), "no line '{line}' in {}", report.text);
    }
    assert!(report.summary()[0].starts_with("Concurrency: 1, throughput: "), "{}", report.text);
}
