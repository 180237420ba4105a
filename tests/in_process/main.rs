//! Triton in the program's own process, end to end: what is promised of loading, load, numbers, outputs and failures.
//!
//! Tests in `measured` look at times and take the machine for themselves; all others may run beside each other.

#![allow(clippy::disallowed_methods)] // Tests look at the program from outside, with a clock of their own.

mod bad_input;
mod configuration;
mod disturbances;
mod endings;
mod failures;
mod lifecycle;
mod limits;
mod lists;
mod many_steps;
mod measured;
mod observers;
mod outputs;
mod recomputed;
mod restarts;
mod scripted;
mod streams;
#[path = "../support/mod.rs"]
mod support;
