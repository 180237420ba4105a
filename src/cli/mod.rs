//! The command line: typed flags, one struct for each section of the help, and their conversion to a plan.

#![deny(unsafe_code, clippy::print_stderr, clippy::print_stdout)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![warn(missing_docs)]

mod agents;
mod commands;
mod compare;
mod config;
mod data;
mod doctor;
mod dynamic_grpc;
mod embedded;
mod folder;
mod getopt;
mod goodput;
mod habits;
mod help;
mod init;
mod invocation;
mod lengths;
mod load;
mod measurement;
mod media;
mod model;
mod models;
mod notes;
mod openai;
mod output;
mod pages;
mod parsers;
mod range;
mod ranks;
mod requirement;
mod rounds;
mod secrets;
mod sequences;
mod server;
mod shell;
mod stop_rule;
mod subcommand;
mod tfserving;
mod tls;
mod torchserve;
mod trace_summary;
mod tracing;
mod tune;
mod values;
mod variants;

use ::{backend, mpi, plan, result, shm, terms};
#[cfg(test)]
use ::stats::seed;
use base::{error, exit, stdio};

use std::ffi::OsString;
use std::time::Duration;

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser};

use crate::error::{Error, ErrorKind, Result};
use crate::exit::Codes;
use crate::getopt::{CommandLine, HelpForm};
use crate::invocation::{given, invocation_of};
use crate::notes::{notes, too_few_windows};
use crate::plan::{
    API_MAJOR, Checkup, Comparison, DataPlan, DataSource, Draft, Given, Invocation, Matrix, Plan, ReportOf, ReportPlan,
    RunOfFile, ServiceKind, Starter, Survey, Target, TraceFiles, TunePlan,
};
use crate::rounds::{MatrixKind, until_decided};
use crate::subcommand::{Called, columns, help_of, refused};
use crate::terms::{MeasurementPlan, Rounds, UPSTREAM_VERSION};
use ::data::{OptionalInputs, is_lines};

/// What a command line asks for. Further commands (words in the place of the first flag) become further variants.
#[derive(Debug)]
pub enum Command {
    /// A measurement.
    Run(Box<Plan>),
    /// A summary of a server's traces.
    TraceSummary(TraceFiles),
    /// Two results compared.
    Compare(Comparison),
    /// The best configuration.
    Tune(Box<TunePlan>),
    /// Pages of results.
    Report(ReportOf),
    /// A list of models.
    Models(Box<Survey>),
    /// A look at the machine.
    Doctor(Checkup),
    /// A model repository from a model's file.
    Init(Starter),
    /// Several runs of a file, one after the other.
    Runs(Vec<RunOfFile>),
    /// These flags on standard output, as a file.
    Config(String),
    /// This text on standard output.
    Help(String),
    /// What the program is, as callers of those exit codes know it: [`version`].
    Version(Codes),
}

/// Width of the help text, unless the terminal is narrower.
const HELP_WIDTH: usize = 110;
/// Terminals are wider than this; with fewer columns the text would not be readable.
const NARROWEST: usize = 40;

/// The end of the help.
const AFTER_HELP: &str = "Flags may be shortened as long as they stay unambiguous; if one is repeated, the last counts. \
    Exit codes: 0 measured, 2 unstable, 3 nothing succeeded or too many errors, 4 overloaded, not delivered or too \
    few requests, 5 the first level is above the latency threshold and no later one within it, 6 a requirement is not met, 7 one is undecided, 99 bad flags, bad \
    input or no server, 130 interrupted twice or before a figure.";

/// Every flag of a run.
#[derive(Parser, Debug)]
#[command(
    name = "triton-bench",
    about = "Measures Triton Inference Server from inside its own process, and over the network",
    override_usage = "triton-bench -m MODEL [FLAGS]",
    disable_help_flag = true,
    disable_version_flag = true,
    args_override_self = true,
    term_width = HELP_WIDTH,
    next_line_help = true,
)]
struct Flags {
    #[command(flatten)]
    model: model::ModelArgs,
    #[command(flatten)]
    load: load::LoadArgs,
    #[command(flatten)]
    sequences: sequences::SequenceArgs,
    #[command(flatten)]
    measurement: measurement::MeasurementArgs,
    #[command(flatten)]
    rounds: rounds::RoundsArgs,
    #[command(flatten)]
    data: data::DataArgs,
    #[command(flatten)]
    embedded: embedded::EmbeddedArgs,
    #[command(flatten)]
    server: server::ServerArgs,
    #[command(flatten)]
    tracing: tracing::TracingArgs,
    #[command(flatten)]
    dynamic_grpc: dynamic_grpc::DynamicGrpcArgs,
    #[command(flatten)]
    tfserving: tfserving::TfServingArgs,
    #[command(flatten)]
    torchserve: torchserve::TorchServeArgs,
    #[command(flatten)]
    openai: openai::OpenAiArgs,
    #[command(flatten)]
    output: output::OutputArgs,
    #[command(flatten)]
    pages: pages::PageArgs,
    #[command(flatten)]
    folder: folder::FolderArgs,
    #[command(flatten)]
    config: config::ConfigArgs,
}

/// Reads a command line, the program's name first.
///
/// # Errors
/// One line that names the flag, its value and the rule that it breaks.
pub fn parse(args: impl IntoIterator<Item = OsString>, codes: Codes) -> Result<Command> {
    let called = Called { run: command_of(codes), commands: commands::ALL };
    let arguments: Vec<OsString> = args.into_iter().skip(1).collect();
    let mut remaining = arguments.iter().cloned().peekable();
    for subcommand in called.commands {
        if remaining.next_if(|first| first == subcommand.name).is_some() {
            return (subcommand.read)(&called, &mut remaining);
        }
    }
    flags_of_a_run(&called, remaining, codes).map_err(|error| match error.kind() {
        ErrorKind::Usage => help::with_hyphens(&called, error, &arguments),
        _ => error,
    })
}

fn flags_of_a_run(called: &Called, arguments: impl IntoIterator<Item = OsString>, codes: Codes) -> Result<Command> {
    match getopt::read(&called.run, arguments)? {
        CommandLine::Help(HelpForm::Short) if codes == Codes::Own => Ok(Command::Help(help::short(called))),
        CommandLine::Help(HelpForm::Section(name)) => help::about(called, &name),
        CommandLine::Help(_) => Ok(Command::Help(help_of(called.run.clone()))),
        CommandLine::Version => Ok(Command::Version(codes)),
        CommandLine::Run(arguments, strays) if codes == Codes::Own && !strays.is_empty() => {
            Err(help::stray(called, &strays, secrets::may_hold_secret(&arguments)))
        }
        CommandLine::Run(arguments, strays) => {
            let arguments = habits::translated(arguments, codes);
            config::command(&called.run, arguments, &strays, codes)
        }
    }
}

/// The flags as clap knows them: for the help, the documentation and tests.
pub fn command() -> clap::Command {
    let commands = commands::ALL.iter().map(|subcommand| subcommand.name).collect::<Vec<_>>().join(", ");
    let rule =
        format!("Commands, each with --help, given as the first argument: {commands}. One section alone: --help load.");
    Flags::command().no_binary_name(true).after_help(format!("{AFTER_HELP}\n\n{rule}"))
}

/// The flags under the name that the program was called by.
fn command_of(codes: Codes) -> clap::Command {
    let command = command().term_width(columns());
    match codes {
        Codes::Own => command,
        // Its callers have no commands.
        Codes::PerfAnalyzers => {
            let command = command.name("perf_analyzer").override_usage("perf_analyzer -m MODEL [FLAGS]");
            command.after_help(AFTER_HELP)
        }
    }
}

/// What the program is, in one line; `commit` is the one that it was built from, empty if it is not known.
pub fn version(codes: Codes, commit: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let commit = match commit {
        "" => String::new(),
        commit => format!("commit {commit}, "),
    };
    match codes {
        Codes::Own => {
            format!(
                "triton-bench {version} ({commit}Triton C API {API_MAJOR}, flags and reports of Perf Analyzer {UPSTREAM_VERSION})"
            )
        }
        Codes::PerfAnalyzers => format!("Perf Analyzer Version {UPSTREAM_VERSION} ({commit}triton-bench {version})"),
    }
}

fn run(command: &clap::Command, arguments: Vec<OsString>, codes: Codes) -> Result<Plan> {
    let (matches, flags) = matched(command, arguments.clone())?;
    let variants = flags.rounds.variants()?;
    if variants.is_empty() {
        return one(command, &matches, &flags, codes, false);
    }
    if flags.rounds.matrix().is_some() {
        return Err(Error::usage("--matrix brings its own variants: leave out --variant or --matrix"));
    }
    let variants = variants::plans(command, &arguments, variants, codes, |arguments| {
        let (matches, flags) = matched(command, arguments)?;
        one(command, &matches, &flags, codes, true)
    })?;
    let notes = variants::notes(&variants);
    Ok(Plan {
        invocation: invocation_of(command, &matches),
        notes,
        variants: variants.clone(),
        ..variants[0].plan.clone()
    })
}

fn matched(command: &clap::Command, arguments: Vec<OsString>) -> Result<(ArgMatches, Flags)> {
    let matches = command
        .clone()
        .try_get_matches_from(arguments)
        .map_err(|error| refused(command, &error, "triton-bench", "see --help"))?;
    let flags =
        Flags::from_arg_matches(&matches).map_err(|error| refused(command, &error, "triton-bench", "see --help"))?;
    flags.data.hide_secrets();
    Ok((matches, flags))
}

/// The plan of a run, or of one of its variants.
fn one(command: &clap::Command, matches: &ArgMatches, flags: &Flags, codes: Codes, is_variant: bool) -> Result<Plan> {
    let given = given(command, matches);
    let mut plan = Plan { invocation: invocation_of(command, matches), ..flags.plan(&given, codes)? };
    if is_variant {
        plan.rounds = Some(flags.rounds.plan());
    }
    until_decided(&mut plan, &given);
    // A round has one window.
    let few = if plan.rounds.is_none() { too_few_windows(&plan.measurement, &plan.load.mode) } else { None };
    plan.notes.extend(few);
    Draft { plan, given, codes }.validate()
}

impl Flags {
    fn plan(&self, given: &Given, codes: Codes) -> Result<Plan> {
        let matrix = self.rounds.matrix().map(|kind| match kind {
            MatrixKind::Memory => Matrix::Memory,
            MatrixKind::Transports => Matrix::Transports { running: self.server.url() },
        });
        let mut notes = notes(given);
        let gate = self.output.gate();
        let further_percentiles = gate.percentiles();
        // A repository is accessible to this process; perf_analyzer uses another flag for that.
        let repository = codes == Codes::Own && given.has("--model-repository");
        // A matrix of a server that runs has no rows in process, unless the model is there, too.
        let there = matrix.is_some() && given.has("-u") && !given.has("--model-repository");
        let in_process = (matrix.is_some() || repository) && !there && !given.has("--service-kind");
        if in_process && matrix.is_none() {
            notes.push("--model-repository: measures in this process (--service-kind triton_c_api)".to_owned());
        }
        let measurement = MeasurementPlan {
            further_percentiles,
            give_up_after: given.has("--max-trials").then_some(Duration::ZERO),
            max_errors: self.measurement.max_errors(gate.most_errors(), given),
            ..self.measurement.plan()
        };
        // Over gRPC streams are asynchronous; other services read an answer in pieces either way.
        let streams = self.server.streaming() && self.model.service() != ServiceKind::OpenAi;
        let is_asynchronous = streams || self.openai.plays_turns();
        let load = self.load.plan(self.sequences.plan(), self.openai.sessions(), is_asynchronous, given);
        notes.extend(self.load.notes(given));
        notes.extend(self.openai.note());
        notes.extend(self.data.note());
        let target = self.target(in_process, given, codes)?;
        if target.service == ServiceKind::OpenAi {
            let mut servers = std::iter::once(&target.connection).chain(&target.replicas);
            notes.extend(servers.find_map(|server| self.openai.doubled(&server.url)));
        }
        Ok(Plan {
            load,
            data: self.data(given, codes)?,
            measurement,
            output: self.folder.add_to(ReportPlan { pages: self.pages.plan(), ..self.output.plan() }),
            tracing: self.tracing.plan(self.server.trace().as_ref(), target.service.is_embedded()),
            target,
            gate,
            seed: self.load.seed(),
            invocation: Invocation::default(),
            rounds: matrix.as_ref().map(|_| self.matrix_rounds(given)),
            matrix,
            matrix_sizes: self.rounds.sizes(),
            variants: Vec::new(),
            notes,
            model_notes: Vec::new(),
        })
    }

    /// The rounds of a matrix used to be set by --max-trials.
    fn matrix_rounds(&self, given: &Given) -> Rounds {
        let rounds = self.rounds.plan();
        let old = given.has("--max-trials") && !given.has("--rounds");
        if old { Rounds { count: self.measurement.plan().max_trials, ..rounds } } else { rounds }
    }

    /// The inputs of requests. Payloads are generated unless something else is asked for.
    fn data(&self, given: &Given, codes: Codes) -> Result<DataPlan> {
        let mut data = self.data.plan(given)?;
        if codes == Codes::PerfAnalyzers && !given.has("--optional-inputs") {
            // It generates all inputs.
            data.optional_inputs = OptionalInputs::All;
        }
        if let (Some(prompts), DataSource::Random) = (self.openai.prompts(), &data.source) {
            data.source = DataSource::Prompts(prompts);
        }
        if let (Some(trace), DataSource::Random) = (self.openai.session_trace(), &data.source) {
            data.source = DataSource::SessionTrace(trace);
        }
        if let DataSource::Files(files) = &data.source
            && self.model.service() == ServiceKind::OpenAi
            && files.iter().all(|path| is_lines(path) || data::holds_lines(path))
        {
            data.source = DataSource::Lines(files.clone(), self.openai.form());
        }
        Ok(data)
    }

    /// A matrix or a repository implies Triton in this process.
    fn target(&self, in_process: bool, given: &Given, codes: Codes) -> Result<Target> {
        let metrics = self.server.metrics();
        let service = if in_process { ServiceKind::TritonCApi } else { self.model.service() };
        let dynamic_grpc = self.dynamic_grpc.plan();
        let mut connections = self.server.connections(service, codes)?;
        if self.rounds.matrix().is_some() {
            // Those of one server, for its two protocols.
            connections.truncate(1);
        }
        Ok(Target {
            service,
            version_label: self.model.version_label(),
            model: self.model.model(service, dynamic_grpc.method.as_ref())?,
            mix: self.model.mix(),
            bls_composing: self.model.bls_composing(),
            connection: connections.remove(0),
            replicas: connections,
            spread: self.server.spread(),
            server: self.embedded.plan(metrics.as_ref().map(|metrics| metrics.interval)),
            openai: self.openai.plan(self.server.streaming()),
            tokens_from: self.model.tokens_from(),
            max_reply_bytes: self.server.max_reply_bytes(),
            max_reply_memory: self.server.max_reply_memory(),
            trace: self.server.trace(),
            metrics,
            dynamic_grpc,
            tfserving: self.tfserving.plan(given),
            torchserve: self.torchserve.plan(),
        })
    }
}
