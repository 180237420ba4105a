//! MPI: the processes of one job, and how they exchange bytes. Opened at run time if a run asks for it; nothing is
//! linked, and without `--enable-mpi` nothing of it is touched.
//!
//! All calls come from the thread that entered. Nothing here waits: operations are started and polled, so that the
//! caller sleeps in between and has a time limit. (A waiting `MPI_Barrier` occupies a whole processor.)

#![deny(unsafe_code, clippy::print_stderr, clippy::print_stdout)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![warn(missing_docs)]

#[allow(unsafe_code)]
mod border;
mod launcher;
mod library;
mod world;

use base::error;

pub use border::Pending;
pub use launcher::Launcher;
pub use world::World;
