//! Threads: how long each has waited for a processor, and how often it was preempted.

use std::collections::HashMap;
use std::fs;

use rustix::process::Pid;

use crate::machine::read;

/// A thread's waiting and preemptions since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// Nanoseconds for which it was ready to run but another thread ran.
    pub waited_ns: u64,
    /// How often it was preempted.
    pub switches: u64,
}

/// Those of the threads of `pid` by id, of at most `most` of them.
pub fn waits(pid: Pid, most: usize) -> HashMap<i32, Waits> {
    let entries = fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())).into_iter().flatten().flatten();
    let waits = entries.take(most).filter_map(|entry| {
        let number = entry.file_name().to_str()?.parse().ok()?;
        let text = |name| read(entry.path().join(name));
        Some((number, Waits { waited_ns: waited(&text("schedstat")?)?, switches: switches(&text("status")?)? }))
    });
    waits.collect()
}

/// From a thread's `schedstat`: time on a processor, time waiting for one, number of time slices.
fn waited(schedstat: &str) -> Option<u64> {
    schedstat.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// From a thread's `status` (proc(5)).
fn switches(status: &str) -> Option<u64> {
    status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"))?.trim().parse().ok()
}

/// The difference to `before`. New threads count completely, ended ones no longer.
pub fn since(now: &HashMap<i32, Waits>, before: &HashMap<i32, Waits>) -> Waits {
    now.iter().fold(Waits::default(), |sum, (number, waits)| {
        let earlier = before.get(number).copied().unwrap_or_default();
        Waits {
            waited_ns: sum.waited_ns + waits.waited_ns.saturating_sub(earlier.waited_ns),
            switches: sum.switches + waits.switches.saturating_sub(earlier.switches),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_understood() {
        assert_eq!(waited("832894 194067 1\n"), Some(194_067));
        assert_eq!(waited(""), None);
        assert_eq!(switches("Name:\tx\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t2\n"), Some(2));
    }

    #[test]
    fn new_threads_count_and_ended_ones_do_not() {
        let waits = |waited_ns, switches| Waits { waited_ns, switches };
        let before = [(1, waits(100, 1)), (2, waits(50, 5))].into();
        let now = [(1, waits(130, 2)), (3, waits(7, 1))].into();
        assert_eq!(since(&now, &before), waits(37, 2));
    }

    #[test]
    fn the_threads_of_this_process_are_read() {
        let threads = waits(rustix::process::getpid(), 10_000);
        assert!(threads.contains_key(&rustix::thread::gettid().as_raw_nonzero().get()));
        assert_eq!(waits(rustix::process::getpid(), 1).len(), 1);
        crate::machine::sample::with_a_thread_of_odd_name(|odd| {
            assert!(waits(rustix::process::getpid(), 10_000).contains_key(&odd));
        });
    }
}
