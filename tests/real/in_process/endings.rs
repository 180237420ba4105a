//! How runs end: nothing keeps running or is left behind, nothing takes longer than promised, and no result is lost.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{Finished, Model, Program, Repository, Running};

const SIGHUP: i32 = 1;
const SIGINT: i32 = 2;
const SIGQUIT: i32 = 3;
const SIGUSR1: i32 = 10;
const SIGSEGV: i32 = 11;
const SIGUSR2: i32 = 12;
const SIGALRM: i32 = 14;
const SIGTERM: i32 = 15;
const SIGXCPU: i32 = 24;
const SIGIO: i32 = 29;

/// What the program promises for its end once everything is written, and what a busy machine adds.
const END: Duration = Duration::from_secs(5 + 3);
const AT_ONCE: Duration = Duration::from_secs(3);
/// Two signals of a kind that follow each other sooner are taken for one.
const APART: Duration = Duration::from_millis(250);

/// A python model; `load`, `execute` and `end` are lines of its methods.
fn python(load: &str, execute: &str, end: &str) -> Model {
    let script = format!(
        r#"
import time
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        {load}

    def execute(self, requests):
        {execute}
        inputs = [pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy() for request in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", values)]) for values in inputs]

    def finalize(self):
        {end}
"#
    );
    Model::python("m", &script)
}

/// A run of a repository whose python models' regions can be told from those of other tests.
pub(super) struct Watched {
    repository: Repository,
    regions: String,
}

impl Watched {
    fn of(model: &Model) -> Self {
        let repository = Repository::of(std::slice::from_ref(model));
        let regions = format!("endings-{}-", repository.path().parent().unwrap().file_name().unwrap().display());
        Self { repository, regions }
    }

    pub(super) fn program(&self) -> Program {
        let setting = format!("python,shm-region-prefix-name={}", self.regions);
        Program::on(&self.repository, "m").args("--backend-config").arg(setting)
    }

    /// Processes that run a model of this repository.
    fn stubs(&self) -> Vec<String> {
        self.running().into_iter().map(|(_, command)| command).collect()
    }

    /// Their numbers.
    fn processes(&self) -> Vec<u32> {
        self.running().into_iter().map(|(pid, _)| pid).collect()
    }

    fn running(&self) -> Vec<(u32, String)> {
        let path = self.repository.path().display().to_string();
        let commands = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
            let command = fs::read(entry.path().join("cmdline")).ok()?;
            let pid = entry.file_name().to_str()?.parse().ok()?;
            Some((pid, String::from_utf8_lossy(&command).replace('\0', " ")))
        });
        commands.filter(|(_, command)| command.contains(&path) && command.contains("stub")).collect()
    }

    fn regions(&self) -> Vec<PathBuf> {
        let files = fs::read_dir("/dev/shm").unwrap().flatten().map(|entry| entry.path());
        files.filter(|path| path.display().to_string().contains(&self.regions)).collect()
    }

    /// Waits until a model has made the file that [`Watched::marking`] names.
    pub(super) fn wait_for_mark(&self) {
        let started = Instant::now();
        while !self.repository.file("mark").exists() {
            assert!(started.elapsed() < Duration::from_secs(40), "the model has never come that far");
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits for the end of a run, which must leave no process, no shared memory and no unfinished file.
    fn finish(&self, running: Running) -> Finished {
        let finished = running.finish();
        assert_eq!(self.stubs(), Vec::<String>::new(), "{finished:?}");
        assert_eq!(self.regions(), Vec::<PathBuf>::new(), "{finished:?}");
        let partial: Vec<String> =
            self.repository.files().into_iter().filter(|name| name.contains(".partial")).collect();
        assert_eq!(partial, Vec::<String>::new(), "{finished:?}");
        finished
    }
}

/// A model that makes a file when it comes to `method`, and then goes on with `then`.
pub(super) fn marking(method: &str, then: &str) -> impl Fn(&Repository) -> Model {
    let (method, then) = (method.to_owned(), then.to_owned());
    move |repository| {
        let mark = repository.file("mark");
        let line =
            |here: &str| if here == method { format!("open({mark:?}, 'w').close(); {then}") } else { "pass".into() };
        python(&line("load"), &line("execute"), &line("end"))
    }
}

/// How often the server logged a line, folded or not.
fn logged(stderr: &str, words: &str) -> u64 {
    let times = |line: &str| match line.split_once("triton-bench: the server logged ") {
        None => 1,
        Some((_, tail)) if tail.starts_with("once more: ") => 1,
        Some((_, tail)) => tail.split_once(" more times: ").expect("it says how often").0.parse().unwrap(),
    };
    stderr.lines().filter(|line| line.contains(words)).map(times).sum()
}

pub(super) fn watched(model: impl Fn(&Repository) -> Model) -> Watched {
    let empty = Watched::of(&Model::identity("other"));
    empty.repository.add(&model(&empty.repository));
    empty
}

#[test]
fn an_interrupt_while_a_model_loads_waits_for_it_and_leaves_nothing() {
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let watched = watched(marking("load", "time.sleep(3)"));
        let running = watched.program().start();
        watched.wait_for_mark();
        assert_eq!(watched.stubs().len(), 1, "the test sees what it looks for");
        assert!(!watched.regions().is_empty(), "the test sees what it looks for");
        running.signal(signal);
        let finished = watched.finish(running);
        assert_eq!(finished.code(), 130, "{finished:#?}");
        assert!(finished.stderr.contains("waiting for the server to load its models"), "{finished:#?}");
        assert_eq!(finished.stdout, "");
    }
}

#[test]
fn timed_a_second_interrupt_while_a_model_loads_takes_everything_with_it() {
    for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] {
        let watched = watched(marking("load", "time.sleep(50)"));
        let running = watched.program().start();
        watched.wait_for_mark();
        running.signal(SIGINT);
        running.wait_for("waiting for the server to load its models");
        thread::sleep(APART);
        let second = Instant::now();
        running.signal(signal);
        let finished = watched.finish(running);
        assert!(second.elapsed() < AT_ONCE, "took {:?}", second.elapsed());
        match signal {
            SIGQUIT => assert_eq!(finished.signal(), Some(SIGQUIT), "{finished:#?}"),
            _ => assert_eq!(finished.code(), 130, "{finished:#?}"),
        }
    }
}

#[test]
fn timed_a_model_that_does_not_load_holds_an_interrupt_up_for_a_while_only() {
    let watched = watched(marking("load", "time.sleep(50)"));
    let running = watched.program().start();
    watched.wait_for_mark();
    running.signal(SIGTERM);
    let signalled = Instant::now();
    let finished = watched.finish(running);
    let took = signalled.elapsed();
    assert!(took > Duration::from_secs(9) && took < Duration::from_secs(10) + END, "took {took:?}");
    assert_eq!(finished.code(), 130, "{finished:#?}");
    assert!(finished.stderr.contains("its models were still being loaded"), "{finished:#?}");
}

#[test]
fn timed_leaving_at_once_leaves_nothing_behind() {
    for signals in [&[SIGQUIT][..], &[SIGINT, SIGINT], &[SIGTERM, SIGHUP], &[SIGTERM, SIGQUIT]] {
        let watched = watched(marking("execute", "time.sleep(0.2)"));
        let export = watched.repository.file("e.json");
        let running = watched.program().args("-p 60000 --async --profile-export-file").arg(&export).start();
        watched.wait_for_mark();
        running.signal(signals[0]);
        if let [_, second] = signals {
            running.wait_for("interrupted; reporting the results so far");
            thread::sleep(APART);
            running.signal(*second);
        }
        let signalled = Instant::now();
        let finished = watched.finish(running);
        assert!(signalled.elapsed() < AT_ONCE, "{signals:?}: took {:?}", signalled.elapsed());
        assert!(!export.exists());
        match signals.last() {
            Some(&SIGQUIT) => assert_eq!(finished.signal(), Some(SIGQUIT), "{finished:#?}"),
            _ => assert_eq!(finished.code(), 130, "{finished:#?}"),
        }
    }
}

/// Triton mostly keeps a python model of which some dozens of requests have raised, as upstream's server shows, too.
#[test]
fn a_model_that_raises_ends_in_time_and_its_repeated_lines_are_counted() {
    let watched = Watched::of(&python("pass", "raise ValueError('no')", "pass"));
    let running = watched.program().args("-p 1000 -r 3").start();
    let finished = watched.finish(running);
    let report = finished.report_with(3);
    let failures = report.level().failures("no");
    assert!(failures > 100, "{}", report.text);
    assert!(finished.silent < END, "{:?}", finished.silent);
    let count = |words: &str| finished.stderr.lines().filter(|line| line.contains(words)).count();
    assert_eq!(count("ValueError: no") - count("the server logged "), 1, "{}", finished.stderr);
    assert!(logged(&finished.stderr, "ValueError: no") >= failures, "{}", finished.stderr);
    assert!(finished.stderr.lines().count() < 8, "{}", finished.stderr);
}

#[test]
fn verbose_messages_are_all_shown() {
    let repository = Repository::of(&[Model::identity("m")]);
    let finished = Program::on(&repository, "m").args("--request-count 50 --log-verbose 1").run();
    finished.report();
    assert!(!finished.stderr.contains("the server logged"), "{}", finished.stderr);
    assert!(finished.stderr.matches("prepared: ").count() >= 50, "{}", finished.stderr);
}

#[test]
fn a_crash_loses_none_of_the_servers_log_and_leaves_nothing() {
    let raising =
        "self.count = getattr(self, 'count', 0) + 1\n        if self.count <= 50: raise ValueError('no')\n        ";
    // What a model says comes to the server's log later than it is said, but in its order.
    let last = "pb_utils.Logger.log_error('the last one'); time.sleep(50)";
    let watched = watched(|_| python("pass", &format!("{raising}{last}"), "pass"));
    let running = watched.program().args("-p 60000").start();
    running.wait_for("the last one");
    running.signal(SIGSEGV);
    let finished = watched.finish(running);
    assert_eq!(finished.signal(), Some(SIGSEGV), "{finished:#?}");
    assert_eq!(logged(&finished.stderr, "ValueError: no"), 50, "{}", finished.stderr);
}

/// Levels of a run whose server ends the process in the second of three, by `mode`, when it fails a request.
fn ended_by(mode: &str) -> (Finished, serde_json::Value, String) {
    let model = Model::identity("m").parameter("delay_us", "2000").parameter("fail_every", "600");
    let watched = Watched::of(&model.parameter("fail_mode", mode));
    let [csv, summary, export] = ["r.csv", "s.json", "e.json"].map(|name| watched.repository.file(name));
    // Levels of so many requests, since windows that another process took from us would be measured again.
    let program = watched.program().args("--async --request-count 400 --concurrency-range 1:3 --require p99<1ns");
    let program = program.arg("-f").arg(&csv).arg("--summary-file").arg(&summary);
    let program = program.arg("--profile-export-file").arg(&export);
    let running = program.args("--shared-memory system").start();
    if ["crash", "overflow"].contains(&mode) {
        running.may_die_by(SIGSEGV);
    }
    let finished = watched.finish(running);
    let read = |path: &PathBuf| fs::read_to_string(path).unwrap_or_default();
    assert!(read(&export).contains("experiments"), "{finished:#?}");
    (finished, serde_json::from_str(&read(&summary)).unwrap(), read(&csv))
}

#[test]
fn a_server_that_ends_the_process_passes_no_requirement_and_loses_nothing() {
    for (mode, message) in
        [("exit", "called exit()"), ("_exit", "called _exit()"), ("quick_exit", "called quick_exit()")]
    {
        let (finished, result, csv) = ended_by(mode);
        assert_eq!(finished.code(), 3, "{finished:#?}");
        assert!(finished.stderr.contains(message) && finished.stderr.contains("'m'"), "{}", finished.stderr);
        assert_eq!((&result["server_gone"], &result["exit_code"]), (&true.into(), &3.into()));
        let levels = result["levels"].as_array().unwrap().len();
        assert!(levels > 1 && csv.lines().count() == levels + 1, "{levels} levels\n{csv}");
    }
}

#[test]
fn a_server_that_crashes_is_named_and_loses_nothing() {
    // A stack that has overflowed has no room for a handler: Triton's threads need another.
    for mode in ["crash", "overflow"] {
        let (finished, result, csv) = ended_by(mode);
        assert_eq!(finished.signal(), Some(SIGSEGV), "{finished:#?}");
        let message = "the process crashed (SIGSEGV), most likely in Triton or the backend of 'm'";
        assert!(finished.stderr.contains(message), "{}", finished.stderr);
        let levels = result["levels"].as_array().unwrap().len();
        assert!(levels > 1 && csv.lines().count() == levels + 1, "{mode}: {levels} levels\n{csv}");
    }
}

#[test]
fn a_server_that_ends_the_process_before_anything_is_measured_fails_it() {
    let model = Model::identity("m").parameter("fail_every", "1").parameter("fail_mode", "exit");
    let watched = Watched::of(&model);
    for load in ["--warmup-request-count 1 --request-count 5", "--async -p 30000", "--async --stage concurrency:4:30s"]
    {
        let finished = watched.finish(watched.program().args(load).start());
        // Nobody has interrupted it.
        assert!([3, 99].contains(&finished.code()), "{load}: {finished:#?}");
        assert!(finished.stderr.contains("called exit()"), "{load}: {finished:#?}");
    }
}

/// What a scheduler warns with, and other signals that end a program that does nothing about them.
#[test]
fn warnings_are_interrupts_and_repeated_ones_are_none() {
    for signal in [SIGUSR1, SIGUSR2, SIGALRM, SIGXCPU, SIGIO] {
        let watched = watched(marking("execute", "time.sleep(0.02)"));
        let csv = watched.repository.file("r.csv");
        let running = watched.program().args("-p 60000 --shared-memory system -f").arg(&csv).start();
        watched.wait_for_mark();
        for _ in 0..5 {
            running.signal(signal);
            thread::sleep(Duration::from_millis(5));
        }
        let finished = watched.finish(running);
        assert!(finished.stderr.contains(": taken as an interrupt"), "{finished:#?}");
        // It may come before the first answer.
        assert!([0, 130].contains(&finished.code()), "{finished:#?}");
        assert_eq!(csv.exists(), finished.code() == 0, "{finished:#?}");
    }
}

/// The python backend runs a shell while it loads a model, in whose time the C library has SIGINT ignored (system(3)); and in
/// its own processes nothing is blocked.
#[test]
fn no_interrupt_is_lost_while_a_library_ignores_it() {
    let watched = watched(marking("load", "time.sleep(1)"));
    let running = watched.program().args("-p 60000").start();
    let pid = running.id();
    let signals = |pid: u32, set: &str| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix(set)).map(str::to_owned);
        line.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0)
    };
    let bit = |signal: i32| 1 << (signal - 1);
    let started = Instant::now();
    while signals(pid, "SigIgn:") & bit(SIGINT) == 0 {
        assert!(started.elapsed() < Duration::from_secs(40), "it is never ignored");
        if watched.repository.file("mark").exists() {
            // The moment was missed, on a machine that is busy with others; then an interrupt comes a little later.
            break;
        }
    }
    running.signal(SIGINT);
    watched.wait_for_mark();
    for stub in watched.processes() {
        let blocked = signals(stub, "SigBlk:");
        assert_eq!(blocked & (bit(SIGINT) | bit(SIGTERM) | bit(SIGHUP)), 0, "process {stub} blocks {blocked:x}");
    }
    let finished = watched.finish(running);
    assert_eq!(finished.code(), 130, "{finished:#?}");
}

#[test]
fn timed_an_interrupt_of_the_end_changes_neither_the_code_nor_the_report() {
    for second in [SIGINT, SIGTERM, SIGHUP] {
        let watched = watched(marking("end", "time.sleep(50)"));
        let running = watched.program().args("--request-count 5").start();
        watched.wait_for_mark();
        running.signal(SIGTERM);
        running.wait_for("everything is written");
        thread::sleep(APART);
        let signalled = Instant::now();
        running.signal(second);
        let finished = watched.finish(running);
        assert!(signalled.elapsed() < AT_ONCE, "took {:?}", signalled.elapsed());
        assert!(!finished.stderr.contains("reporting the results so far"), "{}", finished.stderr);
        finished.report();
    }
}

#[test]
fn a_model_that_does_not_end_is_left_in_time() {
    let watched = watched(marking("end", "time.sleep(50)"));
    let finished = watched.finish(watched.program().args("--request-count 5").start());
    finished.report();
    assert!(finished.silent < END, "{:?}", finished.silent);
    assert!(finished.stderr.contains("it still held model 'm' (UNLOADING)"), "{}", finished.stderr);
}

#[test]
fn timed_an_error_is_said_before_the_server_is_stopped() {
    let watched = watched(marking("end", "time.sleep(2)"));
    let data = watched.repository.file("data.json");
    fs::write(&data, r#"{"data": [{"NO_SUCH": [1]}]}"#).unwrap();
    let finished = watched.finish(watched.program().args("--input-data").arg(&data).start());
    finished.failure(&["NO_SUCH"]);
    assert!(watched.repository.file("mark").exists(), "the model was unloaded");
    assert!(finished.silent > Duration::from_millis(1800), "{:?}", finished.silent);
}

/// An input file that is cut short ends the run from a signal handler, which cannot do this itself.
#[test]
fn nothing_is_left_where_an_input_file_is_cut_short() {
    let tensors = r#"
input [{ name: "INPUT0" data_type: TYPE_FP32 dims: [1048576] }]
output [{ name: "OUTPUT0" data_type: TYPE_FP32 dims: [1048576] }]"#;
    let watched = watched(|repository| marking("execute", "pass")(repository).tensors(tensors));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("INPUT0");
    fs::write(&file, vec![1; 4 << 20]).unwrap();
    let running = watched.program().args("-p 60000 --input-data").arg(folder.path()).start();
    watched.wait_for_mark();
    fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(0).unwrap();
    let finished = watched.finish(running);
    assert_eq!(finished.code(), 99, "{finished:#?}");
    assert!(finished.stderr.contains("input data file was cut short"), "{finished:#?}");
}
