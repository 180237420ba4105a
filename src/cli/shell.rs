//! The commands `completions` and `man`: shell completions and a manual page, generated from the flags.

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
        let commands = called.commands.iter().filter(|_| name == NAMES[0]);
        let commands = commands.map(|word| without_hidden_flags(word.name, &(word.flags)()));
        let mut command =
            without_hidden_flags(NAMES[0], &called.run).disable_help_subcommand(true).subcommands(commands);
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut command, name, &mut text);
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

/// A command without the flags that are taken but not shown, such as old spellings, which a shell would offer.
fn without_hidden_flags(name: &'static str, command: &clap::Command) -> clap::Command {
    let flags = command.get_arguments().filter(|arg| arg.is_positional() || !arg.is_hide_set()).cloned();
    let shown = clap::Command::new(name).args(flags).disable_help_flag(command.is_disable_help_flag_set());
    command.get_about().cloned().into_iter().fold(shown, clap::Command::about)
}

/// The flags of a run, and all commands with theirs.
fn with_commands(called: &Called) -> clap::Command {
    let commands = called.commands.iter().map(|word| (word.flags)().name(word.name));
    called.run.clone().no_binary_name(false).disable_help_subcommand(true).subcommands(commands)
}
