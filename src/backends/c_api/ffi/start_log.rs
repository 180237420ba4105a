//! The server's log while models are loaded: kept separately, because it alone contains some failure reasons.

use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{MemfdFlags, memfd_create};

use crate::backends::c_api::ffi::options::ServerOptions;
use crate::plan::{LogLevel, ServerLog};

/// A separate log, in a file without a name: whatever ends the process, nothing is left behind.
pub(super) struct StartLog(OwnedFd);

impl StartLog {
    /// Sends the server's errors there. `None` if this release has no log files.
    pub(super) fn open(options: &ServerOptions) -> Option<Self> {
        let log = Self(memfd_create("start-log", MemfdFlags::CLOEXEC).ok()?);
        let quiet = ServerLog { level: LogLevel::Error, file: Some(log.path()), ..ServerLog::default() };
        options.apply_log(&quiet).ok().map(|()| log)
    }

    /// Why the server did not load `model`, if it logged that.
    pub(super) fn reason(&self, model: &str) -> Option<String> {
        reason_in(&fs::read_to_string(self.path()).ok()?, model)
    }

    fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }

    /// Sends the log back to standard error, switched off.
    pub(super) fn close(self, options: &ServerOptions) {
        let off = ServerLog { file: Some(Path::new("").to_owned()), ..ServerLog::default() };
        // Only a release with log files gets here.
        let _ = options.apply_log(&off);
    }
}

/// Finds the reason in a log: `E… file.cc:1] "Poll failed for model directory 'NAME': REASON"`.
fn reason_in(log: &str, model: &str) -> Option<String> {
    let told = format!("Poll failed for model directory '{model}': ");
    let line = log.lines().find_map(|line| line.split_once(&told))?.1;
    let line = line.trim_end();
    Some(line.strip_suffix('"').unwrap_or(line).replace("\\n", " ").replace("\\\"", "\""))
}

#[cfg(test)]
mod tests {
    use super::reason_in;

    #[test]
    fn the_reason_is_found_in_the_log() {
        let log = "E1 2 a.cc:3] \"Poll failed for model directory 'other': no\"\n\
                   E1 2 a.cc:3] \"Poll failed for model directory 'm': must not say \\\"x\\\"\"\n";
        assert_eq!(reason_in(log, "m").as_deref(), Some("must not say \"x\""));
        assert_eq!(reason_in(log, "none"), None);
    }
}
