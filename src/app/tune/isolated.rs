//! Candidates in their own processes (`--isolate`), so that a crash ends only one candidate.

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ChildStdout, ExitStatus, Stdio};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use rustix::fs::{MemfdFlags, OFlags, fcntl_getfl, fcntl_setfl, memfd_create};
use rustix::process::{Pid, Signal, getpid, kill_process, set_child_subreaper};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::app::context::RunContext;
use crate::app::screen::Screen;
use crate::app::tune::assignment::Assignment;
use crate::app::tune::subject::Subject;
use crate::backends::Connect;
use crate::clock::Stamp;
use crate::error::{Error, Result};
use crate::exit::{self, Codes};
use crate::machine::processes::find;
use crate::model::ModelId;
use crate::plan::TunePlan;
use crate::processes;
use crate::program::launch;
use crate::report::Interrupts;
use crate::result::TrialFigures;
use crate::stdio;
use crate::tune::{Place, Trial};

/// Time that a process may take beside the measurement.
const LIMIT: Duration = Duration::from_secs(120);
/// Time that it may take beyond what the search has left.
const GRACE: Duration = Duration::from_secs(5);
/// Time to clean up if it is to end at once.
const CLEAN_UP_LIMIT: Duration = Duration::from_secs(2);
/// Pause between two checks whether it has ended.
const POLL: Duration = Duration::from_millis(2);

/// The configurations as they were found, that of the model first.
type Bases = Vec<(ModelId, Value)>;

/// The task of such a process.
#[derive(Debug, Serialize, Deserialize)]
enum Task {
    /// Read the configurations of the model and of the models that it calls.
    Read,
    /// Measure a candidate.
    Measure(Order),
}

/// A candidate to measure.
#[derive(Debug, Serialize, Deserialize)]
pub struct Order {
    /// Its point; `None` for the present configuration.
    pub place: Option<Place>,
    /// How.
    pub trial: Trial,
    /// The expected request rate, from earlier measurements.
    pub expected_rate: f64,
    /// The number of requests outstanding to begin with, if it is known.
    pub load: Option<u32>,
    /// The configurations that it changes: by now the server may hold another candidate's.
    pub bases: Vec<(ModelId, Value)>,
}

/// Executes each task in its own process.
pub struct Isolated {
    arguments: Vec<OsString>,
    interrupts: Interrupts,
}

impl Isolated {
    /// Processes with the command line of this search.
    pub fn new(plan: &TunePlan, interrupts: Interrupts) -> Self {
        // We must clean up after a process that dies.
        let _ = set_child_subreaper(Some(getpid()));
        Self { arguments: plan.command_line.clone(), interrupts }
    }

    /// Reads the configurations of the model and of those that it calls, as they are.
    ///
    /// # Errors
    /// Why they cannot be read; where the process died, of what.
    pub fn read(&self) -> Result<Bases> {
        let read = self.answer_to(&Task::Read, LIMIT).and_then(|read| read.ok_or_else(|| late(LIMIT)));
        read.map_err(|error| error.context("--isolate: the configuration in force cannot be read"))
    }

    /// Measures a candidate within the time `left`; `None` if that was not enough.
    ///
    /// # Errors
    /// Why it could not be measured; if its process died, of what.
    pub fn run_trial(&self, order: Order, left: Duration) -> Result<Option<TrialFigures>> {
        let unit = Duration::from_secs_f64(order.trial.unit_s);
        self.answer_to(&Task::Measure(order), unit + LIMIT.min(left + GRACE))
    }

    /// The answer of a process, if it comes within the limit.
    fn answer_to<T: DeserializeOwned>(&self, task: &Task, limit: Duration) -> Result<Option<T>> {
        let task = serde_json::to_string(task).map_err(|error| Error::machine(error.to_string()))?;
        let failed = |error: io::Error| Error::machine(format!("--isolate: a process cannot be started: {error}"));
        let mut command = launch::bound(Path::new("/proc/self/exe"));
        command.arg("tune").args(&self.arguments).arg("--trial");
        // An interrupt at the terminal is for this process only.
        command.process_group(0).stdin(input(&task).map_err(failed)?).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(failed)?;
        let pipe = child.stdout.take();
        let mut output = ChildOutput { pipe, bytes: Vec::new() };
        output.make_nonblocking().map_err(failed)?;
        let ended = wait(&mut child, &mut output, limit, self.interrupts);
        // Models that run in their own processes outlive a server that dies.
        processes::end_all();
        let status = ended?;
        let output = String::from_utf8_lossy(&output.bytes);
        let answer = output.lines().rev().find_map(|line| serde_json::from_str::<Result<T, String>>(line).ok());
        match (answer, status) {
            (Some(answer), _) => answer.map(Some).map_err(Error::server),
            (None, Some(status)) => Err(Error::server(death(status))),
            (None, None) => Ok(None),
        }
    }
}

/// A standard input that holds `text`: configurations do not fit an argument, and a pipe would wait for its reader.
fn input(text: &str) -> io::Result<Stdio> {
    let mut file = File::from(memfd_create("task", MemfdFlags::CLOEXEC)?);
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file.into())
}

/// The output of a process so far: others may hold the other end of the pipe longer than it lives.
struct ChildOutput {
    pipe: Option<ChildStdout>,
    bytes: Vec<u8>,
}

impl ChildOutput {
    fn make_nonblocking(&self) -> io::Result<()> {
        self.pipe.iter().try_for_each(|pipe| Ok(fcntl_setfl(pipe, fcntl_getfl(pipe)? | OFlags::NONBLOCK)?))
    }

    fn read(&mut self) {
        let Some(pipe) = &mut self.pipe else { return };
        // Ends with what has arrived by now.
        let _ = pipe.read_to_end(&mut self.bytes);
    }
}

/// Waits for a process, which ends by the limit or an interrupt at the latest; `None` if the limit ended it.
fn wait(
    child: &mut Child,
    output: &mut ChildOutput,
    limit: Duration,
    interrupts: Interrupts,
) -> Result<Option<ExitStatus>> {
    let end = Stamp::now().plus_duration(limit);
    loop {
        let failed = |error| Error::machine(format!("--isolate: a process cannot be waited for: {error}"));
        let ended = child.try_wait().map_err(failed)?;
        output.read();
        if let Some(status) = ended {
            return Ok(Some(status));
        }
        let interrupted = interrupts.load(Ordering::Relaxed) > 0;
        if interrupted || Stamp::now() >= end {
            leave(Pid::from_child(child));
            let _ = child.wait();
            return if interrupted { Err(Error::server("interrupted")) } else { Ok(None) };
        }
        thread::sleep(POLL);
    }
}

/// Ends a process with everything below it. It gets the time to clean up what would stay behind: shared memory, and
/// what it has registered with a server.
fn leave(process: Pid) {
    // Two interrupts let it leave at once. SIGQUIT would, too, but may dump the memory of a whole server into a file.
    for interrupt in [Signal::INT, Signal::TERM] {
        // It may have ended by itself.
        let _ = kill_process(process, interrupt);
    }
    let end = Stamp::now().plus_duration(CLEAN_UP_LIMIT);
    while find(process).is_some() && Stamp::now() < end {
        thread::sleep(POLL);
    }
    processes::end_tree(process);
}

/// What is said of a process that did not end within the limit.
pub fn late(limit: Duration) -> Error {
    Error::server(format!("its process did not end within {:.0} s", limit.as_secs_f64()))
}

/// How a process ended that gave no answer.
fn death(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("its process crashed (signal {signal})"),
        (None, Some(code)) => format!("its process ended with {code} and no answer"),
        (None, None) => "its process gave no answer".to_owned(),
    }
}

/// The main function of such a process: executes the task on its standard input and prints the result.
///
/// # Errors
/// If there is no task, or standard output is closed.
pub fn answer(plan: &TunePlan, connect: Connect, interrupts: Interrupts) -> Result<u8> {
    let refused = |error: &dyn fmt::Display| Error::usage(format!("--trial: there is no task to do: {error}"));
    let task = io::read_to_string(io::stdin()).map_err(|error| refused(&error))?;
    let task: Task = serde_json::from_str(&task).map_err(|error| refused(&error))?;
    let screen = Screen::new();
    let context = RunContext { screen: &screen, interrupts, codes: Codes::Own, connect, ranks: None };
    // The answer is printed before the server ends: one that could not load a model may crash then.
    match task {
        Task::Read => {
            let subject = Subject::open(plan, context);
            respond(subject.as_ref().map(|subject| subject.bases().to_vec()))?;
        }
        Task::Measure(order) => {
            let mut subject = Subject::with(plan, context, order.bases.clone());
            respond(measure(plan, order, &mut subject).as_ref())?;
        }
    }
    Ok(exit::OK)
}

fn respond<T: Serialize>(answer: std::result::Result<T, &Error>) -> Result<()> {
    let answer = answer.map_err(ToString::to_string);
    let text = serde_json::to_string(&answer).map_err(|error| Error::machine(error.to_string()))?;
    stdio::print(&format!("{text}\n"))
}

fn measure(plan: &TunePlan, order: Order, subject: &mut Subject) -> Result<TrialFigures> {
    subject.expect(order.trial.candidate, order.expected_rate, order.load);
    let search = super::settings(plan, subject)?;
    let assignment = order.place.map_or_else(Assignment::default, |indexes| Assignment::new(&search, &indexes));
    // Whoever waits for this process ends it when the time is over.
    subject.run_trial(&assignment, &order.trial, plan.budget)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::interrupt;

    fn ended(script: &str) -> (Result<Option<ExitStatus>>, String) {
        ended_within(script, Duration::from_secs(20))
    }

    fn ended_within(script: &str, limit: Duration) -> (Result<Option<ExitStatus>>, String) {
        let mut command = Command::new("sh");
        let mut child = command.args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = ChildOutput { pipe: child.stdout.take(), bytes: Vec::new() };
        output.make_nonblocking().unwrap();
        let status = wait(&mut child, &mut output, limit, interrupt::counter());
        output.read();
        (status, String::from_utf8(output.bytes).unwrap())
    }

    #[test]
    fn a_process_cleans_up_before_it_is_ended() {
        let limit = Duration::from_secs(2);
        let (status, output) =
            ended_within("trap '' INT; trap 'echo clean; exit' TERM; while :; do sleep 0.01; done", limit);
        assert!(status.unwrap().is_none(), "the limit ended it");
        assert_eq!(output, "clean\n");
        let started = Stamp::now();
        let (status, _) = ended_within("trap '' INT TERM; sleep 60", limit);
        assert!(status.unwrap().is_none(), "who does not end is ended");
        assert!(Stamp::now() < started.plus_duration(Duration::from_secs(15)));
    }

    #[test]
    fn a_task_may_be_longer_than_any_argument() {
        let base = serde_json::json!({"parameters": {"text": {"string_value": "x".repeat(300_000)}}});
        let order = Order {
            place: Some(vec![1, 2]),
            trial: Trial {
                candidate: 1,
                phase: crate::tune::Phase::Race,
                round: 0,
                unit_s: 0.25,
                seed: 7,
                again: false,
            },
            expected_rate: 10.0,
            load: None,
            bases: vec![(ModelId::latest("m"), base.clone())],
        };
        let text = serde_json::to_string(&Task::Measure(order)).unwrap();
        let output = Command::new("cat").stdin(input(&text).unwrap()).output().unwrap();
        let Task::Measure(read) = serde_json::from_slice(&output.stdout).unwrap() else { panic!("another task") };
        assert_eq!((read.place, &read.bases[0].1), (Some(vec![1, 2]), &base));
    }

    #[test]
    fn a_process_has_ended_whoever_holds_its_pipe() {
        let started = Stamp::now();
        let (status, output) = ended("sleep 30 & echo $!; kill -9 $$");
        assert_eq!(death(status.unwrap().unwrap()), "its process crashed (signal 9)");
        assert!(Stamp::now() < started.plus_duration(Duration::from_secs(15)));
        processes::end_tree(Pid::from_raw(output.trim().parse().unwrap()).unwrap());
        let (status, output) = ended("head -c 200000 /dev/zero | tr '\\0' x; exit 3");
        assert_eq!(
            (death(status.unwrap().unwrap()), output.len()),
            ("its process ended with 3 and no answer".to_owned(), 200_000)
        );
    }
}
