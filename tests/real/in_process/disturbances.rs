//! Other processes on the same processor: a window they disturb is detected, measured again, and marked if that fails.

use std::fs;

use serde_json::Value;

use crate::support::hog::{Hog, processors};
use crate::support::{Model, Program, Repository};

fn program(repository: &Repository, processor: usize) -> Program {
    Program::on(repository, "m").args(&format!("--cpus {processor} -p 300 -s 1000000 -v"))
}

fn passes(stdout: &str) -> usize {
    stdout.lines().filter(|line| line.starts_with("  Pass [")).count()
}

#[test]
fn timed_a_hog_on_our_processor_is_seen_and_no_failure() {
    let repository = Repository::of(&[Model::identity("m")]);
    let processor = processors()[0];
    let export = repository.path().join("export.json");
    let _hog = Hog::on(processor);
    let program = program(&repository, processor).args("--on-disturbance mark --profile-export-file").arg(&export);
    let report = program.run().report();
    assert_eq!(passes(&report.text), 3, "{}", report.text);
    assert!(report.level().text.contains("  Disturbed: 3 of 3 windows; "), "{}", report.text);
    assert!(report.level().text.contains("while our threads waited"), "{}", report.text);
    assert!(report.level().text.contains("  Verdict: valid, while "), "{}", report.text);
    assert!(report.summary()[0].contains(" usec [while "), "{}", report.text);
    let export: Value = serde_json::from_str(&fs::read_to_string(export).unwrap()).unwrap();
    let summary = &export["experiments"][0]["summary"];
    assert_eq!((&summary["outcome"], &summary["valid"]), (&"valid".into(), &true.into()));
    let taken = &summary["disturbances"];
    assert_eq!((&taken["windows"], &taken["disturbed"], &taken["replaced"]), (&3.into(), &3.into(), &0.into()));
    assert!(taken["waiting"].as_f64().is_some_and(|share| (0.05..=1.0).contains(&share)), "{taken}");
}

#[test]
fn windows_that_a_hog_took_are_measured_again() {
    let repository = Repository::of(&[Model::identity("m")]);
    let processor = processors()[0];
    let hog = Hog::on(processor);
    let running = program(&repository, processor).args("--on-disturbance replace").start();
    running.wait_for("  Pass [2]");
    drop(hog);
    let report = running.finish().report();
    let passes = passes(&report.text);
    // Others may have the processor, too, and for longer.
    assert!((5..=10).contains(&passes), "{}", report.text);
    assert!(report.level().text.contains("  Disturbed: "), "{}", report.text);
}

#[test]
fn timed_nobody_looks_where_that_is_asked_for() {
    let repository = Repository::of(&[Model::identity("m")]);
    let processor = processors()[0];
    let _hog = Hog::on(processor);
    let report = program(&repository, processor).args("--on-disturbance ignore").run().report();
    assert_eq!(passes(&report.text), 3, "{}", report.text);
    assert!(!report.text.to_lowercase().contains("disturbed"), "{}", report.text);
}
