//! What the kernel tells of this machine: text of `/proc` and `/sys`, made into values.
//!
//! Understanding is apart from reading: what a file says is a function of its text, so that it is tested on the text of machines
//! that are not here.

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

/// The text of a file of the kernel, without the blanks around it; `None` where it has no such file, or keeps it to itself.
pub fn read(path: impl AsRef<Path>) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}
