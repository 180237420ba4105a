//! In place of the dashboard, in a program that was built without one.

use crate::error::{Error, Result};
use crate::machine::host_monitor::Machine;
use crate::measure::blocks::Block;
use crate::plan::Plan;
use crate::report::progress::Standing;
use crate::result::disturbance::Disturbance;

/// There is none: [`check`](super::check) has refused it before.
pub enum Dashboard {}

impl Dashboard {
    /// Fails.
    ///
    /// # Errors
    /// Always.
    pub fn start(_: &Plan) -> Result<Self> {
        Err(Error::usage(super::WITHOUT))
    }

    /// Cannot be called.
    pub fn block(&self, _: f64, _: f64, _: &Block) {
        match *self {}
    }

    /// Cannot be called.
    pub fn disturbed(&self, _: Option<Disturbance>) {
        match *self {}
    }

    /// Cannot be called.
    pub fn show(&self, _: Standing, _: u64, _: Option<&Machine>) {
        match *self {}
    }
}
