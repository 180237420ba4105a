//! The commands `completions` and `man`: what a shell and `man` know of the flags, made from the flags themselves.

use clap::{Parser, ValueEnum as _};
use clap_complete::Shell;

use crate::cli::Command;
use crate::cli::word::{self, Called, Word, Words};
use crate::error::{Error, Result};

/// The command `completions`.
pub const COMPLETIONS: Word = Word { name: "completions", flags: word::flags::<Completions>, read: completions };
/// The command `man`.
pub const MAN: Word = Word { name: "man", flags: word::flags::<Man>, read: man };

/// The names of the program, its own first.
const NAMES: [&str; 3] = ["triton-bench", "perf_analyzer", "perf_client"];

/// Prints the completion of a shell.
#[derive(Parser, Debug)]
#[command(
    override_usage = "triton-bench completions SHELL [NAME]",
    after_help = "For bash, for one user:\n  triton-bench completions bash > ~/.local/share/bash-completion/completions/triton-bench"
)]
struct Completions {
    /// The shell
    shell: Option<Shell>,

    /// The program's name
    #[arg(default_value = NAMES[0], value_parser = NAMES)]
    name: String,
}

/// Prints the manual page.
#[derive(Parser, Debug)]
#[command(override_usage = "triton-bench man | man -l -")]
struct Man {}

/// Reads the words after `completions`: the shell, and a name of the program.
fn completions(called: &Called, words: Words<'_>) -> Result<Command> {
    word::read(COMPLETIONS.name, words, |Completions { shell, name }| {
        let shells = || Shell::value_variants().iter().map(Shell::to_string).collect::<Vec<_>>().join(", ");
        let rule = "completions takes the name of a shell";
        let shell = shell.ok_or_else(|| Error::usage(format!("{rule}: {}", shells())))?;
        // The others take flags alone.
        let command = if name == NAMES[0] { with_commands(called) } else { called.run.clone().no_binary_name(false) };
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut { command }, name, &mut text);
        Ok(Command::Help(String::from_utf8_lossy(&text).into_owned()))
    })
}

/// Reads the words after `man`: none.
fn man(called: &Called, words: Words<'_>) -> Result<Command> {
    word::read(MAN.name, words, |Man {}| {
        let mut page = Vec::new();
        let rendered =
            clap_mangen::Man::new(with_commands(called).version(env!("CARGO_PKG_VERSION"))).render(&mut page);
        rendered.map_err(|error| Error::output(format!("the manual page cannot be made: {error}")))?;
        Ok(Command::Help(String::from_utf8_lossy(&page).into_owned()))
    })
}

/// The flags of a run, and all commands with theirs.
fn with_commands(called: &Called) -> clap::Command {
    let commands = called.commands.iter().map(|word| (word.flags)().name(word.name));
    called.run.clone().no_binary_name(false).disable_help_subcommand(true).subcommands(commands)
}
