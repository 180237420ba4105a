//! `--service-kind openai`: the whole program against a byte-level server that each test scripts.

mod figures;
mod gate;
mod refused;
mod requests;
mod server_load;
mod sessions;
mod streams;
mod tokens;

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::support::Program;
use crate::support::http_server::{self, Act, HttpServer, Received};

/// A folder with a file of payloads.
struct Payloads {
    folder: TempDir,
}

impl Payloads {
    /// A step for each payload.
    fn of(payloads: &[&str]) -> Self {
        let steps: Vec<String> = payloads.iter().map(|payload| format!("{{\"payload\": [{payload}]}}")).collect();
        Self::file(&format!("{{\"data\": [{}]}}", steps.join(",")))
    }

    fn file(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("payloads.json"), text).unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The program on a server, with these payloads.
    fn on(&self, server: &HttpServer) -> Program {
        bare(&server.url()).args("--input-data").arg(self.path("payloads.json"))
    }
}

/// The program on chat completions at `url`, without payloads.
fn bare(url: &str) -> Program {
    Program::new()
        .args("-m m --service-kind openai --endpoint v1/chat/completions --on-disturbance mark")
        .args(&format!("-u {url}"))
}

pub const CHAT: &str = r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#;

/// An answer that is no stream.
pub fn answer(_: &Received) -> Vec<Act> {
    let body = r#"{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],"usage":{"completion_tokens":2}}"#;
    vec![Act::Send(http_server::reply("200 OK", "Content-Type: application/json\r\n", body.as_bytes()))]
}

/// The head of a stream in chunks.
const STREAM: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
pub const DONE: &str = "data: [DONE]\n\n";
const USAGE: &str = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":6}}\n\n";

pub fn content(text: &str) -> String {
    format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}},\"finish_reason\":null}}]}}\n\n")
}

/// A chunk of a body; the empty one ends it.
fn chunk(text: &str) -> Vec<u8> {
    format!("{:x}\r\n{text}\r\n", text.len()).into_bytes()
}

/// A stream in one write.
pub fn stream(events: &[String]) -> Vec<u8> {
    [STREAM.as_bytes().to_vec(), chunk(&events.concat()), chunk("")].concat()
}

/// Writes the file of a tokenizer whose tokens are small letters and blanks.
fn write_tokenizer(file: &Path) {
    let vocabulary: serde_json::Map<String, serde_json::Value> =
        " abcdefghijklmnopqrstuvwxyz".chars().zip(0..).map(|(c, number)| (c.to_string(), number.into())).collect();
    let model = serde_json::json!({"type": "BPE", "vocab": vocabulary, "merges": [], "fuse_unk": false, "byte_fallback": false,
        "dropout": null, "unk_token": null, "continuing_subword_prefix": null, "end_of_word_suffix": null});
    let whole = serde_json::json!({"version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": null, "post_processor": null, "decoder": null, "model": model});
    std::fs::write(file, whole.to_string()).unwrap();
}
