//! `--session-concurrency`: conversations of several turns.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::*;
use crate::support::Export;

/// Sessions of that many turns, their payloads one after the other and not session by session.
fn sessions(turns: &[usize], delay_ms: Option<u64>) -> Payloads {
    let mut steps = Vec::new();
    for turn in 0..turns.iter().copied().max().unwrap_or(0) {
        for (session, _) in turns.iter().enumerate().filter(|(_, count)| turn < **count) {
            let message = json!({ "role": "user", "content": format!("{session}/{turn}") });
            let mut step =
                json!({ "payload": [{ "model": "m", "messages": [message] }], "session_id": [format!("s{session}")] });
            if let Some(delay) = delay_ms {
                step["delay"] = json!([delay]);
            }
            steps.push(step);
        }
    }
    Payloads::file(&json!({ "data": steps }).to_string())
}

/// Requests as they came, with when.
type ReceivedMessages = Arc<Mutex<Vec<(Instant, Vec<Value>)>>>;

/// A server that answers the last message with `re: ` and its text, streamed or not.
fn echoing(received: &ReceivedMessages, streamed: bool) -> impl Fn(&Received) -> Vec<Act> + Send + Sync + use<> {
    let received = Arc::clone(received);
    move |request| {
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        let messages = body["messages"].as_array().unwrap().clone();
        let text = format!("re: {}", messages.last().unwrap()["content"].as_str().unwrap());
        received.lock().unwrap().push((Instant::now(), messages));
        if streamed {
            let (front, back) = text.split_at(3);
            return vec![Act::Send(stream(&[content(front), content(back), DONE.to_owned()]))];
        }
        let message = json!({ "role": "assistant", "content": text });
        let body = json!({ "choices": [{ "index": 0, "message": message, "finish_reason": "stop" }] }).to_string();
        vec![Act::Send(http_server::reply("200 OK", "Content-Type: application/json\r\n", body.as_bytes()))]
    }
}

#[test]
fn every_turn_sends_what_was_said_before() {
    for streamed in [false, true] {
        let turns = [3, 1, 2, 4, 2];
        let payloads = sessions(&turns, None);
        let received = ReceivedMessages::default();
        let server = HttpServer::start(echoing(&received, streamed));
        let file = payloads.path("export.json");
        let run = payloads.on(&server).args("--session-concurrency 2 --profile-export-file").arg(&file).run();
        assert_eq!(run.report().level().client_number("Request count"), 12.0, "{}", run.stdout);
        assert!(run.stdout.contains("  Playing every session once\n"), "{}", run.stdout);
        assert!(run.stdout.contains("    Turns of the sessions:\n      turn 1: 5 requests"), "{}", run.stdout);
        assert!(run.stdout.contains("      turn 4: 1 request ("), "{}", run.stdout);
        let received = received.lock().unwrap();
        assert_eq!(received.len(), 12);
        let mut sent = HashMap::new();
        for (_, messages) in &*received {
            let last = messages.last().unwrap()["content"].as_str().unwrap();
            let (session, turn) = last.split_once('/').unwrap();
            let (session, turn): (usize, usize) = (session.parse().unwrap(), turn.parse().unwrap());
            assert_eq!(*sent.entry(session).or_insert(0), turn, "turns of a session follow each other");
            sent.insert(session, turn + 1);
            let contents: Vec<(&str, &str)> = messages
                .iter()
                .map(|message| (message["role"].as_str().unwrap(), message["content"].as_str().unwrap()))
                .collect();
            let texts: Vec<String> = (0..turn)
                .flat_map(|turn| [format!("{session}/{turn}"), format!("re: {session}/{turn}")])
                .chain([last.to_owned()])
                .collect();
            let roles = ["user", "assistant"].into_iter().cycle();
            assert_eq!(contents, roles.zip(texts.iter().map(String::as_str)).collect::<Vec<_>>());
        }
        assert_eq!(sent, turns.into_iter().enumerate().collect());
        let export = Export::read(&file);
        let requests = export.experiments()[0]["requests"].as_array().unwrap();
        let of_fourth = requests.iter().filter(|request| request["sequence_id"] == 4).count();
        assert_eq!((requests.len(), of_fourth), (12, 4));
        let load = &export.experiments()[0]["experiment"];
        assert_eq!(load, &json!({ "mode": "request_rate", "value": 0.0 }), "where genai-perf looks for sessions");
        assert_eq!(export.experiments()[0]["summary"]["models"][0]["name"], "turn 1");
        assert!(run.stdout.contains("    Sessions: 5 (12 turns, 2.4 each)\n"), "{}", run.stdout);
    }
}

#[test]
fn an_empty_answer_is_a_message_of_the_conversation() {
    for choices in [json!([]), json!([{ "message": false }])] {
        let received = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&received);
        let server = HttpServer::start(move |request: &Received| {
            kept.lock().unwrap().push(serde_json::from_slice::<Value>(&request.body).unwrap());
            let body = json!({ "choices": choices }).to_string();
            vec![Act::Send(http_server::reply("200 OK", "Content-Type: application/json\r\n", body.as_bytes()))]
        });
        let flags = "--conversations 1 --turns 2 --prompt-tokens 3 --request-count 2";
        bare(&server.url()).args(flags).run().report();
        let received = received.lock().unwrap();
        let roles: Vec<&str> =
            received[1]["messages"].as_array().unwrap().iter().filter_map(|all| all["role"].as_str()).collect();
        assert_eq!(roles, ["user", "assistant", "user"]);
        assert_eq!(received[1]["messages"][1]["content"], "");
    }
}

/// The bodies of turns of one generated conversation over the Responses API.
fn inputs(streamed: bool) -> Vec<Value> {
    let bodies = Arc::new(Mutex::new(Vec::new()));
    let received = Arc::clone(&bodies);
    let server = HttpServer::start(move |request: &Received| {
        received.lock().unwrap().push(serde_json::from_slice(&request.body).unwrap());
        if streamed {
            let delta = "data: {\"type\":\"response.output_text.delta\",\"delta\":\"so\"}\n\n".to_owned();
            let end = "data: {\"type\":\"response.completed\",\"response\":{}}\n\n".to_owned();
            return vec![Act::Send(stream(&[delta, end]))];
        }
        let message = json!({ "type": "message", "content": [{ "type": "output_text", "text": "so" }] });
        let body = json!({ "object": "response", "output": [message] }).to_string();
        vec![Act::Send(http_server::reply("200 OK", "Content-Type: application/json\r\n", body.as_bytes()))]
    });
    let flags = "--conversations 1 --turns 3 --system-tokens 4 --prompt-tokens 3 --output-tokens 5 --request-count 6";
    bare(&server.url()).args("--endpoint v1/responses").args(flags).run().report();
    let bodies = bodies.lock().unwrap();
    bodies.clone()
}

#[test]
fn conversations_go_on_in_the_input_of_the_responses_api() {
    for streamed in [false, true] {
        let bodies = inputs(streamed);
        for body in &bodies[..3] {
            assert_eq!((&body["max_output_tokens"], &body["max_tokens"]), (&json!(5), &Value::Null), "{body}");
        }
        let roles: Vec<&str> =
            bodies[2]["input"].as_array().unwrap().iter().map(|message| message["role"].as_str().unwrap()).collect();
        assert_eq!(roles, ["system", "user", "assistant", "user", "assistant", "user"]);
        assert_eq!(bodies[2]["input"][2]["content"], "so", "{}", bodies[2]);
    }
}

/// What a conversation's second turn sends, where each is answered by a stream of this data.
fn second_turn(endpoint: &str, data: &[Value]) -> Value {
    let bodies = Arc::new(Mutex::new(Vec::new()));
    let received = Arc::clone(&bodies);
    let events: Vec<String> = data.iter().map(|data| format!("data: {data}\n\n")).collect();
    let server = HttpServer::start(move |request: &Received| {
        received.lock().unwrap().push(serde_json::from_slice(&request.body).unwrap());
        vec![Act::Send(stream(&events))]
    });
    let flags = "--conversations 1 --turns 2 --prompt-tokens 3 --request-count 2 --endpoint";
    bare(&server.url()).args(flags).arg(endpoint).run().report_even_if_late();
    let bodies: Vec<Value> = bodies.lock().unwrap().clone();
    bodies[1].clone()
}

#[test]
fn calls_of_tools_go_on_in_the_form_of_each_service() {
    let call = json!({ "type": "function_call", "call_id": "c1", "name": "f", "arguments": "{\"a\":1}" });
    let body = second_turn(
        "v1/responses",
        &[
            json!({ "type": "response.function_call_arguments.delta", "delta": "{\"a\":1}" }),
            json!({ "type": "response.output_item.done", "output_index": 0, "item": call }),
            json!({ "type": "response.completed", "response": {} }),
        ],
    );
    assert_eq!((&body["input"][1], body["input"].as_array().unwrap().len()), (&call, 3), "{body}");
    // As DashScope streams them: of an id that is empty in all parts but the first, that of the first stays.
    let choice =
        |delta: Value, reason: Value| json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": reason }] });
    let part = |id: &str, function: Value| {
        choice(
            json!({ "tool_calls": [{ "index": 0, "id": id, "type": "function", "function": function }] }),
            Value::Null,
        )
    };
    let body = second_turn(
        "v1/chat/completions",
        &[
            part("c1", json!({ "name": "f", "arguments": "" })),
            part("", json!({ "arguments": "{\"a\":1}" })),
            choice(json!({}), json!("tool_calls")),
        ],
    );
    let call = json!({ "id": "c1", "type": "function", "function": { "name": "f", "arguments": "{\"a\":1}" } });
    let message = json!({ "role": "assistant", "content": null, "tool_calls": [call] });
    assert_eq!(body["messages"][1], message, "{body}");
    let block = |kind: &str, member: &str, value: Value| json!({ "type": kind, "index": 0, member: value });
    let begun = json!({ "type": "tool_use", "id": "t1", "name": "f", "input": {} });
    let delta = json!({ "type": "input_json_delta", "partial_json": "{\"a\":1}" });
    let body = second_turn(
        "v1/messages",
        &[
            block("content_block_start", "content_block", begun),
            block("content_block_delta", "delta", delta),
            json!({ "type": "message_delta", "delta": { "stop_reason": "tool_use" } }),
            json!({ "type": "message_stop" }),
        ],
    );
    let content = json!([{ "type": "tool_use", "id": "t1", "name": "f", "input": { "a": 1 } }]);
    assert_eq!(body["messages"][1], json!({ "role": "assistant", "content": content }), "{body}");
}

#[test]
fn the_export_has_what_each_turn_has_sent() {
    for streamed in [false, true] {
        let payloads = sessions(&[3, 1, 2], None);
        let bodies = Arc::new(Mutex::new(Vec::new()));
        let (received, echo) = (Arc::clone(&bodies), echoing(&ReceivedMessages::default(), streamed));
        let server = HttpServer::start(move |request: &Received| {
            received.lock().unwrap().push(String::from_utf8(request.body.clone()).unwrap());
            echo(request)
        });
        let file = payloads.path("export.json");
        let flags = "--session-concurrency 2 --request-parameter n:1:int --profile-export-file";
        let run = payloads.on(&server).args(flags).arg(&file);
        if streamed { run.args("--streaming") } else { run }.run().report();
        let export = Export::read(&file);
        let requests = export.experiments()[0]["requests"].as_array().unwrap();
        let mut sent: Vec<&str> =
            requests.iter().map(|request| request["request_inputs"]["payload"].as_str().unwrap()).collect();
        let bodies = bodies.lock().unwrap();
        let mut came: Vec<&str> = bodies.iter().map(String::as_str).collect();
        sent.sort_unstable();
        came.sort_unstable();
        assert_eq!(sent, came);
        let of_session = requests.iter().filter(|request| request["sequence_id"] == 1);
        let counts: Vec<usize> = of_session
            .map(|turn| serde_json::from_str::<Value>(turn["request_inputs"]["payload"].as_str().unwrap()).unwrap())
            .map(|body| body["messages"].as_array().unwrap().len())
            .collect();
        assert_eq!(counts, [1, 3, 5], "each turn with what was said before it");
        assert!(requests.iter().all(|request| request["request_inputs"]["session_id"].is_string()));
    }
}

#[test]
fn a_conversation_is_played_once_whatever_counts_are_given() {
    let payloads = sessions(&[3, 2], None);
    let received = ReceivedMessages::default();
    let server = HttpServer::start(echoing(&received, false));
    let counts = "--warmup-request-count 4 --request-count 2";
    let run = payloads.on(&server).args("--session-concurrency 1").args(counts).run();
    assert_eq!(run.report().level().client_number("Request count"), 5.0, "{}", run.stdout);
    assert_eq!(received.lock().unwrap().len(), 5, "none is played for a warm-up");
    let warning = "--request-count and --warmup-request-count have no effect here: every conversation";
    assert!(run.stderr.contains(warning), "{}", run.stderr);
    assert!(run.stdout.contains("  Playing every session once\n"), "{}", run.stdout);
    assert!(!run.stdout.contains("warmup requests") && !run.stdout.contains("benchmark requests"), "{}", run.stdout);
}

#[test]
fn timed_turns_wait_for_their_delay_and_sessions_for_a_place() {
    let payloads = sessions(&[3, 2, 2], Some(400));
    let received = ReceivedMessages::default();
    let server = HttpServer::start(echoing(&received, false));
    let run = payloads.on(&server).args("--session-concurrency 1 --async").run();
    assert_eq!(run.report().level().client_number("Request count"), 7.0);
    let received = received.lock().unwrap();
    let order: Vec<&str> =
        received.iter().map(|(_, messages)| messages.last().unwrap()["content"].as_str().unwrap()).collect();
    assert_eq!(order, ["0/0", "0/1", "0/2", "1/0", "1/1", "2/0", "2/1"], "in the file's order");
    for pair in received.windows(2) {
        let same = pair[1].1.len() > 1;
        let gap = pair[1].0 - pair[0].0;
        assert!(!same || gap >= Duration::from_millis(399), "{gap:?}");
    }
    let short: Vec<Duration> =
        received.windows(2).filter(|pair| pair[1].1.len() == 1).map(|pair| pair[1].0 - pair[0].0).collect();
    assert!(short.iter().min().unwrap() < &Duration::from_millis(350), "no delay after the last turn: {short:?}");
}

#[test]
fn a_turn_that_fails_does_not_end_its_session() {
    let payloads = sessions(&[3], None);
    let received = ReceivedMessages::default();
    let echo = echoing(&received, false);
    let server = HttpServer::start(move |request: &Received| {
        let acts = echo(request);
        if request.ordinal == 1 { vec![Act::Send(http_server::reply("500 Oops", "", b"{}"))] } else { acts }
    });
    let run = payloads.on(&server).args("--session-concurrency 1 --max-errors 100%").run();
    assert_eq!(run.report().level().client_number("Request count"), 2.0, "{}", run.stdout);
    let line = "    Sessions: 1 (3 turns, 3 each; 1 with a turn that failed)\n";
    assert!(run.stdout.contains(line), "{}", run.stdout);
    let received = received.lock().unwrap();
    let last: Vec<&str> = received[2].1.iter().map(|message| message["content"].as_str().unwrap()).collect();
    assert_eq!(last, ["0/0", "re: 0/0", "0/1", "0/2"], "the answer that failed was not said");
}

#[test]
fn what_sessions_need_is_said() {
    let payloads = sessions(&[2, 1], None);
    let server = HttpServer::start(answer);
    let words = ["--session-concurrency 3", "2 sessions"];
    payloads.on(&server).args("--session-concurrency 3").run().failure(&words);
    let without = Payloads::file(r#"{"data":[{"payload":[{"messages":[]}]}]}"#);
    without.on(&server).args("--session-concurrency 1").run().failure(&["missing tensor session_id"]);
    let mute = Payloads::file(r#"{"data":[{"payload":[{"input":"x"}],"session_id":["a"]}]}"#);
    mute.on(&server).args("--session-concurrency 1").run().failure(&["list of `messages`"]);
    let other = Program::new().args("-m m --session-concurrency 2").run();
    other.refusal(&["Session concurrency mode is only supported with OpenAI service kind."]);
}

#[test]
fn sessions_are_figures_of_their_own_in_every_report() {
    // Two turns each of at least 50 ms, and a delay of 300 ms between them.
    let payloads = sessions(&[2, 2, 2, 1], Some(300));
    let server = HttpServer::start(|request: &Received| {
        [Act::Wait(Duration::from_millis(50))].into_iter().chain(answer(request)).collect()
    });
    let [export, summary, csv, page] =
        ["export.json", "result.json", "level.csv", "page.html"].map(|name| payloads.path(name));
    let run = payloads.on(&server).args("--session-concurrency 2 --profile-export-file").arg(&export);
    let run = run.args("--summary-file").arg(&summary).args("-f").arg(&csv).args("--report").arg(&page).run();
    let report = run.report();
    assert!(report.text.contains("    Sessions: 4 (7 turns, 1.75 each)\n"), "{}", report.text);
    for line in ["Session duration (with its delays): avg", "Session latency (all of its turns): avg"] {
        assert!(report.text.contains(line), "{}", report.text);
    }
    let figures = Export::read(&export).experiments()[0]["summary"]["sessions"].clone();
    assert_eq!((&figures["count"], &figures["turns"], &figures["broken"]), (&json!(4), &json!(7), &json!(0)));
    let ns = |which: &str, statistic: &str| figures[which][statistic].as_f64().unwrap();
    assert!(ns("duration_ns", "max") >= 400e6 && ns("latency_ns", "p50") >= 100e6, "{figures}");
    let waited = ns("duration_ns", "avg") - ns("latency_ns", "avg");
    assert!(waited >= 0.75 * 299e6, "three of four rested once: {figures}");
    let result: Value = serde_json::from_slice(&std::fs::read(&summary).unwrap()).unwrap();
    let client = &result["levels"][0]["client"];
    assert_eq!((&client["sessions"]["turns"], &client["sessions"]["broken"]), (&json!(7), &json!(0)), "{client}");
    assert!(client["entries"].as_array().unwrap().iter().all(|entry| entry["sessions"].is_null()), "{client}");
    let csv = std::fs::read_to_string(&csv).unwrap();
    let columns: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
    let cell = |name: &str| {
        let index = columns.iter().position(|column| *column == name).unwrap_or_else(|| panic!("{name}: {csv}"));
        csv.lines().nth(1).unwrap().split(',').nth(index).unwrap().parse::<f64>().unwrap()
    };
    assert_eq!((cell("Sessions"), cell("Turns per Session")), (4.0, 1.75));
    assert!(cell("Avg session duration") > cell("Avg session latency") && cell("p99 session latency") >= 100_000.0);
    let page = std::fs::read_to_string(&page).unwrap();
    assert!(
        page.contains("Sessions: 4 (7 turns, 1.75 each)") && page.contains("Turns of the sessions"),
        "{}",
        run.stdout
    );
}

#[test]
fn sessions_of_aiperf_are_sent_as_they_are_one_turn_after_the_other() {
    let said = |texts: &[&str]| -> Vec<Value> {
        texts.iter().map(|text| json!({ "role": "user", "content": text })).collect()
    };
    let payload = |texts: &[&str]| json!({ "model": "m", "messages": said(texts) });
    let session = |name: &str, payloads: Vec<Value>| json!({ "session_id": name, "payloads": payloads });
    let first = session("a", vec![payload(&["one"]), payload(&["one", "recorded", "two"]), payload(&["three"])]);
    let payloads = Payloads::file(&json!({ "data": [first, session("b", vec![payload(&["four"])])] }).to_string());
    let received = ReceivedMessages::default();
    let server = HttpServer::start(echoing(&received, false));
    let run = payloads.on(&server).args("--session-concurrency 1").run();
    assert_eq!(run.report().level().client_number("Request count"), 4.0, "{}", run.stdout);
    assert!(run.stderr.contains("each payload of a session is sent as it is"), "{}", run.stderr);
    let came: Vec<Vec<Value>> = received.lock().unwrap().iter().map(|(_, messages)| messages.clone()).collect();
    let wanted = [&["one"][..], &["one", "recorded", "two"], &["three"], &["four"]].map(said);
    assert_eq!(came, wanted);
    received.lock().unwrap().clear();
    let run = payloads.on(&server).args("--concurrency-range 1 --request-count 4").run();
    assert_eq!(run.report().level().client_number("Request count"), 4.0, "{}", run.stdout);
    let came: Vec<Vec<Value>> = received.lock().unwrap().iter().map(|(_, messages)| messages.clone()).collect();
    assert_eq!(came, wanted, "without sessions, each is a request of its own");
}
