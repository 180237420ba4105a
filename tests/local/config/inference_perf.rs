//! Files in inference-perf's format: those of its own load guide (tests/fixtures/inference_perf), and keys without a
//! counterpart.

use std::path::Path;
use std::process::Command as Process;
use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::support::http_server::{Act, HttpServer, Received, reply};

/// Flags that every such file means, as far as it says nothing else.
const USUAL: &[&str] = &[
    "service-kind: openai",
    "endpoint: v1/completions",
    "prompt-tokens: 4",
    "output-tokens: 30",
    "request-parameter: ignore_eos:true:bool",
    "max-errors: 100%",
    "seed: time",
    "report-dir: \"reports-{timestamp}\"",
    "report-parts: summary,stages,adapters",
];

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/inference_perf")
}

/// A file of the guide, whose trace is where tests are.
fn fixture(name: &str) -> Config {
    let text = fs::read_to_string(fixtures().join(name)).unwrap();
    Config::of(&text.replace("./traces", &fixtures().join("traces").display().to_string()))
}

/// Flags that a file means beside the usual ones, without a list's indent.
fn flags(file: &Config, without: &[&str]) -> Vec<String> {
    let text = printed(file.and(&["-m", "m", "--print-config"]));
    let mut lines: Vec<String> =
        text.lines().map(|line| line.trim().to_owned()).filter(|line| line != "model: m").collect();
    for usual in USUAL.iter().filter(|line| !without.contains(line)) {
        let at = lines.iter().position(|line| line == usual).unwrap_or_else(|| panic!("no {usual} in\n{text}"));
        lines.remove(at);
    }
    lines
}

#[test]
fn every_file_of_the_guide_means_its_flags() {
    let plain: &[(&str, &[&str])] = &[
        ("sweep.yaml", &["sweep: linear:5"]),
        ("rates.yaml", &["stage: rate:100:60s", "max-threads: 32", "max-outstanding: 8000"]),
        (
            "concurrent.yaml",
            &[
                "stage:",
                "- concurrency:32:1000req",
                "- pause:1s",
                "- concurrency:64:2000req",
                "stage-edges: drain",
                "async: true",
            ],
        ),
        ("saturated.yaml", &["stage: rate:10000:60s", "max-threads: 4", "max-outstanding: 32"]),
        ("shown.yaml", &["stage: rate:1:30s", "max-threads: 8", "max-outstanding: 800", "max-connections: 20000"]),
    ];
    for (name, wanted) in plain {
        assert_eq!(flags(&fixture(name), &[]), *wanted, "{name}");
    }
    assert_eq!(flags(&fixture("seed.yaml"), &["seed: time"]), ["stage: rate:100:60s", "seed: 12345"]);
    let parts = "report-parts: summary,stages,adapters";
    assert_eq!(flags(&fixture("report.yaml"), &[parts]), [format!("{parts},adapter-stages")]);
    let traces = fixtures().join("traces/traces.csv");
    let times = flags(&fixture("trace_times.yaml"), &[]);
    assert_eq!(times, [format!("trace-replay: {}", traces.display())]);
    let lengths = flags(&fixture("trace_lengths.yaml"), &["prompt-tokens: 4", "output-tokens: 30"]);
    assert_eq!(lengths, [format!("prompt-tokens: trace:{}", traces.display())]);
}

#[test]
fn adapters_are_a_mix_of_models() {
    let mixes: [(&str, &[(&str, f64)]); 4] = [
        ("adapters.yaml", &[("movie", 0.5), ("consumer", 0.5)]),
        ("split_ab.yaml", &[("baseline", 0.5), ("optimized", 0.5)]),
        ("split_domains.yaml", &[("medical", 0.33), ("legal", 0.33), ("technical", 0.34)]),
        ("split_rollout.yaml", &[("stable", 0.9), ("experimental", 0.1)]),
    ];
    for (name, wanted) in mixes {
        let plan = fixture(name).plan(&[]);
        let mix: Vec<(&str, f64)> =
            plan.target.mix.iter().map(|entry| (entry.model.name.as_str(), entry.share)).collect();
        assert_eq!(mix, wanted, "{name}");
    }
}

#[test]
fn every_fixture_is_read_by_a_test() {
    let source = include_str!("inference_perf.rs");
    for entry in fs::read_dir(fixtures()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(source.contains(&format!("\"{name}\"")) || name == "traces", "{name}");
    }
}

#[test]
fn the_other_sections_mean_flags_too() {
    let file = Config::of(
        "load:\n  type: poisson\n  interval: 0\n  stages: [{rate: 2.5, duration: 3}, {rate: 5, duration: 3}]\n  request_timeout: 1.5\n  \
         circuit_breakers: [bad]\n  base_seed: time\ndata:\n  type: synthetic\n  input_distribution: {type: lognormal, mean: 100, std_dev: 20, \
         min: 5, max: 900, total_count: 50}\n  output_distribution: {type: fixed, mean: 32, total_count: 60}\napi:\n  type: chat\n  streaming: \
         true\n  headers: {X-A: b}\nserver:\n  type: sglang\n  model_name: llama\n  base_url: https://h:8443\n  api_key: secret\n  ignore_eos: \
         false\n  cert_path: Cargo.toml\n  key_path: Cargo.lock\nreport:\n  request_lifecycle: {summary: true, per_stage: false, per_adapter: false, \
         percentiles: [50, 99.9]}\n  goodput: {constraints: {ttft: 0.5, request_latency: 2}}\nstorage:\n  local_storage: {path: out, \
         report_file_prefix: a-}\ncircuit_breakers:\n  - name: bad\n    metrics: {matches: ['error'], rules: ['error != null']}\n    triggers: \
         [{type: rate_over_window, window_sec: 5, threshold: 0.1, min_samples: 20}]\n",
    );
    let text = printed(file.and(&["--print-config"]));
    let wanted = [
        "model: llama",
        "service-kind: openai",
        "request-distribution: poisson",
        "  - rate:2.5:7req",
        "  - rate:5:15req",
        "stage-edges: drain",
        "client-timeout-us: 1500000",
        "stop-on: \"errors>=0.1 over 5s of 20\"",
        "seed: time",
        "prompt-tokens: lognormal:100:20:5:900",
        "output-tokens: 32",
        "num-prompts: unique",
        "endpoint: v1/chat/completions",
        "streaming: true",
        "  - \"Authorization:Bearer secret\"",
        "  - X-A:b",
        "url: https://h:8443",
        "ssl-https-client-certificate-file: Cargo.toml",
        "ssl-https-private-key-file: Cargo.lock",
        "report-parts: summary",
        "percentiles: 50,99.9",
        "  - \"latency<2s\"",
        "  - \"ttft<0.5s\"",
        "report-dir: out",
        "report-prefix: a-",
    ];
    for line in wanted {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    assert!(!text.contains("ignore_eos") && !text.contains("pause"), "{text}");
    let capped = printed(
        Config::of(
            "load: {type: concurrent, stages: [{num_requests: 50, concurrency_level: 8}], num_workers: 2, worker_max_tcp_connections: 3, \
             circuit_breakers: [row]}\ncircuit_breakers:\n  - name: row\n    metrics: {matches: ['error'], rules: ['error != null']}\n    \
             triggers: [{type: consecutive, threshold: 5}]\nserver: {base_url: 'http://h:1', model_name: m}\n",
        )
        .and(&["--print-config"]),
    );
    for line in ["max-connections: 6", "stop-on: \"consecutive>=5\"", "async: true"] {
        assert!(capped.lines().any(|found| found == line), "{line}\n{capped}");
    }
    let mock = printed(
        Config::of("server: {type: mock, base_url: x}\nload: {stages: [{rate: 5, duration: 1}]}")
            .and(&["--print-config"]),
    );
    assert!(mock.contains("service-kind: \"null\"") && !mock.contains("prompt-tokens"), "{mock}");
}

/// As inference-perf prints a configuration of its own.
#[test]
fn keys_without_a_value_are_as_good_as_absent() {
    for data in ["{type: mock", "{type: shared_prefix, shared_prefix: {num_groups: 2}"] {
        let nulls = "input_distribution: null, output_distribution: null, trace: null, otel_trace_replay: null";
        let [plain, with_nulls] = ["}".to_owned(), format!(", {nulls}}}")].map(|end| {
            let text = format!("load: {{stages: [{{rate: 5, duration: 1}}]}}\ndata: {data}{end}");
            printed(Config::of(&text).and(&["-m", "m", "--print-config"]))
        });
        assert_eq!(plain, with_nulls);
    }
}

#[test]
fn what_has_no_counterpart_says_what_would_do() {
    let faults = [
        (
            "load: {type: trace_session_replay, stages: [{num_sessions: 2}]}",
            "FILE:1:45: a stage of the type trace_session_replay needs 'concurrent_sessions'",
        ),
        (
            "load: {duration_seconds: 90}",
            "FILE:1:26: 'load.duration_seconds: 90' has no counterpart: it belongs to llm-d-benchmark's priority-mix harness",
        ),
        (
            "load: {type: steady}",
            "FILE:1:14: 'load.type' takes one of constant, poisson, concurrent, trace_replay, trace_session_replay, not 'steady'",
        ),
        ("load: {stages: [{rate: 0, duration: 1}]}", "FILE:1:24: 'load.stages.rate' must be above 0"),
        (
            "load: {stages: [{rate: 5, duration: 1.5}]}",
            "FILE:1:37: 'load.stages.duration' takes a whole number of at least 1, not '1.5'",
        ),
        ("load: {stages: [{rate: 0.5, duration: 1}]}", "FILE:1:17: 'load.stages' sends nothing"),
        ("load: {stages: []}", "FILE:1:16: 'load.stages' is empty, so nothing would be sent"),
        ("load: {type: concurrent, stages: []}", "FILE:1:34: 'load.stages' is empty, so nothing would be sent"),
        ("load: {stages: [{rate: 5}]}", "FILE:1:17: a stage of the type constant needs 'duration'"),
        (
            "load: {stages: [{rate: 5, duration: 1, num_requests: 4}]}",
            "FILE:1:54: 'load.stages.num_requests: 4' has no counterpart: it belongs",
        ),
        (
            "load: {type: concurrent, sweep: {type: linear}}",
            "FILE:1:33: 'load.sweep' has no counterpart: load.sweep is for rates",
        ),
        (
            "load: {sweep: {type: linear}, stages: [{rate: 1, duration: 1}]}",
            "FILE:1:15: 'load.sweep' finds the rates itself",
        ),
        ("load: {speed: 3}", "FILE:1:8: 'load.speed': this format has no such key"),
        ("data: {speed: 3, trace: null}", "FILE:1:8: 'data.speed': this format has no such key"),
        (
            "load: {request_retries: 2}",
            "FILE:1:25: 'load.request_retries: 2' has no counterpart: a request that fails counts",
        ),
        ("load: {type: trace_replay}", "FILE:1:7: load.type trace_replay needs 'load.trace'"),
        ("lora_traffic_split: [{name: a, split: 0.5}]", "FILE:1:21: the splits sum up to 0.5, not to 1"),
        ("lora_traffic_split: [{name: 'a:b', split: 1}]", "FILE:1:22: the name 'a:b'"),
        ("load: {circuit_breakers: [x]}", "FILE:1:27: no circuit breaker of that name is defined"),
        ("data: {type: shareGPT}", "FILE:1:7: the type shareGPT needs 'data.path': download ShareGPT_V3"),
        ("data: {type: otel_trace_replay}", "FILE:1:7: the type otel_trace_replay needs 'data.otel_trace_replay'"),
        (
            "data: {type: random, input_distribution: {mean: 9}, output_distribution: {mean: 9}, multimodal: {image: {count: {mean: 1}, resolutions: 8k}}}",
            "FILE:1:137: 'data.multimodal.image.resolutions: 8k' is none of 4k, 1080p, 720p, 360p, or a width and a height",
        ),
        ("data: {type: shared_prefix}", "FILE:1:7: the type shared_prefix needs 'data.shared_prefix'"),
        (
            "data: {type: shared_prefix, shared_prefix: {question_len: few}}",
            "FILE:1:59: 'data.shared_prefix.question_len' takes a number of tokens or a distribution",
        ),
        ("data: {type: random}", "FILE:1:7: the type random needs 'data.input_distribution'"),
        ("api: {type: rerank}", "FILE:1:13: 'api.type' takes one of completion, chat, anthropic_messages, embeddings"),
        ("api: {type: embeddings, streaming: true}", "FILE:1:36: 'api.streaming: true' has no counterpart"),
        ("metrics: {type: graphite}", "FILE:1:17: 'metrics.type' takes one of prometheus, default, not 'graphite'"),
        ("tokenizer: {name: x}", "FILE:1:13: 'tokenizer.name': this format has no such key"),
        ("server: {base_url: [1]}", "FILE:1:20: 'server.base_url' takes a text, not a list"),
        (
            "load: {}\nconcurrency-range: 4\n",
            "FILE:2:1: 'concurrency-range': this format has no such key, and takes no triton-bench flags",
        ),
    ];
    for (text, fault) in faults {
        let error = Config::of(text).error(&["-m", "m"]);
        assert!(error.starts_with(fault), "{text}: {error}");
    }
}

#[test]
fn what_a_flag_does_not_take_is_told_with_the_place_of_what_means_it() {
    let faults = [
        (
            "server: {}\nload:\n  stages:\n    - {rate: 1, duration: 99999999999999999999}\n",
            "FILE:4:27: 'load.stages.duration'",
        ),
        ("server: {}\nload:\n  stages:\n    - {rate: 1e99, duration: 1}\n", "FILE:4:7: --stage 'rate:1"),
        (
            "server: {}\nload:\n  interval: 1e9\n  stages: [{rate: 1, duration: 1}, {rate: 2, duration: 1}]\n",
            "FILE:3:13: --stage 'pause:1000000000s'",
        ),
        ("server: {}\nload:\n  num_workers: 99999999\n", "FILE:3:16: --max-threads '99999999'"),
        ("server: {}\nload:\n  request_timeout: 1e-9\n", "FILE:3:20: --client-timeout-us"),
        ("server: {}\nreport:\n  request_lifecycle: {percentiles: [50, 101]}\n", "FILE:3:36: --percentiles '50,101'"),
        ("server: {}\nstorage:\n  local_storage:\n    path: ''\n", "FILE:4:11: --report-dir"),
        ("server: {}\napi:\n  headers:\n    'a b': c\n", "FILE:4:12: -H"),
    ];
    for (text, fault) in faults {
        let error = Config::of(text).error(&["-m", "m"]);
        assert!(error.starts_with(fault), "{text}: {error}");
    }
}

/// Every section that such files have beside the load, none of which changes it.
const COMPLETE: &str = "
load: {type: constant, stages: [{rate: 5, duration: 3}], sweep: null, circuit_breakers: [slow]}
api: {type: completion, streaming: true, slo_unit: ms, session_id_header_key: x-s}
server: {type: vllm, model_name: m, base_url: 'http://h:1', ignore_eos: true}
tokenizer: {pretrained_model_name_or_path: some/model, trust_remote_code: true, token: secret, load_timeout: 60.5}
data: {type: random, input_distribution: {min: 5, max: 9}, output_distribution: {min: 2, max: 3}}
metrics: {type: prometheus, prometheus: {url: 'http://p:9090', scrape_interval: 15, google_managed: false, filters: [], token: t, headers: {a: b}}}
report:
  request_lifecycle: {summary: true, per_stage: true, per_request: true, use_server_output_tokens: false, max_error_messages: 9}
  prometheus: {summary: true, per_stage: true}
  session_lifecycle: {summary: true, per_session: true}
  goodput: {constraints: {ttft: 0.5, tpot: 0.05, itl: 0.06, ntpot: 0.1, request_latency: 2}}
storage:
  local_storage: {path: out}
  google_cloud_storage: {bucket_name: b, path: x}
  simple_storage_service: {bucket_name: b, region_name: r}
circuit_breakers:
  - name: slow
    metrics: {matches: ['latency'], rules: ['latency > 3']}
    triggers: [{type: consecutive, threshold: 5}]
";

#[test]
fn what_does_not_change_the_load_is_noted() {
    let file = Config::of(COMPLETE);
    let plan = file.plan(&[]);
    let notes = plan.notes.join("\n");
    for note in [
        "tokenizer: lengths count words",
        "metrics: read from the model server's own page",
        "api.slo_unit: ms: no effect",
        "api.session_id_header_key: x-s: no effect",
        "storage.google_cloud_storage: no effect",
        "storage.simple_storage_service: no effect",
        "the circuit breaker 'slow' has no effect",
        "report.session_lifecycle.per_session: sessions have files of the whole run",
        "report.prometheus.summary: there is nothing to write",
        "max_error_messages: every reason is counted",
    ] {
        assert!(notes.contains(note), "{note}\n{notes}");
    }
    assert!(!notes.contains("secret"), "{notes}");
    let target = &plan.target;
    assert!(target.metrics.is_some() && target.connection.metrics_url.is_none(), "the URL is not the model server's");
    let triton = file.plan(&["-m", "x", "--service-kind", "triton"]);
    assert!(
        triton.target.metrics.is_none() && triton.notes.join("\n").contains("metrics: no effect, because Prometheus")
    );
    let text = printed(file.and(&["--print-config"]));
    for line in [
        "stage: rate:5:3s",
        "report-dir: out",
        "  - \"tpot<0.05s\"",
        "  - \"ntpot<0.1s\"",
        "prompt-tokens: normal:512:200:5:9",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    let sweep = Config::of("load: {sweep: {type: linear, num_requests: 9, timeout: 60, saturation_percentile: 95}}");
    let notes = sweep.plan(&["-m", "m"]).notes.join("\n");
    for key in ["load.sweep.num_requests: 9", "load.sweep.timeout: 60", "load.sweep.saturation_percentile: 95"] {
        assert!(notes.contains(&format!("{key}: no effect")), "{key}\n{notes}");
    }
    let tokenizer = "tokenizer: {pretrained_model_name_or_path: Cargo.toml}\nload: {}";
    assert!(Config::of(tokenizer).plan(&["-m", "m"]).notes.join("\n").contains("tokenizer: lengths count words"));
}

/// What PyYAML makes of a file: merge keys, and the words of YAML 1.1.
#[test]
fn yaml_means_what_it_means_to_inference_perf() {
    let file = "load:\n  stages:\n    - &first {rate: 5, duration: 3}\n    - {<<: *first, rate: 7}\napi: {type: chat, streaming: STREAMS}\n";
    let text = |word: &str| printed(Config::of(&file.replace("STREAMS", word)).and(&["-m", "m", "--print-config"]));
    for (word, streams) in [("no", false), ("Off", false), ("yes", true), ("true", true)] {
        let text = text(word);
        assert_eq!(text.contains("streaming: true"), streams, "{word}\n{text}");
        assert!(text.contains("- rate:5:3s\n") && text.contains("- rate:7:3s\n"), "{text}");
    }
    let schema = "load: {}\napi: {type: chat, response_format: {json_schema: {type: object, properties: {z: {minimum: 1}, a: {}}}}}";
    assert_eq!(
        Config::of(schema).plan(&["-m", "m"]).target.openai.response_format.unwrap(),
        r#"{"type":"json_schema","json_schema":{"name":"structured_output","schema":{"type":"object","properties":{"z":{"minimum":1},"a":{}}}}}"#,
        "in the file's order"
    );
    let empty = Config::of("load: {stages: [], sweep: {type: linear}}");
    assert!(printed(empty.and(&["-m", "m", "--print-config"])).contains("sweep: linear:5"));
}

#[test]
fn a_load_is_a_load_over_every_service() {
    use triton_bench::plan::ServiceKind;
    use triton_bench::terms::{LoadMode, Stage, StageEdges, StageLength, StageLoad};
    let loads = [
        "load: {type: poisson, stages: [{rate: 5, duration: 1}, {rate: 9, duration: 1}], base_seed: 7}",
        "load: {type: concurrent, stages: [{num_requests: 9, concurrency_level: 3}]}",
        "load: {sweep: {type: geometric, num_stages: 4}, num_workers: 2, worker_max_tcp_connections: 3, request_timeout: 2}",
        "load: {type: trace_replay, trace: {file: TRACE}, stages: [{rate: 1, duration: 9}]}",
        "load: {stages: [{rate: 5, duration: 1}], lora_traffic_split: [{name: a, split: 0.75}, {name: b, split: 0.25}]}",
        COMPLETE,
    ];
    let trace = fixtures().join("traces/traces.csv");
    for load in loads {
        let load = load.replace("TRACE", &trace.display().to_string());
        for (words, kind) in [
            ("-m x --service-kind triton_c_api --model-repository /r", ServiceKind::TritonCApi),
            ("-m x --model-repository /r", ServiceKind::TritonCApi),
            ("-m x --service-kind triton", ServiceKind::Triton),
            ("-m x", ServiceKind::OpenAi),
        ] {
            let words: Vec<&str> = words.split(' ').collect();
            let plan = Config::of(&load).plan(&words);
            assert_eq!(plan.target.service, kind, "{load}");
            let is_mixed = load.contains("lora");
            let mix: Vec<&str> = plan.target.mix.iter().map(|entry| entry.model.name.as_str()).collect();
            assert_eq!(mix, if is_mixed { vec!["a", "b"] } else { vec![] }, "{load}");
            assert_eq!(plan.notes.join("\n").contains("-m has no effect"), is_mixed, "{:?}", plan.notes);
            if !is_mixed {
                assert_eq!(plan.target.model.name, "x");
            }
            assert!(!matches!(plan.load.mode, LoadMode::Concurrency(_)), "{load}");
        }
    }
    let stages = "stages: [{rate: 1, duration: 9}, {rate: 2, duration: 9}]";
    let replay = |rest: &str| {
        let file = trace.display();
        Config::of(&format!(
            "load: {{type: trace_replay, trace: {{file: {file}}}, {}",
            rest.replace("TRACE", &file.to_string())
        ))
    };
    let once = replay("stages: [{rate: 1.5, duration: 3.0}]}").plan(&["-m", "x"]);
    assert_eq!(once.measurement.request_count, Some(4), "without lengths of a trace, rate times duration are sent");
    assert!(
        once.notes.iter().any(|note| note.contains("the first 4 requests of the trace are sent")),
        "{:?}",
        once.notes
    );
    let with_lengths = "stages: [{rate: 1.5, duration: 3}]}\ndata: {type: random, trace: {file: TRACE}}";
    assert_eq!(replay(with_lengths).plan(&["-m", "x"]).measurement.request_count, None, "then the whole is");
    assert!(replay("stages: [{rate: 0.1, duration: 3}]}").error(&["-m", "x"]).contains("'load.stages' sends nothing"));
    let both = replay(&format!("{stages}}}")).plan(&["-m", "x"]);
    let rows = fs::read_to_string(&trace).unwrap().lines().count() - 1;
    let parts = "each stage sends the first requests of the trace, rate × duration of them (9, 18)";
    let fewer = format!("the trace has {rows} requests, so a stage that asks for more sends these");
    for note in [parts, &fewer] {
        assert!(both.notes.iter().any(|found| found.contains(note)), "{note}\n{:?}", both.notes);
    }
    let of_trace = |rest: &str| {
        let file = trace.display();
        let text = format!("load: {{type: trace_replay, interval: 2, trace: {{file: {file}}}, {rest}");
        match Config::of(&text.replace("TRACE", &file.to_string())).plan(&["-m", "x"]).load.mode {
            LoadMode::Stages { stages, edges, trace: Some(recording), .. } => {
                let wanted = if stages.len() > 1 { StageEdges::Drain } else { StageEdges::Overlap };
                assert_eq!((edges, recording.file), (wanted, trace.clone()));
                stages
            }
            mode => panic!("each stage replays the trace: {mode:?}"),
        }
    };
    let stage =
        |length, pause| Stage { load: StageLoad::Replay { speed: 1.0 }, length, pause: Duration::from_secs(pause) };
    let first = StageLength::Requests;
    assert_eq!(of_trace(&format!("{stages}}}")), [stage(first(9), 0), stage(first(18), 2)]);
    let with_empty = "stages: [{rate: 0.1, duration: 9}, {rate: 2, duration: 1}]}";
    assert_eq!(of_trace(with_empty), [stage(first(2), 0)], "nothing is sent in the first");
    let whole = format!("{stages}}}\ndata: {{type: random, trace: {{file: TRACE}}}}");
    assert_eq!(of_trace(&whole), [stage(StageLength::Recorded, 0), stage(StageLength::Recorded, 2)]);
    let empty = "stages: [{rate: 0.1, duration: 3}, {rate: 0.1, duration: 2}]}";
    assert!(replay(empty).error(&["-m", "x"]).contains("'load.stages' sends nothing"));
    let lengths = format!("load: {{type: trace_replay, trace: {{file: {}}}}}", trace.display());
    let words = ["-m", "x", "--model-repository", "/r", "--trace-input", "IDS"];
    assert!(Config::of(&lengths).plan(&words).load.tokens().is_some(), "the trace's lengths, over tensors");
    let text = "load: {stages: [{rate: 5, duration: 1}]}\ndata: {type: random, trace: {file: FILE}}";
    let over_tokens = Config::of(&text.replace("FILE", &trace.display().to_string())).plan(&words);
    assert!(
        over_tokens.load.lengths.is_some()
            && over_tokens.notes.iter().any(|note| note.starts_with("data: for servers of language"))
    );
}

#[test]
fn an_output_of_0_tokens_is_the_usual_limit() {
    let file = "load: {stages: [{rate: 5, duration: 1_0.0}]}\ndata: {type: shared_prefix, shared_prefix: {output_len: 0, question_len: 20.0}}";
    let text = printed(Config::of(file).and(&["-m", "m", "--print-config"]));
    for line in ["output-tokens: 30", "prompt-tokens: 20", "stage: rate:5:10s"] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

#[test]
fn prompts_share_prefixes_as_the_file_says() {
    let file = "
data:
  type: shared_prefix
  shared_prefix: {num_groups: 3, num_prompts_per_group: 4, system_prompt_len: 20, question_len: 6, output_len: 5}
load: {type: concurrent, stages: [{num_requests: 24, concurrency_level: 2}]}
";
    let prompts = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let log = std::sync::Arc::clone(&prompts);
    let server = HttpServer::start(move |request: &Received| {
        let document: Value = serde_json::from_slice(&request.body).unwrap();
        assert_eq!(document["max_tokens"], 5);
        log.lock().unwrap().push(document["prompt"].as_str().unwrap().to_owned());
        generated(request)
    });
    let file = Config::of(file);
    let run = crate::support::Program::new().args("-m m --report-dir").arg(file.path().parent().unwrap().join("r"));
    let run = run.args("--config").arg(file.path()).args("-u").arg(server.url()).run();
    assert_eq!(run.code(), 0, "{} {}", run.stdout, run.stderr);
    let prompts = prompts.lock().unwrap();
    let mut groups = std::collections::HashMap::<String, std::collections::HashSet<String>>::new();
    for prompt in prompts.iter() {
        let words: Vec<&str> = prompt.split(' ').collect();
        assert_eq!(words.len(), 26);
        groups.entry(words[..20].join(" ")).or_default().insert(words[20..].join(" "));
    }
    assert_eq!((prompts.len(), groups.len()), (24, 3));
    assert!(groups.values().all(|questions| questions.len() == 4), "{groups:?}");
}

#[test]
fn a_data_set_on_this_machine_is_sent_with_the_length_of_its_answers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sharegpt.json");
    let conversation = |prompt: &str, answer: &str| serde_json::json!({"conversations": [{"from": "human", "value": prompt}, {"from": "gpt", "value": answer}]});
    let set = serde_json::json!([
        conversation("how \"are\" you now", "fine"),
        conversation("x", "too short a prompt"),
        conversation("say a b c", "a b c")
    ]);
    fs::write(&path, set.to_string()).unwrap();
    let server = HttpServer::start(|request: &Received| {
        let document: Value = serde_json::from_slice(&request.body).unwrap();
        let sent = (document["prompt"].as_str().unwrap(), document["max_tokens"].as_u64().unwrap());
        assert!([("how \"are\" you now", 1), ("say a b c", 3)].contains(&sent), "{sent:?}");
        generated(request)
    });
    let file = Config::of(&format!(
        "data: {{type: shareGPT, path: {}, input_distribution: {{min: 2, max: 100}}}}\nload: {{type: concurrent, stages: [{{num_requests: 8, \
         concurrency_level: 2}}]}}",
        path.display()
    ));
    let run = crate::support::Program::new().args("-m m --report-dir").arg(folder.path().join("r"));
    let run = run.args("--config").arg(file.path()).args("-u").arg(server.url()).run();
    assert_eq!(run.code(), 0, "{} {}", run.stdout, run.stderr);
    let sum = report(&folder.path().join("r"), "summary_lifecycle_metrics.json");
    assert_eq!(sum["successes"]["count"], 8);
}

/// Answers as a service does that generates two tokens.
fn generated(request: &Received) -> Vec<Act> {
    assert!(request.head.starts_with("POST /v1/completions "), "{}", request.head);
    let body =
        r#"{"choices":[{"text":"hi","finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#;
    vec![Act::Send(reply("200 OK", "Content-Type: application/json\r\n", body.as_bytes()))]
}

/// Runs a file as it stands against a server, and tells the folder of reports and what was said.
fn run(name: &str, further: &[&str]) -> (TempDir, PathBuf, String) {
    let server = HttpServer::start(generated);
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("traces")).unwrap();
    fs::copy(fixtures().join("traces/traces.csv"), folder.path().join("traces/traces.csv")).unwrap();
    let mut process = Process::new(env!("CARGO_BIN_EXE_triton-bench"));
    process
        .current_dir(folder.path())
        .arg("--config")
        .arg(fixtures().join(name))
        .args(["-u", &server.url()])
        .args(further);
    let output = process.output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let reports = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let reports = reports.into_iter().find(|path| path.file_name().unwrap().to_string_lossy().starts_with("reports-"));
    (folder, reports.unwrap_or_else(|| panic!("no reports: {text}")), text)
}

fn report(folder: &Path, name: &str) -> Value {
    let text = fs::read_to_string(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    serde_json::from_str(&text).unwrap()
}

/// It needs all processors in time.
mod alone {
    use super::*;

    /// What inference-perf 0.7 reports of this file and server: of every request that a stage sent, wherever it ends; the rate over
    /// the time from the first send to the last, and throughput over that to the last answer.
    #[test]
    fn timed_figures_of_a_stage_are_those_of_inference_perf() {
        let took = |ordinal: usize| 200 + 40 * (ordinal as u64 % 20);
        let server = HttpServer::start(move |request: &Received| {
            let text = "data: {\"choices\":[{\"text\":\"a\"}]}\n\n".repeat(2);
            let usage = "data: {\"choices\":[],\"usage\":{\"completion_tokens\":2}}\n\ndata: [DONE]\n\n";
            let body = format!("{text}{usage}");
            let head = "Content-Type: text/event-stream\r\n";
            vec![
                Act::Wait(Duration::from_millis(took(request.ordinal))),
                Act::Send(reply("200 OK", head, body.as_bytes())),
            ]
        });
        let file = Config::of(
            "load: {interval: 0, stages: [{rate: 20, duration: 2}, {rate: 20, duration: 1}]}\napi: {streaming: true}\n",
        );
        let reports = file.path().parent().unwrap().join("reports");
        let run = crate::support::Program::new().args("-m m --report-dir").arg(&reports);
        let run = run.args("--config").arg(file.path()).args("-u").arg(server.url()).run();
        run.report_even_if_late();
        for (stage, ordinals, sending) in [(0, 0..40, 1.95), (1, 40..60, 0.95)] {
            let stage = report(&reports, &format!("stage_{stage}_lifecycle_metrics.json"));
            let requests = ordinals.len() as f64;
            let mean = ordinals.clone().map(took).sum::<u64>() as f64 / requests / 1e3;
            let last =
                ordinals.clone().map(|ordinal| 50 * (ordinal - ordinals.start) as u64 + took(ordinal)).max().unwrap();
            let successes = &stage["successes"];
            let close = |value: &Value, wanted: f64| {
                let value = value.as_f64().unwrap();
                assert!((value / wanted - 1.0).abs() < 0.06, "{value} instead of {wanted}: {stage}");
            };
            assert_eq!(
                (&successes["count"], &stage["load_summary"]["count"]),
                (&json!(requests as u64), &json!(requests as u64))
            );
            close(&successes["latency"]["request_latency"]["mean"], mean);
            close(&successes["latency"]["normalized_time_per_output_token"]["mean"], mean / 2.0);
            close(&stage["load_summary"]["achieved_rate"], requests / sending);
            close(&successes["throughput"]["requests_per_sec"], requests / (last as f64 / 1e3));
        }
    }
}

#[test]
fn stages_of_a_concurrency_run_as_they_stand() {
    let (_folder, reports, output) = run("concurrent.yaml", &["-m", "m"]);
    for (stage, requests, concurrency) in [(0, 1000, 32), (1, 2000, 64)] {
        let stage = report(&reports, &format!("stage_{stage}_lifecycle_metrics.json"));
        assert_eq!(
            (&stage["successes"]["count"], &stage["failures"]["count"]),
            (&requests.into(), &0.into()),
            "{output}"
        );
        assert_eq!(stage["load_summary"]["concurrency"], concurrency);
    }
    let sum = report(&reports, "summary_lifecycle_metrics.json");
    assert_eq!(sum["successes"]["count"], 3000);
    assert_eq!(sum["successes"]["output_tokens"]["total"], 6000);
}

#[test]
fn a_part_of_a_file_and_a_trace_run_as_they_stand() {
    let (_folder, reports, output) = run("split_rollout.yaml", &["--request-count", "200", "--seed", "1"]);
    let counts = ["stable", "experimental"].map(|adapter| {
        report(&reports, &format!("adapter_{adapter}_lifecycle_metrics.json"))["successes"]["count"].as_u64().unwrap()
    });
    assert_eq!(counts[0] + counts[1], 200, "{output}");
    assert!(counts[0] > 5 * counts[1], "{counts:?}");

    let (_folder, reports, output) = run("trace_times.yaml", &["-m", "m"]);
    let stage = report(&reports, "stage_0_lifecycle_metrics.json");
    assert_eq!(stage["successes"]["count"], 2, "{output}");
    let sending = stage["load_summary"]["send_duration"].as_f64().unwrap();
    assert!(sending > 5.0, "{sending}");

    let (_folder, reports, output) =
        run("report.yaml", &["-m", "m", "--request-count", "50", "--report-parts", "summary,requests"]);
    let requests = report(&reports, "per_request_lifecycle_metrics.json");
    let requests = requests.as_array().unwrap();
    assert_eq!(requests.len(), 50, "{output}");
    assert!(
        requests.iter().all(|request| request["end_time"].as_f64() > request["start_time"].as_f64()),
        "{requests:?}"
    );
}

#[test]
fn lengths_of_a_trace_are_sent_under_any_load() {
    let server = HttpServer::start(|request: &Received| {
        let document: Value = serde_json::from_slice(&request.body).unwrap();
        let (words, most) =
            (document["prompt"].as_str().unwrap().split(' ').count(), document["max_tokens"].as_u64().unwrap());
        assert!([(150, 200), (300, 150)].contains(&(words, most)), "{words} {most}");
        assert_eq!(document["ignore_eos"], true);
        generated(request)
    });
    let file = fixture("trace_lengths.yaml");
    let run = crate::support::Program::new().args("-m m --request-count 40 --report-dir");
    let run = run.arg(file.path().parent().unwrap().join("reports")).args("--config").arg(file.path());
    let run = run.args("-u").arg(server.url()).run();
    assert_eq!(run.code(), 0, "{} {}", run.stdout, run.stderr);
    let sum = report(&file.path().parent().unwrap().join("reports"), "summary_lifecycle_metrics.json");
    assert_eq!((&sum["successes"]["count"], &sum["failures"]["count"]), (&40.into(), &0.into()));
}

#[test]
fn timed_failures_end_a_run() {
    let server = HttpServer::start(|request: &Received| match request.ordinal % 2 {
        0 => generated(request),
        _ => vec![Act::Send(reply("500 Oops", "", b""))],
    });
    let file = Config::of("load: {stages: [{rate: 50, duration: 60}, {rate: 60, duration: 60}]}");
    let reports = file.path().parent().unwrap().join("reports");
    let run = crate::support::Program::new()
        .args("-m m --stop-on")
        .arg("errors>10% over 1s")
        .args("--report-dir")
        .arg(&reports);
    let run = run.args("--config").arg(file.path()).args("-u").arg(server.url()).run();
    assert_eq!(run.code(), 3, "{} {}", run.stdout, run.stderr);
    assert!(run.stderr.contains("--stop-on 'errors>10% over 1s': "), "{}", run.stderr);
    let stage = report(&reports, "stage_0_lifecycle_metrics.json");
    assert!(stage["failures"]["by_label"].as_object().unwrap().len() == 1, "{stage}");
    assert!(!reports.join("stage_1_lifecycle_metrics.json").exists());
}

#[test]
fn failures_in_a_row_end_a_run_and_others_do_not() {
    use crate::support::http_server::{Act, HttpServer, good_answer, reply};
    let scripted = |script: fn(usize) -> bool| {
        HttpServer::start(move |request| match script(request.ordinal) {
            true => vec![Act::Send(reply("500 Oops", "", b""))],
            false => vec![Act::Send(good_answer())],
        })
    };
    let run = |server: &HttpServer, rule: &str| {
        let program =
            crate::support::Program::new().args("-m m --request-count 400 --max-errors 100% --stop-on").arg(rule);
        program.args("-u").arg(server.url()).run()
    };
    let broken = run(&scripted(|ordinal| ordinal >= 50), "consecutive>10");
    assert!(broken.stderr.contains("--stop-on 'consecutive>=11': "), "{}", broken.stderr);
    assert!(broken.stderr.contains("requests failed in a row; the run ends"), "{}", broken.stderr);
    let shaky = run(&scripted(|ordinal| ordinal % 8 != 7), "consecutive>10");
    assert_eq!(shaky.code(), 0, "{} {}", shaky.stdout, shaky.stderr);
    assert!(!shaky.stderr.contains("--stop-on"), "seven of eight fail, but never eleven in a row: {}", shaky.stderr);
}

#[test]
fn connections_are_no_more_than_asked_for_and_are_told() {
    use crate::support::http_server::{Act, HttpServer, good_answer};
    let server = HttpServer::start(|_| vec![Act::Wait(std::time::Duration::from_millis(1)), Act::Send(good_answer())]);
    let folder = tempfile::tempdir().unwrap();
    let summary = folder.path().join("s.json");
    let load = "-m m --async --concurrency-range 6 --request-count 60 --max-trials 1 --max-connections 2";
    let program = crate::support::Program::new().args(load).arg("-u").arg(server.url());
    let run = program.arg("--summary-file").arg(&summary).run();
    let document: serde_json::Value = serde_json::from_str(&fs::read_to_string(&summary).expect(&run.stderr)).unwrap();
    let level = &document["levels"][0];
    assert_eq!((&level["connections"], &document["max_connections"]), (&2.into(), &2.into()), "{}", run.stderr);
    assert!(level["threads"].as_u64().is_some_and(|threads| (1..=2).contains(&threads)), "{}", level["threads"]);
    assert!(document["ended"].as_str() > document["began"].as_str(), "{} {}", document["began"], document["ended"]);
}
