//! `--model-mix`: several models, versions and parameters in one load.

use super::{assert_near, column};
use crate::support::report::number_in;
use crate::support::{Export, Model, Program, Repository};

/// Two models that keep journals and counters.
fn two_models() -> Repository {
    let repository = Repository::of(&[]);
    let kept = |model| repository.counting(repository.journaling(model));
    let fast = kept(Model::identity("fast"));
    let slow = kept(Model::sleeping("slow", 5).versions(&[2]));
    repository.add(&fast);
    repository.add(&slow);
    repository
}

fn run(repository: &Repository, mix: &str, arguments: &str) -> Program {
    Program::in_process(&crate::support::triton(), &repository.path()).args("--model-mix").arg(mix).args(arguments)
}

#[test]
fn models_get_their_shares_and_are_reported_apart() {
    let repository = two_models();
    let csv = repository.file("levels.csv");
    let finished =
        run(&repository, "fast:0.7,slow:2:0.3", "--request-count 1000 --async --concurrency-range 4 --verbose-csv -f")
            .arg(&csv)
            .run();
    let report = finished.report();
    let text = &report.level().text;
    let requests = ["fast", "slow"].map(|model| repository.counters(model).get("requests"));
    assert_eq!(requests.iter().sum::<u64>(), 1000);
    assert_near("the share of the fast model", requests[0] as f64, 700.0, 60.0);
    assert_eq!(number_in(text, "fast") as u64, requests[0], "{text}");
    assert_eq!(number_in(text, "slow:2") as u64, requests[1], "{text}");
    assert_eq!(report.level().client_number("Request count") as u64, 1000);
    assert!(text.contains("    Model: fast, version: 1\n") && text.contains("    Model: slow, version: 2\n"), "{text}");
    let table = std::fs::read_to_string(&csv).unwrap();
    let mut lines = table.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let (header, row) = (lines.next().unwrap(), lines.next().unwrap());
    let cell = |name: &str| row[header.iter().position(|title| *title == name).unwrap()].parse::<f64>().unwrap();
    assert!(cell("slow:2 p50 latency") >= 5000.0, "{table}");
    assert!(cell("fast p50 latency") < cell("slow:2 p50 latency"), "{table}");
}

/// Which of the two models each request of a run went to, in order.
fn draws(seed: u64) -> String {
    let repository = two_models();
    let path = repository.file("export.json");
    run(&repository, "fast:0.5,slow:0.5", "--request-count 60 --profile-export-file")
        .arg(&path)
        .args(&format!("--seed {seed}"))
        .run()
        .report();
    let export = Export::read(&path);
    let requests = export.experiments()[0]["requests"].as_array().unwrap().clone();
    requests.iter().map(|request| &request["model"].as_str().unwrap()[..1]).collect()
}

#[test]
fn the_seed_decides_which_model_a_request_goes_to() {
    let first = draws(7);
    assert_eq!(first, draws(7));
    assert_ne!(first, draws(8));
    assert!(first.contains('f') && first.contains('s'), "{first}");
}

#[test]
fn one_model_may_appear_with_different_parameters() {
    let repository = two_models();
    let arguments = "--request-count 400 --request-parameter lora:none:string --request-parameter n:3:int";
    let report = run(&repository, "fast?lora=x:0.25,fast?lora=y&k=v:0.5,fast:0.25", arguments).run().report();
    let parameters = column(&repository, "fast", "parameters", |value| Some(value.clone()));
    let with = |lora: &str| parameters.iter().filter(|value| value["lora"] == lora).count() as f64;
    assert_near("requests with x", with("x"), 100.0, 40.0);
    assert_near("requests with y", with("y"), 200.0, 50.0);
    assert_near("requests with the common value", with("none"), 100.0, 40.0);
    assert!(parameters.iter().all(|value| value["n"] == 3), "{:?}", parameters[0]);
    assert!(parameters.iter().all(|value| (value["lora"] == "y") == (value["k"] == "v")));
    assert_eq!(number_in(&report.level().text, "fast?lora=y&k=v"), with("y"), "{}", report.text);
}

#[test]
fn failures_count_for_the_model_that_failed() {
    let repository = Repository::of(&[Model::identity("good"), Model::identity("bad").parameter("fail_every", "2")]);
    let report = run(&repository, "good:0.5,bad:0.5", "--request-count 200 --max-errors 50%").run().report();
    let line = |model: &str| report.text.lines().find(|line| line.trim_start().starts_with(model)).unwrap().to_owned();
    assert!(line("good: ").ends_with(", 0 failed"), "{}", report.text);
    assert!(!line("bad: ").ends_with(", 0 failed"), "{}", report.text);
}

#[test]
fn an_open_loop_takes_a_mix() {
    let repository = two_models();
    let report = run(&repository, "fast:0.8,slow:0.2", "--request-rate-range 100 -p 500 -s 1000000 -r 3").run();
    assert!([0, 4].contains(&report.code()), "{}", report.stderr);
    assert!(report.stdout.contains("    Models of the mix:\n"), "{}", report.stdout);
}
