//! A load and a report of its own for each process, which begin and end together: perf_analyzer's `--enable-mpi`.

use std::fs;
use std::process::Command;

use super::mpi::Mpi;
use crate::support::far::{breaking, once_measured};
use crate::support::{Model, Program, Repository, TritonServer};

/// Two commands in one job, one process each, as Model Analyzer starts them.
pub fn two(mut launcher: Command, first: &Program, second: &Program) -> Program {
    launcher.arg(first.command().get_program()).args(first.command().get_args()).args([":", "-n", "1"]);
    Program::of(second.command()).through(launcher)
}

#[test]
fn two_models_are_measured_at_the_same_time() {
    for mpi in Mpi::all() {
        let slow = Model::identity("slow").parameter("delay_us", "2000");
        let repository = Repository::of(&[Model::identity("fast"), slow]);
        let program = |model: &str| {
            Program::on(&repository, model)
                .quick()
                .args("--enable-mpi --concurrency-range 1 -v -f")
                .arg(repository.file(&format!("{model}.csv")))
                .named_perf_analyzer()
        };
        let run = two(mpi.launcher(1), &program("fast"), &program("slow")).run();
        assert_eq!(run.code(), 0, "{}\n{}", run.stdout, run.stderr);
        assert_eq!(run.stdout.matches("Request concurrency: 1").count(), 2, "a report each: {}", run.stdout);
        assert_eq!(run.stdout.matches("All models on all MPI ranks are stable").count(), 2, "{}", run.stdout);
        for model in ["fast", "slow"] {
            let csv = fs::read_to_string(repository.file(&format!("{model}.csv"))).unwrap();
            assert!(csv.starts_with("Concurrency,Inferences/Second") && csv.lines().count() == 2, "{csv}");
        }
    }
}

#[test]
fn timed_loads_go_on_until_the_last_process_has_what_it_needs() {
    for mpi in Mpi::all() {
        let repository = Repository::of(&[Model::identity("m")]);
        let program = |windows: &str| {
            let line = format!("--enable-mpi --concurrency-range 1 -v {windows}");
            Program::on(&repository, "m").args(&line)
        };
        // Three windows of 100 ms, and three of 700 ms.
        let run = two(mpi.launcher(1), &program("-p 100 -s 1000000"), &program("-p 700 -s 1000000")).run();
        assert_eq!(run.code(), 0, "{}\n{}", run.stdout, run.stderr);
        let windows = run.stdout.matches("  Pass [").count();
        assert!(windows > 3 + 10, "the brief ones go on for as long as the others: {windows}\n{}", run.stdout);
    }
}

#[test]
fn levels_are_one_each() {
    for mpi in Mpi::all() {
        let repository = Repository::of(&[Model::identity("m")]);
        let refused = |flags: &str, message: &str| {
            let run = Program::on(&repository, "m").args(flags).named_perf_analyzer().ranks(mpi, 2).run();
            assert!(run.code() == 99 && run.stderr.contains(message), "{mpi:?}: {}", run.stderr);
        };
        refused("--concurrency-range 1:2", "Cannot specify --concurrency-range when in multi-model mode.");
        refused("--request-rate-range 10:20:5", "Cannot specify --request-rate-range when in multi-model mode.");
    }
}

#[test]
fn stages_beside_a_load_of_another_kind_end_in_order_and_other_numbers_of_starts_are_refused() {
    for mpi in Mpi::all() {
        let repository = Repository::of(&[Model::identity("m")]);
        let program = |flags: &str| Program::on(&repository, "m").args("--enable-mpi --ranks separate").args(flags);
        let level = || program("--concurrency-range 1 -p 300 -s 1000000");
        let run = two(mpi.launcher(1), &program("--stage rate:50:20req --stage concurrency:2:300ms"), &level()).run();
        assert!([0, 4].contains(&run.code()), "{mpi:?}: {}\n{}", run.stdout, run.stderr);
        assert_eq!(run.stdout.matches("Request count:").count(), 3, "two stages, and a level: {}", run.stdout);
        let run = two(mpi.launcher(1), &program("--concurrency-range 1 --restarts 2"), &level()).run();
        assert_eq!(run.code(), 99, "{mpi:?}: {}", run.stderr);
        assert!(run.stderr.contains("--restarts 2 at rank 0"), "{mpi:?}: {}", run.stderr);
    }
}

#[test]
fn one_that_can_no_longer_ask_its_server_tells_the_others_why() {
    for mpi in Mpi::all() {
        let repository = Repository::of(&[Model::identity("m")]);
        let Some(server) = TritonServer::start(&repository) else { return };
        let url = breaking(&server.url("http"), once_measured("/stats "));
        let flags = "--enable-mpi --ranks separate --concurrency-range 1 -p 300 -s 1000000";
        let remote = TritonServer::program_at(&url, "http", "m").args(flags);
        let run = two(mpi.launcher(1), &Program::on(&repository, "m").args(flags), &remote).run();
        assert!(run.code() != 0 && run.stderr.contains("statistics"), "{mpi:?}: {}", run.stderr);
        assert!(!run.stderr.contains("out of step"), "{mpi:?}: {}", run.stderr);
    }
}
