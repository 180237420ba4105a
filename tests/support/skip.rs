//! What a test does when the machine lacks something it needs.

/// The variable with which skipping is meant.
pub const MAY_SKIP: &str = "TRITON_BENCH_TESTS_SKIP";

/// Fails, unless the variable says that tests may be skipped; a test that returns quietly would pass without having run.
pub fn skip(lack: &str) {
    let allowed = std::env::var_os(MAY_SKIP).is_some_and(|value| value == "1");
    assert!(allowed, "{lack}; provide it, or set {MAY_SKIP}=1 to skip what needs it");
    eprintln!("skipped: {lack}");
}
