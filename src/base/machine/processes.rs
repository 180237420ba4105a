//! Processes: their parents, and the processor time that each has used.

use std::fs;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

/// A running process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: Pid,
    /// Its parent; `None` if that is outside.
    pub parent: Option<Pid>,
    /// Its name: the first 15 bytes of its program's name, unless it has changed it.
    pub name: String,
    /// Processor time of all its threads, including ended ones.
    pub busy: Duration,
}

/// Every running process that is visible from here.
pub fn all() -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter_map(|number: i32| find(Pid::from_raw(number)?)).collect()
}

/// The process with that id, if it is running.
pub fn find(pid: Pid) -> Option<Process> {
    parse(&stat(pid)?, rustix::param::clock_ticks_per_second())
}

/// Whether it is certain that no process with that id is running: one that may not be seen, or only not now, may be.
pub fn has_ended(pid: Pid) -> bool {
    test_kill_process(pid) == Err(Errno::SRCH) || stat(pid).is_some_and(|stat| is_over(&stat))
}

fn stat(pid: Pid) -> Option<String> {
    let stat = fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    Some(String::from_utf8_lossy(&stat).into_owned())
}

/// Whether a `stat` is that of a process that has ended, and only waits for its parent.
fn is_over(stat: &str) -> bool {
    let state = stat.rfind(')').and_then(|close| stat[close + 1..].split_ascii_whitespace().next());
    matches!(state, Some("Z" | "X"))
}

/// The process of that `stat` (proc(5)), unless it has ended. The name in parentheses may itself contain blanks and
/// parentheses.
fn parse(stat: &str, ticks: u64) -> Option<Process> {
    let (open, close) = (stat.find('(')?, stat.rfind(')')?);
    let pid = Pid::from_raw(stat[..open].trim().parse().ok()?)?;
    let fields: Vec<&str> = stat[close + 1..].split_ascii_whitespace().collect();
    let time = |field: usize| fields.get(field)?.parse::<u64>().ok();
    if is_over(stat) {
        return None;
    }
    Some(Process {
        pid,
        parent: fields.get(1)?.parse().ok().and_then(Pid::from_raw),
        name: stat.get(open + 1..close)?.to_owned(),
        busy: Duration::from_millis((time(11)? + time(12)?) * 1000 / ticks.max(1)),
    })
}

/// The processes below `root`, however deep.
pub fn below(root: Pid, all: &[Process]) -> Vec<Pid> {
    let mut found = Vec::new();
    let mut waiting = vec![root];
    while let Some(parent) = waiting.pop() {
        let children = all.iter().filter(|process| process.parent == Some(parent)).map(|child| child.pid);
        let new: Vec<Pid> = children.filter(|child| !found.contains(child)).collect();
        waiting.extend(&new);
        found.extend(new);
    }
    found
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn pid(number: i32) -> Pid {
        Pid::from_raw(number).unwrap()
    }

    #[test]
    fn a_process_is_read_whatever_it_is_called() {
        let stat = "71 (a) b (c) S 1 71 71 0 -1 4194560 1 2 3 4 250 50 5 6 20 0 9 0 1 2 3";
        let process =
            Process { pid: pid(71), parent: Some(pid(1)), name: "a) b (c".to_owned(), busy: Duration::from_secs(3) };
        assert_eq!(parse(stat, 100), Some(process));
        assert_eq!(parse(&stat.replace(" S ", " Z "), 100), None);
        assert_eq!(parse("71 (a", 100), None);
        assert_eq!(parse("", 100), None);
    }

    #[test]
    fn a_process_that_cannot_be_read_has_not_ended() {
        let mut child = Command::new("true").spawn().unwrap();
        let id = Pid::from_child(&child);
        child.wait().unwrap();
        assert!(has_ended(id) && !has_ended(pid(1)) && !has_ended(rustix::process::getpid()));
        assert!(is_over("71 (a) S) Z 1 71") && is_over("71 (a) X 0"));
        for other in ["71 (Z) S 1 71", "71 (a", "71 (a)", ""] {
            assert!(!is_over(other), "{other}");
        }
    }

    #[test]
    fn children_of_children_are_below() {
        let process = |number, parent| Process {
            pid: pid(number),
            parent: Pid::from_raw(parent),
            name: String::new(),
            busy: Duration::ZERO,
        };
        let all = [process(2, 1), process(3, 2), process(4, 3), process(5, 1), process(1, 0)];
        let mut found: Vec<i32> = below(pid(2), &all).iter().map(|pid| pid.as_raw_nonzero().get()).collect();
        found.sort_unstable();
        assert_eq!(found, [3, 4]);
    }

    #[test]
    fn this_process_is_among_them() {
        let pid = rustix::process::getpid();
        assert!(all().iter().any(|process| process.pid == pid));
        assert!(find(pid).is_some_and(|process| process.parent.is_some()));
    }
}
