//! One load, of which each process has a part.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::mpi::Mpi;
use crate::support::http_server::{Act, HttpServer, Received, good_answer, reply};
use crate::support::{Export, Finished, Model, Program, Repository, TritonServer};

/// The requests of a run, by what tells them apart, and how many there were of each.
pub fn requests(exports: &[Export]) -> BTreeMap<String, usize> {
    let mut all = BTreeMap::new();
    for export in exports {
        for request in export.experiments()[0]["requests"].as_array().unwrap() {
            let key = format!("{} {}", request["sequence_id"], request["request_inputs"]);
            *all.entry(key).or_default() += 1;
        }
    }
    all
}

/// When the requests of a run were sent, from the first on, in milliseconds.
pub fn instants(exports: &[Export]) -> Vec<f64> {
    let spans = exports.iter().flat_map(|export| Export::spans(&export.experiments()[0]));
    let mut sent: Vec<u64> = spans.map(|(sent, _)| sent).collect();
    sent.sort_unstable();
    sent.iter().map(|at| (at - sent[0]) as f64 / 1e6).collect()
}

/// The exports of so many ranks, or that of one process.
fn exports(repository: &Repository, ranks: usize) -> Vec<Export> {
    let name = |rank: usize| if ranks == 1 { "all.json".to_owned() } else { format!("all.rank{rank}.json") };
    (0..ranks).map(|rank| Export::read(&repository.file(&name(rank)))).collect()
}

pub fn summary(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// The program with flags, that sends these data and exports all requests.
pub fn sending(repository: &Repository, flags: &str, data: &str) -> Program {
    fs::write(repository.file("data.json"), data).unwrap();
    Program::on(repository, "m")
        .args(flags)
        .args("--input-data")
        .arg(repository.file("data.json"))
        .args("--profile-export-file")
        .arg(repository.file("all.json"))
}

/// Runs flags in one process and in so many, and returns what both have sent and said.
fn both(flags: &str, data: &str, ranks: usize) -> [(Vec<Export>, Finished); 2] {
    [(1, None), (ranks, Some(Mpi::Mpich))].map(|(ranks, mpi)| {
        let model =
            if flags.contains("sequence") { Model::accumulator("m").instances(8) } else { Model::identity("m") };
        let repository = Repository::of(&[model]);
        let program = sending(&repository, flags, data);
        let run = match mpi {
            Some(mpi) => program.ranks(mpi, ranks).run(),
            None => program.run(),
        };
        run.report_even_if_late();
        (exports(&repository, ranks), run)
    })
}

/// Rows of data that differ from each other, of so many elements.
pub fn rows(count: usize, elements: usize) -> String {
    let row = |number: usize| format!("{{\"INPUT0\": [{}]}}", vec![number.to_string(); elements].join(","));
    format!("{{\"data\": [{}]}}", (0..count).map(row).collect::<Vec<_>>().join(","))
}

#[test]
fn a_concurrency_of_so_many_requests_is_shared() {
    for mpi in Mpi::all() {
        for ranks in [1, 2, 4] {
            let repository = Repository::of(&[Model::identity("m")]);
            let result = repository.file("result.json");
            let run = Program::on(&repository, "m")
                .args("--concurrency-range 4 --request-count 402 --summary-file")
                .arg(&result)
                .ranks(mpi, ranks)
                .run();
            let report = run.report();
            assert_eq!(report.level().client_number("Request count"), 402.0, "{mpi:?}, {ranks} ranks: {}", run.stdout);
            let level = &summary(&result)["levels"][0];
            assert_eq!(level["client"]["requests"], 402);
            assert_eq!(level["server"]["delta"]["success"]["count"], 402, "each rank has a server of its own");
            let rows = level["ranks"].as_array().unwrap();
            let parts: Vec<u64> = rows.iter().map(|row| row["requests"].as_u64().unwrap()).collect();
            let expected: &[u64] = match ranks {
                1 => &[],
                2 => &[201, 201],
                _ => &[101, 101, 100, 100],
            };
            assert_eq!(parts, expected, "{mpi:?}");
            assert_eq!(run.stdout.matches("Request concurrency: 4").count(), 1, "one report");
        }
    }
}

#[test]
fn timed_windows_are_judged_together_and_ranges_are_walked_in_step() {
    for mpi in Mpi::all() {
        let repository = Repository::of(&[Model::identity("m")]);
        let result = repository.file("result.json");
        let run = Program::on(&repository, "m")
            .quick()
            .args("--concurrency-range 2:6:2 --async --summary-file")
            .arg(&result)
            .ranks(mpi, 2)
            .run();
        run.report();
        let result = summary(&result);
        let levels = result["levels"].as_array().unwrap();
        assert_eq!(levels.len(), 3);
        for level in levels {
            let ranks = level["ranks"].as_array().unwrap();
            let sum: u64 = ranks.iter().map(|rank| rank["requests"].as_u64().unwrap()).sum();
            assert_eq!(level["client"]["requests"], sum, "the windows of both are the same");
            assert_eq!(level["client"]["latency"]["count"], sum, "and so are their latencies");
            assert!(ranks.iter().all(|rank| rank["requests"].as_u64() > Some(0)), "{ranks:?}");
            // All that were not disturbed make the result: three where a level settles at once, more where it does not.
            let windows = level["client"]["duration_s"].as_f64().unwrap() / 0.1;
            assert!((0.9..11.0).contains(&windows), "windows of 100 ms: {windows}");
        }
    }
}

#[test]
fn the_library_of_the_standard_interface_does_as_well() {
    for name in ["libmpi_abi.so.1", "libmpi.so.12"] {
        let Some(_) = Mpi::Mpich.folder() else { return };
        let repository = Repository::of(&[Model::identity("m")]);
        let run = Program::on(&repository, "m")
            .args("--concurrency-range 2 --request-count 100")
            .ranks(Mpi::Mpich, 2)
            .env("TRITON_BENCH_MPI_LIBRARY", Mpi::Mpich.library(name))
            .run();
        assert_eq!(run.report().level().client_number("Request count"), 100.0, "{name}");
    }
}

#[test]
fn four_processes_send_the_data_of_one() {
    let [(single, _), (four, run)] = both("--concurrency-range 4 --request-count 60", &rows(60, 16), 4);
    assert_eq!(requests(&four), requests(&single));
    assert_eq!(requests(&four).len(), 60, "every row once: {}", run.stdout);
    assert!(four.iter().all(|export| export.experiments()[0]["requests"].as_array().unwrap().len() == 15));
}

#[test]
fn four_processes_play_the_sequences_of_one() {
    let flags = "--request-rate-range 100 --num-of-sequences 8 --sequence-length 5 --sequence-length-variation 40 \
                 --request-count 200 --max-threads 1 --sequence-id-range 50:90";
    let [(single, one_run), (four, run)] = both(flags, &rows(7, 1), 4);
    assert_eq!(
        requests(&four),
        requests(&single),
        "the same ids with the same data\n{}{}\nthose of one\n{}",
        run.stdout,
        run.stderr,
        one_run.stdout
    );
}

/// It needs all processors in time.
mod alone {
    use super::*;

    #[test]
    fn timed_four_processes_keep_the_instants_of_one() {
        for distribution in ["poisson", "constant"] {
            let flags =
                format!("--request-rate-range 40 --request-distribution {distribution} --request-count 60 --seed 9");
            let [(single, _), (four, _)] = both(&flags, &rows(60, 16), 4);
            assert_eq!(requests(&four), requests(&single));
            let (single, four) = (instants(&single), instants(&four));
            assert_eq!((single.len(), four.len()), (60, 60));
            let mut apart: Vec<f64> = single.iter().zip(&four).map(|(single, four)| (single - four).abs()).collect();
            apart.sort_by(f64::total_cmp);
            // Single ones may be late in either run.
            assert!(apart[30] < 8.0, "{distribution}: {apart:?}\n{single:?}\n{four:?}");
        }
    }
}

#[test]
fn a_server_on_the_network_is_measured_from_several_processes() {
    let repository = Repository::of(&[Model::identity("m")]);
    let Some(server) = TritonServer::start(&repository) else { return };
    for (protocol, mpi) in ["http", "grpc"].into_iter().zip(Mpi::all()) {
        let result = repository.file(&format!("{protocol}.json"));
        let run = server
            .program(protocol, "m")
            .args("--request-rate-range 200 --request-count 200 --summary-file")
            .arg(&result)
            .ranks(mpi, 2)
            .run();
        let report = run.report_even_if_late();
        assert_eq!(report.level().client_number("Request count"), 200.0);
        let level = &summary(&result)["levels"][0];
        let counted = level["server"]["delta"]["success"]["count"].as_u64().unwrap();
        assert!((190..=200).contains(&counted), "the one server is asked once: {counted}");
        let rate = level["client"]["open_loop"]["requested_rate"].as_f64().unwrap();
        assert!((rate - 200.0).abs() < 1e-6, "{rate}");
    }
}

#[test]
fn what_cannot_be_shared_is_refused_once_and_before_anything_is_started() {
    let repository = Repository::of(&[Model::identity("m")]);
    for (flags, message) in [
        ("--concurrency-range 1", "error: --concurrency-range 1: 2 processes share it, and each needs one"),
        (
            "--stage concurrency:4:1s --stage concurrency:1:1s",
            "error: --stage concurrency 1: 2 processes share it, and each needs one",
        ),
        (
            "--concurrency-range 2 --variant a:--async --variant b:--sync",
            "error: --variant or --matrix: variants take turns within one process; they cannot be shared by 2 processes",
        ),
    ] {
        for mpi in Mpi::all() {
            let run = Program::on(&repository, "m").args(flags).ranks(mpi, 2).run();
            assert_eq!(run.code(), 99, "{}", run.stderr);
            assert_eq!(run.stderr.matches(message).count(), 1, "{mpi:?}: {}", run.stderr);
        }
    }
}

#[test]
fn failures_in_a_row_end_the_load_of_all_and_are_told_once() {
    let answer = |request: &Received| {
        let answer = if request.ordinal < 100 { good_answer() } else { reply("500 Oops", "", b"") };
        vec![Act::Wait(Duration::from_millis(2)), Act::Send(answer)]
    };
    let loads = [
        "--concurrency-range 2 --request-count 1000000",
        "--request-rate-range 200 --request-count 1000000",
        "--concurrency-range 2 -p 60000",
        "--stage concurrency:2:600s --stage concurrency:2:1s",
    ];
    for (load, mpi) in loads.into_iter().flat_map(|load| Mpi::all().into_iter().map(move |mpi| (load, mpi))) {
        let server = HttpServer::start(answer);
        let program = Program::new().args("-m m --max-errors 100% --stop-on").arg("consecutive>10").args(load);
        let run = program.args("-u").arg(server.url()).ranks(mpi, 2).run();
        assert_eq!(run.code(), 3, "{mpi:?}, {load}: {}\n{}", run.stdout, run.stderr);
        let said = "requests failed in a row; the run ends";
        assert_eq!(run.stderr.matches(said).count(), 1, "{mpi:?}, {load}: {}", run.stderr);
    }
}

#[test]
fn a_share_of_the_failures_of_all_together_ends_a_load() {
    for mpi in Mpi::all() {
        let server = HttpServer::start(|request: &Received| {
            let answer = if request.ordinal.is_multiple_of(2) { good_answer() } else { reply("500 Oops", "", b"") };
            vec![Act::Wait(Duration::from_millis(2)), Act::Send(answer)]
        });
        let program = Program::new()
            .args("-m m --max-errors 100% --concurrency-range 2 --request-count 1000000 --stop-on")
            .arg("errors>10% over 600s of 200");
        let run = program.args("-u").arg(server.url()).ranks(mpi, 2).run();
        assert_eq!(run.code(), 3, "{mpi:?}: {}\n{}", run.stdout, run.stderr);
        assert_eq!(run.stderr.matches("requests failed; the run ends").count(), 1, "{mpi:?}: {}", run.stderr);
    }
}
