//! The device checks of `scripts/test-gpu`, run on two simulated devices.

use std::process::Command;

use triton_bench::shm::device_count;

use super::checks;
use super::stand_in::StandIn;

/// Run by the test below in a process of its own, because the library must be there from its start.
#[test]
#[ignore = "started by the test below"]
fn checks_in_a_process_with_the_stand_in() {
    assert!(checks::run(device_count().expect("started with the stand-in")));
}

#[test]
fn every_check_of_device_memory_passes() {
    let stand_in = StandIn::new();
    let program = std::env::current_exe().unwrap();
    let run = Command::new(&program)
        .args(["--exact", "cuda::memory::checks_in_a_process_with_the_stand_in", "--ignored", "--nocapture"])
        .envs(stand_in.environment())
        .output()
        .unwrap();
    let table = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{table}{}", String::from_utf8_lossy(&run.stderr));
    assert_eq!(table.matches(" passed ").count(), 15, "{table}");
    for check in ["gpu:0 IPC export to another process", "gpu:1 the thread's own context", "wrong device number"] {
        assert!(table.contains(check), "{table}");
    }
    let used = stand_in.clean(program.file_name().unwrap().to_str().unwrap());
    assert!(used.allocations().iter().all(|&count| count > 5) && used.registrations() == 10, "{used:?}");
}
