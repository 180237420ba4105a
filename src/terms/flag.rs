//! [`Flag`]: a flag as a result has it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A flag and its effective values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Flag {
    /// Its name, as in the help.
    pub name: String,
    /// Its values as written; none for a switch that is on.
    pub values: Vec<String>,
    /// Whether it was given, and is not a default.
    pub given: bool,
}
