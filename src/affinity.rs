//! Which processors threads run on.

use rustix::thread::{CpuSet, sched_setaffinity};

use crate::error::{Error, Result};

/// Pins the calling thread to `cpus`, if any are given. Threads that it starts from then on inherit this.
///
/// # Errors
/// Where the machine has no such processors, or the process may not use them.
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
