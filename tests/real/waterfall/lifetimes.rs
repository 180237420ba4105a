//! Traces outlive requests, slots and clients in every way a server allows. Each of these runs traces every request.

use serde_json::json;

use super::run;
use crate::support::{Model, Program, Repository, SINCE_20_10, Scripted};

#[test]
fn an_answer_from_the_cache_has_no_execution() {
    let model = Model::sleeping("m", 5).with("response_cache { enable: true }");
    let repository = Repository::of(&[model]);
    let arguments =
        "--input-data zero --cache-config local,size=1048576 --trace-rate 1 --request-count 200 --max-errors 1";
    for mode in ["--sync", "--async --concurrency-range 4"] {
        let (_, breakdown) = run(&repository, &format!("{arguments} {mode}"));
        assert_eq!(breakdown["traced"], 200);
        let compute = super::stage(&breakdown, None, "compute");
        assert_eq!(compute["percentiles_ns"][0], 0, "{mode}: {breakdown}");
    }
}

#[test]
fn requests_that_fail_or_are_refused_are_no_part_of_the_breakdown() {
    for (model, arguments) in [
        (Model::identity("m").parameter("fail_every", "2"), ""),
        (Model::identity("m").parameter("fail_every", "2").parameter("fail_mode", "execute"), "--async"),
    ] {
        let repository = Repository::of(&[model]);
        let arguments = format!("--trace-rate 1 --request-count 100 --max-errors 100% {arguments}");
        let (_, breakdown) = run(&repository, &arguments);
        assert_eq!(breakdown["traced"], 50, "{breakdown}");
    }
}

#[test]
fn a_full_queue_refuses_requests_with_their_traces() {
    let queue = "dynamic_batching { default_queue_policy { max_queue_size: 1 } }";
    let repository = Repository::of(&[Model::sleeping("m", 2).batches(1).with(queue)]);
    let arguments = "--trace-rate 1 --concurrency-range 8 --sync --breakdown -p 300 -s 1000000 --max-errors 100%";
    let finished = Program::on(&repository, "m").args(arguments).run();
    assert_eq!(finished.signal(), None, "{}", finished.stderr);
    assert!(finished.stdout.contains("maximum queue size"), "{}", finished.stdout);
}

#[test]
fn cancelled_requests_are_let_go_of() {
    let model = Model::sleeping("m", 20).parameter("cancellable", "true");
    let repository = Repository::of(&[model]);
    let arguments = "--trace-rate 1 --concurrency-range 4 --async -p 300 -s 1000000 --cancel-after-us 5000 --breakdown";
    let finished = Program::on(&repository, "m").args(arguments).run();
    assert_eq!(finished.signal(), None, "{}", finished.stderr);
    assert!(finished.stdout.contains("ancelled"), "{}", finished.stdout);
}

#[test]
fn requests_with_many_responses_and_sequences_are_traced() {
    for release in ["after", "before"] {
        let model = Model::decoupled("m", 3).parameter("release", release).parameter("repeat_mode", "thread");
        let repository = Repository::of(&[model]);
        let (_, breakdown) = run(&repository, "--trace-rate 1 --request-count 200 --concurrency-range 4 --async");
        assert_eq!(breakdown["traced"], 200, "{release}: {breakdown}");
    }
    let repository = Repository::of(&[Model::accumulator("m")]);
    let (_, breakdown) = run(&repository, "--trace-rate 1 --request-count 200 --concurrency-range 4 --input-data zero");
    assert_eq!(breakdown["traced"].as_u64().map(|traced| traced >= 200), Some(true), "{breakdown}");
}

#[test]
fn slots_that_come_and_go_share_trace_buffers() {
    let repository = Repository::of(&[Model::sleeping("m", 1).instances(4)]);
    let file = repository.file("summary.json");
    let arguments = "--breakdown --trace-rate 1 --concurrency-range 1:16:5 -p 100 -s 1000000 --max-errors 1";
    let program = Program::on(&repository, "m").args(arguments).arg("--summary-file").arg(&file);
    program.run().report();
    let levels = super::json(&file)["levels"].as_array().unwrap().clone();
    assert_eq!(levels.len(), 4);
    for level in levels {
        let count = |value: &serde_json::Value| value.as_u64().unwrap();
        let (requests, traced) = (count(&level["client"]["requests"]), count(&level["breakdown"][0]["traced"]));
        // The last of a window may be recorded a moment before its trace is kept.
        assert!(requests.abs_diff(traced) <= 16, "{traced} of {requests} requests of the windows are traced");
    }
}

#[test]
fn an_interrupt_ends_a_run_with_traces_out() {
    let repository = Repository::of(&[]);
    let model = repository.journaling(Model::sleeping("m", 300));
    repository.add(&model);
    let arguments = "--breakdown --trace-rate 1 --concurrency-range 8 --async -p 60000";
    let running = Program::on(&repository, "m").args(arguments).start();
    repository.wait_for_requests("m", 0);
    running.signal(2);
    let finished = running.finish();
    assert_eq!(finished.signal(), None, "{}", finished.stderr);
}

#[test]
fn a_library_without_traces_gives_averages_and_says_so() {
    let scripted = Scripted::without(SINCE_20_10);
    let finished = scripted.program().args("--breakdown --request-count 30").run();
    assert!(finished.stderr.contains("cannot trace requests"), "{}{}", finished.stdout, finished.stderr);
    assert!(finished.report().text.contains("averages of the server's statistics"), "{}", finished.stdout);
    scripted.clean();
}

/// Callbacks in every order and on every thread, and requests that are refused: no trace is left, and none is used after its end.
#[test]
fn traces_are_let_go_of_in_every_order() {
    let scripts = [
        json!([{"thread": "other", "order": "response_first", "release_delay_us": 100}]),
        json!([{"thread": "other", "order": "release_first", "gap_us": 50}]),
        json!([{"thread": "caller", "order": "release_first"}, {"thread": "caller"}, {"final": "null"}]),
        json!([{"release_thread": "other", "release_delay_us": 20, "final": "null"}, {}]),
        json!([{}, {"submit_error": {"code": "UNAVAILABLE", "message": "no room"}}, {}]),
    ];
    for script in scripts {
        for mode in ["--sync", "--async --concurrency-range 8", "--sync --wait spin --concurrency-range 3"] {
            let scripted = Scripted::requests(script.clone());
            let arguments = format!("--breakdown --trace-rate 1 --request-count 400 --max-errors 100% {mode}");
            let finished = scripted.program().args(&arguments).run();
            assert_eq!(finished.code(), 0, "{script} {mode}: {}{}", finished.stdout, finished.stderr);
            assert!(finished.stdout.contains("traced requests, 1 in 1, usec"), "{script} {mode}: {}", finished.stdout);
            scripted.clean();
        }
    }
}
