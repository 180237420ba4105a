//! Section "Several processes": the processes that `mpirun` has started.

use std::ffi::OsString;

use clap::Args;

use crate::mpi::Launcher;
use crate::plan::RanksPlan;
use crate::values::one_of;
use ::ranks::Mode;

/// What stands for the process' number in values of flags.
const RANK: &str = "{rank}";

/// Several processes that measure together.
#[derive(Args, Debug)]
#[command(next_help_heading = "Several processes")]
pub struct RanksArgs {
    /// Measures together with the other processes that mpirun or mpiexec started (docs/scale-out.md). `{rank}` in a
    /// flag's value becomes the rank of the process. Default: off
    #[arg(long)]
    enable_mpi: bool,

    /// How the processes share the work: `joint` divides one load among them, and rank 0 writes the one report; with
    /// `separate` each has its own load and report, as in perf_analyzer, and all start and end together. Default: joint
    /// if all have the same flags
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

/// Words in the form of [`crate::getopt`] with the process' number in place, if they enable MPI and a launcher has
/// given this process a number.
pub fn numbered(arguments: Vec<OsString>) -> Vec<OsString> {
    with_rank(arguments, Launcher::rank())
}

fn with_rank(arguments: Vec<OsString>, rank: Option<usize>) -> Vec<OsString> {
    let asked = arguments.iter().any(|word| word == "--enable-mpi");
    let Some(rank) = rank.filter(|_| asked) else { return arguments };
    let number = |word: OsString| match word.to_str() {
        Some(text) if text.contains(RANK) => text.replace(RANK, &rank.to_string()).into(),
        _ => word,
    };
    arguments.into_iter().map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rank_is_put_in_where_mpi_is_enabled() {
        let arguments = |list: &[&str]| list.iter().map(OsString::from).collect::<Vec<_>>();
        let command_line = arguments(&["--model=m{rank}", "--enable-mpi", "--csv=out{rank}.csv"]);
        assert_eq!(
            with_rank(command_line.clone(), Some(3)),
            arguments(&["--model=m3", "--enable-mpi", "--csv=out3.csv"])
        );
        assert_eq!(with_rank(command_line.clone(), None), command_line);
        assert_eq!(with_rank(arguments(&["--csv=out{rank}.csv"]), Some(3)), arguments(&["--csv=out{rank}.csv"]));
    }
}
