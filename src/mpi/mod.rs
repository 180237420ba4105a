//! MPI: the processes of one job, and how they give each other bytes. Opened at run time where a run asks for it; nothing is
//! linked, and without `--enable-mpi` nothing of it is touched.
//!
//! All calls come from the thread that entered. Nothing here waits: operations are begun and looked at, so that whoever waits
//! sleeps in between and knows a limit. (A waiting `MPI_Barrier` takes a whole processor.)

#[allow(unsafe_code)]
mod border;
mod launcher;
mod library;
mod world;

pub use border::Pending;
pub use launcher::Launcher;
pub use world::World;
