//! Scripts on machines that lack something: they say what, and before they begin what takes minutes.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// Answers as a cargo that is new enough, notes each call, and builds nothing.
const CARGO: &str = "echo \"$*\" >>\"$CALLS\"\n[ \"$1\" != --version ] || echo 'cargo 999.0.0 (fake)'";

/// A checkout with some of the scripts, and programs that stand before those of the machine.
struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    /// One on which nothing is installed, whatever is asked for.
    fn new(scripts: &[&str]) -> Self {
        Self::below("checkout", scripts)
    }

    /// The same, in a folder whose name begins so.
    fn below(name: &str, scripts: &[&str]) -> Self {
        let machine = Self { folder: tempfile::Builder::new().prefix(name).tempdir().unwrap() };
        fs::create_dir_all(machine.path("programs")).unwrap();
        fs::create_dir_all(machine.path("scripts")).unwrap();
        symlink(Path::new(ROOT).join("scripts/lib"), machine.path("scripts/lib")).unwrap();
        fs::copy(Path::new(ROOT).join("Cargo.toml"), machine.path("Cargo.toml")).unwrap();
        for name in scripts {
            fs::copy(Path::new(ROOT).join("scripts").join(name), machine.path("scripts").join(name)).unwrap();
        }
        for (name, script) in [("apt-get", "exit 0"), ("sudo", "exit 0"), ("cargo", CARGO)] {
            machine.has(&format!("programs/{name}"), script);
        }
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A program, or a script in place of that of the checkout.
    fn has(&self, name: &str, script: &str) {
        let file = self.path(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// The kernel and the processor that it says it has.
    fn is(&self, kernel: &str, processor: &str) {
        let script =
            format!("case $1 in -s) echo {kernel} ;; -m) echo {processor} ;; *) echo {kernel} {processor} ;; esac");
        self.has("programs/uname", &script);
    }

    /// A shell command, with no Triton named unless `server` is.
    fn run(&self, line: &str, server: Option<&str>) -> Output {
        let path = format!("{}:{}", self.path("programs").display(), std::env::var("PATH").unwrap());
        let mut bash = Command::new("bash");
        bash.args(["-c", line]).current_dir(self.folder.path()).env("PATH", path);
        bash.env("CALLS", self.path("calls"))
            .env("CARGO_HOME", self.path("cargo"))
            .env_remove("TRITON_SERVER_DIRECTORY");
        bash.env("CARGO_TARGET_DIR", self.path("target"))
            .envs(server.map(|folder| ("TRITON_SERVER_DIRECTORY", folder)));
        bash.output().unwrap()
    }

    /// What cargo was asked for.
    fn calls(&self) -> String {
        fs::read_to_string(self.path("calls")).unwrap_or_default()
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn another_kernel_is_named_first() {
    let machine = Machine::new(&["quickstart", "test"]);
    machine.is("Darwin", "arm64");
    machine.has("programs/nproc", "exit 127");
    for script in ["scripts/quickstart", "scripts/test quick"] {
        let ended = machine.run(script, None);
        let words = said(&ended);
        assert_eq!(ended.status.code(), Some(1), "{words}");
        assert!(words.contains("error: this is for Linux, not for Darwin") && words.lines().count() == 1, "{words}");
    }
    assert_eq!(machine.calls(), "");
}

#[test]
fn a_cargo_that_is_too_old_is_named() {
    let machine = Machine::new(&[]);
    machine.has("programs/cargo", "echo 'cargo 1.65.0 (4bc8f24d3 2022-10-20)'");
    let require = "set -euo pipefail; source scripts/lib/common.sh; source scripts/lib/packages.sh; require_rust; cargo --version";
    let ended = machine.run(require, None);
    let words = said(&ended);
    assert_eq!(ended.status.code(), Some(1), "{words}");
    assert!(
        words.contains("error: cargo 1.65.0 (4bc8f24d3 2022-10-20); Rust 1.") && words.contains("rustup"),
        "{words}"
    );
    // rustup's own stands behind a distribution's.
    machine.has("cargo/bin/cargo", "echo 'cargo 999.0.0'");
    let ended = machine.run(require, None);
    assert_eq!(String::from_utf8_lossy(&ended.stdout), "cargo 999.0.0\n", "{}", said(&ended));
}

#[test]
fn what_fails_beside_the_build_is_told_at_the_end() {
    let machine = Machine::new(&["quickstart"]);
    machine.has("scripts/install-triton", "echo 'install-triton: error: the network is down' >&2\nexit 1");
    if Path::new("/opt/tritonserver").exists() {
        return;
    }
    machine.is("Linux", "x86_64");
    let ended = machine.run("scripts/quickstart", None);
    let words = said(&ended);
    assert_eq!(ended.status.code(), Some(1), "{words}");
    let last = words.lines().last().unwrap_or_default();
    assert!(
        last.starts_with("quickstart: error: Triton could not be installed") && last.contains("network is down"),
        "{words}"
    );
}

#[test]
fn a_triton_that_is_not_there_fails_before_the_build() {
    let machine = Machine::new(&["quickstart", "install-triton"]);
    let ended = machine.run("scripts/quickstart", Some("/nowhere"));
    let words = said(&ended);
    assert_eq!(ended.status.code(), Some(1), "{words}");
    assert!(words.contains("TRITON_SERVER_DIRECTORY names '/nowhere'"), "{words}");
    assert!(!machine.calls().contains("build"), "{}", machine.calls());
}

#[test]
fn a_processor_without_a_triton_to_unpack_fails_before_the_build() {
    let machine = Machine::new(&["quickstart", "install-triton"]);
    if Path::new("/opt/tritonserver").exists() {
        return;
    }
    machine.is("Linux", "aarch64");
    let ended = machine.run("scripts/quickstart", None);
    let words = said(&ended);
    assert_eq!(ended.status.code(), Some(1), "{words}");
    assert!(words.contains("no Triton to unpack for aarch64") && words.contains("TRITON_SERVER_DIRECTORY"), "{words}");
    assert!(!machine.calls().contains("build"), "{}", machine.calls());
}

#[test]
fn a_path_that_the_python_backend_cannot_take_fails_before_the_build() {
    let machine = Machine::below("my checkout", &["quickstart"]);
    let ended = machine.run("scripts/quickstart", None);
    let words = said(&ended);
    assert_eq!(ended.status.code(), Some(1), "{words}");
    assert!(words.contains("a space in its name, such as ") && words.contains("move the checkout"), "{words}");
    assert!(!machine.calls().contains("build"), "{}", machine.calls());
}

#[test]
fn models_in_python_get_the_systems_whatever_environment_is_active() {
    let machine = Machine::new(&["quickstart"]);
    machine.has("scripts/install-triton", "pwd");
    machine.has("scripts/make-demo-models", "exit 0");
    machine.has("programs/python3", "exec /usr/bin/python3 \"$@\"");
    machine.has("target/release/triton-bench", "command -v python3");
    let ended = machine.run("scripts/quickstart", Some("/"));
    assert_eq!(String::from_utf8_lossy(&ended.stdout), "/usr/bin/python3\n".repeat(2), "{}", said(&ended));
}

#[test]
fn programs_are_looked_for_where_they_are_built() {
    let machine = Machine::new(&["quickstart"]);
    machine.has("scripts/install-triton", "pwd");
    machine.has("scripts/make-demo-models", "exit 0");
    machine.has("built/release/triton-bench", "echo found");
    let ended = machine.run("cd programs; CARGO_TARGET_DIR=built ../scripts/quickstart", Some("/"));
    assert_eq!(String::from_utf8_lossy(&ended.stdout), "found\nfound\n", "{}", said(&ended));
    let folder = machine.path("built");
    assert!(machine.calls().contains(&format!("--target-dir {} ", folder.display())), "{}", machine.calls());
}
