//! Observers of every request: the profile export and output validation. Both copy responses and do their work on threads
//! of their own.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use crate::app::validation::{Check, Checks, Validator};
use crate::backend::Response;
use crate::clock::Stamp;
use crate::data::{OutputValues, Payload, Tolerance};
use crate::error::Result;
use crate::load::{LoadReport, PeriodicStage};
use crate::measure::summary::{LevelLoad, LevelSummary, RunSummary};
use crate::record::{Finished, Observer, RawRecord, RawResponse, Recorder};
use crate::report::export::{ExperimentEnd, ExportStream, RecordSender, figures};
use crate::stdio::note;

/// The observers of a run.
pub struct Observers {
    export: Option<ExportStream>,
    validator: Option<Validator>,
}

impl Observers {
    /// Starts those that are wanted; `None` if none is.
    ///
    /// # Errors
    /// Where a thread cannot be started.
    pub fn start(
        export: Option<ExportStream>,
        expectations: Option<(Arc<[Payload]>, Option<Tolerance>)>,
    ) -> Result<Option<Self>> {
        let validator = expectations.map(|(payloads, tolerance)| Validator::start(payloads, tolerance)).transpose()?;
        Ok((export.is_some() || validator.is_some()).then_some(Self { export, validator }))
    }

    /// An observer for the load of the level that has begun, which records into `recorder`; before a level begins, one for
    /// its warm-up.
    pub fn of_level(&self, recorder: &Arc<Recorder>) -> Arc<dyn Observer> {
        self.observer(recorder, ExportStream::sender)
    }

    /// An observer for the load of the level that begins next.
    pub fn of_next_level(&self, recorder: &Arc<Recorder>) -> Arc<dyn Observer> {
        self.observer(recorder, ExportStream::next_sender)
    }

    fn observer(&self, recorder: &Arc<Recorder>, sender: fn(&ExportStream) -> RecordSender) -> Arc<dyn Observer> {
        Arc::new(LevelObserver {
            lanes: RwLock::default(),
            export: self.export.as_ref().map(sender),
            checks: self.validator.as_ref().map(Validator::checks),
            recorder: Arc::clone(recorder),
        })
    }

    /// A level begins: its requests are exported from here on.
    pub fn begin(&self, load: LevelLoad) {
        if let Some(export) = &self.export {
            export.begin_experiment(load);
        }
    }

    /// A level is over; its windows had these boundaries. Waits until its requests have been validated.
    pub fn end(&self, boundaries: Vec<Stamp>, level: &LevelSummary, run: &RunSummary) {
        self.end_with(|| ExperimentEnd {
            boundaries: Some(boundaries),
            figures: figures::level(level, run.headline, &run.entries),
        });
    }

    /// A periodic load is over, which has no windows.
    pub fn end_periodic(&self, stages: &[PeriodicStage], requests: &LoadReport) {
        self.end_with(|| ExperimentEnd { boundaries: None, figures: figures::periodic(stages, requests) });
    }

    fn end_with(&self, end: impl FnOnce() -> ExperimentEnd) {
        if let Some(export) = &self.export {
            self.settle();
            export.end_experiment(end());
        }
    }

    /// Waits until every response that was handed over has been validated.
    pub fn settle(&self) {
        if let Some(validator) = &self.validator {
            validator.settle();
        }
    }

    /// Completes the export's file.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn finish(self) -> Result<()> {
        self.close(ExportStream::finish)
    }

    /// The same after an error: a file without any request is left out.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn give_up(self) -> Result<()> {
        self.close(ExportStream::give_up)
    }

    fn close(self, complete: fn(ExportStream) -> Result<()>) -> Result<()> {
        if let Some(validator) = self.validator {
            validator.finish();
        }
        let Some(export) = self.export else { return Ok(()) };
        if export.stalls() > 0 {
            note!(
                "--profile-export-file: {} requests waited for the file to be written, which slowed the load down",
                export.stalls()
            );
        }
        complete(export)
    }
}

/// Responses of a request that is under way, copied.
type Lane = Arc<Mutex<Vec<Copied>>>;

struct Copied {
    at: Stamp,
    empty: bool,
    outputs: Vec<OutputValues>,
}

struct LevelObserver {
    lanes: RwLock<HashMap<usize, Lane>>,
    export: Option<RecordSender>,
    checks: Option<Checks>,
    recorder: Arc<Recorder>,
}

impl LevelObserver {
    fn lane(&self, lane: usize) -> Lane {
        if let Some(known) = self.lanes.read().get(&lane) {
            return Arc::clone(known);
        }
        Arc::clone(self.lanes.write().entry(lane).or_default())
    }
}

impl Observer for LevelObserver {
    fn response(&self, lane: usize, response: &Response<'_>) {
        let mut outputs = Vec::new();
        response.outputs.visit(&mut |output| outputs.push(output.to_values()));
        self.lane(lane).lock().push(Copied { at: response.at, empty: response.empty, outputs });
    }

    fn complete(&self, lane: usize, finished: &Finished<'_>) {
        let copies = mem::take(&mut *self.lane(lane).lock());
        let record = || RawRecord {
            sent: finished.sent,
            intended: finished.intended,
            sequence_id: finished.request.sequence.map_or(0, |position| position.id),
            payload: finished.request.payload,
            responses: copies.iter().map(raw).collect(),
            failed: finished.error.is_some(),
        };
        let export = self.export.clone().map(|export| (export, record()));
        if let (Some(checks), None) = (&self.checks, finished.error) {
            let responses = copies.into_iter().filter(|copy| !copy.empty).map(|copy| copy.outputs).collect();
            checks.send(Check {
                payload: finished.request.payload,
                end: finished.end,
                responses,
                recorder: Arc::clone(&self.recorder),
                export,
            });
        } else if let Some((export, record)) = export {
            export.send(record);
        }
    }
}

fn raw(copied: &Copied) -> RawResponse {
    let outputs = copied.outputs.iter().map(|output| crate::record::OwnedOutput {
        name: output.name.to_string(),
        datatype: output.datatype,
        bytes: output.bytes.clone(),
    });
    RawResponse { at: copied.at, outputs: outputs.collect() }
}
