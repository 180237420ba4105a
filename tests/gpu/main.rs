//! Checks of GPU and pinned memory on a real device, for `scripts/test-gpu`. Prints a table, or `no GPU` and exits with 77.
//!
//! A program rather than a set of tests, because it runs on machines without a toolchain.

mod checks;

use std::process::ExitCode;

use triton_bench::shm::device_count;

/// Exit code that means "skipped" to test drivers.
const SKIPPED: u8 = 77;

fn main() -> ExitCode {
    match device_count() {
        Ok(count @ 1..) => ExitCode::from(u8::from(!checks::run(count))),
        Ok(_) => no_gpu("the driver knows no device"),
        Err(e) => no_gpu(&e.to_string()),
    }
}

fn no_gpu(why: &str) -> ExitCode {
    println!("no GPU");
    eprintln!("{why}");
    ExitCode::from(SKIPPED)
}
