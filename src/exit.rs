//! The exit codes that the program promises. 0, 2, 3 and 99 are perf_analyzer's.

/// Everything that was asked for was measured, or the user interrupted and what was there was reported.
pub const OK: u8 = 0;
/// A level did not become stable; its data were printed all the same.
pub const UNSTABLE: u8 = 2;
/// A level failed: nothing succeeded, or more failed than `--max-errors` allows.
pub const NO_VALID_REQUESTS: u8 = 3;
/// A level's numbers are not what was asked for: the load was another one, the server did not keep up, or there were too few
/// requests for the percentile.
pub const INVALID: u8 = 4;
/// The first level is above the latency threshold.
pub const OVER_THRESHOLD: u8 = 5;
/// A requirement (`--require`) does not hold.
pub const REQUIREMENT: u8 = 6;
/// Bad flags, bad input, a server that cannot be loaded, a file that cannot be written.
pub const FAILED: u8 = 99;
/// A fault of the program itself, told by a panic; the code that Rust gives it.
pub const PANICKED: u8 = 101;
/// Interrupted twice, or before there was anything to report: 128 and the number of SIGINT, as shells have it.
pub const INTERRUPTED: u8 = 130;

/// Whose exit codes the program speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codes {
    /// All of these.
    Own,
    /// perf_analyzer's, which has none of [`INVALID`], [`OVER_THRESHOLD`] and [`REQUIREMENT`] and ends with 0 there. Tools that call it
    /// (GenAI-Perf) take every other code for a failure and throw the results away.
    PerfAnalyzers,
}

impl Codes {
    /// What to end with where `code` is meant.
    pub fn spoken(self, code: u8) -> u8 {
        match (self, code) {
            (Self::PerfAnalyzers, INVALID | OVER_THRESHOLD | REQUIREMENT) => OK,
            _ => code,
        }
    }
}
