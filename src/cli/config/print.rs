//! `--print-config`: writes flags as a file that reads back as the same flags.

use std::ffi::OsString;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;

use clap::ArgAction;

use crate::config::flags::{name_of, value_of};
use crate::config::is_of_file;
use crate::error::{Error, Result};
use crate::getopt::{Need, need};

/// A run's flags, which are in the form of [`crate::getopt`], in the order of the help.
///
/// # Errors
/// If a value is not Unicode, which YAML is.
pub fn one(command: &clap::Command, arguments: &[OsString]) -> Result<String> {
    let text = lines(command, arguments, "")?;
    Ok(if text.is_empty() { "{}\n".to_owned() } else { text })
}

/// The same of several runs.
///
/// # Errors
/// As [`one`].
pub fn several<'a>(command: &clap::Command, runs: impl Iterator<Item = (&'a str, &'a [OsString])>) -> Result<String> {
    let mut text = "runs:\n".to_owned();
    for (name, arguments) in runs {
        let name = if is_plain(name) { name.to_owned() } else { quoted(name) };
        put(&mut text, format_args!("  {name}:\n{}", lines(command, arguments, "    ")?));
    }
    Ok(text)
}

fn lines(command: &clap::Command, arguments: &[OsString], indent: &str) -> Result<String> {
    let mut text = String::new();
    for arg in command.get_arguments() {
        let name = arg.get_long().unwrap_or_default();
        let occurrences: Vec<&OsString> = arguments.iter().filter(|word| name_of(word) == name).collect();
        if occurrences.is_empty() || is_of_file(name) {
            continue;
        }
        let is_repeated = matches!(arg.get_action(), ArgAction::Append);
        let values = match need(arg) {
            Need::Never if matches!(arg.get_action(), ArgAction::Count) => vec![occurrences.len().to_string()],
            Need::Never => vec!["true".to_owned()],
            Need::Maybe => occurrences.iter().map(|word| boolean(name, word)).collect::<Result<_>>()?,
            _ => occurrences.iter().map(|word| value(name, word)).collect::<Result<_>>()?,
        };
        match values.as_slice() {
            [.., last] if !is_repeated || values.len() == 1 => put(&mut text, format_args!("{indent}{name}: {last}\n")),
            all => {
                put(&mut text, format_args!("{indent}{name}:\n"));
                all.iter().for_each(|value| put(&mut text, format_args!("{indent}  - {value}\n")));
            }
        }
    }
    Ok(text)
}

fn put(text: &mut String, line: std::fmt::Arguments<'_>) {
    text.write_fmt(line).expect("writing to a string does not fail");
}

/// The value of a flag that may stand alone.
fn boolean(name: &str, word: &OsString) -> Result<String> {
    match value_of(word).as_bytes() {
        b"false" => Ok("false".to_owned()),
        b"true" => Ok("true".to_owned()),
        _ if !word.as_bytes().contains(&b'=') => Ok("true".to_owned()),
        _ => value(name, word),
    }
}

fn value(name: &str, word: &OsString) -> Result<String> {
    let value = value_of(word);
    let text = value.to_str().ok_or_else(|| {
        let shown = value.to_string_lossy();
        Error::usage(format!(
            "--print-config: --{name} '{shown}' is not UTF-8, which YAML files are; leave it on the command line"
        ))
    })?;
    Ok(if is_plain(text) { text.to_owned() } else { quoted(text) })
}

/// Whether every YAML parser reads a text without quotes as itself.
fn is_plain(text: &str) -> bool {
    const WORDS: &[&str] = &["true", "false", "null", "on", "off", "yes", "no", "y", "n"];
    let inside = |c: char| c.is_ascii_alphanumeric() || "/._-:,%+*=@".contains(c);
    let first = text.chars().next();
    first.is_some_and(|c| c.is_ascii_alphanumeric() || c == '/')
        && text.chars().all(inside)
        && !text.ends_with(':')
        && !WORDS.iter().any(|word| word.eq_ignore_ascii_case(text))
}

/// In double quotes, where YAML has the escapes of JSON.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() || ('\u{2028}'..='\u{202e}').contains(&c) || c == '\u{feff}' => {
                put(&mut quoted, format_args!("\\u{:04x}", u32::from(c)));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
