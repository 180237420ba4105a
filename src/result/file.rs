//! A result as a file: JSON in a versioned format (docs/results.md, docs/result.schema.json).

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize, Serializer};

use crate::answer::Answer;
use crate::error::{Error, Result};
use crate::exit::Codes;
use crate::figures::{self, FigureAt, FigureFile};
use crate::outcome::Outcome;
use crate::reasons::Verdict;
use crate::record::histograms_within;
use crate::shm::{Placement, free_bytes};
use crate::summary::LevelSummary;
use crate::sweep::{StepTaken, SweepResult};
use crate::terms::MeasurementPlan;
use crate::tune::TuneResult;
use crate::variants::{VariantsFile, VariantsResult};
use crate::{Checked, PeriodicResult, RunResult, Setup, harmless};

/// The format's version: it grows when a reader of the previous one would misunderstand a file.
pub const VERSION: u32 = 1;

/// Limit on the size of a result file: 20 levels of 1 000 windows are below a hundredth of it.
const MAX_BYTES: u64 = 1 << 30;

/// Memory that the histograms of a result may take, if it is not known how much is free.
const HISTOGRAMS: u64 = 4 << 30;

/// The markers around the JSON of a result in a report.
const EMBEDDED: (&str, &str) = ("<script type=\"application/json\" id=\"data\">", "</script>");

/// How every result in a report begins, the others of an overlay too.
const EMBEDDED_ANY: &str = "<script type=\"application/json\" id=\"data";

/// A level in a file: what was measured, and what follows from it, for readers.
#[derive(Serialize, JsonSchema)]
pub struct LevelFile<'a> {
    /// The level's outcome, as every report words it.
    outcome: Outcome,
    /// Its figures by their keys: rates a second, shares from 0 to 1, times in nanoseconds. `catalogue` says what each is.
    figures: BTreeMap<String, f64>,
    /// What is wrong with it, if anything.
    reasons: Vec<ReasonFile>,
    /// All else.
    #[serde(flatten)]
    level: &'a LevelSummary,
}

/// Why a level is not valid.
#[derive(Serialize, JsonSchema)]
struct ReasonFile {
    /// A short stable name.
    #[serde(rename = "word")]
    name: String,
    /// With its numbers.
    text: String,
    /// What to change.
    remedy: String,
}

impl<'a> LevelFile<'a> {
    fn new(level: &'a LevelSummary, plan: &MeasurementPlan) -> Self {
        let reasons = match &level.verdict {
            Verdict::Valid => &[][..],
            Verdict::Invalid(reasons) => reasons,
        };
        let reason_files = reasons.iter().map(|reason| ReasonFile {
            name: reason.name().to_owned(),
            text: reason.to_string(),
            remedy: reason.remedy(plan, level.disturbances.disturbed > 0),
        });
        Self { outcome: Outcome::new(level), figures: values(level, plan), reasons: reason_files.collect(), level }
    }
}

fn values(level: &LevelSummary, plan: &MeasurementPlan) -> BTreeMap<String, f64> {
    let all = figures::all(plan).into_iter();
    all.filter_map(|figure| Some((figure.key(), figure.value(level)?.value))).collect()
}

/// A whole file.
#[derive(Serialize, JsonSchema)]
struct ResultFile<'a> {
    /// Version of the format.
    schema: u32,
    /// The run's exit code under the name triton-bench; 130 while it goes on.
    exit_code: u8,
    #[serde(flatten)]
    setup: &'a Setup,
    /// When this result was complete: at the end of the run, or of its last level if the run was ended from outside.
    ended: Option<Timestamp>,
    /// What each key of `figures` is, of those that a level has.
    catalogue: Vec<FigureFile>,
    /// The answer to what the run was asked; absent while it goes on.
    answer: Option<Answer>,
    /// Levels, stages or rates of a sweep, in the order in which they were measured.
    levels: Vec<LevelFile<'a>>,
    /// What a sweep found.
    sweep: &'a Option<SweepResult>,
    /// The steps taken so far, in order; they determine what it measures next.
    sweep_steps: &'a [StepTaken],
    /// Result of a periodic load.
    periodic: &'a Option<PeriodicResult>,
    /// Results of variants (`--variant`, `--matrix`), which have cells instead of levels.
    variants: Option<VariantsFile<'a>>,
    /// Outcomes of the requirements (`--require`).
    requirements: &'a [Checked],
    /// Whether the server went away while it was measured.
    server_gone: bool,
    /// Whether the run was ended before everything was measured; what is missing was not. Also in files of runs that go on, or were
    /// killed.
    interrupted: bool,
}

impl RunResult {
    /// What the figures are that levels and variants have.
    fn catalogue(&self) -> Vec<FigureFile> {
        let of_levels = figures::reported(&self.levels, &self.setup.measurement);
        let of_variants = self.variants.iter().flat_map(VariantsResult::reported).map(FigureAt::in_file);
        of_levels.into_iter().chain(of_variants).collect()
    }
}

impl Serialize for RunResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let file = ResultFile {
            schema: VERSION,
            exit_code: self.exit_code(Codes::Own),
            setup: &self.setup,
            ended: self.ended,
            // Comparisons of a long study take time, and nobody reads that of a file that is written again.
            answer: if self.unfinished { None } else { self.answer() },
            catalogue: self.catalogue(),
            levels: self.levels.iter().map(|level| LevelFile::new(level, &self.setup.measurement)).collect(),
            sweep: &self.sweep,
            sweep_steps: &self.sweep_steps,
            periodic: &self.periodic,
            variants: self.variants.as_ref().map(VariantsFile::new),
            requirements: &self.requirements,
            server_gone: self.server_gone,
            interrupted: self.interrupted,
        };
        file.serialize(serializer)
    }
}

impl RunResult {
    /// Reads a file that `--summary-file` wrote, or a report that holds one.
    ///
    /// # Errors
    /// If it cannot be read, is no result, or is one of a later version.
    pub fn read(path: &Path) -> Result<Self> {
        Self::read_one_of(path).map(|(result, _)| result)
    }

    /// The same, and among how many: a report of an overlay holds several, of which this is the first, or its run's.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_one_of(path: &Path) -> Result<(Self, usize)> {
        let refuse = |reason: String| {
            let path = path.display();
            Error::input(format!("{path}: {reason}; name a file that --summary-file has written"))
        };
        let whole = text(path, MAX_BYTES).map_err(|error| refuse(error.to_string()))?;
        let (text, held) = match embedded(&whole) {
            Some(text) => (text, whole.matches(EMBEDDED_ANY).count()),
            None => (whole.as_str(), 1),
        };
        let text = &*harmless(text);
        let Version { schema, candidates } =
            serde_json::from_str(text).map_err(|error| refuse(format!("no result: {error}")))?;
        // A search has versions of its own.
        if candidates.is_some() {
            return Err(refuse("it is the result of a search (tune), and no run's".to_owned()));
        }
        if schema > VERSION {
            return Err(refuse(format!("it has format version {schema}, and this program reads up to {VERSION}")));
        }
        let room = free_bytes(Placement::Pageable).map_or(HISTOGRAMS, |free| free / 2);
        let read = histograms_within(room, || serde_json::from_str(text));
        let read: Self = read.map_err(|error| refuse(format!("no result: {error}")))?;
        match read.variants.as_ref().is_none_or(|variants| variants.is_consistent()) {
            true => Ok((read, held)),
            false => Err(refuse("no result: a round in it is not of every variant".to_owned())),
        }
    }
}

/// The text of a file of at most `most` bytes. Pipes and devices, whose length is unknown, are not read beyond that either.
fn text(path: &Path, most: u64) -> io::Result<String> {
    let refused = |bytes: String| io::Error::other(format!("it has {bytes} bytes, more than any result"));
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    if length > most {
        return Err(refused(length.to_string()));
    }
    let mut bytes = Vec::with_capacity(length as usize);
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(refused(format!("more than {most}")));
    }
    let not_text = |_| io::Error::new(io::ErrorKind::InvalidData, "it is not text");
    // Some editors begin a file with a byte order mark.
    let mark = if bytes.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
    bytes.drain(..mark);
    String::from_utf8(bytes).map_err(not_text)
}

/// Whether a file is a report: it holds a result, but is no result file.
pub fn is_report(path: &Path) -> bool {
    text(path, MAX_BYTES).is_ok_and(|text| embedded(&text).is_some())
}

/// The result in a report; `None` if the text is not a report.
fn embedded(text: &str) -> Option<&str> {
    let (_, after) = text.split_once(EMBEDDED.0).filter(|_| text.starts_with("<!DOCTYPE html>"))?;
    after.split_once(EMBEDDED.1).map(|(json, _)| json)
}

#[derive(Deserialize)]
struct Version {
    schema: u32,
    /// What only a search has.
    candidates: Option<IgnoredAny>,
}

/// The file of a search: its result, and the answer that follows from it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TuneFile<'a> {
    /// The result.
    #[serde(flatten)]
    pub result: &'a TuneResult,
    /// What to take, or that yours stays, and why.
    pub answer: Answer,
}

impl<'a> TuneFile<'a> {
    /// That of a result.
    pub fn new(result: &'a TuneResult) -> Self {
        Self { result, answer: result.answer() }
    }
}

#[cfg(test)]
mod tests;
