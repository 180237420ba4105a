//! Rules between flags, as tables. The values of a single flag are checked where it is parsed.

mod dynamic_grpc;
mod facts;
mod load;
mod measurement;
mod no_effect;
mod openai;
mod replicas;
mod service;
mod tls;
mod tracing;

use crate::error::{Error, Result};
use crate::{Draft, Plan};

use no_effect::{drop_without_effect, notes};

/// One rule: when it is broken, and what is said then; `see --help` follows.
enum Rule {
    /// The condition, and a text, in which `{--flag}` stands for that flag as it was given, `{--one|--other}` for the names of
    /// those that were given, `{load}` for the load's flags, `{range}` for its range, and `{-u...}` for all servers.
    Text(fn(&Draft) -> bool, &'static str),
    /// What is said, where that is more than a text.
    Made(fn(&Draft) -> Option<String>),
}

const fn rule(broken: fn(&Draft) -> bool, text: &'static str) -> Rule {
    Rule::Text(broken, text)
}

const fn made(message: fn(&Draft) -> Option<String>) -> Rule {
    Rule::Made(message)
}

impl Rule {
    /// What is said of a draft that breaks it.
    fn message(&self, draft: &Draft) -> Option<String> {
        match self {
            // What stands in braces is every second part.
            Self::Text(broken, text) => broken(draft).then(|| {
                let parts = text.split(['{', '}']).enumerate();
                parts.map(|(n, part)| if n % 2 == 0 { part.to_owned() } else { shown(part, draft) }).collect()
            }),
            Self::Made(message) => message(draft),
        }
    }
}

/// What a name in a text stands for.
fn shown(name: &'static str, draft: &Draft) -> String {
    match name {
        "load" => facts::loads(draft).join(" and "),
        "range" => facts::shown_range(draft),
        "-u..." => facts::shown_urls(draft),
        flags if flags.contains('|') => draft.given.among(&flags.split('|').collect::<Vec<_>>()).join(" and "),
        flag => draft.given.show(flag),
    }
}

impl Draft {
    /// Checks the draft against every rule that does not need the model.
    ///
    /// # Errors
    /// The message of the first broken rule: the flags, their values, the rule.
    pub fn validate(mut self) -> Result<Plan> {
        check(&self)?;
        let (notes, open) = notes(&self);
        self.plan.notes.extend(notes);
        self.plan.model_notes = open;
        drop_without_effect(&mut self.plan);
        Ok(self.plan)
    }
}

/// All rules, in the order in which they are checked.
const TABLES: [&[Rule]; 9] = [
    dynamic_grpc::RULES,
    openai::RULES,
    load::RULES,
    measurement::RULES,
    replicas::RULES,
    service::DATA_RULES,
    service::SERVER_RULES,
    tls::RULES,
    tracing::RULES,
];

/// Reports the first rule that a draft breaks.
///
/// # Errors
/// If a rule is broken.
fn check(draft: &Draft) -> Result<()> {
    match TABLES.into_iter().flatten().find_map(|rule| rule.message(draft)) {
        Some(message) => Err(Error::usage(format!("{message}; see --help"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags;

    #[test]
    fn what_stands_in_braces_is_a_flag_or_known() {
        let is_known = |name: &str| ["load", "range", "-u..."].contains(&name) || flags::find(name).is_some();
        let mut count = 0;
        for rule in TABLES.into_iter().flatten() {
            let Rule::Text(_, text) = rule else { continue };
            assert!(text.matches('{').count() == text.matches('}').count(), "{text}");
            for names in text.split(['{', '}']).skip(1).step_by(2) {
                assert!(names.split('|').all(is_known), "{names} in: {text}");
                count += 1;
            }
        }
        assert!(count > 40, "the texts are found");
    }
}
