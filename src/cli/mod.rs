//! The command line: typed flags, one struct for each section of the help, and how they become a plan.

mod compare;
mod data;
mod doctor;
mod dynamic_grpc;
mod embedded;
mod forms;
mod getopt;
mod goodput;
mod help;
mod load;
mod measurement;
mod model;
mod openai;
mod output;
mod range;
mod requirement;
mod sequences;
mod server;
mod tfserving;
mod tls;
mod trace_summary;
mod values;

use std::error::Error as _;
use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser};

use crate::cli::getopt::{HelpForm, Line, shown};
use crate::cli::measurement::MatrixKind;
use crate::error::{Error, Result};
use crate::exit::Codes;
use crate::plan::{
    Calls, Checkup, Comparison, DataPlan, DataSource, Draft, Flag, Given, LoadMode, Matrix, MeasurementPlan, Plan,
    ServiceKind, Target, TorchServePlan, TraceFiles, Words,
};

/// What a command line asks for. Further commands (words in the place of the first flag) become further variants.
#[derive(Debug)]
pub enum Command {
    /// A measurement.
    Run(Box<Plan>),
    /// A summary of a server's traces.
    TraceSummary(TraceFiles),
    /// One result held against another.
    Compare(Comparison),
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
    4 another load than asked for, 6 a requirement does not hold, 99 bad flags, bad input or no server, 130 interrupted twice or before the load. \
    `triton-bench trace-summary FILE` summarises traces of a server, `triton-bench compare A B` \
    holds results against each other, `triton-bench doctor` names what makes this machine \
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
    dynamic_grpc: dynamic_grpc::DynamicGrpcArgs,
    #[command(flatten)]
    tfserving: tfserving::TfServingArgs,
    #[command(flatten)]
    openai: openai::OpenAiArgs,
    #[command(flatten)]
    output: output::OutputArgs,
}

/// Reads a command line, the program's name first.
///
/// # Errors
/// One line that names the flag, its value and the rule that it breaks.
pub fn parse(args: impl IntoIterator<Item = OsString>, codes: Codes) -> Result<Command> {
    let command = command_of(codes);
    let mut words = args.into_iter().skip(1).peekable();
    if words.next_if(|word| word == help::WORD).is_some() {
        return help::read(command, words);
    }
    if words.next_if(|word| word == trace_summary::WORD).is_some() {
        return trace_summary::read(words);
    }
    if words.next_if(|word| word == compare::WORD).is_some() {
        return compare::read(words);
    }
    if words.next_if(|word| word == doctor::WORD).is_some() {
        return doctor::read(words);
    }
    match getopt::read(&command, words)? {
        Line::Help(HelpForm::Short) if codes == Codes::Own => Ok(Command::Help(help::SHORT.to_owned())),
        Line::Help(HelpForm::Section(name)) => help::section(command, &name).map(Command::Help),
        Line::Help(_) => Ok(Command::Help(help::whole(command))),
        Line::Version => Ok(Command::Version(version(codes))),
        Line::Run(words, strays) if codes == Codes::Own && !strays.is_empty() => {
            let private = words.iter().any(|word| word.as_encoded_bytes().starts_with(b"--header="));
            Err(help::stray(&strays, private))
        }
        Line::Run(words, strays) => {
            let mut plan = run(&command, words, codes)?;
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

/// The flags under the name that the program was called by.
fn command_of(codes: Codes) -> clap::Command {
    match codes {
        Codes::Own => command(),
        Codes::PerfAnalyzers => command().name("perf_analyzer").override_usage("perf_analyzer -m MODEL [FLAGS]"),
    }
}

fn version(codes: Codes) -> String {
    let own = env!("CARGO_PKG_VERSION");
    match codes {
        Codes::Own => format!("triton-bench {own} (flags and reports of Perf Analyzer {UPSTREAM_VERSION})"),
        Codes::PerfAnalyzers => format!("Perf Analyzer Version {UPSTREAM_VERSION} (triton-bench {own})"),
    }
}

fn run(command: &clap::Command, words: Vec<OsString>, codes: Codes) -> Result<Plan> {
    let matches = command.clone().try_get_matches_from(words).map_err(|error| refused(command, &error))?;
    let flags = Flags::from_arg_matches(&matches).map_err(|error| refused(command, &error))?;
    let given = given(command, &matches);
    let plan = Plan { words: said(command, &matches), ..flags.plan(&given, codes)? };
    Draft { plan, given, codes }.validate()
}

/// Flags whose values may be secrets; what stands before a colon is a name.
const SECRET: &[&str] = &["-H"];

/// What the flags are, for whoever reads the result.
fn said(command: &clap::Command, matches: &ArgMatches) -> Words {
    let mut words = Words::default();
    for arg in command.get_arguments() {
        let (name, given) = (shown(arg), is_given(arg, matches));
        let values: Vec<String> = values(arg, matches).map(|value| without_secret(&name, &value)).collect();
        // What is neither said nor has a default.
        if values.is_empty() && !given {
            continue;
        }
        if given && values.is_empty() {
            words.command_line.push(name.clone());
        } else if given {
            words.command_line.extend(values.iter().flat_map(|value| [name.clone(), value.clone()]));
        }
        words.flags.push(Flag { name, values, given });
    }
    words
}

fn is_given(arg: &clap::Arg, matches: &ArgMatches) -> bool {
    matches.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine)
}

/// The values of a flag, given or by default; a switch has none.
fn values(arg: &clap::Arg, matches: &ArgMatches) -> impl Iterator<Item = String> {
    let raw = if arg.get_action().takes_values() { matches.get_raw(arg.get_id().as_str()) } else { None };
    raw.into_iter().flatten().map(|value| value.to_string_lossy().into_owned())
}

fn without_secret(flag: &str, value: &str) -> String {
    match value.split_once(':') {
        Some((name, _)) if SECRET.contains(&flag) => format!("{name}:…"),
        None if SECRET.contains(&flag) => "…".to_owned(),
        _ => value.to_owned(),
    }
}

/// Flags that stand on the command line, with their values.
fn given(command: &clap::Command, matches: &ArgMatches) -> Given {
    let mut given = Given::default();
    for arg in command.get_arguments().filter(|arg| is_given(arg, matches)) {
        given.insert(shown(arg), values(arg, matches).collect());
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
    fn plan(&self, given: &Given, codes: Codes) -> Result<Plan> {
        let matrix = self.measurement.matrix().map(|kind| match kind {
            MatrixKind::Memory => Matrix::Memory,
            MatrixKind::Transports => Matrix::Transports { running: self.server.url() },
        });
        let mut notes = notes(given);
        let gate = self.output.gate();
        let further_percentiles = gate.percentiles();
        // A repository is in this process' reach; perf_analyzer takes another flag for that.
        let repository = codes == Codes::Own && given.has("--model-repository");
        let in_process = (matrix.is_some() || repository) && !given.has("--service-kind");
        if in_process && matrix.is_none() {
            notes.push("--model-repository: measures in this process (--service-kind triton_c_api)".to_owned());
        }
        let measurement = MeasurementPlan { further_percentiles, ..self.measurement.plan() };
        // Over gRPC streams are asynchronous; other services read an answer that comes in pieces either way.
        let streams = self.server.streaming() && self.model.service() != ServiceKind::OpenAi;
        let mut load = self.load.plan(self.sequences.plan(), streams, given);
        if let Some(sessions) = self.openai.sessions() {
            (load.mode, load.calls) = (LoadMode::Sessions(sessions), Calls::Asynchronous);
        }
        // The trials of a matrix are its rounds.
        notes.extend(if matrix.is_none() { too_few_windows(&measurement, &load.mode) } else { None });
        notes.extend(self.load.note());
        notes.extend(self.openai.note());
        Ok(Plan {
            target: self.target(in_process, given)?,
            load,
            data: self.data(given)?,
            measurement,
            output: self.output.plan(),
            gate,
            seed: self.load.seed(),
            words: Words::default(),
            matrix,
            notes,
            model_notes: Vec::new(),
        })
    }

    /// What requests carry. Payloads are generated where nothing else is asked for.
    fn data(&self, given: &Given) -> Result<DataPlan> {
        let mut data = self.data.plan(given)?;
        if let (Some(prompts), DataSource::Random) = (self.openai.prompts(), &data.source) {
            data.source = DataSource::Prompts(prompts);
        }
        Ok(data)
    }

    /// A matrix and a repository mean Triton in this process, without being told.
    fn target(&self, in_process: bool, given: &Given) -> Result<Target> {
        let metrics = self.server.metrics();
        let service = if in_process { ServiceKind::TritonCApi } else { self.model.service() };
        let dynamic_grpc = self.dynamic_grpc.plan();
        Ok(Target {
            service,
            version_label: self.model.version_label(),
            model: self.model.model(service, dynamic_grpc.method.as_ref())?,
            mix: self.model.mix(),
            bls_composing: self.model.bls_composing(),
            connection: self.server.connection(service),
            server: self.embedded.plan(metrics.as_ref().map(|metrics| metrics.interval)),
            openai: self.openai.plan(self.server.streaming()),
            tokens_from: self.model.tokens_from(),
            max_reply_bytes: self.server.max_reply_bytes(),
            trace: self.server.trace(),
            metrics,
            dynamic_grpc,
            tfserving: self.tfserving.plan(given),
            torchserve: TorchServePlan { metrics_url: self.server.metrics_url() },
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
