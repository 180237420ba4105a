//! Hardware counters of single threads (perf_event_open(2)): instructions, cycles, cache misses.

use std::collections::HashMap;
use std::io::{Error, ErrorKind};

use perf_event::events::Hardware;
use perf_event::{Builder, Counter};

/// Counts of one thread since its counters were opened, in user space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Instructions.
    pub instructions: u64,
    /// Cycles.
    pub cycles: u64,
    /// Misses of the last-level cache.
    pub cache_misses: u64,
}

/// Counters of threads.
pub struct Counters(HashMap<i32, [Counter; 3]>);

impl Counters {
    /// Opens the counters of `threads`.
    ///
    /// # Errors
    /// In words, if the kernel has none: a virtual machine without them, a container, `perf_event_paranoid`.
    pub fn open(threads: impl Iterator<Item = i32>) -> Result<Self, String> {
        let mut opened = HashMap::new();
        let mut refusal = None;
        for thread in threads {
            match of_thread(thread) {
                Ok(counters) => drop(opened.insert(thread, counters)),
                Err(error) => refusal = Some(error),
            }
        }
        match refusal {
            Some(error) if opened.is_empty() => Err(refused(&error)),
            _ => Ok(Self(opened)),
        }
    }

    /// The counts of each thread.
    pub fn read(&mut self) -> HashMap<i32, Counts> {
        let read = |counter: &mut Counter| counter.read().unwrap_or(0);
        self.0
            .iter_mut()
            .map(|(thread, [instructions, cycles, misses])| {
                (*thread, Counts { instructions: read(instructions), cycles: read(cycles), cache_misses: read(misses) })
            })
            .collect()
    }
}

fn refused(error: &Error) -> String {
    let why = match error.kind() {
        ErrorKind::NotFound => "this machine, perhaps a virtual one, has none",
        ErrorKind::PermissionDenied => "/proc/sys/kernel/perf_event_paranoid, or a container, denies access to them",
        _ => return format!("no instructions, cycles and cache misses: {error}"),
    };
    format!("no instructions, cycles and cache misses: {why}")
}

fn of_thread(thread: i32) -> Result<[Counter; 3], Error> {
    let open = |event: Hardware| {
        let mut counter = Builder::new(event).observe_pid(thread).build()?;
        counter.enable()?;
        Ok::<_, Error>(counter)
    };
    Ok([open(Hardware::INSTRUCTIONS)?, open(Hardware::CPU_CYCLES)?, open(Hardware::CACHE_MISSES)?])
}
