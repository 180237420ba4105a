//! The program under test: starting it, and how it ended.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::watched::Watched;
use super::{Report, Repository, Terminal, triton};

/// A run that takes longer has hung.
const PATIENCE: Duration = Duration::from_secs(60);
/// What the program promises for everything that it refuses, on a machine that has nothing else to do.
const REFUSED_WITHIN: Duration = Duration::from_secs(2);

/// A call of the program.
pub struct Program {
    command: Command,
    /// What standard output is read up to; then it is closed.
    last_word: Option<String>,
}

impl Program {
    /// The program without arguments.
    pub fn new() -> Self {
        Self::named(env!("CARGO_BIN_EXE_triton-bench"))
    }

    /// The program under perf_analyzer's name.
    pub fn named_perf_analyzer(self) -> Self {
        let mut other = Self::named(env!("CARGO_BIN_EXE_perf_analyzer"));
        other.command.args(self.command.get_args());
        other
    }

    fn named(path: &str) -> Self {
        let mut command = Command::new(path);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self { command, last_word: None }
    }

    /// The same command as another's.
    pub fn of(command: &Command) -> Self {
        let mut same = Self::named(command.get_program().to_str().expect("a path in UTF-8"));
        same.command.args(command.get_args());
        same
    }

    /// In process, with the real Triton, on a model of `repository`.
    pub fn on(repository: &Repository, model: &str) -> Self {
        Self::in_process(&triton(), &repository.path()).args(&format!("-m {model}"))
    }

    /// In process, with a server directory and a model repository. How many windows a level has does not depend on what else
    /// runs here.
    pub fn in_process(server: &Path, repository: &Path) -> Self {
        Self::new()
            .args("--on-disturbance mark --service-kind triton_c_api --triton-server-directory")
            .arg(server)
            .arg("--model-repository")
            .arg(repository)
    }

    /// Further arguments, separated by blanks.
    pub fn args(mut self, line: &str) -> Self {
        self.command.args(line.split_whitespace());
        self
    }

    /// One further argument, whatever it holds.
    pub fn arg(mut self, argument: impl Into<OsString>) -> Self {
        self.command.arg(argument.into());
        self
    }

    /// An environment variable.
    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.command.env(name, value.into());
        self
    }

    /// Under what lines of a shell set before it: limits, traps.
    pub fn under(self, lines: &str) -> Self {
        let mut command = Command::new("bash");
        command.arg("-c").arg(format!("{lines}; exec \"$0\" \"$@\"")).arg(self.command.get_program());
        command.args(self.command.get_args());
        command.envs(self.command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self { command, ..self }
    }

    /// Started by a launcher, whose own words come before it.
    pub fn through(self, mut launcher: Command) -> Self {
        launcher.arg(self.command.get_program()).args(self.command.get_args());
        launcher.envs(self.command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        launcher.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self { command: launcher, ..self }
    }

    /// Whoever reads its standard output goes away after `text`.
    pub fn heard_until(mut self, text: &str) -> Self {
        self.last_word = Some(text.to_owned());
        self
    }

    /// Standard error is full: nothing can be written there.
    pub fn deaf(mut self) -> Self {
        self.command.stderr(OpenOptions::new().write(true).open("/dev/full").unwrap());
        self
    }

    /// Three short windows that count as stable whatever they hold.
    pub fn quick(self) -> Self {
        self.args("-p 100 -s 1000000")
    }

    /// Runs it to its end.
    pub fn run(self) -> Finished {
        self.start().finish()
    }

    /// The command itself.
    pub fn command(&self) -> &Command {
        &self.command
    }

    /// Starts it on a terminal of so many rows and columns.
    pub fn on_terminal(self, rows: u16, columns: u16) -> Terminal {
        Terminal::start(&self.command, rows, columns)
    }

    /// Starts it.
    pub fn start(mut self) -> Running {
        let started = Instant::now();
        let mut process = Watched::start(&mut self.command);
        let child = process.child();
        let (ended, end) = mpsc::channel();
        let read = |mut pipe: Box<dyn Read + Send>, last: mpsc::Sender<Instant>, until: Option<String>| {
            let bytes = Arc::new(Mutex::new(Vec::new()));
            let text = Arc::clone(&bytes);
            let thread = thread::spawn(move || {
                let mut part = [0; 4096];
                while let Ok(count @ 1..) = pipe.read(&mut part) {
                    let mut text = text.lock().unwrap();
                    text.extend_from_slice(&part[..count]);
                    let _ = last.send(Instant::now());
                    if until.as_ref().is_some_and(|until| String::from_utf8_lossy(&text).contains(until)) {
                        break;
                    }
                }
            });
            OutputText { bytes, thread }
        };
        let stdout = read(Box::new(child.stdout.take().unwrap()), ended.clone(), self.last_word);
        let stderr: Box<dyn Read + Send> = child.stderr.take().map_or(Box::new(io::empty()), |pipe| Box::new(pipe));
        let stderr = read(stderr, ended, None);
        Running { process, stdout, stderr, started, output: end }
    }
}

/// What a program has written to one of its streams.
struct OutputText {
    bytes: Arc<Mutex<Vec<u8>>>,
    thread: JoinHandle<()>,
}

impl OutputText {
    fn so_far(&self) -> String {
        String::from_utf8_lossy(&self.bytes.lock().unwrap()).into_owned()
    }

    fn all(self) -> String {
        self.thread.join().unwrap();
        String::from_utf8_lossy(&self.bytes.lock().unwrap()).into_owned()
    }
}

/// A program under way; it is ended when dropped.
pub struct Running {
    process: Watched,
    stdout: OutputText,
    stderr: OutputText,
    started: Instant,
    /// The moments at which it wrote something.
    output: mpsc::Receiver<Instant>,
}

impl Running {
    /// Its process.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: i32) {
        self.process.signal(signal);
    }

    /// Lets it die by a signal that the test does not send, such as a crash that it asks for.
    pub fn may_die_by(&self, signal: i32) {
        self.process.may_die_by(signal);
    }

    /// Sends it a signal, unless it has ended already.
    pub fn try_signal(&self, signal: i32) {
        self.process.try_signal(signal);
    }

    /// Waits until it has said `text`, on standard output or standard error.
    pub fn wait_for(&self, text: &str) {
        while !self.stdout.so_far().contains(text) && !self.stderr.so_far().contains(text) {
            assert!(self.started.elapsed() < PATIENCE, "'{text}' was never said: {}", self.stderr.so_far());
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits for its end, which must not be by a signal that the test did not send.
    pub fn finish(mut self) -> Finished {
        let status = self.process.wait(PATIENCE.saturating_sub(self.started.elapsed()));
        let ended = Instant::now();
        let (stdout, stderr) = (self.stdout.all(), of_this_test(&self.stderr.all()));
        let last = self.output.try_iter().max().unwrap_or(self.started);
        if let Some(death) = self.process.death() {
            panic!("{death}\n{stdout}\n{stderr}");
        }
        Finished { status, stdout, stderr, wall: ended - self.started, silent: ended.saturating_duration_since(last) }
    }
}

/// How a run ended.
#[derive(Debug)]
pub struct Finished {
    status: ExitStatus,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
    /// From its start to its end.
    pub wall: Duration,
    /// From its last output to its end.
    pub silent: Duration,
}

impl Finished {
    /// The signal that ended it.
    pub fn signal(&self) -> Option<i32> {
        self.status.signal()
    }

    /// Its exit code; a run that was ended by a signal has none.
    pub fn code(&self) -> i32 {
        let signal = self.status.signal();
        self.status.code().unwrap_or_else(|| panic!("ended by signal {signal:?}: {self:#?}"))
    }

    /// Its report, after an end with `code`.
    pub fn report_with(&self, code: i32) -> Report {
        assert_eq!(self.code(), code, "{}\n{}", self.stdout, self.stderr);
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        Report::parse(&self.stdout)
    }

    /// Its report, after a good end, or one that only complains of requests that left late or found no free slot, as they do
    /// on a busy machine.
    pub fn report_even_if_late(&self) -> Report {
        let complaints = [
            "of the requests left too late",
            "of its requests too late",
            "requests waited because of --max-outstanding",
        ];
        let late = self.code() == 4 && complaints.iter().any(|complaint| self.stdout.contains(complaint));
        self.report_with(if late { 4 } else { 0 })
    }

    /// Its report, after a good end.
    pub fn report(&self) -> Report {
        self.report_with(0)
    }

    /// The one line of an end with code 99, which must hold all of `words`, come soon, and leave standard output empty.
    pub fn refusal(&self, words: &[&str]) -> &str {
        assert!(self.wall < REFUSED_WITHIN.mul_f64(crowd()), "took {:?}: {}", self.wall, self.stderr);
        assert_eq!(self.stdout, "", "something was written before the refusal");
        self.failure(words)
    }

    /// As [`Finished::failure`], where something was said of the server or the flags before.
    pub fn failure_after_notes(&self, words: &[&str]) -> &str {
        assert_eq!(self.code(), 99, "{}\n{}", self.stdout, self.stderr);
        let last = self.stderr.lines().last().unwrap_or_default();
        assert!(last.starts_with("error: "), "{}", self.stderr);
        for word in words {
            assert!(last.contains(word), "'{word}' is missing: {last}");
        }
        last
    }

    /// As [`Finished::refusal`], where levels may have been measured before.
    pub fn failure(&self, words: &[&str]) -> &str {
        assert_eq!(self.code(), 99, "{}\n{}", self.stdout, self.stderr);
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        let lines: Vec<&str> = self.stderr.lines().collect();
        let [line] = lines[..] else { panic!("not one line: {}", self.stderr) };
        assert!(line.starts_with("error: "), "{line}");
        for word in words {
            assert!(line.contains(word), "'{word}' is missing: {line}");
        }
        line
    }
}

/// Standard error without what is said of a run that another test has killed: whichever program starts next removes what it left.
fn of_this_test(stderr: &str) -> String {
    let is_of_another = |line: &&str| line.contains("removed what a run has left that was killed");
    stderr.split_inclusive('\n').filter(|line| !is_of_another(line)).collect()
}

/// How many processes wanted a processor of this machine in the last minute, for each that there is; 1 where all got one.
fn crowd() -> f64 {
    let load = fs::read_to_string("/proc/loadavg").unwrap();
    let load: f64 = load.split(' ').next().unwrap().parse().unwrap();
    (load / thread::available_parallelism().unwrap().get() as f64).max(1.0)
}
