//! Limits on threads, mappings and files of a process.

use crate::machine::fitness::Finding;

/// The kernel's default, enough for some 10 000 threads.
const USUAL_MAPS: u64 = 65_530;
/// Enough for a server with many models, and synchronous requests with a thread each.
const MANY_THREADS: u64 = 4_096;
/// Enough for a connection for each outstanding request over HTTP, and a file for each region.
const MANY_FILES: u64 = 4_096;

/// The soft limit `name` from `/proc/self/limits`: the outer `None` means that it is not listed, the inner one that
/// there is no limit.
pub fn soft(limits: &str, name: &str) -> Option<Option<u64>> {
    let value = limits.lines().find_map(|line| line.strip_prefix(name))?.split_ascii_whitespace().next()?;
    Some(value.parse().ok())
}

/// Checks the limit on mappings.
pub fn mappings(max_map_count: Option<u64>) -> Finding {
    match max_map_count {
        Some(most) if most < USUAL_MAPS => Finding::warning(
            format!("memory mappings: {most} at most"),
            "a thread takes six, and models of many files one each; sysctl vm.max_map_count=262144",
        ),
        Some(most) => Finding::good(format!("memory mappings: {most} at most")),
        None => Finding::good("memory mappings: limit unknown"),
    }
}

/// Checks the limits on threads: of the user, of the control group, and of the machine, if there are any.
pub fn threads(limits: [Option<u64>; 3]) -> Finding {
    match limits.into_iter().flatten().min() {
        Some(most) if most < MANY_THREADS => Finding::note(
            format!("threads: {most} at most"),
            "synchronous requests have one each, and a server dozens; ulimit -u, docker run --pids-limit, or use --async",
        ),
        Some(most) => Finding::good(format!("threads: {most} at most")),
        None => Finding::good("threads: not limited"),
    }
}

/// Checks the limit on open files.
pub fn files(limits: &str) -> Finding {
    match soft(limits, "Max open files") {
        Some(Some(most)) if most < MANY_FILES => Finding::note(
            format!("open files: {most} at most"),
            "each outstanding HTTP request has a connection, each region of shared memory a file; ulimit -n 65536",
        ),
        Some(Some(most)) => Finding::good(format!("open files: {most} at most")),
        _ => Finding::good("open files: not limited"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::fitness::Grade;

    const LIMITS: &str = "Limit                     Soft Limit           Hard Limit           Units     \n\
        Max processes             unlimited            unlimited            processes \n\
        Max open files            1024                 1048576              files     \n";

    #[test]
    fn limits_are_read() {
        assert_eq!(soft(LIMITS, "Max open files"), Some(Some(1_024)));
        assert_eq!(soft(LIMITS, "Max processes"), Some(None));
        assert_eq!(soft(LIMITS, "Max nothing"), None);
    }

    #[test]
    fn low_limits_are_told() {
        assert_eq!(files(LIMITS).grade, Grade::Note);
        assert_eq!(files(&LIMITS.replace("1024 ", "65536")).observation, "open files: 65536 at most");
        assert_eq!((mappings(Some(65_530)).grade, mappings(Some(1_000)).grade), (Grade::Good, Grade::Warning));
        assert_eq!(threads([Some(100_000), Some(512), None]).observation, "threads: 512 at most");
        assert_eq!(threads([None; 3]).grade, Grade::Good);
    }
}
