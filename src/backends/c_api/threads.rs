//! The threads of this process, as listed by the kernel: the only way to learn that those of a server are at rest, or
//! gone.

use std::collections::{BTreeMap, HashSet};
use std::sync::OnceLock;
use std::time::Duration;
use std::{fs, io, thread};

use crate::clock::Stamp;
use crate::machine::read;

/// Threads from before the first server; all others may be a server's.
static BEFORE_SERVERS: OnceLock<Option<Threads>> = OnceLock::new();

/// Pause between two checks whether threads have become idle.
const THREADS_POLL: Duration = Duration::from_micros(500);

/// The threads at a moment, by number and start time, because numbers are reused.
pub(super) struct Threads(HashSet<(u32, u64)>);

/// Notes the existing threads before the first server's library is opened.
pub(super) fn note() {
    BEFORE_SERVERS.get_or_init(|| Threads::now().ok());
}

/// The threads from before the first server, if the kernel listed them.
pub(super) fn before_servers() -> Option<&'static Threads> {
    BEFORE_SERVERS.get()?.as_ref()
}

/// Waits until all threads newer than that sleep at once, for `limit` at most.
pub(super) fn await_rest(limit: Duration) {
    let Some(before) = before_servers() else { return };
    let until = Stamp::now().plus_duration(limit);
    let mut last = None;
    while Stamp::now() < until {
        let Ok(now) = before.asleep() else { return };
        if now.is_some() && now == last {
            return;
        }
        last = now;
        thread::sleep(THREADS_POLL);
    }
}

impl Threads {
    /// The threads now.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub(super) fn now() -> io::Result<Self> {
        let mut threads = HashSet::new();
        for entry in fs::read_dir("/proc/self/task")? {
            let path = entry?.path().join("stat");
            // A thread that has ended meanwhile no longer has a file.
            threads.extend(read(path).and_then(|stat| identity(&stat)));
        }
        Ok(Self(threads))
    }

    /// How many newer threads exist.
    ///
    /// # Errors
    /// As [`Threads::now`].
    pub(super) fn newer(&self) -> io::Result<usize> {
        Ok(Self::now()?.0.difference(&self.0).count())
    }

    /// The newer threads, if all of them sleep. Two equal results prove that at one moment between them all slept at
    /// once, so that none was about to wake another.
    ///
    /// # Errors
    /// As [`Threads::now`].
    pub(super) fn asleep(&self) -> io::Result<Option<Sleepers>> {
        let now = Self::now()?;
        let sleeps = |(number, _): &(u32, u64)| {
            let status = read(format!("/proc/self/task/{number}/status")).unwrap_or_default();
            // An ended thread does not count as asleep: it may have woken another.
            Some((*number, sleeps_since(&status)?))
        };
        Ok(now.0.difference(&self.0).map(sleeps).collect::<Option<_>>().map(Sleepers))
    }
}

/// Sleeping threads, and how often each has been scheduled and descheduled.
#[derive(PartialEq, Eq)]
pub(super) struct Sleepers(BTreeMap<u32, u64>);

/// How often a thread with that `status` (proc(5)) has been descheduled, if it sleeps.
fn sleeps_since(status: &str) -> Option<u64> {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let count = |name: &str| field(name).and_then(|count| count.parse::<u64>().ok()).unwrap_or(0);
    let switches = count("voluntary_ctxt_switches:") + count("nonvoluntary_ctxt_switches:");
    field("State:")?.starts_with('S').then_some(switches)
}

/// Number and start time of the thread with that `stat` (proc(5)): the first field and the 22nd. The second is a name
/// in parentheses, which may itself contain blanks and parentheses.
fn identity(stat: &str) -> Option<(u32, u64)> {
    let number = stat.split(' ').next()?.parse().ok()?;
    let after_name = &stat[stat.rfind(')')? + 1..];
    Some((number, after_name.split_ascii_whitespace().nth(19)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    #[test]
    fn a_thread_is_known_by_number_and_start() {
        let fields: Vec<String> = (3..=52).map(|field| field.to_string()).collect();
        let stat = format!("17 (a) b (c) {}", fields.join(" "));
        assert_eq!(identity(&stat), Some((17, 22)));
        assert_eq!(identity("17 (a"), None);
    }

    #[test]
    fn a_thread_sleeps_or_not() {
        let status = |state: &str| {
            format!("Name:\tx\nState:\t{state}\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t2\n")
        };
        assert_eq!(sleeps_since(&status("S (sleeping)")), Some(7));
        assert_eq!(sleeps_since(&status("R (running)")), None);
        assert_eq!(sleeps_since(""), None);
    }

    #[test]
    fn a_thread_that_has_come_is_newer_until_it_is_gone() {
        let (go, wait) = mpsc::channel::<()>();
        // Other tests of this process come and go, too.
        let contains = |threads: &Threads, id: u32| threads.0.iter().any(|thread| thread.0 == id);
        let before = Threads::now().unwrap();
        let (sender, receiver) = mpsc::channel();
        let thread = thread::spawn(move || {
            sender.send(rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned()).unwrap();
            wait.recv().unwrap_err();
        });
        let id = receiver.recv().unwrap();
        crate::machine::sample::with_a_thread_of_odd_name(|odd| {
            assert!(contains(&Threads::now().unwrap(), odd.cast_unsigned()), "its name is not UTF-8");
        });
        assert!(!contains(&before, id) && contains(&Threads::now().unwrap(), id));
        assert!(before.newer().unwrap() >= 1);
        drop(go);
        thread.join().unwrap();
    }
}
