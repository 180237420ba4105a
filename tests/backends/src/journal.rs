//! The request journal: entries are collected in memory and written by a separate thread.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::sequence::Correlation;

/// Time between two flushes.
const FLUSH: Duration = Duration::from_millis(20);

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Answered.
    Ok,
    /// Failed.
    Failed,
    /// Broke a rule of sequences.
    Violation,
    /// Cancelled by the client.
    Cancelled,
}

impl Outcome {
    fn name(self) -> &'static str {
        match self {
            Outcome::Ok => "ok",
            Outcome::Failed => "failed",
            Outcome::Violation => "violation",
            Outcome::Cancelled => "cancelled",
        }
    }
}

/// One request; the README explains the members.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Which request.
    pub ordinal: u64,
    /// Execution start.
    pub ns: u64,
    /// Which execution.
    pub execution: u64,
    /// Place in the execution.
    pub batch_index: usize,
    /// Requests in the execution.
    pub batch_size: usize,
    /// The request's ID.
    pub id: String,
    /// Its sequence.
    pub correlation: Correlation,
    /// Its flags.
    pub flags: u32,
    /// Its parameters.
    pub parameters: Map<String, Value>,
    /// Rows of its first input.
    pub rows: i64,
    /// Input bytes.
    pub bytes: u64,
    /// Their checksum.
    pub checksum: u64,
    /// What became of it.
    pub outcome: Outcome,
}

impl Entry {
    fn to_json(&self) -> Value {
        let correlation = match &self.correlation {
            Correlation::None => json!(0),
            Correlation::Number(number) => json!(number),
            Correlation::Text(text) => json!(text),
        };
        json!({
            "ordinal": self.ordinal, "ns": self.ns, "execution": self.execution,
            "batch_index": self.batch_index, "batch_size": self.batch_size,
            "id": self.id, "correlation": correlation, "flags": self.flags,
            "start": self.flags & crate::abi::SEQUENCE_START != 0, "end": self.flags & crate::abi::SEQUENCE_END != 0,
            "parameters": self.parameters, "rows": self.rows, "bytes": self.bytes,
            "checksum": format!("{:016x}", self.checksum), "outcome": self.outcome.name(),
        })
    }
}

#[derive(Debug, Default)]
struct Pending {
    entries: Vec<Entry>,
    stop: bool,
}

#[derive(Debug, Default)]
struct Shared {
    pending: Mutex<Pending>,
    stopped: Condvar,
}

/// An open journal.
#[derive(Debug)]
pub struct Journal {
    shared: Arc<Shared>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl Journal {
    /// Opens the file for appending and starts the writer.
    ///
    /// # Errors
    /// The path and the system's reason.
    pub fn open(path: &str) -> Result<Journal, String> {
        let file = OpenOptions::new().append(true).create(true).open(path);
        let file = file.map_err(|error| format!("parameter stamp_file: cannot open {path:?}: {error}"))?;
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let writer = std::thread::Builder::new().name("bench-journal".into()).spawn(move || write(&theirs, file));
        let writer = writer.map_err(|error| format!("parameter stamp_file: cannot start a thread: {error}"))?;
        Ok(Journal { shared, writer: Mutex::new(Some(writer)) })
    }

    /// Adds an entry.
    pub fn push(&self, entry: Entry) {
        lock(&self.shared.pending).entries.push(entry);
    }

    /// Writes what is left and ends the writer.
    pub fn close(&self) {
        lock(&self.shared.pending).stop = true;
        self.shared.stopped.notify_one();
        if let Some(writer) = lock(&self.writer).take() {
            // A writer that panicked has said so on stderr; the model is unloaded all the same.
            let _ = writer.join();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn write(shared: &Shared, mut file: File) {
    loop {
        let pending = lock(&shared.pending);
        let (mut pending, _) = shared
            .stopped
            .wait_timeout_while(pending, FLUSH, |pending| !pending.stop)
            .unwrap_or_else(PoisonError::into_inner);
        let (entries, stop) = (std::mem::take(&mut pending.entries), pending.stop);
        drop(pending);
        let mut lines = Vec::new();
        for entry in &entries {
            lines.extend_from_slice(entry.to_json().to_string().as_bytes());
            lines.push(b'\n');
        }
        if let Err(error) = file.write_all(&lines) {
            eprintln!("triton_bench: stamp_file: {error}");
        }
        if stop {
            return;
        }
    }
}

/// FNV-1a, 64 bits: offset basis and prime as published by its authors.
pub const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;

/// Continues an FNV-1a sum over more bytes.
pub fn fnv1a(sum: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(sum, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_matches_published_values() {
        assert_eq!(fnv1a(FNV_BASIS, b""), 0xcbf29ce484222325);
        assert_eq!(fnv1a(FNV_BASIS, b"a"), 0xaf63dc4c8601ec8c);
        assert_eq!(fnv1a(FNV_BASIS, b"foobar"), 0x85944171f73967e8);
        assert_eq!(fnv1a(fnv1a(FNV_BASIS, b"foo"), b"bar"), 0x85944171f73967e8);
    }

    #[test]
    fn entries_reach_the_file_in_order() {
        let path = std::env::temp_dir().join(format!("bench-journal-{}", std::process::id()));
        let journal = Journal::open(path.to_str().unwrap()).unwrap();
        for ordinal in 1..=3 {
            journal.push(Entry {
                ordinal,
                ns: 10,
                execution: 1,
                batch_index: 0,
                batch_size: 1,
                id: "a\"b".into(),
                correlation: Correlation::Text("x".into()),
                flags: 2,
                parameters: Map::new(),
                rows: 1,
                bytes: 4,
                checksum: 255,
                outcome: Outcome::Ok,
            });
        }
        journal.close();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.iter().map(|line| line["ordinal"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!((&lines[0]["id"], &lines[0]["correlation"]), (&json!("a\"b"), &json!("x")));
        assert_eq!((&lines[0]["end"], &lines[0]["start"]), (&json!(true), &json!(false)));
        assert_eq!(lines[0]["checksum"], "00000000000000ff");
        assert!(Journal::open("/nonexistent/x").unwrap_err().contains("/nonexistent/x"));
    }
}
