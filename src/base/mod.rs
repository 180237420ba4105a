//! What everything else stands on, and knows nothing of it: the clock, errors, signals, standard streams, what the kernel
//! reports.
//!
//! A crate of its own with several layers of docs/architecture.md, as none of them is worth one: they change rarely, and then
//! everything is built anew.

#![deny(unsafe_code, clippy::print_stderr, clippy::print_stdout)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![warn(missing_docs)]

pub mod affinity;
pub mod chunks;
pub mod clock;
pub mod diagnostics;
pub mod error;
pub mod exit;
pub mod held;
pub mod inbox;
pub mod interrupt;
pub mod limits;
pub mod machine;
pub mod seconds;
pub mod signals;
#[allow(unsafe_code)]
pub mod socket;
pub mod stdio;
pub mod sync;

#[doc(hidden)]
pub use ::log;
