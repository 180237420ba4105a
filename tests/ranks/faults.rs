//! What may happen to a process of several: every end is bounded, and told.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::mpi::Mpi;
use super::support::{Finished, Model, Program, Repository, Running};

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

fn refused(mpi: Mpi, run: &Finished, said: &str, times: usize) {
    assert_eq!(run.code(), 99, "{mpi:?}: {}\n{}", run.stdout, run.stderr);
    assert_eq!(run.stderr.matches(said).count(), times, "{mpi:?}: {}", run.stderr);
}

#[test]
fn timed_a_rank_that_is_killed_ends_all_and_what_was_measured_is_written() {
    for mpi in Mpi::all() {
        let repository = Repository::of(&[Model::identity("m")]);
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
        let repository = Repository::of(&[Model::identity("m")]);
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
fn an_interrupt_of_one_rank_ends_the_run_of_all_in_order() {
    for mpi in Mpi::all() {
        let repository = Repository::of(&[Model::identity("m")]);
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
fn timed_an_interrupt_of_the_launcher_leaves_what_was_measured() {
    for mpi in Mpi::all() {
        let repository = Repository::of(&[Model::identity("m")]);
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
        let repository = Repository::of(&[Model::identity("m")]);
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
fn a_launcher_of_another_family_is_told() {
    if Mpi::all().len() < 2 {
        return;
    }
    let repository = Repository::of(&[Model::identity("m")]);
    let library = Mpi::Open.library("libmpi.so.40");
    let run = Program::on(&repository, "m").ranks(Mpi::Mpich, 2).env("TRITON_BENCH_MPI_LIBRARY", library).run();
    refused(Mpi::Mpich, &run, "has started 2 processes, but the MPI library (Open MPI v5.0.11", 2);
}

#[test]
fn without_a_library_there_is_one_line_and_nothing_is_linked() {
    let repository = Repository::of(&[Model::identity("m")]);
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
        let repository = Repository::of(&[Model::identity("m")]);
        let run = Program::on(&repository, "m").args("--request-count 5").through(mpi.launcher(2)).run();
        assert_eq!(run.code(), 0, "{}", run.stderr);
        assert_eq!(
            run.stderr.matches("without --enable-mpi each is a whole run of its own").count(),
            2,
            "{}",
            run.stderr
        );
        assert_eq!(run.stdout.matches("Request count: 5").count(), 2);
    }
}
