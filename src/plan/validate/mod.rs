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

/// One rule: when it is broken, and the message. `see --help` is appended to each message.
struct Rule {
    broken: fn(&Draft) -> bool,
    message: fn(&Draft) -> String,
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

/// Reports the first rule that a draft breaks.
///
/// # Errors
/// If a rule is broken.
fn check(draft: &Draft) -> Result<()> {
    let tables = [
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
    match tables.into_iter().flatten().find(|rule| (rule.broken)(draft)) {
        Some(rule) => Err(Error::usage(format!("{}; see --help", (rule.message)(draft)))),
        None => Ok(()),
    }
}
