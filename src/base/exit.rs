//! The exit codes that the program promises. 0, 2, 3 and 99 are perf_analyzer's.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Everything that was asked for was measured, or the user interrupted and the results so far were reported.
pub const OK: u8 = 0;
/// A level did not become stable; its figures were printed anyway.
pub const UNSTABLE: u8 = 2;
/// A level failed: nothing succeeded, or more failed than `--max-errors` allows.
pub const NO_VALID_REQUESTS: u8 = 3;
/// A level's numbers are not what was asked for: the load was different, the server did not keep up, or there were too
/// few requests for the percentile.
pub const INVALID: u8 = 4;
/// The first level is above the latency threshold.
pub const OVER_THRESHOLD: u8 = 5;
/// A requirement (`--require`) does not hold.
pub const REQUIREMENT: u8 = 6;
/// A requirement is undecided: neither met nor missed for sure.
pub const UNDECIDED: u8 = 7;
/// Bad flags, bad input, a server that cannot be loaded, a file that cannot be written.
pub const FAILED: u8 = 99;
/// A bug in the program itself (a panic); the code that Rust uses for it.
pub const PANICKED: u8 = 101;
/// Interrupted twice, or before there was anything to report: 128 plus the number of SIGINT, as in shells.
pub const INTERRUPTED: u8 = 130;

/// Which set of exit codes the program uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codes {
    /// All of these.
    Own,
    /// perf_analyzer's, which has none of [`INVALID`], [`OVER_THRESHOLD`], [`REQUIREMENT`] and [`UNDECIDED`] and uses 0 instead. Tools
    /// that call it (GenAI-Perf) treat every other code as a failure and discard the results.
    PerfAnalyzers,
}

impl Codes {
    /// Those of the program that is called by this path: a link with perf_analyzer's name is perf_analyzer.
    pub fn called(program: Option<&OsString>) -> Self {
        const THEIRS: [&str; 2] = ["perf_analyzer", "perf_client"];
        let name = program.and_then(|path| Path::new(path).file_name());
        if THEIRS.iter().any(|theirs| name == Some(OsStr::new(theirs))) { Self::PerfAnalyzers } else { Self::Own }
    }

    /// The exit code for `code` in this set.
    pub fn spoken(self, code: u8) -> u8 {
        match (self, code) {
            (Self::PerfAnalyzers, INVALID | OVER_THRESHOLD | REQUIREMENT | UNDECIDED) => OK,
            _ => code,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_decides_which_program_it_is() {
        let called = |name: &str| Codes::called(Some(&name.into()));
        for name in ["perf_analyzer", "/usr/bin/perf_analyzer", "./perf_client"] {
            assert_eq!(called(name), Codes::PerfAnalyzers, "{name}");
        }
        for name in ["triton-bench", "/opt/perf_analyzer/triton-bench", "", "my_perf_analyzer"] {
            assert_eq!(called(name), Codes::Own, "{name}");
        }
        assert_eq!(Codes::called(None), Codes::Own);
    }
}
