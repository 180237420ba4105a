//! Processor time and memory of processes.

use std::collections::HashMap;
use std::time::Duration;

use rustix::process::getpid;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::clock::Stamp;
use crate::machine::read;

/// What processes used of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// Processors that were busy for them on average: 1.5 is one and a half.
    pub processors: f64,
    /// Bytes of memory that they used at the end; absent if unknown.
    pub memory_bytes: Option<u64>,
}

/// Processor time by process, at a moment.
#[derive(Clone, Copy)]
pub struct Reading<'a> {
    /// The moment.
    pub at: Stamp,
    /// By process ID.
    pub busy: &'a HashMap<i32, Duration>,
}

/// The usage of this process between two readings, and that of the others; `None` if there are none, or no time has
/// passed.
pub fn difference(first: Reading<'_>, last: Reading<'_>) -> (Option<Usage>, Option<Usage>) {
    let (before, after) = (first.busy, last.busy);
    let own_pid = getpid().as_raw_nonzero().get();
    let seconds = (last.at - first.at).as_secs_f64();
    let usage = |is_meant: &dyn Fn(i32) -> bool| {
        let pids: Vec<i32> = after.keys().copied().filter(|pid| is_meant(*pid) && before.contains_key(pid)).collect();
        let had: Duration = pids.iter().map(|pid| after[pid].saturating_sub(before[pid])).sum();
        let memory: Vec<u64> = pids.iter().filter_map(|pid| memory(*pid)).collect();
        (!pids.is_empty() && seconds > 0.0).then(|| Usage {
            processors: had.as_secs_f64() / seconds,
            memory_bytes: (memory.len() == pids.len()).then(|| memory.iter().sum()),
        })
    };
    (usage(&|pid| pid == own_pid), usage(&|pid| pid != own_pid))
}

/// Resident memory of a process, in bytes.
fn memory(pid: i32) -> Option<u64> {
    let status = read(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_time_and_that_of_others_are_told_apart() {
        let pid = getpid().as_raw_nonzero().get();
        let seconds = Duration::from_secs;
        let before = HashMap::from([(pid, seconds(1)), (-5, seconds(1))]);
        let after = HashMap::from([(pid, seconds(2)), (-5, seconds(7)), (-6, seconds(9))]);
        let at = |ns, busy| Reading { at: Stamp(ns), busy };
        let (client, server) = difference(at(0, &before), at(2_000_000_000, &after));
        let client = client.unwrap();
        assert!(client.processors == 0.5 && client.memory_bytes > Some(1 << 20), "{client:?}");
        assert_eq!(server, Some(Usage { processors: 3.0, memory_bytes: None }), "there is no such process");
        assert_eq!(difference(at(0, &before), at(0, &after)), (None, None));
        let none = HashMap::new();
        assert_eq!(difference(at(0, &none), at(5, &none)), (None, None));
    }
}
