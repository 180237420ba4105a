//! Shared by the end-to-end tests: model repositories, the program under test, and its report.
//!
//! Tests run the built program from outside, as a user does, against servers that do exactly what their configuration
//! says: the native test backend in a real Triton (`tests/backends`), and a scripted server library
//! (`tests/fake_triton`).
#![allow(dead_code, unused_imports)] // Each test program uses a part of it.

pub mod alone;
pub mod authority;
pub mod decisions;
pub mod exported;
pub mod far;
pub mod hog;
pub mod http_server;
pub mod load;
pub mod ports;
pub mod program;
pub mod report;
pub mod repository;
pub mod scripted;
pub mod skip;
pub mod terminal;
pub mod tritonserver;
pub mod watched;
pub mod wire;

use std::path::{Path, PathBuf};

pub use alone::alone;
pub use decisions::Decision;
pub use exported::Export;
pub use program::{Finished, Program, Running};
pub use report::Report;
pub use repository::{Counters, Model, Repository};
pub use scripted::{SINCE_20_10, Scripted, decoupled};
pub use skip::skip;
pub use terminal::Terminal;
pub use tritonserver::TritonServer;
pub use watched::{until, until_it_catches, until_it_has};
pub use wire::Wire;

/// A file that the workspace's build leaves beside the program.
pub fn artifact(name: &str) -> PathBuf {
    let beside = Path::new(env!("CARGO_BIN_EXE_triton-bench")).parent().expect("the program lies in a folder");
    let target = beside.parent().expect("that folder lies in the target folder");
    let places =
        [beside.join(name), target.join("debug").join(name), target.join("release").join(name), target.join(name)];
    places
        .iter()
        .find(|path| path.exists())
        .unwrap_or_else(|| panic!("{} is not built; run scripts/test, which builds it", places[0].display()))
        .clone()
}

/// The install directory of the real Triton that tests run.
pub fn triton() -> PathBuf {
    std::env::var_os("TRITON_SERVER_DIRECTORY")
        .map(PathBuf::from)
        .expect("TRITON_SERVER_DIRECTORY is not set; run scripts/test, which installs a Triton and names it")
}
