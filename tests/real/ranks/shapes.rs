//! Loads that are more than a level of windows, shared by several processes.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use super::joint::{rows, sending, summary};
use super::mpi::Mpi;
use crate::support::{Export, Finished, Model, Program, Repository};

/// What a run has written.
struct Written {
    result: Value,
    exports: Vec<Export>,
    run: Finished,
}

impl Written {
    /// The requests of a level, by what they carry, and how many there were of each.
    fn carried(&self, level: usize) -> BTreeMap<String, usize> {
        let mut all = BTreeMap::new();
        for request in self.requests(level) {
            *all.entry(format!("{} {}", request["sequence_id"], request["request_inputs"])).or_default() += 1;
        }
        all
    }

    fn requests(&self, level: usize) -> impl Iterator<Item = &Value> {
        self.exports.iter().flat_map(move |export| export.experiments()[level]["requests"].as_array().unwrap())
    }

    /// When the requests of a level were sent, from the first of the run on, in milliseconds.
    fn instants(&self, level: usize) -> Vec<f64> {
        let sent = |level| self.requests(level).map(|request| request["timestamp"].as_u64().unwrap());
        let first = sent(0).min().unwrap();
        let mut all: Vec<f64> = sent(level).map(|at| (at - first) as f64 / 1e6).collect();
        all.sort_by(f64::total_cmp);
        all
    }

    fn level(&self, number: usize) -> &Value {
        &self.result["levels"][number]
    }
}

/// Runs flags in one process (no MPI) or in so many.
fn run(model: Model, flags: &str, mpi: Option<(Mpi, usize)>) -> Written {
    let data = rows(60, if flags.contains("sequence") { 1 } else { 16 });
    run_with(model, &data, flags, mpi)
}

fn run_with(model: Model, data: &str, flags: &str, mpi: Option<(Mpi, usize)>) -> Written {
    let repository = Repository::of(&[model]);
    let program = sending(&repository, flags, data).args("--summary-file").arg(repository.file("result.json"));
    let run = match mpi {
        Some((mpi, ranks)) => program.ranks(mpi, ranks).run(),
        None => program.run(),
    };
    assert!([0, 4].contains(&run.code()), "{}\n{}", run.stdout, run.stderr);
    let names: Vec<String> = match mpi {
        Some((_, ranks)) => (0..ranks).map(|rank| format!("all.rank{rank}.json")).collect(),
        None => vec!["all.json".to_owned()],
    };
    let exports = names.iter().map(|name| Export::read(&repository.file(name))).collect();
    Written { result: summary(&repository.file("result.json")), exports, run }
}

/// The same for a model with inputs of one element.
fn run_decoupled(model: Model, flags: &str, mpi: Option<(Mpi, usize)>) -> Written {
    run_with(model, &rows(60, 1), flags, mpi)
}

/// The sum over a level's ranks is the level.
fn adds_up(level: &Value, ranks: usize) {
    let rows = level["ranks"].as_array().unwrap();
    assert_eq!(rows.len(), ranks, "{level}");
    let sum: u64 = rows.iter().map(|rank| rank["requests"].as_u64().unwrap()).sum();
    assert_eq!(level["client"]["requests"], sum);
    assert_eq!(level["client"]["latency"]["count"], sum);
}

#[test]
fn stages_of_several_processes_send_what_those_of_one_send() {
    let stages = "--stage rate:60:30req --stage concurrency:4:60req --stage pause:100ms --stage rate:80:24req --seed 3";
    let single = run(Model::identity("m"), stages, None);
    for (mpi, ranks) in Mpi::all().into_iter().zip([2, 4]) {
        let all = run(Model::identity("m"), stages, Some((mpi, ranks)));
        for (number, requests) in [30, 60, 24].into_iter().enumerate() {
            assert_eq!(all.level(number)["client"]["requests"], requests, "{mpi:?}: {}", all.run.stdout);
            assert_eq!(all.carried(number), single.carried(number), "{mpi:?}, stage {number}");
            let counted = all.level(number)["server"]["delta"]["success"]["count"].as_u64().unwrap();
            assert_eq!(counted, requests, "each process has a server of its own");
            adds_up(all.level(number), ranks);
        }
        assert_eq!(all.run.stdout.matches("Request count: 30").count(), 1, "one report: {}", all.run.stdout);
    }
}

/// It needs all processors in time.
mod alone {
    use super::*;

    #[test]
    fn timed_stages_of_several_processes_keep_the_instants_of_one() {
        let stages =
            "--stage rate:40:500ms --stage rate:80:500ms --stage rate:40:500ms --request-distribution poisson --seed 9";
        let single = run(Model::identity("m"), stages, None);
        let four = run(Model::identity("m"), stages, Some((Mpi::Mpich, 4)));
        let median = |mut all: Vec<f64>| {
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        };
        // How late the first request of either run was, which all others are told from.
        let mut shift = None;
        for number in 0..3 {
            assert_eq!(four.carried(number), single.carried(number), "stage {number}");
            let (instants, others) = (single.instants(number), four.instants(number));
            assert_eq!(instants.len(), others.len());
            let apart = || instants.iter().zip(&others).map(|(single, other)| other - single);
            let shift = *shift.get_or_insert_with(|| median(apart().collect()));
            // Single ones may be late in either run.
            let off = median(apart().map(|apart| (apart - shift).abs()).collect());
            assert!(off < 10.0, "stage {number}: {off} off after a shift of {shift}: {instants:?}\n{others:?}");
            adds_up(four.level(number), 4);
        }
    }
}

#[test]
fn stages_of_several_processes_play_the_sequences_of_one() {
    let stages = "--stage rate:100:60req --stage concurrency:4:60req --num-of-sequences 4 --sequence-length 5 \
                  --max-threads 1 --sequence-id-range 50:90";
    let model = || Model::accumulator("m").instances(8);
    let single = run(model(), stages, None);
    let two = run(model(), stages, Some((Mpi::Mpich, 2)));
    assert_eq!(two.carried(0), single.carried(0), "the same ids with the same data");
    let ids = |written: &Written, number| {
        let ids = written.requests(number).map(|request| request["sequence_id"].as_u64().unwrap());
        ids.collect::<std::collections::BTreeSet<_>>()
    };
    // Which sequences of a concurrency come to how many requests is the server's matter; each stage has a range of its own.
    for written in [&single, &two] {
        assert!(ids(written, 0).iter().all(|id| (50..70).contains(id)), "{:?}", ids(written, 0));
        assert!(ids(written, 1).iter().all(|id| (70..90).contains(id)), "{:?}", ids(written, 1));
    }
}

#[test]
fn windows_of_so_many_requests_are_those_of_all_together() {
    for mpi in Mpi::all() {
        let repository = Repository::of(&[Model::identity("m").parameter("delay_us", "2000")]);
        let result = repository.file("result.json");
        let run = Program::on(&repository, "m")
            .args("--concurrency-range 4 --measurement-mode count_windows --measurement-request-count 700 -r 4 -s 1000")
            .args("--summary-file")
            .arg(&result)
            .ranks(mpi, 2)
            .run();
        run.report_even_if_late();
        let result = summary(&result);
        let level = &result["levels"][0];
        adds_up(level, 2);
        let windows = level["windows"].as_array().unwrap();
        assert!(windows.len() >= 3, "{windows:?}");
        for window in windows {
            assert!(window["requests"].as_u64() >= Some(700), "{mpi:?}: {window}");
        }
    }
}

#[test]
fn a_folder_of_reports_has_the_sums_and_the_requests_of_each() {
    for mpi in Mpi::all() {
        let repository = Repository::of(&[Model::identity("m")]);
        let folder = repository.file("reports-{timestamp}");
        let run = Program::on(&repository, "m")
            .args("--concurrency-range 2 --request-count 41 --report-parts summary,stages,requests --report-dir")
            .arg(&folder)
            .ranks(mpi, 2)
            .run();
        run.report_even_if_late();
        let folders = fs::read_dir(repository.file("").as_path()).unwrap().flatten().map(|entry| entry.path());
        let folders: Vec<_> = folders.filter(|path| path.to_string_lossy().contains("reports-")).collect();
        let [folder] = folders.as_slice() else { panic!("one folder for all: {folders:?}") };
        let read = |name: &str| summary(&folder.join(format!("{name}.json")));
        assert_eq!(read("summary_lifecycle_metrics")["successes"]["count"], 41);
        assert_eq!(read("stage_0_lifecycle_metrics")["successes"]["count"], 41);
        let of_rank = |rank: usize| {
            let requests = read(&format!("per_request_lifecycle_metrics.rank{rank}"));
            requests.as_array().unwrap().len()
        };
        assert_eq!((of_rank(0), of_rank(1)), (21, 20));
    }
}

#[test]
fn every_process_starts_its_model_anew() {
    for mpi in Mpi::all() {
        let repository = Repository::of(&[Model::identity("m")]);
        let result = repository.file("result.json");
        let run = Program::on(&repository, "m")
            .args("--concurrency-range 2 --request-count 40 --restarts 3 --summary-file")
            .arg(&result)
            .ranks(mpi, 2)
            .run();
        run.report_even_if_late();
        assert_eq!(summary(&result)["levels"][0]["restarts"]["starts"], 3, "{mpi:?}: {}", run.stderr);
    }
}

#[test]
fn the_runs_of_a_file_are_shared_one_after_the_other() {
    for mpi in Mpi::all() {
        let repository = Repository::of(&[Model::identity("m")]);
        let file = |name: &str| repository.file(&format!("{name}.json"));
        let run_of =
            |name: &str, load: &str| format!("  {name}:\n    {load}\n    summary-file: {}\n", file(name).display());
        let text = format!(
            "request-count: 40\nruns:\n{}{}{}",
            run_of("few", "concurrency-range: 2"),
            run_of("more", "concurrency-range: 6"),
            run_of("paced", "request-rate-range: 40")
        );
        fs::write(repository.file("runs.yaml"), text).unwrap();
        let run = Program::on(&repository, "m").args("--config").arg(repository.file("runs.yaml")).ranks(mpi, 2).run();
        // On a busy machine a schedule may be sent late, which makes its run invalid.
        assert!([0, 4].contains(&run.code()), "{mpi:?}: {}\n{}", run.stdout, run.stderr);
        assert_eq!(run.stderr.matches("run 'more' (2 of 3)").count(), 1, "{}", run.stderr);
        for name in ["few", "more", "paced"] {
            let result = summary(&file(name));
            adds_up(&result["levels"][0], 2);
            assert_eq!(result["levels"][0]["client"]["requests"], 40, "{name}");
        }
    }
}

#[test]
fn batches_of_a_periodic_load_wait_for_those_of_all() {
    let flags = "--periodic-concurrency-range 4:16:4 --request-period 2";
    let model = || Model::decoupled("m", 3);
    let single = run_decoupled(model(), flags, None);
    for mpi in Mpi::all() {
        let two = run_decoupled(model(), flags, Some((mpi, 2)));
        assert_eq!(two.carried(0).values().sum::<usize>(), 16);
        assert_eq!(two.carried(0), single.carried(0), "{mpi:?}");
        let batches = |written: &Written| {
            let batches = written.result["periodic"]["batches"].as_array().unwrap();
            let figures =
                |batch: &Value| ["concurrency", "requests", "responses"].map(|name| batch[name].as_u64().unwrap());
            batches.iter().map(figures).collect::<Vec<_>>()
        };
        assert_eq!(batches(&two), batches(&single), "{mpi:?}");
        assert_eq!(two.result["periodic"]["requests"]["completed"], 16);
        // No request of a batch leaves before each of the last has had its period's responses.
        let mut spans: Vec<(u64, u64)> = two
            .requests(0)
            .map(|request| {
                (request["timestamp"].as_u64().unwrap(), request["response_timestamps"][1].as_u64().unwrap())
            })
            .collect();
        spans.sort_unstable();
        for (last, next) in spans.chunks(4).zip(spans.chunks(4).skip(1)) {
            let reached = last.iter().map(|(_, second)| *second).max().unwrap();
            assert!(next.iter().all(|(sent, _)| *sent >= reached), "{mpi:?}: {spans:?}");
        }
    }
}
