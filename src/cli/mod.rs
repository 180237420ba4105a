//! The command line: typed flags, one struct for each section of the help, and how they become a plan.

mod data;
mod doctor;
mod embedded;
mod forms;
mod getopt;
mod goodput;
mod load;
mod measurement;
mod model;
mod openai;
mod output;
mod range;
mod sequences;
mod server;
mod tls;
mod trace_summary;
mod values;

use std::error::Error as _;
use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser};

use crate::cli::getopt::{Line, shown};
use crate::cli::measurement::MatrixKind;
use crate::error::{Error, Result};
use crate::plan::{
    Checkup, DataPlan, DataSource, Draft, Given, LoadMode, Matrix, MeasurementPlan, Plan, ServiceKind, Target,
    TraceFiles,
};

/// What a command line asks for. Further commands (words in the place of the first flag) become further variants.
#[derive(Debug)]
pub enum Command {
    /// A measurement.
    Run(Box<Plan>),
    /// A summary of a server's traces.
    TraceSummary(TraceFiles),
    /// A look at the machine.
    Doctor(Checkup),
    /// This text on standard output.
    Help(String),
    /// This line on standard error, where perf_analyzer has it.
    Version(String),
}

/// The version of perf_analyzer whose flags and outputs are ours.
const UPSTREAM_VERSION: &str = "2.51.0";

/// Columns of the help text.
const HELP_WIDTH: usize = 110;

/// What the help ends with.
const AFTER_HELP: &str = "Flags may be shortened as long as they stay unambiguous; the last of several counts. \
    Exit codes: 0 measured, 2 unstable or above the latency threshold, 3 nothing succeeded or too many errors, \
    4 another load than asked for, 99 bad flags, bad input or no server, 130 interrupted twice or before the load. \
    `triton-bench trace-summary FILE` summarises traces of a server, `triton-bench doctor` names what makes this machine \
    unfit for measuring.";

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
    after_help = AFTER_HELP
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
    data: data::DataArgs,
    #[command(flatten)]
    embedded: embedded::EmbeddedArgs,
    #[command(flatten)]
    server: server::ServerArgs,
    #[command(flatten)]
    openai: openai::OpenAiArgs,
    #[command(flatten)]
    output: output::OutputArgs,
}

/// Reads a command line, the program's name first.
///
/// # Errors
/// One line that names the flag, its value and the rule that it breaks.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Command> {
    let mut command = command();
    let mut words = args.into_iter().skip(1).peekable();
    if words.next_if(|word| word == trace_summary::WORD).is_some() {
        return trace_summary::read(words);
    }
    if words.next_if(|word| word == doctor::WORD).is_some() {
        return doctor::read(words);
    }
    match getopt::read(&command, words)? {
        Line::Help => Ok(Command::Help(command.render_help().to_string())),
        Line::Version => Ok(Command::Version(version())),
        Line::Run(words, strays) => {
            let mut plan = run(&command, words)?;
            let private = !plan.target.connection.headers.is_empty();
            plan.notes.extend(stray(&strays, private));
            Ok(Command::Run(Box::new(plan)))
        }
    }
}

/// The flags as clap knows them: for the help, the documentation and tests.
pub fn command() -> clap::Command {
    Flags::command().no_binary_name(true)
}

fn version() -> String {
    format!("Perf Analyzer Version {UPSTREAM_VERSION} (triton-bench {})", env!("CARGO_PKG_VERSION"))
}

fn run(command: &clap::Command, words: Vec<OsString>) -> Result<Plan> {
    let matches = command.clone().try_get_matches_from(words).map_err(|error| refused(command, &error))?;
    let flags = Flags::from_arg_matches(&matches).map_err(|error| refused(command, &error))?;
    let given = given(command, &matches);
    Draft { plan: flags.plan(&given)?, given }.validate()
}

/// Flags that stand on the command line, with their values.
fn given(command: &clap::Command, matches: &ArgMatches) -> Given {
    let mut given = Given::default();
    for arg in command.get_arguments() {
        let id = arg.get_id().as_str();
        if matches.value_source(id) == Some(ValueSource::CommandLine) {
            let raw = if arg.get_action().takes_values() { matches.get_raw(id) } else { None };
            let values = raw.into_iter().flatten().map(|value| value.to_string_lossy().into_owned());
            given.insert(shown(arg), values.collect());
        }
    }
    given
}

/// clap's refusal in one line: flag, value, rule, next step.
fn refused(command: &clap::Command, error: &clap::Error) -> Error {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    let flag = text(ContextKind::InvalidArg).unwrap_or_default();
    let long = flag.split([' ', '=', '[']).next().unwrap_or_default().trim_start_matches('-');
    let arg = command.get_arguments().find(|arg| arg.get_long() == Some(long));
    let flag = arg.map_or_else(|| format!("--{long}"), shown);
    let rule = match (error.source(), error.kind()) {
        (Some(rule), _) => rule.to_string(),
        (None, ErrorKind::InvalidUtf8) => return Error::usage("a value that must be text is not UTF-8; see --help"),
        (None, _) => "it must not be empty".to_owned(),
    };
    if flag == "-H" {
        return Error::usage(format!("{flag}: {rule}; see --help"));
    }
    let value = text(ContextKind::InvalidValue).unwrap_or_default();
    Error::usage(format!("{flag} '{value}': {rule}; see --help"))
}

impl Flags {
    fn plan(&self, given: &Given) -> Result<Plan> {
        let matrix = self.measurement.matrix().map(|kind| match kind {
            MatrixKind::Memory => Matrix::Memory,
            MatrixKind::Transports => Matrix::Transports { running: self.server.url() },
        });
        let measurement = self.measurement.plan();
        // Over gRPC streams are asynchronous; other services read an answer that comes in pieces either way.
        let streams = self.server.streaming() && self.model.service() != ServiceKind::OpenAi;
        let mut load = self.load.plan(self.sequences.plan(), streams, given);
        if let Some(sessions) = self.openai.sessions() {
            load.mode = LoadMode::Sessions(sessions);
            (load.synchronous, load.synchronous_by_default) = (false, false);
        }
        let mut notes = notes(given);
        // The trials of a matrix are its rounds.
        notes.extend(if matrix.is_none() { too_few_windows(&measurement, &load.mode) } else { None });
        notes.extend(self.load.note());
        notes.extend(self.openai.note());
        notes.extend(self.model.ignored());
        Ok(Plan {
            target: self.target(matrix.is_some() && !given.has("--service-kind"))?,
            load,
            data: self.data()?,
            measurement,
            output: self.output.plan(),
            seed: self.load.seed(),
            matrix,
            notes,
            model_notes: Vec::new(),
        })
    }

    /// What requests carry. Payloads are generated where nothing else is asked for.
    fn data(&self) -> Result<DataPlan> {
        let mut data = self.data.plan()?;
        if let (Some(prompts), DataSource::Random) = (self.openai.prompts(), &data.source) {
            data.source = DataSource::Prompts(prompts);
        }
        Ok(data)
    }

    /// A matrix starts from Triton in this process, without being told.
    fn target(&self, in_process: bool) -> Result<Target> {
        let metrics = self.server.metrics();
        Ok(Target {
            service: if in_process { ServiceKind::TritonCApi } else { self.model.service() },
            model: self.model.model()?,
            mix: self.model.mix(),
            bls_composing: self.model.bls_composing(),
            connection: self.server.connection(),
            server: self.embedded.plan(metrics.as_ref().map(|metrics| metrics.interval)),
            openai: self.openai.plan(self.server.streaming()),
            tokens_from: self.model.tokens_from(),
            max_reply_bytes: self.server.max_reply_bytes(),
            trace: self.server.trace(),
            metrics,
        })
    }
}

/// What is said where levels may not have the windows that they need.
fn too_few_windows(plan: &MeasurementPlan, mode: &LoadMode) -> Option<String> {
    let few = plan.request_count.is_none() && plan.max_trials < 3 && mode.has_windows();
    let rule = "a level counts as stable where three windows agree, so that none can be";
    few.then(|| format!("--max-trials {}: {rule}", plan.max_trials))
}

/// What is said of words that belong to no flag, which often are a value torn apart: where that may be a header, which may
/// hold a credential, they are not shown.
fn stray(words: &[OsString], private: bool) -> Option<String> {
    if private && !words.is_empty() {
        let rule = "beside -H, whose value may have to be quoted";
        return Some(format!("{} words that belong to no flag count for nothing, {rule}", words.len()));
    }
    let shown: Vec<String> = words.iter().map(|word| format!("'{}'", word.to_string_lossy())).collect();
    (!shown.is_empty()).then(|| format!("words that belong to no flag count for nothing: {}", shown.join(" ")))
}

/// What is worth a word although it is no error.
fn notes(given: &Given) -> Vec<String> {
    const OLD: [(&str, &str); 4] = [
        ("-t", "--concurrency-range"),
        ("-d", "--concurrency-range START:END"),
        ("-z", "--input-data zero"),
        ("--data-directory", "--input-data"),
    ];
    let old = OLD.iter().filter(|(flag, _)| given.has(flag));
    let mut notes: Vec<String> = old.map(|(flag, new)| format!("{flag} is an old spelling: use {new}")).collect();
    if given.has("--cancel-after-us") && given.has("--streaming") {
        let rule = "a request is cancelled only while it is alone on its stream, which those of a sequence share";
        notes.push(format!("--cancel-after-us: {rule}"));
    }
    let first_id = given.value("--sequence-id-range").and_then(|range| range.split(':').next());
    if first_id.is_some_and(|first| first.trim_start_matches('0').is_empty()) {
        notes.push("--sequence-id-range starts at 0, which means no sequence: IDs start at 1".to_owned());
    }
    notes
}
