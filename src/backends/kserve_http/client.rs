//! [`HttpClient`]: a worker's slots, each a connection of its own, all driven on the worker's thread.
//!
//! With one slot its socket blocks: a request costs one `writev` and one `read`. With more, all sockets are watched by
//! one epoll. What one wait finds is read first, then the slots that are to go on are written to: each write may wake a
//! thread of a server on the same machine, which would take this thread's processor with answers still unread.
//!
//! What becomes of a request when its connection breaks: it completes with an error that says how. A connection that the
//! *server or the network* ended is made again only with `--reconnect`; without, every later request in that slot
//! completes with `Connection lost`, each after a pause of [`PAUSE`], so that a load whose server is gone neither spins nor
//! hangs. A connection that *we* ended (after a cancelled request or a malformed reply), and one whose end the server
//! announced (`Connection: close`, HTTP/1.0), is made again with the next request, whose latency includes it.
//!
//! [`Client::cancel`] hangs up: HTTP/1.1 has no other way to give up a request.

use std::sync::Arc;
use std::time::Duration;

use crate::backend::{
    Client, ClientSpec, Completion, CompletionSink, InferError, Next, ReplyChecks, Request, Response, SlotId,
};
use crate::backends::kserve_http::Route;
use crate::backends::kserve_http::line::{Line, Stage, Step, TICK};
use crate::backends::kserve_http::outputs::{NoOutputs, ReplyOutputs};
use crate::backends::kserve_http::reply::{Checker, Wanted};
use crate::backends::kserve_http::template::Patch;
use crate::backends::kserve_http::templates::Templates;
use crate::backends::kserve_http::wire::Wire;
use crate::backends::regions::{SlotOutputs, slot_tag};
use crate::clock::Stamp;
use crate::engine::{Poller, failure, late, malformed, wait_for};
use crate::error::{Error, Result};

/// Bytes that one read takes at most. Replies that are larger are passed over in pieces of this size.
const BUFFER: usize = 1024 * 1024;
/// How long the first connection of a slot may take.
const OPEN_LIMIT: Duration = Duration::from_secs(5);
/// Time between failures that cost nothing: of slots without a connection.
const PAUSE: Duration = Duration::from_millis(20);

/// How long a client that is dropped waits for answers. Whoever drops it has waited, and the end of a connection tells the
/// server that nobody does any more.
const LAST_MOMENT: Duration = Duration::from_millis(100);

/// A request that has failed and whose completion is due.
struct Failed {
    slot: usize,
    due: Stamp,
    error: InferError,
}

/// A worker's line to the server; see the module.
pub(super) struct HttpClient {
    wire: Wire,
    spec: ClientSpec,
    sink: Arc<dyn CompletionSink>,
    templates: Arc<Templates>,
    number: u32,
    lines: Vec<Line>,
    /// Which replies are held against the model, by slot.
    checks: Vec<ReplyChecks>,
    /// Where outputs go, by slot; empty where they come in replies.
    placed: Vec<SlotOutputs>,
    buffer: Vec<u8>,
    checker: Checker,
    failed: Vec<Failed>,
    outstanding: usize,
    /// Requests that follow completed ones in their slots.
    due: Vec<(usize, Request)>,
    /// No request is late before this moment.
    none_late_before: Stamp,
}

impl HttpClient {
    pub(super) fn open(
        route: Route,
        templates: Arc<Templates>,
        spec: ClientSpec,
        sink: Arc<dyn CompletionSink>,
    ) -> Result<Self> {
        let slots = spec.slots;
        let number = templates.client_number();
        let mut client = Self {
            wire: Wire::new(route, spec.watch_responses, templates.format().clone()),
            spec,
            sink,
            templates,
            number,
            lines: Vec::new(),
            checks: Vec::new(),
            placed: Vec::new(),
            buffer: vec![0; BUFFER],
            checker: Checker::default(),
            failed: Vec::new(),
            outstanding: 0,
            due: Vec::new(),
            none_late_before: Stamp::NEVER,
        };
        client.grow(slots)?;
        Ok(client)
    }

    fn broken(&self, error: &std::io::Error) -> Error {
        Error::server(format!("{}: {}", self.wire.route.connector.endpoint().http_url(), failure(error)))
    }

    /// Goes over from one blocking socket to many that do not block.
    fn watch_all(&mut self) -> std::io::Result<()> {
        let poller = Poller::new()?;
        for (slot, line) in self.lines.iter_mut().enumerate() {
            line.attach(Some(&poller), slot)?;
        }
        self.wire.poller = Some(poller);
        Ok(())
    }

    /// Begins a request in a free slot; one that fails at once completes in the next [`Client::drive`].
    fn start(&mut self, slot: usize, request: Request) {
        self.outstanding += 1;
        let patch = Patch {
            sequence: request.sequence,
            correlation: self.spec.options.correlation,
            tag: if self.placed.is_empty() { Default::default() } else { slot_tag(self.number, slot) },
        };
        let line = &mut self.lines[slot];
        line.take_up(request);
        let had_connection = line.stream().is_some();
        let begun = match self.templates.get(request) {
            Ok(template) => line.begin(&self.wire, slot, template, patch),
            Err(error) => Err(error),
        };
        if let Some(limit) = self.wire.route.limit {
            self.none_late_before = self.none_late_before.min(line.sent.plus_duration(limit));
        }
        if let Err(error) = begun {
            let pause = if had_connection { Duration::ZERO } else { PAUSE };
            self.fail_later(slot, error, pause);
        }
    }

    fn fail_later(&mut self, slot: usize, error: InferError, pause: Duration) {
        self.lines[slot].stage = Stage::Failing;
        self.failed.push(Failed { slot, due: Stamp::now().plus_duration(pause), error });
    }

    /// Completes requests whose failure is due by `now`; tells whether there was one.
    fn deliver_failures(&mut self, now: Stamp) -> bool {
        let mut delivered = false;
        while let Some(index) = self.failed.iter().position(|failed| failed.due <= now) {
            let failed = self.failed.swap_remove(index);
            self.complete(failed.slot, Err(failed.error));
            delivered = true;
        }
        delivered
    }

    /// Gives up requests whose answers are late by `now`, as a cancellation would.
    fn expire(&mut self, limit: Duration, now: Stamp) {
        self.none_late_before = Stamp::NEVER;
        for slot in 0..self.lines.len() {
            let line = &mut self.lines[slot];
            if !matches!(line.stage, Stage::Sending | Stage::Receiving) {
                continue;
            }
            let due = line.sent.plus_duration(limit);
            if due > now {
                self.none_late_before = self.none_late_before.min(due);
            } else {
                line.hang_up();
                self.fail_later(slot, late(limit), Duration::ZERO);
            }
        }
    }

    /// Goes on with a slot whose socket is ready; tells whether its request is over.
    fn advance(&mut self, slot: usize) -> bool {
        let line = &mut self.lines[slot];
        if matches!(line.stage, Stage::Idle | Stage::Failing) {
            line.disturbed(&mut self.buffer);
            return false;
        }
        if line.stage == Stage::Sending {
            let sent = self.templates.get(line.request).and_then(|template| line.send(&self.wire, slot, template));
            if let Err(error) = sent {
                self.complete(slot, Err(error));
                return true;
            }
            if line.stage == Stage::Sending
                && self.wire.poller.is_none()
                && !wait_for(line.stream(), false, Stamp(0)).unwrap_or(false)
            {
                return false;
            }
        }
        match line.receive(&self.wire, &mut self.buffer) {
            Ok(Step::Partly) => return false,
            Ok(Step::Whole) => {
                let outcome = self.judge(slot);
                self.complete(slot, outcome);
            }
            Err(error) => self.complete(slot, Err(error)),
        }
        true
    }

    /// What a complete reply says; shows its outputs to a sink that wants them.
    fn judge(&mut self, slot: usize) -> Result<(), InferError> {
        let line = &self.lines[slot];
        let Some(head) = line.reader.head() else { return Err(malformed("no head")) };
        if head.status != 200 {
            return Err(line.refusal());
        }
        let payload = line.request.payload;
        let form = self.checks[slot].is_due(payload).then(|| self.templates.form(line.request));
        if self.spec.watch_responses {
            let placed = self.placed.get(slot).map(|placed| (placed, self.templates.model_of(line.request)));
            let outputs = ReplyOutputs::read(head, &line.kept, placed)?;
            form.map_or(Ok(()), |form| form.check(outputs.model(), &outputs))?;
            let response = Response { at: line.last, empty: false, outputs: &outputs, error: None };
            self.sink.response(SlotId(slot as u32), &response);
        } else {
            let wanted = Wanted { shared: !self.placed.is_empty(), form };
            self.checker.check(head, &line.kept, line.reader.body_bytes(), wanted)?;
        }
        if form.is_some() {
            self.checks[slot].pass(payload);
        }
        Ok(())
    }

    /// Frees the slot, reports, and notes what the sink answers; see [`Self::go_on`].
    fn complete(&mut self, slot: usize, outcome: Result<(), InferError>) {
        let line = &mut self.lines[slot];
        let id = SlotId(slot as u32);
        let error = outcome.err();
        if line.reader.head().is_none() || error.is_some() {
            line.last = Stamp::now();
        }
        if let Some(error) = &error
            && self.spec.watch_responses
        {
            self.sink.response(id, &Response { at: line.last, empty: false, outputs: &NoOutputs, error: Some(error) });
        }
        let completion = Completion {
            sent: line.sent,
            send_end: line.send_end,
            first_response: line.first.unwrap_or(line.last),
            last_response: line.last,
            responses: u32::from(error.is_none()),
            error: error.as_ref(),
        };
        line.release();
        self.outstanding -= 1;
        if let Next::Issue(request) = self.sink.complete(id, &completion) {
            self.due.push((slot, request));
        }
    }

    /// Sends the requests that are due.
    fn go_on(&mut self) {
        for index in 0..self.due.len() {
            let (slot, request) = self.due[index];
            self.start(slot, request);
        }
        self.due.clear();
    }

    /// One blocking step of the only slot; tells whether its request is over.
    fn drive_one(&mut self, until: Stamp) -> std::io::Result<bool> {
        let line = &mut self.lines[0];
        match line.stage {
            Stage::Idle | Stage::Failing => wait_for(None, false, until).map(|_| false),
            Stage::Sending => Ok(wait_for(line.stream(), true, until)? && self.advance(0)),
            Stage::Receiving => {
                let near = until.from_now() < TICK;
                let ready = !near || line.holds_bytes() || wait_for(line.stream(), false, until)?;
                Ok(ready && self.advance(0))
            }
        }
    }

    /// Waits for any socket once; tells whether a request is over.
    fn drive_many(&mut self, until: Stamp) -> std::io::Result<bool> {
        let Some(poller) = &mut self.wire.poller else { return Ok(false) };
        let count = poller.wait(until)?;
        let mut over = false;
        for index in 0..count {
            let Some(poller) = &self.wire.poller else { break };
            let slot = poller.ready(index);
            over |= self.advance(slot);
        }
        Ok(over)
    }
}

impl Client for HttpClient {
    fn grow(&mut self, slots: usize) -> Result<()> {
        if slots > 1 && self.wire.poller.is_none() {
            self.watch_all().map_err(|error| self.broken(&error))?;
        }
        while self.lines.len() < slots {
            let slot = self.lines.len();
            self.placed.extend(self.templates.slot_outputs(slot_tag(self.number, slot))?);
            let line = Line::open(&self.wire, slot, OPEN_LIMIT).map_err(|error| self.broken(&error))?;
            self.lines.push(line);
            self.checks.push(ReplyChecks::new(&self.spec));
        }
        Ok(())
    }

    fn submit(&mut self, slot: SlotId, request: Request) -> Result<()> {
        match self.lines.get(slot.index()) {
            Some(line) if line.stage == Stage::Idle => {
                self.start(slot.index(), request);
                Ok(())
            }
            _ => Err(Error::server(format!("slot {} is no free slot of this client", slot.0))),
        }
    }

    fn drive(&mut self, deadline: Stamp) -> Result<()> {
        loop {
            if let Some(limit) = self.wire.route.limit
                && Stamp::now() >= self.none_late_before
            {
                self.expire(limit, Stamp::now());
            }
            if !self.failed.is_empty() && self.deliver_failures(Stamp::now()) {
                self.go_on();
                return Ok(());
            }
            if self.outstanding == 0 && deadline == Stamp::NEVER {
                return Ok(());
            }
            let due = self.failed.iter().map(|failed| failed.due).min().unwrap_or(Stamp::NEVER);
            let until = deadline.min(due).min(self.none_late_before);
            let over = if self.wire.poller.is_some() { self.drive_many(until) } else { self.drive_one(until) };
            self.go_on();
            if over.map_err(|error| self.broken(&error))? || Stamp::now() >= deadline {
                return Ok(());
            }
        }
    }

    fn cancel(&mut self, slot: SlotId, _sent_before: Stamp) -> bool {
        let Some(line) = self.lines.get_mut(slot.index()) else { return true };
        if matches!(line.stage, Stage::Sending | Stage::Receiving) {
            line.hang_up();
            let error = InferError::new(InferError::CANCELLED, "given up by the client");
            self.fail_later(slot.index(), error, Duration::ZERO);
        }
        true
    }

    fn drain(&mut self, limit: Duration) -> usize {
        let deadline = Stamp::now().plus_duration(limit);
        while self.outstanding > 0 && Stamp::now() < deadline && self.drive(deadline).is_ok() {}
        self.outstanding
    }
}

impl Drop for HttpClient {
    fn drop(&mut self) {
        self.drain(self.spec.drain_limit.min(LAST_MOMENT));
    }
}
