//! Triton as a separate program, started by us on free ports of this machine and stopped on every way out; and whatever
//! processes are below this one ([`processes`]).

#![deny(unsafe_code, clippy::print_stderr, clippy::print_stdout)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![warn(missing_docs)]

mod arguments;
pub mod launch;
pub mod processes;

use ::{plan, shm};
use base::{clock, error, machine, signals};

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use base::debug;
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};

use crate::clock::Stamp;
use crate::error::{Error, Result};
use crate::plan::Target;

/// Servers that run now, or have ended unnoticed: the number of one that was waited for may be another process' by now,
/// so such a server is taken out at once.
static RUNNING: Mutex<Vec<Child>> = Mutex::new(Vec::new());

/// How long models may take to load.
const START_LIMIT: Duration = Duration::from_secs(600);
/// Pause between two polls of a server that is starting or stopping.
const EXIT_POLL: Duration = Duration::from_millis(20);
/// Lines of the server's output that are kept for error messages.
const LAST_WORDS: usize = 12;
/// Another process may take a free port before the server does; then others are tried.
const ATTEMPTS: usize = 3;

/// A running server program. It runs until [`ask_to_stop`], even if this is dropped: stopping takes time, so it comes
/// after all output.
pub struct TritonProgram {
    pid: Pid,
    http: u16,
    grpc: u16,
    words: Arc<Mutex<VecDeque<String>>>,
}

impl TritonProgram {
    /// Starts the program of the target's install directory with only the target's models, and waits until it answers.
    /// It ends no later than the calling thread.
    ///
    /// # Errors
    /// If there is no program, it ends or does not answer in time (with its last output), or the user interrupts.
    pub fn start(target: &Target, interrupts: &AtomicUsize) -> Result<Self> {
        let program = program(&target.server.directory)?;
        let mut failure = Error::server(format!("{}: was not started", program.display()));
        for _ in 0..ATTEMPTS {
            let server = Self::spawn(&program, target)?;
            match server.await_answer(interrupts) {
                Ok(()) => return Ok(server),
                Err(error) => failure = error,
            }
            server.end();
            let taken = server.words.lock().iter().any(|line| line.contains("in use") || line.contains("bind"));
            if !taken {
                break;
            }
        }
        Err(failure.context(program.display()))
    }

    /// `host:port` of its HTTP endpoint.
    pub fn http_url(&self) -> String {
        format!("{}:{}", Ipv4Addr::LOCALHOST, self.http)
    }

    /// `host:port` of its gRPC endpoint.
    pub fn grpc_url(&self) -> String {
        format!("{}:{}", Ipv4Addr::LOCALHOST, self.grpc)
    }

    fn spawn(program: &Path, target: &Target) -> Result<Self> {
        let failed = |error| Error::server(format!("{} cannot be started: {error}", program.display()));
        let [http, grpc] = free_ports().map_err(failed)?;
        let mut command = launch::bound(program);
        command.args(arguments::arguments(target, http, grpc)).args(arguments::supported(program));
        // From 25.06 on, the server says some things on one of them, and some on the other.
        let (output, words_end) = std::io::pipe().map_err(failed)?;
        command.stdin(Stdio::null()).stdout(words_end.try_clone().map_err(failed)?).stderr(words_end);
        // An interrupt at the terminal is for us: the server is stopped once its last request is done.
        command.process_group(0);
        debug!("starting {command:?}");
        let child = command.spawn().map_err(failed)?;
        // Keeps our copies of the pipe's other end.
        drop(command);
        let pid = Pid::from_child(&child);
        let words = Arc::new(Mutex::new(VecDeque::new()));
        let remembered = Arc::clone(&words);
        // Ends with the server, whose end of the pipe it reads.
        thread::spawn(move || remember(output, &remembered));
        RUNNING.lock().push(child);
        Ok(Self { pid, http, grpc, words })
    }

    fn await_answer(&self, interrupts: &AtomicUsize) -> Result<()> {
        let limit = Stamp::now().plus_duration(START_LIMIT);
        while Stamp::now() < limit {
            if let Some(status) = self.ended() {
                return Err(Error::server(format!("it ended with {status}: {}", self.last_words())));
            }
            if interrupts.load(Ordering::Relaxed) > 0 {
                return Err(Error::server("interrupted while it started"));
            }
            let answers = |port| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok();
            if answers(self.http) && answers(self.grpc) {
                return Ok(());
            }
            thread::sleep(EXIT_POLL);
        }
        Err(Error::server(format!("no answer within {} s: {}", START_LIMIT.as_secs(), self.last_words())))
    }

    fn ended(&self) -> Option<ExitStatus> {
        let mut running = RUNNING.lock();
        let status = running.iter_mut().find(|child| self.is(child))?.try_wait().ok().flatten()?;
        running.retain(|child| !self.is(child));
        Some(status)
    }

    /// Ends it at once, unless its end was noticed.
    fn end(&self) {
        if RUNNING.lock().iter().any(|child| self.is(child)) {
            processes::end_tree(self.pid);
            RUNNING.lock().retain(|child| !self.is(child));
        }
    }

    fn is(&self, child: &Child) -> bool {
        Pid::from_child(child) == self.pid
    }

    fn last_words(&self) -> String {
        // Its last output may still be in the pipe.
        thread::sleep(EXIT_POLL);
        let words = self.words.lock();
        if words.is_empty() { "it said nothing".to_owned() } else { Vec::from(words.clone()).join(" | ") }
    }
}

/// Asks every server program to stop.
pub fn ask_to_stop() {
    for child in RUNNING.lock().iter() {
        // A failure to signal means that it has already ended.
        let _ = kill_process(Pid::from_child(child), Signal::TERM);
    }
}

/// Waits until all of them have stopped; `waiting` receives the reason for the wait.
pub fn await_stops(waiting: &dyn Fn(String)) {
    loop {
        let mut running = RUNNING.lock();
        running.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
        if running.is_empty() {
            return;
        }
        drop(running);
        waiting("the tritonserver of --matrix transports had not ended".to_owned());
        thread::sleep(EXIT_POLL);
    }
}

/// Ends every server program at once. For exits that run no destructors; calling it twice does no harm.
pub fn kill_all() {
    // A panic inside this module may hold the lock on this very thread.
    let Some(mut running) = RUNNING.try_lock_for(Duration::from_secs(1)) else { return };
    for mut child in running.drain(..) {
        processes::end_tree(Pid::from_child(&child));
        let _ = child.wait();
    }
}

fn program(directory: &Path) -> Result<PathBuf> {
    let path = directory.join("bin").join("tritonserver");
    if path.is_file() {
        return Ok(path);
    }
    Err(Error::usage(format!(
        "{} does not exist: --triton-server-directory must hold the server's program too, or name a running server with -u",
        path.display()
    )))
}

/// Two ports that nothing listens on now.
fn free_ports() -> std::io::Result<[u16; 2]> {
    // Held at the same time, so that they differ.
    let sockets = [TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?, TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?];
    Ok([sockets[0].local_addr()?.port(), sockets[1].local_addr()?.port()])
}

fn remember(output: impl Read, words: &Mutex<VecDeque<String>>) {
    for line in BufReader::new(output).split(b'\n').map_while(std::io::Result::ok) {
        let mut words = words.lock();
        words.push_back(String::from_utf8_lossy(&line).trim_end().to_owned());
        if words.len() > LAST_WORDS {
            words.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_differ_and_are_free() {
        let [http, grpc] = free_ports().unwrap();
        assert_ne!(http, grpc);
        assert!(TcpListener::bind((Ipv4Addr::LOCALHOST, http)).is_ok());
    }

    #[test]
    fn a_server_whose_end_was_noticed_is_signalled_no_more() {
        let child = std::process::Command::new("true").spawn().unwrap();
        let pid = Pid::from_child(&child);
        RUNNING.lock().push(child);
        let server = TritonProgram { pid, http: 0, grpc: 0, words: Arc::default() };
        let status = loop {
            if let Some(status) = server.ended() {
                break status;
            }
            thread::sleep(EXIT_POLL);
        };
        assert!(status.success());
        assert!(!RUNNING.lock().iter().any(|child| Pid::from_child(child) == pid));
        assert_eq!(server.ended(), None);
        server.end();
    }

    #[test]
    fn last_words_are_the_last() {
        let words = Mutex::new(VecDeque::new());
        let text: String = (0..50).map(|line| format!("line {line}\r\n")).collect();
        remember(text.as_bytes(), &words);
        let words = words.into_inner();
        assert_eq!((words.len(), words.back().map(String::as_str)), (LAST_WORDS, Some("line 49")));
    }

    #[test]
    fn an_install_without_the_program_is_named() {
        let error = program(Path::new("/nowhere")).unwrap_err().to_string();
        assert!(error.contains("/nowhere/bin/tritonserver") && error.contains("-u"), "{error}");
    }
}
