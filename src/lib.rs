//! Measures inference servers, first of all Triton inside this process.
//!
//! The layers, each depending only on those below it (docs/architecture.md describes them in full):
//!
//! ```text
//! cli       flags, typed
//! app       runs a Plan: connect, measure, report
//! observe   consumers of finished requests: export, validation
//! measure   trials, stability, verdicts
//! gate      requirements, judged on a result
//! report    console, CSV, export
//! result    everything a run came to, as one value
//! tune      the search for a model's configuration
//! load      when the next request leaves
//! record    what is kept of a request: histograms, counters, raw records
//! backends  c_api, kserve_http, kserve_grpc, null ...: implement the seam
//! engine    the client of all network services: connections, deadlines, reconnecting
//! program   servers that we start as programs, and the processes below this one
//! plan      one validated Plan
//! wire      HTTP/1.1, HTTP/2, TLS as state machines over bytes
//! terms     what a run is asked for and told in: loads, rules, statistics
//! backend   the seam: traits and contract
//! data, model, shm, traces
//! ranks     the other processes of a run; mpi: how they are reached
//! machine   what the kernel reports about processors, processes and limits
//! diagnostics the program's own log
//! interrupt, signals, held, stats, chunks, inbox, clock, seconds, affinity, limits, socket, stdio, sync, exit, error: leaves
//! ```
#![deny(unsafe_code, clippy::print_stderr, clippy::print_stdout)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![warn(missing_docs)]

mod app;
mod observe;

// The crates below this one (docs/architecture.md), by the names that they have as modules.
pub use ::{backend, backends, cli, data, engine, load, model, plan, record, shm, terms, wire};
use ::{gate, measure, mpi, program, ranks, report, result, stats, traces, tune};
use ::base::{affinity, diagnostics, held, interrupt, limits, machine, signals, stdio};
pub use ::base::{clock, error, exit, inbox};
use ::program::processes;

/// For the fuzz targets under `fuzz/`.
#[cfg(fuzzing)]
pub use {measure::metrics, traces::fuzzing as trace_files};

use std::ffi::OsString;
use std::panic;
use std::process::ExitCode;

use backends::Connect;
use cli::Command;
use error::ErrorKind;

/// The main function of both programs: parses, runs, prints the error once and returns the exit code.
pub fn main(args: impl IntoIterator<Item = OsString>, codes: exit::Codes) -> ExitCode {
    main_with(args, codes, backends::connect)
}

/// Like [`main`], for a service that is not built in: the server is reached through `connect`.
pub fn main_with(args: impl IntoIterator<Item = OsString>, codes: exit::Codes, connect: Connect) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    if let Err(error) = program::launch::become_program(&args) {
        stdio::say(format_args!("error: {error}\n"));
        return ExitCode::from(exit::FAILED);
    }
    // After a panic, which has been reported, destructors of a server that is still running must not run.
    let outcome = panic::catch_unwind(|| run(args, codes, connect)).unwrap_or(Ok(exit::PANICKED));
    let code = outcome.unwrap_or_else(|error| {
        stdio::say(format_args!("error: {error}\n"));
        exit::FAILED
    });
    app::end(codes.spoken(code))
}

fn run(args: Vec<OsString>, codes: exit::Codes, connect: Connect) -> error::Result<u8> {
    diagnostics::start()?;
    let command = cli::parse(args, codes)?;
    let measures = matches!(command, Command::Run(_) | Command::Runs(_) | Command::Tune(_));
    let done = execute(command, codes, connect);
    // In `triton-bench help | head -1`, the closed pipe is no failure.
    done.or_else(|error| if !measures && error.kind() == ErrorKind::Closed { Ok(exit::OK) } else { Err(error) })
}

fn execute(command: Command, codes: exit::Codes, connect: Connect) -> error::Result<u8> {
    match command {
        Command::Run(plan) => app::run(*plan, codes, connect),
        Command::TraceSummary(wanted) => app::summarise_traces(&wanted),
        Command::Doctor(_) if codes == exit::Codes::PerfAnalyzers => Err(unknown_command("doctor")),
        Command::Compare(_) if codes == exit::Codes::PerfAnalyzers => Err(unknown_command("compare")),
        Command::Tune(_) if codes == exit::Codes::PerfAnalyzers => Err(unknown_command("tune")),
        Command::Tune(plan) => app::tune(*plan, connect),
        Command::Compare(wanted) => app::compare(&wanted),
        Command::Report(_) if codes == exit::Codes::PerfAnalyzers => Err(unknown_command("report")),
        Command::Report(wanted) => app::report(&wanted),
        Command::Models(_) if codes == exit::Codes::PerfAnalyzers => Err(unknown_command("models")),
        Command::Models(wanted) => app::list_models(&wanted),
        Command::Doctor(wanted) => app::examine(&wanted),
        Command::Init(_) if codes == exit::Codes::PerfAnalyzers => Err(unknown_command("init")),
        Command::Init(wanted) => app::init(&wanted),
        Command::Runs(runs) => app::run_all(&runs),
        Command::Config(text) => stdio::print(&text).map(|()| exit::OK),
        Command::Help(text) => stdio::print_styled(&text).map(|()| exit::OK),
        Command::Version(callers) => say_version(&cli::version(callers, env!("TRITON_BENCH_COMMIT")), codes),
    }
}

fn say_version(line: &str, codes: exit::Codes) -> error::Result<u8> {
    match codes {
        exit::Codes::Own => stdio::print(&format!("{line}\n")).map(|()| exit::OK),
        // perf_analyzer prints it on standard error.
        exit::Codes::PerfAnalyzers => {
            stdio::say(format_args!("{line}\n"));
            Ok(exit::OK)
        }
    }
}

/// perf_analyzer treats such a word as one that belongs to no flag.
fn unknown_command(name: &str) -> error::Error {
    error::Error::usage(format!("perf_analyzer has no command '{name}'; it is triton-bench's: triton-bench {name}"))
}
