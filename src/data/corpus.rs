//! [`Corpus`]: streams of steps for one model, from any source.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::model::ModelSpec;
use crate::shm::{Allowance, Region};
use crate::steps::{Loaded, Stream, Target};
use crate::{CorpusSpec, DataSource, conversations, directory, json, lines, npz, prompts, session_trace, synthetic};

/// The input data of one model, one batch element at a time: streams of steps.
#[derive(Clone, Debug)]
pub struct Corpus {
    pub(super) model: ModelSpec,
    /// Memory that the steps' values are in.
    pub(super) regions: Vec<Arc<Region>>,
    pub(super) streams: Vec<Stream>,
    /// The files that steps came from; empty for other sources.
    files: Vec<PathBuf>,
    warnings: Vec<String>,
    pub(super) memory: Arc<Allowance>,
}

impl Corpus {
    /// Reads or generates the data that `spec` asks for. The same seed gives the same data.
    ///
    /// # Errors
    /// If a file cannot be read or does not fit the model; the message names file, stream, step and tensor.
    pub fn load(spec: &CorpusSpec<'_>, model: &ModelSpec) -> Result<Self> {
        let target = Target::new(model, spec)?;
        let loaded = match spec.source {
            DataSource::Zero => synthetic::load(&target, None)?,
            DataSource::Random => synthetic::load(&target, Some(spec.seed))?,
            DataSource::Prompts(prompt_spec) => match &prompt_spec.conversations {
                Some(conversations) => conversations::load(&target, prompt_spec, conversations)?,
                None => prompts::load(&target, prompt_spec, spec.lengths, spec.blocks)?,
            },
            DataSource::SessionTrace(trace) => session_trace::load(&target, trace)?,
            DataSource::Lines(files, form) => lines::load(&target, files, *form)?,
            DataSource::Directory(path) => directory::load(&target, path)?,
            DataSource::Files(paths) => {
                let archives = paths.iter().filter(|path| is_archive(path)).count();
                if archives > 0 && archives < paths.len() {
                    return Err(Error::input(
                        "--input-data: .npz archives and JSON files cannot be combined in one run",
                    ));
                }
                if archives > 0 { npz::load(&target, paths)? } else { json::load(&target, paths)? }
            }
        };
        let mut warnings = target.shapes.warnings;
        warnings.extend_from_slice(&loaded.warnings);
        Ok(Self::new(model, spec, loaded, warnings))
    }

    fn new(model: &ModelSpec, spec: &CorpusSpec<'_>, loaded: Loaded, warnings: Vec<String>) -> Self {
        Self {
            model: model.clone(),
            regions: loaded.regions.into_iter().map(Arc::new).collect(),
            streams: loaded.streams,
            files: if let DataSource::Files(files) = spec.source { files.clone() } else { Vec::new() },
            warnings,
            memory: Arc::clone(spec.memory),
        }
    }

    /// Steps of each stream. At least one stream, and no stream is empty, unless no file was given.
    pub fn stream_lengths(&self) -> Vec<usize> {
        self.streams.iter().map(Stream::len).collect()
    }

    /// Whether data came from files of steps, which decide the length of sequences.
    pub fn from_files(&self) -> bool {
        !self.files.is_empty()
    }

    /// The files of the steps, for messages: ` of a.json`; empty for other sources.
    pub(super) fn of_files(&self) -> String {
        let names: Vec<_> = self.files.iter().map(|file| format!("'{}'", file.display())).collect();
        if names.is_empty() { String::new() } else { format!(" of {}", names.join(", ")) }
    }

    /// Whether any step has expected outputs.
    pub fn validates(&self) -> bool {
        self.streams.iter().any(Stream::validates)
    }

    /// Settings that had no effect.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The line that perf_analyzer prints when it has read input files.
    pub fn announcement(&self) -> Option<String> {
        let steps = match self.streams.as_slice() {
            [only] => format!(" with {} step/steps", only.len()),
            _ => String::new(),
        };
        self.from_files().then(|| format!(" Successfully read data for {} stream/streams{steps}.", self.streams.len()))
    }
}

fn is_archive(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("npz"))
}
