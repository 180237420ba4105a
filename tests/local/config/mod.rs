//! `--config`: files of flags, tested from outside.

mod apis;
mod conversations;
mod distributions;
mod files;
mod hostile;
mod inference_perf;
mod model_analyzer;
mod several;

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;
use triton_bench::cli::{self, Command};
use triton_bench::error::Result;
use triton_bench::exit::Codes;
use triton_bench::plan::Plan;

/// A file of flags in a folder of its own.
struct Config {
    folder: TempDir,
}

impl Config {
    fn of(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("run.yaml"), text).unwrap();
        Self { folder }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("run.yaml")
    }

    /// What comes of the file and further words.
    fn and(&self, words: &[&str]) -> Result<Command> {
        let config = [OsString::from("--config"), self.path().into()];
        parse(config.into_iter().chain(words.iter().map(OsString::from)))
    }

    fn plan(&self, words: &[&str]) -> Plan {
        plan(self.and(words))
    }

    /// What is wrong with it, without the file's name.
    fn error(&self, words: &[&str]) -> String {
        let message = self.and(words).expect_err("it is accepted").to_string();
        message.replace(&format!("--config {}", self.path().display()), "FILE")
    }
}

fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Command> {
    cli::parse([OsString::from("triton-bench")].into_iter().chain(words), Codes::Own)
}

fn plan(command: Result<Command>) -> Plan {
    match command {
        Ok(Command::Run(plan)) => *plan,
        other => panic!("{other:?}"),
    }
}

fn printed(command: Result<Command>) -> String {
    match command {
        Ok(Command::Config(text)) => text,
        other => panic!("{other:?}"),
    }
}

fn split(line: &str) -> Vec<OsString> {
    shlex::split(line).unwrap().into_iter().map(OsString::from).collect()
}
