//! [`RunContext`]: what all parts of a run share.

use crate::app::screen::Screen;
use crate::backends::Connect;
use crate::exit::Codes;
use crate::ranks::Ranks;
use crate::report::Interrupts;

/// What all parts of a run share beside its plan.
#[derive(Clone, Copy)]
pub struct RunContext<'a> {
    /// Where progress and results are shown.
    pub screen: &'a Screen,
    /// How often the user has interrupted.
    pub interrupts: Interrupts,
    /// Which program's conventions apply.
    pub codes: Codes,
    /// How servers are reached.
    pub connect: Connect,
    /// The other processes that measure with this one, if any.
    pub ranks: Option<&'a Ranks>,
}
