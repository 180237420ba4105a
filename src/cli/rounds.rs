//! Section "Variants": several variants of the run, measured in turns.

use std::ffi::OsString;
use std::time::Duration;

use clap::{ArgAction, Args};

use crate::error::{Error, Result};
use crate::plan::{Given, Plan};
use crate::secrets::names_secret;
use crate::terms::{Order, Rounds, WindowRule};
use crate::values::{one_of, share, size, whole};

/// Most rounds.
const MOST_ROUNDS: usize = 10_000;
/// The window of a gate's rounds. The shorter a round, the more alike are its sides on a machine that others use: beside half a
/// busy processor, the variance of a ratio times what a round takes was a quarter of that of 200 ms (docs/performance.md).
const GATE_WINDOW: Duration = Duration::from_millis(100);

/// Several ways to do the run.
#[derive(Args, Debug)]
#[command(next_help_heading = "Variants")]
pub struct RoundsArgs {
    /// A variant of the run: its name, and flags that override the others. Give two or more; the first is the
    /// reference. They are measured in turns and compared. Default: none
    #[arg(long, value_name = "NAME:'FLAGS'", action = ArgAction::Append, value_parser = variant)]
    variant: Vec<VariantArguments>,

    /// Repeats the run for every tensor placement, or for every transport, and compares the results. Default: off
    #[arg(long, value_name = "memory|transports",
        value_parser = one_of(&[("memory", MatrixKind::Memory), ("transports", MatrixKind::Transports)]))]
    matrix: Option<MatrixKind>,

    /// Sizes in bytes of every input with free dimensions, as in `64,64KiB,4MiB`: --matrix measures each of them.
    /// Default: as the other flags set
    #[arg(long, value_name = "BYTES,...", value_delimiter = ',', value_parser = size)]
    matrix_sizes: Vec<u64>,

    /// How often each variant, or cell of --matrix, is measured: a warm-up and one window at a time. At least 6 are
    /// needed to tell a difference from chance. With --require rounds go on until every requirement is decided, for
    /// --gate-time at most, and this is the most of them if it is given; their windows are of 100 ms unless -p says so
    #[arg(long, value_name = "N", default_value = "10", value_parser = whole::<usize>(1, MOST_ROUNDS as u64))]
    rounds: usize,

    /// Order within a round: forwards and then backwards; with `random` the forward order is drawn from --seed
    #[arg(long, value_name = "abba|random", default_value = "abba",
        value_parser = one_of(&[("abba", Order::Abba), ("random", Order::Random)]))]
    order: Order,

    /// Changes up to this share count as no change
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = share)]
    margin: f64,
}

/// Which dimension a matrix has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatrixKind {
    /// Placement of tensors.
    Memory,
    /// Way to the server.
    Transports,
}

impl RoundsArgs {
    /// The variants that are asked for.
    pub fn variants(&self) -> Result<&[VariantArguments]> {
        let alike =
            |variant: &VariantArguments| self.variant.iter().filter(|other| other.name == variant.name).count() > 1;
        if let Some(twice) = self.variant.iter().find(|variant| alike(variant)) {
            return Err(Error::usage(format!("--variant '{}': two have that name: give each its own", twice.name)));
        }
        match self.variant.as_slice() {
            [alone] => Err(Error::usage(format!(
                "--variant '{}' is alone: two or more are compared, of which the first is the reference",
                alone.name
            ))),
            variants => Ok(variants),
        }
    }

    /// Which dimension the run is repeated along.
    pub fn matrix(&self) -> Option<MatrixKind> {
        self.matrix
    }

    /// The sizes of inputs that a matrix goes through.
    pub fn sizes(&self) -> Vec<u64> {
        self.matrix_sizes.clone()
    }

    /// How variants take turns.
    pub fn plan(&self) -> Rounds {
        Rounds { count: self.rounds, order: self.order, margin: self.margin, until_decided: None }
    }
}

/// Rounds of a gate go on until it is decided, and are short by default, so that there are many.
pub fn until_decided(plan: &mut Plan, given: &Given) {
    let Some(rounds) = plan.rounds.as_mut().filter(|_| plan.gate.goes_on() && plan.measurement.restarts == 1) else {
        return;
    };
    rounds.until_decided = Some(plan.gate.time);
    if !given.has("--rounds") {
        rounds.count = MOST_ROUNDS;
    }
    if given.among(&["--measurement-interval", "--measurement-mode", "--measurement-request-count"]).is_empty() {
        plan.measurement.window = WindowRule::of_length(GATE_WINDOW);
    }
}

/// A variant's name and flags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariantArguments {
    /// The name.
    pub name: String,
    /// The flags as they were written.
    pub flags: String,
    /// The flags, word by word.
    pub arguments: Vec<OsString>,
}

/// `NAME:FLAGS`, in which a shell's quotes hold words together.
fn variant(text: &str) -> std::result::Result<VariantArguments, String> {
    let rule = "it must be NAME:'FLAGS', such as grpc:'-i grpc'";
    let (name, flags) = text.split_once(':').ok_or(rule)?;
    if name.trim().is_empty() || name.starts_with('-') || names_secret(name) {
        return Err(rule.to_owned());
    }
    let arguments = shlex::split(flags).ok_or("a quote is open in its flags; close it")?;
    Ok(VariantArguments {
        name: name.trim().to_owned(),
        flags: flags.trim().to_owned(),
        arguments: arguments.into_iter().map(OsString::from).collect(),
    })
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::time::Duration;

    use super::{GATE_WINDOW, variant};
    use crate::Command;
    use crate::exit::Codes;
    use crate::terms::WindowRule;

    #[test]
    fn windows_of_a_gate_are_short_unless_another_length_is_given() {
        let window = |further: &str| {
            let line = format!("triton-bench -m m --require p50<+5% --variant one:-b1 --variant other:-b2 {further}");
            match crate::parse(line.split_whitespace().map(OsString::from), Codes::Own).unwrap() {
                Command::Run(plan) => plan.measurement.window,
                _ => panic!("it is a run"),
            }
        };
        assert_eq!(window(""), WindowRule::Time(GATE_WINDOW));
        assert_eq!(window("-p 700"), WindowRule::Time(Duration::from_millis(700)));
        assert_eq!(window("--measurement-interval 700"), WindowRule::Time(Duration::from_millis(700)));
    }

    #[test]
    fn a_variant_is_a_name_and_words() {
        let found = variant("grpc: -i grpc -H 'a b:c d'").unwrap();
        assert_eq!((found.name.as_str(), found.flags.as_str()), ("grpc", "-i grpc -H 'a b:c d'"));
        assert_eq!(found.arguments, ["-i", "grpc", "-H", "a b:c d"]);
        assert!(variant("plain:").unwrap().arguments.is_empty());
        for wrong in ["grpc", ":-b 2", "-i grpc:x", "a:-b '2", "a -H Authorization: s"] {
            variant(wrong).unwrap_err();
        }
    }
}
