//! The MPIs that tests run with, and their launchers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Program, skip};

/// An MPI with its launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mpi {
    Open,
    Mpich,
}

impl Mpi {
    /// Both, as far as they are installed.
    pub fn all() -> Vec<Self> {
        [Self::Open, Self::Mpich].into_iter().filter(|mpi| mpi.folder().is_some()).collect()
    }

    /// Where scripts/install-mpi has put it.
    pub fn folder(self) -> Option<PathBuf> {
        let (variable, release) = match self {
            Self::Open => ("TRITON_BENCH_TEST_OPENMPI", "openmpi-5.0.11"),
            Self::Mpich => ("TRITON_BENCH_TEST_MPICH", "mpich-5.0.2"),
        };
        let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join(".deps").join(release);
        let folder = std::env::var_os(variable).map_or(installed, PathBuf::from);
        if folder.join("bin/mpiexec").exists() {
            return Some(folder);
        }
        skip(&format!("{release} is not installed: scripts/install-mpi does that, and scripts/test calls it"));
        None
    }

    /// A library of it.
    pub fn library(self, name: &str) -> PathBuf {
        self.folder().expect("it is installed").join("lib").join(name)
    }

    /// Its launcher, for so many processes on this machine, however few processors that has.
    pub fn launcher(self, ranks: usize) -> Command {
        let folder = self.folder().expect("it is installed");
        let mut command = Command::new(folder.join("bin/mpiexec"));
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", folder.join("bin").display()));
        if self == Self::Open {
            command.args(["--oversubscribe", "--bind-to", "none"]);
            command.envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]);
        }
        command.args(["-n", &ranks.to_string()]);
        command
    }

    /// The variable with a process' number.
    fn rank_variable(self) -> &'static str {
        match self {
            Self::Open => "OMPI_COMM_WORLD_RANK",
            Self::Mpich => "PMI_RANK",
        }
    }

    /// The process with number `rank` whose command line has `word`.
    pub fn process(self, rank: usize, word: &str) -> Option<i32> {
        self.process_with(rank, word, None)
    }

    /// The same, where its environment has a further variable, too.
    pub fn process_with(self, rank: usize, word: &str, further: Option<&str>) -> Option<i32> {
        let variable = format!("{}={rank}", self.rank_variable());
        let is_meant = |pid: &i32| {
            let has = |file: &str, text: &str, whole: bool| {
                let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
                let mut parts = bytes.split(|byte| *byte == 0).map(String::from_utf8_lossy);
                parts.any(|part| if whole { part == text } else { part.contains(text) })
            };
            let is_further = further.is_none_or(|variable| has("environ", variable, true));
            has("environ", &variable, true) && is_further && has("cmdline", word, false)
        };
        let entries = fs::read_dir("/proc").unwrap().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).find(is_meant)
    }
}

impl Program {
    /// The same command in so many processes of one job.
    pub fn ranks(self, mpi: Mpi, ranks: usize) -> Self {
        self.args("--enable-mpi").through(mpi.launcher(ranks))
    }
}
