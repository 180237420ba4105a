//! A separate real `tritonserver` on free ports, for the network transports.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use super::ports::free_ports;
use super::skip::skip;
use super::watched::Watched;
use super::{Finished, Program, Repository, triton};

const SIGSEGV: i32 = 11;
const SIGTERM: i32 = 15;
/// So often at most a run is made whose cancelled calls end the server.
const CANCELLING_RUNS: u32 = 4;
/// It waits half a minute for requests that are under way.
const PATIENCE: Duration = Duration::from_secs(60);
/// The variable that keeps a tracing server alive. Triton before 25.05 unlocks the mutex of a trace after it has freed it
/// (server#8144; memcheck shows it in 24.10), and so damages the memory of whoever has got it since. What stays in the cache of the thread
/// that freed it goes to no other.
const KEEPS_FREED: (&str, &str) = ("GLIBC_TUNABLES", "glibc.malloc.tcache_count=65535");

/// The flags among these, and their values, that a server of this release knows.
fn newer_flags(program: &Path, flags: &[(&str, &str)]) -> Vec<String> {
    static HELP: OnceLock<String> = OnceLock::new();
    let help = HELP.get_or_init(|| {
        let output = Command::new(program).arg("--help").output().expect("the program can be started");
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    });
    flags
        .iter()
        .filter(|(name, _)| help.contains(&format!("--{name} ")))
        .map(|(name, value)| format!("--{name}={value}"))
        .collect()
}

/// A server under way; it is ended when dropped.
pub struct TritonServer {
    process: Watched,
    command: Command,
    address: String,
    /// What it was started through.
    through: Vec<String>,
    http: u16,
    grpc: u16,
    metrics: u16,
}

impl TritonServer {
    /// Starts one on `repository`. Fails where the server directory has no `tritonserver` program; `None` if such tests may be
    /// skipped.
    pub fn start(repository: &Repository) -> Option<Self> {
        Self::start_with(repository, &[])
    }

    /// Starts one with further flags.
    pub fn start_with(repository: &Repository, flags: &[&str]) -> Option<Self> {
        Self::start_in(repository, flags, &[])
    }

    /// Starts one with further flags and environment variables.
    pub fn start_in(repository: &Repository, flags: &[&str], environment: &[(&str, OsString)]) -> Option<Self> {
        Self::start_at(&[], "127.0.0.1", repository, flags, environment)
    }

    /// Starts one through a command whose words come before it, such as one that enters a network namespace, on an address there.
    pub fn start_within(through: &[&str], address: &str, repository: &Repository) -> Option<Self> {
        Self::start_at(through, address, repository, &[], &[])
    }

    fn start_at(
        through: &[&str],
        address: &str,
        repository: &Repository,
        flags: &[&str],
        environment: &[(&str, OsString)],
    ) -> Option<Self> {
        let directory = triton();
        let program = directory.join("bin/tritonserver");
        if !program.exists() {
            skip(&format!("{} does not exist", program.display()));
            return None;
        }
        let [http, grpc, metrics] = free_ports();
        let mut words = through.iter().map(OsString::from).chain([program.clone().into()]);
        let mut command = Command::new(words.next().expect("there is the program"));
        command
            .args(words)
            .arg("--model-repository")
            .arg(repository.path())
            .arg("--backend-directory")
            .arg(directory.join("backends"))
            .args(newer_flags(
                &program,
                &[("cache-directory", directory.join("caches").to_str().unwrap()), ("metrics-address", address)],
            ))
            .args([format!("--http-port={http}"), format!("--grpc-port={grpc}"), format!("--metrics-port={metrics}")])
            .args(["http", "grpc"].map(|service| format!("--{service}-address={address}")))
            .args(["--metrics-interval-ms=100", "--log-info=false", "--log-warning=false"])
            .args(flags)
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .envs(flags.iter().any(|flag| flag.starts_with("--trace-config")).then_some(KEEPS_FREED))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let process = Watched::start(&mut command);
        let (address, through) = (address.to_owned(), through.iter().map(ToString::to_string).collect());
        let mut server = Self { process, command, address, through, http, grpc, metrics };
        server.wait_until_ready();
        Some(server)
    }

    /// Waits until it answers and its models are loaded.
    pub fn wait_until_ready(&mut self) {
        let started = Instant::now();
        while !self.is_ready() {
            let ended = self.process.try_wait();
            assert!(ended.is_none() && started.elapsed() < Duration::from_secs(60), "tritonserver: {ended:?}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Whether it says so; from elsewhere, whether it takes connections at all.
    fn is_ready(&self) -> bool {
        let [program, words @ ..] = self.through.as_slice() else {
            return self.get("/v2/health/ready").is_some_and(|answer| answer.starts_with("HTTP/1.1 200"));
        };
        let connect = format!("exec 3<>/dev/tcp/{}/{}", self.address, self.grpc);
        let status = Command::new(program).args(words).args(["bash", "-c", &connect]).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    }

    /// The whole answer to a GET request.
    pub fn get(&self, path: &str) -> Option<String> {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
    }

    /// The whole answer to a POST request with this body.
    pub fn post(&self, path: &str, body: &str) -> Option<String> {
        let head =
            format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}", body.len());
        self.ask(&format!("{head}\r\n\r\n{body}"))
    }

    fn ask(&self, request: &str) -> Option<String> {
        let mut stream = TcpStream::connect((self.address.as_str(), self.http)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(10))).ok()?;
        // In one piece: the server does not find a path that comes in two.
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    }

    /// How often it has executed a model, or taken a request of an ensemble, since its start.
    pub fn executed(&self, model: &str) -> u64 {
        let answer = self.get(&format!("/v2/models/{model}/stats")).unwrap_or_default();
        let count =
            answer.split_once("\"execution_count\":").map(|(_, tail)| tail.split(|c: char| !c.is_ascii_digit()));
        count.and_then(|mut digits| digits.next()?.parse().ok()).unwrap_or(0)
    }

    /// Waits until it has executed a model more often than `before`, and then for `length` of the load that does it.
    pub fn wait_for_load(&self, model: &str, before: u64, length: Duration) {
        let started = Instant::now();
        while self.executed(model) <= before {
            assert!(started.elapsed() < PATIENCE, "no request has come to {model}");
            thread::sleep(Duration::from_millis(5));
        }
        thread::sleep(length);
    }

    /// `host:port` of `http` or `grpc`.
    pub fn url(&self, protocol: &str) -> String {
        format!("{}:{}", self.address, if protocol == "grpc" { self.grpc } else { self.http })
    }

    /// `host:port` of its metrics.
    pub fn metrics(&self) -> String {
        format!("{}:{}", self.address, self.metrics)
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: i32) {
        self.process.signal(signal);
    }

    /// Ends it without warning.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Starts it again where it was, without waiting.
    pub fn restart(&mut self) {
        self.process = Watched::start(&mut self.command);
    }

    /// A run that cancels calls. Triton's gRPC front end does not always outlive that (server#7368, server#8034: a segmentation
    /// fault in 24.10, or a hang), which says nothing about the run: both are started again.
    pub fn run_that_cancels(&mut self, run: impl Fn(&Self) -> Finished) -> Finished {
        for _ in 0..CANCELLING_RUNS {
            self.process.may_die_by(SIGSEGV);
            let finished = run(self);
            if self.is_ready() {
                return finished;
            }
            self.kill();
            self.restart();
            self.wait_until_ready();
        }
        panic!("tritonserver died or hung in each of {CANCELLING_RUNS} runs that cancel calls");
    }

    /// Lets it end by itself, so that models write what they write when they are unloaded.
    pub fn stop(mut self) {
        self.signal(SIGTERM);
        self.process.wait(PATIENCE);
    }

    /// The program on a model of this server, over `http` or `grpc`.
    pub fn program(&self, protocol: &str, model: &str) -> Program {
        Self::program_at(&self.url(protocol), protocol, model)
    }

    /// The same at another address, such as that of something between.
    pub fn program_at(url: &str, protocol: &str, model: &str) -> Program {
        Program::new().args(&format!("--on-disturbance mark -i {protocol} -u {url} -m {model}"))
    }
}
