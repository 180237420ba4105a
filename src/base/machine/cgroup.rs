//! The control groups of this process: their limits, and how long they have throttled it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::machine::read;

/// Folders of the control groups that this process is in, of version 2 or of version 1's `controller`, innermost first.
pub fn folders(controller: &str) -> Vec<PathBuf> {
    read("/proc/self/cgroup").map(|text| parse(&text, controller)).unwrap_or_default()
}

fn parse(text: &str, controller: &str) -> Vec<PathBuf> {
    let group = |line: &str| {
        let mut parts = line.splitn(3, ':').skip(1);
        let root = match parts.next()? {
            "" => "/sys/fs/cgroup".to_owned(),
            controllers if controllers.split(',').any(|name| name == controller) => {
                format!("/sys/fs/cgroup/{controller}")
            }
            _ => return None,
        };
        let names = parts.next()?.split('/').filter(|name| !name.is_empty());
        let inside = PathBuf::from_iter([root.as_str()].into_iter().chain(names));
        Some(inside.ancestors().take_while(|folder| folder.starts_with(&root)).map(Path::to_owned).collect())
    };
    text.lines().filter_map(group).collect::<Vec<Vec<_>>>().concat()
}

/// Processors that the groups allow this process, such as 1.5; `None` without a quota.
pub fn quota() -> Option<f64> {
    let folder_quota = |folder: &PathBuf| {
        let version_1 =
            || Some(format!("{} {}", read(folder.join("cpu.cfs_quota_us"))?, read(folder.join("cpu.cfs_period_us"))?));
        processors(&read(folder.join("cpu.max")).or_else(version_1)?)
    };
    folders("cpu").iter().filter_map(folder_quota).min_by(f64::total_cmp)
}

/// The limit in `cpu.max`: microseconds in each period, or `max`, and the period. Version 1 has -1 for no limit.
fn processors(max: &str) -> Option<f64> {
    let (quota, period) = max.split_once(' ')?;
    let (quota, period) = (quota.parse::<f64>().ok()?, period.trim().parse::<f64>().ok()?);
    (quota > 0.0 && period > 0.0).then_some(quota / period)
}

/// How long the groups have throttled their threads, including ours, because a quota was used up; summed over
/// processors. `None` without a quota.
pub fn throttled(folders: &[PathBuf]) -> Option<Duration> {
    folders.iter().filter_map(|folder| stopped(&read(folder.join("cpu.stat"))?)).max()
}

/// From a group's `cpu.stat`: version 2 counts microseconds, version 1 nanoseconds.
fn stopped(stat: &str) -> Option<Duration> {
    let field = |name: &str| stat.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
    field("throttled_usec ").map(Duration::from_micros).or_else(|| field("throttled_time ").map(Duration::from_nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_group_around_the_process_counts() {
        let folders =
            |text| parse(text, "memory").iter().map(|folder| folder.to_str().unwrap().to_owned()).collect::<Vec<_>>();
        let nested = "1:name=systemd:/a\n0::/user.slice/run\n";
        assert_eq!(folders(nested), ["/sys/fs/cgroup/user.slice/run", "/sys/fs/cgroup/user.slice", "/sys/fs/cgroup"]);
        assert_eq!(folders("5:cpu,memory:/\n"), ["/sys/fs/cgroup/memory"]);
        assert_eq!(folders("0::/\n"), ["/sys/fs/cgroup"]);
    }

    #[test]
    fn quotas_of_both_versions_are_read() {
        assert_eq!(processors("150000 100000"), Some(1.5));
        assert_eq!(processors("max 100000"), None);
        assert_eq!(processors("-1 100000"), None, "version 1");
    }

    #[test]
    fn time_that_a_group_was_stopped_is_read() {
        let second = "usage_usec 9\nnr_periods 10\nnr_throttled 3\nthrottled_usec 2500\nnr_bursts 0\n";
        assert_eq!(stopped(second), Some(Duration::from_micros(2_500)));
        assert_eq!(
            stopped("nr_periods 10\nnr_throttled 3\nthrottled_time 2500000\n"),
            Some(Duration::from_micros(2_500))
        );
        assert_eq!(stopped("usage_usec 9\n"), None);
    }
}
