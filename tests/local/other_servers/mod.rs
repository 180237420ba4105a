//! KServe v2 servers other than Triton: MLServer, the KServe Python server, OpenVINO Model Server. They report no
//! configurations, keep no statistics, accept no binary tensors over HTTP, and stream in their own ways.

pub mod grpc;
pub mod http;

use crate::support::{Finished, Program};

/// The program on model `m` of the server at `url`, with data that say what must come back.
fn program(url: &str, flags: &str) -> Program {
    Program::new().args("--on-disturbance mark -m m -u").arg(url).args(flags)
}

/// What is said of a server once.
fn said_once(finished: &Finished) -> &str {
    let lines: Vec<&str> = finished.stderr.lines().filter(|line| line.contains("the server at")).collect();
    let [line] = lines[..] else { panic!("not one line: {}", finished.stderr) };
    line
}
