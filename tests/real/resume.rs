//! `--resume` of sweeps, variants, matrices and periodic loads: what was finished is not measured again.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Finished, Model, Program, Repository};

/// Waits until the result at `path` has come so far; it is written anew as it grows.
fn wait_until(path: &Path, label: &str, is_so_far: impl Fn(&Value) -> bool) {
    let started = Instant::now();
    let read = || serde_json::from_str(&fs::read_to_string(path).ok()?).ok();
    while !read().is_some_and(|result| is_so_far(&result)) {
        assert!(started.elapsed() < Duration::from_secs(50), "{label}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).expect("the result is whole")
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().unwrap_or_else(|| panic!("no {key}"))
}

/// A run that is broken off and gone on with.
struct Bench {
    repository: Repository,
    model: &'static str,
    flags: &'static str,
    path: PathBuf,
}

impl Bench {
    /// Each of the models writes a journal, by which requests are counted that came to it.
    fn new(models: Vec<Model>, model: &'static str, flags: &'static str) -> Self {
        let repository = Repository::of(&[]);
        models.into_iter().for_each(|model| repository.add(&repository.journaling(model)));
        let path = repository.file("r.json");
        Self { repository, model, flags, path }
    }

    fn program(&self) -> Program {
        Program::on(&self.repository, self.model).args(self.flags)
    }

    /// Starts it, and ends it by `signal` once the result has come so far. What it left.
    fn broken_off(&self, signal: i32, label: &str, is_so_far: impl Fn(&Value) -> bool) -> Value {
        let page = self.repository.file("r.html");
        let running = self.program().arg("--summary-file").arg(&self.path).arg("--report").arg(&page).start();
        wait_until(&self.path, label, is_so_far);
        running.signal(signal);
        let finished = running.finish();
        assert_eq!(finished.signal().is_some(), signal == 9, "{}", finished.stderr);
        json(&self.path)
    }

    fn resumed(&self) -> (Finished, Value) {
        let finished = self.program().arg("--resume").arg(&self.path).run();
        assert!(finished.code() < 99, "{}", finished.stderr);
        (finished, json(&self.path))
    }

    /// Goes on where there is nothing left to do: no request reaches a model, and all is said and written as before.
    fn resumed_at_the_end(&self, last: &Finished, result: &Value, parts: &[&str]) {
        let requests = || self.repository.journal_length(self.model);
        let before = requests();
        assert!(before > 0);
        let (again, same) = self.resumed();
        assert_eq!(requests(), before, "{}", again.stderr);
        assert_eq!(again.code(), last.code(), "{}", again.stderr);
        for part in parts {
            assert_eq!(same[*part], result[*part], "{part}");
        }
    }
}

/// What a level came to, but for its stamps, which are moved.
fn figures(level: &Value) -> [&Value; 6] {
    ["load", "outcome", "figures", "intervals", "client", "server"].map(|key| match key {
        "client" => &level[key]["latency"],
        _ => &level[key],
    })
}

fn sweep() -> Bench {
    Bench::new(vec![Model::sleeping("m", 5).instances(2)], "m", "--sweep linear:3 -p 300 -s 1000000 -r 3")
}

/// Levels and steps that an earlier run has finished are those of the resumed run, too.
fn assert_goes_on(bench: &Bench, before: &Value) {
    let finished = |level: &&Value| !["interrupted", "failed"].contains(&level["ending"].as_str().unwrap());
    let kept: Vec<&Value> = list(before, "levels").iter().filter(finished).collect();
    let steps = list(before, "sweep_steps");
    let (resumed, whole) = bench.resumed();
    let searched = steps.iter().filter(|taken| taken["step"]["confirm"].is_f64()).count();
    let count = |words: &str| resumed.stderr.lines().filter(|line| line.contains(words)).count();
    assert_eq!(count("sustained, measured before (--resume)"), searched, "{}", resumed.stderr);
    assert_eq!(count(": measured before (--resume)"), kept.len(), "{}", resumed.stderr);
    assert_eq!(&list(&whole, "sweep_steps")[..steps.len()], steps);
    let levels = list(&whole, "levels");
    // A rate that others do not let hold is replaced by a lower one.
    assert!(levels.len() >= 4, "{}", resumed.stdout);
    for (old, new) in kept.iter().zip(levels) {
        // One that contradicts the others is measured once more.
        if count("contradicts the other rates") == 0 {
            assert_eq!(figures(old), figures(new));
        }
    }
    assert!(whole["sweep"]["saturation"].is_f64() && whole["interrupted"] == false, "{}", whole["sweep"]);
    let is_row = |line: &&str| line.starts_with("Request Rate: ") && line.contains(", throughput: ");
    let rows = resumed.stdout.lines().filter(is_row).count();
    assert_eq!(rows, levels.len(), "{}", resumed.stdout);
    bench.resumed_at_the_end(&resumed, &whole, &["sweep", "sweep_steps"]);
}

#[test]
fn a_sweep_goes_on_after_its_last_rate() {
    let bench = sweep();
    let before = bench.broken_off(2, "no second level", |result| list(result, "levels").len() >= 2);
    assert_eq!(before["interrupted"], true);
    assert_goes_on(&bench, &before);
}

#[test]
fn a_sweep_that_was_killed_goes_on_in_its_search() {
    let bench = sweep();
    let before = bench.broken_off(9, "no search", |result| list(result, "sweep_steps").len() >= 2);
    assert!(list(&before, "levels").is_empty());
    assert_goes_on(&bench, &before);
}

#[test]
fn a_sweep_whose_search_is_not_told_is_refused() {
    let bench = sweep();
    let mut before = bench.broken_off(9, "no level", |result| !list(result, "levels").is_empty());
    before["sweep_steps"] = Value::Array(Vec::new());
    fs::write(&bench.path, before.to_string()).unwrap();
    let refused = bench.program().arg("--resume").arg(&bench.path).run();
    refused.refusal(&["--resume", "lacks the search", "start over"]);
}

/// All rounds of a result, cell by cell.
fn rounds(result: &Value) -> Vec<&[Value]> {
    let cells = result["variants"]["cells"].as_array();
    cells.into_iter().flatten().map(|cell| list(cell, "rounds")).collect()
}

fn is_whole(round: &Value) -> bool {
    list(round, "units").iter().all(|unit| !unit.is_null())
}

/// The rounds that were whole stay as they were; every cell has `rounds_per_cell` in the end.
fn assert_goes_on_with_rounds(bench: &Bench, before: &Value, rounds_per_cell: usize) {
    let (resumed, whole) = bench.resumed();
    for (old, new) in rounds(before).iter().zip(rounds(&whole)) {
        let kept = old.iter().filter(|round| is_whole(round)).count();
        assert_eq!(old[..kept], new[..kept]);
    }
    assert!(resumed.stderr.contains("measured before (--resume)"), "{}", resumed.stderr);
    assert!(
        rounds(&whole).iter().all(|rounds| rounds.len() == rounds_per_cell && rounds.iter().all(is_whole)),
        "{whole}"
    );
    assert_eq!((rounds(&whole).len(), &whole["interrupted"]), (2, &false.into()));
    bench.resumed_at_the_end(&resumed, &whole, &["variants"]);
}

fn variants(flags: &'static str) -> Bench {
    Bench::new(vec![Model::sleeping("m", 2)], "m", flags)
}

#[test]
fn variants_go_on_after_the_last_round() {
    let bench =
        variants("-p 100 --concurrency-range 1:2 --rounds 5 --order random --variant one: --variant two:--sync");
    let before =
        bench.broken_off(2, "no third round", |result| rounds(result).first().is_some_and(|all| all.len() > 2));
    assert_eq!(before["interrupted"], true);
    assert_goes_on_with_rounds(&bench, &before, 5);
    let other = bench.program().args("--rounds 6 --resume").arg(&bench.path).run();
    other.refusal(&["--resume", "another plan", "--rounds was '5' and is '6'"]);
}

#[test]
fn variants_that_were_killed_go_on_in_their_second_start() {
    let bench = variants("-p 100 --concurrency-range 1:2 --rounds 2 --restarts 2 --variant one: --variant two:--sync");
    let of_two = |result: &Value| rounds(result).iter().any(|all| all.iter().any(|round| round["start"] == 2));
    let before = bench.broken_off(9, "no second start", of_two);
    assert_goes_on_with_rounds(&bench, &before, 4);
    let starts = |result: &Value| -> Vec<u64> {
        rounds(result)[1].iter().map(|round| round["start"].as_u64().unwrap()).collect()
    };
    assert_eq!(starts(&json(&bench.path)), [1, 1, 2, 2]);
}

#[test]
fn a_matrix_goes_on_in_its_second_size() {
    let tensors = r#"
input [{ name: "INPUT0" data_type: TYPE_FP32 dims: [-1] }]
output [{ name: "OUTPUT0" data_type: TYPE_FP32 dims: [-1] }]"#;
    let model = Model::sleeping("m", 1).batches(0).tensors(tensors);
    let flags = "-p 100 --rounds 3 --async --matrix memory --matrix-sizes 64,4KiB";
    let bench = Bench::new(vec![model], "m", flags);
    let before = bench.broken_off(9, "no second size", |result| rounds(result).len() == 2);
    assert_goes_on_with_rounds(&bench, &before, 3);
    // What could be measured then must be so now.
    let mut other = json(&bench.path);
    other["variants"]["variants"][1]["problem"] = "no".into();
    fs::write(&bench.path, other.to_string()).unwrap();
    let refused = bench.program().arg("--resume").arg(&bench.path).run();
    refused.failure_after_notes(&[
        "--resume",
        "it measured something else",
        "it could measure 'pageable', and",
        "start over",
    ]);
}

#[test]
fn a_periodic_load_is_played_to_its_end_once() {
    let model = Model::decoupled("m", 8).parameter("gap_us", "30000").parameter("repeat_mode", "thread");
    let bench = Bench::new(vec![model], "m", "--periodic-concurrency-range 1:12 --request-period 4");
    let running = bench.program().arg("--summary-file").arg(&bench.path).start();
    bench.repository.wait_for_requests("m", 0);
    running.signal(2);
    running.finish();
    assert_eq!(json(&bench.path)["periodic"]["outcome"], "interrupted");
    let (resumed, whole) = bench.resumed();
    assert!(resumed.stderr.contains("not finished before, and measured from its start"), "{}", resumed.stderr);
    assert_eq!(whole["periodic"]["outcome"], "valid", "{}", resumed.stdout);
    assert_eq!(list(&whole["periodic"], "batches").len(), 12);
    bench.resumed_at_the_end(&resumed, &whole, &["periodic"]);
    let again = bench.resumed().0;
    assert!(again.stderr.contains("the periodic load: measured before (--resume)"), "{}", again.stderr);
    assert!(again.stdout.contains("Requests: 12 sent, 12 completed, 0 failed\nVerdict: valid\n"), "{}", again.stdout);
}

#[test]
fn a_periodic_load_that_is_killed_leaves_its_batches() {
    let model = Model::decoupled("m", 8).parameter("gap_us", "100000").parameter("repeat_mode", "thread");
    let bench = Bench::new(vec![model], "m", "--periodic-concurrency-range 1:10 --request-period 4");
    let left = bench.broken_off(9, "no batch was kept", |result| {
        result["periodic"]["batches"].as_array().is_some_and(|batches| !batches.is_empty())
    });
    let (batches, requests) = (list(&left["periodic"], "batches"), &left["periodic"]["requests"]);
    assert_eq!(left["periodic"]["outcome"], "interrupted", "{left}");
    assert!((1..10).contains(&batches.len()), "{batches:?}");
    assert_eq!(requests["sent"].as_u64(), Some(batches.len() as u64), "one request joins with each batch");
    assert_eq!(requests["outstanding"], requests["sent"].as_u64().unwrap() - requests["completed"].as_u64().unwrap());
    let whole = bench.resumed().1;
    assert_eq!((&whole["periodic"]["outcome"], list(&whole["periodic"], "batches").len()), (&"valid".into(), 10));
}
