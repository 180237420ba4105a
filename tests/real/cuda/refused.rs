//! Machines where CUDA does not work: the errors, and that nothing is left behind.

use super::stand_in::StandIn;
use crate::support::{Model, Program, Repository};

const TENSORS: &str = "input [{ name: \"IN\" data_type: TYPE_FP32 dims: [-1] }]\n\
    output [{ name: \"OUT\" data_type: TYPE_FP32 dims: [-1] }]";

fn repository() -> Repository {
    Repository::of(&[Model::identity("m").tensors(TENSORS)])
}

#[test]
fn devices_that_do_not_exist_are_named() {
    let (repository, stand_in) = (repository(), StandIn::new());
    for (flags, device) in [
        ("--shared-memory cuda --cuda-device 2", 2),
        ("--shared-memory cuda --cuda-device 1,9 --concurrency-range 2", 9),
        ("--input-memory gpu:5", 5),
        ("--output-memory gpu:2", 2),
    ] {
        let run = stand_in.under(Program::on(&repository, "m")).args("--shape IN:4").args(flags).run();
        run.refusal(&[&format!("CUDA device {device} does not exist: this machine has 2, numbers 0 to 1")]);
        stand_in.clean("triton-bench");
    }
    let single = StandIn::new().with("FAKE_CUDA_DEVICES", "1");
    let run = single.under(Program::on(&repository, "m")).args("--shape IN:4 --input-memory gpu:1").run();
    run.failure(&["CUDA device 1 does not exist: this machine has one, number 0"]);
}

#[test]
fn a_device_that_is_full_says_how_much_is_free() {
    let (repository, stand_in) = (repository(), StandIn::new().with("FAKE_CUDA_MEMORY", "16777216"));
    let run = |flags: &str| {
        let program = stand_in.under(Program::on(&repository, "m"));
        let run = program.args("--cuda-memory-pool-byte-size 0:0 --cuda-memory-pool-byte-size 1:0").args(flags).run();
        let line = run.failure(&["on CUDA device", "of 16777216 free): CUDA_ERROR_OUT_OF_MEMORY (out of memory)"]);
        stand_in.clean("triton-bench");
        line.to_owned()
    };
    assert!(
        run("--shape IN:8000000 --shared-memory cuda").contains("allocate 32000000 bytes on CUDA device 0 (16777216 ")
    );
    let slots = "--shape IN:4 --output-shared-memory-size 5000000 --concurrency-range 4 --async";
    let line = run(&format!("{slots} --shared-memory cuda --cuda-device 1"));
    assert!(line.contains("output 'OUT'") && line.contains("on CUDA device 1 (1776128 of"), "{line}");
    // Slots that are made as a schedule needs them are as many as the device takes.
    let open = "--shape IN:4 --output-shared-memory-size 1000000 --request-rate-range 50 --request-count 50 --async";
    let run = stand_in.under(Program::on(&repository, "m")).args(open).args("--shared-memory cuda").run();
    run.report_even_if_late();
    stand_in.clean("triton-bench");
}

#[test]
fn a_driver_that_does_not_start_is_named_with_its_error() {
    let repository = repository();
    for (number, name) in [
        ("100", "CUDA_ERROR_NO_DEVICE"),
        ("803", "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"),
        ("34", "CUDA_ERROR_STUB_LIBRARY"),
    ] {
        let stand_in = StandIn::new().with("FAKE_CUDA_INIT_ERROR", number);
        for flags in ["--shared-memory cuda", "--input-memory pinned"] {
            let run = stand_in.under(Program::on(&repository, "m")).args("--shape IN:4").args(flags).run();
            let flag = if flags.contains("shared") { flags } else { "--input-memory pinned: " };
            run.refusal(&[flag, "cannot start the CUDA driver: ", name, "nvidia-smi"]);
        }
    }
    // Without a device, whoever does not ask for one is not bothered. (Triton itself loads no model where the driver fails
    // for another reason.)
    let stand_in = StandIn::new().with("FAKE_CUDA_INIT_ERROR", "100");
    let run = stand_in.under(Program::on(&repository, "m")).args("--shape IN:4 --request-count 5").run();
    run.report();
}
