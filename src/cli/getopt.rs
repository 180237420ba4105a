//! Normalises a command line to `--flag` or `--flag=value`, with the rules of GNU `getopt_long`.
//!
//! perf_analyzer parses its command line with that function, and scripts depend on its rules: unambiguous prefixes of
//! flags, values that begin with a hyphen, `-p5000`, `-va`, ignored stray words. Clap then parses the typed values.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use clap::{Arg, ArgAction, Command};

use crate::error::{Error, Result};
use crate::habits::{self, Habit};
use crate::plan::flags;

/// What a command line asks for.
#[derive(Debug, PartialEq, Eq)]
pub enum CommandLine {
    /// `--help` stands in it, or `-h`, and perhaps the section that is wanted.
    Help(HelpForm),
    /// `--version` stands in it.
    Version,
    /// A run; every flag in its long form, values joined by `=`, and apart from them the words that belong to no flag.
    Run(Vec<OsString>, Vec<OsString>),
}

/// Which help is wanted.
#[derive(Debug, PartialEq, Eq)]
pub enum HelpForm {
    /// The usual flags, on one screen.
    Short,
    /// All flags.
    Whole,
    /// Those of a section.
    Section(String),
}

/// Flags that perf_analyzer has had, and what is there in their place.
const FORMER: &[(&str, &str)] = &[("schedule", "send times are in a file: use --fixed-schedule or --trace-replay")];

/// Whether perf_analyzer has a flag of that long name. A prefix that is unambiguous among these means one of them, whatever
/// other flags begin with it.
fn is_upstream(long: &str) -> bool {
    flags::find_long(long).is_some_and(|flag| flag.upstream && flag.name.len() > 2)
}

/// Reads the words after the program's name.
///
/// # Errors
/// If a flag is unknown, its prefix ambiguous, or its value missing or unwanted.
pub fn read(command: &Command, arguments: impl IntoIterator<Item = OsString>) -> Result<CommandLine> {
    let mut arguments = arguments.into_iter().peekable();
    let (mut run, mut strays) = (Vec::new(), Vec::new());
    while let Some(word) = arguments.next() {
        let bytes = word.as_bytes();
        let is_long = bytes.starts_with(b"--");
        let flags = match bytes {
            b"--" => break,
            [b'-', b'-', long @ ..] => vec![long_flag(command, long)?],
            [b'-', cluster @ ..] if !cluster.is_empty() => short_flags(command, cluster)?,
            _ => {
                strays.push(word);
                continue;
            }
        };
        for Flag { arg, attached } in flags {
            let name = arg.get_long().unwrap_or_default();
            let value = match (attached, need(arg)) {
                (None, Need::Always) => Some(arguments.next().ok_or_else(|| missing_value(arg))?),
                (None, Need::Maybe) => arguments.next_if(|next| is_boolean(next)),
                (Some(_), Need::Never) => return Err(unwanted_value(arg)),
                (attached, _) => attached,
            };
            match name {
                "help" => {
                    let section = arguments.next_if(|next| !next.as_bytes().starts_with(b"-"));
                    let section = section.map(|name| HelpForm::Section(name.to_string_lossy().into_owned()));
                    return Ok(CommandLine::Help(section.unwrap_or(if is_long {
                        HelpForm::Whole
                    } else {
                        HelpForm::Short
                    })));
                }
                "version" => return Ok(CommandLine::Version),
                _ => run.push(joined(name, value)),
            }
        }
    }
    strays.extend(arguments);
    Ok(CommandLine::Run(run, strays))
}

/// A flag's name in messages and the help: perf_analyzer's spelling, which is short if there is no long form.
pub fn shown(arg: &Arg) -> String {
    let long = arg.get_long().unwrap_or_default();
    match arg.get_short() {
        Some(short) if flags::find_long(long).is_none_or(|flag| flag.name.len() == 2) => format!("-{short}"),
        _ => format!("--{long}"),
    }
}

struct Flag<'a> {
    arg: &'a Arg,
    attached: Option<OsString>,
}

/// Whether a flag has a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// It is a switch.
    Never,
    /// A boolean may follow.
    Maybe,
    /// It has.
    Always,
}

/// Whether a flag has a value.
pub fn need(arg: &Arg) -> Need {
    match arg.get_action() {
        ArgAction::Set | ArgAction::Append => match arg.get_num_args() {
            Some(count) if count.min_values() == 0 => Need::Maybe,
            _ => Need::Always,
        },
        _ => Need::Never,
    }
}

/// `name`, `name=value` or a prefix of a name.
fn long_flag<'a>(command: &'a Command, text: &[u8]) -> Result<Flag<'a>> {
    let equals = text.iter().position(|&byte| byte == b'=');
    let (name, attached) = match equals {
        Some(at) => (&text[..at], Some(OsString::from_vec(text[at + 1..].to_vec()))),
        None => (text, None),
    };
    let name = String::from_utf8_lossy(name);
    Ok(Flag { arg: find_long(command, &name)?, attached })
}

fn find_long<'a>(command: &'a Command, name: &str) -> Result<&'a Arg> {
    let long = |arg: &&'a Arg, name: &str| arg.get_long() == Some(name);
    if let Some(arg) = command.get_arguments().find(|arg| long(arg, name)) {
        return Ok(arg);
    }
    if let Some((_, instead)) = FORMER.iter().find(|(former, _)| *former == name) {
        return Err(Error::usage(format!("--{name} is no longer a flag of perf_analyzer; {instead}; see --help")));
    }
    match habits::long(name) {
        Some(Habit::Is(meant)) => return find_long(command, meant),
        Some(Habit::Instead(rule)) => return Err(instead(&format!("--{name}"), rule)),
        None => {}
    }
    let begins = |long: Option<&str>| !name.is_empty() && long.is_some_and(|long| long.starts_with(name));
    let candidates: Vec<&Arg> = command.get_arguments().filter(|arg| begins(arg.get_long())).collect();
    let upstream: Vec<&Arg> =
        candidates.iter().copied().filter(|arg| is_upstream(arg.get_long().unwrap_or_default())).collect();
    match (&upstream[..], &candidates[..]) {
        ([only], _) | ([], [only]) => Ok(only),
        (_, []) => Err(Error::usage(match shown_alike(command, name).as_slice() {
            [] => format!("--{name} is not a flag of this program; see --help"),
            some => format!("--{name} is not a flag of this program: did you mean {}? see --help", some.join(" or ")),
        })),
        _ => {
            let mut names: Vec<String> = candidates.iter().map(|arg| shown(arg)).collect();
            names.extend(
                shown_alike(command, name)
                    .into_iter()
                    .filter(|other| !candidates.iter().any(|arg| shown(arg) == *other)),
            );
            names.dedup();
            Err(Error::usage(format!("--{name} is ambiguous: it may be {}; see --help", names.join(", "))))
        }
    }
}

/// Names this similar may be typing errors (Jaro-Winkler).
const SIMILAR: f64 = 0.85;
/// Maximum number of suggestions.
const MAX_SUGGESTED: usize = 3;

fn shown_alike(command: &Command, name: &str) -> Vec<String> {
    alike(command, name).into_iter().map(shown).collect()
}

/// The flags whose names are most similar to `name`, or contain it.
pub fn alike<'a>(command: &'a Command, name: &str) -> Vec<&'a Arg> {
    let likeness = |long: &str| {
        let has_part =
            name.len() > 2 && long.split('-').any(|part| part == name) || long.contains(name) && name.len() > 4;
        if has_part { SIMILAR } else { strsim::jaro_winkler(long, name) }
    };
    let visible = command.get_arguments().filter(|arg| !arg.is_hide_set());
    let mut found: Vec<(f64, &Arg)> = visible.map(|arg| (likeness(arg.get_long().unwrap_or_default()), arg)).collect();
    found.retain(|(likeness, _)| *likeness >= SIMILAR);
    found.sort_by(|(left, _), (right, _)| right.total_cmp(left));
    let best = found.first().map_or(0.0, |(likeness, _)| *likeness);
    // A name that differs in a single letter leaves no doubt.
    found.retain(|(likeness, _)| best < 0.95 || *likeness >= 0.95);
    found.into_iter().map(|(_, arg)| arg).take(MAX_SUGGESTED).collect()
}

/// The name that is most similar to a word, if one is similar enough.
pub fn nearest<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let likeness = names.map(|name| (strsim::jaro_winkler(name, word), name));
    let best = likeness.max_by(|(left, _), (right, _)| left.total_cmp(right));
    best.filter(|(likeness, _)| *likeness >= SIMILAR).map(|(_, name)| name)
}

/// A word such as `-percentile` and the long flag that it may have been meant for.
pub fn with_one_hyphen(command: &Command, word: &OsStr) -> Option<(String, String)> {
    let word = word.to_str()?;
    let name = word.strip_prefix('-')?.split('=').next()?;
    let is_name = name.len() > 2 && !name.starts_with('-') && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-');
    let meant =
        if is_name { find_long(command, name).ok().or_else(|| alike(command, name).first().copied()) } else { None };
    meant.map(|arg| (format!("-{name}"), format!("--{}", arg.get_long().unwrap_or_default())))
}

/// `va` for `-v -a`, `p5000` for `-p 5000`, and `u=h:1` for `-u h:1`, as perf_analyzer's own pages write it.
fn short_flags<'a>(command: &'a Command, cluster: &[u8]) -> Result<Vec<Flag<'a>>> {
    let mut flags = Vec::new();
    for (index, &byte) in cluster.iter().enumerate() {
        let ch = char::from(byte);
        let arg = command.get_arguments().find(|arg| {
            arg.get_short() == Some(ch) || arg.get_all_short_aliases().is_some_and(|all| all.contains(&ch))
        });
        let arg = match (arg, habits::short(ch)) {
            (Some(arg), _) => arg,
            (None, Some(Habit::Is(meant))) => find_long(command, meant)?,
            (None, Some(Habit::Instead(rule))) => return Err(instead(&format!("-{ch}"), rule)),
            (None, None) => {
                let tail = String::from_utf8_lossy(&cluster[index..]);
                if let Some(rule) = habits::time(&tail) {
                    return Err(instead(&format!("-{}", String::from_utf8_lossy(cluster)), rule));
                }
                return Err(Error::usage(format!("-{tail} is not a flag of this program; see --help")));
            }
        };
        let tail = &cluster[index + 1..];
        if !matches!(need(arg), Need::Never) && !tail.is_empty() {
            let value = tail.strip_prefix(b"=").unwrap_or(tail);
            flags.push(Flag { arg, attached: Some(OsString::from_vec(value.to_vec())) });
            break;
        }
        flags.push(Flag { arg, attached: None });
    }
    Ok(flags)
}

fn instead(flag: &str, rule: &str) -> Error {
    Error::usage(format!("{flag} is not a flag of this program: {rule}; see --help"))
}

fn joined(name: &str, value: Option<OsString>) -> OsString {
    let mut flag = OsString::from(format!("--{name}"));
    if let Some(value) = value {
        flag.push("=");
        flag.push(value);
    }
    flag
}

fn is_boolean(word: &OsStr) -> bool {
    word.to_str().is_some_and(|word| crate::values::boolean(word).is_ok())
}

fn missing_value(arg: &Arg) -> Error {
    let names = arg.get_value_names().unwrap_or_default();
    let form = names.first().map_or_else(|| "VALUE".to_owned(), ToString::to_string);
    Error::usage(format!("{} needs a value, {form}; see --help", shown(arg)))
}

fn unwanted_value(arg: &Arg) -> Error {
    Error::usage(format!("{} takes no value; see --help", shown(arg)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::flags::FlagTraits;

    fn longs() -> Vec<String> {
        crate::command().get_arguments().filter_map(|arg| arg.get_long().map(str::to_owned)).collect()
    }

    #[test]
    fn no_flag_is_here_that_upstream_has_no_more() {
        let longs = longs();
        assert!(FORMER.iter().all(|(name, _)| longs.iter().all(|long| long != name)));
    }

    #[test]
    fn no_flag_of_ours_takes_a_prefix_away_from_upstream() {
        let longs = longs();
        for long in longs.iter().filter(|long| !is_upstream(long)) {
            let upstream = longs.iter().map(String::as_str).filter(|long| is_upstream(long));
            let former = FORMER.iter().map(|(name, _)| *name);
            let shortened = upstream.chain(former).filter(|name| name.starts_with(long.as_str())).count();
            // --verbose was a prefix of --verbose-csv, but everyone who writes it means -v.
            assert!(shortened != 1 || long == "verbose", "--{long} was a prefix of one flag");
        }
    }

    #[test]
    fn no_habit_takes_a_flag_or_its_prefix_away() {
        let longs = longs();
        for (name, meant) in habits::LONG {
            assert!(longs.iter().all(|long| !is_upstream(long) || !long.starts_with(name)), "{name}");
            assert!(!longs.iter().any(|long| long == name), "{name}");
            assert!(!matches!(meant, Habit::Is(flag) if !longs.iter().any(|long| long == flag)), "{name}");
        }
    }

    #[test]
    fn every_flag_has_one_row_of_traits() {
        let command = crate::command();
        let names: Vec<String> = command.get_arguments().map(shown).collect();
        let rows: Vec<&str> = flags::FLAGS.iter().map(|flag| flag.name).collect();
        let missing: Vec<_> = names.iter().filter(|name| !rows.contains(&name.as_str())).collect();
        assert!(missing.is_empty(), "plan/flags/table.rs lacks {missing:?}");
        let unknown: Vec<_> = rows.iter().filter(|row| !names.iter().any(|name| name == *row)).collect();
        assert!(unknown.is_empty() && rows.len() == names.len(), "plan/flags/table.rs has {unknown:?}");
        let differ =
            command.get_arguments().filter(|arg| flags::find(&shown(arg)).map(FlagTraits::long) != arg.get_long());
        assert_eq!(differ.map(shown).collect::<Vec<_>>(), Vec::<String>::new(), "their long names");
    }

    #[test]
    fn flags_of_outputs_are_known_as_such() {
        let sections = ["Output and other", "Report", "Configuration by file"];
        let command = crate::command();
        let is_there = |arg: &&Arg| arg.get_help_heading().is_some_and(|heading| sections.contains(&heading));
        let is_known = |name: &String| {
            flags::find(name).is_some_and(|flag| flag.output || flag.gate)
                || ["-h", "--version"].contains(&name.as_str())
        };
        let missing: Vec<String> =
            command.get_arguments().filter(is_there).map(shown).filter(|name| !is_known(name)).collect();
        assert!(missing.is_empty(), "neither of outputs nor of the gate: {missing:?}");
        let shared = [&sections[..], &["Variants"]].concat();
        let apart = command
            .get_arguments()
            .filter(|arg| arg.get_help_heading().is_some_and(|heading| shared.contains(&heading)));
        let apart: Vec<String> =
            apart.map(shown).filter(|name| !flags::find(name).is_some_and(|flag| flag.whole_run)).collect();
        assert!(apart.is_empty(), "not of the whole run: {apart:?}");
    }

    #[test]
    fn words_are_joined_and_strays_set_apart() {
        let line = ["a", "-vp", "-5", "--shape=x:1", "b", "--streaming", "--", "--nonsense"].map(OsString::from);
        let run = ["--verbose", "--measurement-interval=-5", "--shape=x:1", "--streaming"].map(OsString::from);
        let strays = ["a", "b", "--nonsense"].map(OsString::from);
        let read = read(&crate::command(), line).expect("the line is good");
        assert_eq!(read, CommandLine::Run(run.into(), strays.into()));
    }
}
