//! The server's log while models are loaded: kept in a file, because some reasons for a failure are told nowhere else.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use crate::backends::c_api::ffi::options::ServerOptions;
use crate::plan::{LogLevel, ServerLog};

/// A log kept aside. The file disappears with this value.
pub(super) struct StartLog {
    file: PathBuf,
}

impl StartLog {
    /// Sends the server's errors to a file of its own. `None` where this release has no log files.
    pub(super) fn open(options: &ServerOptions) -> Option<Self> {
        let file = std::env::temp_dir().join(format!("triton-bench-{}.log", std::process::id()));
        OpenOptions::new().write(true).create_new(true).open(&file).ok()?;
        let log = Self { file };
        let quiet = ServerLog { level: LogLevel::Error, file: Some(log.file.clone()), ..ServerLog::default() };
        options.apply_log(&quiet).ok().map(|()| log)
    }

    /// Why the server did not find `model` worth loading, where it logged that.
    pub(super) fn reason(&self, model: &str) -> Option<String> {
        reason_in(&fs::read_to_string(&self.file).ok()?, model)
    }

    /// Sends the log back to standard error, switched off.
    pub(super) fn close(self, options: &ServerOptions) {
        let off = ServerLog { file: Some(Path::new("").to_owned()), ..ServerLog::default() };
        // Only a release that has log files got here.
        let _ = options.apply_log(&off);
    }
}

impl Drop for StartLog {
    fn drop(&mut self) {
        // What is left in the folder for temporary files harms nobody.
        let _ = fs::remove_file(&self.file);
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
