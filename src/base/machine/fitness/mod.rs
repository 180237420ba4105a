//! What makes a machine unfit for measuring. Each check is a function of what the kernel reports, and gives the value
//! found, why it matters, and what to do.

pub mod gpu;
pub mod limits;
pub mod memory;
pub mod processors;
pub mod time;

use std::fmt;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grade {
    /// Nothing stands in the way.
    Good,
    /// It matters to some runs.
    Note,
    /// Figures will be worse, or spread more, than they need.
    Warning,
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How much it matters.
    pub grade: Grade,
    /// What was checked, and its value.
    pub observation: String,
    /// Why it matters, and what to do; empty if it is good.
    pub advice: String,
}

impl Finding {
    /// Nothing to do.
    pub fn good(text: impl Into<String>) -> Self {
        Self { grade: Grade::Good, observation: text.into(), advice: String::new() }
    }

    /// Matters to some runs.
    pub fn note(text: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { grade: Grade::Note, observation: text.into(), advice: advice.into() }
    }

    /// Makes figures worse.
    pub fn warning(text: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { grade: Grade::Warning, observation: text.into(), advice: advice.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.grade {
            Grade::Good => "ok",
            Grade::Note => "note",
            Grade::Warning => "warning",
        };
        write!(f, "{word:<8} {}", self.observation)?;
        if self.advice.is_empty() { Ok(()) } else { write!(f, ": {}", self.advice) }
    }
}
