//! Commands, which take the place of the first flag: their names, and how commands with their own flags parse them.

use std::error::Error as _;
use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, CommandFactory, Parser};

use crate::error::{Error, Result};
use crate::getopt::shown;
use crate::secrets::is_secret;
use crate::stdio;
use crate::{Command, HELP_WIDTH, NARROWEST};

/// The words that follow.
pub type Arguments<'a> = &'a mut dyn Iterator<Item = OsString>;

/// A command.
pub struct Subcommand {
    /// What stands in the place of the first flag.
    pub name: &'static str,
    /// Its flags, and what it is about.
    pub flags: fn() -> clap::Command,
    /// Reads the words after its name.
    pub read: fn(&Called, Arguments<'_>) -> Result<Command>,
}

/// How the program was called.
pub struct Called {
    /// The flags of a run, under the program's name.
    pub run: clap::Command,
    /// All commands.
    pub commands: &'static [Subcommand],
}

impl Called {
    /// The names of all commands.
    pub fn names(&self) -> String {
        self.commands.iter().map(|subcommand| subcommand.name).collect::<Vec<_>>().join(", ")
    }
}

/// Reads a command's own flags, and goes on with them unless their help was asked for.
///
/// # Errors
/// In one line, the flag, its value and the rule that it breaks; and as `then`.
pub fn read<T: Parser>(
    name: &str,
    arguments: Arguments<'_>,
    then: impl FnOnce(T) -> Result<Command>,
) -> Result<Command> {
    let command = flags::<T>();
    let see = format!("see triton-bench {name} --help");
    match command.clone().try_get_matches_from(arguments).and_then(|matches| T::from_arg_matches(&matches)) {
        Ok(flags) => then(flags),
        Err(error) if error.kind() == ErrorKind::DisplayHelp => Ok(Command::Help(help_of(command))),
        Err(error) => Err(refused(&command, &error, name, &see)),
    }
}

/// A command's own flags, in the form that all commands have.
pub fn flags<T: CommandFactory>() -> clap::Command {
    let help = Arg::new("help")
        .short('h')
        .short_alias('?')
        .long("help")
        .action(ArgAction::Help)
        .help("Prints this text")
        .help_heading("Flags");
    T::command()
        .mut_args(|arg| if arg.is_positional() { arg } else { arg.help_heading("Flags") })
        .no_binary_name(true)
        .disable_help_flag(true)
        .disable_version_flag(true)
        .arg(help)
        .infer_long_args(true)
        .args_override_self(true)
        .next_line_help(true)
        .term_width(columns())
}

/// The width of a help text: the terminal's, within bounds.
pub fn columns() -> usize {
    stdio::columns().map_or(HELP_WIDTH, |columns| columns.clamp(NARROWEST, HELP_WIDTH))
}

/// All flags of a command, in colours where they are wanted.
pub fn help_of(mut command: clap::Command) -> String {
    let help = command.render_help();
    if stdio::is_coloured() { help.ansi().to_string() } else { help.to_string() }
}

/// clap's refusal in one line: flag (`name` where it is none), value, rule, and where to `see` more.
pub fn refused(command: &clap::Command, error: &clap::Error, name: &str, see: &str) -> Error {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    let written = text(ContextKind::InvalidArg).unwrap_or_default();
    let long = written.split([' ', '=', '[']).next().unwrap_or_default();
    let arg = long.strip_prefix("--").and_then(|long| command.get_arguments().find(|arg| arg.get_long() == Some(long)));
    let flag = arg.map_or_else(|| name.to_owned(), shown);
    let value = text(ContextKind::InvalidValue).unwrap_or_default();
    let rule = match (error.source(), error.kind(), error.get(ContextKind::ValidValue)) {
        (_, ErrorKind::UnknownArgument, _) if written.starts_with('-') => {
            return Error::usage(format!("{written} is not a flag of {name}; {see}"));
        }
        (_, ErrorKind::UnknownArgument, _) => {
            return Error::usage(format!("{name} takes no further argument, got '{written}'; {see}"));
        }
        (_, ErrorKind::InvalidUtf8, _) => {
            return Error::usage(format!("a value that must be text is not UTF-8; {see}"));
        }
        (_, ErrorKind::TooManyValues, _) => return Error::usage(format!("{flag} takes no value; {see}")),
        (Some(rule), ..) => rule.to_string(),
        (_, _, Some(ContextValue::Strings(names))) if !names.is_empty() => {
            format!("it must be one of {}", names.join(", "))
        }
        _ => "it must not be empty".to_owned(),
    };
    if is_secret(&flag, &value) {
        Error::usage(format!("{flag}: {rule}; {see}"))
    } else {
        Error::usage(format!("{flag} '{value}': {rule}; {see}"))
    }
}
