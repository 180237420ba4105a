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
    subject: Subject,
}

/// What its expressions ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    /// Failed requests, whatever their error is: these alone end a run here.
    AnyError,
    /// Requests with some of all errors.
    SomeErrors,
    /// Something else.
    Other,
}

/// Expressions that hold for every failed request, without blanks and with the quotes that [`plain`] makes.
const ANY_ERROR: &[&str] = &["error", "error.error_type", "error.error_msg"];
/// What such a one is compared with where it is there at all.
const ABSENT: &[&str] = &["null", "`null`", "None", "''", "`''`"];

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
            let rule = match found.subject {
                Subject::AnyError => {
                    found.conditions.iter().for_each(|(condition, at)| flags.at(*at).add("stop-on", condition));
                    continue;
                }
                Subject::SomeErrors => {
                    "its rule is for certain errors, and --stop-on cannot tell one type of error from another: for all of them, \
                        write 'error != null'"
                }
                Subject::Other => {
                    "only failed requests end a run here (--stop-on), and its rules do not ask for 'error'"
                }
            };
            flags.note(format!("the circuit breaker '{}' has no effect: {rule}", found.name));
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
    let subject = subject(metrics)?;
    let triggers = breaker.list("triggers")?;
    breaker.finish()?;
    Ok(Breaker {
        name,
        subject,
        conditions: triggers.iter().map(|node| Ok((trigger(node)?, node.at))).collect::<Result<_, _>>()?,
    })
}

/// In inference-perf expressions decide whether a request counts as a hit: one of the rules, or, without rules, that it is looked at
/// at all (one of the matches). Here it is that the request failed.
fn subject(node: &Node) -> Result<Subject, Fault> {
    let mut metrics = Fields::new("circuit_breakers.metrics", node)?;
    let (matches, rules) = (metrics.list("matches")?, metrics.list("rules")?);
    metrics.finish()?;
    let subject_of_matches = joint(matches);
    Ok(match joint(rules) {
        _ if rules.is_empty() => subject_of_matches,
        // The others are not looked at.
        Subject::AnyError if subject_of_matches == Subject::SomeErrors => Subject::SomeErrors,
        subject => subject,
    })
}

/// What expressions ask for of which one has to hold.
fn joint(expressions: &[Node]) -> Subject {
    let subjects: Vec<Subject> = expressions.iter().map(|node| text(node).map_or(Subject::Other, asked)).collect();
    if subjects.is_empty() || subjects.contains(&Subject::Other) {
        Subject::Other
    } else if subjects.contains(&Subject::AnyError) {
        Subject::AnyError
    } else {
        Subject::SomeErrors
    }
}

fn asked(expression: &str) -> Subject {
    let plain = plain(expression);
    let (operand, absent) = plain.split_once("!=").unwrap_or((&plain, "null"));
    if ANY_ERROR.contains(&operand) && ABSENT.contains(&absent) {
        Subject::AnyError
    } else if plain.contains("error") {
        Subject::SomeErrors
    } else {
        Subject::Other
    }
}

/// Without blanks, and with one kind of quotes.
fn plain(expression: &str) -> String {
    expression.chars().filter(|c| !c.is_whitespace()).map(|c| if c == '"' { '\'' } else { c }).collect()
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
    // There, none are needed unless it says so: the first sample may be enough.
    let least = trigger.whole("min_samples", 0)?.unwrap_or(0).max(1);
    trigger.finish()?;
    // Not in per cent, whose hundredth may be another number.
    Ok(format!("errors>={share} over {seconds}s of {least}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::yaml;

    #[test]
    fn a_rate_trips_when_it_is_reached_from_the_first_sample_on() {
        for (text, wanted) in [
            ("{type: rate_over_window, window_sec: 5, threshold: 1.0}", "errors>=1 over 5s of 1"),
            ("{type: rate_over_window, window_sec: 5, threshold: 0.1, min_samples: 20}", "errors>=0.1 over 5s of 20"),
            ("{type: consecutive, threshold: 5}", "consecutive>=5"),
        ] {
            assert_eq!(trigger(&yaml::read(text).unwrap()).unwrap_or_else(|fault| panic!("{text}: {fault:?}")), wanted);
            assert!(crate::stop_rule::stop_rule(wanted).is_ok(), "{wanted}");
        }
    }

    #[test]
    fn expressions_ask_for_any_error_for_some_or_for_none() {
        for (text, wanted) in [
            ("{matches: [error], rules: ['error != null']}", Subject::AnyError),
            ("{matches: ['error != None']}", Subject::AnyError),
            ("{matches: [\"error.error_type != ''\"]}", Subject::AnyError),
            ("{matches: ['error.error_type != \"\"'], rules: []}", Subject::AnyError),
            ("{matches: ['latency'], rules: ['error']}", Subject::AnyError),
            ("{matches: [\"error.error_type == 'TimeoutError'\"]}", Subject::SomeErrors),
            ("{matches: [\"error.error_type == 'TimeoutError'\"], rules: ['error != null']}", Subject::SomeErrors),
            ("{matches: [error], rules: [\"error.error_type != 'TimeoutError'\"]}", Subject::SomeErrors),
            ("{matches: [error], rules: [\"error.error_type == 'A'\", error]}", Subject::AnyError),
            ("{matches: [latency], rules: ['latency > 3']}", Subject::Other),
            ("{matches: [error], rules: ['latency > 3', error]}", Subject::Other),
            ("{matches: []}", Subject::Other),
        ] {
            let node = yaml::read(text).unwrap();
            assert_eq!(subject(&node).unwrap_or_else(|fault| panic!("{text}: {fault:?}")), wanted, "{text}");
        }
    }
}
