//! Checks of files to be written: none replaces another or an input, and each can be written.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::plan::{Pages, Plan};
use crate::report::{self, raster};

/// The flag of single pictures.
const PICTURE: &str = "--svg";

/// A file, and the flag that names it.
pub type Named<'a> = (String, &'a Path);

/// Checks, before anything is measured, that all results can be written.
///
/// # Errors
/// Which cannot, and why.
pub fn check(plan: &Plan) -> Result<()> {
    let (output, tracing) = (&plan.output, &plan.tracing);
    output.folder.as_ref().map_or(Ok(()), report::lifecycle::check)?;
    let single: [(&str, Option<&PathBuf>); 8] = [
        ("-f", output.csv.as_ref()),
        ("--summary-file", output.summary.as_ref()),
        ("--junit", plan.gate.junit.as_ref()),
        ("--profile-export-file", output.profile_export.as_ref()),
        ("--requests-file", output.requests.as_ref()),
        ("--trace-export", tracing.export.as_ref()),
        ("--trace-file", tracing.file.as_ref().map(|file| &file.path)),
        ("--log-file", plan.target.server.log.file.as_ref()),
    ];
    let single = single.into_iter().filter_map(|(flag, path)| Some((flag.to_owned(), path?.as_path())));
    let written: Vec<Named<'_>> = single.chain(pages(&output.pages, "--report")).collect();
    let read: Vec<Named<'_>> = plan.gate.baseline.iter().map(|path| ("--baseline".to_owned(), &**path)).collect();
    check_files(&written, &read)?;
    output.profile_export.as_ref().map_or(Ok(()), |path| report::check_new("--profile-export-file", path))
}

/// The files of a report, the page itself named by `flag`.
pub fn pages<'a>(pages: &'a Pages, flag: &str) -> Vec<Named<'a>> {
    let page = pages.html.as_deref().map(|path| (flag.to_owned(), path));
    let markdown = pages.markdown.as_deref().map(|path| ("--markdown".to_owned(), path));
    let figures = pages.figures.iter().map(|file| (format!("{PICTURE} {}", file.figure.name()), file.path.as_path()));
    page.into_iter().chain(markdown).chain(figures).collect()
}

/// Checks that a file can be written, and that it does not replace another output or an input.
///
/// # Errors
/// Which cannot, and why.
pub fn check_files(written: &[Named<'_>], read: &[Named<'_>]) -> Result<()> {
    for (number, (flag, path)) in written.iter().enumerate() {
        if flag.starts_with(PICTURE) && raster::is_png(path) {
            raster::check().map_err(|why| Error::output(format!("{flag} {}: {why}", path.display())))?;
        }
        let others = written[..number].iter().chain(read);
        let same = |(_, other): &&Named<'_>| report::is_same_file(other, path);
        if let Some((other, _)) = others.into_iter().find(same) {
            let rule = format!("is also the file of {other}: one would overwrite the other; name two files");
            return Err(Error::usage(format!("{flag} {}: {rule}", path.display())));
        }
        report::check_writable(flag, path)?;
    }
    Ok(())
}
