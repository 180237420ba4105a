//! A mapping whose keys are flags, converted to command-line arguments.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use clap::{Arg, ArgAction};

use crate::config::fields::Fields;
use crate::config::is_of_file;
use crate::config::yaml::{Fault, Key, Node, Place, Value};
use crate::getopt::{Need, alike, need};
use crate::subcommand::refused;

/// A flag of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// Its long name.
    pub name: String,
    /// Its words, such as `--name=value`; none if it is said to be off.
    pub arguments: Vec<OsString>,
    /// Where that stands which means each word, where the file has no flags but is in another program's form.
    pub meant_at: Vec<Place>,
}

/// Flags that a file of another program means.
#[derive(Debug, Default)]
pub struct Flags {
    /// The flags.
    pub settings: Vec<Setting>,
    /// What should be known although it is no fault.
    pub notes: Vec<String>,
    /// Where that stands which the next flag follows from.
    at: Place,
}

impl Flags {
    /// The place of what the flags that are added next follow from.
    pub fn at(&mut self, at: Place) -> &mut Self {
        self.at = at;
        self
    }

    /// The same, where that key of a section is.
    pub fn at_key(&mut self, section: &Fields<'_>, key: &str) -> &mut Self {
        self.at(section.place(key))
    }

    /// Adds a switch.
    pub fn switch(&mut self, name: &str) {
        self.put(name, argument(name, None));
    }

    /// Adds a flag and its value; a repeated flag gets another value.
    pub fn add(&mut self, name: &str, value: impl ToString) {
        self.put(name, argument(name, Some(&value.to_string())));
    }

    fn put(&mut self, name: &str, word: OsString) {
        let index = self.settings.iter().position(|setting| setting.name == name).unwrap_or_else(|| {
            self.settings.push(Setting { name: name.to_owned(), arguments: Vec::new(), meant_at: Vec::new() });
            self.settings.len() - 1
        });
        self.settings[index].arguments.push(word);
        self.settings[index].meant_at.push(self.at);
    }

    /// Removes the words that begin so, such as `--name=`.
    pub fn remove(&mut self, beginning: &str) {
        for setting in &mut self.settings {
            let places = std::mem::take(&mut setting.meant_at);
            let words = std::mem::take(&mut setting.arguments).into_iter().zip(places);
            let is_kept = |word: &OsString| !word.as_bytes().starts_with(beginning.as_bytes());
            (setting.arguments, setting.meant_at) = words.filter(|(word, _)| is_kept(word)).unzip();
        }
        self.settings.retain(|setting| !setting.arguments.is_empty());
    }

    /// Finds out that the flags take what the file means by them.
    ///
    /// # Errors
    /// The first value that its flag does not take.
    pub fn check(&self, command: &clap::Command) -> Result<(), Fault> {
        self.settings.iter().try_for_each(|setting| checked(command, &setting.arguments, &setting.meant_at))
    }

    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }
}

/// The name in `--name` or `--name=value`.
pub fn name_of(word: &OsStr) -> std::borrow::Cow<'_, str> {
    let bytes = word.as_bytes();
    let bytes = bytes.strip_prefix(b"--").unwrap_or(bytes);
    String::from_utf8_lossy(bytes.split(|byte| *byte == b'=').next().unwrap_or(bytes))
}

/// The text after the first `=`.
pub fn value_of(word: &OsStr) -> &OsStr {
    let bytes = word.as_bytes();
    let equals = bytes.iter().position(|byte| *byte == b'=');
    OsStr::from_bytes(equals.map_or(&[][..], |at| &bytes[at + 1..]))
}

/// Reads a key and its value.
///
/// # Errors
/// If there is no such flag, or it takes no such value.
pub fn setting(command: &clap::Command, key: &Key, node: &Node) -> Result<Setting, Fault> {
    let arg = find(command, key)?;
    let mut arguments = Vec::new();
    match (&node.value, need(arg)) {
        (Value::Null, _) => {}
        (Value::Bool(on), Need::Never) => arguments.extend(on.then(|| argument(&key.name, None))),
        (Value::Text(text), Need::Never) if is_counted(arg) => {
            let times: u8 = text.parse().map_err(|_| misfit(node, key, "a whole number or true or false"))?;
            arguments.extend((0..times).map(|_| argument(&key.name, None)));
        }
        (_, Need::Never) => return Err(misfit(node, key, "true or false")),
        (Value::Bool(on), Need::Maybe) => arguments.push(argument(&key.name, Some(if *on { "true" } else { "false" }))),
        (Value::Text(text), _) => {
            arguments.push(argument(&key.name, Some(text)));
            checked(command, &arguments, &[node.at])?;
        }
        (Value::List(list), _) if is_repeated(arg) => {
            for element in list {
                let Value::Text(text) = &element.value else { return Err(misfit(element, key, &form(arg))) };
                arguments.push(argument(&key.name, Some(text)));
            }
            checked(command, &arguments, &list.iter().map(|element| element.at).collect::<Vec<_>>())?;
        }
        _ => return Err(misfit(node, key, &form(arg))),
    }
    Ok(Setting { name: key.name.clone(), arguments, meant_at: Vec::new() })
}

/// The flag of that long name.
fn find<'a>(command: &'a clap::Command, key: &Key) -> Result<&'a Arg, Fault> {
    const ASKED: &[&str] = &["help", "version"];
    let name = key.name.as_str();
    if is_of_file(name) || ASKED.contains(&name) {
        return Err(Fault::new(key.at, format!("'{name}' belongs on the command line, not in the file")));
    }
    let flag = command.get_arguments().find(|arg| arg.get_long() == Some(name) && !arg.is_hide_set());
    flag.ok_or_else(|| {
        let plain = name.replace('_', "-");
        let short = name.trim_start_matches('-').chars().next().filter(|_| name.trim_start_matches('-').len() == 1);
        let meant: Vec<&str> = match command.get_arguments().find(|arg| short.is_some() && arg.get_short() == short) {
            Some(arg) => arg.get_long().into_iter().collect(),
            None if command.get_arguments().any(|arg| arg.get_long() == Some(&plain)) => vec![&plain],
            None => alike(command, &plain).into_iter().filter_map(Arg::get_long).collect(),
        };
        let next = if meant.is_empty() { String::new() } else { format!(": did you mean {}?", meant.join(" or ")) };
        Fault::new(key.at, format!("'{name}' is not the name of a flag{next}; see --help"))
    })
}

/// Checks that a flag accepts its arguments, each at its place. They are parsed together, because one parse costs far more than
/// one argument.
fn checked(command: &clap::Command, arguments: &[OsString], places: &[Place]) -> Result<(), Fault> {
    let read = |count: usize| command.clone().try_get_matches_from(&arguments[..count]).map(drop);
    let Err(mut error) = read(arguments.len()) else { return Ok(()) };
    // The first `taken` arguments are accepted, the first `refused_of` are not.
    let (mut taken, mut refused_of) = (0, arguments.len());
    while refused_of - taken > 1 {
        let half = taken.midpoint(refused_of);
        match read(half) {
            Ok(()) => taken = half,
            Err(earlier) => (refused_of, error) = (half, earlier),
        }
    }
    let at = places.get(taken).copied().unwrap_or_default();
    Err(Fault::new(at, refused(command, &error, "triton-bench", "see --help").to_string()))
}

/// `--name` or `--name=value`.
pub fn argument(name: &str, value: Option<&str>) -> OsString {
    value.map_or_else(|| format!("--{name}"), |value| format!("--{name}={value}")).into()
}

fn is_counted(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Count)
}

fn is_repeated(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Append)
}

/// The kind of value that a flag takes.
fn form(arg: &Arg) -> String {
    let names = arg.get_value_names().unwrap_or_default();
    let form = names.first().map_or("VALUE", |name| name.as_str());
    if is_repeated(arg) { format!("{form}, or a list of these") } else { form.to_owned() }
}

fn misfit(node: &Node, key: &Key, needed: &str) -> Fault {
    let next = if matches!(node.value, Value::Bool(_)) { "; to mean the text, quote it" } else { "" };
    Fault::new(node.at, format!("'{}' takes {needed}, not {}{next}", key.name, node.kind()))
}
