//! The command `trace-summary`.

use std::path::Path;

use crate::app::screen::Screen;
use crate::app::signals;
use crate::error::{Error, Result};
use crate::exit;
use crate::interrupt;
use crate::plan::TraceFiles;
use crate::report::traces::{groups, json, moments, summary, table};
use crate::report::{self, chrome};
use crate::stdio::{self, note};
use crate::traces::{Trace, TraceFile, add_up, read, stages};

/// Summarises trace files one after the other. Returns the exit code (see [`crate::exit`]).
///
/// # Errors
/// The first file that cannot be read, or that holds no request from its start to its end.
pub fn summarise(wanted: &TraceFiles) -> Result<u8> {
    signals::survive_file_limits()?;
    let screen = Screen::new();
    if let Some(path) = &wanted.export {
        report::check_writable("--trace-export", path)?;
    }
    let mut all = Vec::new();
    for path in &wanted.files {
        let TraceFile { traces, is_unended, damaged } = read(path)?;
        if damaged > 0 {
            let rule = "whose data the server wrote without escaping quotes (level TENSORS)";
            note!("{}: {damaged} tensors are left out, {rule}", path.display());
        }
        if is_unended {
            note!("{}: it is incomplete, as while its server runs: it was read as far as it goes", path.display());
        }
        screen.print(&file(path, &traces, wanted)?)?;
        if wanted.export.is_some() {
            all.extend(groups(&traces));
        }
    }
    if let Some(path) = &wanted.export {
        chrome::write_groups(path, interrupt::counter(), &all)?;
    }
    Ok(exit::OK)
}

fn file(path: &Path, traces: &[Trace], wanted: &TraceFiles) -> Result<String> {
    let (models, left_out) = add_up(traces);
    if models.is_empty() {
        return Err(Error::input(format!(
            "trace file '{}': it contains no complete request; trace with level TIMESTAMPS",
            path.display()
        )));
    }
    if left_out > 0 {
        note!("{}: {left_out} traces are left out: the start or the end of their request is not in it", path.display());
    }
    let stages: Vec<_> = models.iter().map(|model| stages(model, wanted.slowest)).collect();
    if wanted.json {
        return Ok(json(path, &stages));
    }
    let mut text = format!("File: {}\n", stdio::shown(&path.display().to_string()));
    if wanted.each {
        text.extend(traces.iter().map(moments));
    }
    text.extend(models.iter().map(summary));
    text.extend(stages.iter().map(table));
    Ok(text)
}
