//! [`World`]: the processes of a job.

use std::marker::PhantomData;

use crate::border::Operations;
use crate::error::{Error, Result};
use crate::launcher::Launcher;
use crate::library;

/// All processes of the job. It stays on the thread that entered.
pub struct World {
    /// Operations with the other processes.
    pub operations: Operations,
    /// This process' number, from 0.
    pub rank: usize,
    /// Number of processes.
    pub size: usize,
    here: PhantomData<*const ()>,
}

impl World {
    /// Opens the MPI library and joins the other processes.
    ///
    /// # Errors
    /// There is no library, it cannot be used, or it is not of the launcher's family.
    pub fn enter() -> Result<Self> {
        let launcher = Launcher::here();
        let opened = library::open(launcher)?;
        // Checked before entering: MPICH's library ends the process under Open MPI's launcher, and the other way round
        // every process is alone.
        if let Some(launcher) = launcher.filter(|launcher| !launcher.may_have_started(&opened.version)) {
            return Err(mismatch(launcher, &opened.version, "is not of its family"));
        }
        opened.calls.enter().map_err(|error| error.context("--enable-mpi"))?;
        let (rank, size) = opened.calls.rank_and_size()?;
        if let Some(launcher) = launcher.filter(|launcher| launcher.processes != size) {
            return Err(mismatch(launcher, &opened.version, &format!("knows of {size}")));
        }
        Ok(Self { operations: Operations::new(opened.calls), rank, size, here: PhantomData })
    }
}

fn mismatch(launcher: Launcher, version: &str, rule: &str) -> Error {
    let (name, count) = (launcher.name(), launcher.processes);
    Error::machine(format!(
        "--enable-mpi: {name} has started {count} processes, but the MPI library ({version}) {rule}: launcher and library must be of \
         one family; use the mpirun that belongs to the library, or name the launcher's library in TRITON_BENCH_MPI_LIBRARY"
    ))
}
