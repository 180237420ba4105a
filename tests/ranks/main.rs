//! Several processes that a launcher has started: one load in parts, or loads of their own, on both MPIs; and whatever may happen to
//! one of them.

#![allow(clippy::disallowed_methods)] // Tests look at the program from outside, with a clock of their own.

mod faults;
mod hosts;
mod joint;
mod mpi;
mod separate;
mod shapes;
#[path = "../support/mod.rs"]
mod support;
