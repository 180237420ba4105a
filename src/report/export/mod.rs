//! `--profile-export-file`: every request as JSON, in upstream's keys and order, written while the run goes on.
//!
//! Nothing is held but the inputs' text (up to a bound), so a run of any length takes the same memory. What differs from
//! upstream: numbers that JSON lacks are `null` instead of ending the file, half-precision numbers are numbers, a BYTES
//! tensor of several elements is a list of strings, all items of a batch are there, and in open loops each request ends
//! with `intended_timestamp`, in a mix with `model`. An experiment ends with `summary`: what the level came to. The file ends with
//! `latency`: what the report's latency is. Requests that failed are left out, as readers take every request for a success.

pub mod figures;
mod stream;
mod tensor;

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::clock::{Stamp, WallAnchor};
use crate::data::{Payload, PayloadId};
use crate::error::{Error, Result};
use crate::measure::summary::{Headline, LevelLoad};
use crate::record::{RawRecord, RawResponse};
use crate::report::SafeFile;

pub use stream::{ExportStream, RecordSender};

/// Bytes of encoded inputs that are kept for the next request with the same payload.
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
    /// What the latency of the report is.
    pub headline: Headline,
    /// Names of the entries of a mix, by the number that payloads have; empty where there is one model.
    pub entries: Vec<String>,
}

/// How an experiment ends.
#[derive(Clone, Debug)]
pub struct ExperimentEnd {
    /// The boundaries of its windows, one more than there are windows; `None` where everything is in one without bounds.
    pub boundaries: Option<Vec<Stamp>>,
    /// What it came to; see [`figures`].
    pub figures: serde_json::Value,
}

/// Writes the export: experiments one after the other, each with its records and then its window boundaries.
#[derive(Debug)]
pub struct ExportWriter {
    spec: ExportSpec,
    file: SafeFile,
    inputs: HashMap<PayloadId, Arc<[u8]>>,
    cached_bytes: usize,
    experiments: u64,
    /// Requests of the open experiment; `None` between experiments.
    requests: Option<u64>,
    /// Whether any experiment holds a request.
    holds_requests: bool,
}

impl ExportWriter {
    /// Opens a temporary file beside the export's place.
    ///
    /// # Errors
    /// Where that file cannot be made.
    pub fn create(spec: ExportSpec) -> Result<Self> {
        let mut file = SafeFile::create(&spec.path).map_err(|error| failed(&spec.path, &error))?;
        file.write_all(b"{\"experiments\":[").map_err(|error| failed(&spec.path, &error))?;
        Ok(Self {
            spec,
            file,
            inputs: HashMap::new(),
            cached_bytes: 0,
            experiments: 0,
            requests: None,
            holds_requests: false,
        })
    }

    /// Starts the experiment of a level; ends the open one, without boundaries, if there is one.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn begin_experiment(&mut self, load: LevelLoad) -> Result<()> {
        self.abandon_experiment()?;
        self.requests = Some(0);
        let first = self.experiments == 0;
        self.experiments += 1;
        self.write(|out| {
            out.write_all(if first { b"{\"experiment\":{\"mode\":" } else { b",{\"experiment\":{\"mode\":" })?;
            match load {
                LevelLoad::Concurrency(value) => write!(out, "\"concurrency\",\"value\":{value}")?,
                LevelLoad::RequestRate(value) | LevelLoad::Schedule(value) => {
                    out.write_all(b"\"request_rate\",\"value\":")?;
                    tensor::float(out, value)?;
                }
            }
            out.write_all(b"},\"requests\":[")
        })
    }

    /// Adds a request to the open experiment. Failed requests, and requests between experiments, are left out.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn record(&mut self, record: &RawRecord) -> Result<()> {
        let Some(requests) = &mut self.requests else { return Ok(()) };
        if record.failed {
            return Ok(());
        }
        let first = *requests == 0;
        *requests += 1;
        self.holds_requests = true;
        let inputs = self.inputs(record.payload);
        let Self { spec, file, .. } = self;
        write_record(file, spec, record, &inputs, first).map_err(|error| failed(&spec.path, &error))
    }

    /// Ends the open experiment, if there is one.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub fn end_experiment(&mut self, end: &ExperimentEnd) -> Result<()> {
        if self.requests.take().is_none() {
            return Ok(());
        }
        let anchor = self.spec.anchor;
        self.write(|out| {
            out.write_all(b"],\"window_boundaries\":[")?;
            match &end.boundaries {
                Some(boundaries) => stamps(out, anchor, boundaries.iter().copied())?,
                None => write!(out, "0,{}", u64::MAX)?,
            }
            write!(out, "],\"summary\":{}}}", end.figures)
        })
    }

    /// Ends an experiment whose end nobody told.
    fn abandon_experiment(&mut self) -> Result<()> {
        self.end_experiment(&ExperimentEnd { boundaries: Some(Vec::new()), figures: serde_json::Value::Null })
    }

    /// Completes the file after an error; one without any request is left out, and what was there before stays.
    ///
    /// # Errors
    /// As [`ExportWriter::finish`].
    pub fn give_up(self) -> Result<()> {
        if self.holds_requests { self.finish() } else { Ok(()) }
    }

    /// Completes the file and puts it in its place.
    ///
    /// # Errors
    /// Where it cannot be written or renamed.
    pub fn finish(mut self) -> Result<()> {
        self.abandon_experiment()?;
        let (kind, headline) = (self.spec.service_kind.to_lowercase(), self.spec.headline);
        self.write(|out| {
            write!(out, "],\"version\":\"{}\",\"service_kind\":", env!("CARGO_PKG_VERSION"))?;
            tensor::string(out, &kind)?;
            write!(out, ",\"endpoint\":\"\",\"latency\":\"{}\"}}", headline.word())
        })?;
        self.file.finish().map_err(|error| failed(&self.spec.path, &error))
    }

    fn write(&mut self, act: impl FnOnce(&mut SafeFile) -> io::Result<()>) -> Result<()> {
        act(&mut self.file).map_err(|error| failed(&self.spec.path, &error))
    }

    /// A payload's inputs as a JSON object.
    fn inputs(&mut self, id: PayloadId) -> Arc<[u8]> {
        if let Some(text) = self.inputs.get(&id) {
            return Arc::clone(text);
        }
        let text: Arc<[u8]> = encode_inputs(self.spec.payloads.get(id.0 as usize)).into();
        if self.cached_bytes + text.len() <= INPUT_CACHE_BYTES {
            self.cached_bytes += text.len();
            self.inputs.insert(id, Arc::clone(&text));
        }
        text
    }
}

fn failed(path: &Path, error: &io::Error) -> Error {
    Error::output(format!(
        "--profile-export-file {}: cannot be written: {error}; free space or name another file",
        path.display()
    ))
}

/// Inputs whose memory cannot be read (a device that went away) show as `""`.
fn encode_inputs(payload: Option<&Payload>) -> Vec<u8> {
    let mut text = vec![b'{'];
    for (index, input) in payload.map_or(&[][..], |payload| &payload.inputs).iter().enumerate() {
        let bytes = input.region.bytes(input.offset, input.len).unwrap_or_default();
        let written =
            key(&mut text, index == 0, &input.name).and_then(|()| tensor::write(&mut text, input.datatype, &bytes));
        debug_assert!(written.is_ok(), "writing to memory does not fail");
    }
    text.push(b'}');
    text
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
    stamps(out, spec.anchor, record.responses.iter().map(|response| response.at))?;
    out.write_all(b"],\"response_outputs\":[")?;
    for (index, response) in record.responses.iter().enumerate() {
        if index > 0 {
            out.write_all(b",")?;
        }
        outputs(out, spec, response)?;
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

fn outputs(out: &mut impl Write, spec: &ExportSpec, response: &RawResponse) -> io::Result<()> {
    out.write_all(b"{")?;
    for (index, output) in response.outputs.iter().enumerate() {
        key(out, index == 0, &output.name)?;
        tensor::write(out, output.datatype, &output.bytes)?;
    }
    if response.outputs.is_empty() {
        for (index, name) in spec.outputs.iter().enumerate() {
            key(out, index == 0, name)?;
            out.write_all(b"\"\"")?;
        }
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
