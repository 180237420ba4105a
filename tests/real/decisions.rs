//! The scripts of docs/decisions.md on real Triton, on models whose right answer is known.

use std::fs;
use std::os::unix::fs::symlink;

use crate::support::{Decision, Model, Repository, TritonServer, skip};

/// A script that finds the models of `repository`.
fn on(heading: &str, repository: &Repository) -> Decision {
    let script = Decision::of(heading);
    symlink(repository.path(), script.path("models")).unwrap();
    script
}

const SCRIPT: &str = "import time
import triton_python_backend_utils as utils


class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        config.add_input({\"name\": \"X\", \"data_type\": \"TYPE_FP32\", \"dims\": [4]})
        config.add_output({\"name\": \"Y\", \"data_type\": \"TYPE_FP32\", \"dims\": [4]})
        return config

    def execute(self, requests):
        time.sleep(SECONDS)
        inputs = [utils.get_input_tensor_by_name(request, \"X\").as_numpy() for request in requests]
        return [utils.InferenceResponse([utils.Tensor(\"Y\", values * 2)]) for values in inputs]
";

#[test]
fn a_newcomer_learns_whether_the_model_is_fast_enough() {
    for (seconds, decision) in
        [("0.001", "double is fast enough"), ("0.05", "double is not fast enough, or not known to be")]
    {
        let script = Decision::of("I have a model: is it fast enough?").with("p99<50ms", "p90<50ms");
        fs::write(script.path("double.py"), SCRIPT.replace("SECONDS", seconds)).unwrap();
        assert_eq!(script.run("-p 200 --gate-time 60s --on-disturbance ignore"), decision);
    }
}

#[test]
fn an_optimiser_takes_more_instances_where_they_help_and_leaves_them_where_not() {
    let heading = "I optimise models: which configuration?";
    for (model, helps) in [(Model::sleeping("m", 10), true), (Model::sleeping("m", 10).instances(4), false)] {
        let repository = Repository::of(&[model]);
        let decision = on(heading, &repository).with("resnet50", "m").run("--budget 15s");
        assert_eq!(decision.replace(' ', "") == "takecount:4", helps, "{decision}");
    }
}

#[test]
fn shared_memory_pays_off_for_large_tensors() {
    let tensors = "input [ { name: \"INPUT0\" data_type: TYPE_FP32 dims: [ -1 ] } ]\n\
         output [ { name: \"OUTPUT0\" data_type: TYPE_FP32 dims: [ -1 ] } ]";
    let repository = Repository::of(&[Model::identity("image").tensors(tensors)]);
    let Some(server) = TritonServer::start(&repository) else { return };
    let script = Decision::of("I move large tensors: does shared memory pay off?");
    let script = script.with("localhost:8000", &server.url("http"));
    assert_eq!(script.run("-p 200 --on-disturbance ignore --gate-time 30s"), "use shared memory");
    server.stop();
}

#[cfg(feature = "parquet")]
#[test]
fn a_scientist_sees_where_requests_begin_to_wait() {
    let Some(python) = std::env::var_os("TRITON_BENCH_TEST_PANDAS") else {
        return skip(
            "TRITON_BENCH_TEST_PANDAS names no Python with pandas and pyarrow (scripts/install-pandas makes one)",
        );
    };
    // One at a time, 8 ms each: 125 requests a second.
    let repository = Repository::of(&[Model::sleeping("m", 8)]);
    let Some(server) = TritonServer::start(&repository) else { return };
    let script = Decision::of("I write a paper: what did every request do?").with("resnet50", "m");
    let script = script.with("localhost:8000", &server.url("http")).with("python3", python.to_str().unwrap());
    assert_eq!(script.run("--on-disturbance ignore"), "queueing begins between 40.0 and 160.0 requests/s");
    server.stop();
}
