//! Other processes that compete for a processor.

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};

use super::watched::Watched;

/// A program that does nothing, as fast as it can, on one processor, from now on until it is dropped.
pub struct Hog(#[allow(dead_code)] Watched);

impl Hog {
    /// Starts it on that processor.
    pub fn on(processor: usize) -> Self {
        let mut command = Command::new("taskset");
        let script = "echo up; while :; do :; done";
        command.args(["-c", &processor.to_string(), "sh", "-c", script]).stdout(Stdio::piped());
        let mut process = Watched::start(&mut command);
        let mut up = [0; 3];
        process.child().stdout.take().unwrap().read_exact(&mut up).unwrap();
        Self(process)
    }
}

/// The processors that this process may use.
pub fn processors() -> Vec<usize> {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim();
    let number = |text: &str| text.parse::<usize>().unwrap();
    let ends = list.split(',').map(|part| part.split_once('-').unwrap_or((part, part)));
    ends.flat_map(|(first, last)| number(first)..=number(last)).collect()
}
