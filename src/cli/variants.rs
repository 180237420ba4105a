//! `--variant`: turns each variant into a plan of its own.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use clap::ArgAction;

use crate::error::{Error, Result};
use crate::exit::Codes;
use crate::getopt::{self, CommandLine, shown};
use crate::habits;
use crate::plan::flags::{FlagTraits, find_long};
use crate::plan::{Plan, Variant};
use crate::rounds::VariantArguments;
use crate::secrets::{flags_without_secrets, may_hold_secret};

/// Flags that stand for each other, as loads do: a variant that has one of a row overrides all of it.
const ALTERNATIVES: &[&[&str]] = &[
    &["async", "sync"],
    &["warmup-request-count", "warmup-duration"],
    &["model", "model-mix"],
    &["shared-memory", "input-memory"],
    &["shared-memory", "output-memory"],
];

/// The plan of every variant: the words of the run, those of the variant over them. `plan` makes one of words.
///
/// # Errors
/// Those of the flags, with the variant's name in front.
pub fn plans(
    command: &clap::Command,
    arguments: &[OsString],
    variants: &[VariantArguments],
    codes: Codes,
    plan: impl Fn(Vec<OsString>) -> Result<Plan>,
) -> Result<Vec<Variant>> {
    let plans = variants.iter().map(|variant| {
        let plan = merged(command, arguments, variant, codes).and_then(&plan);
        let plan = plan.map_err(|error| error.context(format!("--variant '{}'", variant.name)))?;
        Ok(Variant { name: variant.name.clone(), flags: flags_without_secrets(command, &variant.flags), plan })
    });
    plans.collect()
}

fn merged(
    command: &clap::Command,
    arguments: &[OsString],
    variant: &VariantArguments,
    codes: Codes,
) -> Result<Vec<OsString>> {
    let variant_words = match getopt::read(command, variant.arguments.iter().cloned())? {
        CommandLine::Run(variant_words, strays) if strays.is_empty() || codes == Codes::PerfAnalyzers => variant_words,
        CommandLine::Run(variant_words, strays) if may_hold_secret(&variant_words) => {
            let rule = "words beside -H belong to no flag: quote its value";
            return Err(Error::usage(format!("{} {rule}", strays.len())));
        }
        CommandLine::Run(_, strays) => {
            let word = strays[0].to_string_lossy().into_owned();
            return Err(Error::usage(format!("'{word}' belongs to no flag: quote values that contain spaces")));
        }
        CommandLine::Help(_) | CommandLine::Version => {
            return Err(Error::usage("--help and --version cannot be part of a variant"));
        }
    };
    let variant_words = habits::translated(variant_words, codes);
    let arg =
        |word: &OsString| command.get_arguments().find(|arg| arg.get_long().is_some_and(|long| same(name(word), long)));
    if let Some(flag) = variant_words.iter().filter_map(arg).find(|arg| is_common(arg)).map(shown) {
        return Err(Error::usage(format!("{flag} applies to the whole run: give it outside the variant")));
    }
    let is_overridden =
        |word: &&OsString| !same(name(word), "variant") && !overrides(command, &variant_words, name(word));
    Ok(arguments.iter().filter(is_overridden).cloned().chain(variant_words.iter().cloned()).collect())
}

fn is_common(arg: &clap::Arg) -> bool {
    arg.get_long().and_then(find_long).is_some_and(|flag| flag.whole_run)
}

/// Whether flags of a variant take the place of a common one: where it may be repeated, or where they stand for it. Of others,
/// the last of several counts.
fn overrides(command: &clap::Command, variant_words: &[OsString], common: &OsStr) -> bool {
    let has = |flag: &str| variant_words.iter().any(|word| same(name(word), flag));
    let repeats = |arg: &clap::Arg| matches!(arg.get_action(), ArgAction::Append | ArgAction::Count);
    let is_repeated = command
        .get_arguments()
        .filter(|arg| repeats(arg))
        .any(|arg| arg.get_long().is_some_and(|long| same(common, long) && has(long)));
    is_repeated || variant_words.iter().any(|word| stands_for(&name(word).to_string_lossy(), &common.to_string_lossy()))
}

/// Whether one flag takes the place of another.
pub fn stands_for(flag: &str, other: &str) -> bool {
    let is_alternative = ALTERNATIVES.iter().any(|row| row.contains(&flag) && row.contains(&other));
    let is_of_another = |load: &FlagTraits, other: &FlagTraits| {
        load.load && (other.load || !other.shapes.is_empty() && !other.shapes.contains(&load.name))
    };
    is_alternative || find_long(flag).zip(find_long(other)).is_some_and(|(flag, other)| is_of_another(flag, other))
}

/// The name in `--name` or `--name=value`.
fn name(word: &OsStr) -> &OsStr {
    let bytes = word.as_bytes();
    let bytes = bytes.strip_prefix(b"--").unwrap_or(bytes);
    OsStr::from_bytes(bytes.split(|byte| *byte == b'=').next().unwrap_or(bytes))
}

fn same(name: &OsStr, flag: &str) -> bool {
    name.as_bytes() == flag.as_bytes()
}

/// What is said of the plans: what is said of each of them once, the rest with the variant's name.
pub fn notes(variants: &[Variant]) -> Vec<String> {
    let is_common = |note: &String| variants.iter().all(|variant| variant.plan.notes.contains(note));
    let Some((first, _)) = variants.split_first() else { return Vec::new() };
    let common = first.plan.notes.iter().filter(|note| is_common(note)).cloned();
    let variant_notes = variants.iter().flat_map(|variant| {
        let notes = variant.plan.notes.iter().filter(|note| !is_common(note));
        notes.map(|note| format!("--variant '{}': {note}", variant.name))
    });
    common.chain(variant_notes).collect()
}
