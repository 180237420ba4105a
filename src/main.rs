//! The program `triton-bench`.

use std::process::ExitCode;

fn main() -> ExitCode {
    triton_bench::main(std::env::args_os())
}
