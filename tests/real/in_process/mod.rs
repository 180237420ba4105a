//! Triton in the program's own process, end to end: what is promised of loading, load, numbers, outputs and failures.
//!
//! Tests in `measured` look at times and take the machine for themselves; all others may run beside each other.

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
