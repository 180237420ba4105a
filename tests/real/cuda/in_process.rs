//! Real Triton in process: its own code reads inputs from devices and writes outputs to them.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::stand_in::{StandIn, Used};
use crate::support::{Model, Program, Repository};

/// Inputs and outputs of one datatype.
fn tensors(datatype: &str, dims: &str) -> String {
    format!(
        "input [{{ name: \"IN\" data_type: TYPE_{datatype} dims: [{dims}] }}]\n\
         output [{{ name: \"OUT\" data_type: TYPE_{datatype} dims: [{dims}] }}]"
    )
}

/// One model, its data, and what it should answer.
struct Bench {
    repository: Repository,
    stand_in: StandIn,
    data: Option<PathBuf>,
}

impl Bench {
    fn new(model: Model) -> Self {
        Self { repository: Repository::of(&[model]), stand_in: StandIn::new(), data: None }
    }

    /// Integers, four of them, in batches of up to eight.
    fn integers() -> Self {
        let values = json!([{"IN": [1, -2, 3, 4]}, {"IN": [5, 6, 7, 8]}, {"IN": [0x1122_3344, 0, -1, 9]}]);
        Self::new(Model::identity("m").tensors(&tensors("INT32", "4"))).echoing(&values)
    }

    /// With data and expectations.
    fn on(mut self, data: &Value, expected: &Value) -> Self {
        let path = self.repository.file("in.json");
        fs::write(&path, json!({"data": data, "validation_data": expected}).to_string()).unwrap();
        self.data = Some(path);
        self
    }

    /// With data that are to come back.
    fn echoing(self, data: &Value) -> Self {
        let expected = data.to_string().replace("\"IN\"", "\"OUT\"");
        self.on(data, &serde_json::from_str(&expected).unwrap())
    }

    fn program(&self, flags: &str) -> Program {
        let program = self.stand_in.under(Program::on(&self.repository, "m")).args(flags);
        match &self.data {
            Some(path) => program.args("--input-data").arg(path),
            None => program,
        }
    }

    /// A good run of so many requests, which says where tensors are; what it used.
    fn passes(&self, flags: &str, places: &str) -> Used {
        let report = self.program(flags).args("--request-count 60").run().report_even_if_late();
        // Sequences are ended beyond the count.
        let count = report.level().client_number("Request count") as u64;
        assert!((60..70).contains(&count), "{flags}: {}", report.text);
        assert!(report.text.contains(&format!("  {places}\n")), "{flags}: {}", report.text);
        self.stand_in.clean("triton-bench")
    }
}

#[test]
fn tensors_are_where_the_flags_say() {
    let bench = Bench::integers();
    let (per_slot, pageable) = (" (a region per slot)", "outputs in pageable memory");
    for (flags, inputs, outputs, allocations, registrations) in [
        ("--shared-memory cuda", "memory of GPU 0", "memory of GPU 0", &[2][..], 0),
        (
            "--shared-memory cuda --cuda-device 1 --concurrency-range 2",
            "memory of GPU 1",
            "memory of GPU 1",
            &[0, 3],
            0,
        ),
        (
            "--shared-memory cuda --cuda-device 1,0 --async --concurrency-range 4",
            "memory of GPU 1",
            "memory of GPU 1 or 0",
            &[2, 3],
            0,
        ),
        ("--input-memory gpu:0 --output-memory gpu:1", "memory of GPU 0", "memory of GPU 1", &[1, 1], 0),
        ("--input-memory pinned --output-memory gpu:0", "pinned memory", "memory of GPU 0", &[1], 1),
        (
            "--input-memory gpu:1 --output-memory pinned --async --concurrency-range 3",
            "memory of GPU 1",
            "pinned memory",
            &[0, 1],
            3,
        ),
    ] {
        let used = bench.passes(flags, &format!("Inputs in {inputs}, outputs in {outputs}{per_slot}"));
        assert_eq!((&used.allocations()[..], used.registrations()), (allocations, registrations), "{flags}");
    }
    for (flag, memory, registrations) in [("gpu:1", "memory of GPU 1", 0), ("pinned", "pinned memory", 1)] {
        let used = bench.passes(&format!("--input-memory {flag}"), &format!("Inputs in {memory}, {pageable}"));
        assert_eq!(used.registrations(), registrations);
        let places = format!("Inputs in pageable memory, outputs in {memory}{per_slot}");
        assert_eq!(bench.passes(&format!("--output-memory {flag}"), &places).registrations(), registrations);
    }
}

#[test]
fn batches_rates_and_periods_work_on_a_device() {
    let bench = Bench::integers();
    let places = "Inputs in memory of GPU 0, outputs in memory of GPU 0 (a region per slot)";
    for flags in
        ["-b 3", "-b 8 --async --concurrency-range 4", "--request-rate-range 50", "--wait spin", "--model-version 1"]
    {
        bench.passes(&format!("--shared-memory cuda {flags}"), places);
    }
    // Levels, whose slots come and go.
    let levels = bench.program("--shared-memory cuda --async --concurrency-range 1:3").quick().run().report();
    assert_eq!(levels.values(), [1.0, 2.0, 3.0]);
    assert_eq!(bench.stand_in.clean("triton-bench").allocations(), [1 + 1 + 2 + 3]);
}

#[test]
fn strings_sequences_and_streams_work_on_a_device() {
    let places = "Inputs in memory of GPU 1, outputs in memory of GPU 1 (a region per slot)";
    let cuda = "--shared-memory cuda --cuda-device 1";
    let words = json!([{"IN": {"content": ["one", "two\u{0}"], "shape": [2]}}, {"IN": {"content": ["", "long ".repeat(50)], "shape": [2]}}]);
    let strings = Bench::new(Model::identity("m").tensors(&tensors("STRING", "-1"))).echoing(&words);
    strings.passes(&format!("{cuda} --output-shared-memory-size 400"), places);
    // Strings of a batch have one shape, and a region for all of it.
    strings.passes(&format!("{cuda} -b 2 --output-shared-memory-size 400"), places);
    let steps = json!([[{"INPUT0": [1]}, {"INPUT0": [2]}, {"INPUT0": [4]}], [{"INPUT0": [10]}, {"INPUT0": [20]}]]);
    let sums = json!([[{"OUTPUT0": [1]}, {"OUTPUT0": [3]}, {"OUTPUT0": [7]}], [{"OUTPUT0": [10]}, {"OUTPUT0": [30]}]]);
    let sequences = Bench::new(Model::accumulator("m")).on(&steps, &sums);
    sequences.passes(cuda, places);
    sequences.passes(&format!("{cuda} --async --concurrency-range 3"), places);
    let answers = json!([[{"OUTPUT0": [5]}, {"OUTPUT0": [5]}, {"OUTPUT0": [5]}]]);
    for last in ["flag", "null"] {
        let model = Model::decoupled("m", 3).parameter("final", last);
        let stream = Bench::new(model).on(&json!([{"INPUT0": [5]}]), &answers);
        stream.passes(cuda, places);
        stream.passes(&format!("{cuda} --async --concurrency-range 2"), places);
    }
}

#[test]
fn wrong_expectations_are_found_in_what_came_from_the_device() {
    let data = json!([{"IN": [1, 2, 3, 4]}, {"IN": [5, 6, 7, 8]}]);
    let wrong = json!([{"OUT": [1, 2, 3, 4]}, {"OUT": [5, 6, 7, 0]}]);
    let bench = Bench::new(Model::identity("m").tensors(&tensors("INT32", "4"))).on(&data, &wrong);
    for flags in
        ["--shared-memory cuda", "--output-memory gpu:1 --async --concurrency-range 2", "--output-memory pinned"]
    {
        let report = bench.program(flags).args("--request-count 40 --max-errors 1").run().report();
        let message = "stream 0, step 1, response 0, output 'OUT', element 3: expected 0, got 8";
        assert!(report.level().failures(message).abs_diff(20) <= 2, "{flags}: {}", report.text);
        bench.stand_in.clean("triton-bench");
    }
}

#[test]
fn a_region_that_is_too_small_is_named_and_nothing_is_left() {
    let bench = Bench::new(Model::identity("m").tensors(&tensors("INT32", "-1")).batches(0));
    let program = || bench.program("--shared-memory cuda --shape IN:64 --request-count 5");
    let report = program().args("--output-shared-memory-size 255").run().report_with(3);
    let message = "output 'OUT' needs 256 bytes and its region has 255; raise --output-shared-memory-size";
    assert_eq!(report.level().failures(message), 5, "{}", report.text);
    bench.stand_in.clean("triton-bench");
    program().args("--output-shared-memory-size 256").run().report();
    bench.stand_in.clean("triton-bench");
}

#[test]
fn an_interrupt_leaves_nothing_on_the_device() {
    let repository = Repository::of(&[]);
    let model = Model::sleeping("m", 20).tensors(&tensors("INT32", "4")).instances(4);
    repository.add(&repository.journaling(model));
    let bench = Bench { repository, stand_in: StandIn::new(), data: None };
    for flags in ["--shared-memory cuda --async --concurrency-range 3", "--input-memory pinned --output-memory gpu:1"] {
        let journal = bench.repository.journal_length("m");
        let run = bench.program(flags).args("-p 20000").start();
        bench.repository.wait_for_requests("m", journal);
        // What was sent first is answered.
        thread::sleep(Duration::from_millis(100));
        run.signal(2);
        let finished = run.finish();
        assert!(finished.stdout.contains("Request count") && !finished.stdout.contains("Failed"), "{finished:#?}");
        assert!(!bench.stand_in.clean("triton-bench").allocations().is_empty(), "{flags}");
    }
}

#[test]
fn the_servers_own_backends_take_device_memory_too() {
    const IDENTITY: &str = "import triton_python_backend_utils as pb_utils\n\
        class TritonPythonModel:\n    def execute(self, requests):\n        \
        return [pb_utils.InferenceResponse([pb_utils.Tensor('OUT', pb_utils.get_input_tensor_by_name(r, 'IN').as_numpy())])\
        for r in requests]\n";
    let values = json!([{"IN": [1, -2, 3, 4]}, {"IN": [5, 6, 7, 8]}]);
    let bench = Bench::new(Model::python("m", IDENTITY).tensors(&tensors("INT32", "4"))).echoing(&values);
    let places = "Inputs in memory of GPU 0, outputs in memory of GPU 0 (a region per slot)";
    bench.passes("--shared-memory cuda -b 2 --async --concurrency-range 2", places);
}
