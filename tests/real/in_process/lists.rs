//! Lists of concurrencies and of batch sizes.

use crate::support::{Model, Program, Repository};

fn program(repository: &Repository, arguments: &str) -> Program {
    Program::on(repository, "m").quick().args(arguments)
}

#[test]
fn each_concurrency_of_a_list_is_a_level() {
    let repository = Repository::of(&[Model::sleeping("m", 1)]);
    let report = program(&repository, "--concurrency-range 4,1:2").run().report();
    assert_eq!(report.values(), [1.0, 2.0, 4.0]);
    let report = program(&repository, "--concurrency-range 1:8:*2").run().report();
    assert_eq!(report.values(), [1.0, 2.0, 4.0, 8.0]);
}

#[test]
fn timed_a_list_is_searched_by_halves() {
    let repository = Repository::of(&[Model::sleeping("m", 20)]);
    let report =
        program(&repository, "--concurrency-range 1,2,4,8,16,32,64 --binary-search -l 110 --sync --max-trials 3");
    let report = report.run().report_with(0);
    let values = report.values();
    assert!(values.starts_with(&[1.0, 64.0, 8.0]) && values.contains(&4.0) && values.len() <= 5, "{values:?}");
    assert!(report.text.contains("Highest level within 110 msec: concurrency 4"), "{}", report.text);
}

#[test]
fn each_batch_size_of_a_list_is_measured() {
    let repository = Repository::counted(Model::sleeping("m", 1));
    let (csv, json) = (repository.file("r.csv"), repository.file("r.json"));
    let arguments = format!("-b 1,2:8 --concurrency-range 1,2 -f {} --summary-file {}", csv.display(), json.display());
    let report = program(&repository, &arguments).run().report();
    assert_eq!(report.values(), [1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0], "sizes 1, 2, 4 and 8");
    let sizes = report.summary().iter().map(|line| line.split(", ").nth(1).unwrap().to_owned()).collect::<Vec<_>>();
    assert_eq!(sizes[..3], ["batch size: 1", "batch size: 1", "batch size: 2"], "{}", report.text);
    let rows = std::fs::read_to_string(csv).unwrap();
    assert!(rows.starts_with("Concurrency,Batch Size,Inferences/Second,") && rows.lines().count() == 9, "{rows}");
    let result: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    let batch_size = |level: &serde_json::Value| level["client"]["batch_size"].as_u64().unwrap();
    assert_eq!(
        result["levels"].as_array().unwrap().iter().map(batch_size).collect::<Vec<_>>(),
        [1, 1, 2, 2, 4, 4, 8, 8]
    );
}

#[test]
fn a_batch_size_that_the_model_does_not_take_is_refused_before_anything_is_measured() {
    let repository = Repository::of(&[Model::identity("m")]);
    program(&repository, "-b 1,16").run().refusal(&["-b 16", "must be <= 8"]);
    program(&repository, "-b 1,2 --profile-export-file x.json").run().refusal(&["-b 1,2", "--profile-export-file"]);
    program(&repository, "-b 1,2 --sweep linear").run().refusal(&["-b 1,2", "--concurrency-range"]);
}
