//! Reads what a search has left behind.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::support::{Finished, Model, Program, Repository};

/// A search that is over.
pub struct Found {
    pub finished: Finished,
    pub repository: Repository,
    pub result: Value,
}

/// The command for a search of `m`.
pub fn tune(repository: &Repository, arguments: &str) -> Program {
    let server = crate::support::triton();
    let folder = folder(repository);
    Program::new()
        .args("tune -m m --service-kind triton_c_api --triton-server-directory")
        .arg(server)
        .arg("--model-repository")
        .arg(repository.path())
        .arg("--output")
        .arg(folder)
        .args(arguments)
}

/// Where it leaves its files.
pub fn folder(repository: &Repository) -> PathBuf {
    repository.file("tuned")
}

/// Searches, and reads what was found.
pub fn search(model: Model, arguments: &str) -> Found {
    let repository = Repository::of(&[model]);
    let finished = tune(&repository, arguments).run();
    Found::read(finished, repository)
}

impl Found {
    /// What a search has left.
    pub fn read(finished: Finished, repository: Repository) -> Self {
        let path = folder(&repository).join("result.json");
        let text = fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{}: {error}\n{}", path.display(), finished.stderr));
        let result = serde_json::from_str(&text).unwrap();
        Self { finished, repository, result }
    }

    /// `better`, `kept` …
    pub fn name(&self) -> &str {
        self.result["verdict"]["word"].as_str().unwrap()
    }

    /// The values of the winner, in the order in which they were searched.
    pub fn winner(&self) -> Vec<u64> {
        let number = self.result["verdict"]["winner"].as_u64().unwrap_or_else(|| panic!("{}", self.text()));
        self.values(&self.candidate(number))
    }

    /// The same as texts, as they were asked for.
    pub fn values_of_winner(&self) -> Vec<String> {
        let number = self.result["verdict"]["winner"].as_u64().unwrap_or_else(|| panic!("{}", self.text()));
        let candidate = self.candidate(number);
        candidate["values"].as_array().unwrap().iter().map(|value| value.to_string().replace('"', "")).collect()
    }

    /// All candidates, best first.
    pub fn candidates(&self) -> &[Value] {
        self.result["candidates"].as_array().unwrap()
    }

    /// The values of a candidate; what is no number counts as 0.
    pub fn values(&self, candidate: &Value) -> Vec<u64> {
        candidate["values"].as_array().unwrap().iter().map(|value| value.as_u64().unwrap_or(0)).collect()
    }

    fn candidate(&self, number: u64) -> Value {
        self.candidates().iter().find(|candidate| candidate["number"] == number).unwrap().clone()
    }

    /// The candidate with these values.
    pub fn with(&self, values: &[u64]) -> Value {
        let found = self.candidates().iter().find(|candidate| self.values(candidate) == values);
        found.unwrap_or_else(|| panic!("no {values:?} in {}", self.text())).clone()
    }

    /// All that it said.
    pub fn text(&self) -> String {
        format!("{}\n{}", self.finished.stdout, self.finished.stderr)
    }

    /// What it prints, as one line: the table's sentences are wrapped.
    pub fn words(&self) -> String {
        self.finished.stdout.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}
