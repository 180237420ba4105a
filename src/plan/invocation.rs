//! [`Invocation`]: the command line as it was given.

use crate::terms::Flag;

/// The command line, for readers of a result: values that may be secrets are left out.
#[derive(Clone, Debug, Default)]
pub struct Invocation {
    /// The flags that were given and their values, word by word.
    pub command_line: Vec<String>,
    /// Every flag that has a value or is on, in the order of the help.
    pub flags: Vec<Flag>,
}
