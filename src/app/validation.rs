//! Compares outputs with what the data say they must be, on a thread of its own: the server's callbacks only copy them.
//! Where requests are exported, too, they go there from here, because only those that succeeded are exported.

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use crossbeam::channel::{Receiver, Sender, bounded, unbounded};
use parking_lot::{Condvar, Mutex};

use crate::backend::InferError;
use crate::clock::Stamp;
use crate::data::{OutputValues, Payload, PayloadId, Tolerance, validate};
use crate::error::{Error, Result};
use crate::record::{RawRecord, Recorder, Source};
use crate::report::export::RecordSender;
use crate::stdio::note;

/// Copies that wait to be compared may take so much memory; a request that would exceed it waits.
const MOST_BYTES: usize = 256 << 20;
/// What a waiting request takes besides its outputs, roughly.
const CHECK_BYTES: usize = 512;

/// A request that succeeded, to be checked.
pub struct Check {
    /// What it carried.
    pub payload: PayloadId,
    /// When it ended, as it was recorded.
    pub end: Stamp,
    /// Outputs of every response that carried data.
    pub responses: Vec<Vec<OutputValues>>,
    /// Where a mismatch is counted.
    pub recorder: Arc<Recorder>,
    /// Where it is exported, and as what.
    pub export: Option<(RecordSender, RawRecord)>,
}

impl Check {
    fn bytes(&self) -> usize {
        let outputs: usize = self.responses.iter().flatten().map(|output| output.bytes.len()).sum();
        CHECK_BYTES + if self.export.is_some() { 2 * outputs } else { outputs }
    }
}

enum Event {
    Check(Check, usize),
    /// Answered when everything before it has been checked.
    Settle(Sender<()>),
    /// There will be no further checks that matter, even if somebody still holds a way to send them.
    End,
}

/// Keeps the copies that wait within bounds.
#[derive(Default)]
struct Budget {
    held: Mutex<Held>,
    freed: Condvar,
}

#[derive(Default)]
struct Held {
    bytes: usize,
    waits: u64,
}

impl Budget {
    /// Waits until there is room; one check always has room.
    fn take(&self, bytes: usize) {
        let mut held = self.held.lock();
        if held.bytes > 0 && held.bytes + bytes > MOST_BYTES {
            held.waits += 1;
            self.freed.wait_while(&mut held, |held| held.bytes > 0 && held.bytes + bytes > MOST_BYTES);
        }
        held.bytes += bytes;
    }

    fn give_back(&self, bytes: usize) {
        self.held.lock().bytes -= bytes;
        self.freed.notify_all();
    }
}

/// The way to the validator, for whoever sees requests.
#[derive(Clone)]
pub struct Checks {
    events: Sender<Event>,
    budget: Arc<Budget>,
}

impl Checks {
    /// Hands a request over to be checked. Waits only where too many copies wait already.
    pub fn send(&self, check: Check) {
        let bytes = check.bytes();
        self.budget.take(bytes);
        // The validator lives as long as the run; without it there is nobody to tell.
        let _ = self.events.send(Event::Check(check, bytes));
    }
}

/// The thread that compares.
pub struct Validator {
    checks: Checks,
    thread: JoinHandle<()>,
}

impl Validator {
    /// Starts it.
    ///
    /// # Errors
    /// Where the thread cannot be started.
    pub fn start(payloads: Arc<[Payload]>, tolerance: Option<Tolerance>) -> Result<Self> {
        let (events, received) = unbounded();
        let budget = Arc::<Budget>::default();
        let checks = Checks { events, budget: Arc::clone(&budget) };
        let thread = thread::Builder::new()
            .name("validation".to_owned())
            .spawn(move || check_all(&received, &budget, &payloads, tolerance))
            .map_err(|error| Error::machine(format!("cannot start the thread that validates outputs: {error}")))?;
        Ok(Self { checks, thread })
    }

    /// A way to it.
    pub fn checks(&self) -> Checks {
        self.checks.clone()
    }

    /// Waits until everything that was handed over has been checked.
    pub fn settle(&self) {
        let (answer, answered) = bounded(1);
        if self.checks.events.send(Event::Settle(answer)).is_ok() {
            let _ = answered.recv();
        }
    }

    /// Ends it, and says whether it slowed the load down.
    pub fn finish(self) {
        let waits = self.checks.budget.held.lock().waits;
        let _ = self.checks.events.send(Event::End);
        drop(self.thread.join());
        if waits > 0 {
            note!(
                "{waits} requests waited because outputs came faster than they can be compared, which slowed \
                 the load down; validate with fewer requests outstanding, and measure without validation data"
            );
        }
    }
}

fn check_all(received: &Receiver<Event>, budget: &Budget, payloads: &[Payload], tolerance: Option<Tolerance>) {
    for event in received {
        match event {
            Event::Check(mut check, bytes) => {
                let payload = &payloads[check.payload.0 as usize];
                let verdict = validate(payload, &check.responses, tolerance);
                if let Some((export, record)) = check.export.take() {
                    export.send(RawRecord { failed: record.failed || verdict.is_err(), ..record });
                }
                if let Err(mismatch) = verdict {
                    let error = InferError { code: "Validation".to_owned(), message: mismatch.to_string() };
                    let source = Source { writer: 0, entry: payload.model };
                    check.recorder.mismatch(source, check.end, &error);
                }
                drop(check);
                budget.give_back(bytes);
            }
            Event::Settle(answer) => drop(answer.send(())),
            Event::End => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Expected, ExpectedStep};
    use crate::model::DataType;
    use crate::record::RecorderSpec;

    fn output(bytes: usize) -> OutputValues {
        OutputValues { name: "Y".into(), datatype: DataType::Uint8, shape: None, bytes: vec![1; bytes] }
    }

    #[test]
    fn copies_stay_within_bounds_and_mismatches_are_counted() {
        let bytes = MOST_BYTES / 4;
        let responses = [vec![Arc::new(output(1))]].into();
        let steps = [ExpectedStep { stream: 0, step: 0, responses }].into();
        let expected = Some(Arc::new(Expected { steps, cycle: 0..1, first: 0, batched: false }));
        let payload =
            Payload { model: 0, batch: 1, stream: 0, step: 0, inputs: Vec::new(), parameters: Vec::new(), expected };
        let validator = Validator::start([payload].into(), None).unwrap();
        let recorder = Arc::new(Recorder::new(RecorderSpec::default(), 1));
        let check = |bytes| Check {
            payload: PayloadId(0),
            end: Stamp(1),
            responses: vec![vec![output(bytes)]],
            recorder: Arc::clone(&recorder),
            export: None,
        };
        for _ in 0..8 {
            validator.checks().send(check(bytes));
            assert!(validator.checks.budget.held.lock().bytes <= MOST_BYTES);
        }
        validator.checks().send(check(1));
        validator.settle();
        assert_eq!(validator.checks.budget.held.lock().bytes, 0);
        assert_eq!(recorder.completed().failed, 8);
        validator.finish();
    }
}
