//! Taking turns: a test that measures needs the machine to itself; all others may run in parallel.

use std::fs::{File, OpenOptions};

/// A turn; it ends when dropped.
pub struct Turn(#[allow(dead_code)] File);

/// A turn beside other tests that do not measure.
pub fn shared() -> Turn {
    let file = open();
    file.lock_shared().expect("the lock file can be locked");
    Turn(file)
}

/// A turn alone: no other end-to-end test runs the program meanwhile.
pub fn alone() -> Turn {
    let file = open();
    file.lock().expect("the lock file can be locked");
    Turn(file)
}

fn open() -> File {
    let path = std::env::temp_dir().join("triton-bench-tests.lock");
    let opened = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&path);
    opened.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
