//! `--variant` from outside, against real Triton in process.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::{Finished, Model, Program, Repository, triton};

/// A server's models are all in a repository of each command line; what requests are for is the variants' matter.
fn program(repository: &Repository) -> Program {
    let program = Program::in_process(&triton(), &repository.path());
    program.args("-p 200 --concurrency-range 1 --rounds 6")
}

fn variant(program: Program, words: &str) -> Program {
    program.arg("--variant").arg(words)
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// The word of a figure of the first comparison.
fn verdict<'a>(result: &'a Value, key: &Value) -> &'a str {
    figure(result, key)["verdict"].as_str().unwrap()
}

fn figure<'a>(result: &'a Value, key: &Value) -> &'a Value {
    let figures = result["variants"]["cells"][0]["comparisons"][0]["figures"].as_array().unwrap();
    figures.iter().find(|figure| figure["of"] == *key).unwrap_or_else(|| panic!("no {key}: {figures:?}"))
}

fn assert_narrow(finished: &Finished) {
    for line in finished.stdout.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

#[test]
fn timed_what_a_gate_says_of_one_start_is_looked_at_in_another() {
    let repository = Repository::of(&[Model::sleeping("short", 2), Model::sleeping("long", 3)]);
    let summary = repository.file("out.json");
    let measured = |flags: &str| {
        let program =
            Program::in_process(&triton(), &repository.path()).args("--concurrency-range 1 --require p50<+5%");
        let run = variant(variant(program.args(flags), "short:-m short"), "long:-m long").arg("--summary-file");
        let finished = run.arg(&summary).run();
        assert_eq!(finished.code(), 6, "{}{}", finished.stdout, finished.stderr);
        let starts = json(&summary)["variants"]["starts"].as_u64().unwrap();
        let told = finished.stdout.matches(&format!(" rounds at {starts} starts)")).count();
        assert_eq!(told, usize::from(starts > 1), "{}", finished.stdout);
        assert_eq!(finished.stdout.matches("long is worse than short").count(), 1, "{}", finished.stdout);
        assert_eq!(finished.stderr.contains("start 2 is done"), starts > 1, "{}", finished.stderr);
        starts
    };
    assert_eq!(measured(""), 2);
    assert_eq!(measured("--rounds 10"), 1, "there are no rounds left for another");
}

#[test]
fn timed_models_side_by_side_are_compared_level_by_level() {
    let repository = Repository::of(&[Model::sleeping("short", 2), Model::sleeping("long", 6)]);
    let (csv, summary) = (repository.file("out.csv"), repository.file("out.json"));
    let run = variant(variant(program(&repository), "one:-m short"), "other three:-m long -H 'a: b c' -i http");
    let run = run
        .args(
            "--concurrency-range 1:2 --on-disturbance ignore --require p50<+5% --require throughput>1@concurrency:2 -f",
        )
        .arg(&csv);
    let (svg, page, markdown) = (repository.file("c.svg"), repository.file("r.html"), repository.file("r.md"));
    let run = run.args("--percentiles 50,75,90 --svg").arg(format!("comparison:{}", svg.display()));
    let run = run.arg("--report").arg(&page).arg("--markdown").arg(&markdown);
    let finished = run.arg("--summary-file").arg(&summary).run();
    assert_eq!(finished.code(), 6, "{}{}", finished.stdout, finished.stderr);
    let done: Vec<&str> = finished.stderr.lines().filter(|line| line.contains(" is done")).collect();
    let expected = ["triton-bench: cell 1/2 (concurrency 1) is done", "triton-bench: cell 2/2 (concurrency 2) is done"];
    assert_eq!(done, expected, "{}", finished.stderr);
    let picture = fs::read_to_string(&svg).unwrap();
    for row in ["other three, c 1", "other three, c 2", ">p50<"] {
        assert!(picture.contains(row) && fs::read_to_string(&page).unwrap().contains(row), "{row}: {picture}");
    }
    assert!(picture.contains("% worse"), "{picture}");
    let table = fs::read_to_string(&markdown).unwrap();
    assert!(table.contains("| p50&lt;+5% | other three, c 1 | ") && table.contains("**does not hold**"), "{table}");
    for part in ["concurrency 1: other three is worse than one", "concurrency 2: ", "one (the reference): -m short"] {
        assert!(finished.stdout.contains(part), "{part}: {}", finished.stdout);
    }
    let rows = |about: &str, word: &str| {
        let has = |line: &&str| line.contains(about) && line.ends_with(word);
        finished.stdout.lines().filter(has).count()
    };
    assert_eq!(
        rows("p50<+5%                     'other three', concurrency 1 ", "  does not hold"),
        1,
        "{}",
        finished.stdout
    );
    let held = rows("throughput>1@concurrency:2 ", "  holds");
    assert_eq!(held, 2, "a bound is for every variant: {}", finished.stdout);
    let table = finished.stdout.split("Requirements:").next().unwrap();
    table.lines().for_each(|line| assert!(line.chars().count() <= 80, "{line}"));
    let result = json(&summary);
    assert_eq!((&result["exit_code"], &result["interrupted"]), (&6.into(), &false.into()));
    let variants = &result["variants"];
    assert_eq!(variants["variants"][1]["flags"], "-m long -H 'a:…' -i http", "headers may be secrets");
    assert_eq!(variants["cells"].as_array().unwrap().len(), 2);
    let cell = &variants["cells"][1];
    assert_eq!(cell["loads"][0]["value"], 2);
    let orders: Vec<String> =
        cell["rounds"].as_array().unwrap().iter().take(3).map(|round| round["order"].to_string()).collect();
    assert_eq!(orders, ["[0,1]", "[1,0]", "[0,1]"]);
    let p50 = serde_json::json!({"percentile": 50.0});
    assert_eq!(verdict(&result, &p50), "worse");
    assert_eq!(verdict(&result, &serde_json::json!({"percentile": 75.0})), "worse");
    assert!(figure(&result, &p50)["p"].as_f64().unwrap() <= 0.05, "{result}");
    let rows = fs::read_to_string(&csv).unwrap();
    let rounds = fs::read_to_string(csv.with_file_name("rounds.out.csv")).unwrap();
    assert!(rounds.lines().count() > 2 * 2 * 6 && rounds.starts_with("Concurrency,Input Bytes,Start,"), "{rounds}");
    let lines: Vec<&str> = rows.lines().collect();
    assert_eq!(lines.len(), 5, "two levels of two variants: {rows}");
    assert!(lines[0].starts_with("Concurrency,Input Bytes,Variant,Flags,Rounds,"), "{rows}");
    assert!(lines[1].starts_with("1,64,one,'-m short,6,0,") && lines[2].contains(",worse,"), "{rows}");
}

#[test]
fn timed_what_differs_in_the_server_is_loaded_anew_for_each_turn() {
    let [first, second] = [2, 6].map(|delay| {
        let repository = Repository::of(&[]);
        let model = Model::sleeping("m", delay);
        repository.add(&repository.counting(model));
        repository
    });
    let base = Program::in_process(&triton(), &first.path()).args("-m m -p 150 --rounds 3 --restarts 2");
    let summary = first.file("out.json");
    let flags = format!("far:--model-repository '{}'", second.path().display());
    let finished = variant(variant(base, "near:"), &flags).arg("--summary-file").arg(&summary).run();
    assert_eq!(finished.code(), 0, "{}{}", finished.stdout, finished.stderr);
    let result = json(&summary);
    let ratio = figure(&result, &serde_json::json!({"percentile": 50.0}))["ratio"].as_f64().unwrap();
    assert!((2.0..4.0).contains(&ratio), "{ratio}: {}", finished.stdout);
    let rounds = result["variants"]["cells"][0]["rounds"].as_array().unwrap();
    let starts: Vec<u64> = rounds.iter().map(|round| round["start"].as_u64().unwrap()).collect();
    assert_eq!(starts, [1, 1, 1, 2, 2, 2]);
    assert!(first.was_loaded("m") && second.was_loaded("m"), "models were left behind");
    assert_narrow(&finished);
}

#[test]
fn a_variant_that_fails_is_said_and_the_other_is_reported() {
    let broken = Model::identity("broken").parameter("fail_every", "1");
    let repository = Repository::of(&[Model::sleeping("fine", 2), broken]);
    let finished = variant(variant(program(&repository), "fine:-m fine"), "broken:-m broken").run();
    assert_eq!(finished.code(), 3, "{}{}", finished.stdout, finished.stderr);
    assert!(finished.stdout.contains("broken: failed in round 1, which does not count: "), "{}", finished.stdout);
    assert!(finished.stdout.contains("nothing to compare"), "{}", finished.stdout);
}

#[test]
fn an_interrupt_leaves_what_was_measured() {
    let repository = Repository::of(&[Model::sleeping("a", 2), Model::sleeping("b", 2)]);
    let summary = repository.file("out.json");
    let run = variant(variant(program(&repository).args("--rounds 1000"), "a:-m a"), "b:-m b");
    let running = run.arg("--summary-file").arg(&summary).start();
    let rounds = || {
        let text = fs::read_to_string(&summary).ok()?;
        let result: Value = serde_json::from_str(&text).ok()?;
        Some(result["variants"]["cells"][0]["rounds"].as_array()?.len())
    };
    let started = std::time::Instant::now();
    while rounds().is_none_or(|rounds| rounds < 2) {
        assert!(started.elapsed().as_secs() < 50, "no rounds");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    running.signal(2);
    let finished = running.finish();
    assert_eq!(finished.code(), 0, "{}{}", finished.stdout, finished.stderr);
    assert!(finished.stdout.contains("concurrency 1: b is "), "{}", finished.stdout);
    assert!(rounds().unwrap() >= 2);
    assert_eq!(json(&summary)["interrupted"], true);
}

/// Holds loads to the clock.
mod measured {
    use super::*;

    /// Latency of the median: what a stall of the machine hides least.
    const P50: &str = "--percentile 50 -p 300 --rounds 8";

    #[test]
    fn a_tenth_more_service_time_is_worse_by_a_tenth() {
        let model = |name: &str, us: &str| Model::identity(name).parameter("delay_us", us);
        let repository = Repository::of(&[model("a", "10000"), model("b", "11000")]);
        let summary = repository.file("out.json");
        let run = variant(variant(program(&repository).args(P50), "a:-m a"), "b:-m b");
        let finished = run.arg("--summary-file").arg(&summary).run();
        let result = json(&summary);
        let p50 = serde_json::json!({"percentile": 50.0});
        let ratio = figure(&result, &p50)["ratio"].as_f64().unwrap();
        assert!((1.08..=1.12).contains(&ratio), "{ratio}: {}", finished.stdout);
        assert_eq!(verdict(&result, &p50), "worse", "{}", finished.stdout);
    }

    /// They take the processors themselves.
    mod alone {
        use super::*;

        #[test]
        fn what_is_alike_is_never_worse_or_better() {
            let repository = Repository::of(&[Model::identity("m")]);
            for seed in 1..=2 {
                let base = program(&repository).args(P50).args(&format!("-m m -p 200 --order random --seed {seed}"));
                let finished = variant(variant(base, "a:"), "b:").run();
                assert_eq!(finished.code(), 0, "{}", finished.stderr);
                let first = finished.stdout.lines().find(|line| line.starts_with("concurrency 1: ")).unwrap();
                assert!(
                    first.contains("b is the same as a") || first.contains("b is undecided"),
                    "{}",
                    finished.stdout
                );
            }
        }
    }
}
