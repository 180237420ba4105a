//! Live objects by interface, the log, and violations.

use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use crate::settings::settings;

/// By which interface something was made. A client that calls the driver itself is told apart from a server that uses the
/// runtime in the same process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    Driver,
    Runtime,
}

/// What is counted.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Allocation,
    Import,
    Registration,
}

#[derive(Clone, Copy, Default)]
struct Count {
    live: u64,
    made: u64,
}

#[derive(Default)]
struct Account {
    counts: [Count; 3],
    bytes: usize,
    peak: usize,
    /// Allocations that were made, by device.
    by_device: Vec<u64>,
}

#[derive(Default)]
struct Ledger {
    accounts: [Account; 2],
    violations: u64,
    /// The process that used the library; a child that was only forked is another one.
    process: Option<u32>,
}

static LEDGER: Mutex<Ledger> = Mutex::new(Ledger {
    accounts: [const { Account { counts: [Count { live: 0, made: 0 }; 3], bytes: 0, peak: 0, by_device: Vec::new() } };
        2],
    violations: 0,
    process: None,
});

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The driver was started in this process: there will be a line at its end.
pub fn started() {
    lock(&LEDGER).process = Some(std::process::id());
}

/// Something was made; `bytes` are of a device's memory.
pub fn made(interface: Interface, kind: Kind, bytes: usize) {
    let mut ledger = lock(&LEDGER);
    let account = &mut ledger.accounts[interface as usize];
    let count = &mut account.counts[kind as usize];
    (count.live, count.made) = (count.live + 1, count.made + 1);
    account.bytes += bytes;
    account.peak = account.peak.max(account.bytes);
}

/// An allocation of `bytes` bytes on `device` was made.
pub fn allocated(interface: Interface, device: u32, bytes: usize) {
    made(interface, Kind::Allocation, bytes);
    let by_device = &mut lock(&LEDGER).accounts[interface as usize].by_device;
    let index = device as usize;
    by_device.resize(by_device.len().max(index + 1), 0);
    by_device[index] += 1;
}

/// It is gone.
pub fn gone(interface: Interface, kind: Kind, bytes: usize) {
    let mut ledger = lock(&LEDGER);
    let account = &mut ledger.accounts[interface as usize];
    account.counts[kind as usize].live -= 1;
    account.bytes -= bytes;
}

/// A client broke a rule.
pub fn violation(rule: &str, detail: impl std::fmt::Display) {
    lock(&LEDGER).violations += 1;
    let line = json!({"event": "violation", "pid": std::process::id(), "rule": rule, "detail": detail.to_string()});
    if !write(&line) {
        eprintln!("fake_cuda: {line}");
        std::process::abort();
    }
}

/// Whether there is a log.
fn write(line: &Value) -> bool {
    let Some(path) = &settings().log else { return false };
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    let written = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
    written.unwrap_or_else(|error| panic!("FAKE_CUDA_LOG={}: {error}", path.display()));
    true
}

fn account(account: &Account) -> Value {
    let [allocations, imports, registrations] = account.counts;
    json!({
        "allocations": allocations.live, "allocations_made": allocations.made, "allocations_by_device": account.by_device,
        "imports": imports.live, "imports_made": imports.made,
        "registrations": registrations.live, "registrations_made": registrations.made,
        "bytes": account.bytes, "peak_bytes": account.peak,
    })
}

extern "C" fn finish() {
    let ledger = lock(&LEDGER);
    if ledger.process != Some(std::process::id()) {
        return;
    }
    let program = std::env::current_exe().ok().and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    write(&json!({
        "event": "exit", "pid": std::process::id(), "program": program,
        "driver": account(&ledger.accounts[Interface::Driver as usize]),
        "runtime": account(&ledger.accounts[Interface::Runtime as usize]),
        "violations": ledger.violations,
    }));
}

/// Called when the library goes away, at the end of the process.
#[used]
#[unsafe(link_section = ".fini_array")]
static FINISH: extern "C" fn() = finish;
