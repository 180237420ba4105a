//! The settings, compared with the layout that upstream's program prints.

mod upstream;

use std::time::Duration;

use super::*;
use crate::cli::{self, Command};
use crate::exit::Codes;
use crate::plan::ServiceKind;
use crate::result::setup::sample as plans;
use crate::terms::{GapDistribution, LoadMode, Precision, Range, Statistic, WindowRule};

/// What was asked for.
fn plan() -> Plan {
    match cli::parse(["triton-bench", "-m", "m", "--seed", "1"].map(Into::into), Codes::Own) {
        Ok(Command::Run(plan)) => *plan,
        other => panic!("a plain command line is a plan: {other:?}"),
    }
}

/// A plan like `setup`.
fn plan_of(setup: &Setup) -> Plan {
    let mut plan = plan();
    plan.measurement = setup.measurement.clone();
    plan.load.mode = setup.mode.clone();
    plan.data.batch_size = setup.batch_size;
    plan
}

/// Settings without our own lines.
fn upstreams(settings: &str) -> String {
    let ours = ["  Random seed:", "  Requests leave when", "  Latency: ", "  Inputs in "];
    let lines = settings.lines().filter(|line| !ours.iter().any(|prefix| line.starts_with(prefix)));
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
fn settings_of_a_plain_run_read_like_upstreams() {
    let mut setup = plans::setup();
    setup.mode = LoadMode::Concurrency(Range::with_step(1, Some(2), 1));
    setup.measurement.window = WindowRule::Time(Duration::from_millis(300));
    let text = settings(&plan_of(&setup), &setup);
    assert!(text.contains("  Random seed: 1\n"));
    let golden = "\
*** Measurement Settings ***
  Batch size: 1
  Service Kind: TRITON
  Using \"time_windows\" mode for stabilization
  Stabilizing using average latency and throughput
  Measurement window: 300 msec
  Latency limit: 0 msec
  Concurrency limit: 2 concurrent requests
  Using synchronous calls for inference

";
    assert_eq!(upstreams(&text), golden);
}

#[test]
fn every_setting_has_its_line() {
    let (mut plan, mut setup) = (plan(), plans::setup());
    plan.target.service = ServiceKind::TritonCApi;
    plan.measurement.window = WindowRule::Count(50);
    plan.measurement.percentile = Some(95.0);
    plan.measurement.binary_search = true;
    plan.measurement.warmup_requests = 8;
    plan.measurement.latency_threshold = Some(Duration::from_millis(7));
    setup.synchronous = false;
    plan.load.mode = LoadMode::RequestRate {
        range: Range::with_step(20.0, Some(40.5), 1.0),
        distribution: GapDistribution::Poisson,
    };
    setup.decoupled = true;
    setup.headline = Headline::FirstResponse;
    let golden = "\
*** Measurement Settings ***
  Service Kind: TRITON
  Sending 8 warmup requests
  Using \"count_windows\" mode for stabilization
  Stabilizing using p95latency and throughput
  Minimum number of samples in each window: 50
  Latency limit: 7 msec
  Request Rate limit: 40.5 requests per seconds
  Using poisson distribution on request generation
  Using Binary Search algorithm
  Using asynchronous calls for inference
  Detected decoupled model, using the first response for measuring latency

";
    assert_eq!(upstreams(&settings(&plan, &setup)), golden);
    plan.data.output_placement = Placement::System;
    let further = "all but the first have their outputs in pageable memory\n";
    assert!(settings(&plan, &setup).contains(further));
    setup.decoupled = false;
    assert!(!settings(&plan, &setup).contains(further));
    plan.measurement.precision = Some(Precision { statistic: Statistic::Throughput, share: 0.015 });
    let text = settings(&plan, &setup);
    assert!(text.contains("  Measuring until the windows give the throughput to within 1.5%\n"), "{text}");
    plan.measurement.request_count = Some(20);
    plan.data.batch_size = 4;
    let text = settings(&plan, &setup);
    assert!(text.contains("  Batch size: 4\n") && text.contains("  Sending 20 benchmark requests\n"), "{text}");
    assert!(!text.contains("stabilization") && !text.contains("Stabilizing"), "{text}");
}
