//! The load of a search: `concurrency`, `batch_sizes` and `request_rate`, and the bounds of the automatic search.

use crate::config::fields::{Fields, decimal, text};
use crate::config::flags::Flags;
use crate::config::yaml::{Fault, Node, Place, Value};

/// Limit on the values of a range.
const MAX_VALUES: usize = 1_000;
/// The rates between which Model Analyzer searches where the file names no others.
const USUAL_RATES: (u64, u64) = (16, 8192);

/// `concurrency`, `batch_sizes` and `request_rate`.
#[derive(Clone, Copy, Default)]
pub struct Loads<'a> {
    concurrency: Option<&'a Node>,
    batch_sizes: Option<&'a Node>,
    request_rate: Option<&'a Node>,
}

impl<'a> Loads<'a> {
    /// Takes the keys.
    pub fn take(fields: &mut Fields<'a>) -> Self {
        Self {
            concurrency: fields.take("concurrency"),
            batch_sizes: fields.take("batch_sizes"),
            request_rate: fields.take("request_rate"),
        }
    }

    /// These, completed from `usual`.
    pub fn or(self, usual: Self) -> Self {
        Self {
            concurrency: self.concurrency.or(usual.concurrency),
            batch_sizes: self.batch_sizes.or(usual.batch_sizes),
            request_rate: self.request_rate.or(usual.request_rate),
        }
    }

    /// Adds them; those of `bounds` where the file names none.
    ///
    /// # Errors
    /// What is no number, or none that a load can have.
    pub fn flags(&self, bounds: &Bounds, flags: &mut Flags) -> Result<(), Fault> {
        if let Some(node) = self.batch_sizes {
            flags.at(node.at).add("batch-size", joined(&numbers("batch_sizes", node, is_count)?));
        }
        if let Some(node) = self.request_rate {
            rates(&numbers("request_rate", node, |rate| rate > 0.0)?, flags.at(node.at));
            return Ok(());
        }
        match (self.concurrency, bounds.request_rate, bounds.concurrency) {
            (Some(node), ..) => {
                flags.at(node.at).add("concurrency-range", joined(&numbers("concurrency", node, is_count)?));
            }
            (None, Some(Bound { low, high, at }), _) => {
                flags.at(at).add("search", format!("request_rate={low}:{high}:*2"));
            }
            (None, None, Some(Bound { low, high, at })) => {
                flags.at(at).add("concurrency-range", format!("{low}:{high}:*2"));
            }
            (None, None, None) => {}
        }
        Ok(())
    }
}

/// A rate is the load of all candidates; several are a setting that is searched.
fn rates(all: &[f64], flags: &mut Flags) {
    match all {
        [rate] => flags.add("at-rate", rate),
        several => flags.add("search", format!("request_rate={}", joined(several))),
    }
}

/// `run_config_search_min_…` and `run_config_search_max_…`, each where one of the two is there.
pub struct Bounds {
    instances: Option<Bound>,
    batch: Option<Bound>,
    concurrency: Option<Bound>,
    request_rate: Option<Bound>,
}

/// Both ends, and where one of them stands.
#[derive(Clone, Copy)]
struct Bound {
    low: u64,
    high: u64,
    at: Place,
}

impl Bounds {
    /// Takes the keys.
    ///
    /// # Errors
    /// If a value does not fit.
    pub fn take(fields: &mut Fields<'_>) -> Result<Self, Fault> {
        let place = fields.place("request_rate_search_enable");
        let by_rate = fields.switch("request_rate_search_enable")? == Some(true);
        let mut pair = |name: &str, usual: (u64, u64)| {
            let key = |which: &str| format!("run_config_search_{which}_{name}");
            let (low, high) = (fields.whole(&key("min"), 1)?, fields.whole(&key("max"), 1)?);
            let at = fields.place(&key(if high.is_some() { "max" } else { "min" }));
            let bound = || Bound { low: low.unwrap_or(usual.0), high: high.unwrap_or(usual.1), at };
            Ok((low.is_some() || high.is_some()).then(bound))
        };
        let (low, high) = USUAL_RATES;
        Ok(Self {
            instances: pair("instance_count", (1, 5))?,
            batch: pair("model_batch_size", (1, 128))?,
            concurrency: pair("concurrency", (1, 1024))?,
            request_rate: pair("request_rate", USUAL_RATES)?.or(by_rate.then_some(Bound { low, high, at: place })),
        })
    }

    /// Adds the settings of the model's configuration; without any, the settings that suit the model are searched.
    /// Returns whether there are any.
    pub fn flags(&self, flags: &mut Flags) -> bool {
        for (path, bounds) in [("instances", self.instances), ("max_batch_size", self.batch)] {
            if let Some(Bound { low, high, at }) = bounds {
                flags.at(at).add("search", format!("{path}={low}:{high}"));
            }
        }
        self.instances.is_some() || self.batch.is_some()
    }
}

fn is_count(number: f64) -> bool {
    number >= 1.0 && number.fract() == 0.0
}

fn joined(numbers: &[f64]) -> String {
    numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Numbers of a key: one, several with commas, a list, or a mapping of `start`, `stop` and `step`.
fn numbers(key: &str, node: &Node, fits: fn(f64) -> bool) -> Result<Vec<f64>, Fault> {
    let mut numbers = Vec::new();
    match &node.value {
        Value::List(list) if !list.is_empty() => {
            for node in list {
                numbers.extend(written(key, node, fits)?);
            }
        }
        Value::Map(_) => numbers = range(key, node)?,
        _ => numbers = written(key, node, fits)?,
    }
    match numbers.iter().find(|number| !fits(**number)) {
        Some(_) => Err(misfit(key, node, fits)),
        None => Ok(numbers),
    }
}

/// Numbers in a text, separated by commas.
fn written(key: &str, node: &Node, fits: fn(f64) -> bool) -> Result<Vec<f64>, Fault> {
    let parse = |text: &str| text.split(',').map(|part| decimal(part.trim())).collect::<Option<Vec<f64>>>();
    let all = text(node).and_then(parse);
    all.ok_or_else(|| misfit(key, node, fits))
}

fn misfit(key: &str, node: &Node, fits: fn(f64) -> bool) -> Fault {
    let needed = if fits(0.5) { "numbers above 0" } else { "whole numbers of at least 1" };
    let found = text(node).map_or_else(|| node.kind().to_owned(), |text| format!("'{text}'"));
    let rule = format!("'{key}' takes {needed}, as in 1,2,4, in a list, or as start, stop and step, not {found}");
    Fault::new(node.at, rule)
}

fn range(key: &str, node: &Node) -> Result<Vec<f64>, Fault> {
    let mut range = Fields::new(key, node)?;
    let (start, stop) = (range.number("start", 0.0)?, range.number("stop", 0.0)?);
    let step = range.positive("step")?.unwrap_or(1.0);
    range.finish()?;
    let (Some(start), Some(stop)) = (start, stop) else {
        return Err(Fault::new(node.at, format!("'{key}': a range has start and stop, and perhaps step")));
    };
    if stop < start {
        let rule = format!("'{key}': a range's stop, {stop}, must not be below its start, {start}: swap them");
        return Err(Fault::new(node.at, rule));
    }
    let count = ((stop - start) / step).floor();
    if count >= MAX_VALUES as f64 {
        let rule = format!("'{key}': a range of more than {MAX_VALUES} values: give it a larger step");
        return Err(Fault::new(node.at, rule));
    }
    Ok((0..=count as usize).map(|number| start + number as f64 * step).collect())
}
