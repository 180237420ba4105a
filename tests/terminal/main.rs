//! The program on a terminal: what it shows while it measures, and what is left when it is over.

#![allow(clippy::disallowed_methods)] // Tests look at the program from outside, with a clock of their own.

mod dashboard;
mod progress;
#[path = "../support/mod.rs"]
mod support;
