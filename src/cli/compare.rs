//! The command `compare`: its words.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::cli::Command;
use crate::cli::values::share;
use crate::error::{Error, Result};
use crate::plan::Comparison;

/// The word in the place of the first flag.
pub const WORD: &str = "compare";

const USAGE: &str = "\
Holds one result against another: what changed from A to B, level by level, and how sure that is

Usage: triton-bench compare A.json B.json [--margin SHARE] [--force]

      --margin SHARE
          Changes up to this share count as none. Default: 5%
      --force
          Compares results of different models, loads or machines
  -h, --help
          Prints this text

The files are those of --summary-file. Each figure is `worse`, `better`, `same` or `undecided` within these two runs: a run that
is started again may differ by more (--restarts, or several runs, tell). Exit codes: 0 compared, whatever was found; 99 bad flags, or
files that cannot be compared.
";

/// Reads the words after `compare`.
///
/// # Errors
/// A word that is no flag of this command, or other than two files.
pub fn read(mut words: impl Iterator<Item = OsString>) -> Result<Command> {
    let (mut files, mut margin, mut force) = (Vec::new(), 0.05, false);
    while let Some(word) = words.next() {
        let text = word.to_string_lossy().into_owned();
        let (flag, value) = text.split_once('=').map_or((&*text, None), |(flag, value)| (flag, Some(value.to_owned())));
        match flag {
            "-h" | "-?" | "--help" => return Ok(Command::Help(USAGE.to_owned())),
            "--force" => force = true,
            "--margin" => {
                let next = || words.next().map(|value| value.to_string_lossy().into_owned());
                let value = value.or_else(next).unwrap_or_default();
                let refused =
                    |rule| Error::usage(format!("--margin '{value}': {rule}; see triton-bench {WORD} --help"));
                margin = share(&value).map_err(refused)?;
            }
            _ if text.starts_with('-') && text.len() > 1 => {
                return Err(Error::usage(format!("{text} is no flag of {WORD}; see triton-bench {WORD} --help")));
            }
            _ => files.push(PathBuf::from(word)),
        }
    }
    let [reference, other] = <[PathBuf; 2]>::try_from(files).map_err(|files| {
        Error::usage(format!(
            "{WORD} takes two files of --summary-file, and got {}; see triton-bench {WORD} --help",
            files.len()
        ))
    })?;
    Ok(Command::Compare(Comparison { reference, other, margin, force }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Command> {
        read(line.split_whitespace().map(Into::into))
    }

    #[test]
    fn flags_are_read() {
        let Ok(Command::Compare(wanted)) = parse("a.json --margin=2% b.json --force") else {
            panic!("the line is good")
        };
        let expected = Comparison { reference: "a.json".into(), other: "b.json".into(), margin: 0.02, force: true };
        assert_eq!(wanted, expected);
        assert!(matches!(parse("-h"), Ok(Command::Help(_))));
    }

    #[test]
    fn others_are_refused() {
        let refusal = |line| parse(line).unwrap_err().to_string();
        assert!(refusal("a").contains("takes two files"));
        assert!(refusal("a b c").contains("got 3"));
        assert!(refusal("a b -m").contains("-m is no flag of compare"));
        assert!(refusal("a b --margin x").starts_with("--margin 'x': "));
    }
}
