//! Shared memory, locked memory and huge pages.

use crate::machine::fitness::Finding;

/// Space in `/dev/shm` for the regions of a large model's tensors, and those of a python backend.
const SHARED_BYTES: u64 = 1 << 30;
/// Docker's default, which is too little for a python backend with a few instances.
const SCARCE_BYTES: u64 = 64 << 20;
/// Space for locked staging buffers of network cards and GPUs.
const LOCKED_BYTES: u64 = 64 << 20;

/// The size of a file system.
#[derive(Clone, Copy)]
pub struct Space {
    /// Its bytes; 0 without a limit.
    pub all: u64,
    /// Bytes that are free.
    pub free: u64,
}

/// Checks the file system of shared memory; `None` if it does not exist.
pub fn shared(space: Option<Space>) -> Finding {
    const ADVICE: &str = "--shared-memory system and python models keep tensors there, and fail where it is full; \
        mount -o remount,size=8G /dev/shm, or docker run --shm-size=8g";
    let Some(Space { all, free }) = space else { return Finding::warning("/dev/shm: not there", ADVICE) };
    if all == 0 {
        return Finding::good("/dev/shm: not limited");
    }
    let text = format!("/dev/shm: {} MiB, {} MiB free", all >> 20, free >> 20);
    match free {
        0..=SCARCE_BYTES => Finding::warning(text, ADVICE),
        _ if free < SHARED_BYTES => Finding::note(text, ADVICE),
        _ => Finding::good(text),
    }
}

/// Checks the limit on locked memory, from `/proc/self/limits`.
pub fn locked(limits: &str) -> Finding {
    let value = crate::machine::fitness::limits::soft(limits, "Max locked memory");
    match value {
        Some(Some(bytes)) if bytes < LOCKED_BYTES => Finding::note(
            format!("locked memory: {} KiB at most", bytes >> 10),
            "models and drivers that lock their buffers (RDMA, mlock) fail; ulimit -l unlimited, or docker run \
             --ulimit memlock=-1",
        ),
        Some(Some(bytes)) => Finding::good(format!("locked memory: {} MiB at most", bytes >> 20)),
        _ => Finding::good("locked memory: not limited"),
    }
}

/// Checks the kernel's setting for huge pages, such as `always [madvise] never`.
pub fn huge_pages(enabled: &str) -> Finding {
    let chosen = enabled.split(['[', ']']).nth(1).unwrap_or("unknown");
    let text = format!("transparent huge pages: {chosen}");
    if chosen != "always" {
        return Finding::good(text);
    }
    Finding::note(
        text,
        "the kernel merges pages while requests run, which stalls some for milliseconds; \
         echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::fitness::Grade;

    #[test]
    fn little_shared_memory_is_told() {
        let space = |all, free| Some(Space { all, free });
        assert_eq!(shared(space(64 << 20, 64 << 20)).grade, Grade::Warning, "docker's default");
        assert_eq!(shared(space(24 << 30, 500 << 20)).grade, Grade::Note);
        assert_eq!(shared(space(24 << 30, 20 << 30)).observation, "/dev/shm: 24576 MiB, 20480 MiB free");
        assert_eq!(shared(None).grade, Grade::Warning);
        assert_eq!(shared(space(0, 0)).grade, Grade::Good);
    }

    #[test]
    fn a_low_limit_of_locked_memory_is_told() {
        let limits = |value: &str| {
            format!(
                "Limit                     Soft Limit           Hard Limit           Units     \n\
                     Max locked memory         {value}              unlimited            bytes     \n"
            )
        };
        assert_eq!(locked(&limits("8388608")).observation, "locked memory: 8192 KiB at most");
        assert_eq!(locked(&limits("8388608")).grade, Grade::Note);
        assert_eq!(locked(&limits("unlimited")).grade, Grade::Good);
        assert_eq!(locked("").grade, Grade::Good);
    }

    #[test]
    fn huge_pages_for_all_are_told() {
        assert_eq!(huge_pages("[always] madvise never").grade, Grade::Note);
        assert_eq!(huge_pages("always [madvise] never").observation, "transparent huge pages: madvise");
        assert_eq!(huge_pages("").grade, Grade::Good);
    }
}
