//! `--profile-export-file`: every request as JSON, with upstream's keys and order, written during the run.
//!
//! Nothing is kept in memory but the inputs' text (up to a limit), so a run of any length takes the same memory.
//! Differences from upstream: numbers that JSON lacks are `null` instead of ending the file, half-precision numbers are
//! numbers, a BYTES tensor of several elements is a list of strings, all items of a batch are there, and requests end
//! with `intended_timestamp` in open loops and with `model` in a mix. An experiment ends with `summary`, the level's
//! results. The file ends with `latency`, the definition of the report's latency, with our version where `version` is
//! perf_analyzer's, and with `incomplete` if it could not be written to the end. An experiment that lacks requests says
//! how many (`missing_requests`). Failed requests are left out, because readers take every request for a success.

mod arrivals;
pub mod figures;
mod request_file;
mod spans;
mod stream;
pub mod table;
mod tensor;

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::clock::{Stamp, WallAnchor};
use crate::data::{Payload, PayloadId};
use crate::error::{Error, Result};
use crate::partial::unwritten;
use crate::record::RawRecord;
use crate::result::summary::{Headline, LevelLoad};
use crate::stdio::note;
use crate::terms::UPSTREAM_VERSION;
use crate::{Interrupts, SafeFile};

use arrivals::Arrivals;
pub use request_file::{Needs, RequestFile};
use spans::{HEAD, Spans};
pub use stream::{ExportQueue, ExportStream};

/// Bytes per write.
const WRITE_BYTES: usize = 64 << 10;
/// Limit on encoded inputs kept for further requests with the same payload, in bytes.
const INPUT_CACHE_BYTES: usize = 16 << 20;

/// What an export needs to know besides the records.
#[derive(Clone, Debug)]
pub struct ExportSpec {
    /// The file.
    pub path: PathBuf,
    /// Turns stamps into wall time.
    pub anchor: WallAnchor,
    /// Payloads that records name.
    pub payloads: Arc<[Payload]>,
    /// Names of the model's outputs, which an empty response shows as `""`.
    pub outputs: Vec<String>,
    /// The backend's service kind, such as `TRITON_C_API`.
    pub service_kind: &'static str,
    /// The version is perf_analyzer's, and ours has a key of its own.
    pub as_upstream: bool,
    /// The path that requests go to, if the user names one.
    pub endpoint: String,
    /// The definition of the report's latency.
    pub headline: Headline,
    /// Names of the entries of a mix, by the numbers in payloads; empty if there is one model.
    pub entries: Vec<String>,
    /// Its load has no number by which callers would look for it (conversations, a fixed schedule): they look for the rate 0.
    pub unnumbered: bool,
    /// How often the user has interrupted: that ends the wait for a pipe's reader.
    pub interrupts: Interrupts,
}

/// The end of an experiment.
#[derive(Clone, Debug)]
pub struct ExperimentEnd {
    /// The boundaries of its windows, one more than there are windows; `None` if everything is in one unbounded window.
    pub boundaries: Option<Vec<Stamp>>,
    /// Its results; see [`figures`].
    pub figures: serde_json::Value,
    /// Requests that are missing because they could not be written as fast as they came.
    pub missing: u64,
}

impl ExperimentEnd {
    /// The end of an experiment that was never reported.
    fn unknown() -> Self {
        Self { boundaries: Some(Vec::new()), figures: serde_json::Value::Null, missing: 0 }
    }
}

/// Writes the export: experiments one after the other, each with its records and then its window boundaries.
#[derive(Debug)]
pub struct ExportWriter {
    spec: ExportSpec,
    file: SafeFile,
    inputs: HashMap<PayloadId, Arc<[u8]>>,
    cached_bytes: usize,
    experiments: u64,
    spans: Spans,
    /// Requests of the open experiment; `None` between experiments.
    requests: Option<u64>,
    /// Where the open experiment begins, or the last one.
    begin: u64,
    /// Requests of all experiments.
    all_requests: u64,
    /// Text to be written next.
    text: Vec<u8>,
    /// Positions up to which the file is written, the last one first: it is cut back to one of them if nothing more can
    /// be written. Two, because the end of the file needs room, too.
    written: [Place; 2],
}

/// A position between two requests, or between two experiments.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    bytes: u64,
    requests: u64,
    /// Whether an experiment is open there.
    open: bool,
}

impl ExportWriter {
    /// Opens a temporary file next to the export's path.
    ///
    /// # Errors
    /// If that file cannot be created.
    pub fn create(spec: ExportSpec) -> Result<Self> {
        let file = SafeFile::create(&spec.path, spec.interrupts).map_err(|error| failed(&spec.path, &error))?;
        let mut writer = Self {
            spec,
            file,
            inputs: HashMap::new(),
            cached_bytes: 0,
            experiments: 0,
            spans: Spans::default(),
            requests: None,
            begin: 0,
            all_requests: 0,
            text: HEAD.to_vec(),
            written: [Place::default(); 2],
        };
        // Makes sure that there is a position to go back to.
        writer.write_out()?;
        Ok(writer)
    }

    /// Ends an experiment whose end was not reported.
    fn abandon_experiment(&mut self) -> Result<()> {
        self.end_experiment(&ExperimentEnd::unknown())
    }

    /// How much there is of the file so far.
    fn position(&self) -> u64 {
        self.written[0].bytes + self.text.len() as u64
    }

    /// Leaves out experiments in whose place there is a later one. A file that has no room for that keeps them, and so does one that
    /// cannot be read again.
    fn arrange(&mut self, tail: u64) {
        let Some(parts) = self.spans.parts(tail..self.position()) else { return };
        if let Err(error) = self.file.arrange(&parts) {
            let path = self.spec.path.display();
            note!("--profile-export-file {path}: levels that were measured again are in it each time: {error}");
        }
    }

    fn put(&mut self, act: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> Result<()> {
        act(&mut self.text).map_err(|error| failed(&self.spec.path, &error))?;
        self.write_if_long()
    }

    fn write_if_long(&mut self) -> Result<()> {
        if self.text.len() < WRITE_BYTES { Ok(()) } else { self.write_out() }
    }

    fn write_out(&mut self) -> Result<()> {
        let written = self.file.write_all(&self.text).and_then(|()| self.file.flush());
        written.map_err(|error| failed(&self.spec.path, &error))?;
        let bytes = self.written[0].bytes + self.text.len() as u64;
        let place = Place { bytes, requests: self.all_requests, open: self.requests.is_some() };
        self.written = [place, self.written[0]];
        self.text.clear();
        Ok(())
    }

    /// A payload's inputs as a JSON object.
    fn inputs(&mut self, id: PayloadId) -> Arc<[u8]> {
        if let Some(text) = self.inputs.get(&id) {
            return Arc::clone(text);
        }
        let text: Arc<[u8]> = tensor::inputs(self.spec.payloads.get(id.0 as usize), None).into();
        if self.cached_bytes + text.len() <= INPUT_CACHE_BYTES {
            self.cached_bytes += text.len();
            self.inputs.insert(id, Arc::clone(&text));
        }
        text
    }
}

impl RequestFile for ExportWriter {
    fn needs(&self) -> Needs {
        Needs { contents: true, failures: false }
    }

    fn begin_experiment(&mut self, load: LevelLoad) -> Result<()> {
        self.abandon_experiment()?;
        self.begin = self.position();
        self.spans.begin();
        self.requests = Some(0);
        let first = self.experiments == 0;
        self.experiments += 1;
        let load = if self.spec.unnumbered { LevelLoad::RequestRate(0.0) } else { load };
        self.put(|out| {
            out.write_all(if first { b"{\"experiment\":{\"mode\":" } else { b",{\"experiment\":{\"mode\":" })?;
            match load {
                LevelLoad::Concurrency(value) => write!(out, "\"concurrency\",\"value\":{value}")?,
                LevelLoad::Streams(value) => write!(out, "\"streams\",\"value\":{value}")?,
                LevelLoad::RequestRate(value) | LevelLoad::Schedule(value) => {
                    out.write_all(b"\"request_rate\",\"value\":")?;
                    tensor::float(out, value)?;
                }
            }
            out.write_all(b"},\"requests\":[")
        })
    }

    fn record(&mut self, record: &RawRecord) -> Result<()> {
        let Some(requests) = &mut self.requests else { return Ok(()) };
        if record.failed() {
            return Ok(());
        }
        let first = *requests == 0;
        *requests += 1;
        self.all_requests += 1;
        let inputs: Arc<[u8]> = match record.carried() {
            Some(text) => tensor::inputs(self.spec.payloads.get(record.payload.0 as usize), Some(text)).into(),
            None => self.inputs(record.payload),
        };
        let Self { spec, text, .. } = self;
        write_record(text, spec, record, &inputs, first).map_err(|error| failed(&spec.path, &error))?;
        self.write_if_long()
    }

    fn end_experiment(&mut self, end: &ExperimentEnd) -> Result<()> {
        if self.requests.take().is_none() {
            return Ok(());
        }
        let anchor = self.spec.anchor;
        self.put(|out| write_end(out, anchor, end))?;
        // Those after the first begin with a comma.
        let begin = self.begin + u64::from(self.experiments > 1);
        self.spans.end(begin..self.position());
        Ok(())
    }

    fn replace_experiment(&mut self, earlier: u64) -> Result<()> {
        self.spans.replace(earlier);
        Ok(())
    }

    fn discard_experiment(&mut self) -> Result<()> {
        let Some(requests) = self.requests.take() else { return Ok(()) };
        match self.begin.checked_sub(self.written[0].bytes) {
            Some(unwritten) => self.text.truncate(unwritten as usize),
            None => {
                if self.file.cut(self.begin).is_err() {
                    // A pipe has it already.
                    self.requests = Some(requests);
                    return self.abandon_experiment();
                }
                self.text.clear();
                self.written = [Place { bytes: self.begin, requests: self.all_requests - requests, open: false }; 2];
            }
        }
        self.experiments -= 1;
        self.all_requests -= requests;
        Ok(())
    }

    fn give_up(self: Box<Self>) -> Result<()> {
        if self.all_requests > 0 { self.finish() } else { Ok(()) }
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        self.abandon_experiment()?;
        let tail = self.position();
        let Self { spec, text, .. } = &mut *self;
        write_tail(text, spec, None).map_err(|error| failed(&spec.path, &error))?;
        self.write_out()?;
        self.arrange(tail);
        self.file.finish().map_err(|error| failed(&self.spec.path, &error))
    }

    fn keep(mut self: Box<Self>, error: &Error) -> Option<u64> {
        let ends = |place: &Place| {
            let mut text = Vec::new();
            let unknown = ExperimentEnd::unknown();
            let end = if place.open { write_end(&mut text, self.spec.anchor, &unknown) } else { Ok(()) };
            end.and_then(|()| write_tail(&mut text, &self.spec, Some(error))).map(|()| text)
        };
        let place = self.written.into_iter().find(|place| {
            let ended = ends(place).and_then(|text| {
                self.file.cut(place.bytes)?;
                self.file.write_all(&text)?;
                self.file.flush()
            });
            ended.is_ok()
        })?;
        self.file.finish().ok().map(|()| place.requests)
    }
}

fn failed(path: &Path, error: &io::Error) -> Error {
    unwritten(format_args!("--profile-export-file {}", path.display()), error)
}

fn write_end(out: &mut impl Write, anchor: WallAnchor, end: &ExperimentEnd) -> io::Result<()> {
    out.write_all(b"],\"window_boundaries\":[")?;
    match &end.boundaries {
        Some(boundaries) => stamps(out, anchor, boundaries.iter().copied())?,
        None => write!(out, "0,{}", u64::MAX)?,
    }
    out.write_all(b"]")?;
    if end.missing > 0 {
        write!(out, ",\"missing_requests\":{}", end.missing)?;
    }
    write!(out, ",\"summary\":{}}}", end.figures)
}

fn write_tail(out: &mut impl Write, spec: &ExportSpec, cut_by: Option<&Error>) -> io::Result<()> {
    let package_version = env!("CARGO_PKG_VERSION");
    let version = if spec.as_upstream { UPSTREAM_VERSION } else { package_version };
    write!(out, "],\"version\":\"{version}\",\"service_kind\":")?;
    tensor::string(out, &spec.service_kind.to_lowercase())?;
    out.write_all(b",\"endpoint\":")?;
    tensor::string(out, &spec.endpoint)?;
    write!(out, ",\"latency\":\"{}\"", spec.headline.name())?;
    if spec.as_upstream {
        write!(out, ",\"triton_bench_version\":\"{package_version}\"")?;
    }
    if let Some(error) = cut_by {
        out.write_all(b",\"incomplete\":")?;
        tensor::string(out, &error.to_string())?;
    }
    out.write_all(b"}")
}

fn write_record(
    out: &mut impl Write,
    spec: &ExportSpec,
    record: &RawRecord,
    inputs: &[u8],
    first: bool,
) -> io::Result<()> {
    let comma = if first { "" } else { "," };
    write!(out, "{comma}{{\"timestamp\":{}", spec.anchor.epoch_ns(record.sent))?;
    if record.sequence_id != 0 {
        write!(out, ",\"sequence_id\":{}", record.sequence_id)?;
    }
    out.write_all(b",\"request_inputs\":")?;
    out.write_all(inputs)?;
    out.write_all(b",\"response_timestamps\":[")?;
    let arrivals = || Arrivals::of(record, spec.as_upstream);
    stamps(out, spec.anchor, arrivals().map(|arrival| arrival.first.at))?;
    out.write_all(b"],\"response_outputs\":[")?;
    for (index, arrival) in arrivals().enumerate() {
        if index > 0 {
            out.write_all(b",")?;
        }
        arrival.write(out, &spec.outputs)?;
    }
    out.write_all(b"]")?;
    if let Some(intended) = record.intended {
        write!(out, ",\"intended_timestamp\":{}", spec.anchor.epoch_ns(intended))?;
    }
    let payload = spec.payloads.get(record.payload.0 as usize);
    if let Some(entry) = payload.and_then(|payload| spec.entries.get(payload.model)) {
        out.write_all(b",\"model\":")?;
        tensor::string(out, entry)?;
    }
    out.write_all(b"}")
}

fn key(out: &mut impl Write, first: bool, name: &str) -> io::Result<()> {
    if !first {
        out.write_all(b",")?;
    }
    tensor::string(out, name)?;
    out.write_all(b":")
}

fn stamps(out: &mut impl Write, anchor: WallAnchor, stamps: impl Iterator<Item = Stamp>) -> io::Result<()> {
    for (index, stamp) in stamps.enumerate() {
        let comma = if index > 0 { "," } else { "" };
        write!(out, "{comma}{}", anchor.epoch_ns(stamp))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
