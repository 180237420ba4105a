//! `--collect-metrics`: what the server's own page tells of its load beside the run.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::*;

/// Answers after 10 ms.
fn steady(request: &Received) -> Vec<Act> {
    [vec![Act::Wait(Duration::from_millis(10))], answer(request)].concat()
}

fn page(text: &str) -> Vec<u8> {
    http_server::reply("200 OK", "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n", text.as_bytes())
}

/// A page as vLLM has it, with other figures beside.
fn vllm(running: u32, waiting: u32, kv_cache: f64) -> Vec<u8> {
    page(&format!(
        "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{{engine=\"0\",model_name=\"m\"}} {running}.0\n\
         # TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting{{engine=\"0\",model_name=\"m\"}} {waiting}.0\n\
         # TYPE vllm:kv_cache_usage_perc gauge\nvllm:kv_cache_usage_perc{{engine=\"0\",model_name=\"m\"}} {kv_cache}\n\
         vllm:prompt_tokens_total{{engine=\"0\",model_name=\"m\"}} 1.2e+06\npython_info{{version=\"3.12\"}} 1.0\n"
    ))
}

const COLLECT: &str = "--collect-metrics --metrics-interval 10 -p 300 -s 1000000";

/// The page was read `least` times, and nothing else was asked.
fn reads(server: &HttpServer, path: &str, least: usize) {
    let others = server.others();
    let line = format!("GET {path} HTTP/1.1");
    assert!(others.iter().all(|request| request.head.starts_with(&line)), "{others:?}");
    assert!(others.len() >= least, "{}", others.len());
}

#[test]
fn requests_and_the_cache_are_told_per_level() {
    let payloads = Payloads::of(&[CHAT]);
    let server = HttpServer::start(steady);
    let (few, many) = (vllm(4, 0, 0.25), vllm(16, 3, 0.75));
    server.answer_instead("/metrics", few.clone());
    let program = payloads.on(&server).args(COLLECT).args("-H X-Key:k --summary-file").arg(payloads.path("r.json"));
    let program = program.arg("--report").arg(payloads.path("r.html"));
    let over = AtomicBool::new(false);
    let run = thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..3000 {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                server.answer_instead("/metrics", if number % 2 == 0 { many.clone() } else { few.clone() });
                thread::sleep(Duration::from_millis(20));
            }
        });
        let run = program.run();
        over.store(true, Ordering::Relaxed);
        run
    });
    run.report();
    let line = run.stdout.lines().find(|line| line.starts_with("  Server load: ")).expect("it is told");
    for part in ["running avg ", "(max 16), waiting avg ", "(max 3), KV cache avg ", " % (max 75 %)"] {
        assert!(line.contains(part), "{line}");
    }
    assert!(!run.stdout.contains("Prometheus") && !run.stderr.contains("--collect-metrics"), "{}", run.stderr);
    let result: Value = serde_json::from_slice(&std::fs::read(payloads.path("r.json")).unwrap()).unwrap();
    let load = &result["levels"][0]["host"]["load"];
    for (figure, low, high) in [("running", 4.0, 16.0), ("waiting", 0.0, 3.0), ("kv_cache", 0.25, 0.75)] {
        let (mean, max) = (load[figure]["mean"].as_f64().unwrap(), load[figure]["max"].as_f64().unwrap());
        assert!(max == high && mean > low && mean < high, "{figure}: {mean} {max}");
    }
    let html = std::fs::read_to_string(payloads.path("r.html")).unwrap();
    assert!(html.contains(line.trim_start_matches("  Server load: ")), "{line}");
    reads(&server, "/metrics", 10);
    assert!(server.others().iter().all(|request| request.field("x-key") == Some("k")), "it is the same server");
}

#[test]
fn a_server_without_such_a_page_is_noted_and_measured() {
    let payloads = Payloads::of(&[CHAT]);
    let server = HttpServer::start(steady);
    for (instead, note) in [
        (
            page("python_info{version=\"3.12\"} 1.0\n"),
            "the page has no figures of vLLM's, SGLang's or TGI's load so far",
        ),
        (page(""), "the page has no figures"),
        (http_server::reply("404 Not Found", "", b""), "HTTP 404"),
    ] {
        server.answer_instead("/metrics", instead);
        let run = payloads.on(&server).args(COLLECT).run();
        run.report();
        assert!(!run.stdout.contains("Server load") && !run.stdout.contains("Prometheus"), "{}", run.stdout);
        let notes: Vec<&str> = run.stderr.lines().filter(|line| line.contains("--collect-metrics: ")).collect();
        assert!(matches!(notes[..], [only] if only.contains(note) && only.contains("--metrics-url")), "{}", run.stderr);
    }
}

#[test]
fn another_page_is_named_and_gets_no_credentials() {
    let payloads = Payloads::of(&[CHAT]);
    let (server, beside) = (HttpServer::start(steady), HttpServer::start(steady));
    beside.answer_instead("/tgi/metrics", page("tgi_queue_size 2\ntgi_batch_current_size 5\n"));
    let url = format!("--metrics-url {}/tgi/metrics -H Authorization:secret", beside.url());
    let run = payloads.on(&server).args(COLLECT).args(&url).run();
    run.report();
    assert!(run.stdout.contains("  Server load: running avg 5 (max 5), waiting avg 2 (max 2)\n"), "{}", run.stdout);
    reads(&beside, "/tgi/metrics", 10);
    assert!(
        server.others().is_empty() && beside.others().iter().all(|request| request.field("authorization").is_none())
    );
}

#[test]
fn several_servers_add_up() {
    let payloads = Payloads::of(&[CHAT]);
    let (first, second) = (HttpServer::start(steady), HttpServer::start(steady));
    first.answer_instead("/metrics", vllm(4, 1, 0.25));
    second.answer_instead("/metrics", vllm(16, 0, 0.5));
    let run = payloads.on(&first).args("-u").arg(second.url()).args("--concurrency-range 2").args(COLLECT).run();
    run.report();
    let line = "  Server load: running avg 20 (max 20), waiting avg 1 (max 1), KV cache avg 50 % (max 50 %)\n";
    assert!(run.stdout.contains(line), "{}", run.stdout);
}

#[test]
fn an_inference_perf_file_with_metrics_reads_the_servers_own_page() {
    let payloads = Payloads::of(&[CHAT]);
    let server = HttpServer::start(steady);
    server.answer_instead("/metrics", vllm(4, 1, 0.5));
    let file = "load: {type: concurrent, stages: [{num_requests: 40, concurrency_level: 2}]}\n\
        metrics: {type: prometheus, prometheus: {google_managed: true, scrape_interval: 15}}\n";
    std::fs::write(payloads.path("load.yaml"), file).unwrap();
    let run = Program::new().args("-m m --report-dir").arg(payloads.path("reports"));
    let run = run.arg("--config").arg(payloads.path("load.yaml")).args("-u").arg(server.url()).run();
    assert_eq!(run.code(), 0, "{}\n{}", run.stdout, run.stderr);
    assert!(run.stdout.contains("Server load: running avg 4 (max 4), waiting avg 1"), "{}", run.stdout);
    assert!(run.stderr.contains("no Prometheus server is queried"), "{}", run.stderr);
    reads(&server, "/metrics", 2);
}
