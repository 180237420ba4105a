//! A test that runs alone in its process, for checks of process-wide state.

use std::process::Command;

/// Set in the process that [`alone`] starts.
const ALONE: &str = "TRITON_BENCH_TEST_ALONE";

/// Does `act` in a process that runs the test of this name, its whole path, and no other. For the test to call itself.
pub fn alone(test: &str, act: impl FnOnce()) {
    if std::env::var_os(ALONE).is_some() {
        return act();
    }
    let mut again = Command::new(std::env::current_exe().unwrap());
    let run = again.args([test, "--exact", "--nocapture"]).env(ALONE, "1").output().unwrap();
    let output = [run.stdout, run.stderr].concat();
    let output = String::from_utf8_lossy(&output);
    assert!(run.status.success() && output.contains("1 passed"), "{output}");
}
