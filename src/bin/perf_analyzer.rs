//! The same program under the name that scripts and tools call.

use std::process::ExitCode;

fn main() -> ExitCode {
    triton_bench::main(std::env::args_os())
}
