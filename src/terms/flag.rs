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
    /// Whether it names a file that the run writes: who runs the command again does not want that one written anew.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub file: bool,
}
