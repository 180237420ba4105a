//! The export on a thread of its own, so that formatting and the disk do not delay those who complete requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use crossbeam::channel::{Receiver, Sender, TrySendError, bounded};

use crate::error::{Error, Result};
use crate::measure::summary::LevelLoad;
use crate::record::RawRecord;
use crate::report::export::{ExperimentEnd, ExportWriter};

/// Memory that records on their way may take together.
const QUEUE_BYTES: usize = 64 << 20;

/// Fewest and most records on their way.
const QUEUE_RECORDS: (usize, usize) = (16, 65_536);

enum Event {
    Begin(LevelLoad),
    /// A record of the experiment with that number; the first has 1.
    Record(u64, RawRecord),
    End(ExperimentEnd),
    /// The file is to be completed, even if somebody still holds a way to send records: the server may never give back a
    /// request that it has.
    Finish,
    /// The same after an error, where a file without requests is left out.
    GiveUp,
}

/// An export that is being written by its own thread.
#[derive(Debug)]
pub struct ExportStream {
    sender: RecordSender,
    /// How many experiments have begun.
    begun: AtomicU64,
    thread: JoinHandle<Result<()>>,
}

/// Where completing threads put their records.
#[derive(Clone, Debug)]
pub struct RecordSender {
    /// Number of the experiment that its records belong to.
    experiment: u64,
    events: Sender<Event>,
    stalls: Arc<AtomicU64>,
}

impl RecordSender {
    /// Hands over a record. Waits where the writer is a whole queue behind, rather than lose the record or let memory
    /// grow; such waits are counted.
    pub fn send(&self, record: RawRecord) {
        match self.events.try_send(Event::Record(self.experiment, record)) {
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
        let sender = RecordSender { experiment: 0, events, stalls: Arc::default() };
        Ok(Self { sender, begun: AtomicU64::new(0), thread })
    }

    /// Where records of the open experiment go; between experiments, and after [`ExportStream::finish`], records that are
    /// left out.
    pub fn sender(&self) -> RecordSender {
        RecordSender { experiment: self.begun.load(Ordering::Relaxed), ..self.sender.clone() }
    }

    /// Where records of the experiment go that begins next. Those that come before it has begun are kept.
    pub fn next_sender(&self) -> RecordSender {
        RecordSender { experiment: self.begun.load(Ordering::Relaxed) + 1, ..self.sender.clone() }
    }

    /// Starts the experiment of a level.
    pub fn begin_experiment(&self, load: LevelLoad) {
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.sender.put(Event::Begin(load));
    }

    /// Ends the experiment. Records that come later are left out.
    pub fn end_experiment(&self, end: ExperimentEnd) {
        self.sender.put(Event::End(end));
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
        self.close(Event::Finish)
    }

    /// The same after an error: a file without any request is left out.
    ///
    /// # Errors
    /// The first error of the writer.
    pub fn give_up(self) -> Result<()> {
        self.close(Event::GiveUp)
    }

    fn close(self, how: Event) -> Result<()> {
        self.sender.put(how);
        self.thread.join().unwrap_or_else(|_| Err(Error::output("the thread that writes the export has failed")))
    }
}

fn run(mut writer: ExportWriter, events: &Receiver<Event>) -> Result<()> {
    let (mut begun, mut early) = (0, Vec::new());
    for event in events {
        match event {
            Event::Begin(load) => {
                begun += 1;
                writer.begin_experiment(load)?;
                early.drain(..).try_for_each(|record| writer.record(&record))?;
            }
            Event::Record(experiment, record) if experiment == begun => writer.record(&record)?,
            // The load of the next experiment has started beside the end of this one.
            Event::Record(experiment, record) if experiment > begun => early.push(record),
            Event::Record(..) => {}
            Event::End(end) => writer.end_experiment(&end)?,
            Event::Finish => break,
            Event::GiveUp => return writer.give_up(),
        }
    }
    writer.finish()
}
