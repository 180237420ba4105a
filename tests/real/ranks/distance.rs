//! One load from machines that are far from each other: messages take long, and clocks are known no better than that.

use std::fs;
use std::time::Duration;

use serde_json::Value;

use super::hosts::{APART, Hosts, serve};
use super::joint::{instants, requests, rows, summary};
use super::mpi::Mpi;
use crate::support::{Export, Finished, Model, Program, Repository, TritonServer};

/// From each machine to the server, and half the way to the other machine.
const FAR: Duration = Duration::from_millis(10);
/// The other machine's messages come no sooner, in nanoseconds.
const MESSAGE: i64 = 20_000_000;

/// A level of two machines, and what both say of each request.
struct Shared {
    level: Value,
    exports: [Export; 2],
    run: Finished,
}

impl Shared {
    fn ranks(&self) -> &[Value] {
        self.level["ranks"].as_array().unwrap()
    }

    /// The windows that count.
    fn windows(&self) -> Vec<&Value> {
        self.level["windows"].as_array().unwrap().iter().filter(|window| window["counted"] == true).collect()
    }
}

/// The program with its data and files, called `name`.
fn program(repository: &Repository, server: &TritonServer, name: &str, flags: &str) -> Program {
    let data = repository.file("data.json");
    fs::write(&data, rows(60, 16)).unwrap();
    let file = |kind: &str| repository.file(&format!("{name}{kind}.json"));
    Program::new()
        .args(&format!("--on-disturbance mark -i grpc -u {} -m m {flags} --input-data", server.url("grpc")))
        .arg(data)
        .args("--profile-export-file")
        .arg(file(""))
        .args("--summary-file")
        .arg(file(".result"))
}

/// The run of both machines.
fn shared(hosts: &Hosts, mpi: Mpi, repository: &Repository, server: &TritonServer, flags: &str) -> Shared {
    let name = format!("{mpi:?}");
    let program = program(repository, server, &name, flags).args("--enable-mpi");
    let run = program.through(hosts.launcher(mpi, repository, 2)).run();
    run.report_even_if_late();
    let file = |kind: &str| repository.file(&format!("{name}{kind}.json"));
    let exports = [0, 1].map(|rank| Export::read(&file(&format!(".rank{rank}"))));
    Shared { level: summary(&file(".result"))["levels"][0].take(), exports, run }
}

/// What rank 1's clock is found to be, and how sure that is.
fn clock(shared: &Shared) -> (i64, i64) {
    let number = |key: &str| shared.ranks()[1][key].as_i64().unwrap();
    (number("clock_offset_ns"), number("clock_error_ns"))
}

fn assert_clock_is_found(shared: &Shared) {
    let (offset, error) = clock(shared);
    // Whoever is sure to less than a message's time does not know how long it took.
    assert!((MESSAGE..2 * MESSAGE).contains(&error), "{error} ns");
    assert!((offset + APART as i64 * 1_000_000_000).abs() <= error, "{offset} +-{error}");
}

#[test]
fn windows_that_are_no_longer_than_messages_take_are_refused() {
    let Some(hosts) = Hosts::make(FAR) else { return };
    let repository = Repository::of(&[Model::identity("m")]);
    let Some(server) = serve(&hosts, &repository) else { return };
    for mpi in Mpi::all() {
        let name = format!("{mpi:?}");
        let program = program(&repository, &server, &name, "--concurrency-range 2 -p 100 --enable-mpi");
        let run = program.through(hosts.launcher(mpi, &repository, 2)).run();
        let words = ["more than a tenth of a window", "--measurement-interval"];
        let refused = run.code() == 99 && words.iter().all(|part| run.stderr.contains(part));
        assert!(refused, "{mpi:?}, {}: {}\n{}", run.code(), run.stderr, run.stdout);
    }
}

/// Alone on the machine: two programs, their launcher and the wires between them need both processors in time.
mod measured {
    use super::*;

    #[test]
    fn timed_machines_20_ms_apart_send_what_one_sends_when_one_sends_it() {
        let Some(hosts) = Hosts::make(FAR) else { return };
        let repository = Repository::of(&[Model::identity("m")]);
        let Some(server) = serve(&hosts, &repository) else { return };
        let flags = "--request-rate-range 40 --request-count 60 --request-distribution poisson --seed 9";
        program(&repository, &server, "one", flags).through(hosts.in_the_middle()).run().report_even_if_late();
        let single = [Export::read(&repository.file("one.json"))];
        for mpi in Mpi::all() {
            let joint = shared(&hosts, mpi, &repository, &server, flags);
            assert_eq!(requests(&joint.exports), requests(&single), "{mpi:?}");
            assert_eq!(joint.level["client"]["requests"], 60);
            assert_clock_is_found(&joint);
            // Stamps in exports are of the wall clock, which both machines have in common and MPI knows nothing of.
            let (here, there) = (instants(&single), instants(&joint.exports));
            let mut apart: Vec<f64> = here.iter().zip(&there).map(|(here, there)| here - there).collect();
            apart.sort_by(f64::total_cmp);
            // Both are counted from their first request, which may have been late.
            let middle = apart[30];
            apart.iter_mut().for_each(|apart| *apart = (*apart - middle).abs());
            apart.sort_by(f64::total_cmp);
            // Were rank 1's clock taken for another, half of them would be that far off.
            assert!(apart[40] < 8.0, "{mpi:?}, clock {:?}: {apart:?}", clock(&joint));
            let uncertainty = clock(&joint).1 as f64 / 1e6;
            // Single ones may be late.
            assert!(apart[54] < uncertainty + 8.0, "{mpi:?}: more apart than clocks may be wrong: {apart:?}");
        }
    }

    #[test]
    fn timed_windows_of_machines_20_ms_apart_abut_and_hold_the_requests_of_both() {
        let Some(hosts) = Hosts::make(FAR) else { return };
        let repository = Repository::of(&[Model::identity("m")]);
        let Some(server) = serve(&hosts, &repository) else { return };
        for mpi in Mpi::all() {
            let joint = shared(&hosts, mpi, &repository, &server, "--request-rate-range 200 -p 1000 -r 4 -s 1000");
            assert_clock_is_found(&joint);
            let clock_is_told = "known to within 2";
            assert!(
                joint.run.stderr.contains(clock_is_told),
                "{mpi:?}, two hundredths of a window: {}",
                joint.run.stderr
            );
            let windows = joint.windows();
            assert!(windows.len() >= 3, "{:?}", joint.level["windows"]);
            let number = |window: &Value, key: &str| window[key].as_f64().unwrap();
            for pair in windows.windows(2) {
                let gap = number(pair[1], "start_ns") / 1e9 - number(pair[0], "start_ns") / 1e9;
                assert!((gap - 1.0).abs() < 0.01, "{mpi:?}, windows of a second begin {gap} s apart");
            }
            for window in &windows {
                let (length, sent) = (number(window, "duration_s"), number(window, "sent"));
                assert!((length - 1.0).abs() < 0.01 && (sent - 200.0).abs() <= 8.0, "{mpi:?}: {window}");
            }
            let sum = |rows: &[Value]| rows.iter().map(|row| row["requests"].as_u64().unwrap()).sum::<u64>();
            assert_eq!(joint.level["client"]["requests"], sum(joint.ranks()), "{mpi:?}");
            for rank in joint.ranks() {
                let (had, window_count) = (rank["requests"].as_u64().unwrap(), windows.len() as u64);
                assert!(
                    had.abs_diff(100 * window_count) <= 10 * window_count,
                    "{mpi:?}, half of each window's: {rank}"
                );
            }
        }
    }

    #[test]
    fn timed_machines_farther_apart_than_the_usual_lead_begin_together() {
        let Some(hosts) = Hosts::make(Duration::from_millis(100)) else { return };
        let repository = Repository::of(&[Model::identity("m")]);
        let Some(server) = serve(&hosts, &repository) else { return };
        // The lead is ours, whichever MPI carries it; over this distance a job of either takes half a minute.
        for mpi in Mpi::all().into_iter().take(1) {
            let joint = shared(&hosts, mpi, &repository, &server, "--request-rate-range 50 --request-count 50");
            // Rank 1 hears of the start 200 ms after rank 0 has named it, and its first request is due 20 ms after that start.
            let late = joint.ranks()[1]["late_ns"].as_u64().unwrap();
            assert!(late < 60_000_000, "{mpi:?}: it heard of the start {late} ns too late\n{}", joint.run.stdout);
        }
    }
}
