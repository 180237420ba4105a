//! Records the commit being built, for `--version`.

use std::env;
use std::path::PathBuf;
use std::process::Command;

/// Names the commit where there is no checkout of git to ask, as in an unpacked archive.
const COMMIT: &str = "TRITON_BENCH_COMMIT";

/// A debug build names no commit unless it is told one: it would be built anew after each.
fn main() {
    println!("cargo:rerun-if-env-changed={COMMIT}");
    let is_debug = env::var("PROFILE").is_ok_and(|profile| profile == "debug");
    let found = || if is_debug { None } else { checked_out() };
    let commit = env::var(COMMIT).ok().or_else(found).unwrap_or_default();
    println!("cargo:rustc-env={COMMIT}={commit}");
}

/// The commit of this checkout. A package in a registry's folder may lie below somebody else's checkout.
fn checked_out() -> Option<String> {
    let top = PathBuf::from(git(&["rev-parse", "--show-toplevel"])?).canonicalize().ok()?;
    if top != PathBuf::from(env::var_os("CARGO_MANIFEST_DIR")?).canonicalize().ok()? {
        return None;
    }
    // Changes with every commit and checkout, in linked worktrees too.
    let log = PathBuf::from(git(&["rev-parse", "--git-path", "logs/HEAD"])?);
    if log.exists() {
        println!("cargo:rerun-if-changed={}", log.display());
    }
    git(&["rev-parse", "--short=9", "HEAD"])
}

fn git(words: &[&str]) -> Option<String> {
    let said = Command::new("git").args(words).output().ok()?;
    said.status.success().then(|| String::from_utf8_lossy(&said.stdout).trim().to_owned())
}
