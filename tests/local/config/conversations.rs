//! Conversations, recorded sessions and media of files in inference-perf's format: what arrives at the server.

mod agents;
mod weka;

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::*;
use crate::support::http_server::{Act, HttpServer, Received, reply};

/// A request, when it came, and when it was answered.
#[derive(Clone, Debug)]
struct Came {
    at: Instant,
    body: Value,
    session: Option<String>,
}

/// What came, in order.
type Log = Arc<Mutex<Vec<Came>>>;

/// A server that answers after a moment with `answer N`, where N is the number of the request.
fn server(log: &Log, takes: Duration) -> HttpServer {
    let log = Arc::clone(log);
    HttpServer::start(move |request: &Received| {
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        let is_chat = body.get("messages").is_some();
        let mut log = log.lock().unwrap();
        let text = format!("answer-{}", log.len());
        log.push(Came { at: Instant::now(), body, session: request.field("x-session-id").map(str::to_owned) });
        let choice = match is_chat {
            true => json!({ "message": { "role": "assistant", "content": text }, "finish_reason": "stop" }),
            false => json!({ "text": text, "finish_reason": "stop" }),
        };
        let body = json!({ "choices": [choice], "usage": { "prompt_tokens": 3, "completion_tokens": 2 } }).to_string();
        vec![Act::Wait(takes), Act::Send(reply("200 OK", "Content-Type: application/json\r\n", body.as_bytes()))]
    })
}

/// Runs a file against a server that logs what comes.
fn play(text: &str, takes: Duration) -> Vec<Came> {
    let log = Log::default();
    let server = server(&log, takes);
    let file = Config::of(text);
    let run = crate::support::Program::new().args("-m m --on-disturbance mark --report-dir");
    let run = run.arg(file.path().parent().unwrap().join("reports"));
    let run = run.args("--config").arg(file.path()).args("-u").arg(server.url()).run();
    run.report_even_if_late();
    let log = log.lock().unwrap();
    log.clone()
}

fn prompt(came: &Came) -> &str {
    came.body["prompt"].as_str().unwrap()
}

fn words(text: &str) -> usize {
    text.split(' ').count()
}

#[test]
fn generated_conversations_take_turns() {
    let came = play(
        "data:\n  type: conversation_replay\n  conversation_replay:\n    num_conversations: 4\n    shared_system_prompt_len: 30\n    \
         dynamic_system_prompt_len: {type: fixed, mean: 20}\n    turns_per_conversation: {type: fixed, mean: 3}\n    \
         input_tokens_per_turn: {type: fixed, mean: 10}\n    output_tokens_per_turn: {type: fixed, mean: 7}\n    max_model_len: 9999\n\
         load:\n  type: concurrent\n  interval: 0\n  stages: [{num_requests: 16, concurrency_level: 2}, {num_requests: 8, \
         concurrency_level: 4}]\napi: {session_id_header_key: x-session-id}\n",
        Duration::from_millis(5),
    );
    assert_eq!(came.len(), 24, "16 and 8 requests");
    assert!(came.iter().all(|request| request.body["max_tokens"] == 7 && request.session.is_some()));
    let (first, second) = came.split_at(16);
    let shared = |stage: &[Came]| prompt(&stage[0]).split(' ').take(30).collect::<Vec<_>>().join(" ");
    assert_ne!(shared(first), shared(second), "a stage finds no cache of the one before");
    for (stage, rounds) in [(first, 4), (second, 2)] {
        let prefix = shared(stage);
        let mut conversations = HashMap::<&str, Vec<&Came>>::new();
        for request in stage {
            conversations.entry(request.session.as_deref().unwrap()).or_default().push(request);
        }
        assert_eq!(conversations.len(), 4);
        for turns in conversations.values() {
            assert_eq!(turns.len(), rounds, "conversations take turns");
            let lengths: Vec<usize> = turns.iter().map(|turn| words(prompt(turn))).collect();
            // A turn adds its ten words and the one of the answer; after three of them, the conversation begins again.
            assert_eq!(lengths, [60, 71, 82, 60][..rounds]);
            for pair in turns[..rounds.min(3)].windows(2) {
                let (before, after) = (prompt(pair[0]), prompt(pair[1]));
                let tail = after.strip_prefix(before).unwrap();
                assert!(tail.starts_with(" answer-"), "{tail}");
            }
            assert!(turns.iter().all(|turn| prompt(turn).starts_with(&prefix)));
        }
        let systems: HashSet<String> = conversations
            .values()
            .map(|turns| prompt(turns[0]).split(' ').take(50).collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(systems.len(), 4, "each has a part of its own");
    }
}

#[test]
fn a_conversation_pauses_after_each_answer_and_keeps_its_place() {
    let came = play(
        "data:\n  type: conversation_replay\n  conversation_replay:\n    num_conversations: 2\n    shared_system_prompt_len: 5\n    \
         turns_per_conversation: {type: fixed, mean: 2}\n    input_tokens_per_turn: {type: fixed, mean: 3}\n    tool_call_latency_sec: {type: \
         uniform, min: 1, max: 1}\nload: {type: concurrent, stages: [{num_requests: 4, concurrency_level: 1}]}\n",
        Duration::from_millis(20),
    );
    assert_eq!(came.len(), 4);
    for pair in came.windows(2) {
        let gap = pair[1].at - pair[0].at;
        assert!(gap > Duration::from_millis(1000), "one at a time, and a pause is a part of it: {gap:?}");
    }
}

#[test]
fn shared_prefixes_go_on_as_conversations_at_a_rate() {
    let came = play(
        "data:\n  type: shared_prefix\n  shared_prefix: {num_groups: 2, num_prompts_per_group: 3, system_prompt_len: 20, question_len: 6, \
         output_len: 5, enable_multi_turn_chat: true}\nload: {type: constant, interval: 0, stages: [{rate: 20, duration: 1}]}\n",
        Duration::from_millis(5),
    );
    assert_eq!(came.len(), 20);
    let mut conversations = HashMap::<String, Vec<&str>>::new();
    for request in &came {
        let all: Vec<&str> = prompt(request).split(' ').collect();
        conversations.entry(all[..26].join(" ")).or_default().push(prompt(request));
    }
    assert_eq!(conversations.len(), 6, "three of each of two groups");
    let prefixes: HashSet<String> = conversations
        .keys()
        .map(|conversation| conversation.split(' ').take(20).collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(prefixes.len(), 2);
    for turns in conversations.values() {
        // Prefix and question each time, and the answers between.
        let lengths: Vec<usize> = turns.iter().map(|turn| words(turn)).collect();
        let wanted: Vec<usize> = (0..turns.len()).map(|turn| 26 + 27 * turn).collect();
        assert_eq!(lengths, wanted);
    }
    let gaps = came.last().unwrap().at - came[0].at;
    assert!((Duration::from_millis(800)..Duration::from_millis(1500)).contains(&gaps), "{gaps:?}");
}

/// A span of a call, from and to these seconds.
fn span(id: &str, seconds: Range<f64>, messages: &[(&str, &str)], answer: &str) -> Value {
    let message = |(role, content): &(&str, &str)| json!({ "role": role, "content": content });
    let messages: Vec<Value> = messages.iter().map(message).collect();
    let time = |second: f64| format!("2026-01-01T00:00:{second:06.3}");
    json!({ "span_id": id, "trace_id": "t", "name": "chat gpt", "start_time": time(seconds.start), "end_time": time(seconds.end),
        "attributes": { "gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt", "gen_ai.usage.completion_tokens": 9,
            "gen_ai.input.messages": Value::from(messages).to_string(), "gen_ai.output.text": answer }, "status": { "code": 1 } })
}

/// A session that asks, asks two things about the answer at once, and sums these up.
fn fan(folder: &Path, name: &str) -> String {
    let spans = [
        span("a", 0.0..1.0, &[("user", "q")], "recorded one"),
        span("b", 1.3..2.0, &[("user", "q"), ("assistant", "recorded one"), ("user", "left")], "recorded two"),
        span("c", 1.3..2.2, &[("user", "q"), ("assistant", "recorded one"), ("user", "right")], "recorded three"),
        span("d", 2.2..3.0, &[("user", name), ("assistant", "recorded two"), ("assistant", "recorded three")], "four"),
    ];
    let path = folder.join(format!("{name}.json"));
    fs::write(&path, json!({ "trace_id": "t", "spans": spans }).to_string()).unwrap();
    path.display().to_string()
}

#[test]
fn recorded_sessions_are_replayed_with_their_dependencies() {
    let folder = tempfile::tempdir().unwrap();
    let files: Vec<String> = ["x", "y", "z"].iter().map(|name| fan(folder.path(), name)).collect();
    let came = play(
        &format!(
            "data:\n  type: otel_trace_replay\n  otel_trace_replay: {{trace_files: {files:?}, use_static_model: true, static_model_name: other, \
             default_max_tokens: 50, include_errors: false, skip_invalid_files: true}}\nload: {{type: trace_session_replay, interval: 0, stages: \
             [{{concurrent_sessions: 1, num_sessions: 1}}, {{concurrent_sessions: 0}}]}}\napi: {{type: chat, session_id_header_key: \
             x-session-id}}\n"
        ),
        Duration::from_millis(60),
    );
    assert_eq!(came.len(), 12);
    assert!(came.iter().all(|call| call.body["model"] == "m" && call.body["max_tokens"] == 9));
    let texts = |call: &Came| -> Vec<String> {
        let all = call.body["messages"].as_array().unwrap();
        all.iter().map(|message| message["content"].as_str().unwrap().to_owned()).collect()
    };
    let mut sessions = Vec::<(String, Vec<(usize, &Came)>)>::new();
    for (number, call) in came.iter().enumerate() {
        let name = call.session.clone().unwrap();
        match sessions.iter_mut().find(|(key, _)| *key == name) {
            Some((_, calls)) => calls.push((number, call)),
            None => sessions.push((name, vec![(number, call)])),
        }
    }
    assert_eq!(sessions.len(), 3);
    for (_, calls) in &sessions {
        let [(first, asked), (left, left_call), (right, right_call), (_, sum)] = calls[..] else { panic!("{calls:?}") };
        assert_eq!(texts(asked), ["q"]);
        let live = format!("answer-{first}");
        let mut branches = [texts(left_call), texts(right_call)];
        branches.sort();
        assert_eq!(branches[0], ["q", &live, "left"]);
        assert_eq!(branches[1], ["q", &live, "right"]);
        let of_left = if texts(left_call)[2] == "left" { (left, right) } else { (right, left) };
        assert_eq!(texts(sum)[1..], [format!("answer-{}", of_left.0), format!("answer-{}", of_left.1)]);
        let waited = left_call.at - asked.at;
        assert!(waited >= Duration::from_millis(355), "300 ms after the answer: {waited:?}");
        assert!(right_call.at - left_call.at < Duration::from_millis(50), "both at once");
    }
    let stage: HashSet<&str> = came[..4].iter().map(|call| call.session.as_deref().unwrap()).collect();
    assert_eq!(stage.len(), 1, "the first stage plays one session");
    let names: HashSet<&str> = came[4..6].iter().map(|call| call.session.as_deref().unwrap()).collect();
    assert_eq!(names.len(), 2, "the second one the others, at once");
}

#[test]
fn recorded_answers_are_sent_where_the_file_asks_for_them() {
    let folder = tempfile::tempdir().unwrap();
    fan(folder.path(), "x");
    let came = play(
        &format!(
            "data:\n  type: otel_trace_replay\n  otel_trace_replay: {{trace_directory: {:?}, max_wait_ms: 0, disable_output_substitution: \
             true}}\nload: {{type: trace_session_replay, stages: [{{concurrent_sessions: 1}}]}}\napi: {{type: chat}}\n",
            folder.path()
        ),
        Duration::from_millis(1),
    );
    assert_eq!(came.len(), 4);
    assert_eq!(came[3].body["messages"][1]["content"], "recorded two");
    assert!(came[1].at - came[0].at < Duration::from_millis(200), "pauses are bounded");
}

/// The first message of each session's first call, in the order in which they came.
fn beginnings(keys: &str, folder: &Path) -> Vec<String> {
    let came = play(
        &format!(
            "data:\n  type: otel_trace_replay\n  otel_trace_replay: {{trace_files: ['{}/*.jsonl'], max_wait_ms: 0{keys}}}\nload: {{type: \
             trace_session_replay, stages: [{{concurrent_sessions: 1}}]}}\napi: {{type: chat}}\n",
            folder.display()
        ),
        Duration::from_millis(1),
    );
    came.iter().map(|call| call.body["messages"][0]["content"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn repeated_sessions_are_in_no_cache() {
    let folder = tempfile::tempdir().unwrap();
    let first = span("a", 0.0..1.0, &[("user", "q")], "said");
    let second = span("b", 2.0..3.0, &[("user", "q"), ("assistant", "said"), ("user", "more")], "done");
    let row = json!({ "spans": [first, second] });
    fs::write(folder.path().join("x.jsonl"), format!("{row}\n{{\"spans\": 1}}\n")).unwrap();
    let lenient = ", skip_invalid_files: true, duplicate_sessions_target: 3";
    let found = beginnings(lenient, folder.path());
    let tag = |text: &str| text.strip_suffix(" q").filter(|tag| tag.starts_with("[SESS:")).map(str::to_owned);
    assert_eq!(found[..2], ["q", "q"], "as it was recorded");
    let tags: Vec<String> = found[2..].iter().map(|text| tag(text).unwrap_or_else(|| panic!("{text}"))).collect();
    assert!(tags[0] == tags[1] && tags[2] == tags[3] && tags[0] != tags[2] && tags.len() == 4, "{tags:?}");
    let all = beginnings(", skip_invalid_files: true, inject_random_session_id: true", folder.path());
    assert!(all.len() == 2 && all.iter().all(|text| tag(text).is_some()), "{all:?}");
}

#[test]
fn files_are_named_by_patterns() {
    let folder = tempfile::tempdir().unwrap();
    let files: Vec<String> = ["x", "y"].iter().map(|name| fan(folder.path(), name)).collect();
    let file = |paths: String| {
        Config::of(&format!(
            "data: {{type: otel_trace_replay, otel_trace_replay: {{trace_files: {paths}}}}}\nload: {{type: \
             trace_session_replay}}\napi: {{type: chat}}"
        ))
    };
    let pattern = format!("{}/*.json", folder.path().display());
    let text = printed(file(format!("[{:?}, {pattern:?}]", files[1])).and(&["-m", "m", "--print-config"]));
    let [y, x] =
        [1, 0].map(|number: usize| text.find(&format!("otel:{}", files[number])).unwrap_or_else(|| panic!("{text}")));
    assert!(y < x && text.matches("otel:").count() == 2, "{text}");
    let message = file(format!("['{}/*.yaml']", folder.path().display())).error(&["-m", "m"]);
    assert!(message.contains("/*.yaml' matches"), "{message}");
}

/// A call of a tool, and the answer to what that brought, both with tools on offer; and a call without any.
#[test]
fn calls_of_tools_are_made_where_they_were_made_and_nowhere_else() {
    let folder = tempfile::tempdir().unwrap();
    let tools = json!([{ "name": "look", "parameters": {} }]).to_string();
    let called = json!([{ "role": "assistant", "parts":
        [{ "type": "tool_call", "id": "1", "name": "look", "arguments": "{}" }] }])
    .to_string();
    let mut spans = ["a", "b", "c"].map(|id| span(id, 0.0..1.0, &[("user", id)], "said"));
    for (number, span) in spans.iter_mut().enumerate() {
        (span["start_time"], span["end_time"]) = (json!(number * 2_000_000_000), json!(number * 2_000_000_000 + 1));
    }
    spans[0]["attributes"]["gen_ai.tool.definitions"] = json!(tools);
    spans[1]["attributes"]["gen_ai.tool.definitions"] = json!(tools);
    spans[0]["attributes"].as_object_mut().unwrap().remove("gen_ai.output.text");
    spans[0]["attributes"]["gen_ai.output.messages"] = json!(called);
    let path = folder.path().join("tools.json");
    fs::write(&path, json!({ "trace_id": "t", "spans": spans }).to_string()).unwrap();
    let play = |keys: &str| {
        let came = play(
            &format!(
                "data:\n  type: otel_trace_replay\n  otel_trace_replay: {{trace_files: [{path:?}], max_wait_ms: 0{keys}}}\nload: {{type: \
                 trace_session_replay, stages: [{{concurrent_sessions: 1}}]}}\napi: {{type: chat}}\n"
            ),
            Duration::from_millis(1),
        );
        came.into_iter()
            .map(|call| (call.body["tool_choice"].clone(), call.body["max_tokens"].clone()))
            .collect::<Vec<_>>()
    };
    let look = json!({ "type": "function", "function": { "name": "look" } });
    let nine = || json!(9);
    assert_eq!(play(""), [(look.clone(), json!(4096)), (json!("none"), nine()), (Value::Null, nine())]);
    let free = play(", tool_choice_mode: as_recorded, bad_tool_call_handling: use_recorded");
    assert_eq!(free, [(Value::Null, json!(4096)), (Value::Null, nine()), (Value::Null, nine())]);
    let short = play(", override_tool_call_max_tokens: false");
    assert_eq!(short, [(look, nine()), (json!("none"), nine()), (Value::Null, nine())]);
}

/// The bytes of a data URL of that type.
fn decoded(url: &Value, kind: &str) -> Vec<u8> {
    let url = url.as_str().unwrap();
    STANDARD
        .decode(url.strip_prefix(&format!("data:{kind};base64,")).unwrap_or_else(|| panic!("{}", &url[..40])))
        .unwrap()
}

#[test]
fn prompts_have_the_media_that_the_file_asks_for() {
    let came = play(
        "data:\n  type: synthetic\n  input_distribution: {type: fixed, mean: 8, total_count: 3}\n  output_distribution: {type: fixed, mean: 4}\n  \
         multimodal:\n    image: {count: {type: fixed, mean: 2}, insertion_point: 0.0, resolutions: {width: 40, height: 30}}\n    video: {count: \
         {type: fixed, mean: 1}, insertion_point: 1.0, representation: mp4, profiles: [{profile: {resolution: {width: 32, height: 16}, frames: \
         4}, weight: 1.0}]}\n    audio: {count: {type: fixed, mean: 1}, insertion_point: 0.5, durations: [{duration: 0.5, weight: 1.0}]}\n\
         load: {type: concurrent, stages: [{num_requests: 6, concurrency_level: 2}]}\napi: {type: chat}\n",
        Duration::from_millis(1),
    );
    assert_eq!(came.len(), 6);
    for request in &came {
        let parts = request.body["messages"][0]["content"].as_array().unwrap();
        let kinds: Vec<&str> = parts.iter().map(|part| part["type"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["image_url", "image_url", "text", "input_audio", "text", "video_url"]);
        let image = decoded(&parts[0]["image_url"]["url"], "image/png");
        assert_eq!(&image[16..24], [0, 0, 0, 40, 0, 0, 0, 30]);
        let text = format!("{}{}", parts[2]["text"].as_str().unwrap(), parts[4]["text"].as_str().unwrap());
        assert_eq!(words(&text), 8);
        let sound = STANDARD.decode(parts[3]["input_audio"]["data"].as_str().unwrap()).unwrap();
        assert_eq!((sound.len(), &sound[..4]), (44 + 16_000, &b"RIFF"[..]));
        let video = decoded(&parts[5]["video_url"]["url"], "video/mp4");
        assert_eq!(&video[4..8], b"ftyp");
        let at = video.windows(4).position(|found| found == b"stsz").unwrap();
        assert_eq!(video[at + 12..at + 16], 4_u32.to_be_bytes(), "frames");
    }
}

#[test]
fn media_of_a_prefix_are_the_same_for_all_that_share_it() {
    let came = play(
        "data:\n  type: shared_prefix\n  multimodal: {image: {count: {type: fixed, mean: 1}, insertion_point: 1.0, resolutions: {width: 16, \
         height: 16}, representation: jpeg}}\n  shared_prefix:\n    {num_groups: 2, num_prompts_per_group: 4, system_prompt_len: 10, \
         question_len: 5, output_len: 3, multimodal: {video: {count: {type: fixed, mean: 1}, insertion_point: 0.0, representation: png_frames, \
         profiles: {resolution: {width: 8, height: 8}, frames: 3}}}}\nload: {type: concurrent, stages: [{num_requests: 8, concurrency_level: \
         2}]}\napi: {type: chat}\n",
        Duration::from_millis(1),
    );
    let mut groups = HashMap::<String, HashSet<String>>::new();
    for request in &came {
        let parts = request.body["messages"][0]["content"].as_array().unwrap();
        assert_eq!(parts.len(), 5, "three frames, the prefix and the question, a picture");
        let (shared, remaining) = parts.split_at(3);
        assert_eq!(words(remaining[0]["text"].as_str().unwrap()), 15);
        decoded(&remaining.last().unwrap()["image_url"]["url"], "image/jpeg");
        groups.entry(Value::from(shared).to_string()).or_default().insert(Value::from(remaining).to_string());
    }
    assert_eq!(groups.len(), 2);
    assert!(groups.values().all(|questions| questions.len() == 4));
}

#[test]
fn answers_are_held_to_the_form_of_the_file() {
    let came = play(
        "load: {type: concurrent, stages: [{num_requests: 3, concurrency_level: 1}]}\napi:\n  type: chat\n  response_format:\n    name: my_schema\n    \
         json_schema: {type: object, properties: {age: {type: integer, maximum: 120}}, required: [age]}\n",
        Duration::from_millis(1),
    );
    let schema = json!({ "type": "object", "properties": { "age": { "type": "integer", "maximum": 120 } }, "required": ["age"] });
    let wanted = json!({ "type": "json_schema", "json_schema": { "name": "my_schema", "schema": schema } });
    assert!(came.iter().all(|request| request.body["response_format"] == wanted));
}

#[test]
fn keys_of_profiles_mean_what_their_authors_mean() {
    let text = printed(Config::of(
        "tokenizer: {pretrained_model_name_or_path: x, data: {type: random, input_distribution: {mean: 50, std: 7}, output_distribution: {type: \
         fixed, mean: 4}}}\nload: {stages: [{rate: 1, duration: 1}]}",
    )
    .and(&["-m", "m", "--print-config"]));
    assert!(text.contains("prompt-tokens: normal:50:7:10:1024"), "{text}");
}

#[test]
fn filters_that_bound_calls_are_understood_and_others_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let path = fan(folder.path(), "x");
    let file = |filter: &str| {
        Config::of(&format!(
            "data: {{type: otel_trace_replay, otel_trace_replay: {{trace_files: [{path:?}], filter: \"{filter}\"}}}}\nload: {{type: \
             trace_session_replay}}\napi: {{type: chat}}"
        ))
    };
    for bound in ["lambda x: x['max_tokens'] < 28000", "lambda x: x.get('max_tokens', 0) < 28000"] {
        let text = printed(file(bound).and(&["-m", "m", "--print-config"]));
        assert!(text.contains("below-tokens=28000"), "{text}");
    }
    let message = file("lambda x: len(x) > 3").error(&["-m", "m"]);
    assert!(message.contains("'data.otel_trace_replay.filter: lambda x: len(x) > 3' has no counterpart"), "{message}");
}

#[test]
fn a_data_set_of_a_hub_is_asked_for_by_name() {
    let otel = |source: &str| {
        format!(
            "data: {{type: otel_trace_replay, otel_trace_replay: {{{source}}}}}\nload: {{type: trace_session_replay}}"
        )
    };
    let name = "the data set a/b (Hugging Face) must be here: download it as JSON lines";
    for source in ["hf_dataset_path: a/b", "hf_dataset_path: {path: a/b, split: train}"] {
        let message = Config::of(&otel(source)).error(&["-m", "m"]);
        assert!(message.contains(name) && message.contains("data.otel_trace_replay.trace_files"), "{message}");
    }
    let refusal = Config::of("data: {type: visionarena}").error(&["-m", "m"]);
    assert!(refusal.contains("lmarena-ai/VisionArena-Chat") && refusal.contains("--input-data"), "{refusal}");
    let refusal = Config::of(&otel("trace_files: [/nowhere]")).error(&["-m", "m"]);
    assert!(refusal.contains("--session-trace") && refusal.contains("/nowhere"), "{refusal}");
}
