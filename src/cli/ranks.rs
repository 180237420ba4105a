//! Section "Several processes": the processes that `mpirun` has started.

use std::ffi::OsString;

use clap::Args;

use crate::cli::values::one_of;
use crate::mpi::Launcher;
use crate::plan::RanksPlan;
use crate::ranks::Mode;

/// What stands for the process' number in values of flags.
const RANK: &str = "{rank}";

/// Several processes that measure together.
#[derive(Args, Debug)]
#[command(next_help_heading = "Several processes")]
pub struct RanksArgs {
    /// Measures together with the other processes that mpirun or mpiexec has started, over MPI (docs/scale-out.md); `{rank}` in the
    /// value of a flag is the number of the process. Default: off
    #[arg(long)]
    enable_mpi: bool,

    /// What they have to do with each other: one load, of which each has a part, and one report by the first; or a load and a
    /// report of its own each, as in perf_analyzer, which begin and end together. Default: joint where all have the same flags
    #[arg(long, value_name = "joint|separate",
        value_parser = one_of(&[("joint", Mode::Joint), ("separate", Mode::Separate)]))]
    ranks: Option<Mode>,
}

impl RanksArgs {
    /// What the run has to do with other processes.
    pub fn plan(&self) -> RanksPlan {
        RanksPlan { mpi: self.enable_mpi, mode: self.ranks, ..RanksPlan::default() }
    }
}

/// The words of a command line with the process' number in place, where there is one.
pub fn numbered(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let words: Vec<OsString> = words.collect();
    let asked = words.iter().any(|word| word == "--enable-mpi");
    let Some(rank) = Launcher::rank().filter(|_| asked) else { return words };
    let number = |word: OsString| match word.to_str() {
        Some(text) if text.contains(RANK) => text.replace(RANK, &rank.to_string()).into(),
        _ => word,
    };
    words.into_iter().map(number).collect()
}
