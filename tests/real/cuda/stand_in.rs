//! The stand-in: running programs on it, and reading what it recorded.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Program, artifact};

/// A folder in which the library has the driver's names, and its log.
pub struct StandIn {
    scratch: TempDir,
    settings: Vec<(&'static str, OsString)>,
}

impl StandIn {
    /// Two devices of 1 GiB.
    pub fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        for name in ["libcuda.so", "libcuda.so.1"] {
            symlink(artifact("libfake_cuda.so"), scratch.path().join(name)).unwrap();
        }
        Self { scratch, settings: Vec::new() }
    }

    /// With a setting of its own.
    pub fn with(mut self, name: &'static str, value: &str) -> Self {
        self.settings.push((name, value.into()));
        self
    }

    fn log(&self) -> PathBuf {
        self.scratch.path().join("log")
    }

    /// The environment of a process that is to find it.
    pub fn environment(&self) -> Vec<(&'static str, OsString)> {
        let mut folders = OsString::from(self.scratch.path());
        if let Some(more) = std::env::var_os("LD_LIBRARY_PATH") {
            folders.push(":");
            folders.push(more);
        }
        let mut all = self.settings.clone();
        all.push(("LD_LIBRARY_PATH", folders));
        all.push(("LD_PRELOAD", self.scratch.path().join("libcuda.so.1").into()));
        all.push(("FAKE_CUDA_LOG", self.log().into()));
        all
    }

    /// The program with it.
    pub fn under(&self, program: Program) -> Program {
        self.environment().into_iter().fold(program, |program, (name, value)| program.env(name, value))
    }

    fn events(&self, kind: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.log()).unwrap_or_default();
        let events = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        events.filter(|event| event["event"] == kind).collect()
    }

    /// Checks that nobody broke a rule.
    pub fn unbroken(&self) {
        let violations = self.events("violation");
        assert!(violations.is_empty(), "{} violations, the first: {}", violations.len(), violations[0]);
    }

    /// What the last process of that name used through the driver, after checking that nobody broke a rule, and that it left
    /// nothing behind.
    pub fn clean(&self, program: &str) -> Used {
        self.unbroken();
        let exits = self.events("exit");
        let exit = exits.iter().rev().find(|exit| exit["program"] == program);
        let used = &exit.unwrap_or_else(|| panic!("no {program} left: {exits:?}"))["driver"];
        for live in ["allocations", "imports", "registrations", "bytes"] {
            assert_eq!(used[live], 0, "{live}: {used}");
        }
        Used(used.clone())
    }
}

/// What a process used through the driver's interface.
#[derive(Debug)]
pub struct Used(Value);

impl Used {
    /// How many allocations were made on each device that has any, or comes before one that has.
    pub fn allocations(&self) -> Vec<u64> {
        let by_device = self.0["allocations_by_device"].as_array().unwrap();
        by_device.iter().map(|count| count.as_u64().unwrap()).collect()
    }

    /// How often host memory was page-locked.
    pub fn registrations(&self) -> u64 {
        self.0["registrations_made"].as_u64().unwrap()
    }
}
