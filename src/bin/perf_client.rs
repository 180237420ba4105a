//! The old name of perf_analyzer, which scripts still call.

use std::process::ExitCode;

use triton_bench::exit::Codes;

fn main() -> ExitCode {
    triton_bench::main(std::env::args_os(), Codes::PerfAnalyzers)
}
