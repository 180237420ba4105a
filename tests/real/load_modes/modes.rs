//! Searched and staged modes: growth, binary search, sweep, stages, counts, precision, and what open loops report.

use std::collections::HashSet;

use super::assert_near;
use crate::support::report::number_in;
use crate::support::{Export, Finished, Model, Program, Report, Repository};

fn run(model: Model, arguments: &str) -> Finished {
    let repository = Repository::of(&[model]);
    Program::on(&repository, "m").args(arguments).run()
}

/// The report of an open loop, whose verdict on a busy machine may be that requests left late.
fn open(finished: &Finished) -> Report {
    finished.report_with(if finished.code() == 4 { 4 } else { 0 })
}

#[test]
fn timed_a_concurrency_without_end_grows_to_the_threshold() {
    let finished =
        run(Model::sleeping("m", 20).instances(2), "--async --concurrency-range 1:0:1 -l 30 -p 200 -s 1000000");
    let report = finished.report();
    // 20 ms up to two, which is the instances' number, 30 ms at three.
    assert_eq!(report.values(), [1.0, 2.0, 3.0], "{}", report.text);
    assert!(report.summary()[2].contains("[over latency threshold]"), "{}", report.text);
    assert!(report.text.contains("\nHighest level within 30 msec: concurrency 2\n"), "{}", report.text);
}

#[test]
fn a_range_goes_on_where_a_lone_request_waits_for_a_batch() {
    let batching = "dynamic_batching { preferred_batch_size: [4] max_queue_delay_microseconds: 200000 }";
    let levels = "--async --concurrency-range 1:4:1 -p 500 -s 1000000 -l";
    let finished = run(Model::sleeping("m", 1).with(batching), &format!("{levels} 100"));
    let report = finished.report();
    assert_eq!(report.values(), [1.0, 2.0, 3.0, 4.0], "{}", report.text);
    assert!(finished.stderr.contains("while it waits for a batch; the range goes on"), "{}", finished.stderr);
    assert!(report.text.contains("at concurrency 4"), "{}", report.text);
    // What computes for so long does not wait.
    let finished = run(Model::sleeping("m", 200), &format!("{levels} 100"));
    assert_eq!(finished.report_with(5).values(), [1.0], "{}", finished.stdout);
}

/// A level whose queue is left to the next one would spoil that: here a second's worth of requests piles up.
#[test]
fn the_level_after_an_overload_does_not_meet_its_queue() {
    let repository = Repository::counted(Model::sleeping("m", 10));
    let arguments = "--binary-search --request-rate-range 20:1500:1400 -l 60 -p 1000 -s 1000000 -r 3";
    let finished = Program::on(&repository, "m").args(arguments).run();
    assert!([0, 4].contains(&finished.code()), "{}", finished.stderr);
    assert!(!finished.stderr.contains("had no answer"), "{}", finished.stderr);
    assert!(finished.wall.as_secs() >= 14, "1 400 requests of 10 ms are waited for: {:?}", finished.wall);
}

#[test]
fn a_synchronous_growth_ends_at_its_threads() {
    let finished = run(Model::identity("m"), "--sync --concurrency-range 1:0:2 --max-threads 4 -l 60000 -p 100 -s 1e6");
    assert_eq!(finished.report().values(), [1.0, 3.0]);
    let line = finished.stderr.lines().find(|line| line.contains("--concurrency-range 1:0:2 ended")).unwrap();
    assert!(line.contains("--max-threads allows 4"), "{line}");
}

#[test]
fn what_is_said_of_synchronous_calls_is_what_runs() {
    for (load, sync) in
        [("--request-rate-range 50", false), ("--stage rate:50:5req", false), ("--concurrency-range 1", true)]
    {
        let count = if load.starts_with("--stage") { "" } else { "--request-count 50" };
        let finished = run(Model::identity("m"), &format!("--sync {load} {count}"));
        let word = if sync { "synchronous" } else { "asynchronous" };
        assert!(finished.stdout.contains(&format!("  Using {word} calls for inference\n")), "{}", finished.stdout);
        assert_eq!(finished.stderr.contains("--sync: in an open loop requests are sent"), !sync, "{}", finished.stderr);
    }
    let finished = run(Model::identity("m"), "--stage rate:50:5req --stage concurrency:1:5req");
    let lines = ["Using synchronous calls for inference in stages of a concurrency", "Measuring each stage as a whole"];
    assert!(lines.iter().all(|line| finished.stdout.contains(line)), "{}", finished.stdout);
    assert!(!finished.stdout.contains("Stabilizing"), "{}", finished.stdout);
}

#[test]
fn timed_rates_are_searched_for_the_last_that_holds() {
    let arguments = "--binary-search --request-rate-range 20:180:40 -l 60 -p 300 -s 1000000 -r 3";
    let finished = run(Model::sleeping("m", 20).instances(2), arguments);
    let report = open(&finished);
    // Two instances of 20 ms do 100 a second: 20 holds, 180 does not.
    assert_eq!(report.values()[..3], [20.0, 180.0, 100.0], "{}", report.text);
    assert!(report.summary()[1].contains("[over latency threshold]"), "{}", report.text);
    assert!(!report.summary()[0].contains("threshold"), "{}", report.text);
}

#[test]
fn a_request_count_is_exact_and_warm_up_is_not_in_it() {
    for load in ["--sync --concurrency-range 3", "--async --concurrency-range 3", "--request-rate-range 40"] {
        let repository = Repository::counted(Model::sleeping("m", 1));
        let finished =
            Program::on(&repository, "m").args("--request-count 40 --warmup-request-count 7").args(load).run();
        let report = open(&finished);
        assert_eq!(report.level().client_number("Request count"), 40.0, "{load}");
        assert_eq!(repository.counters("m").get("requests"), 47, "{load}");
    }
}

/// perf_analyzer hangs where there are fewer warm-up requests than threads.
#[test]
fn a_warm_up_may_be_smaller_than_the_number_of_threads() {
    for load in ["--sync --concurrency-range 8", "--async --concurrency-range 8 --max-threads 8"] {
        let repository = Repository::counted(Model::sleeping("m", 1));
        let finished =
            Program::on(&repository, "m").args("--request-count 20 --warmup-request-count 2").args(load).run();
        assert_eq!(open(&finished).level().client_number("Request count"), 20.0);
        assert_eq!(repository.counters("m").get("requests"), 22);
    }
}

#[test]
fn timed_every_level_of_a_range_is_warmed_up() {
    let repository = Repository::counted(Model::sleeping("m", 1));
    let levels = "--request-rate-range 100:200:100 -p 200 -s 1000000";
    let finished = Program::on(&repository, "m").args("--warmup-request-count 90").args(levels).run();
    let measured: f64 = open(&finished).levels.iter().map(|level| level.client_number("Request count")).sum();
    let sent = repository.counters("m").get("requests") as f64;
    // Two warm-ups, and beyond them only what was under way at the end of a level.
    assert!((180.0..220.0).contains(&(sent - measured)), "{sent} requests, {measured} measured");
}

#[test]
fn a_latency_threshold_holds_for_loads_that_end_by_themselves() {
    for load in ["--request-count 20", "--stage concurrency:1:20req --stage concurrency:1:10req"] {
        let report = run(Model::sleeping("m", 20), &format!("{load} -l 10")).report_with(5);
        assert!(report.summary()[0].contains("[over latency threshold]"), "{}", report.text);
        run(Model::sleeping("m", 2), &format!("{load} -l 1000")).report();
    }
}

#[test]
fn timed_windows_may_be_made_of_requests() {
    let arguments = "--measurement-mode count_windows --measurement-request-count 20 -s 1000000 -v";
    let report = run(Model::sleeping("m", 30), arguments).report();
    let requests = report.level().client_number("Request count");
    assert!((60.0..90.0).contains(&requests), "three windows of 20 hold {requests}: {}", report.text);
    assert!(report.text.contains("  Pass [3]"), "{}", report.text);
}

#[test]
fn timed_a_warm_up_time_is_waited_for() {
    let repository = Repository::counted(Model::sleeping("m", 2));
    let finished = Program::on(&repository, "m").args("--warmup-duration 1s -p 100 -s 1000000").run();
    let requests = finished.report().level().client_number("Request count");
    let all = repository.counters("m").get("requests") as f64;
    assert!(all > requests + 150.0, "{all} requests in all, {requests} of them measured");
    for load in ["--request-count 50", "--request-rate-range 50 --request-count 50", "--stage concurrency:1:50req"] {
        let repository = Repository::counted(Model::sleeping("m", 2));
        let finished = Program::on(&repository, "m").args("--warmup-duration 1s").args(load).run();
        assert_eq!(open(&finished).levels[0].client_number("Request count"), 50.0, "{load}");
        let all = repository.counters("m").get("requests");
        assert!(all > 50 + 40, "{load}: {all} requests in all");
    }
}

#[test]
fn timed_a_precision_is_measured_for_or_the_cap_is_reached() {
    let rough = run(Model::sleeping("m", 2), "--precision avg:40% -p 100 -v").report();
    assert!(!rough.text.contains("  Pass [9]"), "{}", rough.text);
    let fine = run(Model::sleeping("m", 2).parameter("jitter_us", "4000"), "--precision p99:0.001% -p 100 -r 5 -v");
    assert_eq!(fine.code(), 2, "{}", fine.stdout);
    assert!(fine.stdout.contains("not known: p99 latency to within 0.001%: raise --max-trials"), "{}", fine.stdout);
    assert!(fine.stdout.contains("  Pass [5]") && !fine.stdout.contains("  Pass [6]"), "{}", fine.stdout);
}

#[test]
fn timed_stages_follow_each_other_without_a_pause() {
    let repository = Repository::of(&[]);
    repository.add(&repository.journaling(Model::sleeping("m", 1).instances(2)));
    let stages = "--stage rate:100:400ms --stage concurrency:2:50req --stage rate:50:20req --stage concurrency:1:300ms";
    let finished = Program::on(&repository, "m").args(stages).run();
    let report = open(&finished);
    assert_eq!(report.values(), [100.0, 2.0, 50.0, 1.0], "{}", report.text);
    let requests: Vec<f64> = report.levels.iter().map(|level| level.client_number("Request count")).collect();
    assert_near("requests of the first stage", requests[0], 40.0, 2.0);
    assert_eq!(requests[1..3], [50.0, 20.0]);
    let offsets = super::offsets_ms(&repository, "m");
    let pause = offsets.windows(2).map(|pair| pair[1] - pair[0]).fold(0.0, f64::max);
    assert!(pause < 150.0, "the server was left alone for {pause} ms");
}

/// The rate that a report's only level achieved.
fn achieved_rate(report: &Report) -> f64 {
    let (_, rate) = report.text.split_once(", achieved rate: ").expect("an open loop has one");
    rate.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn a_stage_whose_requests_fail_ends_the_stages() {
    let failing = || Model::sleeping("m", 5).parameter("fail_every", "3");
    let finished = run(failing(), "--stage concurrency:1:30s --stage concurrency:2:30s");
    let report = finished.report_with(3);
    assert_eq!((report.levels.len(), finished.wall.as_secs() < 20), (1, true), "{}", report.text);
    assert!(report.summary()[0].contains("[failed]"), "{}", report.text);
    let report = run(failing(), "--stage concurrency:1:30req").report_with(3);
    assert_eq!(report.level().client_number("Failed request count"), 10.0);
    run(failing(), "--stage concurrency:1:30req --max-errors 40%").report();
    let finished = run(failing(), "--sweep linear:2 -p 500");
    assert!(finished.report_with(3).text.contains("Failed request count"), "{}", finished.stderr);
}

#[test]
fn timed_every_stage_is_an_experiment_of_the_export() {
    let repository = Repository::of(&[Model::sleeping("m", 5).instances(2)]);
    let path = repository.file("export.json");
    let stages = "--stage concurrency:2:30req --stage rate:100:300ms --stage concurrency:1:10req";
    Program::on(&repository, "m").args(stages).args("--profile-export-file").arg(&path).run();
    let export = Export::read(&path);
    let mode_and_requests = |experiment: &serde_json::Value| {
        // Requests that were over after the stage's end are those of no stage.
        let end = experiment["window_boundaries"][1].as_u64().unwrap();
        let requests = Export::spans(experiment).iter().filter(|span| span.1 < end).count() as u64;
        assert_eq!(experiment["summary"]["requests"], requests, "{}", experiment["summary"]);
        assert_eq!(experiment["window_boundaries"].as_array().unwrap().len(), 2);
        (experiment["experiment"]["mode"].as_str().unwrap().to_owned(), requests)
    };
    let all: Vec<_> = export.experiments().iter().map(mode_and_requests).collect();
    assert_eq!((all.len(), &all[0], &all[2]), (3, &("concurrency".into(), 30), &("concurrency".into(), 10)), "{all:?}");
    assert!(all[1].0 == "request_rate" && (25..=30).contains(&all[1].1), "{all:?}");
}

#[test]
fn timed_the_three_times_of_an_open_loop_are_in_the_export() {
    let repository = Repository::of(&[Model::sleeping("m", 10)]);
    let path = repository.file("export.json");
    // Twice as many as one instance can do: each waits longer than the one before it.
    let arguments = "--request-rate-range 200 --request-count 200 --profile-export-file";
    let finished = Program::on(&repository, "m").args(arguments).arg(&path).run();
    assert_eq!(finished.code(), 4, "{}", finished.stdout);
    let export = Export::read(&path);
    let summary = &export.experiments()[0]["summary"];
    assert_eq!((&summary["latency"], &summary["valid"]), (&"response_time".into(), &false.into()));
    assert!(summary["reasons"].as_array().unwrap().contains(&"overloaded".into()), "{summary}");
    for times in ["response_time_ns", "service_time_ns", "schedule_delay_ns"] {
        let at = |name: &str| summary[times][name].as_u64().unwrap_or_else(|| panic!("{times}.{name}: {summary}"));
        let values = ["p50", "p90", "p95", "p99", "p99.9", "max"].map(at);
        assert!(values.is_sorted(), "{times}: {values:?}");
    }
    assert_eq!(summary["latency_ns"], summary["response_time_ns"]);
    assert_near("requested", summary["requested_rate"].as_f64().unwrap(), 200.0, 1e-9);
    // All were sent in time; it is the server that did not keep up.
    assert_near("achieved", summary["achieved_rate"].as_f64().unwrap(), 200.0, 10.0);
    assert!(summary["later_than_1ms_share"].is_f64(), "{summary}");
    assert!(summary["confidence_95"].is_object(), "{summary}");
}

#[test]
fn an_interrupted_step_of_a_sweep_says_nothing_about_its_rate() {
    let repository = Repository::of(&[Model::sleeping("m", 10)]);
    let running = Program::on(&repository, "m").args("--sweep linear:2 -p 1500 -s 1000000 -r 3").start();
    running.wait_for(" requests/sec: ");
    running.signal(2);
    let finished = running.finish();
    let (_, after) = finished.stderr.split_once(" requests/sec: ").unwrap();
    assert!(!after.contains(" requests/sec: "), "{}", finished.stderr);
    assert!(after.contains("--sweep: interrupted before the saturation rate was known"), "{}", finished.stderr);
}

/// What the model does a second where it is never without a request: 200 on 2 instances of 10 ms, less where the machine is slow.
fn capacity(repository: &Repository) -> f64 {
    let program = Program::on(repository, "m").args("--concurrency-range 8 -p 500 -s 1000000 -r 3");
    program.run().report().level().client_number("Throughput")
}

#[test]
fn callers_of_perf_analyzer_do_not_meet_a_code_that_it_lacks() {
    let repository = Repository::of(&[Model::sleeping("m", 10)]);
    // One instance does 100 a second.
    let overload = || Program::on(&repository, "m").args("--request-rate-range 200 --request-count 200");
    for (program, code) in [(overload(), 4), (overload().named_perf_analyzer(), 0)] {
        let report = program.run().report_with(code);
        assert!(report.text.contains("Verdict: invalid"), "{}", report.text);
    }
}

#[test]
fn timed_a_stable_throughput_is_enough_for_callers_of_perf_analyzer_that_do_not_wait_for_answers() {
    let repository = Repository::of(&[Model::sleeping("m", 10)]);
    // The one instance does 100 a second, evenly; the queue, and with it the latency, only grows.
    let overload = |more: &str| {
        let flags = format!("--request-rate-range 150 -p 500 -r 3 -s 15 {more}");
        Program::on(&repository, "m").args(&flags).named_perf_analyzer().run()
    };
    let finished = overload("--async");
    let report = finished.report_with(0);
    assert!(!report.text.contains("[unstable]"), "{}", report.text);
    assert!(finished.stderr.contains("the throughput is stable, which is enough"), "{}", finished.stderr);
    overload("").report_with(2);
}

#[test]
fn timed_the_latency_of_an_open_loop_is_named_and_can_be_upstreams() {
    for (origin, word, name) in [("due", "response_time", "response time"), ("sent", "service_time", "service time")] {
        let repository = Repository::of(&[Model::sleeping("m", 5)]);
        let path = repository.file("export.json");
        // One instance does 200 a second and has one place outside of it, so later requests wait in the client.
        let arguments =
            format!("--request-rate-range 400 --max-outstanding 1 --request-count 400 --latency-from {origin}");
        let finished = Program::on(&repository, "m").args(&arguments).args("--profile-export-file").arg(&path).run();
        let report = finished.report_with(4);
        assert!(report.text.contains(&format!("  Latency: {name}")), "{}", report.text);
        let export = Export::read(&path);
        assert_eq!(export.0["latency"], word);
        let request = &export.experiments()[0]["requests"][200];
        let at = |key: &str| request[key].as_u64().unwrap();
        assert!(at("intended_timestamp") + 50_000_000 < at("timestamp"), "{request}");
        let average = report.level().client_number("Avg latency");
        // The last of 400 is due after 1 s and sent after 2 s; each takes 5 ms once it is sent.
        let expected = if origin == "due" { 400_000.0..900_000.0 } else { 5_000.0..20_000.0 };
        assert!(expected.contains(&average), "{origin}: {average} us, {}", report.text);
        assert!(finished.stderr.contains("--max-outstanding"), "{}", finished.stderr);
        let lines = ["Response time", "Service time", "Schedule delay"];
        assert!(lines.iter().all(|line| report.level().client().contains(line)), "{}", report.text);
    }
}

#[test]
fn timed_rates_of_a_fraction_are_kept() {
    let repository = Repository::of(&[]);
    repository.add(&repository.journaling(Model::identity("m")));
    let finished = Program::on(&repository, "m").args("--request-rate-range 12.5 --request-count 13").run();
    assert_eq!(open(&finished).values(), [12.5]);
    let offsets = super::offsets_ms(&repository, "m");
    assert_near("the thirteenth request of 12.5 a second", offsets[12], 960.0, 40.0);
}

#[test]
fn the_same_seed_gives_the_same_gaps() {
    let gaps = |seed: u64| {
        let repository = Repository::of(&[]);
        let path = repository.file("export.json");
        repository.add(&Model::identity("m"));
        let arguments =
            format!("--request-rate-range 80 --request-distribution poisson --request-count 80 --seed {seed}");
        Program::on(&repository, "m").args(&arguments).args("--profile-export-file").arg(&path).run();
        let export = Export::read(&path);
        let requests = export.experiments()[0]["requests"].as_array().unwrap().clone();
        let mut due: Vec<u64> =
            requests.iter().map(|request| request["intended_timestamp"].as_u64().unwrap()).collect();
        due.sort_unstable();
        due.windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<_>>()
    };
    let first = gaps(3);
    assert_eq!(first, gaps(3));
    assert_ne!(first, gaps(4));
}

/// Each has the machine to itself.
mod measured {
    use super::*;

    #[test]
    fn throughput_divides_by_the_true_span() {
        let report = run(Model::sleeping("m", 20), "--request-count 25").report();
        assert_near("throughput of 25 times 20 ms", report.level().client_number("Throughput"), 50.0, 4.0);
        assert!(report.text.contains("95% confidence: throughput "), "{}", report.text);
    }

    /// The request that would be due as the stage ends belongs to the next one.
    #[test]
    fn a_stage_of_a_rate_sends_what_is_due_in_it() {
        for (rate, requests) in [(10, 5.0), (100, 50.0)] {
            let repository = Repository::counted(Model::identity("m"));
            let finished = Program::on(&repository, "m").args(&format!("--stage rate:{rate}:500ms")).run();
            let report = open(&finished);
            assert_eq!(report.level().client_number("Request count"), requests, "{}", report.text);
            assert_eq!(repository.counters("m").get("requests") as f64, requests);
            assert_near("achieved rate", achieved_rate(&report), f64::from(rate), 0.02 * f64::from(rate));
        }
    }

    /// Requests that end sequences after the schedule are none of its rate.
    #[test]
    fn the_rate_of_a_schedule_is_that_of_its_own_requests() {
        let repository = Repository::counted(Model::accumulator("m").instances(4));
        let load = "--request-rate-range 50 --request-count 50 --num-of-sequences 4 --sequence-length 100";
        let finished = Program::on(&repository, "m").args(load).run();
        let report = open(&finished);
        assert_eq!(repository.counters("m").get("requests"), 54, "four of them end sequences");
        assert_near("achieved rate", achieved_rate(&report), 50.0, 1.0);
    }

    #[test]
    fn a_sweep_finds_the_saturation() {
        let repository = Repository::of(&[Model::sleeping("m", 10).instances(2)]);
        let path = repository.file("export.json");
        let program =
            Program::on(&repository, "m").args("--sweep linear:2 -p 500 -s 1000000 -r 3 --profile-export-file");
        let before = capacity(&repository);
        let finished = program.arg(&path).run();
        let after = capacity(&repository);
        // The rate at saturation and the one past it may be unstable; that is no fault of the run.
        assert!([0, 4].contains(&finished.code()), "{}", finished.stderr);
        let report = finished.report_with(finished.code());
        let saturation = number_in(&report.text, "Saturation");
        let (least, most) = (0.85 * before.min(after), 1.15 * before.max(after));
        assert!((least..=most).contains(&saturation), "{saturation} of {before} and {after}: {}", report.text);
        assert!(saturation <= 230.0, "2 instances of 10 ms do no more than 200 a second: {saturation}");
        // One that contradicts the others is measured again, and is one line of the summary.
        let rates = report.summary().iter().filter(|line| line.starts_with("Request Rate: ")).count();
        assert_eq!(rates, 3, "two rates up to it and one past it: {}", report.text);
        assert!(report.text.contains("Knee: "), "{}", report.text);
        let export = Export::read(&path);
        let experiments = || export.experiments().iter().map(|experiment| &experiment["experiment"]);
        assert!(
            experiments().all(|experiment| experiment["mode"] == "request_rate"),
            "{:?}",
            experiments().collect::<Vec<_>>()
        );
        // As many experiments as rates were measured, those measured again included.
        let again = finished.stderr.matches("measured once more").count();
        assert_eq!(experiments().count(), 3 + again, "{}", finished.stderr);
        let rates: HashSet<String> = experiments().map(|experiment| experiment["value"].to_string()).collect();
        assert_eq!(rates.len(), 3, "what was tried in search of it is not exported: {rates:?}");
        let all_have_requests = |experiment: &serde_json::Value| !experiment["requests"].as_array().unwrap().is_empty();
        assert!(export.experiments().iter().all(all_have_requests));
    }
}
