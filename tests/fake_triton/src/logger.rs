//! The library's own log, where each release puts it.

use std::fs::OpenOptions;
use std::io::Write;

use parking_lot::Mutex;
use serde_json::Value;

use crate::ledger::lock;
use crate::script::ServerScript;

/// How much there is to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    Info,
    Verbose,
}

struct Settings {
    info: bool,
    verbose: i64,
    file: String,
}

/// Of the whole process, as in the real library.
static SETTINGS: Mutex<Settings> = Mutex::new(Settings { info: true, verbose: 0, file: String::new() });

/// Takes a setting, if it is one: the name of an option, and its value.
pub fn set(option: &str, value: &Value) {
    let mut settings = lock(&SETTINGS);
    match option {
        "SetLogInfo" => settings.info = value == true,
        "SetLogVerbose" => settings.verbose = value.as_i64().unwrap_or(0),
        "SetLogFile" => settings.file = value.as_str().unwrap_or_default().to_owned(),
        _ => {}
    }
}

/// Logs a line. Without a log file it goes to standard error; from 25.06 on to standard output, as all that is neither an
/// error nor a warning (triton-inference-server/common, commit 8a7a916).
pub fn say(server: &ServerScript, level: Level, text: &str) {
    let settings = lock(&SETTINGS);
    if !(if level == Level::Info { settings.info } else { settings.verbose > 0 }) {
        return;
    }
    let line = format!("I1127 13:00:00.000000 1 fake.cc:1] \"{text}\"\n");
    let written = if settings.file.is_empty() {
        let to_output = server.is_since(2, 59);
        if to_output {
            std::io::stdout().write_all(line.as_bytes())
        } else {
            std::io::stderr().write_all(line.as_bytes())
        }
    } else {
        let file = OpenOptions::new().append(true).create(true).open(&settings.file);
        file.and_then(|mut file| file.write_all(line.as_bytes()))
    };
    written.expect("the log can be written");
}
