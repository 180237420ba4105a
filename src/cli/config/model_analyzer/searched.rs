//! The search space: `parameters`, `model_config_parameters` and the bounds of the automatic search.

use crate::cli::config::fields::{Fields, text};
use crate::cli::config::flags::Flags;
use crate::cli::config::model_analyzer::number;
use crate::cli::config::yaml::{Fault, Node, Place, Value};

/// Limit on the values of a range.
const MAX_VALUES: usize = 1_000;

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

    /// Adds them; the concurrency of `bounds` where the file names none.
    ///
    /// # Errors
    /// What has no counterpart.
    pub fn flags(&self, bounds: &Bounds, flags: &mut Flags) -> Result<(), Fault> {
        if let Some(node) = self.batch_sizes {
            flags.at(node.at).add("batch-size", numbers(node)?);
        }
        if let Some(node) = self.request_rate {
            if !matches!(&node.value, Value::Text(_)) && numbers(node)?.contains(',') {
                return Err(Fault::new(node.at, "a search holds one rate: name one, such as request_rate: 100"));
            }
            flags.at(node.at).add("at-rate", numbers(node)?);
            return Ok(());
        }
        match (self.concurrency, bounds.concurrency) {
            (Some(node), _) => flags.at(node.at).add("concurrency-range", numbers(node)?),
            (None, Some(Bound { low, high, at })) => flags.at(at).add("concurrency-range", format!("{low}:{high}:*2")),
            (None, None) => {}
        }
        Ok(())
    }
}

/// `run_config_search_min_…` and `run_config_search_max_…`, each where one of the two is there.
pub struct Bounds {
    instances: Option<Bound>,
    batch: Option<Bound>,
    concurrency: Option<Bound>,
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
        let mut pair = |name: &str, usual: (u64, u64)| {
            let key = |which: &str| format!("run_config_search_{which}_{name}");
            let (low, high) = (fields.whole(&key("min"), 1)?, fields.whole(&key("max"), 1)?);
            let at = fields.place(&key(if high.is_some() { "max" } else { "min" }));
            let bound = || Bound { low: low.unwrap_or(usual.0), high: high.unwrap_or(usual.1), at };
            Ok((low.is_some() || high.is_some()).then(bound))
        };
        let bounds = Self {
            instances: pair("instance_count", (1, 5))?,
            batch: pair("model_batch_size", (1, 128))?,
            concurrency: pair("concurrency", (1, 1024))?,
        };
        for rate in ["min", "max"] {
            fields.refuse(
                &format!("run_config_search_{rate}_request_rate"),
                "a search holds one rate: request_rate: N",
            )?;
        }
        Ok(bounds)
    }

    /// Adds the settings of the model's configuration; without any, the settings that suit the model are searched.
    pub fn flags(&self, flags: &mut Flags) {
        for (path, bounds) in [("instances", self.instances), ("max_batch_size", self.batch)] {
            if let Some(Bound { low, high, at }) = bounds {
                flags.at(at).add("search", format!("{path}={low}:{high}"));
            }
        }
    }
}

/// `model_config_parameters`: fields of the configuration, each with the values to try.
///
/// # Errors
/// What has no counterpart.
pub fn parameters(node: &Node, flags: &mut Flags) -> Result<(), Fault> {
    node.map()?.iter().try_for_each(|(key, node)| field(&key.name, node, flags))
}

fn field(path: &str, node: &Node, flags: &mut Flags) -> Result<(), Fault> {
    match &node.value {
        Value::Map(entries) if entries.is_empty() => flags.at(node.at).add("search", format!("{path}={{}}")),
        // The values of parameters are texts in a message.
        Value::Map(entries) if path.starts_with("parameters.") && entries.len() == 1 => {
            let (key, node) = &entries[0];
            if key.name != "string_value" {
                return Err(Fault::new(key.at, format!("'{path}' takes string_value")));
            }
            return field(path, node, flags);
        }
        Value::Map(entries) => {
            return entries.iter().try_for_each(|(key, node)| field(&format!("{path}.{}", key.name), node, flags));
        }
        Value::List(list) => match &list[..] {
            [one] if matches!(one.value, Value::Map(_)) => return field(&format!("{path}[]"), one, flags),
            _ => flags.at(node.at).add("search", format!("{path}={}", values(path, list)?)),
        },
        _ => flags.at(node.at).add("search", format!("{path}={}", value(path, node)?)),
    }
    Ok(())
}

fn values(path: &str, list: &[Node]) -> Result<String, Fault> {
    let each: Vec<String> = list.iter().map(|node| value(path, node)).collect::<Result<_, Fault>>()?;
    Ok(each.join(","))
}

/// A value to try; a list for a field that is a list.
fn value(path: &str, node: &Node) -> Result<String, Fault> {
    match &node.value {
        Value::Bool(on) => Ok(on.to_string()),
        Value::Text(text) if text.contains([',', '[', '{', '"', ':', '*', '+']) => {
            Ok(serde_json::Value::from(text.as_str()).to_string())
        }
        Value::Text(text) => Ok(text.clone()),
        Value::Null => Ok("off".to_owned()),
        Value::List(list) if list.iter().all(|node| text(node).is_some()) => Ok(format!("[{}]", values(path, list)?)),
        Value::Map(entries) if entries.is_empty() => Ok("{}".to_owned()),
        _ => Err(Fault::new(
            node.at,
            format!(
                "'{path}': whole messages against each other have no counterpart: name the fields that differ, each with its values"
            ),
        )),
    }
}

/// Numbers: one, a list, or a mapping of `start`, `stop` and `step`.
fn numbers(node: &Node) -> Result<String, Fault> {
    let mut each = Vec::new();
    match &node.value {
        Value::List(list) => {
            for node in list {
                each.push(number(node, 0.0)?);
            }
        }
        Value::Map(_) => {
            let mut range = Fields::of("", node)?;
            let (start, stop) = (range.number("start", 0.0)?, range.number("stop", 0.0)?);
            let step = range.positive("step")?.unwrap_or(1.0);
            range.finish()?;
            let (Some(start), Some(stop)) = (start, stop) else {
                return Err(Fault::new(node.at, "a range has start and stop, and perhaps step"));
            };
            if stop < start {
                return Err(Fault::new(
                    node.at,
                    format!("a range's stop, {stop}, must not be below its start, {start}: swap them"),
                ));
            }
            let count = ((stop - start) / step).floor();
            if count >= MAX_VALUES as f64 {
                return Err(Fault::new(
                    node.at,
                    format!("a range of more than {MAX_VALUES} values: give it a larger step"),
                ));
            }
            each.extend((0..=count as usize).map(|number| start + number as f64 * step));
        }
        _ => each.push(number(node, 0.0)?),
    }
    Ok(each.iter().map(ToString::to_string).collect::<Vec<_>>().join(","))
}
