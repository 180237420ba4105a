//! The command `doctor`: its words.

use std::ffi::OsString;

use crate::cli::Command;
use crate::cli::values::processors;
use crate::error::{Error, Result};
use crate::plan::Checkup;

/// The word in the place of the first flag.
pub const WORD: &str = "doctor";

const USAGE: &str = "\
Names what makes this machine unfit for measuring: the value found, why it matters, what to do

Usage: triton-bench doctor [--cpus LIST] [--worker-cpus LIST]

      --cpus LIST
          Processors that the run would be pinned to, such as `0,2-5`. Default: all
      --worker-cpus LIST
          Processors that its issuing threads would be pinned to. Default: as --cpus
  -h, --help
          Prints this text

A line per check: `ok`, `note` (matters to some runs) or `warning` (figures are worse, or spread more, than they need). Exit codes:
0 looked, whatever was found; 99 bad flags.
";

/// Reads the words after `doctor`.
///
/// # Errors
/// A word that is no flag of this command, or a flag without a list of processors.
pub fn read(mut words: impl Iterator<Item = OsString>) -> Result<Command> {
    let mut wanted = Checkup::default();
    while let Some(word) = words.next() {
        let word = word.to_string_lossy().into_owned();
        let (flag, value) = word.split_once('=').map_or((&*word, None), |(flag, value)| (flag, Some(value.to_owned())));
        let list = match flag {
            "--cpus" => &mut wanted.cpus,
            "--worker-cpus" => &mut wanted.worker_cpus,
            "-h" | "-?" | "--help" => return Ok(Command::Help(USAGE.to_owned())),
            _ => return Err(Error::usage(format!("{word} is no flag of {WORD}; see triton-bench {WORD} --help"))),
        };
        let value =
            value.or_else(|| words.next().map(|value| value.to_string_lossy().into_owned())).unwrap_or_default();
        let refused = |rule| Error::usage(format!("{flag} '{value}': {rule}; see triton-bench {WORD} --help"));
        *list = processors(&value).map_err(refused)?.0;
    }
    Ok(Command::Doctor(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Command> {
        read(line.split_whitespace().map(Into::into))
    }

    #[test]
    fn flags_are_read() {
        let Ok(Command::Doctor(wanted)) = parse("--cpus 0,2 --worker-cpus=2-3") else { panic!("the line is good") };
        assert_eq!(
            (&*wanted.cpus, &*wanted.worker_cpus, &*wanted.pinned()),
            (&[0, 2][..], &[2, 3][..], &[0, 2, 3][..])
        );
        assert!(matches!(parse(""), Ok(Command::Doctor(wanted)) if wanted == Checkup::default()));
        assert!(matches!(parse("-h"), Ok(Command::Help(_))));
    }

    #[test]
    fn others_are_refused() {
        let refusal = |line| parse(line).unwrap_err().to_string();
        assert_eq!(refusal("-m x"), "-m is no flag of doctor; see triton-bench doctor --help");
        assert!(refusal("--cpus").starts_with("--cpus '': it must be a list"));
        assert!(refusal("--cpus x").starts_with("--cpus 'x': it must be a list"));
    }
}
