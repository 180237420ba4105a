//! The command line of `doctor`.

use clap::Parser;

use crate::Command;
use crate::error::Result;
use crate::plan::Checkup;
use crate::subcommand::{self, Arguments, Subcommand};
use crate::values::{Processors, processors};

/// This command.
pub const SUBCOMMAND: Subcommand =
    Subcommand { name: "doctor", flags: subcommand::flags::<Doctor>, read: |_, arguments| read(arguments) };

const AFTER: &str = "One line per check: `ok`, `note` (matters to some runs) or `warning` (figures are worse, or \
    spread more, than they need to be). Exit codes: 0 checked, whatever was found; 99 bad flags.";

/// Checks whether this machine is fit for measuring: the value found, why it matters, what to do.
#[derive(Parser, Debug)]
#[command(override_usage = "triton-bench doctor [--cpus LIST] [--worker-cpus LIST]", after_help = AFTER)]
struct Doctor {
    /// Processors that the run would be pinned to, such as `0,2-5`. Default: all
    #[arg(long, value_name = "LIST", value_parser = processors)]
    cpus: Option<Processors>,

    /// Processors that its issuing threads would be pinned to. Default: as --cpus
    #[arg(long, value_name = "LIST", value_parser = processors)]
    worker_cpus: Option<Processors>,
}

/// Parses the arguments of `doctor`: flags.
fn read(arguments: Arguments<'_>) -> Result<Command> {
    let list = |processors: Option<Processors>| processors.map_or_else(Vec::new, |list| list.0);
    subcommand::read(SUBCOMMAND.name, arguments, |Doctor { cpus, worker_cpus }| {
        Ok(Command::Doctor(Checkup { cpus: list(cpus), worker_cpus: list(worker_cpus) }))
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
        assert_eq!(refusal("-m x"), "-m is not a flag of doctor; see triton-bench doctor --help");
        assert!(refusal("--cpus").starts_with("--cpus '': it must not be empty"));
        assert!(refusal("--cpus x").starts_with("--cpus 'x': it must be a list"));
    }
}
