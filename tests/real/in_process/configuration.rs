//! Settings that change the embedded server's behaviour.

use crate::support::{Export, Model, Program, Report, Repository, SINCE_20_10, Scripted};

fn run(model: Model, arguments: &str) -> Report {
    let repository = Repository::of(&[model]);
    Program::on(&repository, "m").args(arguments).run().report()
}

fn cached() -> Model {
    Model::sleeping("m", 5).with("response_cache { enable: true }")
}

/// Hits are answered on the stack of the call that asks; a loop that issues from there must not recurse.
#[test]
fn timed_a_cached_model_answers_on_the_callers_stack() {
    for mode in ["--sync", "--async --concurrency-range 8", "--async --concurrency-range 1"] {
        let arguments = format!("--input-data zero --cache-config local,size=1048576 -p 200 -s 1000000 {mode}");
        let report = run(cached(), &arguments);
        let level = report.level();
        let (hits, requests) = (level.server_number("Cache hit count"), level.client_number("Request count"));
        // Hundreds of thousands in one callback would have overflowed any stack.
        assert!(requests > 1000.0 && hits > 0.9 * requests, "{}", level.text);
        assert!(level.client_number("p50 latency") < 2000.0, "{}", level.text);
    }
}

/// Who asks again inside the server's callback never returns from it while the cache has the answer, and the server's
/// only thread is not there for anybody else.
#[test]
fn a_cache_does_not_keep_the_server_from_other_requests() {
    let repository = Repository::of(&[Model::sleeping("m", 50).with("response_cache { enable: true }")]);
    let file = repository.file("export.json");
    let flags = "--input-data zero --cache-config local,size=1048576 -p 500 -s 1000000 --async --concurrency-range 8";
    Program::on(&repository, "m").args(flags).arg("--profile-export-file").arg(&file).run().report();
    let export = Export::read(&file);
    let at = |value: &serde_json::Value| value.as_u64().unwrap();
    let requests = export.experiments()[0]["requests"].as_array().unwrap();
    let first_end = requests.iter().map(|request| at(&request["response_timestamps"][0])).min().unwrap();
    // None of these was in the cache when it was sent: they are computed one after the other, and not when the load ends.
    let computed = requests.iter().filter(|request| at(&request["timestamp"]) < first_end);
    let ends = computed.map(|request| at(&request["response_timestamps"][0]) - first_end);
    let ends: Vec<u64> = ends.collect();
    assert_eq!(ends.len(), 8, "of {} requests", requests.len());
    assert!(ends.iter().all(|ns| *ns < 1_000_000_000), "{ends:?}");
}

#[test]
fn without_a_cache_every_request_is_computed() {
    let report = run(Model::sleeping("m", 5), "--input-data zero --request-count 30");
    assert!(!report.text.contains("Cache hit"), "{}", report.text);
    assert!(report.level().client_number("p50 latency") >= 5000.0);
}

#[test]
fn a_rate_limiter_bounds_executions() {
    let model = Model::sleeping("m", 20)
        .instances(0)
        .with("instance_group [{ kind: KIND_CPU count: 4 rate_limiter { resources [{ name: \"seat\" count: 1 }] } }]");
    let repository = Repository::counted(model);
    let arguments =
        "--concurrency-range 4 --request-count 30 --rate-limit execution_count --rate-limit-resource seat:2";
    Program::on(&repository, "m").args(arguments).run().report();
    assert!(repository.counters("m").get("max_simultaneous_requests") <= 2);
}

/// Options that cannot be seen in the server's behaviour are seen by a library that logs them.
#[test]
fn every_option_reaches_the_server() {
    let scripted = Scripted::requests(serde_json::json!([{}]));
    let arguments = "--request-count 4 --backend-directory /b --backend-config tensorflow,version=2 --backend-config x=y \
         --repoagent-directory /a --cache-directory /c --cache-config local,size=1000 --pinned-memory-pool-byte-size 12345 \
         --cuda-memory-pool-byte-size 0:777 --cuda-virtual-address-size 0:888 --min-supported-compute-capability 6.5 \
         --rate-limit execution_count --rate-limit-resource R:3:1 --rate-limit-resource S:2 \
         --host-policy gpu_0,numa-node=1 --model-load-thread-count 3 --model-load-retry-count 2 \
         --buffer-manager-thread-count 5 --enable-peer-access false --strict-model-config true --model-config-name custom \
         --model-namespacing true --server-metrics on --metrics-config summary_latencies=true --exit-timeout-secs 7 \
         --log-format ISO8601 --log-verbose 2 --log-level warning";
    scripted.program().args(arguments).run().report();
    scripted.clean();
    let created = &scripted.events("server_new")[0]["options"];
    let options: Vec<String> = created.as_array().unwrap().iter().map(ToString::to_string).collect();
    let wanted = [
        ["BackendDirectory", "/b"],
        ["BackendConfig", "tensorflow"],
        ["RepoAgentDirectory", "/a"],
        ["CacheDirectory", "/c"],
        ["CacheConfig", "1000"],
        ["PinnedMemoryPoolByteSize", "12345"],
        ["CudaMemoryPoolByteSize", "777"],
        ["CudaVirtualAddressSize", "888"],
        ["MinSupportedComputeCapability", "6.5"],
        ["RateLimiterMode", "1"],
        ["RateLimiterResource", "R"],
        ["RateLimiterResource", "S"],
        ["HostPolicy", "numa-node"],
        ["ModelLoadThreadCount", "3"],
        ["ModelLoadRetryCount", "2"],
        ["BufferManagerThreadCount", "5"],
        ["EnablePeerAccess", "false"],
        ["StrictModelConfig", "true"],
        ["ModelConfigName", "custom"],
        ["ModelNamespacing", "true"],
        ["SetMetrics", "true"],
        ["MetricsConfig", "summary_latencies"],
        ["ExitTimeout", "7"],
        ["ModelControlMode", "2"],
        ["ModelRepositoryPath", "/models"],
    ];
    for words in wanted {
        let found = options.iter().any(|option| words.iter().all(|word| option.contains(word)));
        assert!(found, "{words:?} is not among {options:#?}");
    }
}

/// An older library is used without what it lacks, unless a flag asks for that.
#[test]
fn an_older_library_is_enough() {
    for mode in ["--sync", "--async"] {
        let scripted = Scripted::without(SINCE_20_10);
        scripted.program().args("--request-count 30 --concurrency-range 2").args(mode).run().report();
        scripted.clean();
    }
    let refused = [
        "--cache-config local,size=1000",
        "--model-config-name custom",
        "--model-namespacing true",
        "--model-load-thread-count 2",
        "--log-format ISO8601",
        "--metrics-config a=b",
        "--buffer-manager-thread-count 2",
    ];
    for arguments in refused {
        let scripted = Scripted::without(SINCE_20_10);
        let flag = arguments.split(' ').next().unwrap();
        scripted.program().args(arguments).run().refusal(&[flag, "this Triton release has no", "leave the flag out"]);
    }
}

#[test]
fn processors_are_bound_before_the_server_starts() {
    let repository = Repository::of(&[]);
    repository.add(&repository.journaling(Model::identity("m")));
    let running = Program::on(&repository, "m").args("--cpus 0 -p 20000").start();
    repository.wait_for_requests("m", 0);
    let threads = std::fs::read_dir(format!("/proc/{}/task", running.id())).unwrap();
    let allowed: Vec<String> = threads
        .filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("status")).ok())
        .map(|status| status.lines().find(|line| line.starts_with("Cpus_allowed_list:")).unwrap().to_owned())
        .collect();
    running.signal(2);
    running.finish().report();
    assert!(allowed.len() > 5, "the server has threads of its own: {allowed:?}");
    assert!(allowed.iter().all(|line| line.trim_end().ends_with("\t0")), "{allowed:?}");
}
