//! Input data end to end: the bytes a server receives from every source, and what is refused before a run.
//!
//! The server's side proves that the bytes arrive: validation of a real Triton identity model's answers, the native
//! backend's journal of checksums, and the scripted library's log of requests.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use half::{bf16, f16};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Export, Finished, Model, Program, Repository, Scripted};

/// Two elements of every datatype: Triton's name, the file's text, the bytes that must arrive.
fn datatypes() -> Vec<(&'static str, Value, Vec<u8>)> {
    macro_rules! numbers {
        ($a:expr, $b:expr) => {
            (json!([$a, $b]), [$a.to_le_bytes(), $b.to_le_bytes()].concat())
        };
    }
    let mut all = vec![
        ("BOOL", json!([true, 0]), vec![1, 0]),
        ("FP16", json!([1, -0.5]), [f16::from_f32(1.0).to_le_bytes(), f16::from_f32(-0.5).to_le_bytes()].concat()),
        ("BF16", json!([3, 0.25]), [bf16::from_f32(3.0).to_le_bytes(), bf16::from_f32(0.25).to_le_bytes()].concat()),
        ("FP32", json!([1, -2.5]), [1_f32.to_le_bytes(), (-2.5_f32).to_le_bytes()].concat()),
        ("FP64", json!([7, 1e300]), [7_f64.to_le_bytes(), 1e300_f64.to_le_bytes()].concat()),
        ("STRING", json!(["a\u{0}b", "é"]), b"\x03\0\0\0a\0b\x02\0\0\0\xc3\xa9".to_vec()),
    ];
    let integers = [
        ("UINT8", numbers!(0_u8, u8::MAX)),
        ("UINT16", numbers!(1_u16, u16::MAX)),
        ("UINT32", numbers!(2_u32, u32::MAX)),
        ("UINT64", numbers!(3_u64, u64::MAX)),
        ("INT8", numbers!(i8::MIN, i8::MAX)),
        ("INT16", numbers!(i16::MIN, i16::MAX)),
        ("INT32", numbers!(i32::MIN, i32::MAX)),
        ("INT64", numbers!(i64::MIN, i64::MAX)),
    ];
    all.extend(integers.map(|(name, (text, bytes))| (name, text, bytes)));
    all
}

/// Inputs and outputs of one element of text per type and name.
fn tensors(list: &[(&str, &str, &str)]) -> String {
    let mut text = String::new();
    for (kind, prefix) in [("input", ""), ("output", "OUT_")] {
        let entries = list.iter().map(|(name, datatype, more)| {
            let more = if kind == "input" { *more } else { &more.replace("optional: true", "") };
            format!("{{ name: \"{prefix}{name}\" data_type: TYPE_{datatype} {more} }}")
        });
        let _ = writeln!(text, "{kind} [{}]", entries.collect::<Vec<_>>().join(","));
    }
    text
}

fn int32(dims: &str) -> String {
    tensors(&[("A", "INT32", &format!("dims: [{dims}]"))])
}

fn write(folder: &TempDir, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.path().join(name);
    fs::write(&path, contents).unwrap();
    path
}

fn fnv(bytes: &[u8]) -> String {
    let hash = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    format!("{hash:016x}")
}

fn ints(values: &[i32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn requests(program: Program, count: u32) -> Finished {
    program.args(&format!("--request-count {count}")).run()
}

/// A journaled model and what its requests carried, in order of execution.
fn journal(model: Model, name: &str, run: impl FnOnce(&Repository) -> Finished) -> Vec<Value> {
    let repository = Repository::of(&[]);
    repository.add(&repository.journaling(model));
    let finished = run(&repository);
    assert_eq!(finished.code(), 0, "{}{}", finished.stdout, finished.stderr);
    repository.journal(name)
}

fn checksums(journal: &[Value]) -> Vec<String> {
    journal.iter().map(|line| line["checksum"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn every_datatype_arrives_from_numbers_and_from_base64() {
    let folder = tempfile::tempdir().unwrap();
    let all = datatypes();
    let list: Vec<_> = all.iter().map(|(name, ..)| (*name, *name, "dims: [2]")).collect();
    let repository = Repository::of(&[Model::identity("every").tensors(&tensors(&list))]);
    let mut steps = [json!({}), json!({}), json!({})];
    let mut expected = steps.clone();
    for (name, text, bytes) in &all {
        let (b64, swapped) = (BASE64_STANDARD.encode(bytes), json!([text[1], text[0]]));
        steps[0][name] = text.clone();
        steps[1][name] = json!({ "content": { "b64": b64 }, "shape": [2] });
        steps[2][name] = json!({ "content": swapped });
        let output = format!("OUT_{name}");
        // What was numbers must come back as the bytes, and the other way round.
        expected[0][&output] = json!({ "b64": b64 });
        expected[1][&output] = text.clone();
        expected[2][&output] = swapped;
    }
    let good = write(&folder, "good.json", json!({ "data": steps, "validation_data": expected }).to_string());
    for flags in ["", "-b 2", "-b 4 --shared-memory system", "--async --concurrency-range 3 -b 2"] {
        let run = requests(Program::on(&repository, "every").args("--input-data").arg(&good).args(flags), 12);
        assert!(
            run.stdout.contains(" Successfully read data for 1 stream/streams with 3 step/steps."),
            "{}",
            run.stdout
        );
        let report = run.report();
        assert_eq!(report.level().client_number("Request count"), 12.0);
        assert!(!report.text.contains("Failed"), "{flags}: {}", report.text);
    }
    // The proof that validation looks at every type: one wrong value in each.
    for (name, text, _) in &all {
        let mut wrong = expected.clone();
        wrong[1][format!("OUT_{name}")] = json!([text[0], text[0]]);
        let bad = write(&folder, "bad.json", json!({ "data": steps, "validation_data": wrong }).to_string());
        let report = requests(Program::on(&repository, "every").args("--input-data").arg(&bad), 3).report_with(3);
        let message = format!("stream 0, step 1, response 0, output 'OUT_{name}', element 1: expected ");
        assert_eq!(report.level().failures(&message), 1, "{name}: {}", report.text);
    }
}

#[test]
fn batches_follow_each_other_and_wrap() {
    let folder = tempfile::tempdir().unwrap();
    let steps: Vec<Value> = (0..3).map(|step| json!({ "A": [step, step + 10] })).collect();
    let file = write(&folder, "in.json", json!({ "data": steps }).to_string());
    let model = Model::identity("m").tensors(&int32("2"));
    let journal = journal(model, "m", |repository| {
        requests(Program::on(repository, "m").args("-b 2 --input-data").arg(&file), 4)
    });
    let batch = |a: i32, b: i32| fnv(&ints(&[a, a + 10, b, b + 10]));
    assert_eq!(checksums(&journal), [batch(0, 1), batch(2, 0), batch(1, 2), batch(0, 1)]);
    assert!(journal.iter().all(|line| line["rows"] == 2), "{journal:?}");
}

#[test]
fn all_streams_of_all_files_are_cycled_through() {
    let folder = tempfile::tempdir().unwrap();
    let first = write(&folder, "1.json", json!({ "data": [[{"A": [1]}, {"A": [2]}], [{"A": [3]}]] }).to_string());
    let second = write(&folder, "2.json", json!({ "data": [[{"A": [4]}]] }).to_string());
    let lines = journal(Model::identity("m").tensors(&int32("1")).batches(0), "m", |repository| {
        let run = Program::on(repository, "m").args("--input-data").arg(&first).args("--input-data").arg(&second);
        let run = requests(run, 5);
        assert!(run.stdout.contains(" Successfully read data for 3 stream/streams.\n"), "{}", run.stdout);
        run
    });
    assert_eq!(checksums(&lines), [1, 2, 3, 4, 1].map(|value| fnv(&ints(&[value]))));
}

/// Metadata put the batch's dimension in front of a shape tensor, though the server takes it without.
#[test]
fn shape_tensors_of_batching_models_are_sent_without_a_batch() {
    let folder = tempfile::tempdir().unwrap();
    let list = [("A", "FP32", "dims: [-1]"), ("S", "INT32", "dims: [2] is_shape_tensor: true")];
    let inputs = tensors(&list);
    let (inputs, _) = inputs.split_once("output").unwrap();
    let outputs = r#"output [{ name: "OUT_A" data_type: TYPE_FP32 dims: [-1] }]"#;
    let model =
        Model::identity("m").tensors(&format!("{inputs}{outputs}")).with("platform: \"tensorrt_plan\"").batches(8);
    let step = json!({"data": [{"A": {"content": [1, 2, 3], "shape": [3]}, "S": [1, 2]}]});
    let data = write(&folder, "data.json", step.to_string());
    let repository = Repository::of(&[model]);
    for batch in ["1", "2"] {
        let run = Program::on(&repository, "m").args("-b").arg(batch).arg("--input-data").arg(&data);
        assert_eq!(requests(run, 5).report().level().client_number("Request count"), 5.0);
    }
}

#[test]
fn a_link_that_leads_nowhere_is_no_missing_file() {
    let folder = tempfile::tempdir().unwrap();
    let list = [("A", "INT32", "dims: [1]"), ("B", "INT32", "dims: [1] optional: true")];
    let repository = Repository::of(&[Model::identity("m").tensors(&tensors(&list)).batches(0)]);
    write(&folder, "A", ints(&[1]));
    std::os::unix::fs::symlink("/nonexistent", folder.path().join("B")).unwrap();
    let run = Program::on(&repository, "m").args("--input-data").arg(folder.path());
    requests(run, 2).refusal(&["failed to open file", "/B"]);
}

/// Beyond some number of steps, request objects are not kept per step but given other inputs before each use.
#[test]
fn more_steps_than_there_are_request_objects_arrive() {
    let folder = tempfile::tempdir().unwrap();
    let list = [("A", "INT32", "dims: [-1]"), ("B", "INT32", "dims: [1] optional: true")];
    let repository = Repository::of(&[Model::identity("m").tensors(&tensors(&list)).batches(0)]);
    let step = |number: i32, prefix: &str| {
        let a = if number % 7 == 0 {
            json!({ "content": [number, 5], "shape": [2] })
        } else {
            json!({ "content": [number], "shape": [1] })
        };
        let mut step = json!({});
        step[format!("{prefix}A")] = a;
        step
    };
    let all = |prefix: &str| (0..33_000).map(|number| step(number, prefix)).collect::<Vec<_>>();
    let mut data = all("");
    // Now and then there is a second input, which is answered with a second output that nothing is expected of.
    data.iter_mut().step_by(5).for_each(|step| step["B"] = json!([1]));
    let outputs: Vec<Value> = all("OUT_")
        .into_iter()
        .map(|mut step| {
            step["OUT_B"] = json!([1]);
            step
        })
        .collect();
    let plain = write(&folder, "plain.json", json!({ "data": data }).to_string());
    let with_b = json!({ "data": data.iter_mut().map(|step| { step["B"] = json!([1]); step.clone() }).collect::<Vec<_>>(), "validation_data": outputs });
    let validated = write(&folder, "validated.json", with_b.to_string());
    for flags in ["", "--async --concurrency-range 3"] {
        let run = Program::on(&repository, "m").args(flags).args("--input-data").arg(&validated);
        let report = requests(run, 33_000).report();
        assert_eq!(report.level().client_number("Request count"), 33_000.0, "{}", report.text);
    }
    let journal = journal(Model::identity("j").tensors(&tensors(&list)).batches(0), "j", |repository| {
        requests(Program::on(repository, "j").args("--input-data").arg(&plain), 20)
    });
    let carried = |number: i32| {
        let a = if number % 7 == 0 { vec![number, 5] } else { vec![number] };
        fnv(&ints(&if number % 5 == 0 { [a, vec![1]].concat() } else { a }))
    };
    assert_eq!(checksums(&journal), (0..20).map(carried).collect::<Vec<_>>());
}

#[test]
fn optional_inputs_may_be_left_out_and_shapes_come_from_steps() {
    let folder = tempfile::tempdir().unwrap();
    let list = [("A", "INT32", "dims: [-1]"), ("B", "INT32", "dims: [1] optional: true")];
    let steps = json!({ "data": [
        {"A": {"content": [1, 2, 3], "shape": [3]}},
        {"A": {"content": [4], "shape": [1]}, "B": [9]}] });
    let file = write(&folder, "in.json", steps.to_string());
    let lines = journal(Model::identity("m").tensors(&tensors(&list)).batches(0), "m", |repository| {
        requests(Program::on(repository, "m").args("--input-data").arg(&file), 2)
    });
    assert_eq!(checksums(&lines), [fnv(&ints(&[1, 2, 3])), fnv(&ints(&[4, 9]))]);
}

#[test]
fn directories_and_numpy_files_arrive() {
    let folder = tempfile::tempdir().unwrap();
    let list = [("A", "INT32", "dims: [2]"), ("S", "STRING", "dims: [2]")];
    let repository = Repository::of(&[Model::identity("m").tensors(&tensors(&list))]);
    let npy = |values: &[i32]| {
        let mut header =
            format!("{{'descr': '<i4', 'fortran_order': False, 'shape': ({},), }}", values.len()).into_bytes();
        header.resize(128 - 11, b' ');
        header.push(b'\n');
        [b"\x93NUMPY\x01\x00".as_slice(), &(header.len() as u16).to_le_bytes(), &header, &ints(values)].concat()
    };
    let (raw, array) = (folder.path().join("raw"), folder.path().join("array"));
    fs::create_dir(&raw).unwrap();
    fs::create_dir(&array).unwrap();
    for folder in [&raw, &array] {
        fs::write(folder.join("S"), "one\ntwo words\n").unwrap();
        fs::write(folder.join("OUT_S"), "one\ntwo words").unwrap();
        fs::write(folder.join("OUT_A"), ints(&[7, -8])).unwrap();
    }
    fs::write(raw.join("A"), ints(&[7, -8])).unwrap();
    fs::write(array.join("A.npy"), npy(&[7, -8])).unwrap();
    // Arrays bring their shapes; raw bytes have none.
    let open = Repository::of(&[Model::identity("m").tensors(&tensors(&[("A", "INT32", "dims: [-1]"), list[1]]))]);
    let run = |path: &Path| requests(Program::on(&open, "m").args("--input-data").arg(path), 10);
    assert_eq!(run(&array).report().level().client_number("Request count"), 10.0);
    run(&raw).failure(&["raw/A", "--shape"]);
    for folder in [&raw, &array] {
        for flags in ["", "-b 3 --async --concurrency-range 2"] {
            let run = requests(Program::on(&repository, "m").args("--input-data").arg(folder).args(flags), 10);
            assert_eq!(run.report().level().client_number("Request count"), 10.0);
        }
        fs::write(folder.join("OUT_A"), ints(&[7, 8])).unwrap();
        let report = requests(Program::on(&repository, "m").args("--input-data").arg(folder), 10).report_with(3);
        assert_eq!(report.level().failures("output 'OUT_A', element 1: expected 8, got -8"), 10);
    }
}

#[test]
fn a_file_that_is_cut_short_during_the_run_ends_it_with_a_message() {
    let folder = tempfile::tempdir().unwrap();
    let repository = Repository::of(&[Model::identity("m").tensors(&int32("262144"))]);
    let file = write(&folder, "A", vec![1; 1 << 20]);
    let run = Program::on(&repository, "m").args("--output-memory pageable -p 60000 --input-data").arg(folder.path());
    let running = run.start();
    let maps = format!("/proc/{}/maps", running.id());
    while !fs::read_to_string(&maps).unwrap().contains(file.to_str().unwrap()) {
        thread::sleep(Duration::from_millis(5));
    }
    fs::OpenOptions::new().write(true).open(file).unwrap().set_len(0).unwrap();
    running.finish().failure(&["SIGBUS", "input data file was cut", "leave input files as they are"]);
}

#[test]
fn archives_hold_steps() {
    let saved = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/numpy/saved.npz");
    let shown = requests(
        Program::on(&Repository::of(&[Model::identity("m").tensors(&int32("2"))]), "m")
            .args("--input-data")
            .arg(&saved),
        3,
    );
    // The fixture's tensors are A (INT32) and S (BYTES): a model without S must say so.
    let line = shown.failure(&["saved.npz", "S"]);
    assert!(line.contains("not"), "{line}");
    let list = [("A", "INT32", "dims: [2]"), ("S", "STRING", "dims: [2]")];
    let repository = Repository::of(&[Model::identity("m").tensors(&tensors(&list))]);
    let run = requests(Program::on(&repository, "m").args("--input-data").arg(&saved), 3);
    assert!(run.stdout.contains("Successfully read data for 1 stream/streams with "), "{}{}", run.stdout, run.stderr);
    run.report();
}

/// The outputs of the identity model, as the profile export has them: what the inputs were.
fn echoed(model: &Model, flags: &str) -> Vec<Value> {
    let repository = Repository::of(std::slice::from_ref(model));
    let file = repository.file("export.json");
    let run = Program::on(&repository, "m").args(flags).args("--profile-export-file").arg(&file);
    requests(run, 2).report();
    let export = Export::read(&file);
    let requests = export.experiments()[0]["requests"].as_array().unwrap();
    requests.iter().map(|request| request["response_outputs"][0].clone()).collect()
}

#[test]
fn generated_values_stay_in_their_range_and_follow_the_seed() {
    let numbers = Model::identity("m").tensors(&tensors(&[("A", "INT64", "dims: [64]")]));
    let ranged = &echoed(&numbers, "--random-range A:-5:30521")[0];
    let values = |value: &Value| -> Vec<i64> {
        let found = value.as_object().unwrap().values().find_map(Value::as_array).expect("the output is a list");
        found.iter().map(|value| value.as_i64().unwrap()).collect()
    };
    let drawn = values(ranged);
    assert_eq!(drawn.len(), 64);
    assert!(drawn.iter().all(|value| (-5..=30521).contains(value)) && drawn.iter().any(|&value| value > 100));
    assert_eq!(drawn, values(&echoed(&numbers, "--random-range A:-5:30521")[0]));
    assert_ne!(drawn, values(&echoed(&numbers, "--random-range A:-5:30521 --seed 7")[0]));
    assert!(values(&echoed(&numbers, "--input-data zero")[0]).iter().all(|&value| value == 0));
    let strings = Model::identity("m").tensors(&tensors(&[("S", "STRING", "dims: [2]")]));
    let text = |flags: &str| echoed(&strings, flags)[0].to_string();
    assert_eq!(text("--string-data wörter").matches("wörter").count(), 2);
    let long = text("--string-length 31");
    let longest = long.split('"').map(str::len).max().unwrap();
    assert!((31..=66).contains(&longest), "{long}");
}

#[test]
fn request_options_reach_the_server() {
    let scripted = Scripted::script(&json!({ "server": { "log_requests": true } }));
    let flags = "--request-parameter flag:true:bool --request-parameter low:-3:int --request-parameter big:7:uint \
        --request-parameter real:0.5:double --request-parameter text:a_b:string --priority 3 --request-timeout-us 70000 \
        --input-data zero";
    requests(scripted.program().args(flags), 2).report();
    for event in scripted.events("request") {
        assert_eq!(event["parameters"], json!({ "flag": true, "low": -3, "big": 7, "real": 0.5, "text": "a_b" }));
        assert_eq!((&event["priority"], &event["timeout_us"]), (&json!(3), &json!(70000)));
        assert_eq!(event["inputs"][0]["data"], "00".repeat(16));
    }
    assert_eq!(scripted.events("violation"), Vec::<Value>::new());
}

#[test]
fn request_options_act_in_a_real_server() {
    let folder = tempfile::tempdir().unwrap();
    let queue = "dynamic_batching { priority_levels: 2 default_priority_level: 2 \
        default_queue_policy { timeout_action: REJECT allow_timeout_override: true default_timeout_microseconds: 9000000 } \
        priority_queue_policy { key: 1 value { timeout_action: REJECT default_timeout_microseconds: 1000 } } }";
    let model = Model::sleeping("m", 20).batches(1).with(queue).parameter("echo_parameters", "true");
    let repository = Repository::of(&[]);
    repository.add(&repository.journaling(model));
    let failed = |flags: &str| {
        let run = Program::on(&repository, "m").args("--async --concurrency-range 3 --max-errors 1").args(flags);
        let report = requests(run, 12).report();
        let client = report.level().client().to_owned();
        client.lines().any(|line| line.contains("Unavailable") && line.contains("imeout")).then_some(client)
    };
    assert_eq!(failed(""), None, "nothing waits in vain at the default priority");
    assert!(failed("--priority 1").is_some(), "priority 1 has a queue of its own, with a timeout");
    assert!(failed("--request-timeout-us 1000").is_some());
    let _ = fs::remove_file(repository.file("m.journal"));
    failed("--request-parameter who:me:string --request-parameter n:-2:int --request-parameter on:false:bool");
    assert_eq!(repository.journal("m")[0]["parameters"], json!({ "who": "me", "n": -2, "on": false }));
    drop(folder);
}

#[test]
fn cancelled_requests_are_counted_apart() {
    let repository = Repository::counted(Model::sleeping("m", 300).parameter("cancellable", "true"));
    for flags in ["--async --concurrency-range 2", "--concurrency-range 2", "--request-rate-range 50"] {
        let run = Program::on(&repository, "m").args(flags).args("--cancel-after-us 5000");
        let report = requests(run, 50).report_with(3);
        let level = report.level();
        assert_eq!(level.client_number("Request count"), 0.0, "{}", report.text);
        assert_eq!(level.client_number("Cancelled request count"), 50.0, "{}", report.text);
        assert!(!report.text.contains("Failed request count"), "{}", report.text);
        assert!(repository.counters("m").get("cancelled") >= 45, "the server itself saw them cancelled");
    }
    // Time enough: nothing is cancelled, and nothing says so.
    let report = requests(Program::on(&repository, "m").args("--cancel-after-us 5000000"), 5).report();
    assert!(!report.text.contains("ancelled"), "{}", report.text);
}

/// Every class of broken input data: one line, exit code 99, nothing on standard output.
#[test]
fn broken_input_is_refused_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let scripted = Scripted::script(&json!({}));
    let cases: Vec<(&str, Vec<u8>, &str)> = [
        ("", "bad.json"),
        ("[]", "bad.json"),
        ("{", "failed to parse the specified json file for reading provided data"),
        ("{}", "The json file doesn't contain data field"),
        (r#"{"data": 1}"#, "Input data file is malformed."),
        (r#"{"data": []}"#, "\"data\" is empty"),
        (r#"{"data": [{}]}"#, "missing tensor INPUT0 ( Location stream id: 0, step id: 0)"),
        (
            r#"{"data": [{"INPUT0": [1, 2, 3, 4]}, {"X": [1]}]}"#,
            "The input or output 'X' is not found in the model configuration",
        ),
        (r#"{"data": [{"INPUT0": {"shape": [4]}}]}"#, "missing content field. ( Location stream id: 0, step id: 0)"),
        (r#"{"data": [{"INPUT0": {"content": [1], "shape": ["1"]}}]}"#, "shape values must be integers"),
        (r#"{"data": [{"INPUT0": {"b64": 1}}]}"#, "the value of b64 field should be of type string"),
        (r#"{"data": [{"INPUT0": {"b64": "?"}}]}"#, "wrong base64"),
        (r#"{"data": [{"INPUT0": 5}]}"#, "The tensor values are not supported. Expected an array or b64 string"),
        (
            r#"{"data": [{"INPUT0": [1, 2]}]}"#,
            "mismatch in the data provided for INPUT0. Expected: 16 bytes, Got: 8 bytes",
        ),
        (
            r#"{"data": [{"INPUT0": {"content": [1], "shape": [1, 1]}}]}"#,
            "is incompatible with the model's input shape of",
        ),
        (r#"{"data": [{"INPUT0": ["1", 2, 3, 4]}]}"#, "unable to find int32_t data in json"),
        (r#"{"data": [{"INPUT0": [3000000000, 2, 3, 4]}]}"#, "got 3000000000"),
        (
            r#"{"data": [{"INPUT0": [1, 2, 3, 4]}, [{"INPUT0": [1, 2, 3, 4]}]]}"#,
            "Inconsistency in input-data provided.",
        ),
        (
            r#"{"data": [{"INPUT0": [1, 2, 3, 4]}], "validation_data": []}"#,
            "The 'validation_data' field doesn't align with 'data'",
        ),
        (r#"{"data": [{"INPUT0": {"content": [1], "shape": [9223372036854775807]}}]}"#, "too large to be addressed"),
        (r#"{"data": [{"INPUT0": [1, 2, 3, 4], "INPUT0": [1, 2, 3, 4]}]}"#, "the tensor INPUT0 is given twice"),
    ]
    .map(|(text, part)| ("bad.json", text.as_bytes().to_vec(), part))
    .into_iter()
    .chain([
        ("deep.json", format!("{{\"x\": {}", "[".repeat(1 << 20)).into_bytes(), "nested deeper than"),
        ("latin.json", b"{\"data\": [{\"\xe9\": [1]}]}".to_vec(), "not UTF-8"),
        ("array.json", b"\x93NUMPY\x01\0".to_vec(), "it is a NumPy array: put it into a directory as INPUT.npy"),
        ("archive.json", b"PK\x03\x04".to_vec(), "call it FILE.npz"),
        ("hostile.json", br#"{"data": [{"IN\u0000\u001b[31m": [1]}]}"#.to_vec(), "'IN\\u{0}\\u{1b}[31m' is not found"),
        ("wide.json", b"\xff\xfe{\0}\0".to_vec(), "it is UTF-16"),
        ("python.json", b"{\"data\": [{\"INPUT0\": [None]}]}".to_vec(), "'None' is not a value"),
        ("url.json", b"{\"data\": [{\"INPUT0\": {\"b64\": \"AA_-\"}}]}".to_vec(), "the alphabet for URLs"),
        ("broken.npz", b"PK\x03\x04 and no more".to_vec(), "broken.npz"),
    ])
    .collect();
    for (name, contents, part) in cases {
        let path = write(&folder, name, contents);
        scripted.program().args("--input-data").arg(&path).run().refusal(&[name, part]);
    }
    let empty = tempfile::tempdir().unwrap();
    let extra = tempfile::tempdir().unwrap();
    write(&extra, "INPUT0", ints(&[1, 2, 3, 4]));
    let short = tempfile::tempdir().unwrap();
    write(&short, "INPUT0", [1, 2, 3]);
    scripted.program().args("--input-data").arg(empty.path()).run().refusal(&["is empty", "INPUT0"]);
    scripted
        .program()
        .args("--input-data")
        .arg(short.path())
        .run()
        .refusal(&["provided data for input INPUT0 has byte size 3, expect 16"]);
    write(&extra, "UNKNOWN", "x");
    scripted
        .program()
        .args("--input-data")
        .arg(extra.path())
        .run()
        .refusal(&["UNKNOWN", "does not correspond to a valid model input or output"]);
    for (flags, part) in [
        ("--input-data /nonexistent", "--input-data"),
        ("--input-data zero --random-range INPUT0:1:2", "--random-range"),
        ("--random-range OTHER:1:2", "OTHER"),
        ("--random-range INPUT0:0:9999999999", "INT32"),
        ("--shape OTHER:4", "OTHER"),
        ("--shape INPUT0:9223372036854775807,9", "INPUT0"),
        ("--shape INPUT0:4611686018427387904", "INPUT0"),
        ("--shape INPUT0", "--shape"),
        ("-b 2", "-b 2"),
        ("--validate-tolerance 0.1", "--validate-tolerance"),
        ("--validate-tolerance x", "--validate-tolerance"),
        ("--request-parameter a:b", "--request-parameter"),
        ("--request-parameter a:x:int", "--request-parameter"),
        ("--cancel-after-us 0", "--cancel-after-us"),
    ] {
        scripted.program().args(flags).run().refusal(&[part]);
    }
}

#[test]
fn schedules_are_json_and_have_their_own_timestamp() {
    let folder = tempfile::tempdir().unwrap();
    let scripted = Scripted::script(&json!({}));
    let archive = write(&folder, "steps.npz", b"PK\x03\x04 and more");
    let run = || scripted.program().args("--fixed-schedule --input-data");
    let refused = run().arg(&archive).run();
    let message = refused.refusal(&["--fixed-schedule", "steps.npz", "a schedule and its data are JSON"]);
    assert!(!message.contains("call it"), "{message}");
    let taken = json!({"name": "fake", "config": {
        "max_batch_size": 0,
        "input": [{"name": "INPUT0", "data_type": "TYPE_INT32", "dims": [-1]},
                  {"name": "timestamp", "data_type": "TYPE_UINT64", "dims": [1]}],
        "output": [{"name": "OUTPUT0", "data_type": "TYPE_INT32", "dims": [-1]}]
    }});
    let scripted = Scripted::script(&json!({"models": [taken]}));
    let steps = write(&folder, "steps.json", r#"{"data": [{"INPUT0": [1, 2, 3, 4], "timestamp": [0]}]}"#);
    let refused = scripted.program().args("--fixed-schedule --input-data").arg(&steps).run();
    refused.refusal(&["--fixed-schedule", "'fake'", "an input 'timestamp' of its own", "--request-intervals"]);
}

#[test]
fn what_has_no_effect_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let scripted = Scripted::script(&json!({}));
    let misspelt = r#"{"data": [{"INPUT0": [1, 2, 3, 4]}], "validation-data": [{"OUTPUT0": [1, 2, 3, 4]}]}"#;
    let path = write(&folder, "misspelt.json", misspelt);
    let run = |path: &Path| scripted.program().args("--validate-tolerance 0.1 --input-data").arg(path);
    let finished = requests(run(&path), 5);
    assert_eq!(finished.code(), 0, "{finished:#?}");
    for warning in
        ["--validate-tolerance has no effect", "misspelt.json': unknown keys are ignored: \"validation-data\""]
    {
        assert_eq!(finished.stderr.matches(warning).count(), 1, "{}", finished.stderr);
    }
    let path = write(&folder, "right.json", misspelt.replace('-', "_"));
    let finished = requests(run(&path), 5);
    assert!(!finished.stderr.contains("no effect") && !finished.stderr.contains("ignored"), "{}", finished.stderr);
}
