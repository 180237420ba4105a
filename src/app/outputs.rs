//! Checks of files to be written: none replaces another or an input, and each can be written.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::data::{DataSource, PromptLength, PromptSpec};
use crate::error::{Error, Result};
use crate::interrupt;
use crate::plan::{Pages, Plan};
use crate::report::{self, raster, requirements};

/// The flag of single pictures.
const PICTURE: &str = "--svg";

/// Flags whose value is the path of a file that is read, and nothing else.
const READ: [&str; 12] = [
    "--baseline",
    "--proto",
    "--request-intervals",
    "--ssl-grpc-certificate-chain-file",
    "--ssl-grpc-private-key-file",
    "--ssl-grpc-root-certifications-file",
    "--ssl-https-ca-certificates-file",
    "--ssl-https-client-certificate-file",
    "--ssl-https-private-key-file",
    "--tokenizer",
    "--trace-lengths",
    "--trace-replay",
];

/// A file, and the flag that names it.
pub type Named<'a> = (String, &'a Path);

/// What `--junit` is to say where a run fails before there is anything to judge: in its place would be what an earlier run came to,
/// or nothing, which some readers take for success.
pub struct Judged {
    path: Option<PathBuf>,
    model: String,
    requirements: Vec<String>,
    /// Which file there was before.
    before: Option<FileIdentity>,
}

/// What tells a file from one that is put in its place.
#[derive(PartialEq)]
struct FileIdentity {
    inode: u64,
    seconds: i64,
    nanoseconds: i64,
}

impl FileIdentity {
    fn of(path: &Path) -> Option<Self> {
        let about = fs::metadata(path).ok()?;
        Some(Self { inode: about.ino(), seconds: about.mtime(), nanoseconds: about.mtime_nsec() })
    }
}

impl Judged {
    /// Of a run that begins.
    pub fn before(plan: &Plan) -> Self {
        let (path, model) = (plan.gate.junit.clone(), plan.target.model.name.clone());
        let requirements = plan.gate.requirements.iter().map(|requirement| requirement.text.clone()).collect();
        Self { before: path.as_deref().and_then(FileIdentity::of), path, model, requirements }
    }

    /// Takes over the name of the model, which a server may have named meanwhile.
    pub fn name_model(&mut self, plan: &Plan) {
        self.model.clone_from(&plan.target.model.name);
    }

    /// Writes that it has failed, if it has, and has written nothing itself.
    ///
    /// # Errors
    /// Why it failed.
    pub fn after(self, outcome: Result<u8>) -> Result<u8> {
        // An interrupted run leaves all files as they are.
        if let (Err(error), Some(path)) = (&outcome, &self.path)
            && !report::is_special(path)
            && FileIdentity::of(path) == self.before
        {
            let why = error.to_string();
            let run = requirements::Unjudged { model: &self.model, requirements: &self.requirements, why: &why };
            // Why the run failed is said in any case.
            drop(requirements::write_unjudged(path, interrupt::counter(), &run));
        }
        outcome
    }
}

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
    let read = std::iter::once(plan).chain(plan.variants.iter().map(|variant| &variant.plan)).flat_map(inputs);
    check_files(&written, &read.collect::<Vec<_>>())?;
    output.profile_export.as_ref().map_or(Ok(()), |path| report::check_new("--profile-export-file", path))
}

/// The files that a plan reads.
pub fn inputs(plan: &Plan) -> impl Iterator<Item = Named<'_>> {
    let output = &plan.output;
    // The result of a run that is resumed is written back, however its path is written.
    let is_written_back =
        |path: &&PathBuf| output.summary.as_ref().is_some_and(|file| report::is_same_file(file, path));
    let resumed = output.resume.as_ref().filter(|path| !is_written_back(path)).map(|path| ("--resume", path));
    let payloads = resumed.into_iter().chain(of_data(&plan.data.source));
    let payloads = payloads.map(|(flag, path)| (flag.to_owned(), path.as_path()));
    let flags = plan.invocation.flags.iter().filter(|flag| READ.contains(&flag.name.as_str()));
    let files = flags.flat_map(|flag| flag.values.iter().map(|value| (flag.name.clone(), Path::new(value))));
    files.chain(payloads)
}

/// The files of payloads; those in a folder are named by the model or a data set, and not by the user.
fn of_data(source: &DataSource) -> Vec<(&'static str, &PathBuf)> {
    match source {
        DataSource::Files(files) | DataSource::Lines(files, _) => {
            files.iter().map(|path| ("--input-data", path)).collect()
        }
        DataSource::SessionTrace(trace) => {
            trace.sources.iter().map(|source| ("--session-trace", &source.path)).collect()
        }
        DataSource::Prompts(PromptSpec { prompt: PromptLength::Recorded(path), .. }) => vec![("--prompt-tokens", path)],
        DataSource::Prompts(PromptSpec { prompt: PromptLength::Dataset(set), .. }) => {
            vec![("--prompt-tokens", &set.path)]
        }
        DataSource::Prompts(_) | DataSource::Zero | DataSource::Random | DataSource::Directory(_) => Vec::new(),
    }
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
