//! The program `triton-bench`, which is `perf_analyzer` under that name.

use std::ffi::OsString;
use std::process::ExitCode;

use triton_bench::exit::Codes;

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    let codes = Codes::called(args.first());
    triton_bench::main(args, codes)
}
