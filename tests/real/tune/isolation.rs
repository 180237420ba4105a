//! Candidates in separate processes.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::found::{Found, folder, search, tune};
use crate::support::{Model, Program, Repository, TritonServer};

/// What every process finds on the server is what the one before has left.
#[test]
fn a_server_is_searched_from_the_configuration_that_was_found() {
    let repository = Repository::of(&[Model::sleeping("m", 20)]);
    let flags = ["--model-control-mode=explicit", "--load-model=m"];
    let Some(server) = TritonServer::start_with(&repository, &flags) else { return };
    let arguments = format!("tune -m m -u {} --search instances=1,4 --at-concurrency 8", server.url("http"));
    let program = Program::new().args(&arguments).arg("--output").arg(folder(&repository));
    let finished = program.args("--isolate --budget 20s").run();
    let found = Found::read(finished, repository);
    assert_eq!((found.name(), found.winner()), ("better", vec![4]), "{}", found.text());
    assert!(found.result["verdict"]["gain"].as_f64().unwrap() > 3.0, "{}", found.text());
}

/// Its stub outlives the server and holds the pipe.
const KILLS: &str = r#"
import json, os, signal
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        parameters = json.loads(args["model_config"])["parameters"]
        self.kills = parameters.get("kills", {}).get("string_value") == "1"

    def execute(self, requests):
        if self.kills:
            os.kill(os.getppid(), signal.SIGKILL)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy())]) for request in requests]
"#;

#[test]
fn a_process_that_is_killed_is_a_result() {
    let started = Instant::now();
    let found = search(Model::python("m", KILLS), "--search parameters.kills=1 --isolate --budget 30s");
    let killed = &found.candidates().iter().find(|candidate| candidate["number"] == 1).unwrap().clone();
    assert!(killed["reason"].as_str().unwrap().contains("crashed (signal 9)"), "{}", found.text());
    assert_eq!(found.result["verdict"]["winner"], Value::from(0), "{}", found.text());
    assert!(started.elapsed() < Duration::from_secs(90), "{:?}", started.elapsed());
}

/// Yours may be the one that dies.
#[test]
fn the_present_configuration_is_isolated_too() {
    let model = Model::python("m", KILLS).parameter("kills", "1");
    let found = search(model, "--search parameters.kills=1,0 --isolate --budget 16s");
    assert_eq!((found.name(), found.values_of_winner()), ("meets", vec!["0".to_owned()]), "{}", found.text());
    assert!(found.words().contains("#1 works; yours could not be measured: its process crashed"), "{}", found.text());
    let model = Model::sleeping("m", 5).instances(3).parameter("crash_if", "count>2");
    let finished = tune(&Repository::of(&[model]), "--search instances=1:3 --isolate --budget 25s").run();
    finished.failure_after_notes(&["configuration in force cannot be read", "crashed (signal 6)"]);
}

#[test]
fn an_interrupt_ends_a_search_in_processes() {
    let repository = Repository::of(&[Model::sleeping("m", 5)]);
    let running = tune(&repository, "--search instances=1:3 --isolate --budget 120s").start();
    running.wait_for("racing");
    let interrupted = Instant::now();
    running.signal(2);
    assert_eq!(running.finish().code(), 0);
    assert!(interrupted.elapsed() < Duration::from_secs(20), "{:?}", interrupted.elapsed());
}

/// The regions of the processes that measure candidates of this repository.
fn regions(repository: &Repository) -> Vec<PathBuf> {
    let models = repository.path().display().to_string();
    let is_theirs = |region: &Path| {
        let name = region.file_name()?.to_str()?.strip_prefix("triton-bench-")?;
        let command = fs::read(format!("/proc/{}/cmdline", name.split('-').next()?)).ok()?;
        Some(String::from_utf8_lossy(&command).contains(&models))
    };
    let all = fs::read_dir("/dev/shm").unwrap().flatten().map(|entry| entry.path());
    all.filter(|region| is_theirs(region) == Some(true)).collect()
}

/// Waits until there is what `find` looks for.
fn wait_for<T>(find: impl Fn() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(started.elapsed() < Duration::from_secs(40), "no candidate has shared memory");
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn an_interrupt_leaves_no_shared_memory() {
    let repository = Repository::of(&[Model::sleeping("m", 5)]);
    let arguments = "--search instances=1:3 --shared-memory system --isolate --budget 120s";
    let running = tune(&repository, arguments).start();
    running.wait_for("racing");
    let found = wait_for(|| Some(regions(&repository)).filter(|found| !found.is_empty()));
    running.signal(2);
    assert_eq!(running.finish().code(), 0);
    let left: Vec<&PathBuf> = found.iter().filter(|region| region.exists()).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn an_interrupt_takes_shared_memory_back_from_the_server() {
    let repository = Repository::of(&[Model::sleeping("m", 5)]);
    let flags = ["--model-control-mode=explicit", "--load-model=m"];
    let Some(server) = TritonServer::start_with(&repository, &flags) else { return };
    let status = || server.get("/v2/systemsharedmemory/status").expect("the server answers");
    let arguments = format!("tune -m m -u {} --search instances=1:3 --shared-memory system", server.url("http"));
    let program = Program::new().args(&arguments).arg("--output").arg(folder(&repository));
    let running = program.args("--isolate --budget 120s").start();
    running.wait_for("racing");
    wait_for(|| status().contains("/triton-bench-").then_some(()));
    running.signal(2);
    assert_eq!(running.finish().code(), 0);
    assert!(!status().contains("/triton-bench-"), "{}", status());
}
