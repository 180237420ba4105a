//! Compares outputs with the expected ones on a separate thread: the server's callbacks only copy them. Requests to
//! be exported pass through here first, because a mismatch makes a failure of them.

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use crossbeam::channel::{Sender, bounded};

use crate::backend::InferError;
use crate::data::{OutputView, Payload, Tolerance, validate};
use crate::error::{Error, Result};
use crate::inbox::{Inbox, Outbox, Received, inbox};
use crate::observe::load::ObservedLoad;
use crate::record::{RawRecord, RecordPool, Source};

/// A successful request to be checked.
pub struct Check {
    /// Its load.
    pub load: Arc<ObservedLoad>,
    /// The request and its responses.
    pub record: Box<RawRecord>,
}

enum Event {
    /// Answered when everything before it has been checked.
    Settle(Sender<()>),
    /// No further checks matter, even if somebody still holds a sender.
    End,
}

/// The sending side of the validator's queue.
pub struct Checks {
    outbox: Outbox<Check, Event>,
}

impl Checks {
    /// Hands over a request to be checked: neither waits nor allocates.
    ///
    /// # Errors
    /// The check, if there is no room for it; there is room for all records of the pool.
    pub fn give(&self, check: Check) -> Result<(), Check> {
        self.outbox.give(check)
    }
}

/// What outputs are held against.
pub struct Expectations {
    /// The payloads, with the outputs that they expect.
    pub payloads: Arc<[Payload]>,
    /// How far floating-point outputs may be off; exact without one.
    pub tolerance: Option<Tolerance>,
}

/// The thread that compares.
pub struct Validator {
    outbox: Outbox<Check, Event>,
    thread: JoinHandle<()>,
}

impl Validator {
    /// Starts it. Records come from `pool`, and go back there unless they are exported.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn start(expected: Expectations, pool: Arc<RecordPool>) -> Result<Self> {
        let (outbox, inbox) = inbox(pool.most_records());
        let thread = thread::Builder::new()
            .name("validation".to_owned())
            .spawn(move || check_all(inbox, &expected, &pool))
            .map_err(|error| Error::machine(format!("cannot start the thread that validates outputs: {error}")))?;
        Ok(Self { outbox, thread })
    }

    /// A sender to it.
    pub fn checks(&self) -> Checks {
        Checks { outbox: self.outbox.clone() }
    }

    /// Waits until everything that was handed over has been checked.
    pub fn settle(&self) {
        let (answer, answered) = bounded(1);
        if self.outbox.send(Event::Settle(answer)) {
            let _ = answered.recv();
        }
    }

    /// Ends it.
    pub fn finish(self) {
        self.outbox.send(Event::End);
        drop(self.thread.join());
    }
}

fn check_all(inbox: Inbox<Check, Event>, expected: &Expectations, pool: &RecordPool) {
    let Expectations { payloads, tolerance } = expected;
    for received in inbox {
        match received {
            Received::Item(Check { load, mut record }) => {
                let payload = &payloads[record.payload.0 as usize];
                let carrying = record.responses().filter(|response| !response.empty);
                let responses: Vec<Vec<OutputView<'_>>> =
                    carrying.map(|response| response.outputs().collect()).collect();
                if let Err(mismatch) = validate(payload, &responses, *tolerance) {
                    let error = InferError::new("Validation", mismatch.to_string());
                    let part = load.recorder.spec().part(payload.model, record.server);
                    let source = Source { writer: 0, part };
                    let start = record.intended.unwrap_or(record.sent);
                    load.recorder.mismatch(source, start, record.end, &error);
                    record.failure = error.code.to_string();
                }
                load.export(record, pool);
            }
            Received::Event(Event::Settle(answer)) => drop(answer.send(())),
            Received::Event(Event::End) => return,
        }
    }
}
