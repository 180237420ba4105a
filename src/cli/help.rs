//! What the program says of itself.

use std::ffi::OsString;

use crate::cli::Command;
use crate::error::{Error, Result};

/// The word in the place of the first flag.
pub const WORD: &str = "help";

/// The usual flags and examples, on one screen.
pub const SHORT: &str = "\
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

Commands: compare, doctor, trace-summary, help. All flags: --help. Those of a section: --help load, for one.
";

/// All flags.
pub fn whole(mut command: clap::Command) -> String {
    command.render_help().to_string()
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
    Ok(whole(command.mut_args(hidden).after_help("")))
}

/// The title without what it explains in brackets.
fn first_words(title: &str) -> &str {
    title.split(" (").next().unwrap_or(title)
}

/// Reads the words after `help`.
///
/// # Errors
/// As [`section`].
pub fn read(command: clap::Command, mut words: impl Iterator<Item = OsString>) -> Result<Command> {
    let text = match words.next() {
        Some(name) => section(command, &name.to_string_lossy())?,
        None => whole(command),
    };
    Ok(Command::Help(text))
}

/// That words belong to no flag. Where they may be torn from a header, which may hold a credential, they are not shown.
pub fn stray(words: &[OsString], private: bool) -> Error {
    if private {
        let rule = "words that belong to no flag stand beside -H, whose value may have to be quoted";
        return Error::usage(format!("{} {rule}; see --help", words.len()));
    }
    let shown: Vec<String> = words.iter().map(|word| format!("'{}'", word.to_string_lossy())).collect();
    let rule = "no flag takes it, and it is no command (compare, doctor, trace-summary, help)";
    Error::usage(format!("{}: {rule}; quote a value that has blanks; see --help", shown.join(" ")))
}
