//! The commands `completions` and `man`: shell completions and a manual page, generated from the flags.

use clap::builder::PossibleValuesParser;
use clap::{ArgAction, Parser, ValueEnum as _, ValueHint};
use clap_complete::Shell;

use crate::error::{Error, Result};
use crate::model::KINDS;
use crate::subcommand::{self, Arguments, Called, Subcommand};
use crate::{Command, help};

/// The command `completions`.
pub const COMPLETIONS: Subcommand =
    Subcommand { name: "completions", flags: subcommand::flags::<Completions>, read: completions };
/// The command `man`.
pub const MAN: Subcommand = Subcommand { name: "man", flags: subcommand::flags::<Man>, read: man };

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
fn completions(called: &Called, arguments: Arguments<'_>) -> Result<Command> {
    subcommand::read(COMPLETIONS.name, arguments, |Completions { shell, name }| {
        let shells = || Shell::value_variants().iter().map(Shell::to_string).collect::<Vec<_>>().join(", ");
        let rule = "completions takes the name of a shell";
        let shell = shell.ok_or_else(|| Error::usage(format!("{rule}: {}", shells())))?;
        // The others take flags alone.
        let commands = called.commands.iter().filter(|_| name == NAMES[0]);
        let commands: Vec<clap::Command> =
            commands.map(|word| without_hidden_flags(word.name, &with_names(called, word))).collect();
        let positions = positions(shell, &commands);
        let mut command =
            without_hidden_flags(NAMES[0], &called.run).disable_help_subcommand(true).subcommands(commands);
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut command, name, &mut text);
        // For bash it spells the hyphen of a program's name in two ways, so that no command is ever found; for fish it takes a flag
        // whose value is about to be typed for an error.
        let text = String::from_utf8_lossy(&text).replace("triton__subcmd__bench", "triton__bench");
        let text = text.replace("2>/dev/null\n    or return\n", "2>/dev/null\n    or return 0\n");
        Ok(Command::Help(text + &positions))
    })
}

/// Reads the words after `man`: none.
fn man(called: &Called, arguments: Arguments<'_>) -> Result<Command> {
    subcommand::read(MAN.name, arguments, |Man {}| {
        let mut page = Vec::new();
        let rendered =
            clap_mangen::Man::new(with_commands(called).version(env!("CARGO_PKG_VERSION"))).render(&mut page);
        rendered.map_err(|error| Error::output(format!("the manual page cannot be made: {error}")))?;
        Ok(Command::Help(String::from_utf8_lossy(&page).into_owned()))
    })
}

/// A command's flags, and the words that may follow it.
fn with_names(called: &Called, word: &Subcommand) -> clap::Command {
    let command = (word.flags)();
    if word.name != help::SUBCOMMAND.name {
        return command;
    }
    let title = |title: String| title.to_lowercase().split([' ', '-']).next().unwrap_or_default().to_owned();
    let sections = help::titles(&called.run).into_iter().map(title);
    let names = called.commands.iter().map(|word| word.name.to_owned()).chain(sections);
    command.mut_arg("name", |arg| arg.value_parser(one_of(names)))
}

/// A value that is one of these words. clap keeps them as long as the program runs, which prints them and ends.
fn one_of(names: impl Iterator<Item = String>) -> PossibleValuesParser {
    PossibleValuesParser::new(names.map(|name| &*name.leak()))
}

/// Lines for fish about words that follow a command; other shells get them from the command itself.
fn positions(shell: Shell, commands: &[clap::Command]) -> String {
    let line = |command: &clap::Command| {
        let values = command.get_positionals().flat_map(clap::Arg::get_possible_values);
        let names: Vec<String> = values.map(|value| value.get_name().to_owned()).collect();
        let condition = format!("__fish_triton_bench_using_subcommand {}", command.get_name());
        (!names.is_empty())
            .then(|| format!("complete -c {} -n \"{condition}\" -f -a \"{}\"\n", NAMES[0], names.join(" ")))
    };
    if shell == Shell::Fish { commands.iter().filter_map(line).collect() } else { String::new() }
}

/// A command without the flags that are taken but not shown, such as old spellings, which a shell would offer.
fn without_hidden_flags(name: &'static str, command: &clap::Command) -> clap::Command {
    let flags = command.get_arguments().filter(|arg| arg.is_positional() || !arg.is_hide_set()).map(offered);
    let shown = clap::Command::new(name).args(flags).disable_help_flag(command.is_disable_help_flag_set());
    command.get_about().cloned().into_iter().fold(shown, clap::Command::about)
}

/// A flag with what a shell may offer for its value: words where only they are taken, else files or folders where it names some.
fn offered(arg: &clap::Arg) -> clap::Arg {
    // -? is for whoever guesses it; fish would look for files of one letter.
    if arg.get_id() == "help" {
        return clap::Arg::new("help").short('h').long("help").action(ArgAction::Help).help("Prints a text like this");
    }
    let form = arg.get_value_names().and_then(<[_]>::first).map_or("", |name| name.as_str());
    if arg.is_positional() || !arg.get_action().takes_values() || !arg.get_possible_values().is_empty() {
        return arg.clone();
    }
    let mut alternatives = form.split('|');
    // zsh would read brackets and colons of a form as its own.
    let arg = arg.clone().value_name("VALUE");
    match form {
        "KIND" => arg.value_parser(PossibleValuesParser::new(KINDS.map(|(word, _)| word))),
        _ if form.contains('|') && alternatives.all(is_word) => {
            arg.value_parser(one_of(form.split('|').map(str::to_owned)))
        }
        "DIR" => arg.value_hint(ValueHint::DirPath),
        _ if form.contains("FILE") || form.contains("PATH") => arg.value_hint(ValueHint::FilePath),
        _ => arg.value_hint(ValueHint::Other),
    }
}

/// Whether a part of a flag's form stands for itself: those in capital letters stand for something else, except for Triton's own.
fn is_word(part: &str) -> bool {
    let stands_for_itself =
        |part: &str| part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    stands_for_itself(part) || ["OFF", "TIMESTAMPS", "TENSORS", "PEM", "DER", "ISO8601"].contains(&part)
}

/// The flags of a run, and all commands with theirs.
fn with_commands(called: &Called) -> clap::Command {
    let commands = called.commands.iter().map(|word| (word.flags)().name(word.name));
    called.run.clone().no_binary_name(false).disable_help_subcommand(true).subcommands(commands)
}
