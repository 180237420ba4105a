//! `trace-summary` on files written by a real server, in the format of older servers, and on files that are neither.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/traces").join(name)
}

fn summary(arguments: &[&str], files: &[&Path]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_perf_analyzer"));
    command.arg("trace-summary").args(arguments).args(files).output().expect("the program can be started")
}

fn text(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn refusal(output: &Output) -> String {
    assert_eq!((output.status.code(), output.stdout.len()), (Some(99), 0));
    let message = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(message.starts_with("error: ") && message.lines().count() == 1, "{message}");
    message
}

/// One object per trace, names in words: an HTTP request, and a gRPC request without the parts of its execution.
const OLD: &str = r#"[
  { "model_name": "simple", "model_version": -1, "id": 1, "timestamps": [
    { "name": "http recv start", "ns": 1000000 }, { "name": "http recv end", "ns": 1049000 },
    { "name": "request handler start", "ns": 1392000 }, { "name": "queue start", "ns": 1410000 },
    { "name": "compute start", "ns": 1460000 }, { "name": "compute input end", "ns": 1500000 },
    { "name": "compute output start", "ns": 8400000 }, { "name": "compute end", "ns": 8434000 },
    { "name": "request handler end", "ns": 8439000 },
    { "name": "http send start", "ns": 8757000 }, { "name": "http send end", "ns": 8771000 } ] },
  { "model_name": "simple", "model_version": -1, "id": 2, "timestamps": [
    { "name": "grpc wait/read start", "ns": 0 }, { "name": "grpc wait/read end", "ns": 26529000 },
    { "name": "request handler start", "ns": 26568000 }, { "name": "queue start", "ns": 26583000 },
    { "name": "compute start", "ns": 26603000 }, { "name": "compute end", "ns": 26869000 },
    { "name": "request handler end", "ns": 26873000 },
    { "name": "grpc send start", "ns": 26892000 }, { "name": "grpc send end", "ns": 26969000 } ] }
]"#;

#[test]
fn old_traces_are_summarised_by_protocol() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.json");
    fs::write(&path, OLD).unwrap();
    let expected = format!(
        "File: {}\n\
         Summary for simple (-1): trace count = 1\n\
         HTTP infer request (avg): 7771us\n\
         \tReceive (avg): 49us\n\
         \tSend (avg): 14us\n\
         \tOverhead (avg): 661us\n\
         \tHandler (avg): 7047us\n\
         \t\tOverhead (avg): 23us\n\
         \t\tQueue (avg): 50us\n\
         \t\tCompute (avg): 6974us\n\
         \t\t\tInput (avg): 40us\n\
         \t\t\tInfer (avg): 6900us\n\
         \t\t\tOutput (avg): 34us\n\
         Summary for simple (-1): trace count = 1\n\
         GRPC infer request (avg): 26969us\n\
         \tWait/Read (avg): 26529us\n\
         \tSend (avg): 77us\n\
         \tOverhead (avg): 58us\n\
         \tHandler (avg): 305us\n\
         \t\tOverhead (avg): 19us\n\
         \t\tQueue (avg): 20us\n\
         \t\tCompute (avg): 266us\n",
        path.display()
    );
    let output = text(&summary(&[], &[&path]));
    assert!(output.starts_with(&expected), "{output}");
    let stages = [
        "Stages of simple (-1), http, us:",
        "\tcompute             6900.0    6900.0    6900.0    6900.0    6900.0    88.79%",
        "\tunexplained          684.0     684.0     684.0     684.0     684.0     8.80%",
        "\tlatency             7771.0    7771.0    7771.0    7771.0    7771.0   100.00%",
        "\tSlow: trace 1: 7771.0us (receive 49.0, queue 50.0, compute input 40.0, compute 6900.0, compute output 34.0, send 14.0, unexplained 684.0)",
        "Stages of simple (-1), grpc, us:",
    ];
    for line in stages {
        assert!(output.lines().any(|found| found == line), "{line}: {output}");
    }
    let timings = text(&summary(&["-t"], &[&path]));
    let moments = "simple (-1):\n\tgrpc wait/read start\n\t\t26529us\n\tgrpc wait/read end\n\t\t39us\n\
        \trequest handler start\n\t\t15us\n\tqueue start\n\t\t20us\n\tcompute start\n\t\t266us\n\tcompute end\n\t\t4us\n\
        \trequest handler end\n\t\t19us\n\tgrpc send start\n\t\t77us\n\tgrpc send end\n";
    assert!(timings.contains(moments), "{timings}");
}

#[test]
fn traces_of_todays_server_are_summarised_with_the_models_of_ensembles() {
    let files = [fixture("ensemble_http.json"), fixture("identity_grpc.json")];
    let output = text(&summary(&["--show-trace"], &[&files[0], &files[1]]));
    let (first, second) = output.split_once(&format!("File: {}\n", files[1].display())).unwrap();
    for line in
        ["Summary for ens (1): trace count = 2\nHTTP infer request", "Summary for slow (1): trace count = 2\n\tHandler"]
    {
        assert!(first.contains(line), "{line}: {first}");
    }
    assert_eq!(
        first.matches("HTTP infer request").count(),
        1,
        "models of an ensemble are no requests of their own: {first}"
    );
    assert!(second.contains("GRPC infer request (avg): ") && second.contains("\t\t\tOutput (avg): "), "{second}");
}

#[test]
fn json_and_perfetto_have_what_the_text_has() {
    let folder = tempfile::tempdir().unwrap();
    let export = folder.path().join("chrome.json");
    let files = [fixture("ensemble_http.json"), fixture("identity_grpc.json")];
    let flags = ["--json", "--slowest=1", "--trace-export", export.to_str().unwrap()];
    let output = text(&summary(&flags, &[&files[0], &files[1]]));
    let lines: Vec<serde_json::Value> = output.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    let models = lines[0]["models"].as_array().unwrap();
    let slow = models.iter().find(|model| model["model"] == "slow").unwrap();
    assert_eq!((&slow["traces"], slow["slowest"].as_array().unwrap().len()), (&2.into(), 1));
    let compute = slow["stages"].as_array().unwrap().iter().find(|stage| stage["name"] == "compute").unwrap();
    assert!(compute["p99_us"].as_f64() >= Some(5_000.0) && compute["share"].as_f64() > Some(0.1), "{compute}");
    let export: serde_json::Value = serde_json::from_str(&fs::read_to_string(&export).unwrap()).unwrap();
    let events = export["traceEvents"].as_array().unwrap();
    assert!(events.iter().any(|event| event["name"] == "COMPUTE_INPUT_END to COMPUTE_OUTPUT_START"), "{export}");
    assert!(refusal(&summary(&["--slowest", "many"], &[&files[0]])).contains("--slowest 'many'"));
}

/// A server ends its list when it stops; what it has written before are whole traces.
#[test]
fn the_file_of_a_server_that_runs_is_read_as_far_as_it_goes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.json");
    let whole = |text: &str| {
        fs::write(&path, text).unwrap();
        summary(&[], &[&path])
    };
    let (ended, unended) = (whole(OLD), whole(OLD.trim_end_matches(']').trim_end()));
    assert_eq!((text(&ended), unended.status.code()), (text(&unended), Some(0)));
    let message = String::from_utf8(unended.stderr).unwrap();
    assert!(ended.stderr.is_empty() && message.contains("trace.json: it is incomplete"), "{message}");
}

#[test]
fn what_is_no_trace_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    assert!(refusal(&summary(&[], &[])).contains("needs a trace file"));
    assert!(refusal(&summary(&["-x"], &[])).contains("-x is not a flag"));
    assert!(refusal(&summary(&[], &[&folder.path().join("none")])).contains("none"));
    let path = folder.path().join("trace.json");
    let truncated: &[u8] = &OLD.as_bytes()[..OLD.len() - 9];
    let cases: [(&[u8], &str); 6] = [
        (b"", "line 1"),
        (b"{}", "list"),
        (truncated, "EOF"),
        (b"[]", "it contains no complete request"),
        (br#"[{"id": 1, "timestamps": [{"name": "REQUEST_START", "ns": -1}]}]"#, "line 1"),
        (b"\xff\xfe", "line 1"),
    ];
    for (bytes, word) in cases {
        fs::write(&path, bytes).unwrap();
        let message = refusal(&summary(&[], &[&path]));
        assert!(message.contains(word) && message.contains("trace.json"), "{word}: {message}");
    }
}
