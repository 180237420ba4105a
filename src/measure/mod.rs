//! Measuring: trials until the numbers are stable, and what they come to.

mod advice;
mod blocks;
pub mod calibrate;
pub mod collect;
pub mod complaint;
mod counters;
mod decision;
pub mod disagreement;
pub mod disturbance;
mod growth;
mod history;
pub mod level;
pub mod matrix;
pub mod measurement;
pub mod metrics;
pub mod outcome;
pub mod precision;
pub mod server;
mod silence;
pub mod stability;
pub mod stages;
pub mod summary;
pub mod sweep;
pub mod verdict;
pub mod window;
mod windows;
