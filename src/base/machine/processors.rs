//! Processor time by use, and lists of processors.

use std::collections::BTreeMap;
use std::time::Duration;

/// A processor's time by use since the machine was started. The kernel counts in ticks of 10 ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Ran threads.
    pub busy: Duration,
    /// Idle, or waiting for a disk.
    pub idle: Duration,
    /// Serving interrupts.
    pub interrupts: Duration,
    /// Ready to run while the hypervisor gave its time to another machine.
    pub stolen: Duration,
}

impl Times {
    /// The time that has passed since `before`.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            busy: self.busy.saturating_sub(before.busy),
            idle: self.idle.saturating_sub(before.idle),
            interrupts: self.interrupts.saturating_sub(before.interrupts),
            stolen: self.stolen.saturating_sub(before.stolen),
        }
    }

    /// The sum of two.
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            busy: self.busy + other.busy,
            idle: self.idle + other.idle,
            interrupts: self.interrupts + other.interrupts,
            stolen: self.stolen + other.stolen,
        }
    }

    /// All of it.
    pub fn all(&self) -> Duration {
        self.busy + self.idle + self.interrupts + self.stolen
    }
}

/// Each processor's times from `/proc/stat` (proc(5)), with `ticks` a second.
pub fn times(stat: &str, ticks: u64) -> BTreeMap<usize, Times> {
    let row = |line: &str| {
        let mut words = line.strip_prefix("cpu")?.split_ascii_whitespace();
        // The line for all processors together has no number.
        let number = words.next().filter(|_| !line.starts_with("cpu "))?.parse().ok()?;
        let fields: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
        let sum = |which: &[usize]| {
            let all: u64 = which.iter().filter_map(|&field| fields.get(field)).sum();
            Duration::from_millis(all * 1000 / ticks.max(1))
        };
        let [busy, idle, interrupts, stolen] = [sum(&[0, 1, 2]), sum(&[3, 4]), sum(&[5, 6]), sum(&[7])];
        Some((number, Times { busy, idle, interrupts, stolen }))
    };
    stat.lines().filter_map(row).collect()
}

/// The processors of a list such as `0-3,8`, as the kernel writes it; empty if it is not a list.
pub fn list(text: &str) -> Vec<usize> {
    let part = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse::<usize>().ok()?..=last.trim().parse().ok()?)
    };
    text.split(',').filter_map(part).flatten().collect()
}

/// The processors that a process may use, from its `status` (proc(5)).
pub fn allowed(status: &str) -> Vec<usize> {
    status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).map(list).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_by_processor() {
        let stat =
            "cpu  30 2 10 400 20 1 3 7 0 0\ncpu0 10 2 4 200 20 1 1 7 0 0\ncpu12 20 0 6 200 0 0 2 0 0 0\nintr 5 0\n";
        let times = times(stat, 100);
        assert_eq!(times.keys().copied().collect::<Vec<_>>(), [0, 12]);
        let ms = Duration::from_millis;
        assert_eq!(times[&0], Times { busy: ms(160), idle: ms(2_200), interrupts: ms(20), stolen: ms(70) });
        assert_eq!(times[&0].plus(&times[&12]).since(&times[&12]), times[&0]);
        assert_eq!(times[&0].all(), ms(2_450));
    }

    #[test]
    fn lists_are_read() {
        assert_eq!(list("0-2,8\n"), [0, 1, 2, 8]);
        assert_eq!(list("5"), [5]);
        assert_eq!(list(""), [0; 0]);
        assert_eq!(allowed("Name:\tx\nCpus_allowed:\t3\nCpus_allowed_list:\t0-1\n"), [0, 1]);
    }
}
