//! The complete report, compared with the layout that upstream's program prints.

use super::*;
use std::time::Duration;

use crate::backend::{ClientTimes, InferError};
use crate::clock::Stamp;
use crate::model::statistics::{CountedTime, ModelStatistics};
use crate::result::Detail;
use crate::result::reasons::{InvalidReason, Verdict};
use crate::result::setup::sample as plans;
use crate::result::summary::{
    DecoupledSummary, Ending, EntrySummary, GpuMetrics, Headline, HostMetrics, MeanAndMax, OpenLoopSummary, ServerLoad,
    ServerSummary, sample,
};
use crate::result::timeline::{self, WindowRow};
use crate::terms::Statistic;
use crate::tests::printed;

fn at(count: u64, ns: u64) -> CountedTime {
    CountedTime { count, ns }
}

fn server(name: &str, count: u64) -> ServerSummary {
    let delta = ModelStatistics {
        inferences: count,
        executions: count,
        success: at(count, count * 11_072_300),
        queue: at(count, count * 68_400),
        compute_input: at(count, count * 24_400),
        compute_infer: at(count, count * 10_831_500),
        compute_output: at(count, count * 143_300),
        ..ModelStatistics::default()
    };
    let (name, version) = (name.to_owned(), "1".to_owned());
    ServerSummary { name, version, delta, cached: false, several_versions: false, composing: Vec::new() }
}

/// 11 ms to three significant digits: the largest value of its bucket, so that every figure shows the same.
const LATENCY_NS: u64 = 11_001_855;

/// 89 requests in a second, all of 11 ms.
fn level() -> LevelSummary {
    let mut level = sample::level(LevelLoad::Concurrency(1), 89, LATENCY_NS);
    level.client.send_ns = 100_000.0;
    level.client.receive_ns = 57_000.0;
    level.client.overhead_share = 0.0018;
    level.server = Some(server("ident", 89));
    level
}

/// A report without our own lines: the verdict, and what follows upstream's overhead.
fn upstreams(report: &str) -> String {
    let is_ours = |line: &&str| ["  Verdict:", "    Avg client overhead:"].iter().any(|start| line.starts_with(start));
    report.lines().filter(|line| !is_ours(line)).map(|line| format!("{line}\n")).collect()
}

#[test]
fn a_plain_level_reads_like_upstreams() {
    let (setup, level) = (plans::setup(), level());
    let report = printed(&setup, &level, 3) + &summary(&plans::result(&setup, &[level]));
    let golden = "\
Request concurrency: 1
  Client: 
    Request count: 89
    Throughput: 89 infer/sec
    Avg latency: 11001 usec (standard deviation 0 usec)
    p50 latency: 11001 usec
    p90 latency: 11001 usec
    p95 latency: 11001 usec
    p99 latency: 11001 usec
    Avg HTTP time: 11001 usec (send/recv 157 usec + response wait 10844 usec)
  Server: 
    Inference count: 89
    Execution count: 89
    Successful request count: 89
    Avg request latency: 11072 usec (overhead 5 usec + queue 68 usec + compute input 24 usec + compute infer 10831 usec + compute output 143 usec)

Inferences/Second vs. Client Average Batch Latency
Concurrency: 1, throughput: 89 infer/sec, latency 11001 usec
";
    assert_eq!(upstreams(&report), golden);
}

#[test]
fn our_own_lines_are_there_too() {
    let setup = plans::setup();
    let report = printed(&setup, &level(), 3);
    assert!(report.contains("    Avg client overhead: 0.18% (123 ns per request)\n"), "{report}");
    assert!(report.contains("  Verdict: valid\n\n"), "{report}");
}

#[test]
fn what_the_client_costs_in_process_has_bounds() {
    let mut setup = plans::setup();
    let mut level = level();
    let cost = |setup: &Setup, level: &LevelSummary| {
        let report = printed(setup, level, 3);
        let line = report.lines().find_map(|line| line.trim().strip_prefix("Avg client overhead: ")).unwrap();
        line.split_once(" (").unwrap().1.to_owned()
    };
    level.client.turnaround_ns = 400.0;
    assert_eq!(cost(&setup, &level), "123 ns per request)", "other slots' requests come between two over a network");
    setup.client_times = None;
    assert_eq!(cost(&setup, &level), "123 to 400 ns per request)");
    level.client.wakeup = Some(sample::distribution(89, 150));
    assert_eq!(cost(&setup, &level), "123 to 250 ns per request)", "the wait to run again is told apart");
    level.client.turnaround_ns = 200.0;
    assert_eq!(cost(&setup, &level), "123 ns per request)");
}

#[test]
fn windows_are_listed_when_asked_for() {
    let mut setup = plans::setup();
    setup.detail.verbosity = 1;
    let report = printed(&setup, &level(), 3);
    let pass = "  Pass [3] throughput: 89 infer/sec. Avg latency: 11001 usec (std 0 usec). \n";
    assert!(report.contains(pass), "{report}");
    setup.measurement.percentile = Some(42.0);
    let report = printed(&setup, &level(), 3);
    assert!(report.contains("  Pass [1] throughput: 89 infer/sec. p42 latency: 11001 usec\n"), "{report}");
    assert!(report.contains("    p42 latency: 11001 usec\n    p50 latency:"), "{report}");
    assert!(!report.contains("Avg latency"), "{report}");
    let http = "    Avg HTTP time: 11001 usec (send 100 usec + response wait 10844 usec + receive 57 usec)\n";
    assert!(report.contains(http), "{report}");
    assert!(
        summary(&plans::result(&setup, &[level()])).starts_with("Inferences/Second vs. Client p42 Batch Latency\n")
    );
}

#[test]
fn grpc_and_in_process_name_their_times() {
    let mut setup = plans::setup();
    setup.client_times = Some(ClientTimes::GRPC);
    let line = "    Avg gRPC time: 11001 usec ((un)marshal request/response 157 usec + response wait 10844 usec)\n";
    assert!(printed(&setup, &level(), 3).contains(line));
    setup.detail.verbosity = 1;
    let line = "    Avg gRPC time: 11001 usec (marshal 100 usec + response wait 10844 usec + unmarshal 57 usec)\n";
    assert!(printed(&setup, &level(), 3).contains(line));
    setup.client_times = None;
    assert!(printed(&setup, &level(), 3).contains(" usec\n    \n  Server: \n"));
}

#[test]
fn ensembles_list_their_models() {
    let mut level = level();
    let mut inner = server("inner", 9);
    inner.composing = vec![server("a", 9)];
    let mut root = server("outer", 9);
    root.composing = vec![inner, server("z", 9)];
    level.server = Some(root);
    let report = printed(&plans::setup(), &level, 3);
    let stats = |indent: &str, parts: &str| {
        format!(
            "{indent}Inference count: 9\n{indent}Execution count: 9\n{indent}Successful request count: 9\n\
             {indent}Avg request latency: 11072 usec ({parts})\n"
        )
    };
    let leaf =
        "overhead 5 usec + queue 68 usec + compute input 24 usec + compute infer 10831 usec + compute output 143 usec";
    let golden = "  Server: \n".to_owned()
        + &stats("    ", "overhead 0 usec + queue 136 usec + compute 21998 usec")
        + "\n  Composing models: \n  inner, version: 1\n"
        + &stats("      ", "overhead 5 usec + queue 68 usec + compute 10999 usec")
        + "\n    Composing models: \n    a, version: 1\n"
        + &stats("        ", leaf)
        + "\n  z, version: 1\n"
        + &stats("      ", leaf);
    assert!(report.contains(&golden), "{report}\n---\n{golden}");
}

#[test]
fn caches_show_hits_and_misses() {
    let mut cached = server("c", 1);
    cached.cached = true;
    cached.delta.cache_hit = at(89, 979_000);
    cached.delta.cache_miss = at(1, 39_970);
    cached.delta.success = at(90, 90 * 200_000);
    cached.delta.queue = at(90, 90 * 5_000);
    let mut root = server("e", 90);
    root.cached = true;
    root.composing = vec![cached];
    let mut level = level();
    level.server = Some(root);
    let report = printed(&plans::setup(), &level, 3);
    let golden = "    Cache hit count: 0
    Cache miss count: 0
    Successful request count: 90
    Avg request latency: 11072 usec (overhead 10934 usec + queue 5 usec + cache hit/miss 133 usec)
      Average Cache Hit Latency: 11 usec
      Average Cache Miss Latency: 11038 usec 

  Composing models: 
  c, version: 1
      Inference count: 1
      Execution count: 1
      Cache hit count: 89
      Cache miss count: 1
      Successful request count: 90
      Avg request latency: 200 usec (overhead 62 usec + queue 5 usec + cache hit/miss 133 usec)
          Average Cache Hit Latency: 11 usec
          Average Cache Miss Latency: 11038 usec (cache lookup/insertion 39 usec + compute input 24 usec + compute infer 10831 usec + compute output 143 usec)
";
    assert!(report.contains(golden), "{report}\n---\n{golden}");
}

#[test]
fn late_open_loops_say_so() {
    let mut setup = plans::setup();
    setup.headline = Headline::ResponseTime;
    let mut level = sample::level(LevelLoad::RequestRate(300.0), 89, LATENCY_NS);
    level.client.delayed = 88;
    level.client.open_loop = Some(OpenLoopSummary {
        response_time: sample::distribution(89, LATENCY_NS),
        service_time: sample::distribution(89, 2_000_000),
        schedule_delay: sample::distribution(89, 10_000_000),
        requested_rate: 300.0,
        achieved_rate: 89.0,
        completed_rate: 89.0,
    });
    level.verdict = Verdict::Invalid(vec![InvalidReason::RateNotReached(300.0, 89.0)]);
    let report = printed(&setup, &level, 3);
    let golden = "Request Rate: 300 inference requests per second
  Client: 
    Request count: 89
    Avg send request rate: 89.00 infer/sec
    [WARNING] Perf Analyzer was not able to keep up with the desired request rate. 98.88% of the requests were delayed. 
    Throughput: 89 infer/sec
";
    assert!(report.starts_with(golden), "{report}");
    for line in [
        "    Requested rate: 300 requests/sec, achieved rate: 89 requests/sec, sent more than 1 ms late: 98.88%\n",
        "    Response time (the latency above): avg 11001 usec, p50 11001, p90 11001, p95 11001, p99 11001, p99.9 11001, max 11001\n",
        "    Service time: avg 2000 usec, p50 200",
        "    Schedule delay: avg 10000 usec, p50 100",
        "    Avg HTTP time: 2000 usec (send/recv 0 usec + response wait 2000 usec)\n",
        "  Verdict: invalid [load not delivered]\n    sent 89.0 requests a second instead of 300.0: give issuing threads",
    ] {
        assert!(report.contains(line), "{line}\n---\n{report}");
    }
    // All are due at one moment.
    let mut burst = LevelSummary { load: LevelLoad::Schedule(0.0), ..level.clone() };
    burst.client.open_loop.as_mut().unwrap().requested_rate = 0.0;
    let report = printed(&setup, &burst, 3);
    assert!(
        report.contains("    Sent more than 1 ms late: 98.88%\n") && !report.contains("Requested rate"),
        "{report}"
    );
    let line = "Request Rate: 300, throughput: 89 infer/sec, latency 11001 usec [load not delivered]\n";
    assert!(summary(&plans::result(&setup, &[level])).ends_with(line));
}

#[test]
fn decoupled_and_sequence_models_have_lines_of_their_own() {
    let mut setup = plans::setup();
    setup.decoupled = true;
    setup.sequences = true;
    setup.headline = Headline::FirstResponse;
    let mut level = level();
    level.client.responses = 267;
    level.client.sequences = 12;
    level.client.decoupled = Some(DecoupledSummary {
        first_response: sample::distribution(89, 5_000_000),
        gap: sample::distribution(0, 1),
        last_response: sample::distribution(89, 15_000_000),
    });
    let report = printed(&setup, &level, 3);
    for line in [
        "    Sequence count: 12 (12 seq/sec)\n    Throughput: 89 infer/sec\n    Response Throughput: 267 infer/sec\n",
        "    \n    Time to first response (the latency above): avg 5000 usec, p50 ",
        "    Time between responses: none\n    Time to last response: avg 15000 usec, p50 ",
    ] {
        assert!(report.contains(line), "{line}\n---\n{report}");
    }
}

#[test]
fn failures_are_counted_by_reason() {
    let setup = plans::setup();
    let mut level = level();
    level.ending = Ending::Unstable;
    level.client.failed = 11;
    level.client.errors = vec![(InferError::new("Internal", "went\nwrong"), 11)];
    level.verdict = Verdict::Invalid(vec![InvalidReason::Errors(11, 100)]);
    let report = printed(&setup, &level, 3);
    let lines = "    Request count: 89\n    Failed request count: 11 (11.00%)\n      11 x Internal: went wrong\n";
    assert!(report.contains(lines), "{report}");
    assert!(report.contains("  Verdict: invalid [failed]\n    11 of 100 requests failed: see the errors"), "{report}");
    assert!(summary(&plans::result(&setup, &[level.clone()])).ends_with(" usec [failed]\n"));
    level.client.requests = 0;
    let report = printed(&setup, &level, 3);
    assert!(report.contains("    Request count: 0\n") && !report.contains("Throughput"), "{report}");
}

#[test]
fn metrics_follow_the_server() {
    let mut level = level();
    level.gpus = Some(vec![GpuMetrics {
        uuid: "GPU-1".to_owned(),
        server: None,
        utilization: Some(0.123),
        power_watts: Some(41.5),
        memory_used_bytes: Some(1_000_000_000),
        memory_total_bytes: None,
    }]);
    level.host = Some(HostMetrics { cpu_utilization: Some(0.5), ..HostMetrics::default() });
    let report = printed(&plans::setup(), &level, 3);
    let golden = "
  Server Prometheus Metrics: 
    Avg GPU Utilization:
      GPU-1 : 12.3%
    Avg GPU Power Usage:
      GPU-1 : 41.5 watts
    Max GPU Memory Usage:
      GPU-1 : 1000000000 bytes
    Total GPU Memory:
    Avg CPU Utilization: 50.00%
    Note: missing in the server's metrics of GPUs: total memory
";
    assert!(report.contains(golden), "{report}");
    let upstream = Setup { detail: Detail { as_upstream: true, ..Detail::default() }, ..plans::setup() };
    assert!(!printed(&upstream, &level, 3).contains("missing in the server's metrics"), "its callers do not know it");
    level.gpus.iter_mut().flatten().for_each(|gpu| gpu.memory_total_bytes = Some(1));
    assert!(!printed(&plans::setup(), &level, 3).contains("missing in the server's metrics"));
}

#[test]
fn metrics_of_several_servers_name_each() {
    let setup = Setup { servers: vec!["h1:8000".to_owned(), "h2:8000".to_owned()], ..plans::setup() };
    let gpu = |server, utilization| GpuMetrics {
        uuid: "GPU-1".to_owned(),
        server: Some(server),
        utilization: Some(utilization),
        ..GpuMetrics::default()
    };
    let host =
        |gpu, cpu| HostMetrics { gpu_utilization: Some(gpu), cpu_utilization: Some(cpu), ..HostMetrics::default() };
    let mut level = level();
    level.gpus = Some(vec![gpu(0, 0.2), gpu(1, 0.6)]);
    (level.host, level.hosts) = (Some(host(0.4, 0.3)), vec![host(0.2, 0.5), HostMetrics::default()]);
    let report = printed(&setup, &level, 3);
    let golden = "
  Server Prometheus Metrics: 
    Avg GPU Utilization:
      h1:8000 GPU-1 : 20%
      h2:8000 GPU-1 : 60%
    Avg GPU Power Usage:
    Max GPU Memory Usage:
    Total GPU Memory:
    Avg Utilization of all GPUs: 40.00%
    Avg CPU Utilization: 30.00%
    Of each server:
      h1:8000: GPUs 20.00%, processors 50.00%
      h2:8000: no figures
";
    assert!(report.contains(golden), "{report}");
}

#[test]
fn the_load_of_a_server_of_language_models_is_one_line() {
    let mut level = level();
    let load = ServerLoad { running: Some(MeanAndMax { mean: 7.8, max: 16.0 }), ..ServerLoad::default() };
    level.gpus = Some(Vec::new());
    level.host = Some(HostMetrics { load: Some(load), ..HostMetrics::default() });
    let report = printed(&Setup { service_kind: "OPENAI".to_owned(), ..plans::setup() }, &level, 3);
    assert!(report.contains("\n  Server load: running avg 7.8 (max 16)\n"), "{report}");
    assert!(!report.contains("Prometheus"), "{report}");
}

#[test]
fn a_mix_is_reported_together_and_per_entry() {
    let mut setup = plans::setup();
    setup.entries = vec![
        EntrySummary { name: "a".to_owned(), share: 0.75 },
        EntrySummary { name: "b:2?k=v".to_owned(), share: 0.25 },
    ];
    let mut level = level();
    level.client.entries = vec![sample::client(60, LATENCY_NS), sample::client(20, 2 * LATENCY_NS)];
    level.client.entries[1].failed = 20;
    level.further_servers = vec![server("b", 20)];
    let text = results(&setup, &level);
    assert!(
        text.contains("      a: 60 requests (60.00% of all, 75.00% asked for), 60 infer/sec, 0 failed\n"),
        "{text}"
    );
    assert!(text.contains("      b:2?k=v: 20 requests (40.00% of all, 25.00% asked for), 20 infer/sec, 20 failed\n"));
    assert!(text.contains("        Latency: avg 11001 usec, p50 11001"));
    assert!(text.contains("  Server: \n    Model: ident, version: 1\n    Inference count: 89\n"));
    assert!(text.contains("  Server: \n    Model: b, version: 1\n    Inference count: 20\n"));
}

#[test]
fn turns_of_conversations_are_no_models_that_were_asked_for() {
    let entry = |number| EntrySummary { name: format!("turn {number}"), share: 0.5 };
    let setup = Setup { entries: vec![entry(1), entry(2)], turns: true, ..plans::setup() };
    let mut level = level();
    level.client.entries = vec![sample::client(60, LATENCY_NS), sample::client(20, LATENCY_NS)];
    let text = results(&setup, &level);
    assert!(text.contains("    Turns of the conversations:\n      turn 1: 60 requests (75.00% of all), 60"), "{text}");
    assert!(!text.contains("asked for") && !text.contains("mix"), "{text}");
}

#[test]
fn counts_of_another_time_have_their_reason() {
    let window = |second: u64, counted| WindowRow {
        start: Stamp(second * 1_000_000_000),
        duration: Duration::from_secs(1),
        counted,
        ..timeline::sample::row(Stamp(0))
    };
    let mut level = level();
    let windows = [true, false, true].into_iter().zip(5..);
    level.windows = windows.map(|(counted, second)| window(second, counted)).collect();
    for (span_ms, again) in [(3000, true), (4500, false)] {
        level.server_span = Some(Duration::from_millis(span_ms));
        let text = results(&plans::setup(), &level);
        assert_eq!(text.contains("windows that were measured again lie between these\n"), again, "{text}");
        assert_eq!(text.contains("raise --measurement-interval"), !again, "{text}");
    }
}

/// Names come from servers and command lines: none of them makes a line of its own or turns the direction of one.
#[test]
fn names_cannot_forge_lines() {
    let (bad, shown) = ("m\n  Throughput: 9\u{202e}\u{9b}x", "m\\n  Throughput: 9\\u{202e}\\u{9b}x");
    let mut level = level();
    let mut part = server(bad, 89);
    part.version = bad.to_owned();
    let mut first = server(bad, 89);
    first.composing = vec![part];
    level.server = Some(first);
    level.client.entries = vec![sample::client(89, LATENCY_NS)];
    level.gpus = Some(vec![GpuMetrics { uuid: bad.to_owned(), power_watts: Some(1.0), ..GpuMetrics::default() }]);
    level.client.failed = 1;
    level.client.errors = vec![(InferError::new("HTTP 500", "a\u{202e}b"), 1)];
    let entry = |name: &str| EntrySummary { name: name.to_owned(), share: 0.5 };
    let setup = Setup { entries: vec![entry(bad), entry("b")], ..plans::setup() };
    let text = results(&setup, &level);
    assert!(!text.contains(bad) && !text.contains(['\u{202e}', '\u{9b}']), "{text}");
    assert_eq!(text.matches(shown).count(), 5, "the model twice, the part's version, the entry, the GPU: {text}");
    assert!(text.contains("1 x HTTP 500: a\\u{202e}b"), "{text}");
}

#[test]
fn figures_that_too_little_is_known_of_are_not_known() {
    let throughput = Interval { low: 80.25, high: 97.0 };
    let interval = |statistic, interval| StatisticEstimate::new(statistic, interval);
    let intervals = vec![
        interval(Statistic::Throughput, Some(throughput)),
        interval(Statistic::MeanLatency, None),
        interval(Statistic::Percentile(99.0), None),
    ];
    let two_sided = confidence(&LevelSummary { intervals: intervals.clone(), ..level() });
    let bounds = Bounds { low: Some(2e6), high: Some(14.2e6) };
    let one_sided = vec![StatisticEstimate { statistic: Statistic::Percentile(99.0), interval: None, bounds }];
    let text = confidence(&LevelSummary { intervals: one_sided, ..level() });
    assert_eq!(text, "    95% confidence: p99 < 14200 usec\n");
    assert_eq!(two_sided, "    95% confidence: throughput 80.25 to 97 infer/sec, avg not known, p99 not known\n");
    let mut empty = LevelSummary { intervals, ..level() };
    empty.client.requests = 0;
    assert_eq!(confidence(&empty), "");
}
