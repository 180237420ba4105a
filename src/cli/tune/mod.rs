//! The command `tune`: its flags, beside those of a run.

mod search;
mod unsupported;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, CommandFactory, FromArgMatches, Parser};
use serde_json::Value;

use crate::error::{Error, Result};
use crate::exit::Codes;
use crate::getopt::{self, CommandLine};
use crate::plan::{
    Bound, Calls, Draft, Figure, Given, MAX_CONCURRENCY, MAX_RATE, Plan, Requirement, Searched, Setting, TuneLoad,
    TunePlan,
};
use crate::requirement::{figure, requirement};
use crate::subcommand::{Arguments, Called, Subcommand, columns, help_of, refused};
use crate::terms::{GapDistribution, LoadMode, Range, Statistic};
use crate::tune::search::searched;
use crate::values::{number, share, time, whole};
use crate::{Command, Flags, HELP_WIDTH, config, given, help, invocation_of, secrets};

/// The command.
pub const SUBCOMMAND: Subcommand = Subcommand { name: "tune", flags: || command().about(ABOUT), read };

const SEE: &str = "see triton-bench tune --help";

const ABOUT: &str = "Searches for the best configuration of a model, and reports how certain the result is. The \
    current configuration is always a candidate. The flags of a run apply too (triton-bench --help): the model, the \
    server, the input data";

const AFTER: &str = "A PATH is a field of the model's configuration, such as max_batch_size, dynamic_batching.max_queue_delay_microseconds, \
    instance_group[].count (short: instances, delay) or parameters.KEY; MODEL:PATH is a field of a model that \
    an ensemble calls. batch_size, concurrency and request_rate belong to the client (also -b 1,2,4 and --concurrency-range \
    1,2,4); rate_limit, pinned_memory_pool_byte_size and buffer_manager_thread_count to the server. VALUES is a list \
    of values and ranges a:b[:+s|*f]; `off` removes a field, `{}` is an empty message. \
    Exit codes: 0 searched, whatever was found; 2 no candidate met the constraints; 99 bad flags, bad input or no server.";

/// What is searched, and what counts.
/// How long a search takes of which nobody says that.
const USUAL_BUDGET: Duration = Duration::from_secs(60);

#[derive(Args, Debug)]
#[command(next_help_heading = "Tune")]
struct TuneArgs {
    /// A setting and the values to try, such as `instances=1:8` or `max_batch_size=1,2,4:64`; repeat it for more.
    /// Default: what suits the model: instances, maximum batch size and queue delay
    #[arg(long, value_name = "PATH=VALUES", value_parser = searched)]
    search: Vec<Searched>,

    /// What to optimise: throughput, avg or a latency percentile. Default: throughput; with --at-rate p99
    #[arg(long, value_name = "throughput|avg|pNN", value_parser = objective)]
    objective: Option<Objective>,

    /// Constraint, such as `p99<20ms`, `throughput>=1000` or `errors<0.1%`; repeat it for more. Default: none
    #[arg(long, value_name = "CONDITION", value_parser = constraint)]
    constraint: Vec<Requirement>,

    /// Measures at this many requests a second. Default: off
    #[arg(long, value_name = "RATE", value_parser = rate)]
    at_rate: Option<f64>,

    /// Measures with this many requests outstanding. Default: twice as many as fill the batches of all instances, one for each
    /// slot of sequences, no more than the model's queue takes; with a latency as objective, those of the present
    /// configuration for all
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1, u64::from(MAX_CONCURRENCY)))]
    at_concurrency: Option<u32>,

    /// Time limit of the search, such as 60s or 5m; loading models counts, starting the server does not. Default: 60s;
    /// with --resume, the earlier limit
    #[arg(long, value_name = "TIME", value_parser = budget)]
    budget: Option<Duration>,

    /// Differences up to this share count as no difference
    #[arg(id = "tune_margin", long = "margin", value_name = "SHARE", default_value = "2%", value_parser = share)]
    margin: f64,

    /// Folder for the winner's config.pbtxt, its JSON for the load API, the table and the record. Default: tune-MODEL
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// Measures every candidate in its own process, so that a crash ends only that candidate. Default: off
    #[arg(long)]
    isolate: bool,

    /// Continues the search whose record is in --output, up to a greater --budget if one is given. Default: starts over
    #[arg(id = "tune_resume", long = "resume")]
    resume: bool,

    #[arg(long, hide = true)]
    trial: bool,
}

/// A figure that can be best.
#[derive(Clone, Copy, Debug)]
struct Objective(Statistic);

#[derive(Parser, Debug)]
#[command(name = "triton-bench tune", disable_help_flag = true, disable_version_flag = true, args_override_self = true)]
struct TuneFlags {
    #[command(flatten)]
    run: Flags,
    #[command(flatten)]
    tune: TuneArgs,
}

/// The flags of this command alone, for its help.
#[derive(Parser, Debug)]
#[command(
    name = "triton-bench tune",
    about = ABOUT,
    override_usage = "triton-bench tune -m MODEL [FLAGS]",
    disable_help_flag = true,
    disable_version_flag = true,
    term_width = HELP_WIDTH,
    next_line_help = true,
    after_help = AFTER
)]
struct Alone {
    #[command(flatten)]
    tune: TuneArgs,
}

/// Reads the words after `tune`: its flags, and those of a run.
fn read(called: &Called, arguments: Arguments<'_>) -> Result<Command> {
    let arguments: Vec<OsString> = arguments.collect();
    let given_arguments = arguments.clone();
    let command = command();
    match getopt::read(&command, arguments)? {
        CommandLine::Help(_) => Ok(Command::Help(help_of(Alone::command().term_width(columns())))),
        CommandLine::Version => Ok(Command::Version(Codes::Own)),
        CommandLine::Run(arguments, strays) if !strays.is_empty() => {
            Err(help::stray(called, &strays, secrets::may_hold_secret(&arguments)))
        }
        CommandLine::Run(arguments, _) => {
            config::each(&command, SUBCOMMAND.name, arguments, |arguments, notes, meant| {
                let plan = plan(&command, arguments, given_arguments.clone());
                let mut plan = plan.map_err(|error| meant.locate(&command, error))?;
                plan.run.notes.extend(notes);
                Ok(Command::Tune(Box::new(plan)))
            })
        }
    }
}

/// What flags of a run are called here that mean something else in a search.
const AWAY: [&str; 2] = ["--margin-of-variants", "--resume-of-a-run"];

/// All flags. Those of a run that mean something else here give way.
fn command() -> clap::Command {
    let away = |name: &'static str| move |arg: clap::Arg| arg.long(name).hide(true);
    let command = TuneFlags::command().no_binary_name(true);
    let [margin, resume] = AWAY.map(|name| name.trim_start_matches('-'));
    command.mut_arg("margin", away(margin)).mut_arg("resume", away(resume))
}

fn plan(command: &clap::Command, arguments: Vec<OsString>, command_line: Vec<OsString>) -> Result<TunePlan> {
    let matches =
        command.clone().try_get_matches_from(arguments).map_err(|error| refused(command, &error, "tune", SEE))?;
    let flags = TuneFlags::from_arg_matches(&matches).map_err(|error| refused(command, &error, "tune", SEE))?;
    flags.run.data.hide_secrets();
    let given = given(command, &matches);
    flags.tune.check(&given)?;
    let mut run = Plan { invocation: invocation_of(command, &matches), ..flags.run.plan(&given, Codes::Own)? };
    if flags.tune.constraint.iter().any(Requirement::bounds_errors) && !given.has("--max-errors") {
        // The constraint is to judge how many fail.
        run.measurement.max_errors = 1.0;
    }
    unsupported::check(&run, &given)?;
    let mut search = flags.tune.search.clone();
    search.extend(client_lists(&run));
    check_search(&search, &run, &given)?;
    let load = flags.tune.load(&run, &given, &search);
    let run = Draft { plan: measured_once(run, load, &given), given: given.clone(), codes: Codes::Own }.validate()?;
    let shown = Statistic::Percentile(run.measurement.tail());
    let usual = if flags.tune.at_rate.is_some() { shown } else { Statistic::Throughput };
    let length = run.measurement.window.length().unwrap_or(Duration::from_millis(500));
    let unit = given.has("--measurement-interval").then_some(length);
    Ok(TunePlan {
        search,
        objective: flags.tune.objective.map_or(usual, |objective| objective.0),
        constraints: flags.tune.constraint,
        load,
        budget: flags.tune.budget.unwrap_or(USUAL_BUDGET),
        is_budget_given: flags.tune.budget.is_some(),
        margin: flags.tune.margin,
        unit,
        output: flags.tune.output,
        isolate: flags.tune.isolate,
        resume: flags.tune.resume,
        trial: flags.tune.trial,
        command_line,
        run,
    })
}

impl TuneArgs {
    fn check(&self, given: &Given) -> Result<()> {
        let loads = ["--at-rate", "--at-concurrency", "--concurrency-range"];
        if let [first, second, ..] = given.among(&loads)[..] {
            return Err(Error::usage(format!(
                "{first} and {second} are different loads: choose one of them; see --help"
            )));
        }
        if self.at_rate.is_some() && matches!(self.objective, Some(Objective(Statistic::Throughput))) {
            return Err(Error::usage(
                "--objective throughput: --at-rate fixes it, whatever the configuration: leave one of them out, or \
                    name a latency; see --help",
            ));
        }
        Ok(())
    }

    /// The load of whatever does not search it.
    fn load(&self, run: &Plan, given: &Given, search: &[Searched]) -> TuneLoad {
        let rates = search.iter().find(|searched| searched.setting == Setting::RequestRate);
        let first = rates.and_then(|rates| rates.values.first()?.as_f64());
        match (&run.load.mode, self.at_rate.or(first), self.at_concurrency) {
            (_, Some(rate), _) => TuneLoad::Rate(rate),
            (_, _, Some(concurrency)) => TuneLoad::Concurrency(concurrency),
            (mode, ..) if given.has("--concurrency-range") => {
                mode.concurrency().map_or(TuneLoad::Saturating, |range| TuneLoad::Concurrency(range.start))
            }
            _ => TuneLoad::Saturating,
        }
    }
}

/// Lists of `-b` and `--concurrency-range` are searched.
fn client_lists(run: &Plan) -> Vec<Searched> {
    let mut lists = Vec::new();
    if run.data.batch_sizes.len() > 1 {
        let values = run.data.batch_sizes.iter().map(|size| Value::from(*size)).collect();
        lists.push(Searched { setting: Setting::BatchSize, values });
    }
    if let Some(Range { start, end: Some(end), step, listed }) = run.load.mode.concurrency()
        && end > start
    {
        let steps = (*start..=*end).step_by(*step as usize);
        let values = if listed.is_empty() { steps.collect() } else { listed.clone() };
        lists.push(Searched { setting: Setting::Concurrency, values: values.into_iter().map(Value::from).collect() });
    }
    lists
}

fn check_search(search: &[Searched], run: &Plan, given: &Given) -> Result<()> {
    if given.has("--concurrency-range") && run.load.mode.peak_concurrency().is_none() {
        let range = given.show("--concurrency-range");
        return Err(Error::usage(format!(
            "{range} has no end, and a search measures every value: name an end, such as 1:64:*2; see --help"
        )));
    }
    let has = |setting: Setting| search.iter().any(|searched| searched.setting == setting);
    let (rates, outstanding) = (has(Setting::RequestRate), has(Setting::Concurrency) || given.has("--at-concurrency"));
    if rates && (outstanding || given.has("--at-rate")) || given.has("--at-rate") && has(Setting::Concurrency) {
        let rate = if rates { "--search request_rate" } else { "--at-rate" };
        let others = ["--search concurrency", "--at-concurrency", "--at-rate"];
        let is_there = [has(Setting::Concurrency), given.has("--at-concurrency"), given.has("--at-rate")];
        let other = others.iter().zip(is_there).find(|(_, is_there)| *is_there).map_or("", |(other, _)| other);
        return Err(Error::usage(format!(
            "{other} and {rate} are different loads, which cannot be compared: choose one of them; see --help"
        )));
    }
    for (index, searched) in search.iter().enumerate() {
        if search[..index].iter().any(|other| other.setting == searched.setting) {
            return Err(Error::usage(format!(
                "{} is searched twice: name all of its values at once; see --help",
                searched.setting
            )));
        }
        if matches!(searched.setting, Setting::Server(_)) && !run.target.service.is_embedded() {
            let rule = "a server on the network keeps the settings that it was started with: search them with --service-kind triton_c_api";
            return Err(Error::usage(format!("--search {}: {rule}", searched.setting)));
        }
    }
    let points = search.iter().fold(1_usize, |points, searched| points.saturating_mul(searched.values.len()));
    if points > MAX_POINTS {
        return Err(Error::usage(format!(
            "--search: {points} candidates are more than {MAX_POINTS}; name fewer values"
        )));
    }
    Ok(())
}

/// Most candidates that a search may have.
const MAX_POINTS: usize = 200_000;

/// The run that each candidate is measured with.
fn measured_once(mut run: Plan, load: TuneLoad, given: &Given) -> Plan {
    let distribution = match given.has("--request-distribution") {
        true => run.load.mode.gaps().unwrap_or(GapDistribution::Constant),
        false => GapDistribution::Poisson,
    };
    run.load.mode = match load {
        TuneLoad::Rate(rate) => LoadMode::one_rate(rate, distribution),
        TuneLoad::Concurrency(concurrency) => LoadMode::one_concurrency(concurrency),
        TuneLoad::Saturating => LoadMode::one_concurrency(1),
    };
    if !given.has("--sync") {
        run.load.calls = Calls::Asynchronous;
    }
    let first = run.data.batch_size;
    run.target.metrics = None;
    run.with_batch_size(first)
}

fn objective(text: &str) -> Result<Objective, String> {
    match figure(text) {
        Some(Figure::Statistic(statistic)) => Ok(Objective(statistic)),
        _ => Err("it must be throughput, avg or a percentile such as p99".to_owned()),
    }
}

fn constraint(text: &str) -> Result<Requirement, String> {
    let constraint = requirement(text)?;
    match (constraint.bound, constraint.level) {
        (Bound::Value(_), None) => Ok(constraint),
        _ => Err("it must be FIGURE<VALUE, such as p99<20ms: there is no baseline and there are no levels".to_owned()),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = number(0.0, MAX_RATE)(text)?;
    if rate > 0.0 { Ok(rate) } else { Err("it must be above 0".to_owned()) }
}

fn budget(text: &str) -> Result<Duration, String> {
    let rule = "it must be a time of at least a second, such as 60s or 5m";
    time(text, Duration::from_secs(1))
        .ok()
        .filter(|time| *time >= Duration::from_secs(1))
        .ok_or_else(|| rule.to_owned())
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    pub fn parse(line: &str) -> Result<Command> {
        parse_words(line.split_whitespace())
    }

    pub fn parse_words<'a>(arguments: impl Iterator<Item = &'a str>) -> Result<Command> {
        let arguments = ["triton-bench", "tune"].into_iter().chain(arguments);
        crate::parse(arguments.map(Into::into), Codes::Own)
    }

    fn tune(line: &str) -> TunePlan {
        match parse(line) {
            Ok(Command::Tune(plan)) => *plan,
            other => panic!("{line}: {other:?}"),
        }
    }

    pub const BASE: &str = "-m m --model-repository /r";

    #[test]
    fn flags_are_read() {
        let plan = tune(&format!(
            "{BASE} --search instances=1:3 --search max_batch_size=1,2,4:64 --search delay=0,100,500 --search dynamic_batching=off,{{}} \
             --objective p99 --constraint p99.9<20ms --at-concurrency 8 --budget 2m --margin 5% --output d --isolate --resume"
        ));
        let values: Vec<String> = plan.search.iter().map(|searched| json!(searched.values).to_string()).collect();
        assert_eq!(values, ["[1,2,3]", "[1,2,4,8,16,32,64]", "[0,100,500]", "[null,{}]"]);
        assert_eq!(plan.search[0].setting.to_string(), "instance_group[].count");
        assert_eq!((plan.objective, plan.load), (Statistic::Percentile(99.0), TuneLoad::Concurrency(8)));
        assert_eq!((plan.budget, plan.margin, plan.percentile()), (Duration::from_secs(120), 0.05, 99.0));
        assert_eq!(plan.percentiles(), [99.0, 99.9]);
        assert!(plan.isolate && plan.resume && plan.folder().as_os_str() == "d");
        assert_eq!(plan.run.load.calls, Calls::Asynchronous);
    }

    #[test]
    fn defaults_and_lists_of_the_client() {
        let plan = tune(&format!("{BASE} -b 1,2 --concurrency-range 1:8:*2"));
        let named: Vec<String> = plan.search.iter().map(|searched| searched.setting.to_string()).collect();
        assert_eq!(named, ["batch_size", "concurrency"]);
        assert_eq!((plan.objective, plan.margin, plan.budget), (Statistic::Throughput, 0.02, Duration::from_secs(60)));
        assert_eq!(plan.folder(), PathBuf::from("tune-m"));
        let rate = tune(&format!("{BASE} --at-rate 100"));
        assert_eq!((rate.objective, rate.load), (Statistic::Percentile(99.0), TuneLoad::Rate(100.0)));
        let shown = tune(&format!("{BASE} --at-rate 100 --percentile 95"));
        assert_eq!((shown.objective, shown.percentile()), (Statistic::Percentile(95.0), 95.0));
        let rates = tune(&format!("{BASE} --search request_rate=50,100"));
        assert_eq!((rates.objective, rates.load), (Statistic::Throughput, TuneLoad::Rate(50.0)));
        let parsed = tune(&format!(
            "{BASE} --search instance_group[].kind=KIND_CPU,KIND_GPU --search e:instances=1,2 --search rate_limit=off"
        ));
        assert_eq!(parsed.search[0].values, [json!("KIND_CPU"), json!("KIND_GPU")]);
        let lists = tune(&format!(
            r#"{BASE} --search dynamic_batching.preferred_batch_size=[4,8],[8],off --search dynamic_batching={{"a":1,"b":[2,3]}},{{}} --search parameters.x="a,b",c,0:2"#
        ));
        assert_eq!(lists.search[0].values, [json!([4, 8]), json!([8]), Value::Null]);
        let ones = tune(&format!("{BASE} --search preferred_batch_size=off,4,8 --search instance_group[].gpus=0"));
        assert_eq!(ones.search[0].values, [Value::Null, json!([4]), json!([8])], "single values of a list");
        assert_eq!(ones.search[1].values, [json!([0])]);
        assert_eq!(lists.search[1].values, [json!({"a": 1, "b": [2, 3]}), json!({})]);
        assert_eq!(lists.search[2].values, [json!("a,b"), json!("c"), json!(0), json!(1), json!(2)]);
        let files = tune(&format!("{BASE} -f table.csv --summary-file all.json"));
        assert!(files.run.output.csv.is_some() && files.run.output.summary.is_some());
        assert!(matches!(&parsed.search[1].setting, Setting::Model(Some(model), _) if model == "e"));
        assert!(
            matches!(parse("--help"), Ok(Command::Help(text)) if text.contains("--search") && text.contains("--margin"))
        );
    }

    #[test]
    fn others_are_refused() {
        for (line, word) in [
            ("--search x", "PATH=VALUES"),
            ("--search a..b=1", "path"),
            ("--search instances=4:1", "below the start"),
            ("--search instances=1 --search instances=2", "twice"),
            ("--objective errors", "throughput, avg"),
            ("--constraint p99<+5%", "no baseline"),
            ("--constraint p99", "FIGURE<VALUE"),
            ("--at-rate 5 --at-concurrency 5", "different loads"),
            ("--at-rate 0", "above 0"),
            ("--concurrency-range 4:0", "--concurrency-range 4:0 has no end"),
            ("--at-rate 5 --objective throughput", "--at-rate"),
            ("--budget 0", "at least a second"),
            ("--request-rate-range 5", "--at-rate"),
            ("--stage rate:1:1s", "leave it out"),
            ("--service-kind openai", "only Triton"),
            ("--margin x", "share"),
            ("--nonsense", "not a flag"),
            ("word", "word"),
            ("--search max_batch_size=1:1000:1 --search instances=1:1000", "more than"),
            ("--at-rate 5 --search concurrency=1,2", "different loads"),
            ("--at-rate 5 --search request_rate=1,2", "--at-rate and --search request_rate are different loads"),
            ("--search concurrency=2 --search request_rate=1,2", "different loads"),
            ("--search request_rate=0,1", "request_rate: 0"),
            ("--search concurrency=abc,1", "concurrency: abc"),
            ("--search instances=abc", "instance_group[].count: abc is not a value of it; it must be a whole number"),
            ("--search max_batch_size=4,1.5", "max_batch_size: 1.5"),
            (
                "--search e:response_cache.enable=yes",
                "response_cache.enable: yes is not a value of it; it must be true or false",
            ),
            ("--search concurrency=1.5", "concurrency: 1.5"),
            ("--search concurrency=off,2", "concurrency: off"),
            ("--search concurrency=0", "concurrency: 0"),
            ("--search batch_size=off", "batch_size: off"),
            ("--search batch_size=0,1", "batch_size: 0"),
            ("--search rate_limit=on", "rate_limit: on"),
            ("--search pinned_memory_pool_byte_size=off", "pinned_memory_pool_byte_size: off"),
            ("--search buffer_manager_thread_count=1.5", "buffer_manager_thread_count: 1.5"),
            ("--search instance_group[18446744073709551615].count=1,2", "at most 255"),
            ("--search instance_group[4000000000].count=1,2", "at most 255"),
            ("--search preferred_batch_size=[4,8", "brackets"),
        ] {
            let error = parse(&format!("{BASE} {line}")).expect_err(line).to_string();
            assert!(error.contains(word), "{line}: {error}");
        }
        let error = parse("-m m --search rate_limit=off").unwrap_err().to_string();
        assert!(error.contains("triton_c_api"), "{error}");
    }
}
