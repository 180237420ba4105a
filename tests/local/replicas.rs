//! Several `-u`: requests are spread over servers without a balancer, with figures of each and of all together.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::Program;
use crate::support::http_server::{Act, HttpServer, Received, good_answer, reply};

/// A server that answers after that time.
fn slow(ms: u64) -> HttpServer {
    HttpServer::start(move |_: &Received| vec![Act::Wait(Duration::from_millis(ms)), Act::Send(good_answer())])
}

/// The program on these servers.
fn on(servers: &[&HttpServer]) -> Program {
    let program = Program::new().args("-m m --on-disturbance ignore");
    servers.iter().fold(program, |program, server| program.args("-u").arg(server.url()))
}

fn counts(servers: &[&HttpServer]) -> Vec<usize> {
    servers.iter().map(|server| server.inferences()).collect()
}

/// Runs, and returns the one level of its result, with the result's setup.
fn level_of(program: Program) -> (Value, Value) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("s.json");
    program.args("--summary-file").arg(&file).run().report_even_if_late();
    let mut result: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    (result["levels"][0].take(), result.take())
}

#[test]
fn requests_go_round_whatever_the_load() {
    for load in [
        "--sync",
        "--sync --concurrency-range 4",
        "--async --concurrency-range 1",
        "--async --concurrency-range 7",
        "--request-rate-range 300",
    ] {
        let servers = [slow(1), slow(2), slow(0)];
        let servers = servers.iter().collect::<Vec<_>>();
        let (level, setup) = level_of(on(&servers).args(&format!("--request-count 300 {load}")));
        assert_eq!(counts(&servers), [100, 100, 100], "{load}");
        let client = &level["client"];
        let requests: Vec<_> =
            client["servers"].as_array().unwrap().iter().map(|server| server["requests"].clone()).collect();
        assert_eq!(
            (&requests[..], &client["requests"]),
            (&[100, 100, 100].map(Value::from)[..], &300.into()),
            "{load}"
        );
        let addresses: Vec<_> = servers.iter().map(|server| server.url()).collect();
        assert_eq!(setup["servers"], json!(addresses), "{load}");
    }
}

#[test]
fn a_list_with_commas_names_several_and_the_report_has_each() {
    let (near, far) = (slow(0), slow(20));
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let run = Program::new()
        .args("-m m --on-disturbance ignore --request-count 40 --concurrency-range 4 -f")
        .arg(path("out.csv"))
        .args("--report")
        .arg(path("out.html"))
        .args("-u")
        .arg(format!("{},{}", near.url(), far.url()))
        .run();
    let report = run.report();
    let (_, block) = report.text.split_once("    Servers:\n").expect(&report.text);
    let lines: Vec<_> = block.lines().take(4).collect();
    for (line, server) in [(lines[0], &near), (lines[2], &far)] {
        let expected = format!("      {}: 20 requests (50.00% of all), ", server.url());
        assert!(line.starts_with(&expected) && line.ends_with(" 0 failed"), "{line:?} {expected:?}");
    }
    let mean = |line: &str| {
        let number = line.split_whitespace().find_map(|word| word.parse::<f64>().ok());
        number.unwrap_or_else(|| panic!("{line}"))
    };
    assert!(mean(lines[3]) > 20_000.0 && mean(lines[1]) < mean(lines[3]), "{lines:?}");
    let csv = std::fs::read_to_string(path("out.csv")).unwrap();
    let [titles, cells] = [0, 1].map(|row| csv.lines().nth(row).unwrap().split(',').collect::<Vec<_>>());
    let cell = |title: String| cells[titles.iter().position(|other| *other == title).expect(&title)];
    for server in [&near, &far] {
        assert_eq!(cell(format!("{} Failed Requests", server.url())), "0");
    }
    let latency = |server: &HttpServer| cell(format!("{} p50 latency", server.url())).parse::<u64>().unwrap();
    assert!(latency(&far) >= 20_000 && latency(&near) < latency(&far), "{csv}");
    let page = std::fs::read_to_string(path("out.html")).unwrap();
    let (_, section) = page.split_once("id=\"servers\"").expect("the page has no servers");
    let (section, _) = section.split_once("</section>").unwrap();
    assert!([&near, &far].iter().all(|server| section.contains(&server.url())), "{section}");
    assert_eq!(section.matches(">50 %<").count(), 2, "{section}");
}

#[test]
fn the_server_with_the_fewest_requests_gets_more_and_sticky_slots_stay() {
    let servers = [slow(1), slow(40)];
    let servers = servers.iter().collect::<Vec<_>>();
    let load = "--async --concurrency-range 8 --request-count 400";
    let (level, _) = level_of(on(&servers).args(&format!("{load} --spread least-outstanding")));
    let spread = counts(&servers);
    assert!(spread[0] > 5 * spread[1], "{spread:?}");
    let of_each = level["client"]["servers"].as_array().unwrap().clone();
    assert_eq!(of_each.iter().map(|server| server["requests"].as_u64().unwrap()).sum::<u64>(), 400);
    let servers = [slow(1), slow(40)];
    let servers = servers.iter().collect::<Vec<_>>();
    let run = on(&servers).args("--sync --concurrency-range 6 --request-count 300 --spread sticky").run();
    run.report();
    assert_eq!(run.stdout.matches(" requests (").count(), 2, "{}", run.stdout);
    // Each of six users keeps its server, so the fast one serves more.
    assert!(counts(&servers)[0] > 5 * counts(&servers)[1], "{:?}", counts(&servers));
    assert!(servers.iter().all(|server| server.connections() <= 5), "three users each, and questions beside the load");
}

#[test]
fn failures_are_those_of_their_server() {
    let good = slow(0);
    let bad = HttpServer::start(|_: &Received| vec![Act::Send(reply("503 Busy", "", b"{\"error\":\"busy\"}"))]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("s.json");
    let run = on(&[&good, &bad]).args("--request-count 100 --concurrency-range 3 --summary-file").arg(&file).run();
    assert_eq!(run.code(), 3, "{run:#?}");
    let result: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let client = &result["levels"][0]["client"];
    let values =
        |key: &str| client["servers"].as_array().unwrap().iter().map(|server| server[key].clone()).collect::<Vec<_>>();
    assert_eq!((values("requests"), values("failed")), (vec![50.into(), 0.into()], vec![0.into(), 50.into()]));
    assert_eq!((&client["requests"], &client["failed"]), (&50.into(), &50.into()));
}

#[test]
fn a_server_that_dies_costs_only_its_own_requests() {
    let (good, mut bad) = (slow(2), slow(2));
    let url = bad.url();
    let running = on(&[&good, &bad]).args("-p 300 -r 3 -s 900 --concurrency-range 4").start();
    while bad.inferences() < 50 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let before = good.inferences();
    bad.kill();
    let run = running.finish();
    assert!(good.inferences() > before + 20, "{run:#?}");
    let line = run.stdout.lines().find(|line| line.contains(&format!("{url}: "))).expect(&run.stdout);
    assert!(!line.ends_with(" 0 failed"), "{line}");
}

/// The messages of conversations by server, as they came.
type Routes = Arc<Mutex<HashMap<String, HashSet<usize>>>>;

#[test]
fn sessions_stay_on_their_server() {
    let received = Routes::default();
    let server = |number: usize| {
        let received = Arc::clone(&received);
        HttpServer::start(move |request: &Received| {
            let body: Value = serde_json::from_slice(&request.body).unwrap();
            let first = body["messages"][0]["content"].as_str().unwrap().to_owned();
            received.lock().unwrap().entry(first).or_default().insert(number);
            let message = json!({ "role": "assistant", "content": "yes" });
            let body = json!({ "choices": [{ "message": message, "finish_reason": "stop" }] }).to_string();
            vec![Act::Send(reply("200 OK", "Content-Type: application/json\r\n", body.as_bytes()))]
        })
    };
    let servers = [server(0), server(1)];
    let step = |session: usize, turn: usize| {
        let message = json!({ "role": "user", "content": format!("{session}/{turn}") });
        json!({ "payload": [{ "model": "m", "messages": [message] }], "session_id": [format!("s{session}")] })
    };
    let steps: Vec<_> = (0..8).flat_map(|session| (0..5).map(move |turn| step(session, turn))).collect();
    let folder = tempfile::tempdir().unwrap();
    let (data, file) = (folder.path().join("d.json"), folder.path().join("s.json"));
    std::fs::write(&data, json!({ "data": steps }).to_string()).unwrap();
    for spread in ["round-robin", "least-outstanding", "sticky"] {
        received.lock().unwrap().clear();
        on(&[&servers[0], &servers[1]])
            .args("--service-kind openai --endpoint v1/chat/completions --session-concurrency 3 --input-data")
            .arg(&data)
            .args(&format!("--spread {spread} --summary-file"))
            .arg(&file)
            .run()
            .report();
        let received = received.lock().unwrap();
        assert_eq!(received.len(), 8, "{spread}");
        assert!(received.values().all(|servers| servers.len() == 1), "{spread}: {received:?}");
        let used: HashSet<_> = received.values().flatten().collect();
        assert_eq!(used.len(), 2, "{spread}");
        let result: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let client = &result["levels"][0]["client"];
        let served: u64 =
            client["servers"].as_array().unwrap().iter().map(|server| server["requests"].as_u64().unwrap()).sum();
        assert_eq!((served, client["entries"].as_array().unwrap().len()), (40, 5), "{spread}: servers and turns");
    }
}

#[test]
fn statistics_are_those_of_all_servers() {
    let statistics = |count: u64| {
        let zero = json!({ "count": 0, "ns": 0 });
        let spent = json!({ "count": count, "ns": count * 1000 });
        let times = json!({ "success": spent, "fail": zero, "queue": spent, "compute_input": zero,
            "compute_infer": spent, "compute_output": zero, "cache_hit": zero, "cache_miss": zero });
        let model = json!({ "name": "m", "version": "1", "inference_count": count, "execution_count": count,
            "inference_stats": times });
        reply("200 OK", "Content-Type: application/json\r\n", json!({ "model_stats": [model] }).to_string().as_bytes())
    };
    let servers = [slow(0), slow(0)];
    servers.iter().for_each(|server| server.answer_instead("stats", statistics(7)));
    let run = on(&[&servers[0], &servers[1]]).args("--request-count 20").run();
    assert_eq!(run.code(), 0, "{run:#?}");
    for server in &servers {
        let asked = server.others().iter().filter(|request| request.head.contains("stats")).count();
        assert!(asked >= 2, "{asked}");
    }
}

/// A page as Triton has it.
fn page(gpu: f64, cpu: f64, pending: u32) -> Vec<u8> {
    let text = format!(
        "# TYPE nv_gpu_utilization gauge\nnv_gpu_utilization{{gpu_uuid=\"GPU-7\"}} {gpu}\n\
         nv_gpu_power_usage{{gpu_uuid=\"GPU-7\"}} {}\nnv_cpu_utilization {cpu}\n\
         nv_inference_pending_request_count{{model=\"m\",version=\"1\"}} {pending}\n",
        100.0 * gpu
    );
    reply("200 OK", "Content-Type: text/plain; charset=utf-8\r\n", text.as_bytes())
}

/// The program on these servers, whose metrics are beside each.
fn collecting(servers: &[&HttpServer]) -> Program {
    let program = on(servers).args("--collect-metrics --metrics-interval 10 -p 300 -s 1000000 --concurrency-range 4");
    servers
        .iter()
        .fold(program, |program, server| program.args("--metrics-url").arg(format!("{}/metrics", server.url())))
}

#[test]
fn metrics_are_those_of_each_server_and_of_all() {
    let servers = [slow(1), slow(1)];
    servers[0].answer_instead("metrics", page(0.25, 0.5, 3));
    servers[1].answer_instead("metrics", page(0.75, 0.1, 2));
    let [first, second] = [&servers[0], &servers[1]].map(HttpServer::url);
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let program = collecting(&[&servers[0], &servers[1]]).args("--verbose-csv -f").arg(path("out.csv"));
    let run = program.args("--report").arg(path("out.html")).args("--summary-file").arg(path("out.json")).run();
    let report = run.report_even_if_late();
    for line in [
        format!("      {} GPU-7 : 25%\n      {} GPU-7 : 75%\n", first, second),
        "    Avg Utilization of all GPUs: 50.00%\n    Avg CPU Utilization: 30.00%\n    Pending requests: avg 5, max 5\n    Of each server:\n".to_owned(),
        format!("      {first}: GPUs 25.00%, processors 50.00%, pending requests avg 3 (max 3)\n"),
        format!("      {second}: GPUs 75.00%, processors 10.00%, pending requests avg 2 (max 2)\n"),
    ] {
        assert!(report.text.contains(&line), "{line}{}", report.text);
    }
    assert!(!run.stderr.contains("--collect-metrics"), "{}", run.stderr);
    let result: Value = serde_json::from_slice(&std::fs::read(path("out.json")).unwrap()).unwrap();
    let level = &result["levels"][0];
    let gpus: Vec<_> =
        level["gpus"].as_array().unwrap().iter().map(|gpu| (&gpu["server"], &gpu["power_watts"])).collect();
    assert_eq!(gpus, [(&json!(0), &json!(25.0)), (&json!(1), &json!(75.0))]);
    assert_eq!((&level["host"]["pending_requests"], &level["host"]["gpu_utilization"]), (&json!(5.0), &json!(0.5)));
    assert_eq!(level["hosts"][1]["pending_requests"], 2.0);
    let csv = std::fs::read_to_string(path("out.csv")).unwrap();
    assert!(csv.contains(&format!("{first} GPU-7:0.25;{second} GPU-7:0.75;")), "{csv}");
    let html = std::fs::read_to_string(path("out.html")).unwrap();
    assert!(html.contains("GPUs 75.00%, processors 10.00%, pending requests avg 2 (max 2)"), "{html}");
}

#[test]
fn a_server_whose_metrics_cannot_be_read_is_one_note() {
    let servers = [slow(1), slow(1)];
    servers[0].answer_instead("metrics", page(0.25, 0.5, 3));
    servers[1].answer_instead("metrics", reply("404 Not Found", "", b""));
    let servers = [&servers[0], &servers[1]];
    let note_of = |run: &crate::support::Finished| {
        let notes: Vec<_> = run.stderr.lines().filter(|line| line.contains("--collect-metrics: ")).collect();
        assert_eq!(notes.len(), 1, "{}", run.stderr);
        notes[0].to_owned()
    };
    let run = collecting(&servers).run();
    let report = run.report_even_if_late();
    let note = note_of(&run);
    for part in [&servers[1].url()[..], "HTTP 404", "left out until it answers"] {
        assert!(note.contains(part), "{note}");
    }
    for line in [
        "    Pending requests: avg 3, max 3\n".to_owned(),
        format!("      {}: GPUs 25.00%, processors 50.00%, pending requests avg 3 (max 3)\n", servers[0].url()),
        format!("      {}: no figures\n", servers[1].url()),
    ] {
        assert!(report.text.contains(&line), "{line}{}", report.text);
    }
    // One that answers no more.
    servers[1].answer_instead("metrics", page(0.75, 0.1, 2));
    let before = servers[1].inferences();
    let running = collecting(&servers).start();
    while servers[1].inferences() < before + 200 {
        std::thread::sleep(Duration::from_millis(1));
    }
    servers[1].answer_instead("metrics", reply("503 Busy", "", b""));
    let run = running.finish();
    run.report_even_if_late();
    let note = note_of(&run);
    assert!(note.contains(&servers[1].url()) && note.contains("HTTP 503") && note.contains("from that time"), "{note}");
    assert!(run.stdout.contains(&format!("      {}: GPUs 25.00%", servers[0].url())), "{}", run.stdout);
    // And if none does, the address may be wrong.
    servers[0].answer_instead("metrics", reply("404 Not Found", "", b""));
    collecting(&servers).run().failure(&["--collect-metrics: ", "HTTP 404"]);
}

#[test]
fn servers_whose_models_differ_are_refused() {
    let (first, second) = (slow(0), slow(0));
    let model = json!({ "name": "m", "versions": ["1"], "platform": "p",
        "inputs": [{ "name": "IN", "datatype": "FP32", "shape": [-1, 3] }],
        "outputs": [{ "name": "OUT", "datatype": "FP32", "shape": [-1, 3] }] });
    second.answer_instead("m", reply("200 OK", "Content-Type: application/json\r\n", model.to_string().as_bytes()));
    let run = on(&[&first, &second]).args("--request-count 20").run();
    run.failure(&["-u", &second.url(), "model 'm'", "other inputs", "measure each by itself"]);
}

#[test]
fn what_cannot_go_with_several_servers_is_refused() {
    let run = |line: &str| Program::new().args("-m m").args(line).run();
    let words = &["-u h:1 -u h:2", "one server", "leave it out"];
    let page = &["-u h:1 and -u h:2", "http://h:8002/metrics", "--metrics-url for each -u"];
    run("-u h:1 -u h:2 --collect-metrics").refusal(page);
    let openai = "--service-kind openai --endpoint e --prompt-tokens 4 --collect-metrics --metrics-url h:3";
    let too_few = &["--metrics-url names 1 page, but -u h:1 -u h:2 names 2 servers", "in their order"];
    run(&format!("-u h:1 -u h:2 {openai}")).refusal(too_few);
    run(&format!("-u h:1 -u h:2 {openai} --metrics-url h:3/metrics"))
        .failure_after_notes(&["http://h:3/metrics", "--metrics-url"]);
    let too_many = &["--metrics-url names 2 pages, but there is one server"];
    run("-u h:1 --collect-metrics --metrics-url h:3 --metrics-url h:4").refusal(too_many);
    run("-u h:1 -u h:2 --trace-rate 5").refusal(&[&["--trace-rate"][..], words].concat());
    run("-u h:1 -u h:2 --service-kind triton_c_api --model-repository /nowhere").refusal(&["-u h:1 -u h:2", "network"]);
    run("-u h:1 --spread sticky").refusal(&["--spread sticky", "several servers", "-u A -u B"]);
    run("-u h:1,h:2 --spread random").refusal(&["--spread", "round-robin"]);
}

#[test]
fn under_the_name_perf_analyzer_the_last_counts() {
    let (first, last) = (slow(0), slow(0));
    let run = on(&[&first, &last]).named_perf_analyzer().args("--request-count 20").run();
    run.report();
    assert_eq!((first.inferences(), first.others().len()), (0, 0));
    assert!(last.inferences() >= 20);
}
