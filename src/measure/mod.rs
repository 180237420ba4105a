//! Measuring: trials until the numbers are stable, and what they come to.

mod blocks;
pub mod calibrate;
pub mod collect;
pub mod complaint;
mod counters;
mod decision;
mod growth;
mod history;
pub mod level;
pub mod matrix;
pub mod measurement;
pub mod metrics;
pub mod outcome;
pub mod precision;
pub mod restarts;
pub mod server;
mod silence;
mod slicer;
pub mod stability;
pub mod stages;
pub mod summary;
pub mod sweep;
pub mod verdict;
pub mod window;
