//! Tokens and token times: what is reported, and whether it is true.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::*;
use crate::support::Export;

#[test]
fn tokens_are_the_servers_and_else_chunks() {
    let payloads = Payloads::of(&[CHAT]);
    let counted = HttpServer::start(|_: &Received| {
        vec![Act::Send(stream(&[content("a"), content("b"), USAGE.to_owned(), DONE.to_owned()]))]
    });
    let run = payloads.on(&counted).args("--request-count 20 --verbose-csv -f").arg(payloads.path("out.csv"));
    let run = run.args("--profile-export-file").arg(payloads.path("export.json")).run();
    let report = run.report();
    assert!(run.stdout.contains("tokens/sec (120 tokens, counted by the server)\n"), "{}", run.stdout);
    assert!(
        run.stdout.contains("    Events per read: 4.00 (events that arrive in one read share its time"),
        "{}",
        run.stdout
    );
    assert!(report.level().client().contains("    Time to first token: avg "), "{}", run.stdout);
    let mut csv = csv::Reader::from_path(payloads.path("out.csv")).unwrap();
    let header = csv.headers().unwrap().clone();
    let row = csv.records().next().unwrap().unwrap();
    let cell = |name: &str| row[header.iter().position(|title| title == name).unwrap()].parse::<f64>().unwrap();
    assert!(cell("Output Tokens/Second") > 0.0 && cell("p99 time to first token") > 0.0);
    let export = Export::read(&payloads.path("export.json"));
    let summary = &export.experiments()[0]["summary"];
    assert_eq!((&summary["output_tokens"], &summary["output_tokens_from"]), (&120.into(), &"usage".into()));
    assert_eq!(summary["time_to_first_token_ns"]["count"], 20);
    assert_eq!(summary["inter_chunk_latency_ns"]["count"], 20);

    let untold =
        HttpServer::start(|_: &Received| vec![Act::Send(stream(&[content("a"), content("b"), DONE.to_owned()]))]);
    let run = payloads.on(&untold).args("--request-count 20").run();
    run.report();
    let words = "tokens/sec (40 tokens, each chunk counted as one: the server reports no usage)\n";
    assert!(run.stdout.contains(words), "{}", run.stdout);

    let body = HttpServer::start(answer);
    let run = payloads.on(&body).args("--async --request-count 20").run();
    run.report();
    assert!(
        run.stdout.contains("(40 tokens, counted by the server)") && !run.stdout.contains("first token"),
        "{}",
        run.stdout
    );
}

#[test]
fn odd_streams_are_listed() {
    let payloads = Payloads::of(&[CHAT]);
    let finish = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
    let server = HttpServer::start(move |request: &Received| match request.ordinal % 2 {
        0 => vec![Act::Send(stream(&[content("a"), finish.to_owned()]))],
        _ => vec![Act::Send(stream(&[DONE.to_owned()]))],
    });
    let run = payloads.on(&server).args("--request-count 30").run();
    run.report();
    assert!(run.stdout.contains("    Empty answers: 15 (successes without any content)\n"), "{}", run.stdout);
    assert!(
        run.stdout.contains("    Streams without [DONE]: 15 (they did report a finish_reason)\n"),
        "{}",
        run.stdout
    );
}

#[test]
fn answers_without_anything_in_them_are_said_to_be_empty() {
    let payloads = Payloads::of(&[CHAT]);
    for (body, is_empty) in [("{}", true), ("", true), (" null\n", true), (r#"{"content": "llama"}"#, false)] {
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
        let server = HttpServer::start(move |_: &Received| vec![Act::Send((head.clone() + body).into_bytes())]);
        let run = payloads.on(&server).args("--async --request-count 20").run();
        run.report();
        let remark = "[WARNING] all 20 answers are successes without any content";
        assert_eq!(run.stdout.contains(remark), is_empty, "{body:?}: {}", run.stdout);
    }
}

#[test]
fn closing_events_of_other_forms_are_no_tokens() {
    let payloads = Payloads::of(&[CHAT]);
    let server = HttpServer::start(|_: &Received| {
        let event = |text: &str, members: &str| format!("data: {{\"content\":\"{text}\"{members}}}\n\n");
        let last = event("", ",\"stop\":true,\"tokens_predicted\":3,\"tokens_evaluated\":9");
        vec![Act::Send(stream(&[event("a", ""), event("b", ""), last]))]
    });
    let run = payloads.on(&server).args("--endpoint completion --request-count 20").run();
    run.report();
    assert!(run.stdout.contains("tokens/sec (60 tokens, counted by the server)"), "{}", run.stdout);
    assert!(run.stdout.contains("(9 tokens each; in all "), "{}", run.stdout);
}

/// A stream that begins after `first` milliseconds, and whose events each come that many milliseconds after the one before.
fn later(first: u64, events: &[(u64, String)]) -> Vec<Act> {
    let wait = |ms| Act::Wait(Duration::from_millis(ms));
    let mut acts = vec![wait(first), Act::Send(STREAM.into())];
    for (ms, event) in events {
        acts.extend([wait(*ms), Act::Send(chunk(event))]);
    }
    acts.push(Act::Send([chunk(DONE), chunk("")].concat()));
    acts
}

/// The mean of each figure in milliseconds, of answers that are all like this; none where a figure is not known.
fn means(endpoint: &str, acts: Vec<Act>, figures: [&str; 2]) -> [Option<f64>; 2] {
    let payloads = Payloads::of(&[CHAT]);
    let server = HttpServer::start(move |_: &Received| acts.clone());
    let file = payloads.path("export.json");
    let run = payloads.on(&server).args("--request-count 10 --endpoint").arg(endpoint);
    run.args("--profile-export-file").arg(&file).run().report();
    let summary = &Export::read(&file).experiments()[0]["summary"].clone();
    let mean =
        |figure: &str| summary[figure]["count"].as_u64().filter(|count| *count > 0).map(|_| &summary[figure]["avg"]);
    figures.map(|figure| mean(figure).map(|ns| ns.as_f64().unwrap() / 1e6))
}

const CHAT_COMPLETIONS: &str = "v1/chat/completions";

#[test]
fn timed_tokens_of_the_first_chunk_are_not_between_tokens() {
    let usage = "data: {\"choices\":[],\"usage\":{\"completion_tokens\":9}}\n\n".to_owned();
    let word = |text: &str| (20, content(text));
    for last in [Some((0, usage)), None] {
        // Five tokens at once, and then four, one by one.
        let events =
            [(20, content("w w w w w ")), word("w "), word("w "), word("w "), word("w ")].into_iter().chain(last);
        let acts = later(0, &events.collect::<Vec<_>>());
        let [gap, _] = means(CHAT_COMPLETIONS, acts, ["inter_token_latency_ns", "latency_ns"]);
        let gap = gap.unwrap();
        assert!((20.0..26.0).contains(&gap), "{gap} ms");
    }
}

#[test]
fn timed_answers_that_come_at_once_have_no_time_between_tokens() {
    let usage = "data: {\"choices\":[],\"usage\":{\"completion_tokens\":100}}\n\n".to_owned();
    let in_one_event = later(20, &[(0, content(&"w ".repeat(100))), (20, usage)]);
    let in_one_write = later(20, &[(0, content("w ").repeat(10))]);
    for acts in [in_one_event, in_one_write] {
        let payloads = Payloads::of(&[CHAT]);
        let server = HttpServer::start(move |_: &Received| acts.clone());
        let run = payloads.on(&server).args("--request-count 4 --goodput itl<10s").run();
        run.report();
        assert!(!run.stdout.contains("Inter token latency") && !run.stdout.contains("per user"), "{}", run.stdout);
        assert!(
            run.stdout.contains("Time to first token") && run.stdout.contains("(0.00% of requests)"),
            "{}",
            run.stdout
        );
    }
}

#[test]
fn timed_messages_begin_with_their_first_text() {
    let event = |kind: &str, members: &str| format!("event: {kind}\ndata: {{\"type\":\"{kind}\"{members}}}\n\n");
    let text = |ms| (ms, event("content_block_delta", r#","index":0,"delta":{"type":"text_delta","text":"Hi "}"#));
    let events = [
        (0, event("message_start", r#","message":{"content":[],"usage":{"input_tokens":9,"output_tokens":1}}"#)),
        (0, event("content_block_start", r#","index":0,"content_block":{"type":"text","text":""}"#)),
        (20, event("ping", "")),
        text(60),
        text(10),
        text(10),
        text(10),
        (10, event("content_block_stop", r#","index":0"#)),
        (0, event("message_delta", r#","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":4}"#)),
        (0, event("message_stop", "")),
    ];
    let figures = ["time_to_first_token_ns", "inter_token_latency_ns"];
    let [first, gap] = means("v1/messages", later(0, &events), figures).map(Option::unwrap);
    assert!((80.0..90.0).contains(&first) && (10.0..14.0).contains(&gap), "{first} {gap}");
}

#[test]
fn timed_goodput_counts_requests_within_their_limits() {
    let payloads = Payloads::of(&[CHAT]);
    // Every fifth fails, every fifth is slow to begin.
    let server = HttpServer::start(|request: &Received| {
        let whole = later(0, &[(0, content("a")), (30, content("b"))]);
        match request.ordinal % 5 {
            0 => vec![Act::Send(http_server::reply("500 Oops", "", b""))],
            1 => [vec![Act::Wait(Duration::from_millis(1500))], whole].concat(),
            _ => whole,
        }
    });
    let run = payloads.on(&server).args("--request-count 20 --max-errors 100% --async --concurrency-range 4");
    let run = run.args("--goodput ttft<1s --goodput itl<1s --profile-export-file").arg(payloads.path("e.json")).run();
    assert_eq!(run.code(), 0, "{run:#?}");
    assert!(
        run.stdout.contains("    Goodput: ") && run.stdout.contains("requests/sec (60.00% of requests)"),
        "{}",
        run.stdout
    );
    let export = Export::read(&payloads.path("e.json"));
    assert_eq!(export.experiments()[0]["summary"]["goodput_share"], 0.6);
    let words = ["--goodput ttft<1s", "--service-kind openai"];
    Program::new().args("-m m --goodput ttft<1s").run().refusal(&words);
}

#[test]
fn times_of_a_schedule_run_from_when_requests_were_due() {
    let payloads = Payloads::of(&[CHAT]);
    // Twice as long as between two requests: each waits for those before it.
    let server = HttpServer::start(|_: &Received| {
        vec![Act::Wait(Duration::from_millis(100)), Act::Send(stream(&[content("a"), content("b"), DONE.to_owned()]))]
    });
    let file = payloads.path("export.json");
    let run = payloads.on(&server).args("--request-rate-range 20 --max-outstanding 1 --request-count 20");
    let run = run.args("--goodput ttft<400ms --profile-export-file").arg(&file).run();
    assert!([0, 4].contains(&run.code()), "{run:#?}");
    let export = Export::read(&file);
    let summary = &export.experiments()[0]["summary"];
    let mean = |figure: &str| summary[figure]["avg"].as_f64().unwrap();
    let (first, delay) = (mean("time_to_first_token_ns"), mean("schedule_delay_ns"));
    assert!(delay > 300e6 && first > delay + 99e6, "{first} {delay}");
    assert!((first - mean("response_time_ns")).abs() < 1e6, "both events come at once, at the end");
    let good = summary["goodput_share"].as_f64().unwrap();
    assert!(good > 0.0 && good < 0.9, "the first are in time, the others are not: {good}");
}

/// When a request had come, and when each event was about to be written.
#[derive(Clone, Debug)]
struct Written {
    begun: Instant,
    events: Vec<Instant>,
}

const FIRST: Duration = Duration::from_millis(50);
const NEXT: Duration = Duration::from_millis(5);
const EVENTS: usize = 100;

/// A server that sends events at known times, and writes these down.
fn timed(written: Arc<Mutex<Vec<Written>>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for socket in listener.incoming().map_while(Result::ok) {
            let written = Arc::clone(&written);
            thread::spawn(move || drop(serve(socket, &written)));
        }
    });
    address
}

fn serve(mut socket: TcpStream, written: &Mutex<Vec<Written>>) -> std::io::Result<()> {
    socket.set_nodelay(true)?;
    let (mut buffer, mut received) = ([0; 4096], Vec::new());
    loop {
        received.clear();
        while !received.ends_with(CHAT.as_bytes()) {
            match socket.read(&mut buffer)? {
                0 => return Ok(()),
                count => received.extend_from_slice(&buffer[..count]),
            }
        }
        let begun = Instant::now();
        socket.write_all(STREAM.as_bytes())?;
        let role = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
        socket.write_all(&chunk(role))?;
        let mut events = Vec::new();
        for event in 0..EVENTS {
            thread::sleep((begun + FIRST + NEXT * event as u32).saturating_duration_since(Instant::now()));
            events.push(Instant::now());
            socket.write_all(&chunk(&content("x")))?;
        }
        written.lock().unwrap().push(Written { begun, events });
        socket.write_all(&[chunk(DONE), chunk("")].concat())?;
    }
}

#[test]
fn timed_figures_are_true_to_a_millisecond() {
    let payloads = Payloads::of(&[CHAT]);
    let written: Arc<Mutex<Vec<Written>>> = Arc::default();
    let address = timed(Arc::clone(&written));
    let file = payloads.path("export.json");
    let run = bare(&address).args("--input-data").arg(payloads.path("payloads.json"));
    run.args("--request-count 4 --profile-export-file").arg(&file).run().report();
    let written = written.lock().unwrap().clone();
    let export = Export::read(&file);
    let experiment = &export.experiments()[0];
    let requests = experiment["requests"].as_array().unwrap();
    let summary = &experiment["summary"];
    assert_eq!((requests.len(), written.len()), (4, 4));
    assert_eq!(summary["inter_chunk_latency_ns"]["count"], 4 * (EVENTS as u64 - 1));
    // In milliseconds from the start; the first event names the role, the last ends the stream.
    let arrivals: Vec<Vec<f64>> = requests
        .iter()
        .map(|request| {
            let times = request["response_timestamps"].as_array().unwrap();
            let begun = request["timestamp"].as_u64().unwrap();
            times[1..=EVENTS].iter().map(|time| (time.as_u64().unwrap() - begun) as f64 / 1e6).collect()
        })
        .collect();
    let sent: Vec<Vec<f64>> = written
        .iter()
        .map(|stream| stream.events.iter().map(|at| (*at - stream.begun).as_secs_f64() * 1e3).collect())
        .collect();
    // What is reported is what was seen, however late that was.
    let mean = |statistic: &dyn Fn(&[f64]) -> f64| {
        arrivals.iter().map(|times| statistic(times)).sum::<f64>() / arrivals.len() as f64
    };
    let (first, last) = (|times: &[f64]| times[0], |times: &[f64]| times[EVENTS - 1]);
    let gap = |times: &[f64]| (last(times) - first(times)) / (EVENTS - 1) as f64;
    // Of a machine that stands still, two may come in one read.
    let later = |times: &[f64]| times.iter().filter(|time| **time > times[0]).count();
    for (figure, expected) in [
        ("time_to_first_token_ns", mean(&first)),
        ("time_to_second_token_ns", mean(&|times: &[f64]| times[EVENTS - later(times)] - times[0])),
        ("latency_ns", mean(&last)),
        ("inter_chunk_latency_ns", mean(&gap)),
        ("inter_token_latency_ns", mean(&|times: &[f64]| (last(times) - first(times)) / later(times) as f64)),
        ("normalized_latency_ns", mean(&|times: &[f64]| last(times) / EVENTS as f64)),
    ] {
        let reported = summary[figure]["avg"].as_f64().unwrap() / 1e6;
        assert!((reported - expected).abs() < 0.001, "{figure}: {reported} instead of {expected} ms");
    }
    // What was seen is what was sent: an event cannot come before it is written, and most come at once. On a machine that does
    // other things, some come later.
    let mut late: Vec<f64> =
        arrivals.iter().flatten().zip(sent.iter().flatten()).map(|(reported, sent)| reported - sent).collect();
    late.sort_by(f64::total_cmp);
    let (earliest, quarter) = (late[0], late[late.len() / 4]);
    assert!(earliest >= 0.0 && quarter < 1.0, "{earliest} to {quarter} ms late");
}
