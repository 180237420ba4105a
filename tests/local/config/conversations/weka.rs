//! Sessions in Weka's format, of which only lengths and the numbers of blocks are known.

use super::*;

/// Tokens of a block in these traces.
const BLOCK: u64 = 16;

/// A call: so many tokens of a prompt with these blocks, and of its answer, at a second.
fn call(t: f64, model: &str, input: u64, blocks: Range<u64>, output: u64) -> Value {
    json!({ "t": t, "type": "s", "model": model, "in": input, "out": output, "hash_ids": blocks.collect::<Vec<_>>(),
        "api_time": 0.2, "ttft": 0.05, "think_time": 0.7, "stop": "tool_use" })
}

/// A session that asks, lets two agents ask at once, and asks again.
fn session(id: &str) -> Value {
    let inner = [call(50.4, "haiku", 48, 50..53, 5), call(50.4, "haiku", 40, 60..62, 6)];
    let agent = json!({ "t": 50.4, "type": "subagent", "agent_id": "agent_001", "subagent_type": "Explore", "duration_ms": 200,
        "requests": inner, "tool_tokens": 16, "system_tokens": 0, "models": ["haiku"] });
    json!({ "id": id, "models": ["opus", "haiku"], "block_size": BLOCK, "hash_id_scope": "local", "tool_tokens": 20, "system_tokens": 12,
        "requests": [call(0.0, "opus", 90, 1..6, 20), agent, call(51.0, "opus", 170, 1..11, 0)] })
}

fn lines(folder: &Path, lines: &[String]) -> String {
    let path = folder.join("traces.jsonl");
    fs::write(&path, lines.join("\n")).unwrap();
    path.display().to_string()
}

/// A file with such a section.
fn file(section: &str) -> String {
    format!(
        "data:\n  type: weka_trace_replay\n  weka_trace_replay: {{{section}}}\nload: {{type: trace_session_replay, interval: 0, stages: \
         [{{concurrent_sessions: 1}}]}}\napi: {{type: chat, session_id_header_key: x-session-id}}\n"
    )
}

/// Roles and texts of a call.
fn said(came: &Came) -> Vec<(&str, &str)> {
    let all = came.body["messages"].as_array().unwrap();
    all.iter().map(|message| (message["role"].as_str().unwrap(), message["content"].as_str().unwrap())).collect()
}

fn shape(came: &Came) -> Vec<(&str, usize)> {
    said(came).into_iter().map(|(role, text)| (role, words(text))).collect()
}

#[test]
fn timed_traces_of_agents_are_replayed_with_their_blocks_and_pauses() {
    let folder = tempfile::tempdir().unwrap();
    let path = lines(
        folder.path(),
        &[
            session("x").to_string(),
            "{\"id\": \"broken\"}".to_owned(),
            session("y").to_string(),
            session("z").to_string(),
        ],
    );
    let came = play(
        &file(&format!(
            "trace_files: [{path:?}], trace_idle_gap_cap_seconds: 0.5, num_dataset_entries: 2, skip_invalid_files: true, \
             default_max_tokens: 33, model_mapping: {{haiku: small}}, max_wait_ms: 5000"
        )),
        Duration::from_millis(60),
    );
    assert_eq!(came.len(), 8, "four calls of each of the first two sessions");
    for calls in came.chunks(4) {
        let [first, agents @ .., last] = calls else { panic!() };
        assert!(calls.iter().all(|call| call.session == first.session), "one session after the other");
        assert_eq!(shape(first), [("system", 32), ("user", 58)]);
        let mut agents: Vec<&Came> = agents.iter().collect();
        agents.sort_by_key(|call| call.body["max_tokens"].as_u64());
        assert_eq!(shape(agents[0]), [("system", 16), ("user", 32)]);
        assert_eq!(shape(agents[1]), [("system", 16), ("user", 24)]);
        assert_eq!(shape(last), [("system", 32), ("user", 48), ("assistant", 32), ("user", 58)]);
        let settings = |call: &Came| {
            (call.body["model"].clone(), call.body["max_tokens"].clone(), call.body["ignore_eos"].clone())
        };
        let wanted = [("m", 20), ("small", 5), ("small", 6), ("m", 30)];
        for (call, (model, tokens)) in [first, agents[0], agents[1], last].iter().zip(wanted) {
            assert_eq!(settings(call), (json!(model), json!(tokens), json!(true)));
        }
        let (begun, went_on) = (said(first), said(last));
        assert_eq!(begun[0], went_on[0]);
        assert!(begun[1].1.starts_with(&format!("{} ", went_on[1].1)), "whole blocks are shared, and the rest is not");
        assert!(!last.body["messages"].to_string().contains("answer"), "what was rebuilt stays");
        // Beginnings are half a second apart: 300 ms and 300 ms after answers that took 200 ms.
        let later = agents[0].at.max(agents[1].at);
        let waited = later - first.at;
        assert!(waited >= Duration::from_millis(355), "300 ms after the answer: {waited:?}");
        assert!(waited < Duration::from_secs(40), "a long pause is shortened");
        assert!(later - agents[0].at.min(agents[1].at) < Duration::from_millis(50), "both at once");
        // Of what was over when it began, a call follows the last.
        let waited = last.at - agents[1].at;
        assert!(waited >= Duration::from_millis(355), "300 ms after the agents' answers: {waited:?}");
    }
    assert_ne!(came[0].session, came[4].session);
    assert_ne!(said(&came[0])[0], said(&came[4])[0], "numbers of blocks are those of a session");
}

#[test]
fn sessions_are_repeated_with_other_texts_and_without_pauses() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("one.json"), serde_json::to_string_pretty(&session("x")).unwrap()).unwrap();
    let came = play(
        &file(&format!(
            "trace_directory: {:?}, duplicate_sessions_target: 3, ignore_trace_delays: true, use_static_model: true, \
             static_model_name: other",
            folder.path()
        )),
        Duration::from_millis(1),
    );
    assert_eq!(came.len(), 12);
    let systems: HashSet<&str> = came.chunks(4).map(|calls| said(&calls[0])[0].1).collect();
    assert_eq!(systems.len(), 3, "a server has no session in its cache");
    assert!(came.iter().all(|call| call.body["model"] == "m"), "-m comes before the file");
    assert!(came[11].at - came[0].at < Duration::from_secs(1), "no pauses");
    assert_eq!(shape(&came[11]), shape(&came[3]));
}

#[test]
fn live_answers_are_sent_where_they_are_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = lines(folder.path(), &[session("x").to_string()]);
    let log = Log::default();
    let server = server(&log, Duration::from_millis(1));
    let run = crate::support::Program::new().args("-m m --service-kind openai --endpoint v1/chat/completions");
    let run = run
        .args(&format!("--session-trace weka:{path} --session-trace-options answers=live,max-wait=0,think-time=true"));
    run.args("--session-concurrency 1 --on-disturbance mark -u").arg(server.url()).run().report_even_if_late();
    let log = log.lock().unwrap();
    // The calls that follow the first one leave at once, in whatever order.
    let is_live = |call: &Came| said(call).get(2) == Some(&("assistant", "answer-0"));
    assert!(log.iter().any(is_live), "{:?}", log.iter().map(said).collect::<Vec<_>>());
}

#[test]
fn every_key_of_the_section_is_heeded_or_noted() {
    let folder = tempfile::tempdir().unwrap();
    let path = lines(folder.path(), &[session("x").to_string()]);
    let section = format!(
        "trace_files: [{path:?}], use_static_model: false, model_mapping: {{opus: big, haiku: small}}, default_max_tokens: 7, \
         override_tool_call_max_tokens: true, inject_random_session_id: true, duplicate_sessions_target: 4, max_wait_ms: 900, \
         predecessor_wait_timeout_sec: 5.0, include_errors: true, skip_invalid_files: true, trace_idle_gap_cap_seconds: 1.5, \
         ignore_trace_delays: false, use_think_time_only: true, default_block_size: 32, num_dataset_entries: 9, \
         datagen_workers: 2, tool_choice_mode: as_recorded, bad_tool_call_handling: none, filter: \"lambda x: x['max_tokens'] < 500\""
    );
    let text = printed(Config::of(&file(&section)).and(&["-m", "m", "--print-config"]));
    assert!(text.contains(&format!("session-trace: weka:{path}")), "{text}");
    let options = "max-wait=900ms,default-tokens=30,skip-invalid=true,sessions=4,below-tokens=500,think-time=true,idle-gap=1.5s,block-tokens=32,first=9,\
        model.opus=big,model.haiku=small";
    assert!(text.contains(options), "{text}");
    let notes = Config::of(&file(&section)).plan(&["-m", "m"]).notes.join("\n");
    for key in [
        "datagen_workers: 2",
        "tool_choice_mode: as_recorded",
        "override_tool_call_max_tokens: true",
        "inject_random_session_id: true",
        "include_errors: true",
    ] {
        assert!(notes.contains(&format!("data.weka_trace_replay.{key}: no effect")), "{key}\n{notes}");
    }
    for note in [
        "predecessor_wait_timeout_sec: 5.0: no effect",
        "default_max_tokens: 7: no effect",
        "num_dataset_entries: 9: the first",
        "use_think_time_only: pauses",
        "model_mapping: calls of other models",
        "answers stay as they are rebuilt",
    ] {
        assert!(notes.contains(note), "{note}\n{notes}");
    }
    let unbounded = file(&format!(
        "trace_files: [{path:?}], trace_idle_gap_cap_seconds: 0, ignore_trace_delays: true, max_wait_ms: 5"
    ));
    let text = printed(Config::of(&unbounded).and(&["-m", "m", "--print-config"]));
    assert!(
        text.contains("session-trace-options: \"default-tokens=30,max-wait=0ms,idle-gap=none\"")
            || text.contains("max-wait=0ms,idle-gap=none"),
        "{text}"
    );
}

#[test]
fn what_a_section_lacks_or_names_elsewhere_is_said() {
    let error = |text: &str| Config::of(text).error(&["-m", "m"]);
    let missing = error("data: {type: weka_trace_replay}\nload: {type: trace_session_replay}");
    assert!(missing.contains("the type weka_trace_replay needs 'data.weka_trace_replay'"), "{missing}");
    let nothing = error(&file("skip_invalid_files: true"));
    assert!(nothing.contains("'data.weka_trace_replay' needs 'trace_files' or 'trace_directory'"), "{nothing}");
    for source in ["hf_dataset_path: a/b, num_dataset_entries: 5", "hf_dataset_path: {path: a/b}"] {
        let download = error(&file(source));
        let wanted = "the data set a/b (Hugging Face) must be here: download its traces.jsonl, and name the file in \
            'data.weka_trace_replay.trace_files'";
        assert!(download.contains(wanted), "{download}");
    }
    let code = error(&file("trace_files: [/], filter: x"));
    assert!(code.contains("'data.weka_trace_replay.filter: x' has no counterpart"), "{code}");
    let unknown = error(&file("trace_files: [/], filters: x"));
    assert!(unknown.contains("'data.weka_trace_replay.filters': this format has no such key"), "{unknown}");
    let name = error(&file("trace_files: [/], model_mapping: {opus: 'a,b'}"));
    assert!(name.contains("'data.weka_trace_replay.model_mapping.opus' takes the name of a model"), "{name}");
}

#[test]
fn files_that_are_no_such_traces_are_refused_by_what_is_wrong_with_them() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(&Log::default(), Duration::from_millis(1));
    let refused = |format: &str, text: &str, words: &[&str]| {
        let path = folder.path().join("t.jsonl");
        fs::write(&path, text).unwrap();
        let run = crate::support::Program::new().args("-m m --service-kind openai --endpoint v1/chat/completions");
        let run = run.args("--session-concurrency 1 --session-trace").arg(format!("{format}:{}", path.display()));
        run.arg("-u").arg(server.url()).run().refusal(words);
    };
    let good = session("x").to_string();
    let spans = json!({ "spans": [span("a", 0.0..1.0, &[("user", "q")], "one")] }).to_string();
    refused("otel", &good, &["--session-trace", "t.jsonl", "it does not hold what 'otel:' says: write 'weka:'"]);
    refused("weka", &spans, &["it does not hold what 'weka:' says: write 'otel:'"]);
    refused(
        "weka",
        &format!("{good}\n{{\"id\": \"y\"}}"),
        &["t.jsonl", "line 2: it is no trace", "missing field `requests`"],
    );
    refused("weka", "{", &["it is no trace with an id and requests"]);
    refused("weka", &json!({ "id": "x", "requests": [] }).to_string(), &["the trace 'x': it has no call"]);
    refused("weka", &format!("[{good}, {good}]"), &["the trace 'x' is there twice"]);
}
