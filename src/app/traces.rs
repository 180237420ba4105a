//! The command `trace-summary`.

use std::path::Path;

use crate::app::screen::Screen;
use crate::error::{Error, Result};
use crate::exit;
use crate::plan::TraceFiles;
use crate::report::traces::{moments, summary};
use crate::stdio::{self, note};
use crate::traces::{add_up, read};

/// Summarises trace files one after the other. Returns the exit code (see [`crate::exit`]).
///
/// # Errors
/// The first file that cannot be read, or that holds no request from its start to its end.
pub fn summarise(wanted: &TraceFiles) -> Result<u8> {
    let screen = Screen::new();
    for path in &wanted.files {
        screen.print(&file(path, wanted.each)?)?;
    }
    Ok(exit::OK)
}

fn file(path: &Path, each: bool) -> Result<String> {
    let traces = read(path)?;
    let (models, left_out) = add_up(&traces);
    if models.is_empty() {
        return Err(Error::input(format!(
            "trace file '{}': it holds no request from start to end; trace with level TIMESTAMPS",
            path.display()
        )));
    }
    if left_out > 0 {
        note!("{}: {left_out} traces are left out: the start or the end of their request is not in it", path.display());
    }
    let mut text = format!("File: {}\n", stdio::shown(&path.display().to_string()));
    if each {
        text.extend(traces.iter().map(moments));
    }
    text.extend(models.iter().map(summary));
    Ok(text)
}
