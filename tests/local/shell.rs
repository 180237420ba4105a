//! The program in a shell: help on terminals of every width, pipes, and what shells complete.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::support::{Terminal, artifact, skip};

const NAMES: [&str; 3] = ["triton-bench", "perf_analyzer", "perf_client"];

/// A shell command with the programs on its path.
fn shell(line: &str) -> Command {
    let programs = artifact("triton-bench").parent().unwrap().to_owned();
    let mut bash = Command::new("bash");
    bash.args(["-o", "pipefail", "-c", line]);
    bash.env("PATH", format!("{}:{}", programs.display(), std::env::var("PATH").unwrap()));
    bash.env_remove("NO_COLOR");
    bash
}

fn said(output: &Output) -> (String, String) {
    (String::from_utf8_lossy(&output.stdout).into_owned(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// What a command sends to a terminal of so many columns, where `variables` are set.
fn on_terminal(line: &str, columns: u16, variables: &str) -> String {
    let end = "=the-end=";
    let terminal = Terminal::start(&shell(&format!("{variables} {line}; echo {end}")), 24, columns);
    terminal.wait_for(end);
    let text = terminal.bytes().replace('\r', "");
    terminal.finish();
    text.split(end).next().unwrap().to_owned()
}

/// A text without what colours it.
fn plain(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let first = parts.next().unwrap().to_owned();
    parts.fold(first, |plain, part| plain + part.split_once('m').unwrap().1)
}

#[test]
fn help_is_as_wide_as_the_terminal() {
    for (columns, widest) in [(60, 60), (80, 80), (200, 110)] {
        for line in [
            "triton-bench --help",
            "triton-bench help measurement",
            "triton-bench tune --help",
            "triton-bench models --help",
            "triton-bench doctor -h",
            "perf_analyzer --help",
            "perf_client -h",
        ] {
            let text = plain(&on_terminal(line, columns, ""));
            // A flag and its form are not torn, nor is a line of usage.
            let lines = text.lines().filter(|line| !line.trim_start().starts_with(['-', 'U']));
            let longest = lines.max_by_key(|line| line.chars().count()).unwrap();
            let width = longest.chars().count();
            assert!(width <= widest, "{line} at {columns}: {width} columns: {longest}");
            // Whatever is narrower wastes lines; the longest word may be where it breaks.
            assert!(width + 25 > widest, "{line} at {columns}: only {width} columns: {longest}");
        }
    }
}

#[test]
fn the_short_help_is_one_screen() {
    let text = plain(&on_terminal("triton-bench -h", 80, ""));
    assert!(text.lines().count() < 24 && text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn colours_are_for_terminals_that_want_them() {
    let coloured = |line: &str, variables: &str| on_terminal(line, 80, variables).contains('\x1b');
    for name in ["triton-bench", "perf_analyzer"] {
        let line = format!("{name} --help");
        assert!(coloured(&line, ""), "{name}");
        assert!(coloured(&line, "NO_COLOR="), "an empty variable is none");
        assert!(!coloured(&line, "NO_COLOR=1") && !coloured(&line, "TERM=dumb"), "{name}");
        assert!(!coloured(&format!("{line} | cat"), ""), "{name}: a pipe is no terminal");
    }
}

#[test]
fn a_reader_that_has_seen_enough_ends_it_quietly() {
    for line in [
        "triton-bench --help",
        "triton-bench -h",
        "triton-bench help",
        "triton-bench man",
        "perf_analyzer --help",
        "triton-bench completions zsh",
        "triton-bench doctor",
    ] {
        let output = shell(&format!("{line} | head -1")).output().unwrap();
        let (text, complaint) = said(&output);
        assert!(output.status.success() && complaint.is_empty(), "{line}: {:?} {complaint}", output.status);
        assert_eq!(text.lines().count(), 1, "{line}");
    }
}

#[test]
fn each_name_says_who_it_is() {
    for (name, stream) in NAMES.into_iter().zip([1, 2, 2]) {
        let output = shell(&format!("{name} --version {stream}>&1 {}>/dev/null", 3 - stream)).output().unwrap();
        let begins = if name == "triton-bench" { "triton-bench 0." } else { "Perf Analyzer Version 2.51.0" };
        let (text, _) = said(&output);
        assert!(output.status.success() && text.starts_with(begins), "{name}: {text}");
    }
}

/// The file that `completions` makes for a shell.
fn completions(folder: &Path, which: &str, name: &str) -> String {
    let file = folder.join(format!("{which}-{name}"));
    let output = shell(&format!("triton-bench completions {which} {name}")).output().unwrap();
    assert!(output.status.success());
    fs::write(&file, output.stdout).unwrap();
    file.display().to_string()
}

/// Lines to complete, what must be offered, and what must not.
const COMPLETED: &[(&str, &[&str], &[&str])] = &[
    ("triton-bench --conc", &["--concurrency-range"], &["--cpus"]),
    ("triton-bench tu", &["tune"], &["doctor"]),
    ("triton-bench --service-kind ", &["triton_c_api", "dynamic_grpc"], &["KIND"]),
    ("triton-bench -i ", &["http", "grpc"], &[]),
    ("triton-bench tune --obj", &["--objective"], &[]),
    ("triton-bench doctor --", &["--worker-cpus"], &["--model"]),
    ("triton-bench trace-summary --s", &["--slowest"], &[]),
    ("triton-bench help ", &["tune", "measurement"], &[]),
    ("triton-bench completions ", &["bash", "zsh", "fish"], &[]),
    ("perf_analyzer --conc", &["--concurrency-range"], &[]),
];

/// Holds what a shell offers for each line to what it should.
fn check(which: &str, offered: impl Fn(&str, &str) -> Output) {
    let folder = tempfile::tempdir().unwrap();
    for (line, wanted, unwanted) in COMPLETED {
        let file = completions(folder.path(), which, line.split(' ').next().unwrap());
        let (text, complaint) = said(&offered(&file, line));
        let words: Vec<&str> = text.split(|letter: char| letter.is_whitespace()).collect();
        assert!(complaint.is_empty(), "{which}, '{line}': {complaint}");
        assert!(wanted.iter().all(|word| words.contains(word)), "{which}, '{line}' lacks {wanted:?}: {text}");
        assert!(unwanted.iter().all(|word| !words.contains(word)), "{which}, '{line}' has one of {unwanted:?}: {text}");
    }
}

#[test]
fn bash_completes_flags_commands_and_values() {
    // As bash itself does it: the words of the line, and the function that is registered for the first.
    let script = r#"
        source "$1"; COMP_WORDS=($2); [[ $2 == *' ' ]] && COMP_WORDS+=('')
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); compopt() { :; }
        call=$(complete -p "${COMP_WORDS[0]}"); call=${call#*-F }
        ${call%% *} "${COMP_WORDS[0]}" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}""#;
    check("bash", |file, line| Command::new("bash").args(["-c", script, "bash", file, line]).output().unwrap());
}

#[test]
fn fish_completes_flags_commands_and_values() {
    if !has("fish") {
        return;
    }
    let script = "source $argv[1]; complete -C $argv[2]";
    check("fish", |file, line| Command::new("fish").args(["--no-config", "-c", script, file, line]).output().unwrap());
}

#[test]
fn zsh_completes_flags_commands_and_values() {
    if !has("zsh") {
        return;
    }
    for (line, wanted, unwanted) in COMPLETED {
        let folder = tempfile::tempdir().unwrap();
        let file = completions(folder.path(), "zsh", line.split(' ').next().unwrap());
        // Only its line editor completes, and only on a terminal.
        let mut zsh = Command::new("zsh");
        zsh.args(["-f", "-i"]).current_dir(folder.path());
        let mut terminal = Terminal::start(&zsh, 50, 200);
        terminal.press(&format!("PS1=; autoload -Uz compinit; compinit -u -D; source {file}; clear; print rea''dy\n"));
        terminal.wait_for("ready");
        terminal.press(&format!("{line}\t"));
        terminal.wait_until("the line", |screen| screen.contains(line.trim_end()));
        terminal.press("\t");
        let shows = |screen: &str, word: &str| {
            screen.split(|letter: char| letter.is_whitespace() || letter == '=').any(|shown| shown == word)
        };
        let screen = terminal.wait_until(line, |screen| wanted.iter().all(|word| shows(screen, word)));
        assert!(unwanted.iter().all(|word| !shows(&screen, word)), "'{line}' has one of {unwanted:?}: {screen}");
        assert!(!screen.contains("not found") && !screen.contains("bad pattern"), "'{line}': {screen}");
        terminal.signal(9);
        terminal.hang_up();
    }
}

fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        skip(&format!("{program} is not installed; scripts/test does that"));
    }
    found
}
