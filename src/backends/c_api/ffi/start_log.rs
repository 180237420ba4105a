//! The server's log while models are loaded: kept separately, because it alone contains some failure reasons.

use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{MemfdFlags, memfd_create};

use crate::c_api::ffi::options::ServerOptions;
use crate::plan::{LogLevel, ServerLog};

/// A separate log, in a file without a name: whatever ends the process, nothing is left behind.
pub(super) struct StartLog(OwnedFd);

impl StartLog {
    /// Sends the server's errors there. `None` if this release has no log files.
    pub(super) fn open(options: &ServerOptions) -> Option<Self> {
        let log = Self(memfd_create("start-log", MemfdFlags::CLOEXEC).ok()?);
        options.apply_log(&log.settings()).ok().map(|()| log)
    }

    fn settings(&self) -> ServerLog {
        ServerLog { level: LogLevel::Error, file: Some(self.path()), ..ServerLog::default() }
    }

    /// Why the server did not load `model`, if it logged that.
    pub(super) fn reason(&self, model: &str) -> Option<String> {
        self.after(&format!("Poll failed for model directory '{model}': "))
    }

    /// Why `model` is not ready, which the server logs when it is asked by `ask`.
    pub(super) fn reason_of_unready(&self, options: &ServerOptions, model: &str, ask: impl Fn()) -> Option<String> {
        options.apply_log(&ServerLog { verbose: 1, ..self.settings() }).ok()?;
        ask();
        options.apply_log(&self.settings()).ok()?;
        let unready = self.after(&format!("Model '{model}' version "))?;
        Some(unready.split_once(" is not ready: ")?.1.to_owned())
    }

    fn after(&self, words: &str) -> Option<String> {
        last_after(&fs::read_to_string(self.path()).ok()?, words)
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

/// What follows the words in a log's last line with them: `E… file.cc:1] "Poll failed for model directory 'NAME': REASON"`.
fn last_after(log: &str, words: &str) -> Option<String> {
    let line = log.lines().rev().find_map(|line| line.split_once(words))?.1.trim_end();
    Some(line.strip_suffix('"').unwrap_or(line).replace("\\n", " ").replace("\\\"", "\""))
}

#[cfg(test)]
mod tests {
    use super::last_after;

    #[test]
    fn the_reason_is_found_in_the_log() {
        let log = "E1 2 a.cc:3] \"Poll failed for model directory 'other': no\"\n\
                   E1 2 a.cc:3] \"Poll failed for model directory 'm': must not say \\\"x\\\"\"\n";
        let words = |model: &str| format!("Poll failed for model directory '{model}': ");
        assert_eq!(last_after(log, &words("m")).as_deref(), Some("must not say \"x\""));
        assert_eq!(last_after(log, &words("none")), None);
    }
}
