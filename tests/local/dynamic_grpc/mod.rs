//! `--service-kind dynamic_grpc`: any method of any gRPC service, on servers that send exactly the bytes a test gives
//! them.

mod data;
mod schema;
mod statuses;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::grpc_faults::peer::{DATA, END_STREAM, HEADERS, Peer, WIDE, message, serve_all};
use crate::support::Program;

/// A call as it came: its header block, as it is, and its body.
pub struct Call {
    pub stream: u32,
    /// Which it is, counted from 0 over all connections.
    pub ordinal: usize,
    pub head: Vec<u8>,
    pub body: Vec<u8>,
}

/// A server that answers every call, once it has all of it, as `script` says; and the calls that it had.
pub fn service(script: impl Fn(&Call) -> Vec<u8> + Send + Sync + 'static) -> (String, Arc<Mutex<Vec<Call>>>) {
    let calls = Arc::new(Mutex::new(Vec::new()));
    let (kept, count) = (Arc::clone(&calls), AtomicUsize::new(0));
    let url = serve_all(move |_, mut peer: Peer| {
        peer.shake_hands(WIDE);
        let (mut head, mut body) = (Vec::new(), Vec::new());
        while let Some(frame) = peer.frame() {
            match frame.kind {
                HEADERS => head = frame.payload,
                DATA => {
                    body.extend_from_slice(&frame.payload);
                    if frame.flags & END_STREAM != 0 {
                        let ordinal = count.fetch_add(1, Ordering::SeqCst);
                        let call = Call {
                            stream: frame.stream,
                            ordinal,
                            head: std::mem::take(&mut head),
                            body: std::mem::take(&mut body),
                        };
                        peer.say(&script(&call));
                        kept.lock().unwrap().push(call);
                    }
                }
                _ => {}
            }
        }
    });
    (url, calls)
}

/// The same, whose connections take one call at a time, so that bodies of several do not mix.
pub const ONE: &str = "--concurrency-range 1";

/// A command that writes these messages, as a generator does.
pub fn generator(messages: &[&[u8]]) -> String {
    let octal = |bytes: &[u8]| bytes.iter().map(|byte| format!("\\{byte:03o}")).collect::<String>();
    let framed = |message: &&[u8]| octal(&[&(message.len() as u32).to_ne_bytes()[..], message].concat());
    format!("printf '{}'", messages.iter().map(framed).collect::<String>())
}

/// A file of steps.
pub fn steps(folder: &tempfile::TempDir, steps: &serde_json::Value) -> String {
    let path = folder.path().join("steps.json");
    std::fs::write(&path, serde_json::json!({ "data": steps }).to_string()).unwrap();
    path.display().to_string()
}

/// The program on the method `demo.Echo/Say` of the server at `url`.
pub fn program(url: &str, flags: &str) -> Program {
    let base = "--on-disturbance mark --service-kind dynamic_grpc --grpc-method demo.Echo/Say -u";
    Program::new().args(base).arg(url).args(flags)
}

/// The bodies of messages, one after the other, as a call carries them.
pub fn framed(messages: &[&[u8]]) -> Vec<u8> {
    messages.iter().flat_map(|bytes| message(bytes)).collect()
}

/// Nothing here takes so long.
pub const LONG: Duration = Duration::from_secs(5);
