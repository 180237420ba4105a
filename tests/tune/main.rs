//! `triton-bench tune`, end to end: models whose truth is known, in Triton in the program's own process.

#![allow(clippy::disallowed_methods)] // Tests look at the program from outside, with a clock of their own.

mod endings;
mod found;
mod isolation;
mod laws;
mod network;
#[path = "../support/mod.rs"]
mod support;
