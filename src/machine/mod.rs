//! What the kernel reports about this machine: text of `/proc` and `/sys`, parsed into values.
//!
//! Parsing is separate from reading: the meaning of a file is a function of its text, so tests can use the text of
//! other machines.

pub mod cgroup;
pub mod counters;
pub mod fitness;
pub mod frequency;
pub mod gauge;
pub mod gpus;
pub mod libraries;
pub mod listener;
pub mod processes;
pub mod processors;
pub mod thread_usage;
pub mod threads;
pub mod usage;

use std::fs;
use std::path::Path;

/// The text of a kernel file, without the blanks around it; `None` if it does not exist or is not readable.
pub fn read(path: impl AsRef<Path>) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}
