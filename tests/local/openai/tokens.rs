//! Tokens of answers: those that the server counts, those that a tokenizer does, and chunks where nobody does.

use serde_json::Value;

use super::*;
use crate::support::Export;

/// What the export says of the tokens of a run: who counted them, how many there were in all, and requests.
fn counted(payloads: &Payloads, server: &HttpServer, flags: &str) -> (Value, f64, f64, String) {
    let file = payloads.path("export.json");
    drop(std::fs::remove_file(&file));
    let run = payloads.on(server).args("--profile-export-file").arg(&file).args(flags).run();
    let report = run.report_even_if_late();
    let summary = Export::read(&file).experiments()[0]["summary"].clone();
    let requests = summary["requests"].as_f64().unwrap();
    (summary["output_tokens_from"].clone(), summary["output_tokens"].as_f64().unwrap(), requests, report.text)
}

/// Nine letters and blanks in three chunks, and whatever else the server has to say.
fn letters(usage: &'static str) -> impl Fn(&Received) -> Vec<Act> + Send + Sync {
    move |_| {
        let role = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n".to_owned();
        let events = [role, content("ab cd"), content("efg"), content("h"), usage.to_owned(), DONE.to_owned()];
        vec![Act::Send(stream(&events))]
    }
}

#[test]
fn a_tokenizer_counts_what_the_server_does_not() {
    let payloads = Payloads::of(&[CHAT]);
    let tokenizer = payloads.path("tokenizer.json");
    write_tokenizer(&tokenizer);
    let flag = format!("--tokenizer {}", tokenizer.display());
    let server = HttpServer::start(letters(""));
    for load in [
        "--request-count 40",
        "--async --concurrency-range 4 --request-count 40",
        "--request-rate-range 40 --request-count 40",
        "--stage concurrency:2:40req",
    ] {
        let (from, tokens, requests, text) = counted(&payloads, &server, &format!("{load} {flag}"));
        assert_eq!((from, tokens, requests), ("tokenizer".into(), 40.0 * 9.0, 40.0), "{load}: {text}");
        assert!(text.contains("(360 tokens, counted by the tokenizer: the server reports no usage)"), "{text}");
    }
    let (from, tokens, requests, _) = counted(&payloads, &server, "--request-count 40");
    assert_eq!((from, tokens, requests), ("chunks".into(), 40.0 * 3.0, 40.0), "without the flag");
    let reporting = HttpServer::start(letters(USAGE));
    let (from, tokens, requests, text) = counted(&payloads, &reporting, &format!("--request-count 40 {flag}"));
    assert_eq!((from, tokens, requests), ("usage".into(), 40.0 * 6.0, 40.0), "what the server tells holds");
    assert!(text.contains("(240 tokens, counted by the server)"), "{text}");
}

#[test]
fn a_tokenizer_counts_answers_of_every_form() {
    let payloads = Payloads::of(&[CHAT]);
    let tokenizer = payloads.path("tokenizer.json");
    write_tokenizer(&tokenizer);
    let flag = format!("--request-count 10 --tokenizer {}", tokenizer.display());
    for events in [
        &[r#"{"content":"ab ","stop":false}"#, r#"{"content":"cd","stop":false}"#][..],
        &[
            r#"{"token":{"text":"ab "},"generated_text":null}"#,
            r#"{"token":{"text":"cd"},"generated_text":"ab cd","details":null}"#,
        ],
        &[r#"{"text_output":"ab "}"#, r#"{"text_output":"cd"}"#],
        &[
            r#"{"type":"response.output_text.delta","delta":"ab "}"#,
            r#"{"type":"response.output_text.delta","delta":"cd"}"#,
            r#"{"type":"response.completed","response":{}}"#,
        ],
    ] {
        let events: Vec<String> = events.iter().map(|event| format!("data: {event}\n\n")).collect();
        let answer = stream(&events);
        let server = HttpServer::start(move |_: &Received| vec![Act::Send(answer.clone())]);
        let (from, tokens, _, text) = counted(&payloads, &server, &flag);
        assert_eq!((from, tokens), ("tokenizer".into(), 50.0), "{events:?}: {text}");
    }
    for body in [
        r#"{"object":"response","output":[{"type":"message","content":[{"type":"output_text","text":"ab cd"}]}]}"#,
        r#"{"content":"ab cd","stop":true}"#,
        r#"{"generated_text":"ab cd"}"#,
    ] {
        let server =
            HttpServer::start(|_: &Received| vec![Act::Send(http_server::reply("200 OK", "", body.as_bytes()))]);
        let (from, tokens, _, text) = counted(&payloads, &server, &flag);
        assert_eq!((from, tokens), ("tokenizer".into(), 50.0), "{body}: {text}");
    }
}

#[test]
fn a_tokenizer_counts_bodies_and_what_it_does_not_take_is_chunks() {
    let payloads = Payloads::of(&[CHAT]);
    let tokenizer = payloads.path("tokenizer.json");
    write_tokenizer(&tokenizer);
    let flag = format!("--request-count 20 --tokenizer {}", tokenizer.display());
    let server = HttpServer::start(|request: &Received| {
        let body = r#"{"choices":[{"message":{"content":"hello"}},{"index":1,"message":{"content":"you"}}]}"#;
        let other = r#"{"choices":[{"message":{"content":""}}]}"#;
        let text = if request.ordinal.is_multiple_of(2) { body } else { other };
        vec![Act::Send(http_server::reply("200 OK", "", text.as_bytes()))]
    });
    let (from, tokens, _, text) = counted(&payloads, &server, &flag);
    assert_eq!((from, tokens), ("tokenizer".into(), 80.0), "of both choices: {text}");
    assert!(text.contains("Empty answers: 10"), "{text}");
    let mixed = HttpServer::start(|request: &Received| {
        if request.ordinal.is_multiple_of(2) { letters(USAGE)(request) } else { letters("")(request) }
    });
    let (from, tokens, _, text) = counted(&payloads, &mixed, &flag);
    assert_eq!((from, tokens), ("mixed".into(), 10.0 * 6.0 + 10.0 * 9.0), "{text}");
    assert!(text.contains("where the server reports no usage counted by the tokenizer"), "{text}");
    let missing = payloads.on(&server).args("--tokenizer /none/t.json").run();
    missing.failure(&["--tokenizer /none/t.json", "cannot be read"]);
    let other = Program::new().args("-m m --tokenizer x").run();
    other.refusal(&["--tokenizer x is for --service-kind openai"]);
}

/// An event without choices in a stream with them is no content, wherever it comes, and a usage that cannot be read is said.
#[test]
fn a_usage_that_cannot_be_read_is_said_and_nothing_odd_is_content() {
    let payloads = Payloads::of(&[CHAT]);
    for (count, tokens, words) in [
        ("9.0", 9, "counted by the server"),
        ("-4", 2, "each chunk counted as one: its usage cannot be read"),
        ("\"9\"", 2, "each chunk counted as one: its usage cannot be read"),
        ("18446744073709551615", 2, "Answers whose usage cannot be read: 10 ("),
    ] {
        let odd = "data: {\"id\":\"x\"}\n\n".to_owned();
        let usage = format!("data: {{\"choices\":[],\"usage\":{{\"completion_tokens\":{count}}}}}\n\n");
        let events = [odd.clone(), content("a"), odd, content("b"), usage, DONE.to_owned()];
        let server = HttpServer::start(move |_| vec![Act::Send(stream(&events))]);
        let run = payloads.on(&server).args("--streaming --request-count 10").run();
        let expected = format!("({} tokens, ", 10 * tokens);
        assert!(run.stdout.contains(&expected) && run.stdout.contains(words), "{count}: {}", run.stdout);
    }
}

#[test]
fn streams_that_never_come_are_missed() {
    let payloads = Payloads::of(&[CHAT]);
    let run = payloads.on(&HttpServer::start(answer)).args("--streaming --request-count 10").run();
    assert!(
        run.stdout.contains("none of 10 answers is a stream, although --streaming asked for them"),
        "{}",
        run.stdout
    );
}
