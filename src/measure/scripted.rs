//! A server for tests, whose answers follow a script.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::backend::null::NullBackend;
use crate::backend::{
    Backend, Capabilities, Client, ClientSpec, Completion, CompletionSink, InferError, Next, Request, SlotId,
};
use crate::clock::Stamp;
use crate::error::Result;
use crate::model::{ModelId, ModelSpec};

/// What becomes of a request.
#[derive(Clone, Copy)]
pub(super) struct Fate {
    /// How long it takes.
    pub(super) takes: Duration,
    /// Whether it fails then.
    pub(super) fails: bool,
}

/// A server that decides on each request by its number, and by how long after the first one it comes.
pub(super) struct Scripted {
    script: fn(u64, Duration) -> Fate,
    requests: Arc<AtomicU64>,
}

impl Scripted {
    pub(super) fn new(script: fn(u64, Duration) -> Fate) -> Self {
        Self { script, requests: Arc::default() }
    }
}

impl Backend for Scripted {
    fn capabilities(&self) -> Capabilities {
        NullBackend.capabilities()
    }

    fn model(&self, id: &ModelId) -> Result<ModelSpec> {
        NullBackend.model(id)
    }

    fn open_client(&self, _: ClientSpec, sink: Arc<dyn CompletionSink>) -> Result<Box<dyn Client>> {
        let (script, requests) = (self.script, Arc::clone(&self.requests));
        Ok(Box::new(ScriptedClient { script, requests, first: None, sink, pending: Vec::new() }))
    }
}

/// A request under way.
struct Pending {
    slot: SlotId,
    sent: Stamp,
    due: Stamp,
    fails: bool,
}

struct ScriptedClient {
    script: fn(u64, Duration) -> Fate,
    requests: Arc<AtomicU64>,
    first: Option<Stamp>,
    sink: Arc<dyn CompletionSink>,
    pending: Vec<Pending>,
}

impl ScriptedClient {
    /// Completes what is due; returns how much that was.
    fn complete_due(&mut self) -> Result<usize> {
        let now = Stamp::now();
        let (due, left): (Vec<Pending>, Vec<Pending>) =
            std::mem::take(&mut self.pending).into_iter().partition(|pending| pending.due <= now);
        self.pending = left;
        for &Pending { slot, sent, fails, .. } in &due {
            let error = fails.then(|| InferError::new("Internal", "as the script has it"));
            let completion = Completion {
                sent,
                send_end: None,
                first_response: now,
                last_response: now,
                responses: 1,
                error: error.as_ref(),
            };
            if let Next::Issue(request) = self.sink.complete(slot, &completion) {
                self.submit(slot, request)?;
            }
        }
        Ok(due.len())
    }
}

impl Client for ScriptedClient {
    fn grow(&mut self, _: usize) -> Result<()> {
        Ok(())
    }

    fn submit(&mut self, slot: SlotId, _: Request) -> Result<()> {
        let sent = Stamp::now();
        let first = *self.first.get_or_insert(sent);
        let Fate { takes, fails } = (self.script)(self.requests.fetch_add(1, Ordering::Relaxed), sent - first);
        self.pending.push(Pending { slot, sent, due: sent.plus_duration(takes), fails });
        Ok(())
    }

    fn drive(&mut self, deadline: Stamp) -> Result<()> {
        while self.complete_due()? == 0 && Stamp::now() < deadline {
            let next = self.pending.iter().map(|pending| pending.due).min().unwrap_or(deadline).min(deadline);
            thread::sleep(next.from_now().min(Duration::from_millis(1)));
        }
        Ok(())
    }

    fn cancel(&mut self, _: SlotId, _: Stamp) -> bool {
        true
    }

    fn drain(&mut self, limit: Duration) -> usize {
        let end = Stamp::now().plus_duration(limit);
        while !self.pending.is_empty() && Stamp::now() < end {
            if self.drive(end).is_err() {
                break;
            }
        }
        self.pending.len()
    }
}
