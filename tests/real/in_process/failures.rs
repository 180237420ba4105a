//! Failed requests are counted with their reasons, and the run continues, up to `--max-errors`.

use std::time::Duration;

use crate::support::{Model, Program, Repository};

const MODES: [&str; 3] = ["--sync", "--sync --concurrency-range 3", "--async --concurrency-range 4"];

#[test]
fn failures_are_counted_and_named() {
    for mode in MODES {
        let repository = Repository::counted(Model::identity("m").parameter("fail_every", "5"));
        let report =
            Program::on(&repository, "m").args(&format!("--request-count 100 --max-errors 25% {mode}")).run().report();
        let level = report.level();
        assert_eq!(level.client_number("Request count"), 80.0, "{}", level.text);
        assert_eq!(level.client_number("Failed request count"), 20.0, "{}", level.text);
        assert_eq!(
            level.failures("request "),
            repository.counters("m").get("failures").min(10),
            "one reason each, ten are listed"
        );
        assert!(level.text.contains("and 10 more reasons"), "{}", level.text);
        assert_eq!(repository.counters("m").get("requests"), 100);
    }
}

#[test]
fn an_execution_that_fails_as_a_whole_is_one_failure_per_request() {
    for mode in MODES {
        let model = Model::identity("m").parameter("fail_every", "10").parameter("fail_mode", "execute");
        let repository = Repository::counted(model);
        let report =
            Program::on(&repository, "m").args(&format!("--request-count 100 --max-errors 50% {mode}")).run().report();
        let level = report.level();
        assert_eq!(level.client_number("Request count") + level.client_number("Failed request count"), 100.0);
        assert_eq!(level.client_number("Failed request count"), repository.counters("m").get("failures") as f64);
    }
}

#[test]
fn more_failures_than_allowed_are_code_3() {
    for mode in MODES {
        let repository = Repository::of(&[Model::identity("m").parameter("fail_every", "5")]);
        let finished = Program::on(&repository, "m").quick().args(mode).run();
        let report = finished.report_with(3);
        assert!(report.level().text.contains("requests failed"), "{}", report.text);
        assert!(report.level().client_number("Throughput") > 0.0, "the data are printed all the same");
        let allowed = Program::on(&repository, "m").quick().args("--max-errors 30%").args(mode).run();
        allowed.report();
    }
}

#[test]
fn timed_a_level_that_fails_from_the_start_ends_early() {
    let repository = Repository::of(&[Model::sleeping("m", 5).parameter("fail_every", "1")]);
    let finished = Program::on(&repository, "m").args("-p 20000").run();
    finished.report_with(3);
    assert!(finished.wall < Duration::from_secs(6), "{:?}", finished.wall);
}

#[test]
fn a_python_models_exception_is_a_failure_with_its_text() {
    let script = "class TritonPythonModel:\n    def execute(self, requests):\n        raise ValueError('division by cucumber')\n";
    let repository = Repository::of(&[Model::python("m", script)]);
    let finished = Program::on(&repository, "m").args("--request-count 10 --async --concurrency-range 2").run();
    let report = finished.report_with(3);
    assert_eq!(report.level().failures("division by cucumber"), 10, "{}", report.text);
}

#[test]
fn timed_cancelled_requests_are_neither_successes_nor_failures() {
    for mode in ["--sync", "--async --concurrency-range 2"] {
        let model = Model::sleeping("m", 300).instances(2).parameter("cancellable", "true");
        let repository = Repository::counted(model);
        let arguments = format!("--request-count 10 --cancel-after-us 20000 --max-errors 100% {mode}");
        let finished = Program::on(&repository, "m").args(&arguments).run();
        assert_eq!(repository.counters("m").get("cancelled"), 10, "{}", finished.stdout);
        assert!(finished.wall < Duration::from_secs(3), "{:?}", finished.wall);
        let report = finished.report_with(3);
        assert_eq!(report.level().client_number("Cancelled request count"), 10.0, "{}", report.text);
        assert_eq!(report.level().client_number("Request count"), 0.0, "{}", report.text);
        assert!(!report.text.contains("Failed request count"), "{}", report.text);
    }
}

#[test]
fn a_queue_that_is_full_refuses_at_submission() {
    let model = Model::sleeping("m", 20)
        .with("dynamic_batching { default_queue_policy { max_queue_size: 1 } preferred_batch_size: [ 1 ] }");
    let repository = Repository::counted(model.batches(1));
    let finished =
        Program::on(&repository, "m").args("--request-count 60 --async --concurrency-range 8 --max-errors 100%").run();
    let report = finished.report();
    let level = report.level();
    let (answered, refused) = (level.client_number("Request count"), level.client_number("Failed request count"));
    assert_eq!(answered + refused, 60.0);
    assert!(refused > 0.0 && level.text.contains("queue"), "{}", level.text);
    assert_eq!(repository.counters("m").get("requests") as f64, answered, "refused requests never reach the model");
}

/// A python model that answers `reply`, an expression over the input `x` and the number `n` of the request.
fn answering(reply: &str) -> Model {
    let script = format!(
        r#"
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        self.requests = 0

    def answer(self, x):
        self.requests += 1
        n = self.requests
        return pb_utils.InferenceResponse({reply})

    def execute(self, requests):
        return [self.answer(pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy()) for request in requests]
"#
    );
    Model::python("m", &script)
}

/// Triton passes them on, so they are measured, and said to be odd.
#[test]
fn responses_that_contradict_the_configuration_are_counted_and_said() {
    for (reply, reason) in [
        ("[pb_utils.Tensor('OUTPUT0', x.astype(np.int64))]", "output 'OUTPUT0' is INT64 instead of FP32"),
        ("[pb_utils.Tensor('OUTPUT0', np.concatenate([x, x], axis=-1))]", "output 'OUTPUT0' has shape"),
        ("[]", "it has no outputs"),
    ] {
        let repository = Repository::of(&[answering(reply)]);
        for mode in ["--sync", "--async --concurrency-range 2"] {
            let run =
                |flag: &str| Program::on(&repository, "m").args(&format!("--request-count 10 {mode} {flag}")).run();
            let counted = run("").report();
            assert!(counted.text.contains(reason) && counted.text.contains("[WARNING]"), "{reply}: {}", counted.text);
            assert_eq!(counted.level().client_number("Request count"), 10.0, "{reply}: {}", counted.text);
            let checked = run("--validate-replies").report_with(3);
            assert_eq!(checked.level().failures(reason), 10, "{reply}: {}", checked.text);
        }
    }
}

#[test]
fn later_responses_are_held_against_the_model_where_it_is_asked_for() {
    let repository = Repository::of(&[answering("[pb_utils.Tensor('OUTPUT0', x if n <= 6 else x.astype(np.int64))]")]);
    for (flags, failed) in [("", 0.0), ("--validate-replies", 4.0)] {
        let flags = format!("--request-count 10 --max-errors 50% {flags}");
        let level = Program::on(&repository, "m").args(&flags).run().report();
        let level = level.level();
        let failures = if failed > 0.0 { level.client_number("Failed request count") } else { 0.0 };
        assert_eq!((level.client_number("Request count"), failures), (10.0 - failed, failed), "{}", level.text);
    }
}

/// Statistics that run backwards, as a faulty backend's do, are kept out of the report.
#[test]
fn nonsense_from_the_server_is_clamped() {
    let repository = Repository::of(&[Model::identity("m").parameter("report_nonsense_times", "true")]);
    let report = Program::on(&repository, "m").args("--request-count 50").run().report();
    for part in report.level().server().split(['(', '+', ')']) {
        let numbers = part.split_whitespace().filter_map(|word| word.parse::<f64>().ok());
        assert!(numbers.into_iter().all(|number| number < 1e9), "{}", report.level().text);
    }
}
