//! Rules that hold between flags, as tables. What a single flag may be is checked where it is read.

mod dynamic_grpc;
mod facts;
mod idle;
mod load;
mod measurement;
mod openai;
mod service;
mod tls;

use crate::error::{Error, Result};
use crate::plan::Draft;

pub use idle::notes;

/// One rule: when it is broken, and what is said then. `see --help` is added to each message.
struct Rule {
    broken: fn(&Draft) -> bool,
    message: fn(&Draft) -> String,
}

/// Says the first rule that a draft breaks.
///
/// # Errors
/// Where a rule is broken.
pub fn check(draft: &Draft) -> Result<()> {
    let tables = [
        dynamic_grpc::RULES,
        openai::RULES,
        load::RULES,
        measurement::RULES,
        service::DATA_RULES,
        service::SERVER_RULES,
        tls::RULES,
    ];
    match tables.into_iter().flatten().find(|rule| (rule.broken)(draft)) {
        Some(rule) => Err(Error::usage(format!("{}; see --help", (rule.message)(draft)))),
        None => Ok(()),
    }
}
