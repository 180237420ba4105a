//! `objectives` and `constraints`: what to optimise, and what must hold.

use crate::cli::config::fields::{Fields, text};
use crate::cli::config::flags::Flags;
use crate::cli::config::model_analyzer::number;
use crate::cli::config::yaml::{Fault, Key, Node, Place, Value};

/// What a model, or all, shall reach.
#[derive(Clone, Copy, Default)]
pub struct Goals<'a> {
    objectives: Option<&'a Node>,
    constraints: Option<&'a Node>,
    /// The 99th percentile's limit, in milliseconds, and where it stands.
    latency_budget: Option<(f64, Place)>,
    min_throughput: Option<(f64, Place)>,
}

impl<'a> Goals<'a> {
    /// Takes the keys.
    ///
    /// # Errors
    /// If a value does not fit.
    pub fn take(fields: &mut Fields<'a>) -> Result<Self, Fault> {
        Ok(Self {
            objectives: fields.take("objectives"),
            constraints: fields.take("constraints"),
            latency_budget: fields.positive("latency_budget")?.map(|limit| (limit, fields.place("latency_budget"))),
            min_throughput: fields.positive("min_throughput")?.map(|least| (least, fields.place("min_throughput"))),
        })
    }

    /// These, completed from `usual`.
    pub fn or(self, usual: &Self) -> Self {
        Self {
            objectives: self.objectives.or(usual.objectives),
            constraints: self.constraints.or(usual.constraints),
            latency_budget: self.latency_budget.or(usual.latency_budget),
            min_throughput: self.min_throughput.or(usual.min_throughput),
        }
    }

    /// Adds them.
    ///
    /// # Errors
    /// What has no counterpart.
    pub fn flags(&self, flags: &mut Flags) -> Result<(), Fault> {
        if let Some(node) = self.objectives {
            flags.at(node.at).add("objective", objective(node)?);
        }
        if let Some(node) = self.constraints {
            for (key, bounds) in node.map()? {
                constraint(key, bounds, flags)?;
            }
        }
        if let Some((limit, at)) = self.latency_budget {
            flags.at(at).add("constraint", format!("p99<={limit}ms"));
        }
        if let Some((least, at)) = self.min_throughput {
            flags.at(at).add("constraint", format!("throughput>={least}"));
        }
        Ok(())
    }
}

/// The single objective: from a text, a list or a mapping to weights.
fn objective(node: &Node) -> Result<String, Fault> {
    let all: Vec<Key> = match &node.value {
        Value::Map(entries) => entries.iter().map(|(key, _)| key.clone()).collect(),
        Value::List(list) => {
            list.iter().filter_map(|node| Some(Key { name: text(node)?.to_owned(), at: node.at })).collect()
        }
        _ => text(node).map(|name| Key { name: name.to_owned(), at: node.at }).into_iter().collect(),
    };
    match &all[..] {
        [one] => figure(one),
        [] => Err(Fault::new(node.at, "'objectives' names nothing: perf_throughput or perf_latency_p99 would do")),
        [_, other, ..] => {
            let rule = "several objectives, weighed against each other, have no counterpart: keep one, and make the others constraints";
            Err(Fault::new(other.at, rule))
        }
    }
}

/// Our name of one of Model Analyzer's figures.
fn figure(key: &Key) -> Result<String, Fault> {
    match key.name.strip_prefix("perf_") {
        Some("throughput") => Ok("throughput".to_owned()),
        Some(latency) if latency.starts_with("latency_") => Ok(latency.replacen("latency_", "", 1)),
        _ => Err(Fault::new(
            key.at,
            format!(
                "'{}' has no counterpart: a search supports perf_throughput, perf_latency_avg and perf_latency_pNN",
                key.name
            ),
        )),
    }
}

fn constraint(key: &Key, bounds: &Node, flags: &mut Flags) -> Result<(), Fault> {
    let figure = figure(key)?;
    // Latencies are in milliseconds.
    let unit = if figure == "throughput" { "" } else { "ms" };
    for (bound, node) in bounds.map()? {
        let relation = match bound.name.as_str() {
            "max" => "<=",
            "min" => ">=",
            other => return Err(Fault::new(bound.at, format!("'{other}' is not a bound: use min or max"))),
        };
        flags.at(node.at).add("constraint", format!("{figure}{relation}{}{unit}", number(node, 0.0)?));
    }
    Ok(())
}
