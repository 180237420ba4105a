//! Triton as a program of its own, started by us on free ports of this machine and stopped on every way out.

mod arguments;
pub mod launch;

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

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};

use crate::clock::Stamp;
use crate::error::{Error, Result};
use crate::plan::Target;

/// Servers that run now, so that exits without destructors can end them.
static RUNNING: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// How long models may take to load.
const START_LIMIT: Duration = Duration::from_secs(600);
/// Between two looks at a server that starts or stops.
const LOOK_UP: Duration = Duration::from_millis(20);
/// A server that was asked to stop gets this long beyond its own limit for open requests.
const STOP_GRACE: Duration = Duration::from_secs(5);
/// Lines of the server's own words that are kept for error messages.
const LAST_WORDS: usize = 12;
/// Another process may take a free port before the server does; then others are tried.
const ATTEMPTS: usize = 3;

/// A running server program. Dropping it stops it and waits for its end.
pub struct TritonProgram {
    child: Child,
    http: u16,
    grpc: u16,
    words: Arc<Mutex<VecDeque<String>>>,
    stop_limit: Duration,
}

impl TritonProgram {
    /// Starts the program of the target's install directory with only the target's models, and waits until it answers. It
    /// ends with the calling thread, at the latest.
    ///
    /// # Errors
    /// Where there is no program, it ends or does not answer in time (with its last words), or the user interrupts.
    pub fn start(target: &Target, interrupts: &AtomicUsize) -> Result<Self> {
        let program = program(&target.server.directory)?;
        let mut failure = Error::server(format!("{}: was not started", program.display()));
        for _ in 0..ATTEMPTS {
            let mut server = Self::spawn(&program, target)?;
            match server.await_answer(interrupts) {
                Ok(()) => return Ok(server),
                Err(error) => failure = error,
            }
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
        command.args(arguments::arguments(target, http, grpc)).args(arguments::known(program));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        // An interrupt at the terminal is for us: the server is stopped when its last request is done.
        command.process_group(0);
        let mut child = command.spawn().map_err(failed)?;
        RUNNING.lock().push(Pid::from_child(&child));
        let words = Arc::new(Mutex::new(VecDeque::new()));
        if let Some(stderr) = child.stderr.take() {
            let words = Arc::clone(&words);
            // Ends with the server, whose end of the pipe it reads.
            thread::spawn(move || remember(stderr, &words));
        }
        let stop_limit = Duration::from_secs(u64::from(target.server.exit_timeout_s)) + STOP_GRACE;
        Ok(Self { child, http, grpc, words, stop_limit })
    }

    fn await_answer(&mut self, interrupts: &AtomicUsize) -> Result<()> {
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
            thread::sleep(LOOK_UP);
        }
        Err(Error::server(format!("no answer within {} s: {}", START_LIMIT.as_secs(), self.last_words())))
    }

    fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    fn last_words(&self) -> String {
        // What it wrote last may still be on its way.
        thread::sleep(LOOK_UP);
        let words = self.words.lock();
        if words.is_empty() { "it said nothing".to_owned() } else { Vec::from(words.clone()).join(" | ") }
    }
}

impl Drop for TritonProgram {
    fn drop(&mut self) {
        let pid = Pid::from_child(&self.child);
        // Failures to signal mean that it has ended already.
        let _ = kill_process(pid, Signal::TERM);
        let limit = Stamp::now().plus_duration(self.stop_limit);
        while self.ended().is_none() && Stamp::now() < limit {
            thread::sleep(LOOK_UP);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        RUNNING.lock().retain(|running| *running != pid);
    }
}

/// Ends every server program at once. For exits that run no destructors; calling it twice does no harm.
pub fn kill_all() {
    // A panic inside this module may hold the lock on this very thread.
    let Some(mut running) = RUNNING.try_lock_for(Duration::from_secs(1)) else { return };
    for pid in running.drain(..) {
        let _ = kill_process(pid, Signal::KILL);
        let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
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
    // Held together, so that they differ.
    let sockets = [TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?, TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?];
    Ok([sockets[0].local_addr()?.port(), sockets[1].local_addr()?.port()])
}

fn remember(stderr: impl Read, words: &Mutex<VecDeque<String>>) {
    for line in BufReader::new(stderr).split(b'\n').map_while(std::io::Result::ok) {
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
