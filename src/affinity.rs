//! Which processors threads run on.

use rustix::thread::{CpuSet, sched_setaffinity};

use crate::error::{Error, Result};

/// How many threads may issue requests without taking processors from the server: all of `cpus` if they are reserved
/// for that, else half of those that this process may use.
pub fn client_processors(cpus: Option<&[usize]>) -> usize {
    match cpus {
        Some(cpus) => cpus.len().max(1),
        None => (std::thread::available_parallelism().map_or(1, usize::from) / 2).max(1),
    }
}

/// Pins the calling thread to `cpus`, if any are given. Threads that it starts from then on inherit this.
///
/// # Errors
/// If the machine has no such processors, or the process may not use them.
pub fn pin_this_thread(cpus: Option<&[usize]>) -> Result<()> {
    let Some(cpus) = cpus else { return Ok(()) };
    let mut set = CpuSet::new();
    for &cpu in cpus.iter().filter(|&&cpu| cpu < CpuSet::MAX_CPU) {
        set.set(cpu);
    }
    sched_setaffinity(None, &set).map_err(|error| {
        Error::machine(format!(
            "cannot run on processors {cpus:?}: {error}; name processors that this process may use (see taskset -p $$)"
        ))
    })
}
