//! The scripted server library: a script in, its log of what the client did out.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Program, artifact};

/// A server directory with the scripted library, and a script.
pub struct Scripted {
    scratch: TempDir,
}

impl Scripted {
    /// A server whose requests behave as `requests` says, in turn.
    pub fn requests(requests: Value) -> Self {
        Self::script(&json!({ "requests": requests }))
    }

    /// A server that plays `script`.
    pub fn script(script: &Value) -> Self {
        let scripted = Self::variant("libfake_triton.so");
        fs::write(scripted.scratch.path().join("script.json"), script.to_string()).unwrap();
        scripted
    }

    /// A server without a script, from one of the library's variants.
    pub fn variant(library: &str) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        fs::create_dir_all(scratch.path().join("server/lib")).unwrap();
        fs::create_dir_all(scratch.path().join("models/fake")).unwrap();
        symlink(artifact(library), scratch.path().join("server/lib/libtritonserver.so")).unwrap();
        fs::write(scratch.path().join("script.json"), "{}").unwrap();
        Self { scratch }
    }

    /// The program on this server's model `fake`, whose input has this many elements.
    pub fn program(&self) -> Program {
        Program::in_process(&self.scratch.path().join("server"), &self.scratch.path().join("models"))
            .args("-m fake --shape INPUT0:4")
            .env("FAKE_TRITON_SCRIPT", self.scratch.path().join("script.json"))
            .env("FAKE_TRITON_LOG", self.log_path())
    }

    fn log_path(&self) -> PathBuf {
        self.scratch.path().join("log")
    }

    /// Everything that the library logged.
    pub fn log(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.log_path()).expect("the library wrote a log");
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Waits until so many requests have been issued, by a script with `log_requests`.
    pub fn wait_for_requests(&self, count: usize) {
        let started = Instant::now();
        let issued =
            || fs::read_to_string(self.log_path()).unwrap_or_default().matches("\"event\":\"request\"").count();
        while issued() < count {
            assert!(started.elapsed() < Duration::from_secs(60), "{} of {count} requests were issued", issued());
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Events of one kind.
    pub fn events(&self, kind: &str) -> Vec<Value> {
        self.log().into_iter().filter(|event| event["event"] == kind).collect()
    }

    /// The counters of the one server that was deleted, after checking that the client broke no rule and left nothing behind.
    pub fn clean(&self) -> Value {
        let violations = self.events("violation");
        assert!(violations.is_empty(), "{} violations, the first: {}", violations.len(), violations[0]);
        let exits = self.events("exit");
        let [exit] = &exits[..] else { panic!("the library was left {} times", exits.len()) };
        let live = exit["live"].as_object().unwrap();
        assert!(live.values().all(|count| count == 0), "left behind: {live:?}");
        let deleted = self.events("server_delete");
        let [deleted] = &deleted[..] else { panic!("{} servers were deleted", deleted.len()) };
        deleted["counters"].clone()
    }
}
