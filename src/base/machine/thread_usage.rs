//! Resource use of this process and those below it so far, thread by thread: processor time, waits, page faults.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use rustix::process::{Pid, getpid};
use rustix::time::{ClockId, clock_gettime};

use crate::machine::{processes, read as text};

/// The owner of a thread.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// The server in this process, by the thread's name; unnamed threads carry the program's name.
    Server(String),
    /// A process below this one, such as a stub of the python backend.
    Process(String),
    /// Our threads that issue requests.
    Issuing,
    /// Our other threads.
    Own,
}

/// A thread's resource use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Time on a processor, in nanoseconds.
    pub cpu_ns: u64,
    /// How often it gave up its processor because it had to wait: a wake-up ended each wait.
    pub waits: u64,
    /// How often its processor was taken from it.
    pub preemptions: u64,
    /// Page faults.
    pub faults: u64,
}

impl Used {
    /// The difference to `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            cpu_ns: self.cpu_ns.saturating_sub(earlier.cpu_ns),
            waits: self.waits.saturating_sub(earlier.waits),
            preemptions: self.preemptions.saturating_sub(earlier.preemptions),
            faults: self.faults.saturating_sub(earlier.faults),
        }
    }
}

/// All resource use at a moment.
#[derive(Clone, Debug, Default)]
pub struct Usage {
    /// By thread.
    pub threads: HashMap<i32, (Owner, Used)>,
    /// Processor time of this process, including ended threads, in nanoseconds.
    pub process_ns: u64,
    /// Bytes of memory in use: of this process, and of those below it.
    pub memory: (u64, u64),
}

/// Limit on threads read per process.
const MAX_THREADS: usize = 1024;

/// Names of our threads; those that issue requests have a number.
const OWN: [&str; 15] = [
    "signals",
    "end",
    "resolver",
    "export",
    "validation",
    "traces",
    "unregister",
    "server-log",
    "crash",
    "statistics",
    "metrics",
    "dashboard",
    "tokens",
    "last words",
    "trace settings",
];
const ISSUING: &str = "worker-";

/// Reads it. Takes some 30 us a thread.
pub fn read() -> Usage {
    let own_pid = getpid();
    let mut usage = Usage { process_ns: process_ns(), ..Usage::default() };
    usage.memory.0 = add(&mut usage, own_pid, |tid, name| owner(own_pid, tid, name));
    for pid in processes::below(own_pid, &processes::all()) {
        usage.memory.1 += add(&mut usage, pid, |_, name| Owner::Process(name));
    }
    usage
}

/// Adds the threads of a process; returns its memory in bytes.
fn add(usage: &mut Usage, pid: Pid, owner: impl Fn(i32, String) -> Owner) -> u64 {
    let folder = format!("/proc/{}", pid.as_raw_nonzero());
    let entries = fs::read_dir(format!("{folder}/task")).into_iter().flatten().flatten();
    let threads = entries.take(MAX_THREADS).filter_map(|entry| {
        let tid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let (name, used) = thread(&entry.path())?;
        Some((tid, (owner(tid, name), used)))
    });
    usage.threads.extend(threads);
    let statm = text(format!("{folder}/statm")).unwrap_or_default();
    let pages: u64 = statm.split_ascii_whitespace().nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

fn owner(pid: Pid, tid: i32, name: String) -> Owner {
    if name.starts_with(ISSUING) {
        Owner::Issuing
    } else if tid == pid.as_raw_nonzero().get() || OWN.contains(&&*name) {
        Owner::Own
    } else {
        Owner::Server(name)
    }
}

/// A thread's name and resource use; `None` if it has just ended.
fn thread(folder: &Path) -> Option<(String, Used)> {
    let text = |name| text(folder.join(name));
    parse(&text("stat")?, &text("schedstat")?, &text("status")?)
}

/// From the kernel's texts (proc(5)).
fn parse(stat: &str, schedstat: &str, status: &str) -> Option<(String, Used)> {
    let (open, close) = (stat.find('(')?, stat.rfind(')')?);
    let fields: Vec<&str> = stat.get(close + 1..)?.split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number)?.parse::<u64>().ok();
    let line = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
    let used = Used {
        cpu_ns: schedstat.split_ascii_whitespace().next()?.parse().ok()?,
        waits: line("voluntary_ctxt_switches:")?,
        preemptions: line("nonvoluntary_ctxt_switches:")?,
        faults: field(7)? + field(9)?,
    };
    Some((stat.get(open + 1..close)?.to_owned(), used))
}

fn process_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_understood() {
        let stat = "71 (a) b) S 1 71 71 0 -1 4194560 12 2 3 4 250 50 5 6 20 0 9 0 1 2 3";
        let status = "Name:\ta\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t2\n";
        let used = Used { cpu_ns: 777, waits: 5, preemptions: 2, faults: 15 };
        assert_eq!(parse(stat, "777 3 4\n", status), Some(("a) b".to_owned(), used)));
        assert_eq!(parse(stat, "", status), None);
    }

    #[test]
    fn threads_are_told_apart_by_their_names() {
        let pid = Pid::from_raw(7).unwrap();
        let owner_of = |tid, name: &str| owner(pid, tid, name.to_owned());
        assert_eq!(
            (owner_of(7, "triton-bench"), owner_of(8, "worker-3"), owner_of(9, "statistics")),
            (Owner::Own, Owner::Issuing, Owner::Own)
        );
        assert_eq!(owner_of(9, "triton-bench"), Owner::Server("triton-bench".to_owned()));
    }

    #[test]
    fn a_thread_that_burns_its_processor_is_seen_to() {
        let before = read();
        let started = std::time::Instant::now();
        while started.elapsed().as_millis() < 30 {
            std::hint::spin_loop();
        }
        let after = read();
        assert!(after.process_ns > before.process_ns && after.memory.0 > 1 << 20);
        let tid = rustix::thread::gettid().as_raw_nonzero().get();
        assert!(after.threads[&tid].1.cpu_ns > before.threads[&tid].1.cpu_ns);
    }

    #[test]
    fn a_thread_counts_whatever_it_is_called() {
        crate::machine::sample::with_a_thread_of_odd_name(|odd| {
            assert_eq!(read().threads[&odd].0, Owner::Server("odd\u{fffd}\u{fffd}".to_owned()));
        });
    }
}
