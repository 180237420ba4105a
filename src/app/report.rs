//! HTML pages of results: at the end of a run, and by the command `report`.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::app::{outputs, signals};
use crate::error::{Error, Result};
use crate::exit;
use crate::interrupt;
use crate::plan::{Pages, Plan, ReportOf};
use crate::report::html::{self, Page};
use crate::report::pictures::Shown;
use crate::report::{self, Interrupts, markdown};
use crate::result::RunResult;
use crate::stdio;

/// Makes the report of results. Returns the exit code (see [`crate::exit`]).
///
/// # Errors
/// If a file is no result, or what was asked for cannot be written.
pub fn report(wanted: &ReportOf) -> Result<u8> {
    signals::survive_file_limits()?;
    let read: Vec<_> = wanted.results.iter().map(|path| ("a result".to_owned(), path.as_path())).collect();
    outputs::check_files(&outputs::pages(&wanted.pages, "-o"), &read)?;
    let results = wanted.results.iter().map(|path| RunResult::read(path)).collect::<Result<Vec<_>>>()?;
    let names = names(&wanted.results);
    let shown = results.iter().zip(&names).map(|(result, name)| Shown::new(name, result));
    let shown: Vec<Shown<'_>> = shown.collect();
    write(&wanted.pages, "-o", interrupt::counter(), &Page { results: &shown, main: 0 })?;
    Ok(exit::OK)
}

/// Writes the pages of a run, with its baseline if that was read.
///
/// # Errors
/// All files that cannot be written.
pub fn write_run(
    pages: &Pages,
    interrupts: Interrupts,
    result: &RunResult,
    baseline: Option<&RunResult>,
) -> Result<()> {
    let current = Shown::new("this run", result);
    let against = baseline.map(|result| Shown::new("baseline", result));
    let shown: Vec<Shown<'_>> = against.into_iter().chain([current]).collect();
    write(pages, "--report", interrupts, &Page { main: shown.len() - 1, results: &shown })
}

/// Replaces the CSV files and the report with what is known so far. A pipe or a device gets only the final ones. If writing
/// fails, the run continues.
pub fn save(plan: &Plan, interrupts: Interrupts, result: &RunResult) {
    let (result, output) = (result.so_far(), &plan.output);
    let is_kept = |path: &&Path| !report::is_special(path);
    let rows = if output.as_upstream { result.as_upstream() } else { Cow::Borrowed(&result) };
    let table = output.csv.as_deref().filter(is_kept).map(|path| report::csv::write(path, interrupts, &rows));
    let shown = [Shown::new("this run", &result)];
    let page = Page { results: &shown, main: 0 };
    let page =
        output.pages.html.as_deref().filter(is_kept).map(|path| html::write("--report", path, interrupts, &page));
    table.into_iter().chain(page).fold(Ok(()), Error::both).unwrap_or_else(|error| stdio::note!("{error}"));
}

fn write(pages: &Pages, flag: &str, interrupts: Interrupts, page: &Page<'_>) -> Result<()> {
    let html = pages.html.as_ref().map(|path| html::write(flag, path, interrupts, page));
    let markdown = pages.markdown.as_ref().map(|path| markdown::write(path, interrupts, page));
    let figures = pages.figures.iter().map(|file| html::write_figure(file, interrupts, page));
    html.into_iter().chain(markdown).chain(figures).fold(Ok(()), Error::both)
}

/// Names for results: the shortest parts of their paths that tell them apart.
pub fn names(paths: &[PathBuf]) -> Vec<String> {
    let ways: [fn(&Path) -> Option<&OsStr>; 3] = [Path::file_stem, Path::file_name, |path| Some(path.as_os_str())];
    let called = |way: fn(&Path) -> Option<&OsStr>| -> Vec<String> {
        paths.iter().map(|path| way(path).unwrap_or(path.as_os_str()).to_string_lossy().into_owned()).collect()
    };
    let apart = |names: &Vec<String>| names.iter().collect::<BTreeSet<_>>().len() == names.len();
    ways.into_iter().map(called).find(apart).unwrap_or_else(|| called(ways[2]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_called_after_their_files() {
        assert_eq!(names(&["a/old.json".into(), "b/new.json".into()]), ["old", "new"]);
        assert_eq!(names(&["a/r.json".into(), "a/r.html".into()]), ["r.json", "r.html"]);
        assert_eq!(names(&["a/r.json".into(), "b/r.json".into()]), ["a/r.json", "b/r.json"]);
    }
}
