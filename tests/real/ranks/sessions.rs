//! Conversations of several turns (`--session-concurrency`), shared by several processes.

use std::collections::BTreeMap;
use std::fs;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::mpi::Mpi;
use crate::support::http_server::{self, Act, HttpServer, Received};
use crate::support::{Export, Program};

/// Turns of each session.
const TURNS: [usize; 7] = [3, 1, 2, 4, 2, 1, 3];

/// The payloads of all sessions, their turns one after the other; each names its session and turn.
fn payloads() -> String {
    let sessions = TURNS.iter().enumerate();
    let steps = sessions.flat_map(|(session, turns)| (0..*turns).map(move |turn| (session, turn)));
    let step = |(session, turn)| {
        let message = json!({ "role": "user", "content": format!("{session}/{turn}") });
        json!({ "payload": [{ "model": "m", "messages": [message] }], "session_id": [format!("s{session}")] })
    };
    json!({ "data": steps.map(step).collect::<Vec<_>>() }).to_string()
}

/// The texts of all messages of a request.
fn texts(request: &Value) -> Vec<String> {
    let messages = request["messages"].as_array().unwrap();
    messages.iter().map(|message| message["content"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn every_session_is_played_once_with_its_number_and_its_history() {
    for mpi in Mpi::all() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("payloads.json"), payloads()).unwrap();
        let received: Arc<Mutex<Vec<Vec<String>>>> = Arc::default();
        let log = Arc::clone(&received);
        let server = HttpServer::start(move |request: &Received| {
            let contents = texts(&serde_json::from_slice(&request.body).unwrap());
            let answer = format!("re: {}", contents.last().unwrap());
            log.lock().unwrap().push(contents);
            let message = json!({ "role": "assistant", "content": answer });
            let body = json!({ "choices": [{ "index": 0, "message": message, "finish_reason": "stop" }] }).to_string();
            vec![Act::Send(http_server::reply("200 OK", "Content-Type: application/json\r\n", body.as_bytes()))]
        });
        let run = Program::new()
            .args("-m m --service-kind openai --endpoint v1/chat/completions --on-disturbance mark")
            .args(&format!("-u {} --session-concurrency 2", server.url()))
            .args("--input-data")
            .arg(path("payloads.json"))
            .args("--profile-export-file")
            .arg(path("all.json"))
            .ranks(mpi, 2)
            .run();
        let report = run.report_even_if_late();
        assert_eq!(report.level().client_number("Request count"), 16.0, "{mpi:?}: {}", report.text);
        // What one process sends: each turn after all that was said before it.
        let turns = |session: usize, last: usize| {
            let contents = (0..last).flat_map(|turn| [format!("{session}/{turn}"), format!("re: {session}/{turn}")]);
            contents.chain([format!("{session}/{last}")]).collect::<Vec<_>>()
        };
        let mut wanted: Vec<Vec<String>> = TURNS
            .iter()
            .enumerate()
            .flat_map(|(session, count)| (0..*count).map(move |turn| turns(session, turn)))
            .collect();
        let mut sent = received.lock().unwrap().clone();
        wanted.sort();
        sent.sort();
        assert_eq!(sent, wanted, "{mpi:?}");
        // Ranks take turns at the sessions, which keep the numbers that they have in one process.
        for rank in 0..2 {
            let export = Export::read(&path(&format!("all.rank{rank}.json")));
            let mut counts = BTreeMap::new();
            for request in export.experiments()[0]["requests"].as_array().unwrap() {
                *counts.entry(request["sequence_id"].as_u64().unwrap()).or_insert(0) += 1;
            }
            let rank_turns = TURNS.iter().enumerate().skip(rank).step_by(2);
            let rank_turns: BTreeMap<u64, usize> =
                rank_turns.map(|(session, turns)| (session as u64 + 1, *turns)).collect();
            assert_eq!(counts, rank_turns, "{mpi:?}, rank {rank}");
        }
    }
}
