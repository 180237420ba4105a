//! `objectives` and `constraints`: what to optimise, and what must hold.

use crate::config::fields::{Fields, decimal, text};
use crate::config::flags::Flags;
use crate::config::yaml::{Fault, Key, Node, Place, Value};

/// Figures of Model Analyzer that a search does not measure.
const UNSEEN: &[&str] = &["gpu_", "cpu_", "output_token_throughput", "inter_token_latency", "time_to_first_token"];

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

    /// The key that is used instead of a constraint's, if the file has it.
    fn replacement(&self, constraint: &str) -> Option<&'static str> {
        let is_latency = ["perf_latency", "perf_latency_p99"].contains(&constraint);
        match (is_latency && self.latency_budget.is_some(), self.min_throughput) {
            (true, _) => Some("latency_budget"),
            (false, Some(_)) if constraint == "perf_throughput" => Some("min_throughput"),
            _ => None,
        }
    }

    /// Adds them.
    ///
    /// # Errors
    /// What has no counterpart.
    pub fn flags(&self, flags: &mut Flags) -> Result<(), Fault> {
        if let Some(node) = self.objectives {
            let objective = objective(node, flags)?;
            flags.at(node.at).add("objective", objective);
        }
        let constraints = match self.constraints {
            Some(Node { value: Value::List(list), .. }) => list.as_slice(),
            node => node.map_or(&[][..], std::slice::from_ref),
        };
        for node in constraints {
            for (key, bounds) in node.map()? {
                match self.replacement(&key.name) {
                    Some(other) => flags.note(format!("constraints.{}: '{other}' replaces it", key.name)),
                    None => constraint(key, bounds, flags)?,
                }
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

/// The objective: of several, the one with the largest weight, or the first of these.
fn objective(node: &Node, flags: &mut Flags) -> Result<String, Fault> {
    let mut all: Vec<(Key, f64)> = match &node.value {
        Value::Map(entries) => {
            let weight = |(key, node): &(Key, Node)| Ok((key.clone(), number(&key.name, node, 0.0)?));
            entries.iter().map(weight).collect::<Result<_, Fault>>()?
        }
        Value::List(list) => list.iter().filter_map(|node| Some((named(node)?, 1.0))).collect(),
        _ => named(node).into_iter().map(|key| (key, 1.0)).collect(),
    };
    if all.is_empty() {
        return Err(Fault::new(node.at, "'objectives' names nothing: perf_throughput or perf_latency_p99 would do"));
    }
    all.sort_by(|(_, left), (_, right)| right.total_cmp(left));
    let (first, remaining) = (&all[0].0, &all[1..]);
    if !remaining.is_empty() {
        let others: Vec<&str> = remaining.iter().map(|(key, _)| key.name.as_str()).collect();
        flags.note(format!(
            "objectives: the search optimises {}, which no other outweighs; {} has no effect, unless a constraint bounds it",
            first.name,
            others.join(", ")
        ));
    }
    figure(first)
}

fn named(node: &Node) -> Option<Key> {
    Some(Key { name: text(node)?.to_owned(), at: node.at })
}

/// Our name of one of Model Analyzer's figures.
fn figure(key: &Key) -> Result<String, Fault> {
    match key.name.strip_prefix("perf_") {
        Some("throughput") => Ok("throughput".to_owned()),
        // Its older name.
        Some("latency") => Ok("p99".to_owned()),
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
    if UNSEEN.iter().any(|figure| key.name.starts_with(figure)) {
        flags.note(format!("constraints.{}: a search does not measure it, so nothing is held to that", key.name));
        return Ok(());
    }
    let figure = figure(key)?;
    // Latencies are in milliseconds.
    let unit = if figure == "throughput" { "" } else { "ms" };
    for (bound, node) in bounds.map()? {
        let relation = match bound.name.as_str() {
            "max" => "<=",
            "min" => ">=",
            other => return Err(Fault::new(bound.at, format!("'{other}' is not a bound: use min or max"))),
        };
        flags.at(node.at).add("constraint", format!("{figure}{relation}{}{unit}", number(&key.name, node, 0.0)?));
    }
    Ok(())
}

/// A scalar as a number of at least `least`.
fn number(key: &str, node: &Node, least: f64) -> Result<f64, Fault> {
    let number = text(node).and_then(decimal);
    let found = || text(node).map_or_else(|| node.kind().to_owned(), |text| format!("'{text}'"));
    let rule = || format!("'{key}' takes a number of at least {least}, not {}", found());
    number.filter(|number| *number >= least).ok_or_else(|| Fault::new(node.at, rule()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::yaml;

    /// The constraints and the notes of a file.
    fn constraints(text: &str) -> (Vec<String>, Vec<String>) {
        let (node, mut flags) = (yaml::read(text).unwrap(), Flags::default());
        let goals = Goals::take(&mut Fields::new("", &node).unwrap()).unwrap();
        goals.flags(&mut flags).unwrap_or_else(|fault| panic!("{text}: {fault:?}"));
        let words = flags.settings.iter().flat_map(|setting| &setting.arguments);
        (words.map(|word| word.to_string_lossy().into_owned()).collect(), flags.notes)
    }

    #[test]
    fn budgets_replace_the_constraints_that_they_are_short_for() {
        let (found, notes) = constraints(
            "{constraints: {perf_latency_p99: {max: 50}, perf_latency: {max: 60}, perf_throughput: {min: 900}, \
             perf_latency_avg: {max: 9}}, latency_budget: 100, min_throughput: 5}",
        );
        assert_eq!(found, ["--constraint=avg<=9ms", "--constraint=p99<=100ms", "--constraint=throughput>=5"]);
        assert_eq!(notes.len(), 3, "{notes:?}");
        assert_eq!(notes[0], "constraints.perf_latency_p99: 'latency_budget' replaces it");
        let (found, notes) = constraints("{constraints: {perf_latency_p99: {max: 50}}, min_throughput: 5}");
        assert_eq!(
            (found, notes.len()),
            (["p99<=50ms", "throughput>=5"].map(|it| format!("--constraint={it}")).into(), 0)
        );
    }

    #[test]
    fn the_older_name_of_the_99th_percentile_is_known() {
        let (found, _) = constraints("{objectives: [perf_latency], constraints: {perf_latency: {max: 1_000}}}");
        assert_eq!(found, ["--objective=p99", "--constraint=p99<=1000ms"]);
    }
}
