//! Observers of every request: the files of requests and output validation. Requests are copied where they complete, and go
//! from there to the validator's thread, then to the export's.

mod load;
mod validator;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::clock::Stamp;
use crate::error::Result;
use crate::observe::load::ObservedLoad;
use crate::observe::validator::{Check, Checks, Validator};
use crate::record::{Capture, Destination, Finished, Observer, RawRecord, RecordPool, Recorder};
use crate::record::{LoadReport, PeriodicBatch};
use crate::report::console;
use crate::report::export::{ExperimentEnd, ExportStream, Needs, RequestFile, figures};
use crate::result::Setup;
use crate::result::number::counted;
use crate::result::summary::{Ending, LevelLoad, LevelSummary};
use crate::stdio::note;

pub use crate::observe::validator::Expectations;

/// A level that is over.
struct EndedLevel {
    load: LevelLoad,
    batch_size: u64,
    /// Its number among the levels that have begun, from 1.
    number: u64,
}

/// The observers of a run.
pub struct Observers {
    pool: Arc<RecordPool>,
    export: Option<ExportStream>,
    validator: Option<Validator>,
    /// Number of levels that have begun.
    begun: AtomicU64,
    /// Levels whose experiments count.
    ended: Mutex<Vec<EndedLevel>>,
    /// The load of the open level; `None` between levels.
    open: Mutex<Option<LevelLoad>>,
    /// All observed loads; those of levels until these have ended.
    observed: Mutex<Vec<Arc<ObservedLoad>>>,
    /// Remarks that the report has not printed yet.
    remarks: Mutex<String>,
}

impl Observers {
    /// Starts the observers that the plan asks for; `None` if there are none. Copies of requests on their way to them
    /// take no more than about `most_bytes`.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn start(
        files: Vec<Box<dyn RequestFile>>,
        expectations: Option<Expectations>,
        most_bytes: usize,
    ) -> Result<Option<Self>> {
        if files.is_empty() && expectations.is_none() {
            return Ok(None);
        }
        let pool = Arc::new(RecordPool::new(most_bytes));
        let validator = expectations.map(|expected| Validator::start(expected, Arc::clone(&pool))).transpose()?;
        let export = (!files.is_empty()).then(|| ExportStream::start(files, Arc::clone(&pool))).transpose()?;
        Ok(Some(Self {
            pool,
            export,
            validator,
            begun: AtomicU64::new(0),
            ended: Mutex::default(),
            open: Mutex::default(),
            observed: Mutex::default(),
            remarks: Mutex::default(),
        }))
    }

    /// An observer for the load of the current level, which records into `recorder`; between levels, one for a load
    /// that is not exported.
    pub fn of_level(&self, recorder: &Arc<Recorder>) -> Arc<dyn Observer> {
        let level = if self.open.lock().is_some() { self.begun.load(Ordering::Relaxed) } else { 0 };
        self.observer(recorder, level)
    }

    /// An observer for the load of a stage, by its number from 0. It is prepared before the previous stage has ended;
    /// the stages are all the levels of their run.
    pub fn of_stage(&self, recorder: &Arc<Recorder>, number: usize) -> Arc<dyn Observer> {
        self.observer(recorder, number as u64 + 1)
    }

    fn observer(&self, recorder: &Arc<Recorder>, level: u64) -> Arc<dyn Observer> {
        let export = self.export.as_ref().filter(|_| level > 0).map(ExportStream::queue);
        let load = Arc::new(ObservedLoad::new(level, Arc::clone(recorder), export));
        self.observed.lock().push(Arc::clone(&load));
        let checks = self.validator.as_ref().map(Validator::checks);
        let needs = self.export.as_ref().map_or(Needs::NOTHING, ExportStream::needs);
        let destination = Threads { load, checks, needs, pool: Arc::clone(&self.pool) };
        Arc::new(Capture::new(Arc::clone(&self.pool), destination))
    }

    /// A level begins: its requests are exported from here on.
    pub fn begin(&self, load: LevelLoad) {
        self.begun.fetch_add(1, Ordering::Relaxed);
        *self.open.lock() = Some(load);
        if let Some(export) = &self.export {
            export.begin_experiment(load);
        }
    }

    /// A level is over; its windows had these boundaries. Waits until its requests have been validated. One that was measured
    /// again takes the place of the earlier one, or is left out, as in the reports.
    pub fn end(&self, boundaries: Vec<Stamp>, level: &LevelSummary, setup: &Setup) {
        let earlier = self.earlier(level, setup);
        if earlier.is_some() && (level.ending == Ending::Interrupted || level.client.requests == 0) {
            return self.discard();
        }
        self.end_with(Some(boundaries), || figures::level(level, setup));
        if let (Some(earlier), Some(export)) = (earlier, &self.export) {
            export.replace_experiment(earlier);
        }
        let number = self.begun.load(Ordering::Relaxed);
        let ended = EndedLevel { load: level.load, batch_size: level.client.batch_size, number };
        let mut all = self.ended.lock();
        all.retain(|level| Some(level.number) != earlier);
        all.push(ended);
    }

    /// The number of the level that this one is another measurement of. Stages may have one load several times; of a range or a
    /// sweep no load comes twice.
    fn earlier(&self, level: &LevelSummary, setup: &Setup) -> Option<u64> {
        let is_same = |other: &&EndedLevel| other.load == level.load && other.batch_size == level.client.batch_size;
        let repeats = setup.mode.stages().is_empty();
        self.ended.lock().iter().find(is_same).filter(|_| repeats).map(|level| level.number)
    }

    /// A level is over of which nothing was measured: its requests are in no file, as far as these can be cut.
    pub fn discard(&self) {
        self.settle();
        self.take_losses();
        self.open.lock().take();
        if let Some(export) = &self.export {
            export.discard_experiment();
        }
    }

    /// A periodic load is over, which has no windows.
    pub fn end_periodic(&self, batches: &[PeriodicBatch], requests: &LoadReport) {
        self.end_with(None, || figures::periodic(batches, requests));
    }

    fn end_with(&self, boundaries: Option<Vec<Stamp>>, figures: impl FnOnce() -> serde_json::Value) {
        self.settle();
        let (missing, unvalidated) = self.take_losses();
        if let Some(load) = self.open.lock().take() {
            for line in console::losses(load, missing, unvalidated) {
                note!("{line}");
                *self.remarks.lock() += &format!("  {line}\n");
            }
        }
        if let Some(export) = &self.export {
            export.end_experiment(ExperimentEnd { boundaries, figures: figures(), missing });
        }
    }

    /// Takes the counts for the ending level: requests that were not exported, and requests that were not validated.
    fn take_losses(&self) -> (u64, u64) {
        let level = self.begun.load(Ordering::Relaxed);
        let (ended, others) =
            std::mem::take(&mut *self.observed.lock()).into_iter().partition(|load| load.level == level);
        *self.observed.lock() = others;
        let ended: Vec<Arc<ObservedLoad>> = ended;
        (ended.iter().map(|load| load.missing()).sum(), ended.iter().map(|load| load.unvalidated()).sum())
    }

    /// Takes the report's remarks on the levels that have ended since the last call.
    pub fn take_remarks(&self) -> String {
        std::mem::take(&mut self.remarks.lock())
    }

    /// Waits until every response that was handed over has been validated.
    pub fn settle(&self) {
        if let Some(validator) = &self.validator {
            validator.settle();
        }
    }

    /// Completes the files.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(self) -> Result<()> {
        self.close(ExportStream::finish)
    }

    /// Like [`Observers::finish`], after an error: a file without any request is removed.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn give_up(self) -> Result<()> {
        self.close(ExportStream::give_up)
    }

    fn close(self, complete: fn(ExportStream) -> Result<()>) -> Result<()> {
        if let Some(validator) = self.validator {
            validator.finish();
        }
        let loads = self.observed.into_inner();
        let missing: u64 = loads.iter().map(|load| load.missing()).sum();
        let unvalidated: u64 = loads.iter().map(|load| load.unvalidated()).sum();
        if missing + unvalidated > 0 {
            let verb = if missing == 1 { "is" } else { "are" };
            let missing = counted(missing, "request");
            note!("of loads that no level shows, {missing} {verb} not exported, {unvalidated} not validated");
        }
        self.export.map_or(Ok(()), complete)
    }
}

/// The queues to the observers' threads.
struct Threads {
    load: Arc<ObservedLoad>,
    checks: Option<Checks>,
    needs: Needs,
    pool: Arc<RecordPool>,
}

impl Destination for Threads {
    fn wants(&self, finished: &Finished<'_>) -> bool {
        match finished.error {
            None => self.checks.is_some() || self.load.is_exported(),
            Some(_) => self.needs.failures && self.load.is_exported(),
        }
    }

    fn wants_contents(&self) -> bool {
        self.checks.is_some() || self.needs.contents
    }

    fn take(&self, finished: &Finished<'_>, record: Box<RawRecord>) {
        let checks = self.checks.as_ref().filter(|_| finished.error.is_none());
        let Some(checks) = checks else { return self.load.export(record, &self.pool) };
        if let Err(check) = checks.give(Check { load: Arc::clone(&self.load), record }) {
            self.pool.give_back(check.record);
            self.lost(finished);
        }
    }

    fn lost(&self, finished: &Finished<'_>) {
        self.load.lose(self.checks.is_some() && finished.error.is_none());
    }
}

#[cfg(test)]
mod tests;
