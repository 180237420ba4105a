//! Measuring: trials until the numbers are stable, and their results.

#![deny(unsafe_code, clippy::print_stderr, clippy::print_stdout)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![warn(missing_docs)]

mod backlog;
pub mod bare;
pub mod blocks;
pub mod bounds;
pub mod breaker;
pub mod calibrate;
pub mod collect;
pub mod cost;
mod counters;
mod decision;
pub mod disturbance;
mod drift;
mod end_barrier;
mod failures;
pub mod gate;
mod heartbeat;
mod history;
pub mod level;
pub mod level_run;
mod log;
pub mod measurement;
pub mod metrics;
pub mod periodic;
pub mod precision;
mod rank_part;
mod ranks;
pub mod rounds;
#[cfg(test)]
mod scripted;
pub mod sending;
pub mod server;
mod silence;
mod slicer;
pub mod stability;
pub mod stages;
mod stall;
mod still;
pub mod sweep;
pub mod verdict;
pub mod waiting;
mod warm_up;
pub mod waterfall;
mod window_sets;
pub mod window_summary;
mod worth;

use ::{backend, data, load, model, plan, record, result, stats, terms, wire};
#[cfg(test)]
use ::stats::seed;
use base::{clock, error, interrupt, machine, stdio};
