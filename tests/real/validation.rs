//! Output validation end to end: what matches, what does not, and how a mismatch is counted and reported.

use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Export, Model, Program, Repository, Running, TritonServer};

/// Identity of FP32, integers and strings of any shape, and decoupled ones.
fn models() -> [Model; 4] {
    let tensors = |datatype: &str, dims: &str| {
        format!(
            "input [{{ name: \"IN\" data_type: TYPE_{datatype} dims: [{dims}] }}]\n\
             output [{{ name: \"OUT\" data_type: TYPE_{datatype} dims: [{dims}] }}]"
        )
    };
    [
        Model::identity("floats").tensors(&tensors("FP32", "-1, -1")),
        Model::identity("ints").tensors(&tensors("INT16", "2")),
        Model::identity("strings").tensors(&tensors("STRING", "-1")),
        Model::decoupled("repeats", 3).parameter("final", "null"),
    ]
}

struct Bench {
    repository: Repository,
}

impl Bench {
    fn new() -> Self {
        Self { repository: Repository::of(&models()) }
    }

    fn data(&self, data: &Value, expected: &Value) -> PathBuf {
        let path = self.repository.file("in.json");
        fs::write(&path, json!({ "data": data, "validation_data": expected }).to_string()).unwrap();
        path
    }

    /// In process, on these data.
    fn program(&self, model: &str, data: &Value, expected: &Value) -> Program {
        Program::on(&self.repository, model).args("--input-data").arg(self.data(data, expected))
    }
}

/// A tensor of any shape.
fn shaped(content: Value, shape: Value) -> Value {
    json!({ "content": content, "shape": shape })
}

#[test]
fn mismatches_count_as_errors_and_max_errors_decides() {
    let bench = Bench::new();
    let data = json!([[{"IN": [1, 2]}], [{"IN": [3, 4]}, {"IN": [5, -6]}], [{"IN": [7, 8]}]]);
    let wrong = json!([[{"OUT": [1, 2]}], [{"OUT": [3, 4]}, {"OUT": [5, -7]}], [{"OUT": [7, 8]}]]);
    let message = "Validation: Output doesn't match expected output: stream 1, step 1, response 0, output 'OUT', \
        element 1: expected -7, got -6";
    for flags in [
        "",
        "--async --concurrency-range 4",
        "--request-rate-range 400 --max-outstanding 4",
        "--concurrency-range 2 --wait spin",
    ] {
        let run =
            |more: &str| bench.program("ints", &data, &wrong).args(flags).args(more).args("--request-count 400").run();
        let report = run("").report_with(3);
        assert_eq!(
            report.level().failures(message),
            report.level().client_number("Failed request count") as u64,
            "{flags}"
        );
        let report = run("--max-errors 30%").report_even_if_late();
        let (good, bad) = (report.level().client_number("Request count"), report.level().failures(message));
        // Every slot goes round the four steps, and may be inside of a round when the last request is sent.
        assert!(good + bad as f64 == 400.0 && bad.abs_diff(100) <= 4, "{flags}: {}", report.text);
        assert_eq!(run("--max-errors 20%").code(), 3, "{flags}");
    }
    let good = bench.program("ints", &data, &data_as_outputs(&data)).args("--request-count 400").run().report();
    assert_eq!(good.level().client_number("Request count"), 400.0);
}

/// The same nesting, with the input's values as the output's.
fn data_as_outputs(data: &Value) -> Value {
    serde_json::from_str(&data.to_string().replace("\"IN\"", "\"OUT\"")).unwrap()
}

#[test]
fn timed_every_request_carries_its_own_step_where_objects_are_exchanged() {
    const STEPS: usize = 1100;
    let bench = Bench::new();
    // Runs of steps with one shape, and changes of it.
    let step = |index: usize| {
        let width = 1 + index / 7 % 3;
        let content: Vec<_> = (0..width).map(|column| index * 10 + column).collect();
        shaped(json!(content), json!([1, width]))
    };
    let data: Vec<_> = (0..STEPS).map(|index| json!({"IN": step(index)})).collect();
    let right = data_as_outputs(&json!(data));
    let mut wrong = right.clone();
    wrong[STEPS / 2] = json!({"OUT": shaped(json!([-1]), json!([1, 1]))});
    for flags in ["--async --concurrency-range 32", "--async --request-rate-range 2000 --max-outstanding 64"] {
        let run = |expected: &Value| {
            bench
                .program("floats", &json!(data), expected)
                .args(flags)
                .args("--max-errors 5% --request-count 4000")
                .run()
        };
        assert_eq!(run(&right).report_even_if_late().level().client_number("Request count"), 4000.0, "{flags}");
        let report = run(&wrong).report_even_if_late();
        let good = report.level().client_number("Request count");
        // One step in 1 100; slots do not go equally fast.
        assert!((3985.0..=3999.0).contains(&good), "{flags}: {}", report.text);
    }
}

#[test]
fn timed_windows_of_time_count_them_too() {
    let bench = Bench::new();
    let data = json!([{"IN": [1, 2]}, {"IN": [3, 4]}]);
    let run = bench.program("ints", &data, &json!([{"OUT": [1, 2]}, {"OUT": [3, 5]}])).quick();
    let report = run.args("--async --concurrency-range 2 --max-errors 60%").run().report();
    let level = report.level();
    let (good, bad) = (level.client_number("Request count"), level.client_number("Failed request count"));
    assert!(good > 0.0 && (good - bad).abs() / good < 0.2, "half of them: {}", report.text);
}

#[test]
fn batches_are_compared_element_by_element() {
    let bench = Bench::new();
    let data = json!([{"IN": [1, 2]}, {"IN": [3, 4]}, {"IN": [5, 6]}]);
    let run = |wrong: &Value| {
        bench.program("ints", &data, wrong).args("-b 2 --request-count 3 --max-errors 1").run().report()
    };
    let good = run(&data_as_outputs(&data));
    assert_eq!(good.level().client_number("Request count"), 3.0, "{}", good.text);
    // Batches are (0, 1), (2, 0) and (1, 2): a wrong step 2 begins the second and ends the third.
    let report = run(&json!([{"OUT": [1, 2]}, {"OUT": [3, 4]}, {"OUT": [5, 0]}]));
    assert_eq!(report.level().failures("stream 0, step 2, response 0, output 'OUT', element 1: expected 0, got 6"), 2);
    assert_eq!(report.level().client_number("Request count"), 1.0);
}

#[test]
fn floats_have_a_tolerance() {
    let bench = Bench::new();
    let data = json!([{"IN": shaped(json!([1.0, -2.0]), json!([1, 2]))}]);
    let near = json!([{"OUT": shaped(json!([1.001, -2.002]), json!([1, 2]))}]);
    for (flags, code) in [
        ("", 3),
        ("--validate-tolerance 0.01", 0),
        ("--validate-tolerance 0.0001", 3),
        ("--validate-tolerance 0:0.01", 0),
        ("--validate-tolerance 0:0.0015", 3),
        ("--validate-tolerance 0.0005:0.0015", 0),
    ] {
        let run = bench.program("floats", &data, &near).args(flags).args("--request-count 5").run();
        assert_eq!(run.code(), code, "{flags}: {}{}", run.stdout, run.stderr);
        if code == 3 {
            assert!(run.stdout.contains("output 'OUT', element"), "{}", run.stdout);
        }
    }
}

#[test]
fn shapes_and_strings_are_compared() {
    let bench = Bench::new();
    let data = json!([{"IN": shaped(json!([1, 2, 3, 4]), json!([1, 4]))}]);
    let other = json!([{"OUT": shaped(json!([1, 2, 3, 4]), json!([2, 2]))}]);
    let report = bench.program("floats", &data, &other).args("--request-count 2").run().report_with(3);
    assert_eq!(report.level().failures("output 'OUT': expected shape [1,2,2], got [1,1,4]"), 2, "{}", report.text);
    // Without a shape, an output of free shape is compared by its values.
    let loose = json!([{"OUT": [1, 2, 3, 4]}]);
    bench.program("floats", &data, &loose).args("--request-count 2").run().report();
    let words = json!([{"IN": shaped(json!(["one", "two\u{0}"]), json!([2]))}]);
    let bad = json!([{"OUT": shaped(json!(["one", "two"]), json!([2]))}]);
    let report = bench.program("strings", &words, &bad).args("--request-count 2").run().report_with(3);
    assert_eq!(report.level().failures(r#"element 1: expected "two", got "two\x00""#), 2, "{}", report.text);
    let short = json!([{"OUT": shaped(json!(["one"]), json!([1]))}]);
    let report = bench.program("strings", &words, &short).args("--request-count 2").run().report_with(3);
    assert_eq!(report.level().failures("expected shape [1,1], got [1,2]"), 2, "{}", report.text);
}

#[test]
fn every_response_of_a_decoupled_model_has_its_own_list() {
    let bench = Bench::new();
    let data = json!([{"INPUT0": [5]}, {"INPUT0": [6]}]);
    let right = |value: i32| json!({ "OUTPUT0": [value] });
    let lists = |second: Value| json!([[right(5), right(5), right(5)], second]);
    let run = |expected: &Value, flags: &str| {
        let run = bench.program("repeats", &data, expected).args("--request-count 20 --max-errors 1").args(flags).run();
        run.report_even_if_late()
    };
    for flags in ["", "--async --concurrency-range 2", "--request-rate-range 20 --max-outstanding 2"] {
        let good = run(&lists(json!([right(6), right(6), right(6)])), flags);
        assert_eq!(good.level().client_number("Request count"), 20.0, "{}", good.text);
        let wrong = run(&lists(json!([right(6), right(7), right(6)])), flags);
        let message = "stream 0, step 1, response 1, output 'OUTPUT0', element 0: expected 7, got 6";
        assert!(wrong.level().failures(message).abs_diff(10) <= 2, "{}", wrong.text);
        let fewer = run(&lists(json!([right(6), right(6)])), flags);
        assert!(fewer.level().failures("response 2: expected 2 responses, got 3").abs_diff(10) <= 2, "{}", fewer.text);
        let more = run(&lists(json!([right(6), right(6), right(6), right(6)])), flags);
        assert!(more.level().failures("response 3: expected 4 responses, got 3").abs_diff(10) <= 2, "{}", more.text);
    }
}

#[test]
fn wrong_outputs_of_a_periodic_load_are_failures() {
    let bench = Bench::new();
    let (data, path) = (json!([{"INPUT0": [5]}]), bench.repository.file("r.json"));
    let response = |value: i32| json!({ "OUTPUT0": [value] });
    let run = |second: i32, flag: &str| {
        let program = bench.program("repeats", &data, &json!([[response(5), response(second), response(5)]]));
        let program = program.args("--periodic-concurrency-range 1:12 --request-period 2").arg(flag);
        let finished = program.arg(&path).run();
        let mut result: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        (finished, result["periodic"].take())
    };
    let (good, document) = run(5, "--summary-file");
    assert_eq!((good.code(), &document["outcome"]), (0, &"valid".into()), "{}{}", good.stdout, good.stderr);
    let (wrong, document) = run(4, "--summary-file");
    assert_eq!(wrong.code(), 3, "{}{}", wrong.stdout, wrong.stderr);
    let message = "Requests: 12 sent, 0 completed, 12 failed\nVerdict: invalid: 12 of 12 requests failed\n";
    assert!(wrong.stdout.contains(message), "{}", wrong.stdout);
    assert!(wrong.stderr.contains("12 requests failed: Validation: "), "{}", wrong.stderr);
    assert_eq!((&document["requests"]["failed"], &document["outcome"]), (&12.into(), &"failed".into()), "{document}");
    let (resumed, _) = run(4, "--resume");
    assert!(resumed.stderr.contains("not finished before, and measured from its start"), "{}", resumed.stderr);
    assert_eq!(resumed.code(), 3, "{}", resumed.stdout);
}

#[test]
fn outputs_are_validated_over_the_network_too() {
    let bench = Bench::new();
    let Some(server) = TritonServer::start(&bench.repository) else { return };
    let data = json!([{"IN": [1, 2]}, {"IN": [3, 4]}]);
    let wrong = json!([{"OUT": [1, 2]}, {"OUT": [3, 5]}]);
    let message = "stream 0, step 1, response 0, output 'OUT', element 1: expected 5, got 4";
    for protocol in ["http", "grpc"] {
        for flags in ["", "--async --concurrency-range 2", "--shared-memory system --concurrency-range 2"] {
            let run = |expected: &Value| {
                let path = bench.data(&data, expected);
                let run = server.program(protocol, "ints").args(flags).args("--request-count 40 --max-errors 1");
                run.args("--input-data").arg(path).run().report()
            };
            let (good, bad) = (run(&data_as_outputs(&data)), run(&wrong));
            assert_eq!(good.level().client_number("Request count"), 40.0, "{protocol} {flags}: {}", good.text);
            assert!(bad.level().failures(message).abs_diff(20) <= 2, "{protocol} {flags}: {}", bad.text);
        }
    }
    let data = json!([{"INPUT0": [5]}]);
    let path = bench.data(&data, &json!([[{"OUTPUT0": [5]}, {"OUTPUT0": [4]}, {"OUTPUT0": [5]}]]));
    let stream = server.program("grpc", "repeats").args("--streaming --request-count 10 --max-errors 1 --input-data");
    let report = stream.arg(path).run().report_with(3);
    assert_eq!(
        report.level().failures("response 1, output 'OUTPUT0', element 0: expected 4, got 5"),
        10,
        "{}",
        report.text
    );
}

#[test]
fn tensors_without_elements_arrive_over_every_transport() {
    let bench = Bench::new();
    let empty = shaped(json!([]), json!([0, 0]));
    let single = shaped(json!([1.5]), json!([1, 1]));
    let data = json!([{"IN": empty}, {"IN": single}, {"IN": empty}]);
    let path = bench.data(&data, &data_as_outputs(&data));
    let server = TritonServer::start(&bench.repository);
    for flags in ["", "--shared-memory system"] {
        let mut programs = vec![("in process", Program::on(&bench.repository, "floats"))];
        for protocol in ["http", "grpc"] {
            programs.extend(server.as_ref().map(|server| (protocol, server.program(protocol, "floats"))));
        }
        for (transport, program) in programs {
            let run = program.args("--request-count 6").args(flags).args("--input-data").arg(&path);
            let report = run.run().report();
            assert_eq!(report.level().client_number("Request count"), 6.0, "{transport} {flags}: {}", report.text);
        }
    }
}

#[test]
fn the_export_leaves_out_what_did_not_match() {
    let bench = Bench::new();
    let data = json!([{"IN": [1, 2]}, {"IN": [3, 4]}]);
    let expected = json!([{"OUT": [1, 2]}, {"OUT": [3, 5]}]);
    for flags in ["", "--async --concurrency-range 4"] {
        let file = bench.repository.file("export.json");
        let run = bench.program("ints", &data, &expected).args(flags);
        let run = run.args("--request-count 100 --max-errors 1 --profile-export-file").arg(&file).run();
        let good = run.report().level().client_number("Request count");
        let export = Export::read(&file);
        let requests = export.experiments()[0]["requests"].as_array().unwrap();
        assert_eq!(requests.len() as f64, good, "{flags}");
        assert!(requests.iter().all(|request| request["response_outputs"][0]["OUT"] == json!([1, 2])), "{flags}");
        fs::remove_file(&file).unwrap();
    }
}

#[test]
fn a_matrix_validates_every_way_and_max_errors_decides() {
    let bench = Bench::new();
    let data = json!([{"IN": [1, 2]}, {"IN": [3, 4]}]);
    let run = |expected: &Value, flags: &str| {
        bench.program("ints", &data, expected).args("--matrix memory -p 100 -r 2").args(flags).run()
    };
    run(&data_as_outputs(&data), "").report();
    let wrong = json!([{"OUT": [1, 2]}, {"OUT": [3, 5]}]);
    let message =
        "Validation: Output doesn't match expected output: stream 0, step 1, response 0, output 'OUT', element 1";
    let refused = run(&wrong, "");
    let words: Vec<&str> = refused.stdout.split_whitespace().collect();
    assert_eq!((refused.code(), words.join(" ").matches(message).count()), (3, 2), "{}", refused.stdout);
    let tolerated = run(&wrong, "--max-errors 60%");
    assert_eq!(
        (tolerated.code(), tolerated.stdout.matches(" requests failed").count()),
        (0, 2),
        "{}",
        tolerated.stdout
    );
}

/// The names of the program's threads, once it infers.
fn threads(run: &Running) -> Vec<String> {
    let tasks = format!("/proc/{}/task", run.id());
    let started = Instant::now();
    let mut threads = Vec::new();
    while started.elapsed() < Duration::from_secs(3) {
        let names = fs::read_dir(&tasks).into_iter().flatten().flatten();
        threads = names.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok()).collect();
        if threads.iter().any(|name| name.trim() == "validation") {
            break;
        }
        thread::sleep(Duration::from_millis(20));
    }
    threads.iter().map(|name| name.trim().to_owned()).collect()
}

#[test]
fn comparing_has_a_thread_of_its_own_and_there_is_none_without() {
    let bench = Bench::new();
    let data = json!([{"IN": [1, 2]}]);
    let on = bench.program("ints", &data, &data_as_outputs(&data)).args("-p 2000 -r 3 --async").start();
    assert!(threads(&on).contains(&"validation".to_owned()));
    on.signal(2);
    on.finish();
    let plain = bench.repository.file("plain.json");
    fs::write(&plain, json!({ "data": data }).to_string()).unwrap();
    let off =
        Program::on(&bench.repository, "ints").args("--input-data").arg(plain).args("-p 2000 -r 3 --async").start();
    let names = threads(&off);
    assert!(!names.contains(&"validation".to_owned()) && names.len() > 3, "{names:?}");
    off.signal(2);
    off.finish();
}
