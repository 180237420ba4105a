//! [`Host`]: the machine that measured.

use std::fs;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::machine::{cgroup, frequency, processors, read};

/// The machine that measured. Whatever the kernel does not report is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// The processor, such as `AMD EPYC 7R13`.
    pub processor: Option<String>,
    /// Processors that this process may use.
    pub processors: usize,
    /// CPU quota of its control group, in processors, possibly fractional; absent if there is none.
    pub quota: Option<f64>,
    /// Frequency governor of its first processor.
    pub governor: Option<String>,
    /// Bytes of memory.
    pub memory_bytes: Option<u64>,
    /// The kernel's release.
    pub kernel: Option<String>,
    /// GPUs that the driver reports.
    pub gpus: Vec<String>,
}

impl Host {
    /// This one.
    pub fn this() -> Self {
        let allowed = read("/proc/self/status").map(|status| processors::allowed(&status)).unwrap_or_default();
        Self {
            processor: read("/proc/cpuinfo").and_then(|text| field(&text, "model name")),
            governor: allowed.first().and_then(|first| frequency::governor(*first)),
            processors: allowed.len(),
            quota: cgroup::quota(),
            memory_bytes: read("/proc/meminfo").and_then(|text| kib(&field(&text, "MemTotal")?)),
            kernel: read("/proc/sys/kernel/osrelease"),
            gpus: gpus(),
        }
    }
}

/// The value of the first line `name : value`.
fn field(text: &str, name: &str) -> Option<String> {
    let mut fields = text.lines().filter_map(|line| line.split_once(':'));
    fields.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned())
}

/// Bytes of `123 kB`.
fn kib(text: &str) -> Option<u64> {
    text.strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

/// `/proc/driver/nvidia/gpus/*/information` has a line `Model:` for each.
fn gpus() -> Vec<String> {
    let Ok(folders) = fs::read_dir("/proc/driver/nvidia/gpus") else { return Vec::new() };
    let model = |folder: fs::DirEntry| field(&read(folder.path().join("information"))?, "Model");
    folders.flatten().filter_map(model).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_words_are_understood() {
        assert_eq!(field("a : b\nmodel name\t: X (R) Y\nmodel name : Z", "model name").as_deref(), Some("X (R) Y"));
        assert_eq!((kib("2048 kB"), kib("x"), field("a", "a")), (Some(2 << 20), None, None));
        let host = Host::this();
        assert!(host.processors > 0 && host.memory_bytes > Some(1 << 20) && host.kernel.is_some(), "{host:?}");
    }
}
