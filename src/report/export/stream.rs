//! The export on a thread of its own, so that formatting and the disk do not delay those who complete requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use crossbeam::channel::{Receiver, Sender, TrySendError, bounded};

use crate::clock::Stamp;
use crate::error::{Error, Result};
use crate::measure::summary::LevelLoad;
use crate::record::RawRecord;
use crate::report::export::ExportWriter;

/// Memory that records on their way may take together.
const QUEUE_BYTES: usize = 64 << 20;

/// Fewest and most records on their way.
const QUEUE_RECORDS: (usize, usize) = (16, 65_536);

enum Event {
    Begin(LevelLoad),
    Record(RawRecord),
    End(Vec<Stamp>),
}

/// An export that is being written by its own thread.
#[derive(Debug)]
pub struct ExportStream {
    sender: RecordSender,
    thread: JoinHandle<Result<()>>,
}

/// Where completing threads put their records.
#[derive(Clone, Debug)]
pub struct RecordSender {
    events: Sender<Event>,
    stalls: Arc<AtomicU64>,
}

impl RecordSender {
    /// Hands over a record. Waits where the writer is a whole queue behind, rather than lose the record or let memory
    /// grow; such waits are counted.
    pub fn send(&self, record: RawRecord) {
        match self.events.try_send(Event::Record(record)) {
            Ok(()) => {}
            Err(TrySendError::Full(event)) => {
                self.stalls.fetch_add(1, Ordering::Relaxed);
                self.put(event);
            }
            // The writer's own error is told by `finish`.
            Err(TrySendError::Disconnected(_)) => {}
        }
    }

    fn put(&self, event: Event) {
        // As above.
        let _ = self.events.send(event);
    }
}

impl ExportStream {
    /// Starts the thread. `record_bytes` is about the size of one record's outputs; it bounds the queue.
    ///
    /// # Errors
    /// Where no thread can be started.
    pub fn start(writer: ExportWriter, record_bytes: usize) -> Result<Self> {
        let capacity = (QUEUE_BYTES / record_bytes.max(1)).clamp(QUEUE_RECORDS.0, QUEUE_RECORDS.1);
        let (events, received) = bounded(capacity);
        let thread = std::thread::Builder::new()
            .name("export".to_owned())
            .spawn(move || run(writer, &received))
            .map_err(|error| Error::machine(format!("cannot start the thread that writes the export: {error}")))?;
        Ok(Self { sender: RecordSender { events, stalls: Arc::default() }, thread })
    }

    /// Where records go. Every clone must be dropped before [`ExportStream::finish`] can return.
    pub fn sender(&self) -> RecordSender {
        self.sender.clone()
    }

    /// Starts the experiment of a level.
    pub fn begin_experiment(&self, load: LevelLoad) {
        self.sender.put(Event::Begin(load));
    }

    /// Ends the experiment with the boundaries of its windows. Records that come later are left out.
    pub fn end_experiment(&self, boundaries: Vec<Stamp>) {
        self.sender.put(Event::End(boundaries));
    }

    /// How often someone had to wait for the writer: where not 0, the export has slowed the load.
    pub fn stalls(&self) -> u64 {
        self.sender.stalls.load(Ordering::Relaxed)
    }

    /// Waits until everything is written and puts the file in its place.
    ///
    /// # Errors
    /// The first error of the writer.
    pub fn finish(self) -> Result<()> {
        drop(self.sender);
        self.thread.join().unwrap_or_else(|_| Err(Error::output("the thread that writes the export has failed")))
    }
}

fn run(mut writer: ExportWriter, events: &Receiver<Event>) -> Result<()> {
    for event in events {
        match event {
            Event::Begin(load) => writer.begin_experiment(load)?,
            Event::Record(record) => writer.record(&record)?,
            Event::End(boundaries) => writer.end_experiment(&boundaries)?,
        }
    }
    writer.finish()
}
