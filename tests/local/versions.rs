//! What differs between Triton's releases, from scripted servers: see the table in docs/install.md.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::support::http_server::{Act, HttpServer, good_answer, reply};
use crate::support::{Program, Scripted};

const OLD: &str = "2.51.0";
const NEW: &str = "2.70.0";

fn server(version: &str, model: Value) -> Scripted {
    let mut model = model;
    model["name"] = "fake".into();
    Scripted::script(&json!({"server": {"version": version, "log_requests": true}, "models": [model]}))
}

/// A sequence model that declares the type of its correlation IDs.
fn sequence(datatype: &str) -> Value {
    let control = json!({"kind": "CONTROL_SEQUENCE_CORRID", "data_type": datatype});
    let tensor = |name: &str| json!([{"name": name, "data_type": "TYPE_INT32", "dims": [-1]}]);
    json!({"config": {"max_batch_size": 0, "input": tensor("INPUT0"), "output": tensor("OUTPUT0"),
        "sequence_batching": {"control_input": [{"name": "ID", "control": [control]}]}}})
}

#[test]
fn the_servers_log_is_on_standard_error_whatever_the_release() {
    for version in [OLD, NEW] {
        for flags in ["--log-level info", "--log-level info --log-verbose 1", "--log-verbose 2"] {
            let finished = server(version, json!({})).program().args(&format!("--request-count 5 {flags}")).run();
            let report = finished.report();
            assert!(!report.text.contains("fake.cc"), "{version} {flags}: {}", report.text);
            let is_logged = finished.stderr.contains("loading: fake:1");
            assert_eq!(is_logged, flags.contains("info"), "{version} {flags}: {}", finished.stderr);
        }
    }
}

#[test]
fn a_report_on_standard_output_holds_nothing_else() {
    let scripted = server(NEW, json!({}));
    let flags = "--request-count 5 --log-level info --log-verbose 1 --markdown /dev/stdout";
    let finished = scripted.program().args(flags).run();
    assert_eq!(finished.code(), 0, "{}", finished.stderr);
    assert!(finished.stdout.contains("| ") && !finished.stdout.contains("fake.cc"), "{}", finished.stdout);
}

#[test]
fn a_loaded_model_that_is_not_ready_is_waited_for() {
    let scripted = server(NEW, json!({"unready_us": 2_500_000}));
    let finished = scripted.program().args("--request-count 5 --server-wait 30").run();
    finished.report_even_if_late();
    let note = "waiting for the server and its models, 30 s in all (--server-wait): it is loaded, but its backend says";
    assert!(finished.stderr.contains(note), "{}", finished.stderr);
    scripted.clean();
}

#[test]
fn a_model_that_stays_unready_is_reported_with_its_backends_reason() {
    let hour = json!({"unready_us": 3_600_000_000_u64});
    let expected = "model 'fake' was not ready within 0.3 s (--server-wait): ";
    let refused = server(NEW, hour.clone()).program().args("--request-count 5 --server-wait 0.3").run();
    refused.failure(&[expected, "its caches are being filled"]);
    // The user's own log has it then.
    let finished = server(NEW, hour).program().args("--server-wait 0.3 --log-verbose 1").run();
    assert_eq!(finished.code(), 99, "{}", finished.stderr);
    for words in [expected, "its backend says that it is not ready", "not ready: its caches are being filled"] {
        assert!(finished.stderr.contains(words), "{words}: {}", finished.stderr);
    }
}

#[test]
fn over_http_a_model_that_stays_unready_is_told_from_one_that_is_not_there() {
    let server = HttpServer::start(|_| vec![Act::Send(good_answer())]);
    server.answer_instead("/ready", reply("400 Bad Request", "", b""));
    let refused = Program::new().args(&format!("-m m -u {} --request-count 5 --server-wait 0.3", server.url())).run();
    refused.failure(&["model 'm' was not ready within 0.3 s", "its backend says that it is not ready"]);
}

#[test]
fn a_version_that_is_not_loaded_is_not_waited_for() {
    let refused = server(NEW, json!({})).program().args("-x 7 --request-count 5 --server-wait 60").run();
    refused.failure(&["has no version 7 that is ready", "ready: 1"]);
}

#[test]
fn correlation_ids_have_the_type_that_the_model_declares() {
    for version in [OLD, NEW] {
        for (datatype, is_text) in [("TYPE_STRING", true), ("TYPE_UINT64", false), ("TYPE_INT32", false)] {
            let scripted = server(version, sequence(datatype));
            scripted.program().args("--request-count 20 --sequence-length 4").run().report();
            let requests = scripted.events("request");
            assert!(requests.iter().all(|request| request["correlation"].is_string() == is_text), "{datatype}");
        }
    }
}

#[test]
fn the_flag_overrides_the_declared_type_and_a_refusal_names_it() {
    let flags = "--request-count 20 --sequence-length 4 --sequence-id-type number";
    server(OLD, sequence("TYPE_STRING")).program().args(flags).run().report();
    let finished = server(NEW, sequence("TYPE_STRING")).program().args(flags).run();
    for words in ["data-type is 'UINT64', but model 'fake' expects", "expects with --sequence-id-type"] {
        assert!(finished.stdout.contains(words), "{words}: {}", finished.stdout);
    }
}

#[test]
fn what_the_user_may_not_read_is_named() {
    for hidden in ["models", "models/fake"] {
        let scripted = server(NEW, json!({}));
        let folder = scripted.path(hidden);
        fs::set_permissions(&folder, Permissions::from_mode(0o700)).unwrap();
        let finished = scripted.as_stranger(&["--request-count", "5"]);
        for words in [&format!("'{}' cannot be read: permission denied for user 65534", folder.display()), "chmod"] {
            assert!(finished.contains(words), "{words}: {finished}");
        }
    }
}

#[test]
fn what_a_server_program_says_on_either_stream_is_told() {
    for stream in ["", ">&2"] {
        let scripted = server(NEW, json!({}));
        let program = scripted.path("server/bin/tritonserver");
        fs::create_dir_all(program.parent().unwrap()).unwrap();
        fs::write(&program, format!("#!/bin/sh\necho 'error: no such backend' {stream}\nexit 1\n")).unwrap();
        fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
        let finished = scripted.program().args("--matrix transports --rounds 1 --request-count 5").run();
        assert!(finished.stderr.contains("no such backend"), "{stream}: {}", finished.stderr);
    }
}
