//! The same program under the name that scripts and tools call, with the exit codes that they know.

use std::process::ExitCode;

use triton_bench::exit::Codes;

fn main() -> ExitCode {
    triton_bench::main(std::env::args_os(), Codes::PerfAnalyzers)
}
