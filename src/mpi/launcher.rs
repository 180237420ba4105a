//! What the launcher (`mpirun`, `mpiexec`, `srun`) reports in the environment, before MPI is used.

use std::env;

/// Families of launchers and libraries that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Open MPI's `mpirun`.
    OpenMpi,
    /// Hydra: MPICH's `mpiexec`, and those of Intel MPI and MVAPICH.
    Mpich,
    /// Slurm's `srun`, which works with either.
    Slurm,
}

/// A launcher, as visible in the environment of the processes that it started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launcher {
    /// Which.
    pub family: Family,
    /// Number of processes that it has started.
    pub processes: usize,
}

/// Variables with the number of processes. Slurm's own come last, because other launchers run under it.
const SIZES: [(&str, Family); 3] =
    [("OMPI_COMM_WORLD_SIZE", Family::OpenMpi), ("PMI_SIZE", Family::Mpich), ("SLURM_STEP_NUM_TASKS", Family::Slurm)];

/// Variables with the process' own number, in the same order.
const RANKS: [&str; 3] = ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"];

impl Launcher {
    /// The launcher that has started this process, if any.
    pub fn here() -> Option<Self> {
        Self::among(|name| env::var(name).ok())
    }

    fn among(value: impl Fn(&str) -> Option<String>) -> Option<Self> {
        SIZES.iter().find_map(|&(name, family)| {
            let processes = value(name)?.parse().ok()?;
            // Slurm also tells Open MPI's processes their number, but under another name.
            let family =
                if family == Family::Mpich && value("SLURM_JOB_ID").is_some() { Family::Slurm } else { family };
            Some(Self { family, processes })
        })
    }

    /// The number of this process, from its launcher.
    pub fn rank() -> Option<usize> {
        RANKS.iter().find_map(|name| env::var(name).ok()?.parse().ok())
    }

    /// Whether it wakes a process (SIGCONT) before it ends it. Open MPI's does so a quarter of a second before SIGTERM,
    /// and kills the process some 50 ms after that, which is too late to begin writing results.
    pub fn wakes_before_it_ends(self) -> bool {
        self.family == Family::OpenMpi
    }

    /// Whether a process that uses the library with this `version` text may be one of its own. Unknown libraries and
    /// launchers may always belong together.
    pub(super) fn may_have_started(self, version: &str) -> bool {
        let of_open_mpi = version.starts_with("Open MPI");
        let of_mpich = ["MPICH", "Intel(R) MPI", "MVAPICH"].iter().any(|name| version.contains(name));
        match self.family {
            Family::OpenMpi => !of_mpich,
            Family::Mpich => !of_open_mpi,
            Family::Slurm => true,
        }
    }

    /// How messages name it.
    pub fn name(self) -> &'static str {
        match self.family {
            Family::OpenMpi => "Open MPI's mpirun",
            Family::Mpich => "MPICH's mpiexec, or one of its kin",
            Family::Slurm => "Slurm",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_of_another_family_is_known_by_what_it_says() {
        let may = |family, version: &str| Launcher { family, processes: 2 }.may_have_started(version);
        assert!(may(Family::OpenMpi, "Open MPI v5.0.11") && !may(Family::OpenMpi, "MPICH Version:      5.0.2"));
        assert!(may(Family::Mpich, "Intel(R) MPI Library 2021.12") && !may(Family::Mpich, "Open MPI v4.1.4"));
        assert!(may(Family::Slurm, "Open MPI v4.1.4") && may(Family::OpenMpi, "some MPI of the standard interface"));
    }

    #[test]
    fn launchers_are_known_by_their_variables() {
        let among = |set: &[(&str, &str)]| {
            Launcher::among(|name| set.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
        };
        assert_eq!(among(&[("PATH", "/bin")]), None);
        let is = |set: &[(&str, &str)], family| assert_eq!(among(set), Some(Launcher { family, processes: 4 }));
        is(&[("OMPI_COMM_WORLD_SIZE", "4")], Family::OpenMpi);
        is(&[("PMI_SIZE", "4")], Family::Mpich);
        is(&[("PMI_SIZE", "4"), ("SLURM_JOB_ID", "9")], Family::Slurm);
        is(&[("SLURM_STEP_NUM_TASKS", "4")], Family::Slurm);
        is(&[("SLURM_STEP_NUM_TASKS", "1"), ("OMPI_COMM_WORLD_SIZE", "4")], Family::OpenMpi);
    }
}
