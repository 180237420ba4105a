//! When the next request leaves, and what it carries: workers that keep a number of requests outstanding, or follow a
//! schedule.

#![deny(unsafe_code, clippy::print_stderr, clippy::print_stdout)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![warn(missing_docs)]

pub mod closed;
mod context;
mod control;
mod engine;
mod entry_order;
pub mod input_source;
pub mod mix;
pub mod open;
pub mod pace;
#[cfg(test)]
mod parts_tests;
pub mod payloads;
mod periodic;
pub mod recorded;
pub mod request_streams;
mod rest;
mod run;
pub mod schedule;
pub mod sequence;
mod sessions;
mod turns;
mod worker;

use ::{backend, data, model, plan, ranks, record, shm, terms};
use ::stats::seed;
use base::{affinity, chunks, clock, error, limits};

pub use closed::ClosedLoop;
pub use context::LoadContext;
pub use open::OpenLoop;
pub use periodic::{BatchBook, BatchProgress, PeriodicLoop};
pub use run::{LoadShape, PreparedLoad, RunningLoad, Sends, prepare, start};
pub use sessions::{SessionLoop, Turn};
pub use turns::TurnLoop;
