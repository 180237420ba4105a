//! The command `trace-summary`: its words.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::cli::Command;
use crate::error::{Error, Result};
use crate::plan::TraceFiles;

/// The word in the place of the first flag.
pub const WORD: &str = "trace-summary";

const USAGE: &str = "\
Summarises traces that a Triton server wrote: how long requests took, and where

Usage: triton-bench trace-summary [-t] FILE...

  -t, --show-trace
          Prints every trace too, with the time between its moments. Default: off
  -h, --help
          Prints this text

A server writes traces where it was started with --trace-config=triton,file=FILE, and traces requests as --trace-level,
--trace-rate and --trace-count of a run ask for. HTTP and gRPC requests are summarised apart, times are in microseconds.
";

/// Reads the words after `trace-summary`.
///
/// # Errors
/// Where there is no file, or a flag that is none of this command.
pub fn read(words: impl Iterator<Item = OsString>) -> Result<Command> {
    let (mut files, mut each, mut flags) = (Vec::new(), false, true);
    for word in words {
        match word.to_str() {
            Some("--") if flags => flags = false,
            Some("-t" | "--show-trace") if flags => each = true,
            Some("-h" | "-?" | "--help") if flags => return Ok(Command::Help(USAGE.to_owned())),
            Some(flag) if flags && flag.len() > 1 && flag.starts_with('-') => {
                return Err(Error::usage(format!("{flag} is no flag of {WORD}; see triton-bench {WORD} --help")));
            }
            _ => files.push(PathBuf::from(word)),
        }
    }
    if files.is_empty() {
        return Err(Error::usage(format!("{WORD} needs a trace file: triton-bench {WORD} [-t] FILE...")));
    }
    Ok(Command::TraceSummary(TraceFiles { files, each }))
}
