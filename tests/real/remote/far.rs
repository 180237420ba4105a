//! A distant server whose statistics take longer to read than a window lasts: windows still count what ended in them.

use std::time::Duration;

use super::PROTOCOLS;
use crate::support::far::far_away;
use crate::support::{Model, Report, Repository, TritonServer};

const ENSEMBLE: &str = r#"
platform: "ensemble"
ensemble_scheduling { step [
  { model_name: "first" model_version: -1 input_map { key: "INPUT0" value: "INPUT0" } output_map { key: "OUTPUT0" value: "half" } },
  { model_name: "second" model_version: -1 input_map { key: "INPUT0" value: "half" } output_map { key: "OUTPUT0" value: "OUTPUT0" } }
] }"#;

const EACH_WAY: Duration = Duration::from_millis(150);

/// The server with an ensemble of two, and where it is from far away.
fn far_ensemble(protocol: &str) -> (Repository, TritonServer, String) {
    let ensemble = Model::identity("both").backend("").with(ENSEMBLE);
    let repository = Repository::of(&[Model::identity("first"), Model::identity("second"), ensemble]);
    let server = TritonServer::start(&repository).expect("the server directory has a tritonserver");
    let url = far_away(&server.url(protocol), EACH_WAY);
    (repository, server, url)
}

#[test]
fn timed_a_rate_is_what_was_sent() {
    for protocol in PROTOCOLS {
        let (_repository, _server, url) = far_ensemble(protocol);
        let program =
            TritonServer::program_at(&url, protocol, "both").args("--request-rate-range 50 -p 500 -s 0.001 -r 8");
        // On a busy machine the verdict may be any: the windows are what is tried here.
        let report = Report::parse(&program.run().stdout);
        let throughput = report.level().client_number("Throughput");
        assert!((47.0..=53.0).contains(&throughput), "{protocol}: {}", report.text);
        let server_counts = report.level().server_number("Inference count");
        assert!(server_counts >= 50.0, "{protocol}: {}", report.text);
    }
}

#[test]
fn timed_a_closed_loop_keeps_littles_law() {
    for protocol in PROTOCOLS {
        let (_repository, _server, url) = far_ensemble(protocol);
        let program =
            TritonServer::program_at(&url, protocol, "both").args("-a --concurrency-range 16 -p 400 -s 0.001 -r 6");
        let report = Report::parse(&program.run().stdout);
        // 16 under way, each for 300 ms and a little.
        let throughput = report.level().client_number("Throughput");
        assert!((40.0..=60.0).contains(&throughput), "{protocol}: {}", report.text);
    }
}
