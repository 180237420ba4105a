//! The search for a model's configuration: which candidate is measured next, and what follows from the measurements.
//!
//! Everything here is a function of values: no clock, no server, no files. [`Planner`] is a state machine: it asks for
//! a [`Trial`], receives the result ([`Observation`]), and in the end says what is proven ([`Answer`]). The same seed
//! and the same observations give the same trials, so a search that was broken off can continue from its record.
//!
//! A crate of its own, because its tests search simulated servers thousands of times: they build it optimised.

#![deny(unsafe_code)]
#![warn(missing_docs)]

mod answer;
mod budget;
mod calibration;
mod extending;
mod field;
mod finish;
mod narrowing;
mod planner;
mod race;
mod racing;
mod reason;
mod space;
#[cfg(test)]
mod tests;
mod trial;

pub use answer::{Answer, Beside, Gain};
pub use planner::Planner;
pub use race::median;
pub use reason::Reason;
pub use space::{Dimension, Place, Space};
pub use trial::{Candidate, Found, Observation, Phase, Settings, Status, Trial};
