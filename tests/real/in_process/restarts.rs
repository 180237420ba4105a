//! `--restarts`: levels measured at several starts of the model.

use std::fs;

use crate::support::{Export, Model, Program, Repository};

#[test]
fn the_model_is_loaded_anew_for_every_start() {
    let repository = Repository::counted(Model::identity("m").parameter("delay_us", "1000"));
    let (csv, json) = (repository.file("results.csv"), repository.file("export.json"));
    let files = format!("-f {} --profile-export-file {}", csv.display(), json.display());
    let run = Program::on(&repository, "m").args("--restarts 3 --request-count 200 --concurrency-range 2").args(&files);
    let report = run.run().report();
    // The model counts from its load to its unload: the last start alone.
    assert_eq!(repository.counters("m").get("requests"), 200);
    assert_eq!(report.text.matches("95% confidence over 3 starts of the model:").count(), 1, "{}", report.text);
    assert_eq!(report.text.matches("between restarts").count(), 2, "{}", report.text);

    let table = fs::read_to_string(&csv).unwrap();
    let header = table.lines().next().unwrap();
    assert!(
        header.contains(",Starts,throughput of starts,throughput of starts low,throughput of starts high"),
        "{header}"
    );
    let export = Export::read(&json);
    assert_eq!(export.experiments().len(), 1);
    for experiment in export.experiments() {
        assert_eq!(experiment["requests"].as_array().unwrap().len(), 200, "further starts are no part of the export");
        let restarts = &experiment["summary"]["restarts"];
        assert_eq!(restarts["starts"], 3, "{restarts}");
        let [low, high] = [0, 1].map(|end| restarts["throughput"]["interval_95"][end].as_f64().unwrap());
        let mean = restarts["throughput"]["mean"].as_f64().unwrap();
        assert!(low <= mean && mean <= high && mean < 2000.0, "{restarts}");
    }
}
