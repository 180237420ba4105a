//! Writes files of requests on a separate thread, so that formatting and the disk do not delay the threads that complete
//! requests.

use std::sync::Arc;
use std::thread::JoinHandle;

use crate::error::{Error, Result};
use crate::export::{ExperimentEnd, Needs, RequestFile};
use crate::inbox::{Inbox, Outbox, Received, inbox};
use crate::record::{RawRecord, RecordPool};
use crate::result::summary::LevelLoad;
use crate::stdio::note;

/// A file, and why nothing more is written into it.
struct Writing {
    file: Box<dyn RequestFile>,
    error: Option<Error>,
}

/// A record and the number of its experiment, from 1.
type Entry = (u64, Box<RawRecord>);

enum Event {
    Begin(LevelLoad),
    End(ExperimentEnd),
    Replace(u64),
    Discard,
    /// The file is to be completed, even if somebody still holds a sender: the server may never return a request.
    Finish,
    /// The same after an error, where a file without requests is removed.
    GiveUp,
}

/// Files of requests written by their own thread.
pub struct ExportStream {
    needs: Needs,
    outbox: Outbox<Entry, Event>,
    thread: JoinHandle<Result<()>>,
}

/// Where completing threads put their records.
#[derive(Clone)]
pub struct ExportQueue {
    outbox: Outbox<Entry, Event>,
}

impl ExportQueue {
    /// Hands over a record of the experiment with that number, which may be the next to begin: neither waits nor
    /// allocates. Records of experiments that have ended are dropped.
    ///
    /// # Errors
    /// The record, if there is no room for it; there is room for all records of the pool.
    pub fn give(&self, experiment: u64, record: Box<RawRecord>) -> Result<(), Box<RawRecord>> {
        self.outbox.give((experiment, record)).map_err(|(_, record)| record)
    }
}

impl ExportStream {
    /// Starts the thread. Records come from `pool` and go back there.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start(files: Vec<Box<dyn RequestFile>>, pool: Arc<RecordPool>) -> Result<Self> {
        let (outbox, inbox) = inbox(pool.most_records());
        let some = |need: fn(Needs) -> bool| files.iter().any(|file| need(file.needs()));
        let needs = Needs { contents: some(|needs| needs.contents), failures: some(|needs| needs.failures) };
        let files = files.into_iter().map(|file| Writing { file, error: None }).collect();
        let writer = Writer { files, pool, begun: 0, early: Vec::new() };
        let thread = std::thread::Builder::new()
            .name("export".to_owned())
            .spawn(move || writer.run(inbox))
            .map_err(|error| Error::machine(format!("cannot start the thread that writes the export: {error}")))?;
        Ok(Self { needs, outbox, thread })
    }

    /// What the files need of requests.
    pub fn needs(&self) -> Needs {
        self.needs
    }

    /// The queue for records.
    pub fn queue(&self) -> ExportQueue {
        ExportQueue { outbox: self.outbox.clone() }
    }

    /// Starts the experiment of a level.
    pub fn begin_experiment(&self, load: LevelLoad) {
        self.outbox.send(Event::Begin(load));
    }

    /// Ends the experiment. Later records are dropped.
    pub fn end_experiment(&self, end: ExperimentEnd) {
        self.outbox.send(Event::End(end));
    }

    /// The experiment that has just ended takes the place of an earlier one, by the number with which that began, from 1.
    pub fn replace_experiment(&self, earlier: u64) {
        self.outbox.send(Event::Replace(earlier));
    }

    /// Leaves the experiment out of the files, because nothing of it was measured. Later records are dropped.
    pub fn discard_experiment(&self) {
        self.outbox.send(Event::Discard);
    }

    /// Waits until everything is written and moves the files to their paths.
    ///
    /// # Errors
    /// What could not be written.
    pub fn finish(self) -> Result<()> {
        self.close(Event::Finish)
    }

    /// The same after an error: a file without any request is removed.
    ///
    /// # Errors
    /// What could not be written.
    pub fn give_up(self) -> Result<()> {
        self.close(Event::GiveUp)
    }

    fn close(self, how: Event) -> Result<()> {
        self.outbox.send(how);
        self.thread.join().unwrap_or_else(|_| Err(Error::output("the thread that writes the export has failed")))
    }
}

/// The writing thread.
struct Writer {
    files: Vec<Writing>,
    pool: Arc<RecordPool>,
    begun: u64,
    /// Records of experiments that have not begun here: a load starts during the end of the one before, and records may
    /// overtake events.
    early: Vec<Entry>,
}

impl Writer {
    fn run(mut self, inbox: Inbox<Entry, Event>) -> Result<()> {
        for received in inbox {
            match received {
                Received::Item((experiment, record)) => self.record(experiment, record),
                Received::Event(Event::Begin(load)) => self.begin(load),
                Received::Event(Event::End(end)) => self.each(|file| file.end_experiment(&end)),
                Received::Event(Event::Replace(earlier)) => self.each(|file| file.replace_experiment(earlier)),
                Received::Event(Event::Discard) => self.each(|file| file.discard_experiment()),
                Received::Event(Event::Finish) => break,
                Received::Event(Event::GiveUp) => return self.complete(|file| file.give_up()),
            }
        }
        self.complete(|file| file.finish())
    }

    /// Writes to every file that could be written so far.
    fn each(&mut self, write: impl Fn(&mut dyn RequestFile) -> Result<()>) {
        for Writing { file, error } in self.files.iter_mut().filter(|writing| writing.error.is_none()) {
            if let Err(failed) = write(file.as_mut()) {
                note!("{failed}; the load goes on without it");
                *error = Some(failed);
            }
        }
    }

    fn begin(&mut self, load: LevelLoad) {
        self.begun += 1;
        self.each(|file| file.begin_experiment(load));
        for (experiment, record) in std::mem::take(&mut self.early) {
            self.record(experiment, record);
        }
    }

    fn record(&mut self, experiment: u64, record: Box<RawRecord>) {
        if experiment > self.begun && self.files.iter().any(|writing| writing.error.is_none()) {
            self.early.push((experiment, record));
            return;
        }
        if experiment == self.begun {
            self.each(|file| file.record(&record));
        }
        self.pool.give_back(record);
    }

    fn complete(self, how: fn(Box<dyn RequestFile>) -> Result<()>) -> Result<()> {
        let completed = self.files.into_iter().map(|Writing { file, error }| match error {
            None => how(file),
            Some(error) => match file.keep(&error) {
                Some(0) => Err(error.advice("it holds no request")),
                Some(1) => Err(error.advice("it holds the first request")),
                Some(kept) => Err(error.advice(format_args!("it holds the first {kept} requests"))),
                None => Err(error.advice("nothing of it could be kept")),
            },
        });
        completed.fold(Ok(()), Error::both)
    }
}
