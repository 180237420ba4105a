//! When the next request leaves, and what it carries: workers that keep a number of requests outstanding, or follow a
//! schedule.

pub mod closed;
mod context;
mod control;
mod engine;
pub mod feed;
pub mod lanes;
pub mod mix;
pub mod open;
pub mod pace;
#[cfg(test)]
mod parts_tests;
pub mod payloads;
mod periodic;
pub mod recorded;
mod rest;
mod run;
pub mod schedule;
pub mod sequence;
mod sessions;
mod turns;
mod walk;
mod worker;

pub use closed::ClosedLoop;
pub use context::LoadContext;
pub use open::OpenLoop;
pub use periodic::{BatchBook, BatchProgress, PeriodicLoop};
pub use run::{LoadShape, PreparedLoad, RunningLoad, Sends, prepare, start};
pub use sessions::{SessionLoop, Turn};
pub use turns::TurnLoop;
