//! The help texts.

use std::ffi::OsString;

use clap::Parser;

use crate::Command;
use crate::error::{Error, Result};
use crate::getopt::{self, nearest};
use crate::habits;
use crate::secrets::names_secret;
use crate::subcommand::{self, Arguments, Called, Subcommand, help_of};

/// The command `help`.
pub const SUBCOMMAND: Subcommand = Subcommand { name: "help", flags: subcommand::flags::<Help>, read };

/// Prints all flags of a run, those of a section, or a command's.
#[derive(Parser, Debug)]
#[command(override_usage = "triton-bench help [SECTION|COMMAND]")]
struct Help {
    /// The first letters of a section's title, or a command
    name: Option<String>,
}

/// Width of the usual flags, which fit any terminal.
const SHORT_WIDTH: usize = 80;
/// The usual flags and examples, on one screen.
const SHORT: &str = "\
Measures inference servers: Triton in this process, or one on the network

Usage: triton-bench -m MODEL [FLAGS]

  -m MODEL                        the model to measure
  --model-repository DIR          run it in this process, from this directory
  -u HOST:PORT, -i http|grpc      or measure it on a server on the network
  --concurrency-range 1:16        requests outstanding, level by level
  --request-rate-range 100:500    or requests a second
  --input-data FILE               what requests carry; random by default
  --async                         no thread waits for each request
  --percentile 99                 judge by this percentile
  -f FILE, --summary-file FILE    figures as CSV, the whole result as JSON
  --require 'p99<20ms'            exit with code 6 if this is not met

Examples:
  triton-bench -m resnet50 --model-repository /models --concurrency-range 1:8
  triton-bench -m resnet50 -u server:8001 -i grpc --request-rate-range 100:500
  triton-bench init model.onnx          (makes a repository of a model's file)
";

/// The usual flags, and the names of all commands.
pub fn short(called: &Called) -> String {
    let mut lines = vec!["Commands:".to_owned()];
    for name in called.names().split_inclusive(", ") {
        match lines.last_mut().filter(|line| line.len() + name.len() < SHORT_WIDTH) {
            Some(line) => *line += &format!(" {}", name.trim_end()),
            None => lines.push(format!("  {}", name.trim_end())),
        }
    }
    let names = lines.join("\n");
    format!("{SHORT}\n{names}\nAll flags: --help. Those of a section or command: --help load, --help tune\n")
}

/// The flags of the section whose title begins so, in any case, or a command's.
///
/// # Errors
/// If there is none, with those that there are.
pub fn about(called: &Called, name: &str) -> Result<Command> {
    if let Some(word) = called.commands.iter().find(|word| word.name == name) {
        return (word.read)(called, &mut ["--help".into()].into_iter());
    }
    let titles = titles(&called.run);
    let wanted = name.to_lowercase();
    let Some(found) = titles.iter().find(|title| title.to_lowercase().starts_with(&wanted)).cloned() else {
        let sections: Vec<String> = titles.iter().map(|title| format!("'{}'", first_words(title))).collect();
        let nearest = nearest(&name.to_lowercase(), called.commands.iter().map(|word| word.name));
        return Err(Error::usage(format!(
            "help '{name}': there is no such section or command{}; sections: {}; commands: {}",
            nearest.map_or_else(String::new, |name| format!(": did you mean {name}?")),
            sections.join(", "),
            called.names()
        )));
    };
    let hidden = |arg: clap::Arg| {
        let others = arg.get_help_heading() != Some(found.as_str());
        arg.hide(others)
    };
    Ok(Command::Help(help_of(called.run.clone().mut_args(hidden).after_help(""))))
}

/// The titles of all sections, in order.
pub fn titles(run: &clap::Command) -> Vec<String> {
    let mut titles: Vec<String> = Vec::new();
    for title in run.get_arguments().filter(|arg| !arg.is_hide_set()).filter_map(clap::Arg::get_help_heading) {
        if !titles.iter().any(|other| other == title) {
            titles.push(title.to_owned());
        }
    }
    titles
}

/// The title without the explanation in brackets.
fn first_words(title: &str) -> &str {
    title.split(" (").next().unwrap_or(title)
}

/// Parses the arguments of `help`: a section or a command.
fn read(called: &Called, arguments: Arguments<'_>) -> Result<Command> {
    subcommand::read(SUBCOMMAND.name, arguments, |Help { name }| match name {
        Some(name) => about(called, &name),
        None => Ok(Command::Help(help_of(called.run.clone()))),
    })
}

/// The error for arguments that belong to no flag. If they may come from a header, which may contain a credential, they
/// are not shown.
pub fn stray(called: &Called, arguments: &[OsString], private: bool) -> Error {
    if private {
        let rule = "words next to -H belong to no flag; its value may have to be quoted";
        return Error::usage(format!("{} {rule}; see --help", arguments.len()));
    }
    let shown: Vec<String> = arguments.iter().map(|word| format!("'{}'", word.to_string_lossy())).collect();
    let first = arguments.first().map(|word| word.to_string_lossy()).unwrap_or_default();
    if let Some(answer) = habits::stray(&first) {
        return Error::usage(format!("{}: no flag takes it; {answer}; see --help", shown.join(" ")));
    }
    let meant = nearest(&first, called.commands.iter().map(|word| word.name)).map_or_else(
        || format!(" ({}); quote a value that contains spaces;", called.names()),
        |name| format!(": did you mean {name}?"),
    );
    Error::usage(format!("{}: no flag takes it, and it is not a command{meant} see --help", shown.join(" ")))
}

/// What was refused, with a word on a long flag that was written with one hyphen, which is read letter by letter. Beside a header any
/// word may be a part of a credential.
pub fn with_hyphens(called: &Called, error: Error, arguments: &[OsString]) -> Error {
    let has_header = arguments.iter().any(|word| names_secret(&word.to_string_lossy()));
    let hyphens = arguments.iter().find_map(|word| getopt::with_one_hyphen(&called.run, word));
    let Some((word, flag)) = hyphens.filter(|_| !has_header) else { return error };
    let refused = error.to_string();
    let refused = refused.strip_suffix("see --help").unwrap_or(&refused).trim_end_matches([' ', ';']);
    Error::usage(format!(
        "{refused}; {word} was read letter by letter, long flags have two hyphens: {flag}; see --help"
    ))
}
