//! Writes the export on a separate thread, so that formatting and the disk do not delay the threads that complete
//! requests.

use std::sync::Arc;
use std::thread::JoinHandle;

use crate::error::{Error, Result};
use crate::inbox::{Inbox, Outbox, Received, inbox};
use crate::record::{RawRecord, RecordPool};
use crate::report::export::{ExperimentEnd, ExportWriter};
use crate::result::summary::LevelLoad;
use crate::stdio::note;

/// A record and the number of its experiment, from 1.
type Entry = (u64, Box<RawRecord>);

enum Event {
    Begin(LevelLoad),
    End(ExperimentEnd),
    /// The file is to be completed, even if somebody still holds a sender: the server may never return a request.
    Finish,
    /// The same after an error, where a file without requests is removed.
    GiveUp,
}

/// An export written by its own thread.
pub struct ExportStream {
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
    pub fn start(writer: ExportWriter, pool: Arc<RecordPool>) -> Result<Self> {
        let (outbox, inbox) = inbox(pool.most_records());
        let writing = Writing { writer, pool, begun: 0, early: Vec::new(), error: None };
        let thread = std::thread::Builder::new()
            .name("export".to_owned())
            .spawn(move || writing.run(inbox))
            .map_err(|error| Error::machine(format!("cannot start the thread that writes the export: {error}")))?;
        Ok(Self { outbox, thread })
    }

    /// The queue for records.
    pub fn queue(&self) -> ExportQueue {
        ExportQueue { outbox: self.outbox.clone() }
    }

    /// Starts the experiment of a level.
    pub fn begin_experiment(&self, load: LevelLoad) {
        self.outbox.tell(Event::Begin(load));
    }

    /// Ends the experiment. Later records are dropped.
    pub fn end_experiment(&self, end: ExperimentEnd) {
        self.outbox.tell(Event::End(end));
    }

    /// Waits until everything is written and moves the file to its path.
    ///
    /// # Errors
    /// What kept the writer from writing everything.
    pub fn finish(self) -> Result<()> {
        self.close(Event::Finish)
    }

    /// The same after an error: a file without any request is removed.
    ///
    /// # Errors
    /// What kept the writer from writing everything.
    pub fn give_up(self) -> Result<()> {
        self.close(Event::GiveUp)
    }

    fn close(self, how: Event) -> Result<()> {
        self.outbox.tell(how);
        self.thread.join().unwrap_or_else(|_| Err(Error::output("the thread that writes the export has failed")))
    }
}

/// The writing thread.
struct Writing {
    writer: ExportWriter,
    pool: Arc<RecordPool>,
    begun: u64,
    /// Records of experiments that have not begun here: a load starts during the end of the one before, and records may
    /// overtake events.
    early: Vec<Entry>,
    /// Why nothing more is written.
    error: Option<Error>,
}

impl Writing {
    fn run(mut self, inbox: Inbox<Entry, Event>) -> Result<()> {
        for received in inbox {
            let written = match received {
                Received::Item((experiment, record)) => self.record(experiment, record),
                Received::Event(Event::Begin(load)) => self.begin(load),
                Received::Event(Event::End(end)) if self.error.is_none() => self.writer.end_experiment(&end),
                Received::Event(Event::End(_)) => Ok(()),
                Received::Event(Event::Finish) => break,
                Received::Event(Event::GiveUp) if self.error.is_none() => return self.writer.give_up(),
                Received::Event(Event::GiveUp) => break,
            };
            if let Err(error) = written {
                note!("{error}; the load goes on without the export");
                self.error = Some(error);
            }
        }
        self.complete()
    }

    fn begin(&mut self, load: LevelLoad) -> Result<()> {
        self.begun += 1;
        if self.error.is_none() {
            self.writer.begin_experiment(load)?;
        }
        let early = std::mem::take(&mut self.early);
        // All of them, so that each returns to the pool.
        early.into_iter().map(|(experiment, record)| self.record(experiment, record)).fold(Ok(()), Result::and)
    }

    fn record(&mut self, experiment: u64, record: Box<RawRecord>) -> Result<()> {
        if experiment > self.begun && self.error.is_none() {
            self.early.push((experiment, record));
            return Ok(());
        }
        let written =
            if experiment == self.begun && self.error.is_none() { self.writer.record(&record) } else { Ok(()) };
        self.pool.give_back(record);
        written
    }

    fn complete(self) -> Result<()> {
        let Some(error) = self.error else {
            return self.writer.finish();
        };
        match self.writer.keep(&error) {
            Some(kept) => Err(error.advice(format_args!("it holds the first {kept} requests"))),
            None => Err(error.advice("nothing of it could be kept")),
        }
    }
}
