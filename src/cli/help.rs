//! The help texts.

use std::ffi::OsString;

use clap::Parser;

use crate::cli::Command;
use crate::cli::word::{self, Called, Word, Words, help_of};
use crate::error::{Error, Result};

/// The command `help`.
pub const WORD: Word = Word { name: "help", flags: word::flags::<Help>, read };

/// Prints all flags of a run, those of a section, or a command's.
#[derive(Parser, Debug)]
#[command(override_usage = "triton-bench help [SECTION|COMMAND]")]
struct Help {
    /// The first letters of a section's title, or a command
    name: Option<String>,
}

/// The usual flags and examples, on one screen.
const SHORT: &str = "\
Measures inference servers: Triton inside this process, or a server on the network

Usage: triton-bench -m MODEL [FLAGS]

  -m MODEL                        the model to measure
  --model-repository DIR          measure in this process, with the models of this directory
  -u HOST:PORT, -i http|grpc      or measure a server on the network
  --concurrency-range 1:16        keep so many requests outstanding, level after level
  --request-rate-range 100:500    or send so many requests a second
  --input-data FILE               what requests carry; random by default
  --async                         wait on no thread for each request
  --percentile 99                 judge by this percentile
  -f FILE, --summary-file FILE    write the figures as CSV, the whole result as JSON
  --require 'p99<20ms'            end with 6 where this does not hold

Examples:
  triton-bench -m resnet50 --model-repository /models --concurrency-range 1:8
  triton-bench -m resnet50 -u server:8001 -i grpc --request-rate-range 100:500:100 --percentile 99
  triton-bench compare yesterday.json today.json
";

/// The usual flags, and the names of all commands.
pub fn short(called: &Called) -> String {
    format!("{SHORT}\nCommands: {}. All flags: --help\n", called.names())
}

/// The flags of the section whose title begins so, in any case.
///
/// # Errors
/// Where there is none, with those that there are.
pub fn section(command: clap::Command, name: &str) -> Result<String> {
    let mut titles: Vec<String> = Vec::new();
    for title in command.get_arguments().filter(|arg| !arg.is_hide_set()).filter_map(clap::Arg::get_help_heading) {
        if !titles.iter().any(|known| known == title) {
            titles.push(title.to_owned());
        }
    }
    let wanted = name.to_lowercase();
    let Some(found) = titles.iter().find(|title| title.to_lowercase().starts_with(&wanted)).cloned() else {
        let titles: Vec<String> = titles.iter().map(|title| format!("'{}'", first_words(title))).collect();
        return Err(Error::usage(format!(
            "--help '{name}': there is no such section; there are {}",
            titles.join(", ")
        )));
    };
    let hidden = |arg: clap::Arg| {
        let others = arg.get_help_heading() != Some(found.as_str());
        arg.hide(others)
    };
    Ok(help_of(command.mut_args(hidden).after_help("")))
}

/// The title without the explanation in brackets.
fn first_words(title: &str) -> &str {
    title.split(" (").next().unwrap_or(title)
}

/// Parses the arguments of `help`: a section or a command.
fn read(called: &Called, words: Words<'_>) -> Result<Command> {
    word::read(WORD.name, words, |Help { name }| {
        let Some(name) = name else { return Ok(Command::Help(help_of(called.run.clone()))) };
        match called.commands.iter().find(|word| word.name == name) {
            Some(word) => (word.read)(called, &mut ["--help".into()].into_iter()),
            None => section(called.run.clone(), &name).map(Command::Help),
        }
    })
}

/// The error for arguments that belong to no flag. If they may come from a header, which may contain a credential, they
/// are not shown.
pub fn stray(called: &Called, words: &[OsString], private: bool) -> Error {
    if private {
        let rule = "words that belong to no flag stand beside -H, whose value may have to be quoted";
        return Error::usage(format!("{} {rule}; see --help", words.len()));
    }
    let shown: Vec<String> = words.iter().map(|word| format!("'{}'", word.to_string_lossy())).collect();
    let rule = format!("no flag takes it, and it is no command ({})", called.names());
    Error::usage(format!("{}: {rule}; quote a value that has blanks; see --help", shown.join(" ")))
}
