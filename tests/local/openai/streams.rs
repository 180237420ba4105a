//! Streamed answers, good and bad.

use std::time::Duration;

use super::*;
use crate::support::Export;

fn good(_: &Received) -> Vec<Act> {
    vec![Act::Send(stream(&[content("a"), content("b"), USAGE.to_owned(), DONE.to_owned()]))]
}

#[test]
fn the_export_has_an_entry_for_each_event() {
    let payloads = Payloads::of(&[CHAT]);
    let server = HttpServer::start(good);
    let file = payloads.path("export.json");
    payloads.on(&server).args("--request-count 10 --profile-export-file").arg(&file).run().report();
    let export = Export::read(&file);
    for request in export.experiments()[0]["requests"].as_array().unwrap() {
        let outputs = request["response_outputs"].as_array().unwrap();
        let texts: Vec<&str> = outputs.iter().map(|output| output["response"].as_str().unwrap()).collect();
        let comment = format!(": {USAGE}");
        assert_eq!(
            texts,
            [&content("a"), &content("b"), &comment, DONE],
            "genai-perf fails at events without a choice"
        );
        assert_eq!(request["response_timestamps"].as_array().unwrap().len(), 4);
    }
}

/// A run of which every other request is answered by `acts` and fails, saying `words`.
fn fails(acts: impl Fn() -> Vec<Act> + Send + Sync + 'static, words: &str) {
    let payloads = Payloads::of(&[CHAT]);
    let server = HttpServer::start(move |request| if request.ordinal % 2 == 1 { acts() } else { good(request) });
    for load in ["--concurrency-range 1", "--async --concurrency-range 4"] {
        let run = payloads.on(&server).args("--reconnect --max-errors 100% --request-count 20").args(load).run();
        let report = run.report_with(0);
        assert!(run.stdout.contains(words), "{words}: {}", run.stdout);
        assert!((5.0..20.0).contains(&report.level().client_number("Request count")), "{}", run.stdout);
    }
}

#[test]
fn each_way_to_fail_is_counted_by_its_reason() {
    let send = |text: String| vec![Act::Send(text.into_bytes())];
    let whole = |text: &str| vec![Act::Send(stream(&[text.to_owned()]))];
    let error = "data: {\"error\":{\"message\":\"out of memory\",\"type\":\"server_error\"}}\n\n";
    fails(move || whole(&format!("{}{error}{DONE}", content("a"))), "Error response: server_error: out of memory");
    fails(move || whole(error.trim_end()), "Error response: server_error: out of memory");
    fails(move || whole("event: error\ndata: none left\n\n"), "Error response: none left");
    fails(move || whole("data: {\n\n"), "Malformed reply: an event's data is not JSON");
    fails(move || whole(&content("a")), "Malformed reply: the stream ends before [DONE]");
    fails(
        move || {
            let begun = format!("{STREAM}{}", String::from_utf8(chunk(&content("a"))).unwrap());
            vec![Act::Send(begun.into_bytes()), Act::Close]
        },
        "Connection closed: the server closed the connection within the chunked reply",
    );
    fails(
        || {
            let body = br#"{"error":{"message":"slow down","type":"rate_limit"}}"#;
            vec![Act::Send(http_server::reply("429 Too Many Requests", "", body))]
        },
        "HTTP 429: rate_limit: slow down",
    );
    fails(
        || vec![Act::Send(http_server::reply("200 OK", "", br#"{"error":{"message":"no such model"}}"#))],
        "Error response: no such model",
    );
    fails(move || send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi".to_owned()), "its body is not JSON");
}

#[test]
fn servers_that_never_end_cost_no_more_than_the_bound_and_the_deadline() {
    let payloads = Payloads::of(&[CHAT]);
    let endless = HttpServer::start(|_: &Received| {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: ";
        vec![Act::Send(head.into()), Act::Forever(vec![b'x'; 1 << 16])]
    });
    let run = payloads.on(&endless).args("--request-count 2 --max-reply-bytes 1000000 --reconnect").run();
    assert!(run.code() == 3 && run.stdout.contains("1000000 bytes (--max-reply-bytes)"), "{run:#?}");
    let chatty = HttpServer::start(|_: &Received| {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
        vec![Act::Send(head.into()), Act::Forever(content("x").into_bytes())]
    });
    let run = payloads.on(&chatty).args("--request-count 2 --client-timeout-us 300000 --reconnect").run();
    assert!(run.code() == 3 && run.stdout.contains("Deadline exceeded"), "{run:#?}");
    let silent = HttpServer::start(|_: &Received| vec![Act::Send(STREAM.into()), Act::Wait(Duration::from_secs(2))]);
    let run = payloads.on(&silent).args("--request-count 1 --client-timeout-us 100000").run();
    assert!(run.code() == 3 && run.stdout.contains("Deadline exceeded"), "{run:#?}");
}

#[test]
fn streams_without_the_last_word_are_successes() {
    let payloads = Payloads::of(&[CHAT]);
    let finish = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
    let server = HttpServer::start(move |request: &Received| match request.ordinal % 3 {
        0 => vec![Act::Send(stream(&[content("a"), finish.to_owned()]))],
        1 => vec![Act::Send(stream(&[content("a"), format!("{DONE}data: nonsense\n\n")]))],
        _ => vec![Act::Send(stream(&[DONE.to_owned()]))],
    });
    let run = payloads.on(&server).args("--request-count 30").run();
    assert_eq!(run.report().level().client_number("Request count"), 30.0, "{}", run.stdout);
}

#[test]
fn a_stream_is_over_with_its_last_word_whenever_its_connection_ends() {
    let payloads = Payloads::of(&[CHAT]);
    let server = HttpServer::start(|_: &Received| {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
        vec![Act::Send(format!("{head}{}{DONE}", content("a")).into_bytes()), Act::Wait(Duration::from_secs(20))]
    });
    for load in ["--concurrency-range 1", "--async --concurrency-range 2"] {
        let run = payloads.on(&server).args("--request-count 4").args(load).run();
        assert_eq!(run.report().level().client_number("Request count"), 4.0, "{}", run.stdout);
        assert!(run.wall < Duration::from_secs(20), "{:?}", run.wall);
    }
}

/// A stream in chunks whose connection stays: the end of its body comes `late` after the last word.
fn ends_late(late: Duration) -> impl Fn(&Received) -> Vec<Act> + Send + Sync {
    move |_| {
        let events = [STREAM.as_bytes().to_vec(), chunk(&format!("{}{DONE}", content("a")))].concat();
        vec![Act::Send(events), Act::Wait(late), Act::Send(chunk(""))]
    }
}

#[test]
fn a_slot_is_free_with_the_last_word_whenever_the_body_ends() {
    let payloads = Payloads::of(&[CHAT]);
    for load in
        ["--concurrency-range 1", "--async --concurrency-range 2", "--async --concurrency-range 3 --max-connections 2"]
    {
        let server = HttpServer::start(ends_late(Duration::from_secs(20)));
        let run = payloads.on(&server).args("--request-count 8").args(load).run();
        assert_eq!(run.report().level().client_number("Request count"), 8.0, "{}", run.stdout);
        assert!(!run.stdout.contains("Failed request count"), "{}", run.stdout);
        // As much as the first of them would have taken.
        assert!(run.wall < Duration::from_secs(20), "{load}: {:?}", run.wall);
    }
}

#[test]
fn the_end_of_a_body_that_comes_soon_leaves_the_connection() {
    let payloads = Payloads::of(&[CHAT]);
    for (load, connections) in [("--concurrency-range 1", 1), ("--async --concurrency-range 3", 3)] {
        let server = HttpServer::start(ends_late(Duration::from_millis(1)));
        let run = payloads.on(&server).args("--request-count 60").args(load).run();
        assert_eq!(run.report().level().client_number("Request count"), 60.0, "{}", run.stdout);
        // A machine that stands still for a moment costs one.
        let made = server.connections();
        assert!((connections..connections + 10).contains(&made), "{load}: {made}");
    }
}

#[test]
fn what_follows_the_last_word_may_be_broken_and_costs_the_connection_alone() {
    let payloads = Payloads::of(&[CHAT]);
    for tail in ["nonsense", "5\r\nabcde\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"] {
        let server = HttpServer::start(move |request: &Received| {
            let events = [STREAM.as_bytes().to_vec(), chunk(&format!("{}{DONE}", content("a")))].concat();
            if request.ordinal.is_multiple_of(2) {
                return vec![Act::Send([&events, tail.as_bytes()].concat()), Act::Close];
            }
            vec![Act::Send(events), Act::Wait(Duration::from_millis(1)), Act::Send(tail.into()), Act::Close]
        });
        for load in ["--concurrency-range 1", "--async --concurrency-range 2"] {
            let run = payloads.on(&server).args("--request-count 10").args(load).run();
            assert_eq!(run.report().level().client_number("Request count"), 10.0, "{tail:?}: {}", run.stdout);
        }
    }
}

/// More requests join as events come, which grow a periodic load as a decoupled model's responses do.
#[test]
fn events_grow_a_periodic_load() {
    let payloads = Payloads::of(&[CHAT]);
    let server = HttpServer::start(|_: &Received| {
        let event = |text: &str| [Act::Wait(Duration::from_millis(20)), Act::Send(chunk(text))];
        let events = ["a", "b", "c", "d"].map(|text| event(&content(text)));
        let ends = [Act::Send(chunk(DONE)), Act::Send(chunk(""))];
        [Act::Send(STREAM.into())].into_iter().chain(events.into_iter().flatten()).chain(ends).collect()
    });
    let [result, export] = ["result.json", "export.json"].map(|name| payloads.path(name));
    let load = "--streaming --periodic-concurrency-range 1:5:2 --request-period 3 --summary-file";
    payloads.on(&server).args(load).arg(&result).arg("--profile-export-file").arg(&export).run().report_even_if_late();
    let result: serde_json::Value = serde_json::from_slice(&std::fs::read(result).unwrap()).unwrap();
    let batches = result["periodic"]["batches"].as_array().unwrap();
    let counts: Vec<_> =
        batches.iter().map(|batch| (batch["requests"].as_u64(), batch["responses"].as_u64())).collect();
    // The last word is not counted.
    assert_eq!(counts, [(Some(1), Some(4)), (Some(2), Some(8)), (Some(2), Some(8))]);
    let export = Export::read(&export);
    let requests = export.experiments()[0]["requests"].as_array().unwrap();
    let third_event = requests[0]["response_timestamps"][2].as_u64().unwrap();
    let sent: Vec<u64> = requests.iter().map(|request| request["timestamp"].as_u64().unwrap()).collect();
    assert!(sent.len() == 5 && sent[1..].iter().all(|sent| *sent >= third_event), "{third_event} {sent:?}");
}

#[test]
fn failures_in_a_row_end_a_periodic_load() {
    let payloads = Payloads::of(&[CHAT]);
    let server = HttpServer::start(|request: &Received| match request.ordinal {
        0..5 => good(request),
        _ => vec![
            Act::Wait(Duration::from_millis(20)),
            Act::Send(http_server::reply("500 Internal Server Error", "", b"")),
        ],
    });
    let load = "--streaming --periodic-concurrency-range 1:1000:1 --request-period 1 --max-errors 100% --stop-on";
    let run = payloads.on(&server).args(load).arg("consecutive>3").run();
    assert_eq!(run.code(), 3, "{}\n{}", run.stdout, run.stderr);
    assert_eq!(run.stderr.matches("requests failed in a row; the run ends").count(), 1, "{}", run.stderr);
    assert!(server.inferences() < 1000, "{}", server.inferences());
}
