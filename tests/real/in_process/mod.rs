//! Triton in the program's own process, end to end: what is promised about loading, load, numbers, outputs and
//! failures.
//!
//! Tests in `measured` measure times and need the machine to themselves; all others may run in parallel.

mod bad_input;
mod configuration;
mod disturbances;
mod endings;
mod failures;
mod lifecycle;
mod limits;
mod lists;
mod measured;
mod observers;
mod outputs;
mod recomputed;
mod restarts;
mod streams;
