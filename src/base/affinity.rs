//! Which processors threads run on.

use std::fs;

use rustix::process::Pid;
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
    cpus.map_or(Ok(()), |cpus| pin(None, cpus))
}

/// The same for every thread that the process has, such as those that wait for signals.
///
/// # Errors
/// As [`pin_this_thread`].
pub fn pin_this_process(cpus: Option<&[usize]>) -> Result<()> {
    let Some(cpus) = cpus else { return Ok(()) };
    pin(None, cpus)?;
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let numbers = tasks.filter_map(|task| task.file_name().to_str()?.parse().ok());
    for thread in numbers.filter_map(Pid::from_raw) {
        // One that has ended meanwhile needs no processor.
        let _ = pin(Some(thread), cpus);
    }
    Ok(())
}

fn pin(thread: Option<Pid>, cpus: &[usize]) -> Result<()> {
    let mut set = CpuSet::new();
    for &cpu in cpus.iter().filter(|&&cpu| cpu < CpuSet::MAX_CPU) {
        set.set(cpu);
    }
    sched_setaffinity(thread, &set).map_err(|error| {
        Error::machine(format!(
            "cannot run on processors {cpus:?}: {error}; name processors that this process may use (see taskset -p $$)"
        ))
    })
}
