//! [`Words`]: the command line as it was given.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The command line, for readers of a result: values that may be secrets are left out.
#[derive(Clone, Debug, Default)]
pub struct Words {
    /// The flags that were given and their values, word by word.
    pub command_line: Vec<String>,
    /// Every flag that has a value or is on, in the order of the help.
    pub flags: Vec<Flag>,
}

/// Flags that say where others come from, what is written where and what is shown, and nothing of what is measured.
pub const OF_OUTPUT: &[&str] = &[
    "-f",
    "--verbose-csv",
    "--summary-file",
    "--resume",
    "--junit",
    "--profile-export-file",
    "--requests-file",
    "--trace-export",
    "--trace-file",
    "--log-file",
    "--report",
    "--svg",
    "--markdown",
    "--report-dir",
    "--report-parts",
    "--report-prefix",
    "--live",
    "--metrics-listen",
    "--otlp-endpoint",
    "-v",
    "--config",
    "--run",
    "--print-config",
];

/// Flags by which a result is judged when it is there.
pub const OF_THE_GATE: &[&str] = &["--require", "--baseline", "--undecided", "--gate-time"];

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
