//! What may happen to a process of several: every end is bounded, and told.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::mpi::Mpi;
use crate::support::{Finished, Model, Program, Repository, Running, TritonServer, until_it_catches, until_it_has};

const SIGINT: i32 = 2;
const SIGKILL: i32 = 9;
const SIGSTOP: i32 = 19;

/// A load that goes on until something happens to it, whose windows are told with `-v`.
fn endless(repository: &Repository, mpi: Mpi, ranks: usize) -> Running {
    Program::on(repository, "m")
        .args("--concurrency-range 4 --async -p 200 -s 0.0001 -r 1000 -v --summary-file")
        .arg(repository.file("result.json"))
        .ranks(mpi, ranks)
        .start()
}

/// The process of a rank, once it runs.
fn process(repository: &Repository, mpi: Mpi, rank: usize) -> i32 {
    let name = repository.path();
    mpi.process(rank, name.to_str().unwrap()).unwrap_or_else(|| panic!("no rank {rank}"))
}

/// The process of a rank, as soon as it runs.
fn when_it_runs(repository: &Repository, mpi: Mpi, rank: usize) -> i32 {
    let (name, limit) = (repository.path(), Instant::now() + Duration::from_secs(20));
    loop {
        if let Some(pid) = mpi.process(rank, name.to_str().unwrap()) {
            return pid;
        }
        assert!(Instant::now() < limit, "no rank {rank}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn slow_to_load() -> Model {
    let script = r#"
import time
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        time.sleep(3)

    def execute(self, requests):
        inputs = [pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy() for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", values)]) for values in inputs]
"#;
    Model::python("m", script)
}

fn signal(pid: i32, signal: i32) {
    let status = Command::new("kill").args([format!("-{signal}"), pid.to_string()]).status().unwrap();
    assert!(status.success());
}

/// Nothing of the run is left.
fn nothing_is_left(repository: &Repository, mpi: Mpi, ranks: usize) {
    let limit = Instant::now() + Duration::from_secs(10);
    let name = repository.path();
    let left = || (0..ranks).filter_map(|rank| mpi.process(rank, name.to_str().unwrap())).collect::<Vec<_>>();
    while !left().is_empty() {
        assert!(Instant::now() < limit, "left: {:?}", left());
        thread::sleep(Duration::from_millis(10));
    }
}

fn result(repository: &Repository) -> Value {
    serde_json::from_str(&fs::read_to_string(repository.file("result.json")).unwrap()).unwrap()
}

fn refused(mpi: Mpi, run: &Finished, message: &str, times: usize) {
    assert_eq!(run.code(), 99, "{mpi:?}: {}\n{}", run.stdout, run.stderr);
    assert_eq!(run.stderr.matches(message).count(), times, "{mpi:?}: {}", run.stderr);
}

#[test]
fn timed_a_rank_that_is_killed_ends_all_and_what_was_measured_is_written() {
    for mpi in Mpi::all() {
        let repository = Repository::of(&[Model::sleeping("m", 1)]);
        let run = endless(&repository, mpi, 3);
        run.wait_for("Pass [3]");
        signal(process(&repository, mpi, 1), SIGKILL);
        let ended = run.finish();
        assert_ne!(ended.code(), 0, "{}", ended.stderr);
        nothing_is_left(&repository, mpi, 3);
        // MPICH kills the others at once.
        if mpi == Mpi::Open {
            let level = &result(&repository)["levels"][0];
            assert!(level["client"]["requests"].as_u64() > Some(0), "{level}");
            assert_ne!(level["verdict"], "valid");
        }
    }
}

#[test]
fn a_rank_that_hangs_is_named_and_what_was_measured_is_reported() {
    for mpi in Mpi::all() {
        let repository = Repository::of(&[Model::sleeping("m", 1)]);
        let run = endless(&repository, mpi, 3);
        run.wait_for("Pass [3]");
        let hung = process(&repository, mpi, 2);
        signal(hung, SIGSTOP);
        let ended = run.finish();
        assert!(ended.stderr.contains("error: rank 2 ("), "{mpi:?}: {}", ended.stderr);
        assert!(ended.stderr.contains("was lost: it does not answer"), "{}", ended.stderr);
        assert!(ended.stdout.contains("Verdict: invalid"), "{}", ended.stdout);
        assert!(result(&repository)["levels"][0]["client"]["requests"].as_u64() > Some(0));
        assert_ne!(ended.code(), 0);
        nothing_is_left(&repository, mpi, 3);
    }
}

#[test]
fn rank_0_that_is_lost_is_told_by_the_others_and_ends_all() {
    for mpi in Mpi::all() {
        for how in [SIGKILL, SIGSTOP] {
            let repository = Repository::of(&[Model::sleeping("m", 1)]);
            let run = endless(&repository, mpi, 3);
            run.wait_for("Pass [3]");
            signal(process(&repository, mpi, 0), how);
            let ended = run.finish();
            assert_ne!(ended.code(), 0, "{mpi:?}: {}", ended.stderr);
            if how == SIGSTOP {
                assert!(ended.stderr.contains("error: rank 0 ("), "{mpi:?}: {}", ended.stderr);
                assert!(ended.stderr.contains("was lost: it does not answer"), "{mpi:?}: {}", ended.stderr);
            }
            nothing_is_left(&repository, mpi, 3);
        }
    }
}

#[test]
fn a_second_interrupt_of_one_rank_ends_all_at_once() {
    for mpi in Mpi::all() {
        // After the first interrupt, what is outstanding is waited for, which takes longer than until the second one.
        let repository = Repository::of(&[Model::sleeping("m", 60_000)]);
        let run = Program::on(&repository, "m").args("--concurrency-range 4 -p 60000").ranks(mpi, 2).start();
        let pid = when_it_runs(&repository, mpi, 1);
        until_it_catches(pid, SIGINT);
        thread::sleep(Duration::from_secs(4));
        signal(pid, SIGINT);
        until_it_has(pid, SIGINT);
        thread::sleep(Duration::from_millis(300));
        signal(pid, SIGINT);
        let interrupted = Instant::now();
        let finished = run.finish();
        assert_ne!(finished.code(), 0, "{mpi:?}");
        // With one interrupt alone, answers are waited for, and the lack of them is said.
        assert!(!finished.stderr.contains("nothing was measured"), "{mpi:?}: {}", finished.stderr);
        assert!(interrupted.elapsed() < Duration::from_secs(20), "{mpi:?}: it waits: {:?}", interrupted.elapsed());
        nothing_is_left(&repository, mpi, 2);
    }
}

#[test]
fn a_process_of_several_runs_that_is_killed_ends_all() {
    for mpi in Mpi::all() {
        let repository = Repository::of(&[Model::sleeping("m", 1)]);
        let text = "concurrency-range: 2\nverbose: true\nruns:\n  one: {stability-percentage: 0.0001, max-trials: 1000, \
                    measurement-interval: 200}\n  two: {request-count: 10}\n";
        fs::write(repository.file("runs.yaml"), text).unwrap();
        let run =
            Program::on(&repository, "m").args("--config").arg(repository.file("runs.yaml")).ranks(mpi, 2).start();
        run.wait_for("Pass [2]");
        let name = repository.path();
        let pid = mpi.process_with(1, name.to_str().unwrap(), Some("TRITON_BENCH_RELAYED=1")).expect("rank 1 has one");
        signal(pid, SIGKILL);
        let ended = run.finish();
        assert_ne!(ended.code(), 0, "{mpi:?}: {}\n{}", ended.stdout, ended.stderr);
        assert!(!ended.stderr.contains("run 'two'"), "{mpi:?}: {}", ended.stderr);
        nothing_is_left(&repository, mpi, 2);
    }
}

#[test]
fn an_interrupt_of_one_rank_ends_the_run_of_all_in_order() {
    for mpi in Mpi::all() {
        let repository = Repository::of(&[Model::sleeping("m", 1)]);
        let run = endless(&repository, mpi, 2);
        run.wait_for("Pass [3]");
        signal(process(&repository, mpi, 1), SIGINT);
        let ended = run.finish();
        assert_eq!(ended.code(), 0, "{mpi:?}: {}\n{}", ended.stdout, ended.stderr);
        assert!(ended.stdout.contains("Verdict: invalid [interrupted]"), "{}", ended.stdout);
        assert_eq!(result(&repository)["levels"][0]["ranks"].as_array().unwrap().len(), 2);
    }
}

#[test]
fn timed_an_interrupt_does_not_wait_for_the_end_of_a_long_window() {
    for mpi in Mpi::all() {
        let repository = Repository::of(&[Model::sleeping("m", 1)]);
        let run = Program::on(&repository, "m")
            .args("--concurrency-range 4 --async -p 60000 --warmup-request-count 1 -v --summary-file")
            .arg(repository.file("result.json"))
            .ranks(mpi, 2)
            .start();
        run.wait_for("Request concurrency: 4");
        thread::sleep(Duration::from_secs(1));
        let interrupted = Instant::now();
        signal(process(&repository, mpi, 1), SIGINT);
        let ended = run.finish();
        assert!(interrupted.elapsed() < Duration::from_secs(15), "{:?}", interrupted.elapsed());
        assert!(ended.stdout.contains("Verdict: invalid [interrupted]"), "{}\n{}", ended.stdout, ended.stderr);
        let result = result(&repository);
        let level = &result["levels"][0];
        assert_eq!(level["ranks"].as_array().unwrap().len(), 2, "{level}");
        assert!(level["client"]["requests"].as_u64() > Some(0), "{level}");
    }
}

#[test]
fn timed_an_interrupt_of_the_launcher_leaves_what_was_measured() {
    for mpi in Mpi::all() {
        let repository = Repository::of(&[Model::sleeping("m", 1)]);
        let run = endless(&repository, mpi, 2);
        run.wait_for("Pass [3]");
        run.signal(SIGINT);
        let ended = run.finish();
        assert!(result(&repository)["levels"][0]["client"]["requests"].as_u64() > Some(0), "{}", ended.stderr);
        nothing_is_left(&repository, mpi, 2);
    }
}

#[test]
fn what_keeps_one_rank_from_starting_is_told_once() {
    for mpi in Mpi::all() {
        let repository = Repository::of(&[Model::sleeping("m", 1)]);
        let run = Program::on(&repository, "nosuch").args("--concurrency-range 3").ranks(mpi, 3).run();
        refused(mpi, &run, "error: model 'nosuch'", 1);
        let run = Program::on(&repository, "m")
            .args("--ranks joint --input-data")
            .arg(repository.file("data{rank}.json"))
            .ranks(mpi, 2);
        fs::write(repository.file("data1.json"), "{").unwrap();
        fs::write(repository.file("data0.json"), format!("{{\"data\":[{{\"INPUT0\":{:?}}}]}}", [1; 16])).unwrap();
        let run = run.args("--concurrency-range 2").run();
        refused(mpi, &run, "error: rank 1 (", 1);
        assert!(run.stderr.contains("data1.json"), "{}", run.stderr);
    }
}

#[test]
fn a_rank_that_cannot_reach_its_server_is_named_and_ends_all() {
    let repository = Repository::of(&[Model::sleeping("m", 1)]);
    // That of rank 0; at rank 1's address nobody listens.
    let Some(server) = TritonServer::start_within(&[], "127.0.0.10", &repository) else { return };
    let url = server.url("grpc").replace("127.0.0.10", "127.0.0.1{rank}");
    for mpi in Mpi::all() {
        let flags = format!("--ranks joint -i grpc -u {url} -m m --concurrency-range 2 --request-count 10");
        let run = Program::new().args(&flags).ranks(mpi, 2).run();
        refused(mpi, &run, "error: rank 1 (", 1);
        assert!(run.stderr.contains("127.0.0.11"), "{mpi:?}: {}", run.stderr);
    }
}

#[test]
fn a_rank_that_is_killed_while_models_load_ends_all() {
    for mpi in Mpi::all() {
        let repository = Repository::of(&[slow_to_load()]);
        let run = endless(&repository, mpi, 2);
        signal(when_it_runs(&repository, mpi, 1), SIGKILL);
        assert_ne!(run.finish().code(), 0, "{mpi:?}");
        nothing_is_left(&repository, mpi, 2);
    }
}

#[test]
fn an_interrupt_of_one_rank_while_models_load_ends_all() {
    for mpi in Mpi::all() {
        let repository = Repository::of(&[slow_to_load()]);
        let run = endless(&repository, mpi, 2);
        let pid = when_it_runs(&repository, mpi, 1);
        until_it_catches(pid, SIGINT);
        signal(pid, SIGINT);
        let ended = run.finish();
        assert_ne!(ended.code(), 0, "{mpi:?}: {}\n{}", ended.stdout, ended.stderr);
        assert!(!ended.stdout.contains("Pass [1]"), "nothing is measured: {}", ended.stdout);
        nothing_is_left(&repository, mpi, 2);
    }
}

#[test]
fn an_interrupt_of_one_rank_ends_windows_of_requests_and_stages_of_all() {
    for mpi in Mpi::all() {
        for load in [
            "--concurrency-range 4 --measurement-mode count_windows --measurement-request-count 100 -s 0.0001 -r 1000",
            "--stage rate:50:30req --stage rate:50:500ms --stage concurrency:4:60s",
        ] {
            let repository = Repository::of(&[Model::identity("m").parameter("delay_us", "1000")]);
            let run = Program::on(&repository, "m")
                .args(load)
                .args("-v --summary-file")
                .arg(repository.file("result.json"))
                .ranks(mpi, 2)
                .start();
            // The third stage follows the second without a pause.
            run.wait_for("Pass [2]");
            signal(process(&repository, mpi, 1), SIGINT);
            let ended = run.finish();
            // On a busy machine the schedule before may have been sent late.
            assert!([0, 4].contains(&ended.code()), "{mpi:?}, {load}: {}\n{}", ended.stdout, ended.stderr);
            let levels = result(&repository)["levels"].as_array().unwrap().clone();
            let last = levels.last().unwrap();
            assert!(last["verdict"].to_string().contains("interrupted"), "{mpi:?}: {last}");
            assert_eq!(last["ranks"].as_array().unwrap().len(), 2);
            nothing_is_left(&repository, mpi, 2);
        }
    }
}

#[test]
fn a_rank_that_hangs_in_a_stage_leaves_those_that_all_have_told_of() {
    for mpi in Mpi::all() {
        let repository = Repository::of(&[Model::sleeping("m", 1)]);
        let run = Program::on(&repository, "m")
            .args("--stage rate:50:30req --stage rate:50:60s -v --summary-file")
            .arg(repository.file("result.json"))
            .ranks(mpi, 2)
            .start();
        run.wait_for("Request count: 30");
        signal(process(&repository, mpi, 1), SIGSTOP);
        let ended = run.finish();
        assert!(ended.stderr.contains("rank 1 (") && ended.stderr.contains("was lost"), "{mpi:?}: {}", ended.stderr);
        assert_ne!(ended.code(), 0);
        assert_eq!(result(&repository)["levels"][0]["client"]["requests"], 30);
        nothing_is_left(&repository, mpi, 2);
    }
}

#[test]
fn a_launcher_of_another_family_is_told() {
    if Mpi::all().len() < 2 {
        return;
    }
    let repository = Repository::of(&[Model::sleeping("m", 1)]);
    let library = Mpi::Open.library("libmpi.so.40");
    let run = Program::on(&repository, "m").ranks(Mpi::Mpich, 2).env("TRITON_BENCH_MPI_LIBRARY", library).run();
    refused(Mpi::Mpich, &run, "has started 2 processes, but the MPI library (Open MPI v5.0.11", 2);
    // This library would end the process without a word of ours.
    let library = Mpi::Mpich.library("libmpi.so.12");
    let run = Program::on(&repository, "m").ranks(Mpi::Open, 2).env("TRITON_BENCH_MPI_LIBRARY", library).run();
    // Whoever is first has the other ended.
    assert_eq!(run.code(), 99, "{}", run.stderr);
    let message = "error: --enable-mpi: Open MPI's mpirun has started 2 processes, but the MPI library (MPICH Version:";
    assert!(run.stderr.contains(message), "{}", run.stderr);
}

#[test]
fn processes_that_share_a_processor_are_told_once() {
    for mpi in Mpi::all() {
        let repository = Repository::of(&[Model::sleeping("m", 1)]);
        let run = Program::on(&repository, "m")
            .args("--concurrency-range 2 --request-count 20")
            .ranks(mpi, 2)
            .under("taskset -cp 0 $$ >/dev/null")
            .run();
        run.report_even_if_late();
        assert_eq!(run.stderr.matches("share 1 processor,").count(), 1, "{mpi:?}: {}", run.stderr);
    }
}

#[test]
fn without_a_library_there_is_one_line_and_nothing_is_linked() {
    let repository = Repository::of(&[Model::sleeping("m", 1)]);
    let named =
        Program::on(&repository, "m").args("--enable-mpi").env("TRITON_BENCH_MPI_LIBRARY", "/nowhere/libmpi.so").run();
    named.failure_after_notes(&["TRITON_BENCH_MPI_LIBRARY names '/nowhere/libmpi.so', which is not there"]);
    let no_mpi = Program::on(&repository, "m").args("--enable-mpi").env("TRITON_BENCH_MPI_LIBRARY", "libc.so.6").run();
    no_mpi.failure_after_notes(&["libc.so.6 lacks MPI_Get_library_version"]);
    let linked = Command::new("ldd").arg(env!("CARGO_BIN_EXE_triton-bench")).output().unwrap();
    assert!(!String::from_utf8_lossy(&linked.stdout).contains("mpi"));
}

#[test]
fn processes_that_know_nothing_of_each_other_are_told_so() {
    for mpi in Mpi::all() {
        let repository = Repository::of(&[Model::sleeping("m", 1)]);
        let run = Program::on(&repository, "m").args("--request-count 5").through(mpi.launcher(2)).run();
        assert_eq!(run.code(), 0, "{}", run.stderr);
        assert_eq!(
            run.stderr.matches("without --enable-mpi each does the whole run by itself").count(),
            2,
            "{}",
            run.stderr
        );
        assert_eq!(run.stdout.matches("Request count: 5").count(), 2);
    }
}
