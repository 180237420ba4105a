//! How answers are read, whatever pieces they arrive in.

use std::sync::Arc;

use super::fuzzing::{Outcome, outcome, payload, service, spec, timeless};
use super::*;
use crate::backend::{Generation, Parameter, ParameterValue, Request, RequestOptions};
use crate::data::PayloadId;
use crate::engine::http1::HttpService;

/// The result of an answer, which is the same however it is cut.
fn read(answer: &str, ends: bool) -> Outcome {
    let bytes = answer.as_bytes();
    let whole = timeless(outcome(std::iter::once(bytes), ends, 10_000));
    for cut in 0..=bytes.len() {
        let (front, back) = bytes.split_at(cut);
        let cut_once = timeless(outcome([front, back].into_iter().filter(|piece| !piece.is_empty()), ends, 10_000));
        assert_eq!(cut_once, whole, "{answer:?} cut at {cut}");
    }
    for size in 1..16 {
        assert_eq!(timeless(outcome(bytes.chunks(size), ends, 10_000)), whole, "{answer:?} in pieces of {size}");
    }
    whole
}

const EVENTS: &str = "HTTP/1.1 200 OK\r\ncontent-type: Text/Event-Stream; charset=utf-8\r\n";

fn chunked(stream: &str) -> String {
    let middle = stream.len() / 3;
    let middle = (middle..).find(|&at| stream.is_char_boundary(at)).unwrap();
    let (first, second) = stream.split_at(middle);
    let chunk = |text: &str| if text.is_empty() { String::new() } else { format!("{:x}\r\n{text}\r\n", text.len()) };
    format!("{EVENTS}Transfer-Encoding: chunked\r\n\r\n{}{}0\r\n\r\n", chunk(first), chunk(second))
}

fn delta(content: &str) -> String {
    format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{content}\"}}}}]}}\n\n")
}

const ROLE: &str = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
const STOP: &str = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":null}\n\n";
const USAGE: &str = "data: {\"choices\":[],\"usage\":{\"completion_tokens\":5}}\n\n";
const DONE: &str = "data: [DONE]\n\n";

#[test]
fn streams_come_to_the_same_however_they_are_cut() {
    let stream = format!("{ROLE}: keep-alive\n\n{}{}{STOP}{USAGE}{DONE}", delta("a\u{e9}"), delta("\\n"));
    let outcome = read(&chunked(&stream), false);
    let kinds: Vec<&str> = outcome.responses.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(kinds, ["aside", "content", "content", "aside", "aside", "aside"]);
    assert_eq!(outcome.responses[1].1, delta("a\u{e9}"), "observers see events as they came");
    assert_eq!(outcome.responses[5].1, DONE);
    let generation = Generation { chunks: 2, tokens: Some(5), events: 6, ..Generation::default() };
    assert_eq!((outcome.generation, outcome.error, outcome.broken), (Some(generation), None, None));
}

#[test]
fn ends_of_lines_and_forms_of_streams_do_not_matter() {
    let expected = Generation { chunks: 1, events: 3, ..Generation::default() };
    let stream = format!("{}{STOP}{DONE}", delta("x"));
    for text in [stream.replace('\n', "\r\n"), stream.replace('\n', "\r"), format!("{stream}data: {{not looked at")] {
        assert_eq!(read(&chunked(&text), false).generation, Some(expected), "{text:?}");
    }
    // Until the connection ends; without the last blank line; and cut off after [DONE].
    let closed = format!("{EVENTS}\r\n{}", stream.trim_end());
    assert_eq!(read(&closed, true).generation, Some(expected));
    let broken_off = chunked(&stream).strip_suffix("0\r\n\r\n").unwrap().to_owned();
    let outcome = read(&broken_off, true);
    assert_eq!((outcome.generation, outcome.broken), (Some(expected), None));
    // What follows [DONE] is not part of the answer.
    let after = read(&chunked(&format!("{stream}{}data: nonsense\n\n", delta("late"))), false);
    assert_eq!((after.generation, after.responses.len()), (Some(expected), 3));
}

#[test]
fn times_are_those_of_the_reads_in_which_events_end() {
    let stream = [ROLE, &delta("a"), &delta("b"), &delta("c"), STOP, DONE].concat();
    let answer = format!("{EVENTS}Content-Length: {}\r\n\r\n{stream}", stream.len());
    let ends = |text: &str| answer.find(text).unwrap() + text.len();
    let cuts = [ends(&delta("a")) - 1, ends(&delta("a")), ends(&delta("b")) + 3, ends(STOP), answer.len()];
    let pieces = [0].into_iter().chain(cuts).zip(cuts).map(|(from, to)| &answer.as_bytes()[from..to]);
    let generation = outcome(pieces, false, 10_000).generation.unwrap();
    let read = |number: u64| crate::clock::Stamp(u64::MAX / 2 + number);
    assert_eq!((generation.first, generation.second, generation.end), (Some(read(1)), Some(read(2)), read(3)));
    assert_eq!((generation.chunks, generation.events, generation.reads), (3, 6, 5));
}

#[test]
fn broken_streams_are_failures() {
    let failed = |answer: &str, ends: bool| {
        let outcome = read(answer, ends);
        assert_eq!(outcome.generation, None, "{answer:?}");
        outcome.broken.or(outcome.error).map(|error| error.to_string()).unwrap_or_default()
    };
    let cut = format!("{EVENTS}\r\n{}", delta("a"));
    assert!(failed(&cut, true).contains("before [DONE] and before any finish_reason"));
    assert!(failed(&chunked(&delta("a")), false).contains("before [DONE] and before any finish_reason"));
    assert!(failed(&format!("{EVENTS}\r\n"), true).contains("before [DONE]"), "nothing at all is no answer");
    let block = "data: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"a\"}}\n\n";
    assert!(failed(&chunked(block), false).contains("before message_stop and before any stop_reason"));
    let text = "data: {\"type\":\"response.output_text.delta\",\"delta\":\"a\"}\n\n";
    for cut in [text.to_owned(), format!("{text}data: {{\"type\":\"keepalive\",\"sequence_number\":2}}\n\n")] {
        let problem = failed(&chunked(&cut), false);
        assert!(problem.ends_with("the stream ends before response.completed"), "{problem}");
    }
    let within = chunked(&delta("a")).strip_suffix("0\r\n\r\n").unwrap().to_owned();
    assert!(failed(&within, true).contains("Connection closed"));
    for data in ["data: {\"choices\":[\n\n", "data: hello\n\n", "data: \"\n\n"] {
        assert!(failed(&chunked(&format!("{data}{DONE}")), false).contains("not JSON"), "{data}");
    }
}

/// Gateways keep connections alive by them, before an answer begins and within it.
#[test]
fn events_without_data_are_passed_over() {
    let expected = Generation { chunks: 2, tokens: Some(5), events: 5, ..Generation::default() };
    for empty in ["data:\n\n", "data: \n\n", "event: ping\ndata:\n\n", "data:  \r\n\r\n", "id: 1\ndata\n\n"] {
        let stream = [empty, &delta("a"), empty, empty, &delta("b"), STOP, empty, USAGE, DONE].concat();
        let outcome = read(&chunked(&stream), false);
        assert_eq!((outcome.generation, outcome.responses.len()), (Some(expected), 5), "{empty:?}");
    }
    // Before the form of the stream is known, it is no content either, of which gaps are measured.
    let keepalive = "data: {\"type\":\"keepalive\",\"sequence_number\":1}\n\n";
    let outcome = read(&chunked(&[keepalive, &delta("a"), STOP, DONE].concat()), false);
    let kinds: Vec<&str> = outcome.responses.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(kinds, ["aside", "content", "aside", "aside"]);
    let error = read(&chunked(&format!("event: error\ndata:\n\n{DONE}")), false);
    assert!(error.generation.is_none() && error.error.is_some(), "{error:?}");
}

/// vLLM's endpoint that takes tokens and gives them.
#[test]
fn tokens_without_text_are_content_and_count() {
    let event = |choice: &str| format!("data: {{\"request_id\":\"r\",\"choices\":[{{\"index\":0,{choice}}}]}}\n\n");
    let events = [
        event("\"token_ids\":[],\"finish_reason\":null"),
        event("\"token_ids\":[7,8]"),
        event("\"token_ids\":[ 9 ]"),
        event("\"token_ids\":null,\"finish_reason\":\"length\""),
    ];
    let of = |stream: String| read(&chunked(&stream), false).generation.unwrap();
    let expected = Generation { chunks: 2, tokens: Some(3), events: 5, ..Generation::default() };
    assert_eq!(of(events.concat() + DONE), expected);
    assert_eq!(of(events.concat() + USAGE + DONE), Generation { tokens: Some(5), events: 6, ..expected });
    let body = |choice: &str| read(&plain("200 OK", &format!("{{\"choices\":[{choice}]}}")), false).generation.unwrap();
    let ids = body(r#"{"token_ids":[1,2,3],"finish_reason":"stop"},{"token_ids":[4]}"#);
    assert_eq!((ids.chunks, ids.tokens), (1, Some(4)));
    let beside = body(r#"{"message":{"content":"ab"},"token_ids":[1,2,3]}"#);
    assert_eq!((beside.chunks, beside.tokens), (1, None), "of an answer that has a text, it is the text that counts");
    let silent = of(event("\"delta\":{\"content\":\"\"},\"token_ids\":[7]") + STOP + DONE);
    assert_eq!((silent.chunks, silent.tokens), (0, None));
}

/// Some servers name no type of content, or another, as those of others' frameworks do by default.
#[test]
fn streams_are_known_by_their_beginning() {
    let stream = format!("{}{STOP}{USAGE}{DONE}", delta("a"));
    let expected = Generation { chunks: 1, tokens: Some(5), events: 4, ..Generation::default() };
    for begun in ["", ": hello\n\n", "event: message\n", "id: 1\n", "retry: 3000\n\n", "\n\n", "\u{feff}"] {
        for kind in ["Content-Type: text/plain; charset=utf-8", "Content-Type: application/json", "X: y"] {
            let answer = format!("HTTP/1.1 200 OK\r\n{kind}\r\n\r\n{begun}{stream}");
            assert_eq!(read(&answer, true).generation, Some(expected), "{kind}: {begun}");
        }
    }
    let other = read(&plain("200 OK", "dat"), false);
    assert!(other.error.unwrap().message.contains("its body is not JSON"));
}

#[test]
fn what_ends_a_stream_may_have_spaces_around_it() {
    for done in ["data: [DONE] \n\n", "data:[DONE]\n\n", "data:  [DONE]\r\n\r\n"] {
        let outcome = read(&chunked(&format!("{}{done}", delta("a"))), false);
        assert!(outcome.generation.is_some_and(|generation| generation.chunks == 1), "{done}");
    }
}

#[test]
fn errors_within_a_stream_are_failures_and_the_connection_is_as_good_as_before() {
    for (stream, message) in [
        // As vLLM sends it, as LitServe sends it, and by the event's type.
        (
            format!("{}data: {{\"error\":{{\"message\":\"oom\",\"type\":\"Internal\"}}}}\n\n{DONE}", delta("a")),
            "Internal: oom",
        ),
        (format!("{}data: {{\"error\":\"oom\"}}", delta("a")), "oom"),
        (format!("event: error\ndata: out of luck\n\n{DONE}"), "out of luck"),
        // As Ollama does.
        (format!("{}{{\"error\":{{\"message\":\"oom\",\"type\":\"api_error\"}}}}\n", delta("a")), "api_error: oom"),
        // As llama.cpp's server sent it until 2025.
        (
            format!("{}error: {{\"code\":500,\"message\":\"oom\",\"type\":\"server_error\"}}\n\n{DONE}", delta("a")),
            "server_error: oom",
        ),
        (format!("event: error\ndata: {{\"message\":\"no\"}}\n\n{}{DONE}", delta("b")), "no"),
        (
            "data: {\"type\":\"response.failed\",\"response\":{\"error\":{\"code\":\"oom\",\"message\":\"no memory\"}}}\n\n"
                .to_owned(),
            "oom: no memory",
        ),
        // The Responses API's, without its name.
        ("data: {\"type\":\"error\",\"code\":\"busy\",\"message\":\"later\"}\n\n".to_owned(), "busy: later"),
    ] {
        let outcome = read(&chunked(&stream), false);
        assert!(outcome.whole && outcome.broken.is_none() && outcome.generation.is_none(), "{outcome:?}");
        assert_eq!(outcome.error.unwrap().message, format!("Error response: {message}"));
    }
}

#[test]
fn streams_without_end_or_content_are_successes_of_their_own_kind() {
    let unended = read(&chunked(&format!("{}{STOP}", delta("a"))), false).generation.unwrap();
    assert!(unended.unended && unended.chunks == 1);
    let cut = format!("{EVENTS}\r\n{}{STOP}", delta("a"));
    assert!(read(&cut, true).generation.unwrap().unended);
    let empty = read(&chunked(&format!("{ROLE}{STOP}{USAGE}{DONE}")), false).generation.unwrap();
    assert_eq!((empty.chunks, empty.tokens, empty.first), (0, Some(5), None));
    let zero = USAGE.replace('5', "0");
    let lied = read(&chunked(&format!("{}{STOP}{zero}{DONE}", delta("a"))), false).generation.unwrap();
    assert_eq!((lied.chunks, lied.tokens), (1, None), "a usage of 0 beside text is none");
    // As llama.cpp and Triton end theirs.
    for (text, tokens) in [("content", Some(2)), ("text_output", None)] {
        let event = |said: &str, members: &str| format!("data: {{\"{text}\":\"{said}\"{members}}}\n\n");
        let count = if tokens.is_some() { ",\"tokens_predicted\":2" } else { "" };
        let stream = [event("a", ""), event("b", ""), event("", count)].concat();
        let generation = read(&chunked(&stream), false).generation.unwrap();
        assert_eq!((generation.chunks, generation.events, generation.tokens), (2, 3, tokens), "{text}");
    }
    let other = read(&chunked("event: tick\ndata: {\"type\":\"tick\"}\n\n"), false).generation.unwrap();
    assert!(!other.unended && other.chunks == 1, "streams of another form end where they end");
}

/// Servers keep connections alive by events of types that no list has, even before the first of a type that is known.
#[test]
fn events_of_unknown_types_are_no_content_of_typed_streams() {
    let unknown = r#"{"type":"keepalive","sequence_number":1}"#;
    let responses = [
        r#"{"type":"response.created","response":{}}"#,
        r#"{"type":"response.output_text.delta","delta":"a"}"#,
        r#"{"type":"response.completed","response":{"usage":{"output_tokens":2}}}"#,
    ];
    let messages = [
        r#"{"type":"message_start","message":{}}"#,
        r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"a"}}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}"#,
    ];
    for [first, content, last] in [responses, messages] {
        let events = [unknown, first, unknown, content, unknown, last, unknown];
        let stream = events.map(|data| format!("data: {data}\n\n")).concat();
        let generation = read(&chunked(&stream), false).generation.unwrap();
        assert_eq!((generation.chunks, generation.tokens, generation.events), (1, Some(2), 7), "{first}");
    }
}

/// SGLang's own endpoint has the whole text in each event, and the tokens so far beside it.
#[test]
fn tokens_of_a_stream_of_whole_texts_are_those_of_its_last_event() {
    let event = |text: &str, tokens: u64, reason: &str| {
        let counts = format!("\"prompt_tokens\":9,\"completion_tokens\":{tokens},\"cached_tokens\":4");
        format!("data: {{\"text\":\"{text}\",\"meta_info\":{{\"finish_reason\":{reason},{counts}}}}}\n\n")
    };
    let stream = [event("a", 2, "null"), event("ab", 5, "null"), event("abc", 7, "{\"type\":\"length\"}")].concat();
    let answer = chunked(&format!("{stream}{DONE}"));
    let generation = outcome(answer.as_bytes().chunks(40), false, 10_000).generation.unwrap();
    assert_eq!((generation.chunks, generation.tokens), (3, Some(7)));
    assert_eq!((generation.input.all, generation.input.cached), (Some(9), Some(4)));
}

/// The same of several texts at once.
#[test]
fn tokens_of_several_texts_in_a_stream_are_those_of_all() {
    let event = |index: u64, text: &str, tokens: u64| {
        let counts = format!("\"prompt_tokens\":9,\"completion_tokens\":{tokens},\"cached_tokens\":4");
        format!("data: {{\"text\":\"{text}\",\"meta_info\":{{{counts}}},\"index\":{index}}}\n\n")
    };
    let stream = [event(0, "a", 2), event(1, "x", 3), event(0, "ab", 5), event(1, "xy", 4)].concat();
    let of = |answer: String| outcome(answer.as_bytes().chunks(40), false, 10_000).generation.unwrap();
    let generation = of(chunked(&format!("{stream}{DONE}")));
    assert_eq!((generation.chunks, generation.tokens), (4, Some(9)));
    assert_eq!((generation.input.all, generation.input.cached), (Some(18), Some(8)));
    let text = r#"{"text":"a","meta_info":{"prompt_tokens":9,"completion_tokens":3}}"#;
    let generation = of(plain("200 OK", &format!("[{text},{text}]")));
    assert_eq!((generation.chunks, generation.tokens, generation.input.all), (1, Some(6), Some(18)));
    let endless = format!("data: {{\"text\":\"a\",\"meta_info\":{{}},\"index\":{}}}\n\n", u32::MAX);
    let outcome = read(&chunked(&format!("{endless}{DONE}")), false);
    assert!(outcome.broken.unwrap().message.contains("text 4294967295 of its answer"));
}

#[test]
fn input_tokens_of_messages_come_at_the_beginning_and_stay() {
    let start = r#"{"type":"message_start","message":{"usage":{"input_tokens":9,"cache_read_input_tokens":30}}}"#;
    let block = r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"a"}}"#;
    let end = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}"#;
    let stream = [start, block, end, r#"{"type":"message_stop"}"#].map(|data| format!("data: {data}\n\n")).concat();
    let generation = outcome(std::iter::once(chunked(&stream).as_bytes()), false, 10_000).generation.unwrap();
    assert_eq!((generation.input.all, generation.input.cached, generation.tokens), (Some(39), Some(30), Some(2)));
}

fn plain(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

#[test]
fn bodies_are_answers_or_errors() {
    let chat = r#"{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],"usage":{"completion_tokens":2}}"#;
    let outcome = read(&plain("200 OK", chat), false);
    assert_eq!(outcome.responses, [("content".to_owned(), chat.to_owned())]);
    assert_eq!(outcome.generation, Some(Generation { chunks: 1, tokens: Some(2), ..Generation::default() }));
    let embedding = read(&plain("201 Created", r#"{"data":[{"embedding":[0.1]}],"usage":{"prompt_tokens":2}}"#), false);
    assert_eq!(embedding.generation, Some(Generation { chunks: 1, ..Generation::default() }));
    for empty in ["", "{\"choices\":[{\"message\":{\"content\":\"\"}}]}"] {
        assert_eq!(read(&plain("200 OK", empty), false).generation.unwrap().chunks, 0, "{empty}");
    }
    for (status, body, message) in [
        (
            "200 OK",
            r#"{"error":{"message":"no such model","type":"NotFound"}}"#,
            "Error response: NotFound: no such model",
        ),
        ("200 OK", "hello", "Malformed reply: its body is not JSON"),
        ("200 OK", "{\"done\":false}\n{\"done\":true}\n", "Malformed reply: its body is not JSON: trailing"),
        ("404 Not Found", r#"{"error":{"message":"m","type":"t"}}"#, "HTTP 404: t: m"),
        ("302 Found", "", "HTTP 302"),
        ("500 Oops", "<html>", "HTTP 500: <html>"),
    ] {
        let outcome = read(&plain(status, body), false);
        assert!(outcome.whole && outcome.generation.is_none(), "{outcome:?}");
        assert!(outcome.error.as_ref().unwrap().message.starts_with(message), "{message}: {outcome:?}");
    }
    let refused = plain("400 Bad", "data: x\n\n").replace("application/json", "text/event-stream");
    assert!(read(&refused, false).error.unwrap().message.starts_with("HTTP 400: data: x"));
}

#[test]
fn answers_have_a_bound() {
    let broken = |answer: &str| outcome(answer.as_bytes().chunks(100), true, 1000).broken.unwrap().message;
    let long = format!("\"{}\"", "x".repeat(1000));
    assert!(broken(&plain("200 OK", &long)).contains("1000 bytes (--max-reply-bytes)"), "as it promises");
    assert!(broken(&format!("HTTP/1.1 200 OK\r\n\r\n{long}")).contains("1000 bytes (--max-reply-bytes)"));
    assert!(broken(&chunked(&format!("data: {long}\n\n"))).contains("1000 bytes (--max-reply-bytes)"));
    // A stream may have any number of events.
    let many = format!("{}{DONE}", delta("a").repeat(200));
    assert_eq!(outcome(std::iter::once(chunked(&many).as_bytes()), false, 1000).generation.unwrap().chunks, 200);
    let compressed = format!("{EVENTS}Content-Encoding: gzip\r\n\r\n");
    assert!(broken(&compressed).contains("not asked for"));
}

/// The request made from a payload.
fn sent(text: &str, plan: &OpenAiPlan, mixed: bool, parameters: Vec<Parameter>) -> String {
    let mut spec = spec(vec![payload(text)]);
    spec.options = Arc::new(RequestOptions { parameters, ..RequestOptions::default() });
    let mut service = service(&spec, plan, mixed, 1);
    service.grow(1).unwrap();
    let total = service.prepare(0, Request { payload: PayloadId(0), sequence: None }).unwrap();
    let mut whole = Vec::new();
    while whole.len() < total {
        let mut slices = [std::io::IoSlice::new(&[]); crate::engine::serial::SLICES];
        let used = service.gather(0, whole.len(), &mut slices);
        whole.push(slices[..used].first().unwrap()[0]);
    }
    String::from_utf8(whole).unwrap()
}

#[test]
fn payloads_are_sent_as_they_are_unless_fields_are_to_be_set() {
    let plan = OpenAiPlan { endpoint: "v1/chat/completions".to_owned(), ..OpenAiPlan::default() };
    let body = r#"{"model":"x","messages":[]}"#;
    let request = sent(body, &plan, false, Vec::new());
    assert_eq!(
        request,
        format!(
            "POST /base/v1/chat/completions HTTP/1.1\r\nHost: h\r\nUser-Agent: triton-bench/{}\r\nAccept: */*\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            env!("CARGO_PKG_VERSION"),
            body.len()
        )
    );
    let body = |request: String| request.split_once("\r\n\r\n").unwrap().1.to_owned();
    let streaming = OpenAiPlan { streaming: true, ..plan.clone() };
    assert_eq!(
        body(sent(r#"{"model":"x"}"#, &streaming, false, Vec::new())),
        r#"{"model":"x","stream":true,"stream_options":{"include_usage":true}}"#
    );
    assert_eq!(
        body(sent(r#"{"stream":true,"stream_options":null}"#, &streaming, false, Vec::new())),
        r#"{"stream":true,"stream_options":null}"#
    );
    assert_eq!(body(sent(r#"{"stream":false}"#, &streaming, false, Vec::new())), r#"{"stream":false}"#);
    let unasked = OpenAiPlan { without_usage: true, ..streaming.clone() };
    assert_eq!(body(sent("{}", &unasked, false, Vec::new())), r#"{"stream":true}"#);
    for endpoint in ["v1/responses", "v1/responses/?a=b", "v1/messages"] {
        let plan = OpenAiPlan { endpoint: endpoint.to_owned(), ..streaming.clone() };
        assert_eq!(body(sent("{}", &plan, false, Vec::new())), r#"{"stream":true}"#, "{endpoint} takes no options");
    }
    let parameters = vec![
        Parameter { name: "max_tokens".to_owned(), value: ParameterValue::Int(7) },
        Parameter { name: "user".to_owned(), value: ParameterValue::Text("a\"b".to_owned()) },
    ];
    assert_eq!(
        body(sent(r#"{"model":"x","max_tokens":1}"#, &plan, true, parameters)),
        r#"{"model":"m","max_tokens":7,"user":"a\"b"}"#
    );
}

/// Answers assembled from meaningful parts by a simple generator: a head, then anything.
#[test]
fn whatever_comes_is_read_the_same_in_pieces() {
    const PARTS: [&str; 16] = [
        "data: ",
        "{\"choices\":[{\"delta\":{\"content\":\"x\"}}]}",
        "\n",
        "\n\n",
        "\r\n",
        "\r",
        "[DONE]",
        "event: error\n",
        "{\"error\":{}}",
        "{\"usage\":{\"completion_tokens\":3}}",
        ": note\n",
        "{}",
        "[",
        "\"",
        "\u{e9}",
        "null",
    ];
    let mut state = 7_u64;
    let mut draw = |most: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % most
    };
    for _ in 0..400 {
        let count = draw(12);
        let stream: String = (0..count).map(|_| PARTS[draw(PARTS.len())]).collect();
        let kind = if draw(4) == 0 { "application/json" } else { "text/event-stream" };
        let head = format!("HTTP/1.1 {} X\r\nContent-Type: {kind}\r\n", [200, 201, 400][draw(3)]);
        let answer = match draw(3) {
            0 => format!("{head}\r\n{stream}"),
            1 => format!("{head}Content-Length: {}\r\n\r\n{stream}", stream.len()),
            _ => chunked(&stream),
        };
        (1..24).for_each(|piece| super::fuzzing::answer(piece, answer.as_bytes()));
    }
}
