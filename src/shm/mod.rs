//! Memory that tensors live in: ordinary, page-locked, POSIX shared, or a GPU's.
//!
//! A [`Region`] is one allocation with a stable address. Inputs are written once, when it is made, and frozen; outputs
//! are written by the server while a request is under way, so their bytes are read only by copying. A [`RegionBuilder`]
//! grows a region of ordinary memory whose size is not known beforehand.

#![deny(unsafe_code, clippy::print_stderr, clippy::print_stdout)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![warn(missing_docs)]

mod allowance;
mod builder;
#[allow(unsafe_code)]
mod cuda;
mod dev_shm;
mod free;
mod host_memory;
mod names;
mod placements;
#[allow(unsafe_code)]
mod posix;
mod region;

use base::{error, limits, machine};

pub use allowance::Allowance;
pub use builder::{ALIGNMENT, RegionBuilder};
pub use cuda::{ImportedMemory, device_count};
pub use free::free_bytes;
pub use names::{own_prefix, owner, unlink_all, unlink_on_panic};
pub use placements::Placements;
pub use posix::{end_if_cut_short, end_when_files_are_cut_short, say_when_files_are_cut_short};
pub use region::{Placement, Region};
pub use region::{map_text, open_regular};
