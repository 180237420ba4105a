//! What the kernel reports about this machine: text of `/proc` and `/sys`, parsed into values.
//!
//! Parsing is separate from reading: the meaning of a file is a function of its text, so tests can use the text of
//! other machines.

pub mod cgroup;
pub mod counters;
pub mod fitness;
pub mod frequency;
pub mod gpus;
pub mod host_monitor;
pub mod libraries;
pub mod listener;
pub mod pauses;
pub mod processes;
pub mod processors;
pub mod thread_usage;
pub mod threads;
pub mod usage;

use std::fs;
use std::path::Path;

/// The text of a kernel file, without the blanks around it; `None` if it does not exist or is not readable. Names in it
/// may be any bytes: what is not UTF-8 is replaced.
pub fn read(path: impl AsRef<Path>) -> Option<String> {
    Some(String::from_utf8_lossy(&fs::read(path).ok()?).trim().to_owned())
}

/// For tests of what reads threads.
#[cfg(any(test, feature = "testing"))]
pub mod sample {
    use std::sync::mpsc;
    use std::thread;

    /// Calls `act` with the number of a thread of this process whose name is not UTF-8.
    pub fn with_a_thread_of_odd_name(act: impl FnOnce(i32)) {
        let (done, wait) = mpsc::channel::<()>();
        let (sender, receiver) = mpsc::channel();
        let thread = thread::spawn(move || {
            rustix::thread::set_name(c"odd\xff\xfe").unwrap();
            sender.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
            wait.recv().unwrap_err();
        });
        act(receiver.recv().unwrap());
        drop(done);
        thread.join().unwrap();
    }
}
