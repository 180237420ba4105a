//! Loads: the server gets what was asked for, and the report has what the server got.

use std::time::Duration;

use serde_json::Value;

use super::kinds::{Kind, NONE, Pace, Service};
use super::{Outcome, each, each_form, in_folder, refuses_sync, result_of, run, run_at};
use crate::support::Report;
use crate::support::exported::peak;

const FIVE_MS: Pace = |_| Duration::from_millis(5);

/// Requests that succeeded, level by level.
fn counts(outcome: &Outcome) -> Vec<usize> {
    let levels = outcome.result["levels"].as_array().unwrap();
    levels.iter().map(|level| level["client"]["requests"].as_u64().unwrap() as usize).collect()
}

/// Compares a run's report with the server's record: exactly this many requests in each level, and no others.
fn assert_counts(service: &Service, flags: &str, expected: &[usize]) -> Outcome {
    let outcome = run(service, flags);
    let had = service.count();
    assert_eq!(counts(&outcome), expected, "{flags}, the server had {had}: {}", outcome.finished.stdout);
    assert_eq!(had, expected.iter().sum::<usize>(), "{flags}");
    let exported =
        outcome.export.experiments().iter().map(|experiment| experiment["requests"].as_array().unwrap().len());
    assert_eq!(exported.collect::<Vec<_>>(), expected, "{flags}");
    outcome
}

/// Peak number of requests that the server had at once.
fn peak_at_server(service: &Service) -> usize {
    let first = service.served()[0].came;
    let since = |moment: std::time::Instant| moment.duration_since(first).as_nanos() as u64;
    peak(&service.served().iter().map(|served| (since(served.came), since(served.left))).collect::<Vec<_>>())
}

/// When the requests of a level were due, in nanoseconds after the first.
fn schedule(outcome: &Outcome, level: usize) -> Vec<u64> {
    let requests = outcome.export.experiments()[level]["requests"].as_array().unwrap();
    let mut moments: Vec<u64> =
        requests.iter().map(|request| request["intended_timestamp"].as_u64().unwrap()).collect();
    moments.sort_unstable();
    moments.iter().map(|moment| moment - moments[0]).collect()
}

/// Compares the server's times with the schedule: nothing was sent early, and the last request at most a quarter of a second late.
fn assert_kept(service: &Service, schedule: &[u64]) {
    let served = service.served();
    let took = served.last().unwrap().came.duration_since(served[0].came);
    let asked = Duration::from_nanos(*schedule.last().unwrap());
    // The first may be late, too.
    let (early, late) = (Duration::from_millis(40), Duration::from_millis(250));
    assert!(took + early >= asked && took <= asked + late, "{took:?} instead of {asked:?}");
}

#[test]
fn a_concurrency_is_held_by_threads_that_wait_and_by_few_that_do_not() {
    for calls in ["--sync", "--async"] {
        each(FIVE_MS, |service| {
            let load = format!("{calls} --concurrency-range 3 --request-count 60");
            if !refuses_sync(service, &load) {
                let outcome = assert_counts(service, &load, &[60]);
                assert_eq!(peak_at_server(service), 3, "{calls}");
                assert_eq!(outcome.result["synchronous"], calls == "--sync");
            }
        });
    }
}

#[test]
fn a_range_has_its_levels_and_windows() {
    each(FIVE_MS, |service| {
        // Windows of requests: a machine that stands still must not take those in which all four are under way.
        let windows = "--measurement-mode count_windows --measurement-request-count 40 -s 1000000";
        let outcome = run(service, &format!("--concurrency-range 1:4:*2 {windows}"));
        let counts = counts(&outcome);
        assert!(counts.len() == 3 && counts.iter().all(|&count| count > 0), "{counts:?}");
        assert!(counts.iter().sum::<usize>() <= service.count(), "{counts:?}");
        assert_eq!(peak_at_server(service), 4);
        assert_eq!(Report::parse(&outcome.finished.stdout).values(), [1.0, 2.0, 4.0]);
    });
}

#[test]
fn timed_a_rate_is_held_whatever_the_server_does() {
    let slow: Pace = |_| Duration::from_millis(120);
    each(slow, |service| {
        let outcome = assert_counts(service, "--request-rate-range 40 --request-count 40", &[40]);
        let schedule = schedule(&outcome, 0);
        assert!(
            schedule.iter().zip(0..).all(|(&moment, number)| moment.abs_diff(number * 25_000_000) < 1000),
            "{schedule:?}"
        );
        assert_kept(service, &schedule);
        assert!(peak_at_server(service) >= 4, "{}", peak_at_server(service));
    });
}

/// Loads whose requests have moments of their own, and these moments in milliseconds after the first where they are not drawn.
const SCHEDULES: &[(&str, &[u64])] = &[
    ("--request-rate-range 30 --request-distribution poisson --request-count 30", &[]),
    ("--request-rate-range 30 --request-distribution gamma --burstiness 0.5 --request-count 30", &[]),
    ("--request-intervals FOLDER/gaps --request-count 6", &[0, 20, 25, 45, 50, 70]),
    ("--fixed-schedule", &[0, 20, 30, 30, 75]),
    ("--trace-replay FOLDER/trace.csv", &[0, 20, 30, 30, 75]),
    ("--trace-replay FOLDER/trace.csv --trace-speed 2.5", &[0, 8, 12, 12, 30]),
];

#[test]
fn timed_schedules_are_the_same_for_every_kind_and_kept() {
    for &(flags, moments) in SCHEDULES {
        let first = std::sync::OnceLock::new();
        each(FIVE_MS, |service| {
            service.write_data(if flags.starts_with("--fixed") { &[5, 25, 35, 35, 80] } else { &[0; 2] });
            std::fs::write(service.file("gaps"), "5000\n20000\n").unwrap();
            std::fs::write(service.file("trace.csv"), "offset_ms\n0\n20\n30\n30\n75\n").unwrap();
            let count = if moments.is_empty() { 30 } else { moments.len() };
            let outcome = assert_counts(service, flags, &[count]);
            let schedule = schedule(&outcome, 0);
            let micros: Vec<u64> = schedule.iter().map(|moment| (moment + 500) / 1000).collect();
            assert_eq!(first.get_or_init(|| micros.clone()), &micros, "{flags}");
            if !moments.is_empty() {
                assert_eq!(micros, moments.iter().map(|moment| moment * 1000).collect::<Vec<_>>(), "{flags}");
            }
            assert_kept(service, &schedule);
        });
    }
}

/// One request in each block of the window, sent as the block before is closed, when nobody counts the requests under way.
#[test]
fn a_rate_in_step_with_the_blocks_of_a_window_is_consistent() {
    let service = Service::start(Kind::KserveHttp, |_| Duration::from_millis(3));
    let flags = in_folder(&service, "--request-rate-range 20 --request-count 20 --summary-file FOLDER/result.json");
    let finished = service.program(&flags).run();
    let level = &result_of(&service, "result.json")["levels"][0];
    assert_ne!(level["outcome"], "inconsistent", "{}", finished.stdout);
}

/// Schedules of 100 requests, one every 10 ms.
const EVEN: &[&str] =
    &["--fixed-schedule", "--trace-replay FOLDER/trace.csv", "--request-intervals FOLDER/gaps --request-count 100"];

#[test]
fn timed_a_schedule_that_a_server_cannot_keep_up_with_is_overloaded() {
    // One request at a time, each 20 ms: half of what comes.
    let alone: Pace = |beside| Duration::from_millis(20 * beside as u64);
    for &flags in EVEN {
        let service = Service::start(Kind::KserveHttp, alone);
        let times: Vec<u64> = (0..100).map(|number| number * 10).collect();
        service.write_data(if flags.starts_with("--fixed") { &times } else { &[0; 2] });
        std::fs::write(service.file("gaps"), "10000\n").unwrap();
        let rows: Vec<String> = times.iter().map(|ms| format!("{ms}\n")).collect();
        std::fs::write(service.file("trace.csv"), format!("offset_ms\n{}", rows.concat())).unwrap();
        let flags = in_folder(&service, &format!("{flags} --summary-file FOLDER/result.json"));
        let finished = service.program(&flags).run();
        assert_eq!(finished.code(), 4, "{flags}: {}", finished.stdout);
        assert_eq!(result_of(&service, "result.json")["levels"][0]["outcome"], "overloaded", "{}", finished.stdout);
    }
}

#[test]
fn timed_stages_follow_each_other_and_have_what_they_sent() {
    let stages = "--stage rate:200:20req --stage pause:20ms --stage concurrency:3:30req --stage rate:100:100ms";
    each(FIVE_MS, |service| {
        let outcome = run(service, stages);
        assert_eq!(counts(&outcome), [20, 30, 10], "{}", outcome.finished.stdout);
        assert_eq!(service.count(), 60, "a rate sends all that is due before its end");
    });
}

#[test]
fn timed_stages_replay_a_trace_each_at_its_own_speed() {
    let stages = "--trace-replay FOLDER/trace.csv --stage replay:1 --stage pause:20ms --stage replay:2.5 --stage replay:1:3req \
        --stage replay:1:9req --stage-edges drain";
    each(FIVE_MS, |service| {
        std::fs::write(service.file("trace.csv"), "offset_ms\n0\n20\n30\n30\n75\n").unwrap();
        let outcome = run(service, stages);
        assert_eq!(counts(&outcome), [5, 5, 3, 5], "{}", outcome.finished.stdout);
        let moments = [0, 1, 2].map(|stage| schedule(&outcome, stage));
        let micros = moments.map(|stage| stage.iter().map(|moment| (moment + 500) / 1000).collect::<Vec<u64>>());
        let whole = vec![0, 20_000, 30_000, 30_000, 75_000];
        assert_eq!(micros, [whole, vec![0, 8_000, 12_000, 12_000, 30_000], vec![0, 20_000, 30_000]]);
    });
}

#[test]
fn timed_a_sweep_finds_what_the_server_sustains() {
    // One request at a time, each 5 ms.
    let alone: Pace = |beside| Duration::from_millis(5 * beside as u64);
    each_form(alone, |service| {
        let outcome = run(service, "--sweep linear:2 -p 60 -s 1000000");
        let saturation = outcome.result["sweep"]["saturation"].as_f64().unwrap();
        assert!((50.0..=300.0).contains(&saturation), "{}", outcome.finished.stdout);
    });
}

#[test]
fn timed_a_search_finds_the_highest_concurrency_within_the_bound() {
    let growing: Pace = |beside| Duration::from_millis(10 * beside as u64);
    each_form(growing, |service| {
        let outcome = run(service, "--concurrency-range 1:4 --binary-search -l 25 -p 60 -s 1000000");
        assert!(outcome.finished.stdout.contains("Highest level within"), "{}", outcome.finished.stdout);
        let mut values: Vec<u64> = outcome.result["levels"].as_array().unwrap().iter().map(value).collect();
        values.sort_unstable();
        // 20 ms at 2 are within the bound, unless the machine adds a quarter to them.
        assert!(matches!(values[..], [1, 2, 3, 4] | [1, 2, 4]), "{values:?}");
    });
}

fn value(level: &Value) -> u64 {
    level["load"]["value"].as_f64().unwrap() as u64
}

/// Answers of many messages are what grows it; that others have none is said.
#[test]
fn a_periodic_load_grows_as_answers_come() {
    each(FIVE_MS, |service| {
        let flags = "--periodic-concurrency-range 2:6:2 --request-period 1";
        if matches!(service.kind, Kind::DynamicGrpc | Kind::OpenAiStreams) {
            let outcome = run(service, flags);
            let batches = outcome.result["periodic"]["batches"].as_array().unwrap();
            let sent: u64 = batches.iter().map(|batch| batch["requests"].as_u64().unwrap()).sum();
            assert_eq!((batches.len(), sent, service.count()), (3, 6, 6), "{batches:?}");
            return;
        }
        let finished = service.program(flags).run();
        match service.kind {
            Kind::KserveHttp | Kind::KserveGrpc => {
                finished.refusal(&["over the network needs streams: add -i grpc --streaming"])
            }
            Kind::OpenAi => finished.refusal(&["over the network needs streams: add --streaming"]),
            _ => finished.failure_after_notes(&["--periodic-concurrency-range needs several responses to a request"]),
        };
    });
}

#[test]
fn timed_paced_streams_take_turns_each_at_its_pace() {
    each(FIVE_MS, |service| {
        let outcome = assert_counts(service, "--concurrency-range 3 --paced 60ms --request-count 30", &[30]);
        let due = schedule(&outcome, 0);
        let is_due = |(number, due): (usize, &u64)| due.abs_diff(number as u64 * 20_000_000) < 1_000_000;
        assert!(due.iter().enumerate().all(is_due), "{due:?}");
        assert_kept(service, &due);
    });
}

#[test]
fn sequences_are_for_models_that_take_them() {
    each(NONE, |service| {
        let outcome = assert_counts(service, "--concurrency-range 2 --sequence-length 5 --request-count 20", &[20]);
        assert!(outcome.finished.stderr.contains("no model of this run takes sequences"), "{:#?}", outcome.finished);
    });
}

#[test]
fn sessions_are_of_endpoints_that_hold_conversations() {
    each(FIVE_MS, |service| {
        let flags = "--session-concurrency 2";
        if matches!(service.kind, Kind::OpenAi | Kind::OpenAiStreams) {
            service.write_sessions(3, 4);
            assert_counts(service, flags, &[12]);
            assert_eq!(peak_at_server(service), 2);
        } else {
            service
                .program(flags)
                .run()
                .refusal(&["Session concurrency mode is only supported with OpenAI service kind."]);
        }
    });
}

#[test]
fn a_mix_is_drawn_from_its_shares() {
    each(NONE, |service| {
        let flags = "--model-mix m:0.5,other:0.5 --concurrency-range 2 --request-count 60";
        if service.kind == Kind::DynamicGrpc {
            let refused = service.program_at(&service.url(), flags).run();
            refused.refusal(&["--model-mix m:0.5,other:0.5: --service-kind dynamic_grpc has no use for that"]);
            return;
        }
        let outcome = run_at(service, &service.url(), flags);
        let others = service.served().iter().filter(|served| served.text.contains("other")).count();
        assert!(outcome.finished.stdout.contains(&format!("other: {others} requests")), "{}", outcome.finished.stdout);
        assert!(service.count() == 60 && (20..=40).contains(&others), "{others}");
    });
}
