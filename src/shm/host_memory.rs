//! What the machine and its control groups leave of ordinary memory, and whether an allocation fits into it.

use std::fs;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Result};
use crate::limits;
use crate::machine::cgroup;

/// What the system calls available, limited by the control groups and the address space.
pub(super) fn free() -> Option<u64> {
    let system = fs::read_to_string("/proc/meminfo").ok().and_then(|text| available(&text));
    let groups = cgroup::folders("memory");
    let left = groups.iter().filter_map(|folder| left_in(folder));
    system.into_iter().chain(left).chain(limits::address_space_left()).min()
}

/// Smaller allocations are not worth the look at what is free.
const WORTH_A_LOOK: usize = 1 << 20;

/// Makes sure that `len` bytes can be touched without the system ending a process for it, which neither leaves a result nor
/// says why. While the answer is held, no other large allocation is decided on: let go of it when the pages are there.
///
/// # Errors
/// If `len` bytes would take more than four fifths of what is free; a server in this process needs some, too.
pub(super) fn check_available(len: usize) -> Result<Option<MutexGuard<'static, ()>>> {
    static DECIDING: Mutex<()> = Mutex::new(());
    if len < WORTH_A_LOOK {
        return Ok(None);
    }
    let deciding = DECIDING.lock().unwrap_or_else(PoisonError::into_inner);
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let free = free().map(|free| free.saturating_add(kibibytes(&text, "SwapFree:").unwrap_or(0)));
    fits(len as u64, free).map(|()| Some(deciding))
}

fn fits(len: u64, free: Option<u64>) -> Result<()> {
    match free {
        Some(free) if len.saturating_add(len / 4) > free => Err(Error::machine(format!(
            "{len} bytes of memory are needed, but {free} are free on this machine and in its control groups, and some must stay \
             free for the server; use smaller shapes, batches or less concurrency, or allow more (docker run --memory)"
        ))),
        _ => Ok(()),
    }
}

/// `MemAvailable` of `/proc/meminfo`.
fn available(text: &str) -> Option<u64> {
    kibibytes(text, "MemAvailable:")
}

/// A line of `/proc/meminfo`, which counts in KiB, in bytes.
fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// What a control group allows beyond what it uses; `None` without a limit. Its page cache counts as free.
fn left_in(folder: &Path) -> Option<u64> {
    let read = |name: &str| fs::read_to_string(folder.join(name)).ok()?.trim().parse::<u64>().ok();
    let limit = read("memory.max").or_else(|| read("memory.limit_in_bytes"))?;
    let used = read("memory.current").or_else(|| read("memory.usage_in_bytes"))?;
    let stat = fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
    let files = ["active_file ", "inactive_file "]
        .map(|name| stat.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok()).unwrap_or(0));
    Some(limit.saturating_sub(used.saturating_sub(files.iter().sum())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_take_all_that_is_free_is_refused_with_its_figures() {
        assert!(fits(800, Some(1000)).is_ok() && fits(u64::MAX, None).is_ok());
        let refused = fits(801, Some(1000)).unwrap_err().to_string();
        assert!(refused.contains("801 bytes") && refused.contains("1000 are free"), "{refused}");
        assert!(check_available(100).unwrap().is_none(), "small memory costs no look");
        assert!(check_available(usize::MAX).is_err());
        assert!(check_available(1 << 20).unwrap().is_some());
    }

    #[test]
    fn what_a_group_leaves_counts_where_it_has_a_limit() {
        assert_eq!(available("MemTotal: 9 kB\nMemAvailable:    2048 kB\n"), Some(2 << 20));
        assert_eq!(available("MemTotal: 9 kB\n"), None);
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(left_in(folder.path()), None);
        fs::write(folder.path().join("memory.current"), "300\n").unwrap();
        for (limit, left) in [("max\n", None), ("1000\n", Some(700)), ("200\n", Some(0))] {
            fs::write(folder.path().join("memory.max"), limit).unwrap();
            assert_eq!(left_in(folder.path()), left);
        }
        fs::write(folder.path().join("memory.max"), "1000\n").unwrap();
        fs::write(folder.path().join("memory.stat"), "anon 1\ninactive_file 150\nactive_file 50\n").unwrap();
        assert_eq!(left_in(folder.path()), Some(900), "files in memory give way");
    }
}
