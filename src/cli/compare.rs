//! The command line of `compare`.

use std::path::PathBuf;

use clap::Parser;

use crate::Command;
use crate::error::{Error, Result};
use crate::plan::Comparison;
use crate::subcommand::{self, Arguments, Subcommand};
use crate::values::share;

/// This command.
pub const SUBCOMMAND: Subcommand =
    Subcommand { name: "compare", flags: subcommand::flags::<Compare>, read: |_, arguments| read(arguments) };

const AFTER: &str = "The files are those of --summary-file. Each figure is `worse`, `better`, `same` or `undecided` \
    within these two runs, or, where one was made with --restarts, across starts of the server, which differ by more. Exit \
    codes: 0 compared, whatever was found; 99 bad flags, or files that cannot be compared.";

/// Compares two results: what changed from A to B, level by level, and how certain that is.
#[derive(Parser, Debug)]
#[command(override_usage = "triton-bench compare A.json B.json [--margin SHARE] [--force]", after_help = AFTER)]
struct Compare {
    #[arg(hide = true)]
    files: Vec<PathBuf>,

    /// Changes up to this share count as no change
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = share)]
    margin: f64,

    /// Compares results of different models, loads or machines
    #[arg(long)]
    force: bool,
}

/// Parses the arguments of `compare`: flags, and two files.
fn read(arguments: Arguments<'_>) -> Result<Command> {
    subcommand::read(SUBCOMMAND.name, arguments, |Compare { files, margin, force }| {
        let [reference, other] = <[PathBuf; 2]>::try_from(files).map_err(|files| {
            let count = files.len();
            Error::usage(format!(
                "compare takes two files of --summary-file, got {count}; see triton-bench compare --help"
            ))
        })?;
        Ok(Command::Compare(Comparison { reference, other, margin, force }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Command> {
        read(&mut line.split_whitespace().map(Into::into))
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
        assert!(refusal("a b -m").contains("-m is not a flag of compare"));
        assert!(refusal("a b --margin x").starts_with("--margin 'x': "));
    }
}
