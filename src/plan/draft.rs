//! A plan before it is checked against the rules.

use std::collections::BTreeMap;

use crate::Plan;
use crate::exit::Codes;
use crate::flags::{FLAGS, FlagTraits};

/// A plan before it is checked against the rules, with the flags that it was made from.
#[derive(Clone, Debug)]
pub struct Draft {
    /// The flags' values, each checked on its own.
    pub plan: Plan,
    /// Which flags were given.
    pub given: Given,
    /// Which program's conventions apply.
    pub codes: Codes,
}

/// The flags that were given, as opposed to defaults: name as in the help (`--async`, `-m`) and values as written.
#[derive(Clone, Debug, Default)]
pub struct Given(BTreeMap<String, Vec<String>>);

impl Given {
    /// Stores a flag and its values; none for a switch.
    pub fn insert(&mut self, flag: impl Into<String>, values: Vec<String>) {
        self.0.insert(flag.into(), values);
    }

    /// Whether `flag` was given.
    pub fn has(&self, flag: &str) -> bool {
        self.0.contains_key(flag)
    }

    /// The members of `flags` that were given, in that order.
    pub fn among<'a>(&self, flags: &[&'a str]) -> Vec<&'a str> {
        flags.iter().copied().filter(|flag| self.has(flag)).collect()
    }

    /// Those that were given of the flags with a trait, in the order of the help.
    pub fn which(&self, is_one: impl Fn(&FlagTraits) -> bool) -> Vec<&'static str> {
        FLAGS.iter().filter(|flag| is_one(flag) && self.has(flag.name)).map(|flag| flag.name).collect()
    }

    /// The last value of `flag` as written.
    pub fn value(&self, flag: &str) -> Option<&str> {
        self.0.get(flag)?.last().map(String::as_str)
    }

    /// The values of `flag` as written.
    pub fn values(&self, flag: &str) -> impl Iterator<Item = &str> {
        self.0.get(flag).into_iter().flatten().map(String::as_str)
    }

    /// `flag` with its last value as written, for messages.
    pub fn show(&self, flag: &str) -> String {
        match self.value(flag) {
            Some(value) => format!("{flag} {value}"),
            None => flag.to_owned(),
        }
    }
}
