//! `--profile-export-file`: every request as JSON, in upstream's keys and order, written while the run goes on.
//!
//! Nothing is held but the inputs' text (up to a bound), so a run of any length takes the same memory. What differs from
//! upstream: numbers that JSON lacks are `null` instead of ending the file, half-precision numbers are numbers, a BYTES
//! tensor of several elements is a list of strings, all items of a batch are there, and in open loops each request ends
//! with `intended_timestamp`, in a mix with `model`. An experiment ends with `summary`: what the level came to. The file ends with
//! `latency`: what the report's latency is. Requests that failed are left out, as readers take every request for a success.

pub mod figures;
mod gathered;
mod stream;
mod tensor;

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use crate::clock::{Stamp, WallAnchor};
use crate::data::{Payload, PayloadId};
use crate::error::{Error, Result};
use crate::measure::summary::{Headline, LevelLoad};
use crate::record::{RawRecord, RawResponse};
use crate::report::export::gathered::{Gathered, Mark};
use crate::report::{Interrupts, SafeFile};

pub use stream::{ExportStream, RecordSender};

/// Bytes of encoded inputs that are kept for the next request with the same payload.
const INPUT_CACHE_BYTES: usize = 16 << 20;

/// How an experiment ends of which nobody told how it ended.
const ABANDONED: &[u8] = b"],\"window_boundaries\":[],\"summary\":null}";

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
    /// Interrupts, which end the wait for the reader of a pipe.
    pub interrupts: Interrupts,
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
///
/// Where the disk is full, the file is completed with the records that are in it, and every later call repeats the error.
#[derive(Debug)]
pub struct ExportWriter {
    spec: ExportSpec,
    /// Absent once it is complete or has failed.
    file: Option<Gathered>,
    failure: Option<Error>,
    inputs: HashMap<PayloadId, Arc<[u8]>>,
    cached_bytes: usize,
    experiments: u64,
    /// Requests of the open experiment; `None` between experiments.
    requests: Option<u64>,
    /// Requests of all experiments.
    all_requests: u64,
}

impl ExportWriter {
    /// Opens a file out of sight.
    ///
    /// # Errors
    /// Where that file cannot be made.
    pub fn create(spec: ExportSpec) -> Result<Self> {
        let file = SafeFile::create(&spec.path, spec.interrupts).map_err(|error| failed(&spec.path, &error, ""))?;
        let mut writer = Self {
            spec,
            file: Some(Gathered::new(file)),
            failure: None,
            inputs: HashMap::new(),
            cached_bytes: 0,
            experiments: 0,
            requests: None,
            all_requests: 0,
        };
        writer.write(|out| out.write_all(b"{\"experiments\":["))?;
        Ok(writer)
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
        self.all_requests += 1;
        let inputs = self.inputs(record.payload);
        let mark = self.mark();
        let Self { spec, file: Some(file), .. } = self else { return self.failed_before() };
        let written = write_record(file, spec, record, &inputs, first);
        written.map(|()| file.mark(mark)).map_err(|error| self.fail(&error))
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
        if self.requests.take().is_none() {
            return Ok(());
        }
        self.write(|out| out.write_all(ABANDONED))
    }

    /// Completes the file after an error; one without any request is left out, and what was there before stays.
    ///
    /// # Errors
    /// As [`ExportWriter::finish`].
    pub fn give_up(self) -> Result<()> {
        if self.all_requests > 0 { self.finish() } else { Ok(()) }
    }

    /// Completes the file and puts it in its place.
    ///
    /// # Errors
    /// Where it cannot be written or renamed.
    pub fn finish(mut self) -> Result<()> {
        self.abandon_experiment()?;
        let ending = self.ending();
        self.write(|out| out.write_all(&ending).and_then(|()| out.pass_on()))?;
        let Some(file) = self.file.take() else { return self.failed_before() };
        file.into_file().finish().map_err(|error| failed(&self.spec.path, &error, ""))
    }

    /// What the file ends with.
    fn ending(&self) -> Vec<u8> {
        let (version, kind) = (env!("CARGO_PKG_VERSION"), Value::from(self.spec.service_kind.to_lowercase()));
        let latency = self.spec.headline.word();
        let keys =
            format!("\"version\":\"{version}\",\"service_kind\":{kind},\"endpoint\":\"\",\"latency\":\"{latency}\"");
        format!("],{keys}}}").into_bytes()
    }

    /// The state in which the file would be complete with what is behind it now.
    fn mark(&self) -> Mark {
        Mark { at: 0, open: self.requests.is_some(), requests: self.all_requests }
    }

    /// Writes whole parts.
    fn write(&mut self, act: impl FnOnce(&mut Gathered) -> io::Result<()>) -> Result<()> {
        let mark = self.mark();
        let Some(file) = &mut self.file else { return self.failed_before() };
        match act(file) {
            Ok(()) => {
                file.mark(mark);
                Ok(())
            }
            Err(error) => Err(self.fail(&error)),
        }
    }

    fn failed_before(&self) -> Result<()> {
        self.failure.clone().map_or(Ok(()), Err)
    }

    /// Keeps what is in the file where it cannot take more, and says so.
    fn fail(&mut self, error: &io::Error) -> Error {
        let kept = self.file.take().and_then(|file| {
            let ending = self.ending();
            let closed = |mark: &Mark| [if mark.open { ABANDONED } else { b"" }, &ending].concat();
            file.close_early(closed)
        });
        let kept = match kept {
            Some(requests) => format!("; the {requests} requests that were written before are in it"),
            None => String::new(),
        };
        let error = failed(&self.spec.path, error, &kept);
        self.failure = Some(error.clone());
        error
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

fn failed(path: &Path, error: &io::Error, kept: &str) -> Error {
    Error::output(format!(
        "--profile-export-file {}: cannot be written: {error}{kept}; free space or name another file",
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
