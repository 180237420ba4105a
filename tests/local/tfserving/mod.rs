//! TensorFlow Serving: the program from outside, against servers that answer as TensorFlow Serving does.

mod grpc;
pub mod messages;
pub mod rest;
pub mod server;

use std::fs;
use std::path::PathBuf;

use crate::support::{Finished, Program, Report};

/// Input data in a folder of their own.
pub struct Data {
    folder: tempfile::TempDir,
}

impl Data {
    /// What `--input-data` is to hold.
    pub fn of(json: &serde_json::Value) -> Self {
        let data = Self { folder: tempfile::tempdir().unwrap() };
        fs::write(data.file("data.json"), json.to_string()).unwrap();
        data
    }

    /// A file of the folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The flag.
    pub fn flag(&self) -> String {
        format!("--input-data {}", self.file("data.json").display())
    }
}

/// The program on a model `m` at `url`.
pub fn program(url: &str, flags: &str) -> Program {
    Program::new().args(&format!("--service-kind tfserving -m m -u {url} --on-disturbance mark {flags}"))
}

/// A run of the program.
pub fn run(url: &str, flags: &str) -> Finished {
    program(url, flags).run()
}

/// The report of a run that may have left late on a busy machine.
pub fn report(finished: &Finished) -> Report {
    finished.report_even_if_late()
}

#[test]
fn flags_that_tfserving_has_no_use_for_are_refused() {
    for (flags, words) in [
        ("--streaming", "perf_analyzer does not support streaming for TensorFlow Serving."),
        ("--collect-metrics", "Server-side metric collection is only supported with Triton client backend."),
        ("--shared-memory system", "--shared-memory system is for --service-kind triton"),
        ("--request-parameter a:b:string", "--request-parameter a:b:string is for --service-kind triton"),
        ("-i http --grpc-compression-algorithm gzip", "--grpc-compression-algorithm gzip needs gRPC"),
    ] {
        run("localhost:1", flags).refusal(&[words]);
    }
    let plain = |flags: &str| Program::new().args(&format!("-m m {flags}")).run();
    plain("--model-signature-name s")
        .refusal(&["--model-signature-name s is for --service-kind tfserving: leave it out"]);
    plain("-x best").refusal(&["-x 'best'", "whole number", "tfserving"]);
}
