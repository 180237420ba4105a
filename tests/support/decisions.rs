//! The scripts of docs/decisions.md, as a reader runs them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::artifact;

/// A script of the page, in a folder of its own.
pub struct Decision {
    script: String,
    folder: TempDir,
}

impl Decision {
    /// The one below that heading.
    pub fn of(heading: &str) -> Self {
        let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/decisions.md")).unwrap();
        let (_, section) = page.split_once(&format!("## {heading}\n")).unwrap_or_else(|| panic!("no '{heading}'"));
        let (_, from) = section.split_once("```bash\n").unwrap();
        let (script, _) = from.split_once("```").unwrap();
        Self { script: script.to_owned(), folder: tempfile::tempdir().unwrap() }
    }

    /// A reader's own word in place of the page's.
    pub fn with(mut self, word: &str, replacement: &str) -> Self {
        assert!(self.script.contains(word), "'{word}' is not in:\n{}", self.script);
        self.script = self.script.replace(word, replacement);
        self
    }

    /// Where it runs.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs it with further flags for each measurement, which keep a test short. What it decides.
    pub fn run(&self, flags: &str) -> String {
        let programs = self.path("bin");
        fs::create_dir_all(&programs).unwrap();
        let put = |name: &str, line: &str| {
            fs::write(programs.join(name), format!("#!/bin/sh\n{line}\n")).unwrap();
            fs::set_permissions(programs.join(name), fs::Permissions::from_mode(0o755)).unwrap();
        };
        for name in ["triton-bench", "perf_analyzer"] {
            let program = artifact(name);
            let program = program.display();
            put(name, &format!("case $1 in init) exec {program} \"$@\" ;; esac\nexec {program} \"$@\" {flags}"));
        }
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
        let mut bash = Command::new("bash");
        bash.args(["-c", &self.script]).current_dir(self.folder.path()).env("PATH", path);
        let output = bash.output().unwrap();
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        println!("{text}");
        let decided = text.lines().find_map(|line| line.strip_prefix("decision: "));
        decided.unwrap_or_else(|| panic!("no decision: {:?}", output.status)).to_owned()
    }
}
