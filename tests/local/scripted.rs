//! Callback orders, threads and faults that a real server rarely shows, from a scripted library that checks its client:
//! no rule of the interface may be broken, and nothing may leak.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{self, Export, Report, Scripted};

const REQUESTS: u64 = 400;

/// Runs a script in every mode; each must end well, with every request sent, and answered.
fn works(requests: &Value) {
    let modes = [
        "--sync --wait park",
        "--sync --wait spin",
        "--sync --wait hybrid --concurrency-range 3",
        "--async",
        "--async --concurrency-range 8",
        "--async --concurrency-range 5 --max-threads 2",
    ];
    for mode in modes {
        let scripted = Scripted::requests(requests.clone());
        let report = scripted.program().args(&format!("--request-count {REQUESTS} {mode}")).run().report();
        assert_eq!(report.level().client_number("Request count"), REQUESTS as f64, "{mode}");
        let counters = scripted.clean();
        assert_eq!(counters["issued"], REQUESTS, "{mode}");
        assert_eq!(counters["released"], REQUESTS, "{mode}");
        assert_eq!(counters["finals"], REQUESTS, "{mode}");
    }
}

#[test]
fn responses_first_from_other_threads() {
    works(&json!([{"thread": "other", "order": "response_first"}]));
    works(&json!([{"thread": "other", "order": "response_first", "delay_us": 100, "release_delay_us": 200}]));
}

#[test]
fn releases_first_from_other_threads() {
    works(&json!([{"thread": "other", "order": "release_first"}]));
    works(&json!([{"thread": "other", "order": "release_first", "delay_us": 50, "gap_us": 50}]));
}

#[test]
fn responses_first_on_the_callers_stack() {
    works(&json!([{"thread": "caller", "order": "response_first"}]));
}

#[test]
fn releases_first_on_the_callers_stack() {
    works(&json!([{"thread": "caller", "order": "release_first"}]));
}

#[test]
fn releases_from_a_thread_of_their_own() {
    works(&json!([{"release_thread": "other"}]));
    works(&json!([{"release_thread": "other", "release_delay_us": 20, "final": "null"}]));
}

#[test]
fn final_flags_on_empty_responses() {
    works(
        &json!([{"final": "null"}, {"final": "null", "order": "release_first"}, {"final": "null", "thread": "caller"}]),
    );
}

#[test]
fn all_orders_mixed() {
    works(&json!([
        {"thread": "caller"},
        {"thread": "other", "delay_us": 30},
        {"thread": "caller", "order": "release_first", "final": "null"},
        {"thread": "other", "order": "release_first", "delay_us": 10},
        {"release_thread": "other"},
        {"thread": "other", "release_delay_us": 100},
        {"final": "null", "gap_us": 20}
    ]));
}

/// A hundred thousand answers on the caller's stack: a client that recursed would overflow it.
/// The stack of a thread would not hold a tenth of so many calls within each other.
#[test]
fn answers_on_the_callers_stack_do_not_recurse() {
    for mode in ["--async", "--async --concurrency-range 4", "--sync"] {
        let scripted = Scripted::requests(json!([{"thread": "caller"}]));
        let report = scripted.program().args(&format!("--request-count 20000 {mode}")).run().report();
        assert_eq!(report.level().client_number("Request count"), 20_000.0);
        scripted.clean();
    }
}

fn decoupled(requests: &Value) -> Scripted {
    Scripted::script(&support::decoupled(requests))
}

#[test]
fn many_responses_in_every_order() {
    let requests = json!([
        {"responses": 3, "gap_us": 20},
        {"responses": 3, "final": "null", "order": "release_first"},
        {"responses": 3, "release_thread": "other"},
        {"responses": 3, "thread": "caller", "order": "release_first"}
    ]);
    for mode in ["--sync", "--async --concurrency-range 4"] {
        let scripted = decoupled(&requests);
        let report = scripted.program().args(&format!("--request-count 200 {mode}")).run().report();
        let level = report.level();
        assert_eq!(level.client_number("Request count"), 200.0);
        let ratio = level.client_number("Response Throughput") / level.client_number("Throughput");
        assert!((ratio - 3.0).abs() < 0.01, "{}", level.text);
        assert_eq!(scripted.clean()["responses"], 600);
    }
}

/// A response is still with the client, on one thread, when the final one and the release come on others: the request is not
/// over before the client is done with it, and its slot takes no other until then.
#[test]
fn two_responses_at_once() {
    let requests = json!([
        {"responses": 2, "overlap": true},
        {"responses": 3, "overlap": true, "final": "null"},
        {"responses": 2, "overlap": true, "release_thread": "other"},
        {"responses": 2, "overlap": true, "order": "release_first"},
        {}
    ]);
    for mode in ["--sync", "--async", "--async --concurrency-range 4"] {
        let scripted = decoupled(&requests);
        let folder = tempfile::tempdir().unwrap();
        let export = folder.path().join("export.json");
        let arguments = format!("--request-count 200 {mode} --profile-export-file");
        let report = scripted.program().args(&arguments).arg(&export).run().report();
        let level = report.level();
        assert_eq!(level.client_number("Request count"), 200.0, "{mode}");
        let ratio = level.client_number("Response Throughput") / level.client_number("Throughput");
        assert!((ratio - 2.0).abs() < 0.01, "{mode}: {}", level.text);
        assert_eq!(scripted.clean()["responses"], 400, "{mode}");
    }
}

#[test]
fn no_response_at_all_is_an_answer() {
    for mode in ["--sync", "--async --concurrency-range 4"] {
        let scripted = decoupled(&json!([{"responses": 0}, {"responses": 0, "order": "release_first"}]));
        let report = scripted.program().args(&format!("--request-count 100 {mode}")).run().report();
        assert_eq!(report.level().client_number("Request count"), 100.0, "{}", report.text);
        scripted.clean();
    }
}

/// Every n-th request fails; the report counts the failures, and says why.
fn fails(requests: &Value, reason: &str) {
    for mode in ["--sync", "--async --concurrency-range 4"] {
        let scripted = Scripted::requests(requests.clone());
        let report = scripted.program().args(&format!("--request-count 100 --max-errors 60% {mode}")).run().report();
        let level = report.level();
        assert_eq!(level.client_number("Request count"), 50.0, "{}", level.text);
        assert_eq!(level.failures(reason), 50, "{}", level.text);
        scripted.clean();
    }
}

#[test]
fn failures_by_an_error_response() {
    fails(&json!([{}, {"error": {"code": "UNAVAILABLE", "message": "out to lunch"}}]), "out to lunch");
    fails(
        &json!([{}, {"error": {"code": "INTERNAL", "message": "early"}, "order": "release_first", "thread": "caller"}]),
        "early",
    );
}

#[test]
fn failures_at_submission() {
    fails(&json!([{}, {"submit_error": {"code": "UNAVAILABLE", "message": "queue is full"}}]), "queue is full");
    let mixed = json!([{"thread": "caller"}, {"submit_error": {"code": "INVALID_ARG", "message": "not today"}}]);
    fails(&mixed, "not today");
}

#[test]
fn timed_a_server_that_refuses_every_request() {
    for mode in ["--sync", "--async --concurrency-range 4"] {
        let scripted = Scripted::requests(json!([{"submit_error": {"code": "UNAVAILABLE", "message": "closed"}}]));
        let finished = scripted.program().quick().args(mode).run();
        let report = finished.report_with(3);
        assert_eq!(report.level().client_number("Request count"), 0.0);
        assert!(report.level().failures("closed") > 0, "{}", report.text);
        assert!(finished.wall < Duration::from_secs(10), "{:?}", finished.wall);
        scripted.clean();
    }
}

#[test]
fn memory_that_is_asked_for_elsewhere_is_offered_here() {
    works(&json!([{"preferred_memory": "gpu"}, {"preferred_memory": "pinned"}]));
}

#[test]
fn outputs_larger_than_expected_find_room() {
    let large = json!([{"outputs": [{"name": "OUTPUT0", "datatype": "INT32", "shape": [300_000]}]}, {}]);
    works(&large);
}

/// A server that never answers: what is lost is told, and the end comes all the same.
fn loses(never: &str, mode: &str) {
    let scripted = Scripted::requests(json!([{}, {}, {}, {}, {}, {}, {}, {}, {}, {"never_complete": never}]));
    let folder = tempfile::tempdir().unwrap();
    let export = folder.path().join("export.json");
    let finished = scripted.program().quick().args(mode).arg("--profile-export-file").arg(&export).run();
    assert!(finished.code() == 0 || finished.code() == 2 || finished.code() == 3, "{finished:#?}");
    assert_eq!(Export::read(&export).experiments().len(), 1, "the requests that have an answer are exported");
    assert!(finished.stderr.contains("had no answer when the level ended"), "{}", finished.stderr);
    assert!(finished.wall < Duration::from_secs(35), "{:?}", finished.wall);
    harmless(&scripted);
}

/// Nothing was freed under the server, though something was left behind.
fn harmless(scripted: &Scripted) {
    let freed: Vec<Value> = scripted.events("violation");
    let harmful = |event: &&Value| event["rule"] != "leak" && event["rule"] != "stopped_with_live_requests";
    assert_eq!(freed.iter().filter(harmful).count(), 0, "{freed:?}");
}

#[test]
fn answers_that_never_come_sync() {
    loses("all", "--sync");
}

#[test]
fn answers_that_never_come_async() {
    loses("all", "--async --concurrency-range 4");
}

#[test]
fn finals_that_never_come() {
    loses("final", "--async --concurrency-range 2");
}

#[test]
fn releases_that_never_come() {
    loses("release", "--sync --concurrency-range 2");
}

/// A sequence whose request never comes back is left as it is: its slot is taken, so no end can be sent in it.
#[test]
fn a_sequence_that_hangs_ends_with_what_there_is() {
    let requests = (0..1_000).map(|n| json!({"delay_us": 1000, "never_complete": if n == 999 { "all" } else { "no" }}));
    let scripted = Scripted::script(&json!({
        "server": {"log_requests": true},
        "models": [{"name": "fake", "config": {
            "max_batch_size": 0,
            "sequence_batching": {},
            "input": [{"name": "INPUT0", "data_type": "TYPE_INT32", "dims": [-1]}],
            "output": [{"name": "OUTPUT0", "data_type": "TYPE_INT32", "dims": [-1]}]
        }}],
        "requests": requests.collect::<Vec<_>>()
    }));
    let run = scripted.program().args("-p 30000 --sequence-length 100000 --sync").start();
    scripted.wait_for_requests(1_000);
    run.signal(2);
    let finished = run.finish();
    let report = finished.report();
    assert!(report.level().client_number("Request count") > 0.0, "{}", report.text);
    assert!(finished.stderr.contains("1 requests had no answer when the level ended"), "{}", finished.stderr);
    assert!(!finished.stderr.contains("report this bug"), "{}", finished.stderr);
}

/// Answers come while the client gives up waiting for them, and each has the end of its sequence sent, which takes as long:
/// slots that are in use then are left where they are, and the others are freed.
#[test]
fn slots_that_send_ends_while_the_client_gives_up_stay() {
    const SLOTS: usize = 24;
    // The load waits for 5 s after an interrupt, and the client for 1 s more.
    let requests: Vec<_> =
        (0..SLOTS).map(|n| json!({"delay_us": 4_700_000 + 70_000 * n, "release_thread": "other"})).collect();
    let scripted = Scripted::script(&json!({
        "server": {"log_requests": true, "delivery_threads": 8},
        "models": [{"name": "fake", "config": {
            "max_batch_size": 0,
            "sequence_batching": {},
            "input": [{"name": "INPUT0", "data_type": "TYPE_INT32", "dims": [-1]}],
            "output": [{"name": "OUTPUT0", "data_type": "TYPE_INT32", "dims": [-1]}]
        }}],
        "requests": requests
    }));
    let line = format!("-p 30000 --sequence-length 100000 --async --concurrency-range {SLOTS}");
    let run = scripted.program().args(&line).start();
    while scripted.logged("request") < SLOTS {
        std::thread::sleep(Duration::from_millis(10));
    }
    run.signal(2);
    let finished = run.finish();
    assert!(finished.stderr.contains(" had no answer"), "{finished:#?}");
    assert!(matches!(finished.code(), 0..128 | 130), "{finished:#?}");
    let sent = scripted.events("request");
    let ends = sent.iter().filter(|request| request["flags"] == 2).count();
    assert!(ends > 0, "{} requests, and no end of a sequence", sent.len());
    harmless(&scripted);
}

#[test]
fn requests_are_cancelled_when_their_time_is_over() {
    for mode in ["--sync", "--async --concurrency-range 3"] {
        let scripted = Scripted::requests(json!([{"never_complete": "all", "honour_cancel": true}, {}]));
        let finished = scripted
            .program()
            .args(&format!("--cancel-after-us 5000 --request-count 40 --max-errors 100% {mode}"))
            .run();
        let report = finished.report();
        assert_eq!(report.level().client_number("Cancelled request count"), 20.0, "{}", report.text);
        assert_eq!(scripted.clean()["cancelled"], 20);
    }
}

#[test]
fn who_spins_sees_an_answer_come_though_it_may_be_cancelled() {
    let scripted = Scripted::requests(json!([{"delay_us": 1000}]));
    let flags = "--sync --wait spin --cancel-after-us 1000000 --request-count 100";
    let report = scripted.program().args(flags).run().report();
    // Ten a second, if it sleeps and nobody wakes it.
    assert!(report.level().client_number("Throughput") > 40.0, "{}", report.text);
    harmless(&scripted);
}

/// A server that takes long to take requests in. Those at even places come back before their issuing call returns, so that the
/// slot's next one is issued meanwhile; it must not be cancelled before its own call has returned, but then it must.
#[test]
fn cancellations_wait_until_a_request_is_handed_over() {
    for mode in ["--async", "--async --concurrency-range 3", "--sync", "--request-rate-range 50"] {
        let scripted = Scripted::script(&json!({"server": {"delivery_threads": 8}, "requests": [
            {"delay_us": 300, "linger_us": 2000},
            {"never_complete": "all", "honour_cancel": true, "linger_us": 5000}
        ]}));
        let arguments = format!("--cancel-after-us 1000 --request-count 60 --max-errors 100% {mode}");
        let report = scripted.program().args(&arguments).run().report_even_if_late();
        assert_eq!(report.level().client_number("Cancelled request count"), 30.0, "{mode}: {}", report.text);
        assert_eq!(scripted.clean()["cancelled"], 30, "{mode}");
    }
}

/// Where the server must not see a request object twice, each request is a new one.
#[test]
fn request_objects_are_used_again_where_the_release_allows_it() {
    let (sequence, iterative) = (json!({}), json!({"iterative_sequence": true}));
    for (version, batching, again) in [
        ("2.60.0", &sequence, false),
        ("2.61.0", &sequence, true),
        ("2.62.0", &iterative, false),
        ("2.63.0", &iterative, true),
    ] {
        let scripted = Scripted::script(&json!({
            "server": {"version": version},
            "models": [{"name": "fake", "config": {
                "max_batch_size": 0,
                "sequence_batching": batching,
                "input": [{"name": "INPUT0", "data_type": "TYPE_INT32", "dims": [-1]}],
                "output": [{"name": "OUTPUT0", "data_type": "TYPE_INT32", "dims": [-1]}]
            }}]
        }));
        scripted.program().args("--request-count 100").run().report();
        let counters = scripted.clean();
        let (made, issued) = (counters["made"].as_u64().unwrap(), counters["issued"].as_u64().unwrap());
        assert!(issued >= 100 && (made < 10) == again && (made >= issued) != again, "{version} {batching}: {counters}");
    }
}

#[test]
fn a_server_that_does_not_start() {
    let error = json!({"code": "INTERNAL", "message": "no memory for the pool"});
    let scripted = Scripted::script(&json!({"server": {"error": error}}));
    scripted.program().run().refusal(&["did not start", "no memory for the pool"]);
}

#[test]
fn a_load_that_fails_says_why_once() {
    let model = json!({"name": "fake", "load_error": {"code": "INTERNAL", "message": "weights\nare gone\n"}});
    let scripted = Scripted::script(&json!({ "models": [model] }));
    scripted.program().run().refusal(&["'fake'", "weights are gone"]);
    scripted.clean();
}

#[test]
fn unloading_is_waited_for() {
    let scripted = Scripted::script(&json!({"server": {"unload_polls": 20}}));
    scripted.program().args("--request-count 10").run().report();
    scripted.clean();
}

#[test]
fn a_stop_that_fails_does_not_spoil_the_report() {
    let scripted = Scripted::script(&json!({"server": {"stop_error": {"code": "INTERNAL", "message": "stuck"}}}));
    let report: Report = scripted.program().args("--request-count 10").run().report();
    assert_eq!(report.level().client_number("Request count"), 10.0);
}

#[test]
fn the_clients_levels_are_what_the_server_counts() {
    let scripted = Scripted::requests(json!([{"delay_us": 2000}]));
    scripted.program().quick().args("--async --max-threads 2 --concurrency-range 2:6:2").run().report();
    assert_eq!(scripted.clean()["max_in_flight"], 6);
}

#[test]
fn two_models_may_not_be_asked_for_what_one_lacks() {
    let scripted = Scripted::requests(json!([{}]));
    let finished = scripted.program().args("-x 9").run();
    finished.refusal(&["-x", "9", "'fake'", "1"]);
    scripted.clean();
}

#[test]
fn timed_a_level_that_does_not_settle_is_measured_for_a_while_however_short_its_windows() {
    // No figure is known to within nothing.
    let windows = |more: &str| {
        let scripted = Scripted::requests(json!([{"delay_us": 3_000}, {"delay_us": 6_000}]));
        let path = scripted.path("result.json");
        let program = scripted.program().args("-p 400 -s 0 --on-disturbance ignore").args(more);
        let finished = program.arg("--summary-file").arg(&path).run();
        scripted.clean();
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{error}: {finished:#?}"));
        let result: Value = serde_json::from_str(&text).unwrap();
        let level = &result["levels"][0];
        assert_eq!(level["outcome"], "unstable", "{finished:#?}");
        level["windows"].as_array().unwrap().iter().map(|row| row["windows"].as_u64().unwrap()).sum::<u64>()
    };
    let usual = windows("");
    assert!((45..=50).contains(&usual), "{usual} windows are not 20 s");
    assert_eq!(windows("--max-trials 4"), 4);
    assert!((3..=5).contains(&windows("--max-level-time 2s")));
}
