//! `circuit_breakers`: what ends a run early.

use crate::config::fields::{Fields, text};
use crate::config::flags::Flags;
use crate::config::yaml::{Fault, Node, Place, Value};

/// The breakers that are defined.
pub struct Breakers<'a> {
    all: Vec<Breaker<'a>>,
}

struct Breaker<'a> {
    name: &'a str,
    /// Values of `--stop-on`, and where what means them stands.
    conditions: Vec<(String, Place)>,
    /// Whether it looks at failed requests, which alone end a run here.
    is_of_errors: bool,
}

impl<'a> Breakers<'a> {
    /// Reads their definitions.
    ///
    /// # Errors
    /// What is not theirs, or has no counterpart.
    pub fn read(node: Option<&'a Node>) -> Result<Self, Fault> {
        let Some(node) = node else { return Ok(Self { all: Vec::new() }) };
        let Value::List(list) = &node.value else {
            return Err(Fault::new(node.at, format!("'circuit_breakers' takes a list, not {}", node.kind())));
        };
        Ok(Self { all: list.iter().map(breaker).collect::<Result<_, _>>()? })
    }

    /// Adds those that the load names.
    ///
    /// # Errors
    /// If it names one that is not defined.
    pub fn choose(&self, names: &[Node], flags: &mut Flags) -> Result<(), Fault> {
        for node in names {
            let found = self.all.iter().find(|breaker| text(node) == Some(breaker.name));
            let found = found.ok_or_else(|| Fault::new(node.at, "no circuit breaker of that name is defined"))?;
            if found.is_of_errors {
                found.conditions.iter().for_each(|(condition, at)| flags.at(*at).add("stop-on", condition));
            } else {
                let rule = "only failed requests end a run here (--stop-on), and its rules do not ask for 'error'";
                flags.note(format!("the circuit breaker '{}' has no effect: {rule}", found.name));
            }
        }
        let is_named = |breaker: &&Breaker<'_>| names.iter().any(|node| text(node) == Some(breaker.name));
        for unused in self.all.iter().filter(|breaker| !is_named(breaker)) {
            flags.note(format!(
                "the circuit breaker '{}' is ignored: load.circuit_breakers does not name it",
                unused.name
            ));
        }
        Ok(())
    }
}

fn breaker(node: &Node) -> Result<Breaker<'_>, Fault> {
    let mut breaker = Fields::new("circuit_breakers", node)?;
    let name = breaker.text("name")?.ok_or_else(|| Fault::new(node.at, "a circuit breaker needs 'name'"))?;
    let metrics = breaker.take("metrics").ok_or_else(|| Fault::new(node.at, "a circuit breaker needs 'metrics'"))?;
    let is_of_errors = is_of_errors(metrics)?;
    let triggers = breaker.list("triggers")?;
    breaker.finish()?;
    Ok(Breaker {
        name,
        is_of_errors,
        conditions: triggers.iter().map(|node| Ok((trigger(node)?, node.at))).collect::<Result<_, _>>()?,
    })
}

/// In inference-perf an expression decides whether a request counts as a hit; here it is that the request failed.
fn is_of_errors(node: &Node) -> Result<bool, Fault> {
    let mut metrics = Fields::new("circuit_breakers.metrics", node)?;
    metrics.list("matches")?;
    let rules = metrics.list("rules")?;
    metrics.finish()?;
    Ok(!rules.is_empty() && rules.iter().all(|rule| text(rule).is_some_and(|rule| rule.contains("error"))))
}

fn trigger(node: &Node) -> Result<String, Fault> {
    let mut trigger = Fields::new("circuit_breakers.triggers", node)?;
    let missing = |key: &str| Fault::new(node.at, format!("a trigger needs '{key}'"));
    if trigger.choice("type", &["consecutive", "rate_over_window"])?.ok_or_else(|| missing("type"))? == "consecutive" {
        let failures = trigger.whole("threshold", 1)?.ok_or_else(|| missing("threshold"))?;
        trigger.finish()?;
        return Ok(format!("consecutive>={failures}"));
    }
    let seconds = trigger.positive("window_sec")?.ok_or_else(|| missing("window_sec"))?;
    let share = trigger.number("threshold", 0.0)?.filter(|share| *share <= 1.0).ok_or_else(|| missing("threshold"))?;
    let least = trigger.whole("min_samples", 0)?.unwrap_or(0);
    trigger.finish()?;
    let samples = if least > 0 { format!(" of {least}") } else { String::new() };
    Ok(format!("errors>{}% over {seconds}s{samples}", share * 100.0))
}
