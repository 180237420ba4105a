//! Live objects, the event log, and rule violations.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use parking_lot::{Mutex, MutexGuard};
use serde_json::{Map, Value, json};

/// Kinds of things with a handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    Error,
    Message,
    Options,
    Server,
    Request,
    Response,
    Allocator,
    Trace,
    Metrics,
    Parameter,
    BufferAttributes,
}

const KINDS: [(Kind, &str); 11] = [
    (Kind::Error, "error"),
    (Kind::Message, "message"),
    (Kind::Options, "options"),
    (Kind::Server, "server"),
    (Kind::Request, "request"),
    (Kind::Response, "response"),
    (Kind::Allocator, "allocator"),
    (Kind::Trace, "trace"),
    (Kind::Metrics, "metrics"),
    (Kind::Parameter, "parameter"),
    (Kind::BufferAttributes, "buffer_attributes"),
];

/// A thing with a handle.
pub trait Object {
    /// Which kind.
    const KIND: Kind;
}

#[derive(Default)]
struct Ledger {
    live: Mutex<HashMap<usize, Kind>>,
    log: Mutex<Option<File>>,
    violations: AtomicU64,
}

fn ledger() -> &'static Ledger {
    static LEDGER: OnceLock<Ledger> = OnceLock::new();
    LEDGER.get_or_init(|| {
        let ledger = Ledger::default();
        *lock(&ledger.log) = open_log();
        ledger
    })
}

/// Locks, also after a panic elsewhere. These locks are built with this library, so that ThreadSanitizer sees into them, which it
/// cannot with those of the standard library.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

fn open_log() -> Option<File> {
    let path = std::env::var_os("FAKE_TRITON_LOG")?;
    match OpenOptions::new().append(true).create(true).open(&path) {
        Ok(file) => Some(file),
        Err(error) => {
            eprintln!("fake_triton: FAKE_TRITON_LOG {}: {error}", path.display());
            std::process::abort()
        }
    }
}

/// Opens the log that the environment names now.
pub fn reopen_log() {
    *lock(&ledger().log) = open_log();
}

/// Writes an event to the log, if there is one; answers whether there is.
pub fn log(event: &Value) -> bool {
    let mut log = lock(&ledger().log);
    let Some(file) = log.as_mut() else { return false };
    if let Err(error) = file.write_all(format!("{event}\n").as_bytes()) {
        eprintln!("fake_triton: the log cannot be written: {error}");
    }
    true
}

/// Reports that the client broke a rule. Without a log this ends the process.
pub fn violation(rule: &str, detail: &str) {
    ledger().violations.fetch_add(1, SeqCst);
    if !log(&json!({"event": "violation", "rule": rule, "detail": detail})) {
        eprintln!("fake_triton: violation {rule}: {detail}");
        std::process::abort();
    }
}

/// Brings an object to life and answers its handle.
pub fn create<T: Object>(object: T) -> *mut T {
    let handle = Box::into_raw(Box::new(object));
    lock(&ledger().live).insert(handle as usize, T::KIND);
    handle
}

/// The object behind a handle, for the duration of a call; `None`, reported, if it is not alive.
pub fn borrow<'a, T: Object>(handle: *const T, call: &str) -> Option<&'a T> {
    if !is_live(handle) {
        dead::<T>(handle as usize, call);
        return None;
    }
    // SAFETY: alive and of this type; that nobody deletes it meanwhile is the client's duty.
    Some(unsafe { &*handle })
}

/// Whether a handle is alive and of its kind.
pub fn is_live<T: Object>(handle: *const T) -> bool {
    lock(&ledger().live).get(&(handle as usize)) == Some(&T::KIND)
}

/// Ends an object's life and hands it over; `None`, reported, if it was not alive.
pub fn destroy<T: Object>(handle: *mut T, call: &str) -> Option<Box<T>> {
    let mut live = lock(&ledger().live);
    if live.get(&(handle as usize)) != Some(&T::KIND) {
        drop(live);
        dead::<T>(handle as usize, call);
        return None;
    }
    live.remove(&(handle as usize));
    // SAFETY: made by `create`, alive until now.
    Some(unsafe { Box::from_raw(handle) })
}

fn dead<T: Object>(address: usize, call: &str) {
    violation("dead_handle", &format!("{call}: {address:#x} is no live {}", name(T::KIND)));
}

fn name(kind: Kind) -> &'static str {
    KINDS.iter().find(|(key, _)| *key == kind).map_or("object", |(_, name)| name)
}

/// How many of a kind are alive.
pub fn count(kind: Kind) -> usize {
    lock(&ledger().live).values().filter(|live| **live == kind).count()
}

/// How many of each kind are alive.
pub fn live() -> Value {
    Value::Object(KINDS.iter().map(|(kind, name)| ((*name).to_owned(), json!(count(*kind)))).collect::<Map<_, _>>())
}

/// Reports what must not be alive once the last server is gone.
pub fn check_leaks() {
    let forbidden = [Kind::Error, Kind::Message, Kind::Request, Kind::Response, Kind::Trace, Kind::Metrics];
    let leaks: Vec<String> = forbidden
        .iter()
        .filter(|kind| count(**kind) > 0)
        .map(|kind| format!("{} {}", count(*kind), name(*kind)))
        .collect();
    if !leaks.is_empty() {
        violation("leak", &format!("alive when the last server was deleted: {}", leaks.join(", ")));
    }
}

/// Run by the loader when the library goes away.
extern "C" fn say_goodbye() {
    log(&json!({"event": "exit", "live": live(), "violations": ledger().violations.load(SeqCst)}));
}

#[used]
#[cfg_attr(not(test), unsafe(link_section = ".fini_array"))]
static GOODBYE: extern "C" fn() = say_goodbye;
