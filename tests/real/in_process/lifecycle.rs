//! What is loaded, and how the server starts and stops.

use std::fs;
use std::os::unix::fs::symlink;

use crate::support::{Model, Program, Repository, triton};

/// A counted model that would be noticed if it were loaded.
fn neighbours(models: &[Model]) -> Repository {
    let repository = Repository::of(&[]);
    models.iter().for_each(|model| repository.add(&repository.counting(model.clone())));
    repository
}

#[test]
fn only_the_model_asked_for_is_loaded() {
    let repository = neighbours(&[Model::identity("m"), Model::identity("idle")]);
    repository.add(&Model::identity("refusing").parameter("init_fail", "must not be loaded"));
    repository.add(&Model::identity("broken").with("no_such_field: 1"));
    let finished = Program::on(&repository, "m").args("--request-count 20").run();
    finished.report();
    assert!(
        !finished.stderr.contains("must not be loaded") && !finished.stderr.contains("refusing"),
        "{}",
        finished.stderr
    );
    assert!(repository.was_loaded("m"), "and unloaded before the end");
    assert!(!repository.was_loaded("idle"));
}

#[test]
fn the_latest_version_is_the_default_and_another_can_be_named() {
    let with_versions = |policy: &str| Repository::of(&[Model::identity("m").versions(&[1, 3, 12]).with(policy)]);
    let version = |arguments: &str, policy: &str| {
        let repository = with_versions(policy);
        let path = repository.file("export.json");
        let program = Program::on(&repository, "m")
            .args("--request-count 5 --log-level info --log-file")
            .arg(repository.file("log"));
        program.args(arguments).arg("--profile-export-file").arg(path).run().report();
        fs::read_to_string(repository.file("log")).unwrap()
    };
    let log = version("", "");
    assert!(log.contains("m:12") && !log.contains("m:3"), "{log}");
    version("-x 3", "version_policy: { all { }}");
    let repository = with_versions("");
    let finished = Program::on(&repository, "m").args("-x 3").run();
    finished.refusal(&["-x", "3", "12"]);
}

#[test]
fn the_named_version_does_the_work() {
    // The versions share a configuration, but each has its own statistics.
    let repository = Repository::counted(Model::identity("m").versions(&[1, 2]).with("version_policy: { all { }}"));
    let report = Program::on(&repository, "m").args("-x 1 --request-count 40").run().report();
    assert_eq!(report.level().client_number("Request count"), 40.0);
    assert_eq!(report.level().server_number("Inference count"), 40.0);
}

#[test]
fn a_python_model_completes_its_own_configuration() {
    let script = r#"
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        config.add_input({"name": "X", "data_type": "TYPE_FP32", "dims": [4]})
        config.add_output({"name": "Y", "data_type": "TYPE_FP32", "dims": [4]})
        config.set_max_batch_size(4)
        return config

    def execute(self, requests):
        tensors = [pb_utils.get_input_tensor_by_name(request, "X").as_numpy() for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", x + 1)]) for x in tensors]
"#;
    let repository = Repository::of(&[Model::python("m", script).without_config()]);
    let report = Program::on(&repository, "m").args("-b 4 --request-count 30").run().report();
    assert_eq!(report.level().server_number("Inference count"), 120.0);
}

#[test]
fn a_strict_server_wants_a_complete_configuration() {
    let script = "class TritonPythonModel:\n    def execute(self, requests):\n        return []\n";
    let repository = Repository::of(&[Model::python("m", script).without_config()]);
    let finished = Program::on(&repository, "m").args("--strict-model-config true").run();
    finished.refusal(&["model 'm'"]);
}

const ENSEMBLE: &str = r#"
platform: "ensemble"
ensemble_scheduling { step [
  { model_name: "first" model_version: -1 input_map { key: "INPUT0" value: "INPUT0" } output_map { key: "OUTPUT0" value: "between" } },
  { model_name: "second" model_version: -1 input_map { key: "INPUT0" value: "between" } output_map { key: "OUTPUT0" value: "OUTPUT0" } }
] }"#;

/// The python backend itself waits for ever in each of these cases.
#[test]
fn python_models_that_can_never_start_are_refused_at_once() {
    let python =
        |name| Model::python(name, "class TritonPythonModel:\n    def execute(self, requests):\n        pass\n");
    let ensemble = Model::identity("m").backend("").with(ENSEMBLE);
    let versions = python("v").versions(&[1, 10]);
    let repository = Repository::of(&[Model::identity("first"), python("second"), versions, python("p"), ensemble]);
    for folder in ["second/1", "v/10"] {
        fs::remove_file(repository.path().join(folder).join("model.py")).unwrap();
    }
    Program::on(&repository, "m").run().refusal(&["model 'second'", "second/1/model.py is missing"]);
    Program::on(&repository, "v").args("-x 1").run().refusal(&["v/10/model.py is missing"]);
    let spaced = repository.file("my models");
    symlink(repository.path(), &spaced).unwrap();
    Program::in_process(&triton(), &spaced).args("-m p").run().refusal(&["model 'p'", "p/1/model.py' contains ' '"]);
    let listing = Program::new().args("models --model-repository").arg(&spaced).args("--triton-server-directory");
    let listed = listing.arg(triton()).run();
    assert_eq!(listed.code(), 0, "{}", listed.stderr);
    for line in ["first: bench, version 1", "m: model 'second': ", "v: model 'v': ", "p: model 'p': before 25.08"] {
        assert!(listed.stdout.contains(line), "{line}: {}", listed.stdout);
    }
}

/// Its own index lacks the model then.
#[test]
fn a_model_without_a_version_is_not_said_to_be_missing() {
    let policy = "version_policy { specific { versions: 7 } }";
    let repository = Repository::of(&[Model::identity("m").with(policy), Model::identity("other")]);
    let line = Program::on(&repository, "m").run().refusal(&["model 'm'", "version policy"]).to_owned();
    assert!(!line.contains("other"), "{line}");
}

#[test]
fn an_ensemble_brings_its_models_and_reports_them() {
    for mode in ["--sync", "--async --concurrency-range 3"] {
        let repository = neighbours(&[Model::sleeping("first", 5), Model::identity("second"), Model::identity("idle")]);
        repository.add(&Model::identity("m").backend("").with(ENSEMBLE));
        let report = Program::on(&repository, "m").args("--request-count 30").args(mode).run().report();
        let level = report.level();
        assert!(level.text.contains("Composing models: "), "{}", level.text);
        for name in ["first", "second"] {
            assert!(level.text.contains(&format!("{name}, version: 1")), "{}", level.text);
            assert_eq!(repository.counters(name).get("requests"), 30);
        }
        assert!(level.server_number("Avg request latency") >= 5000.0, "{}", level.text);
        assert!(!repository.was_loaded("idle"));
    }
}

const BLS: &str = r#"
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            call = pb_utils.InferenceRequest(
                model_name="callee",
                requested_output_names=["OUTPUT0"],
                inputs=[pb_utils.get_input_tensor_by_name(request, "INPUT0")],
            )
            answer = call.exec()
            if answer.has_error():
                responses.append(pb_utils.InferenceResponse(error=answer.error()))
            else:
                output = pb_utils.get_output_tensor_by_name(answer, "OUTPUT0")
                responses.append(pb_utils.InferenceResponse([output]))
        return responses
"#;

#[test]
fn models_that_a_bls_model_calls_are_loaded_and_reported() {
    let repository = neighbours(&[Model::identity("callee"), Model::identity("idle")]);
    repository.add(&Model::python("m", BLS));
    let report = Program::on(&repository, "m").args("--bls-composing-models callee --request-count 20").run().report();
    assert!(report.level().text.contains("callee, version: 1"), "{}", report.text);
    assert_eq!(repository.counters("callee").get("requests"), 20);
    assert!(!repository.was_loaded("idle"));
}

#[test]
fn a_bls_model_without_its_callee_fails_each_request() {
    let repository = neighbours(&[Model::identity("callee")]);
    repository.add(&Model::python("m", BLS));
    let report = Program::on(&repository, "m").args("--request-count 20").run().report_with(3);
    assert_eq!(report.level().client_number("Request count"), 0.0);
    assert_eq!(report.level().failures("callee"), 20, "{}", report.text);
}

#[test]
fn a_bls_callee_that_is_not_there() {
    let repository = Repository::of(&[Model::identity("m")]);
    Program::on(&repository, "m").args("--bls-composing-models nobody").run().refusal(&["nobody"]);
}

#[test]
fn models_come_from_several_repositories() {
    let (empty, holds) = (Repository::of(&[]), Repository::counted(Model::identity("m")));
    let program = Program::on(&empty, "m").arg("--model-repository").arg(holds.path());
    program.args("--request-count 10").run().report();
    assert_eq!(holds.counters("m").get("requests"), 10);
}

#[test]
fn a_model_that_two_repositories_hold_is_refused() {
    let (first, second) = (Repository::of(&[Model::identity("m")]), Repository::of(&[Model::identity("m")]));
    let finished = Program::on(&first, "m").arg("--model-repository").arg(second.path()).run();
    finished.refusal(&["'m'"]);
}

#[test]
fn a_relative_repository_and_server_work() {
    let repository = Repository::of(&[Model::identity("m")]);
    let here = std::env::current_dir().unwrap();
    let up = "../".repeat(here.components().count() - 1);
    let relative = format!("{up}{}", repository.path().strip_prefix("/").unwrap().display());
    let server = format!("{up}{}", crate::support::triton().strip_prefix("/").unwrap().display());
    let program = Program::in_process(server.as_ref(), relative.as_ref()).args("-m m --request-count 5");
    program.run().report();
}

#[test]
fn the_servers_log_never_reaches_standard_output() {
    let repository = Repository::of(&[Model::identity("m")]);
    let finished = Program::on(&repository, "m").args("--request-count 5 --log-level info --log-verbose 1").run();
    let report = finished.report();
    assert!(!report.text.contains(".cc:"), "{}", report.text);
    assert!(finished.stderr.contains(".cc:"), "the log is on standard error: {}", finished.stderr);
    assert!(finished.stderr.contains("m:1"), "and tells of the load: {}", finished.stderr);
}

#[test]
fn the_servers_log_goes_to_a_file() {
    for (format, stamped) in [("default", false), ("ISO8601", true)] {
        let repository = Repository::of(&[Model::identity("m")]);
        let path = repository.file("log");
        let finished = Program::on(&repository, "m")
            .args("--request-count 5 --log-level info --log-format")
            .arg(format)
            .arg("--log-file")
            .arg(&path)
            .run();
        finished.report();
        let log = fs::read_to_string(&path).unwrap();
        assert!(log.contains(".cc:") && log.starts_with(|first: char| first.is_ascii_digit() == stamped), "{log}");
        assert!(!finished.stderr.contains(".cc:"), "{}", finished.stderr);
    }
}

#[test]
fn a_quiet_run_says_nothing_on_standard_error() {
    let repository = Repository::of(&[Model::identity("m")]);
    let finished = Program::on(&repository, "m").quick().run();
    finished.report();
    assert_eq!(finished.stderr, "");
}

/// A thread that the server detaches when it unloads a model may still be in the library when the server is deleted.
#[test]
fn the_server_library_stays_until_the_process_ends() {
    let repository = Repository::of(&[Model::identity("m")]);
    let trace = repository.file("loader");
    let program = Program::on(&repository, "m").args("--request-count 5");
    let run = program.env("LD_DEBUG", "files").env("LD_DEBUG_OUTPUT", trace.as_os_str()).start();
    let trace = trace.with_extension(run.id().to_string());
    run.finish().report();
    let trace = fs::read_to_string(trace).unwrap();
    let is_logged =
        |words: &str| trace.lines().any(|line| line.contains("/libtritonserver.so") && line.contains(words));
    assert!(is_logged("calling init"), "the loader tells what it does: {trace}");
    assert!(!is_logged("destroying link map"), "{trace}");
}
