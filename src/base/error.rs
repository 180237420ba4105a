//! The one error type of the program.
//!
//! A message names the flag or file, the value, the rule that it broke, and the next step. A *failed inference* is not
//! an `Error` but a counted outcome (`backend::InferError`).

use std::borrow::Cow;
use std::fmt;

/// What is said of an exchange with the server that ended for an interrupt alone.
pub const BROKEN_OFF: &str = "the user interrupted before the server had answered";

/// Where the fault lies. Every kind ends the program with the same code ([`crate::exit::FAILED`]), as in perf_analyzer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// A flag, or a combination of flags, that makes no sense; the message points to the usage.
    Usage,
    /// Input data, or a file named by a flag, that cannot be read or does not fit the model.
    Input,
    /// The server, its library or the model in it failed or refused.
    Server,
    /// A result file or the standard output could not be written.
    Output,
    /// The reader of standard output has gone, as `head` does when it has seen enough.
    Closed,
    /// Something this machine lacks (a GPU driver, shared memory).
    Machine,
}

/// An error that ends the run. Displayed once, by `main`.
#[derive(Clone, Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// A flag, or a combination of flags, that makes no sense.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Usage, message)
    }

    /// Input data or an input file that cannot be used.
    pub fn input(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Input, message)
    }

    /// The server or its library failed or refused.
    pub fn server(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Server, message)
    }

    /// A result could not be written.
    pub fn output(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Output, message)
    }

    /// The reader of standard output is gone.
    pub fn closed(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Closed, message)
    }

    /// This machine lacks something.
    pub fn machine(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Machine, message)
    }

    fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: one_line(message.into()) }
    }

    /// The kind of error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Whether there would be no error had the user not interrupted.
    pub fn is_of_an_interrupt(&self) -> bool {
        self.message.contains(BROKEN_OFF)
    }

    /// The same error, with the failed action in front of its message.
    #[must_use]
    pub fn context(self, doing: impl fmt::Display) -> Self {
        Self { message: one_line(format!("{doing}: {}", self.message)), ..self }
    }

    /// Combines the errors of two independent attempts into one.
    pub fn both(first: Result<()>, second: Result<()>) -> Result<()> {
        match (first, second) {
            (Err(first), Err(second)) => Err(first.advice(second)),
            (first, second) => first.and(second),
        }
    }

    /// The same error, with advice after its message.
    #[must_use]
    pub fn advice(self, hint: impl fmt::Display) -> Self {
        Self { message: one_line(format!("{}; {hint}", self.message)), ..self }
    }
}

/// Longest word of a message: a value that somebody pasted must not bury the rule that it broke.
const MAX_WORD: usize = 1000;
/// How much of a longer one is shown.
const SHOWN: usize = 100;

/// A message on one line, with long words cut.
fn one_line(message: String) -> String {
    let message = if message.contains(['\n', '\r']) {
        let lines: Vec<&str> = message.split(['\n', '\r']).map(str::trim).filter(|line| !line.is_empty()).collect();
        lines.join(" ")
    } else {
        message
    };
    if message.split(' ').all(|word| word.len() <= MAX_WORD) {
        return message;
    }
    message.split(' ').map(cut).collect::<Vec<_>>().join(" ")
}

fn cut(word: &str) -> Cow<'_, str> {
    if word.len() <= MAX_WORD {
        return Cow::Borrowed(word);
    }
    let end = word.floor_char_boundary(SHOWN);
    Cow::Owned(format!("{}… ({} bytes in all)", &word[..end], word.len()))
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::Error;

    #[test]
    fn long_values_are_cut() {
        let message = Error::usage(format!("-m '{}': it must be a name", "é".repeat(50_000))).to_string();
        assert!(
            message.starts_with("-m 'éé") && message.ends_with("é… (100003 bytes in all) it must be a name"),
            "{message}"
        );
        assert!(message.len() < 200);
        let path = "a/".repeat(400);
        assert_eq!(Error::input(path.as_str()).to_string(), path);
    }

    #[test]
    fn a_message_is_one_line() {
        assert_eq!(
            Error::server("ValueError: none\n\nAt:\r\n  model.py(3)\n").to_string(),
            "ValueError: none At: model.py(3)"
        );
        assert_eq!(Error::server("two  blanks stay").to_string(), "two  blanks stay");
        assert_eq!(Error::input("b").context("file 'a\n'").advice("c\nd").to_string(), "file 'a ': b; c d");
    }
}
