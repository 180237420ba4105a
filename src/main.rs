//! The program `triton-bench`.

use std::process::ExitCode;

use triton_bench::exit::Codes;

fn main() -> ExitCode {
    triton_bench::main(std::env::args_os(), Codes::Own)
}
