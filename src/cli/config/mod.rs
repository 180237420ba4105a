//! `--config FILE.yaml`: a file becomes flags in front of those of the command line, so that one parser and one set of
//! rules handles both.

mod fields;
mod flags;
mod inference_perf;
mod meant;
mod model_analyzer;
mod print;
mod runs;
mod written;
mod yaml;

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use ::data::text_of;
use clap::Args;

use crate::Command;
use crate::config::flags::{Setting, name_of};
use crate::config::meant::Meant;
use crate::config::yaml::{Fault, Place};
use crate::error::{Error, Result};
use crate::exit::Codes;
use crate::plan::flags::find_long;
use crate::plan::{Plan, RunOfFile};
use crate::ranks::numbered;
use crate::secrets::may_hold_secret;
use crate::stdio::note;
use crate::values::filled;
use crate::variants::stands_for;

/// Size limit of a file, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// Flags in a file.
#[derive(Args, Debug)]
#[command(next_help_heading = "Configuration by file")]
pub struct ConfigArgs {
    /// Reads flags from this file, whose keys are the flags' long names; the command line takes precedence.
    /// docs/config.md has examples. Default: none
    #[arg(long, value_name = "FILE.yaml")]
    config: Option<PathBuf>,

    /// Which of the runs in --config to do; repeat it for more. Default: all, one after another, each in its own
    /// process
    #[arg(long, value_name = "NAME", value_parser = filled)]
    run: Vec<String>,

    /// Prints the effective flags, from --config and the command line together, as such a file, and measures nothing.
    /// Default: off
    #[arg(long)]
    print_config: bool,
}

/// Whether a flag of that long name is about the file, which cannot contain it.
fn is_of_file(long: &str) -> bool {
    find_long(long).is_some_and(|flag| flag.of_file)
}

/// The result of combining a command line with its file.
#[derive(Debug)]
enum Applied {
    /// One run, of these words, what should be known of it, and what its flags follow from.
    One(Vec<OsString>, Vec<String>, Meant),
    /// Several runs of the file.
    Runs(Vec<NamedRun>),
}

/// One of several runs.
#[derive(Debug)]
struct NamedRun {
    name: String,
    arguments: Vec<OsString>,
    /// What should be known of it.
    notes: Vec<String>,
    /// What its flags follow from.
    meant: Meant,
}

impl NamedRun {
    /// An error of this run.
    fn refused(&self, command: &clap::Command, error: Error) -> Error {
        self.meant.locate(command, error).context(format!("--run '{}'", self.name))
    }
}

/// Reads the words of a run, those of its file included.
///
/// # Errors
/// What is wrong in the file, with line and column; whatever no run can be made of.
pub fn command(
    command: &clap::Command,
    arguments: Vec<OsString>,
    strays: &[OsString],
    codes: Codes,
) -> Result<Command> {
    let is_printed = asks_for_print(&arguments);
    let plan = |arguments: &[OsString]| -> Result<Plan> {
        let mut plan = super::run(command, arguments.to_vec(), codes)?;
        let private = may_hold_secret(arguments);
        plan.notes.extend(stray(strays, private));
        Ok(plan)
    };
    match apply_to_run(command, arguments.clone())? {
        Applied::One(arguments, notes, meant) => {
            let mut plan = plan(&arguments).map_err(|error| meant.locate(command, error))?;
            if is_printed {
                // What a file's keys have become is half of the answer; the other half is what has become of the others.
                notes.iter().for_each(|note| note!("{note}"));
                return print::one(command, &arguments).map(Command::Config);
            }
            plan.notes.extend(notes);
            Ok(Command::Run(Box::new(plan)))
        }
        Applied::Runs(runs) => {
            let check = |run: &NamedRun| {
                plan(&run.arguments).map(|plan| plan.load.ranks.mpi).map_err(|error| run.refused(command, error))
            };
            let mpi = runs.iter().map(check).collect::<Result<Vec<bool>>>()?;
            if is_printed {
                return printed(command, &runs);
            }
            written::check(&runs)?;
            let of_file = |(NamedRun { name, .. }, mpi): (NamedRun, bool)| {
                let others = arguments.iter().filter(|word| name_of(word) != "run").cloned();
                RunOfFile { arguments: others.chain([flags::argument("run", Some(&name))]).collect(), name, mpi }
            };
            Ok(Command::Runs(runs.into_iter().zip(mpi).map(of_file).collect()))
        }
    }
}

/// Reads the words of a command of that name which does one run of its file, or each of several in a process of its own.
///
/// # Errors
/// As [`command`].
pub fn each(
    command: &clap::Command,
    name: &str,
    arguments: Vec<OsString>,
    read: impl Fn(Vec<OsString>, Vec<String>, Meant) -> Result<Command>,
) -> Result<Command> {
    let is_printed = asks_for_print(&arguments);
    match apply_to_run(command, arguments.clone())? {
        Applied::One(arguments, notes, meant) => {
            let read = read(without_own(arguments.clone()), notes.clone(), meant)?;
            if !is_printed {
                return Ok(read);
            }
            notes.iter().for_each(|note| note!("{note}"));
            print::one(command, &arguments).map(Command::Config)
        }
        Applied::Runs(runs) => {
            for run in &runs {
                let checked = read(without_own(run.arguments.clone()), Vec::new(), Meant::default());
                checked.map_err(|error| run.refused(command, error))?;
            }
            if is_printed {
                return printed(command, &runs);
            }
            written::check(&runs)?;
            let of_file = |run: NamedRun| {
                let others = arguments.iter().filter(|word| name_of(word) != "run").cloned();
                let arguments =
                    [name.into()].into_iter().chain(others).chain([flags::argument("run", Some(&run.name))]);
                RunOfFile { arguments: arguments.collect(), name: run.name, mpi: false }
            };
            Ok(Command::Runs(runs.into_iter().map(of_file).collect()))
        }
    }
}

fn asks_for_print(arguments: &[OsString]) -> bool {
    arguments.iter().any(|word| name_of(word) == "print-config")
}

/// All runs as a file, after what has become of keys that are no flags.
fn printed(command: &clap::Command, runs: &[NamedRun]) -> Result<Command> {
    for NamedRun { name, notes, .. } in runs {
        notes.iter().for_each(|note| note!("{name}: {note}"));
    }
    let runs = runs.iter().map(|run| (run.name.as_str(), run.arguments.as_slice()));
    print::several(command, runs).map(Command::Config)
}

fn refuse_print(arguments: &[OsString]) -> Result<()> {
    match asks_for_print(arguments) {
        true => Err(Error::usage("--print-config prints the flags of a run: leave the command out; see --help")),
        false => Ok(()),
    }
}

fn without_own(arguments: Vec<OsString>) -> Vec<OsString> {
    arguments.into_iter().filter(|word| !is_of_file(&name_of(word))).collect()
}

/// The words of a command that is about one run, what should be known of its file, and what its flags follow from.
///
/// # Errors
/// As [`command`]; where the file has several runs and none is named.
pub fn arguments(command: &clap::Command, arguments: Vec<OsString>) -> Result<(Vec<OsString>, Vec<String>, Meant)> {
    refuse_print(&arguments)?;
    match apply(command, arguments)? {
        Applied::One(arguments, notes, meant) => Ok((without_own(arguments), notes, meant)),
        Applied::Runs(runs) => {
            let names: Vec<&str> = runs.iter().map(|run| run.name.as_str()).collect();
            Err(Error::usage(format!("--config has several runs: name one with --run, of {}", names.join(", "))))
        }
    }
}

/// Puts the flags of the file before `arguments`, which are in the format of [`crate::getopt`], and the rank into all of
/// them; the file's own name may contain it, too.
fn apply(command: &clap::Command, arguments: Vec<OsString>) -> Result<Applied> {
    Ok(match with_file(command, numbered(arguments))? {
        Applied::One(arguments, notes, meant) => Applied::One(numbered(arguments), notes, meant),
        Applied::Runs(runs) => {
            let number = |run: NamedRun| NamedRun { arguments: numbered(run.arguments), ..run };
            Applied::Runs(runs.into_iter().map(number).collect())
        }
    })
}

/// The same for what writes outputs, none of which may be the file.
fn apply_to_run(command: &clap::Command, arguments: Vec<OsString>) -> Result<Applied> {
    let file = file_of(&numbered(arguments.clone())).filter(|_| !asks_for_print(&arguments));
    let applied = apply(command, arguments)?;
    if let Some(file) = file {
        match &applied {
            Applied::One(arguments, ..) => written::refuse_own(&file, arguments)?,
            Applied::Runs(runs) => runs.iter().try_for_each(|run| {
                let refused = written::refuse_own(&file, &run.arguments);
                refused.map_err(|error| error.context(format!("--run '{}'", run.name)))
            })?,
        }
    }
    Ok(applied)
}

/// The file that `--config` names.
fn file_of(arguments: &[OsString]) -> Option<PathBuf> {
    let word = arguments.iter().rfind(|word| name_of(word) == "config")?;
    Some(PathBuf::from(flags::value_of(word)))
}

/// Puts the flags of the file before `arguments`. Without a file they stay unchanged.
fn with_file(command: &clap::Command, arguments: Vec<OsString>) -> Result<Applied> {
    let values_of = |name: &str| {
        let values = arguments.iter().filter(|word| name_of(word) == name);
        values.map(|word| flags::value_of(word).to_owned()).collect::<Vec<OsString>>()
    };
    let names: Vec<String> = values_of("run").iter().map(|name| name.to_string_lossy().into_owned()).collect();
    let Some(path) = file_of(&arguments) else {
        return match names.first() {
            Some(name) => {
                Err(Error::usage(format!("--run '{name}': it names a run of --config, which is missing; see --help")))
            }
            None => Ok(Applied::One(arguments, Vec::new(), Meant::default())),
        };
    };
    let file = read(command, &path, &arguments).map_err(|fault| refused(&path, &fault))?;
    let wanted = file.choose(&names).map_err(|rule| Error::usage(format!("--config {}: {rule}", path.display())))?;
    let run = |name: String| {
        let settings = file.run(&name).map_err(|fault| refused(&path, &fault))?;
        Ok((name, left(settings, &arguments)))
    };
    let mut runs = wanted.into_iter().map(run).collect::<Result<Vec<_>>>()?;
    let single = |settings: Vec<Setting>, notes: Vec<String>| {
        let meant = Meant::new(&path, &settings);
        Applied::One(merge(settings, &arguments), notes, meant)
    };
    Ok(match runs.len() {
        0 => {
            let common = file.common();
            let (arguments, kept) = beside_mix(&common, arguments);
            let notes: Vec<String> =
                file.notes(None).into_iter().chain(kept).chain(displaced(&common, &arguments)).collect();
            let settings = left(common, &arguments);
            let meant = Meant::new(&path, &settings);
            Applied::One(merge(settings, &arguments), notes, meant)
        }
        1 => {
            let (name, settings) = runs.remove(0);
            single(settings, file.notes(Some(&name)))
        }
        _ => {
            let named = |(name, settings): (String, Vec<Setting>)| {
                let meant = Meant::new(&path, &settings);
                let notes = file.notes(Some(&name));
                NamedRun { arguments: merge(settings, &arguments), notes, meant, name }
            };
            Applied::Runs(runs.into_iter().map(named).collect())
        }
    })
}

fn refused(path: &Path, Fault { at, rule }: &Fault) -> Error {
    Error::usage(format!("--config {}:{at}: {rule}", path.display()))
}

fn read(command: &clap::Command, path: &Path, arguments: &[OsString]) -> Result<runs::File, Fault> {
    runs::File::read(command, &yaml::read(&text(path).map_err(|rule| Fault::new(Place::FIRST, rule))?)?, arguments)
}

fn text(path: &Path) -> Result<String, String> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| format!("cannot be read: {error}"))?;
    if file.metadata().is_ok_and(|found| found.is_dir()) {
        return Err("that is a directory, but a file is needed".to_owned());
    }
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|error| format!("cannot be read: {error}"))?;
    match bytes.len() as u64 > MAX_BYTES {
        true => Err("it is larger than 1 MiB, the limit for a file of flags".to_owned()),
        false => text_of(bytes),
    }
}

/// The settings that remain: a flag of the command line replaces the file's, and those that it overrides.
fn left(mut settings: Vec<Setting>, arguments: &[OsString]) -> Vec<Setting> {
    let names: Vec<_> = arguments.iter().map(|word| name_of(word)).collect();
    let overrides = |name: &str, setting: &Setting| name == setting.name || stands_for(name, &setting.name);
    settings.retain(|setting| !names.iter().any(|name| overrides(name, setting)));
    settings
}

/// The words of settings and after them those of the command line.
fn merge(settings: Vec<Setting>, arguments: &[OsString]) -> Vec<OsString> {
    let file = settings.into_iter().flat_map(|setting| setting.arguments);
    let command_line = arguments.iter().filter(|word| !is_of_file(&name_of(word)));
    file.chain(command_line.cloned()).collect()
}

/// The command line beside a mix of models that a file of another program's form asks for, which says for which models requests are:
/// there, a model is named as well. With a note if one is.
fn beside_mix(settings: &[Setting], arguments: Vec<OsString>) -> (Vec<OsString>, Option<String>) {
    let has = |name: &str| arguments.iter().any(|word| name_of(word) == name);
    let mixes = settings.iter().any(|setting| setting.name == "model-mix" && !setting.meant_at.is_empty());
    if !mixes || has("model-mix") || !has("model") {
        return (arguments, None);
    }
    let note = "-m has no effect: the file's lora_traffic_split says which models requests are for (--model-mix)";
    let is_model = |word: &OsString| ["model", "model-version"].contains(&name_of(word).as_ref());
    (arguments.into_iter().filter(|word| !is_model(word)).collect(), Some(note.to_owned()))
}

/// The notes on settings that another flag of the command line replaces: for example a mix of adapters, if it names a
/// model.
fn displaced(settings: &[Setting], arguments: &[OsString]) -> Vec<String> {
    let mut names: Vec<&str> = settings.iter().map(|setting| setting.name.as_str()).collect();
    names.dedup();
    let flag_names: Vec<_> = arguments.iter().map(|word| name_of(word)).collect();
    let by = |name: &&str| flag_names.iter().find(|flag| **flag != *name && stands_for(flag, name));
    let note = |name: &str| by(&name).map(|by| format!("--{by} overrides the file's {name}"));
    names.into_iter().filter_map(note).collect()
}

/// The message on arguments that belong to no flag, which often are parts of a split value. If they may come from a
/// header, which may contain a credential, they are not shown.
fn stray(arguments: &[OsString], private: bool) -> Option<String> {
    if private && !arguments.is_empty() {
        let rule = "beside -H, whose value may have to be quoted";
        return Some(format!("{} words that belong to no flag are ignored, {rule}", arguments.len()));
    }
    let shown: Vec<String> = arguments.iter().map(|word| format!("'{}'", word.to_string_lossy())).collect();
    (!shown.is_empty()).then(|| format!("words that belong to no flag are ignored: {}", shown.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_not_dropped_without_a_word() {
        let mix = |part: &str| Setting {
            name: "model-mix".to_owned(),
            arguments: vec![format!("--model-mix={part}").into()],
            meant_at: Vec::new(),
        };
        let settings = [mix("a:0.5"), mix("b:0.5")];
        let arguments = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        let notes = displaced(&settings, &arguments("--url=localhost --model=m"));
        assert_eq!(notes, ["--model overrides the file's model-mix"]);
        assert!(displaced(&settings, &arguments("--model-mix=c:1 --url=localhost")).is_empty());
    }

    /// What `tune` prints of a file with this text.
    fn printed_by_tune(text: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file.yaml");
        std::fs::write(&path, text).unwrap();
        let words = ["triton-bench", "tune", "--config", path.to_str().unwrap(), "--print-config"];
        match crate::parse(words.map(OsString::from), Codes::Own) {
            Ok(Command::Config(text)) => text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_search_is_printed_as_a_file_that_means_the_same() {
        let models = "  resnet:\n    parameters: {concurrency: [1, 2]}\n";
        let file = format!("model_repository: /models\nprofile_models:\n{models}");
        let one = printed_by_tune(&file);
        assert!(one.contains("model: resnet\n") && one.contains("model-repository: /models\n"), "{one}");
        assert_eq!(printed_by_tune(&one), one);
        let two = printed_by_tune(&format!("{file}  bert: {{}}\n"));
        assert!(two.starts_with("runs:\n  resnet:\n") && two.contains("  bert:\n"), "{two}");
        assert_eq!(printed_by_tune(&two), two);
    }
    /// The notes on a run of a file with this text, or what is wrong with it.
    fn notes(text: &str) -> Result<String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file.yaml");
        std::fs::write(&path, text).unwrap();
        let words = ["triton-bench", "-m", "m", "--config", path.to_str().unwrap()];
        match crate::parse(words.map(OsString::from), Codes::Own)? {
            Command::Run(plan) => Ok(plan.notes.join("\n")),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn values_of_a_helm_chart_are_read_below_their_config() {
        let chart = |config: &str| format!("job: {{memory: 8G}}\nlogLevel: INFO\nconfig: {{{config}}}\n");
        let notes_of_chart = notes(&chart("load: {stages: [{rate: 5, duration: 2}]}")).unwrap();
        let part = "job, logLevel: settings of inference-perf's Helm chart, ignored here";
        assert!(notes_of_chart.contains(part), "{notes_of_chart}");
        let refused =
            notes(&chart("load: {stages: [{rate: 5, duration: 2}]}, api: {typ: chat}")).unwrap_err().to_string();
        assert!(refused.contains("file.yaml:3:") && refused.contains("'api.typ'"), "{refused}");
        let other = notes("job: {memory: 8G}\nconfig: {a: b}\n").unwrap_err().to_string();
        assert!(other.contains("'job' is not the name of a flag"), "{other}");
    }

    #[test]
    fn keys_that_leave_the_load_as_it_is_have_notes() {
        let stages = "stages: [{rate: 5, duration: 2}]";
        let patient = notes(&format!("load: {{{stages}, stage_teardown_grace_seconds: 60}}\n")).unwrap();
        assert!(patient.contains("load.stage_teardown_grace_seconds: 60: no effect"), "{patient}");
        let lengths = "input_distribution: {}, output_distribution: {}, use_chat_template: true";
        let file = |kind: &str| format!("load: {{{stages}}}\ndata: {{type: {kind}, {lengths}}}\n");
        assert!(notes(&file("random")).unwrap().contains("data.use_chat_template: prompts are as long"));
        let refused = notes(&file("synthetic")).unwrap_err().to_string();
        assert!(refused.contains("'data.use_chat_template' is for the type random, not for synthetic"), "{refused}");
    }
}
