//! What `doctor` checks.

/// What `doctor` checks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checkup {
    /// Processors of `--cpus`; empty where it is not given.
    pub cpus: Vec<usize>,
    /// Processors of `--worker-cpus`; empty where it is not given.
    pub worker_cpus: Vec<usize>,
}

impl Checkup {
    /// All processors that something is pinned to.
    pub fn pinned(&self) -> Vec<usize> {
        let mut all = [self.cpus.as_slice(), &self.worker_cpus].concat();
        all.sort_unstable();
        all.dedup();
        all
    }
}
