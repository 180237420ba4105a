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
    run("-u h:1 -u h:2 --collect-metrics").refusal(&[&["--collect-metrics"][..], words].concat());
    let openai = "--service-kind openai --endpoint e --prompt-tokens 4 --collect-metrics --metrics-url h:3";
    run(&format!("-u h:1 -u h:2 {openai}")).refusal(&[&["--metrics-url"][..], words].concat());
    run("-u h:1 -u h:2 --trace-rate 5").refusal(&["--trace-rate", "one server"]);
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
