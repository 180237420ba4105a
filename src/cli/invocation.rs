//! The flags given on the command line: for readers of the result, and for rules that distinguish given flags from
//! defaults.

use clap::ArgMatches;
use clap::parser::ValueSource;

use crate::getopt::shown;
use crate::plan::{Given, Invocation, flags};
use crate::secrets::without_secret;
use crate::terms::Flag;

/// What the flags are, for whoever reads the result.
pub fn invocation_of(command: &clap::Command, matches: &ArgMatches) -> Invocation {
    let mut invocation = Invocation::default();
    for arg in command.get_arguments() {
        let (name, is_set) = (shown(arg), is_given(arg, matches));
        let values: Vec<String> = values(arg, matches).map(|value| without_secret(command, &name, &value)).collect();
        // What is neither said nor has a default.
        if values.is_empty() && !is_set {
            continue;
        }
        if is_set && values.is_empty() {
            invocation.command_line.push(name.clone());
        } else if is_set {
            invocation.command_line.extend(values.iter().flat_map(|value| [name.clone(), value.clone()]));
        }
        let file = flags::find(&name).is_some_and(|flag| flag.file);
        invocation.flags.push(Flag { name, values, given: is_set, file });
    }
    invocation
}

fn is_given(arg: &clap::Arg, matches: &ArgMatches) -> bool {
    matches.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine)
}

/// The values of a flag, given or by default; a switch has none.
fn values(arg: &clap::Arg, matches: &ArgMatches) -> impl Iterator<Item = String> {
    let raw = if arg.get_action().takes_values() { matches.get_raw(arg.get_id().as_str()) } else { None };
    raw.into_iter().flatten().map(|value| value.to_string_lossy().into_owned())
}

/// The values of a flag, those of a list together.
fn as_written(arg: &clap::Arg, matches: &ArgMatches) -> Vec<String> {
    let Some(delimiter) = arg.get_value_delimiter() else { return values(arg, matches).collect() };
    let word = |part: &std::ffi::OsStr| part.to_string_lossy().into_owned();
    let occurrences = matches.get_raw_occurrences(arg.get_id().as_str()).into_iter().flatten();
    occurrences.map(|list| list.map(word).collect::<Vec<_>>().join(&delimiter.to_string())).collect()
}

/// Flags that stand on the command line, with their values, without credentials: messages show them.
pub fn given(command: &clap::Command, matches: &ArgMatches) -> Given {
    let mut given = Given::default();
    for arg in command.get_arguments().filter(|arg| is_given(arg, matches)) {
        let name = shown(arg);
        let values = as_written(arg, matches).iter().map(|value| without_secret(command, &name, value)).collect();
        given.insert(name, values);
    }
    given
}
