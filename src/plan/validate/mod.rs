//! Rules that hold between flags, as tables. What a single flag may be is checked where it is read.

mod dynamic_grpc;
mod facts;
mod idle;
mod load;
mod measurement;
mod openai;
mod service;
mod tls;
mod tracing;

use crate::error::{Error, Result};
use crate::plan::{Draft, Plan};

pub use facts::LOADS;
use idle::notes;

/// One rule: when it is broken, and what is said then. `see --help` is added to each message.
struct Rule {
    broken: fn(&Draft) -> bool,
    message: fn(&Draft) -> String,
}

impl Draft {
    /// Holds the draft against every rule that can be checked before the model is known.
    ///
    /// # Errors
    /// The message of the first rule that is broken: the flags, their values, the rule.
    pub fn validate(mut self) -> Result<Plan> {
        check(&self)?;
        let (known, open) = notes(&self);
        self.plan.notes.extend(known);
        self.plan.model_notes = open;
        Ok(self.plan)
    }
}

/// Says the first rule that a draft breaks.
///
/// # Errors
/// Where a rule is broken.
fn check(draft: &Draft) -> Result<()> {
    let tables = [
        dynamic_grpc::RULES,
        openai::RULES,
        load::RULES,
        measurement::RULES,
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
