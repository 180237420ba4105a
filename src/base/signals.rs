//! The signals that ask this program to end, and those that warn it.
//!
//! What users and systems send to end a program is blocked in every thread and read from a file by one of ours. So no
//! library can lose such a signal: one that is blocked is kept while `system(3)` has it ignored for the whole process,
//! as the python backend does while it loads a model, and no handler of a backend is called for it.
//!
//! A warning (from a scheduler, of a limit) has a handler instead, for a runtime inside the server may need its signal to
//! stop threads (garbage collectors do), where it must reach the thread that it is for. The signals that are blocked have
//! the handler, too, for threads in which somebody has unblocked them.

use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use libc::c_int;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use parking_lot::Mutex;
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::raw::WithRawSiginfo;

/// By which users and systems end a program.
const REQUESTS: [Signal; 4] = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM];

/// Others that would end the program if nothing was done about them.
const WARNINGS: [Signal; 9] = [
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGALRM,
    Signal::SIGVTALRM,
    Signal::SIGPROF,
    Signal::SIGXCPU,
    Signal::SIGIO,
    Signal::SIGPWR,
    Signal::SIGSTKFLT,
];

/// A signal that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivedSignal {
    /// Which.
    pub signal: c_int,
    /// What the kernel says about its cause.
    pub code: c_int,
    /// The process that sent it, where that is known.
    pub sender: Option<i32>,
}

impl ReceivedSignal {
    /// The signal's name, if it is a warning.
    pub fn warning(self) -> Option<&'static str> {
        WARNINGS.iter().find(|signal| **signal as c_int == self.signal).map(|signal| signal.as_str())
    }
}

/// Whether this is a signal by which users and systems end a program, or warn it.
pub fn is_known(signal: c_int) -> bool {
    REQUESTS.iter().chain(&WARNINGS).any(|candidate| *candidate as c_int == signal)
}

/// What is done with signals, one at a time.
type Handler = Arc<Mutex<dyn FnMut(ReceivedSignal) + Send>>;

/// Listens to the signals that ask this program to end.
pub struct Listener {
    handler: Handler,
    /// Those that somebody has asked for.
    signals: Vec<c_int>,
}

impl Listener {
    /// Blocks the signals in this thread, and in all that it starts from now on, and calls `handler` with every one that
    /// arrives. To be called before other threads start. A debugger ends a wait by SIGINT, which it finds only if the
    /// program does not block it; so a program that is being debugged blocks nothing.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(handler: impl FnMut(ReceivedSignal) + Send + 'static) -> io::Result<Self> {
        let status = Status::read();
        let handler: Handler = Arc::new(Mutex::new(handler));
        // Under `nohup` a terminal that hangs up is nothing.
        let signals: Vec<Signal> =
            REQUESTS.into_iter().filter(|signal| *signal != Signal::SIGHUP || !status.ignores(*signal)).collect();
        if !status.traced {
            let set: SigSet = signals.iter().copied().collect();
            set.thread_block()?;
            let file = SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC)?;
            let handler = Arc::clone(&handler);
            thread::Builder::new().name("signals".to_owned()).spawn(move || read(&file, &handler))?;
        }
        Ok(Self { handler, signals: signals.into_iter().map(|signal| signal as c_int).collect() })
    }

    /// Installs handlers: for warnings, for `further` signals, and for signals that no thread blocks any more. Replaces
    /// those that are there, so it comes after libraries have set theirs at their start.
    ///
    /// # Errors
    /// If they cannot be installed.
    pub fn handle(&self, further: &[c_int]) -> io::Result<()> {
        let status = Status::read();
        // Whoever ignores a signal, or has a use for it, wants no end by it.
        let warnings = WARNINGS.into_iter().filter(|signal| !status.ignores(*signal) && !status.catches(*signal));
        let signals = warnings.map(|signal| signal as c_int).chain(self.signals.iter().chain(further).copied());
        let mut arrived = SignalsInfo::<WithRawSiginfo>::new(signals)?;
        let handler = Arc::clone(&self.handler);
        let listen = move || {
            for info in arrived.forever() {
                (handler.lock())(ReceivedSignal { signal: info.si_signo, code: info.si_code, sender: None });
            }
        };
        thread::Builder::new().name("handled signals".to_owned()).spawn(listen)?;
        survive_file_limits()
    }

    /// Does what is done with a signal that arrives.
    pub fn send(&self, received: ReceivedSignal) {
        (self.handler.lock())(received);
    }
}

/// Makes a file that reaches the limit of its size an error where it is written, as if the disk was full.
///
/// # Errors
/// If the handler cannot be installed.
pub fn survive_file_limits() -> io::Result<()> {
    signal_hook::flag::register(libc::SIGXFSZ, Arc::new(AtomicBool::new(false))).map(drop)
}

fn read(file: &SignalFd, handler: &Handler) {
    // It blocks, so it fails only if it is interrupted.
    loop {
        if let Ok(Some(info)) = file.read_signal() {
            let sender = (info.ssi_code == libc::SI_USER).then(|| info.ssi_pid.cast_signed());
            let received = ReceivedSignal { signal: info.ssi_signo.cast_signed(), code: info.ssi_code, sender };
            (handler.lock())(received);
        }
    }
}

/// Lets the signals through again in this thread, for the program that it becomes.
pub fn release() {
    // It fails for sets of signals that do not exist.
    let _ = SigSet::from_iter(REQUESTS).thread_unblock();
}

/// Starts another program, in which the signals are not blocked. One that arrives meanwhile is handled.
pub fn released<T>(start: impl FnOnce() -> T) -> T {
    let Ok(before) = SigSet::thread_get_mask() else { return start() };
    release();
    let started = start();
    let _ = before.thread_set_mask();
    started
}

/// What the kernel says about this process.
struct Status {
    ignored: u64,
    caught: u64,
    traced: bool,
}

impl Status {
    fn read() -> Self {
        Self::new(&fs::read_to_string("/proc/self/status").unwrap_or_default())
    }

    fn new(status: &str) -> Self {
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map_or("", str::trim);
        let set = |name: &str| u64::from_str_radix(field(name), 16).unwrap_or(0);
        let traced = !matches!(field("TracerPid:"), "" | "0");
        Self { ignored: set("SigIgn:"), caught: set("SigCgt:"), traced }
    }

    fn ignores(&self, signal: Signal) -> bool {
        self.ignored >> (signal as c_int - 1) & 1 == 1
    }

    fn catches(&self, signal: Signal) -> bool {
        self.caught >> (signal as c_int - 1) & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_says_what_is_ignored_and_who_debugs() {
        let status = Status::new("Name:\tx\nTracerPid:\t17\nSigIgn:\t0000000000000001\nSigCgt:\t0000000000000200\n");
        assert!(status.traced && status.ignores(Signal::SIGHUP) && status.catches(Signal::SIGUSR1));
        assert!(!status.ignores(Signal::SIGUSR1) && !status.catches(Signal::SIGHUP));
        assert!(!Status::new("TracerPid:\t0\n").traced && !Status::new("").traced);
    }

    #[test]
    fn only_warnings_have_a_name() {
        let name = |signal| ReceivedSignal { signal, code: 0, sender: None }.warning();
        assert_eq!((name(libc::SIGXCPU), name(libc::SIGINT)), (Some("SIGXCPU"), None));
    }

    #[test]
    fn a_program_that_is_started_blocks_nothing() {
        let blocked = || {
            let status = std::process::Command::new("cat").arg("/proc/self/status").output().unwrap();
            let status = String::from_utf8(status.stdout).unwrap();
            let set = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap().trim().to_owned();
            u64::from_str_radix(&set, 16).unwrap() >> (libc::SIGTERM - 1) & 1 == 1
        };
        thread::spawn(move || {
            SigSet::from_iter(REQUESTS).thread_block().unwrap();
            assert!(blocked() && !released(blocked) && blocked());
            release();
            assert!(!blocked());
        })
        .join()
        .unwrap();
    }
}
