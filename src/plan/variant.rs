//! Variants of a run, which are measured in rounds that take turns.

use crate::Plan;

/// One of several ways to do a run.
#[derive(Clone, Debug)]
pub struct Variant {
    /// Its name in reports.
    pub name: String,
    /// Its flags, as they were written.
    pub flags: String,
    /// What it does: the run's flags, and these over them.
    pub plan: Plan,
}
