//! Watches the programs that tests start: one that hangs, or dies by a signal that the test did not send, is noted in
//! the run's file, so that a passing retry cannot hide it (scripts/lib/deaths.sh creates that file and reads it at the
//! end).

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The variable that names the file.
pub const DEATHS: &str = "TRITON_BENCH_DEATHS";

/// Notes what no second try may make good again.
fn note(message: &str) {
    let test = thread::current().name().unwrap_or("?").to_owned();
    let line = format!("{test}: {}\n", message.replace('\n', " "));
    eprint!("{line}");
    let Some(path) = std::env::var_os(DEATHS) else { return };
    // In one write, so that lines of other processes do not come between.
    let noted =
        OpenOptions::new().append(true).create(true).open(&path).and_then(|mut file| file.write_all(line.as_bytes()));
    noted.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

/// Waits until a process has a handler for a signal.
pub fn until_it_catches(process: i32, signal: i32) {
    until(|| is_among(process, "SigCgt:", signal), &format!("process {process} does not catch signal {signal}"));
}

/// Waits until a process has received a signal that was sent to it: a second one that comes before counts as the same.
pub fn until_it_has(process: i32, signal: i32) {
    until(|| !is_among(process, "ShdPnd:", signal), &format!("process {process} does not receive signal {signal}"));
}

/// Whether a signal is in a set of a process' status.
fn is_among(process: i32, set: &str, signal: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let bits = status.lines().find_map(|line| line.strip_prefix(set)).unwrap_or("0").trim().to_owned();
    u64::from_str_radix(&bits, 16).unwrap_or(0) & (1 << (signal - 1)) != 0
}

/// Waits until a condition holds, for 20 s at most.
pub fn until(is_so: impl Fn() -> bool, otherwise: &str) {
    let limit = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < limit, "{otherwise}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A process under way; it is ended when dropped.
pub struct Watched {
    child: Child,
    /// Its command line.
    name: String,
    /// A bit for each signal that the test sent.
    sent: AtomicU64,
    ended: Option<ExitStatus>,
}

impl Watched {
    /// Starts it.
    pub fn start(command: &mut Command) -> Self {
        let name = format!("{command:?}");
        let child = command.spawn().unwrap_or_else(|error| panic!("{name} cannot be started: {error}"));
        Self { child, name, sent: AtomicU64::new(0), ended: None }
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its process, to take its pipes.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Sends it a signal, of which it may die from now on.
    pub fn signal(&self, signal: i32) {
        assert!(self.try_signal(signal), "the program is gone already");
    }

    /// Lets it die by this signal without having been sent it.
    pub fn may_die_by(&self, signal: i32) {
        self.sent.fetch_or(1 << signal, Ordering::Relaxed);
    }

    /// As [`Watched::signal`], where it may be gone already; whether it was still there.
    pub fn try_signal(&self, signal: i32) -> bool {
        self.may_die_by(signal);
        let mut kill = Command::new("kill");
        let sent = kill.arg(format!("-{signal}")).arg(self.id().to_string()).stderr(Stdio::null()).status();
        sent.expect("kill can be run").success()
    }

    /// How it ended, if it did. Fails the test, and the run, if it died by a signal that is none of the test's.
    pub fn try_wait(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().expect("the program can be waited for");
            if let Some(death) = self.death() {
                note(&death);
            }
        }
        self.ended
    }

    /// The signal that killed it, unless the test sent that one.
    pub fn death(&self) -> Option<String> {
        let signal = self.ended?.signal()?;
        let expected = self.sent.load(Ordering::Relaxed) & (1 << signal) != 0;
        (!expected).then(|| format!("died by signal {signal}: {}", self.name))
    }

    /// Waits for its end; one that takes longer than `patience` is ended, which fails the test, and the run.
    pub fn wait(&mut self, patience: Duration) -> ExitStatus {
        let started = Instant::now();
        loop {
            if let Some(status) = self.try_wait() {
                return status;
            }
            if started.elapsed() > patience {
                note(&format!("did not end within {patience:?}: {}", self.name));
                self.kill();
                panic!("the program did not end within {patience:?}: {}", self.name);
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Ends it without warning.
    pub fn kill(&mut self) {
        if self.try_wait().is_none() {
            self.sent.fetch_or(1 << 9, Ordering::Relaxed);
            let _ = self.child.kill();
            self.ended = self.child.wait().ok();
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.kill();
    }
}
