//! The command line of `models`: the flags of a run that concern the server.

use clap::Parser;

use crate::error::Result;
use crate::exit::Codes;
use crate::getopt::{self, CommandLine};
use crate::plan::Survey;
use crate::subcommand::{self, Arguments, Called, Subcommand, help_of};
use crate::{Command, command, config, help, secrets};

/// The command.
pub const SUBCOMMAND: Subcommand = Subcommand { name: "models", flags: || command().about(ABOUT), read };

const ABOUT: &str =
    "Lists the models that a repository or a server offers, with their tensors, and why any cannot be loaded";

const USAGE: &str = "\
triton-bench models --model-repository DIR [FLAGS]
       triton-bench models -u HOST:PORT [FLAGS]";

const AFTER: &str = "Flags about the server (headers, TLS, the embedded server's) are those of a run; see triton-bench --help. \
    Exit codes: 0 listed, 99 bad flags, no such model or no server.";

/// The flags that matter most, of all those of a run; for the help alone.
#[derive(Parser)]
#[command(about = ABOUT, override_usage = USAGE, after_help = AFTER)]
struct Usual {
    /// Only this model. Default: all
    #[arg(short, long, value_name = "NAME")]
    _model: Option<String>,

    /// Loads the models in this directory into this process, one after another, with the Triton of
    /// --triton-server-directory
    #[arg(long = "model-repository", value_name = "DIR")]
    _repository: Option<String>,

    /// Asks a server on the network, over -i http or -i grpc
    #[arg(short, long = "url", value_name = "HOST:PORT")]
    _url: Option<String>,
}

/// A name that no model has, because a run needs one.
const NONE: &str = "*";

/// Parses the arguments of `models`: flags of a run.
fn read(called: &Called, arguments: Arguments<'_>) -> Result<Command> {
    match getopt::read(&called.run, arguments)? {
        CommandLine::Help(_) | CommandLine::Version => Ok(Command::Help(help_of(subcommand::flags::<Usual>()))),
        CommandLine::Run(arguments, strays) if !strays.is_empty() => {
            Err(help::stray(called, &strays, secrets::may_hold_secret(&arguments)))
        }
        CommandLine::Run(arguments, _) => {
            let (mut arguments, ..) = config::arguments(&called.run, arguments)?;
            // Names that a run's file spreads requests over mean nothing here.
            arguments.retain(|word| !word.as_encoded_bytes().starts_with(b"--model-mix="));
            let named = arguments.iter().any(|word| word.as_encoded_bytes().starts_with(b"--model="));
            if !named {
                arguments.push(format!("--model={NONE}").into());
            }
            let plan = super::run(&called.run, arguments, Codes::Own)?;
            let only = named.then(|| plan.target.model.name.clone());
            Ok(Command::Models(Box::new(Survey { plan, only })))
        }
    }
}
