//! Data on standard output, what is said besides on standard error.

use std::fmt::Display;
use std::io::{self, Write as _};

use crate::error::{Error, Result};

/// Prints data on standard output.
///
/// # Errors
/// Where it is closed or full.
pub fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| Error::output(format!("standard output cannot be written: {error}")))
}

/// Says a text on standard error, as it is and in one piece. Where that is closed or full, nobody hears it, and the exit code
/// has to do.
pub fn say(text: impl Display) {
    let _ = io::stderr().write_all(text.to_string().as_bytes());
}

/// Says a line, formatted as by `format!`, after the program's name.
macro_rules! note {
    ($($argument:tt)*) => {
        $crate::stdio::say(format_args!("triton-bench: {}\n", format_args!($($argument)*)))
    };
}
pub(crate) use note;
