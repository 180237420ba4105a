//! [`NetworkClient`]: a worker's client over a network, for every service: one loop for slots, deadlines, cancelling
//! and what follows a completion. The worker's thread drives it.
//!
//! Everything that a wait reports is read first; only then are finished requests reported to the sink and the next
//! requests sent. Each write may wake a thread of a server on the same machine, which would take this thread's
//! processor while answers are still unread.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::{Awaited, Client, ClientSpec, CompletionSink, InferError, Next, Request, SlotId};
use crate::clock::Stamp;
use crate::error::{Error, Result};
use crate::{ExchangeId, Exchanges, Transport, late};

/// How long a dropped client waits for answers. Its owner has already waited, and closing the connection tells the
/// server that no one is waiting any more.
const LAST_MOMENT: Duration = Duration::from_millis(100);
/// How often in a row finished requests may be reported before the transport gets its turn: where requests fail as soon
/// as they start, there is always something to report.
const MAX_REPORTS: u32 = 16;

/// Number of deadlines, beyond two for each slot, at which those of requests that are over are dropped.
const SPARE_DEADLINES: usize = 64;

/// A worker's client over a network.
pub struct NetworkClient<T: Transport> {
    transport: T,
    exchanges: Exchanges,
    /// How long an answer may take.
    limit: Option<Duration>,
    /// Deadlines of requests, in the order of sending; some of those are over.
    deadlines: VecDeque<(Stamp, ExchangeId)>,
    /// Slots whose requests are over.
    reporting: Vec<u32>,
    /// Requests to send next in the slots of completed ones.
    next: Vec<(usize, Request)>,
    /// Reports since the transport's last turn.
    reports: u32,
    drain_limit: Duration,
}

impl<T: Transport> NetworkClient<T> {
    /// A client with the slots that `spec` asks for. An answer may take `limit`.
    ///
    /// # Errors
    /// If a connection cannot be made.
    pub fn open(
        transport: T,
        spec: &ClientSpec,
        limit: Option<Duration>,
        sink: Arc<dyn CompletionSink>,
    ) -> Result<Self> {
        let mut client = Self {
            transport,
            exchanges: Exchanges::new(sink, spec.watch_responses),
            limit,
            deadlines: VecDeque::new(),
            reporting: Vec::new(),
            next: Vec::new(),
            reports: 0,
            drain_limit: spec.drain_limit.min(LAST_MOMENT),
        };
        client.grow(spec.slots)?;
        client.transport.connect()?;
        Ok(client)
    }

    fn begin(&mut self, slot: usize, request: Request) -> Result<()> {
        self.transport.enter(slot, &mut self.exchanges);
        self.exchanges.begin(slot, request);
        if let Some(limit) = self.limit {
            self.deadlines.push_back((Stamp::now().plus_duration(limit), self.exchanges.id(slot)));
            if self.deadlines.len() > 2 * self.exchanges.slots() + SPARE_DEADLINES {
                self.deadlines.retain(|&(_, id)| self.exchanges.is_current(id));
            }
        }
        self.transport.start(slot, &mut self.exchanges)
    }

    /// Ends requests that have missed their deadlines.
    fn expire(&mut self, limit: Duration) {
        let now = Stamp::now();
        while let Some(&(late_at, id)) = self.deadlines.front() {
            let current = self.exchanges.is_current(id);
            if current && late_at > now {
                return;
            }
            self.deadlines.pop_front();
            if current {
                self.exchanges.now = now;
                self.transport.give_up(id.slot(), late(limit), false, &mut self.exchanges);
            }
        }
    }

    /// Reports finished requests to the sink, and starts the requests that it returns. Returns whether there were any.
    fn report(&mut self) -> Result<bool> {
        if !self.exchanges.any_over() {
            return Ok(false);
        }
        let mut reporting = self.exchanges.take_over(std::mem::take(&mut self.reporting));
        for &slot in &reporting {
            let slot = slot as usize;
            self.transport.release(slot);
            if let Next::Issue(request) = self.exchanges.complete(slot) {
                self.next.push((slot, request));
            }
        }
        reporting.clear();
        self.reporting = reporting;
        for index in 0..self.next.len() {
            let (slot, request) = self.next[index];
            self.begin(slot, request)?;
        }
        self.next.clear();
        self.transport.flush(&mut self.exchanges);
        Ok(true)
    }
}

impl<T: Transport> Client for NetworkClient<T> {
    fn grow(&mut self, slots: usize) -> Result<()> {
        if slots > u32::MAX as usize {
            return Err(Error::usage(format!("{slots} outstanding requests on one client are too many")));
        }
        self.transport.grow(slots)?;
        self.exchanges.grow(slots);
        self.next.reserve(slots.saturating_sub(self.next.len()));
        self.reporting.reserve(slots.saturating_sub(self.reporting.len()));
        Ok(())
    }

    fn submit(&mut self, slot: SlotId, request: Request) -> Result<()> {
        if !self.exchanges.is_free(slot.index()) {
            return Err(Error::server(format!("slot {} is not a free slot of this client", slot.0)));
        }
        self.begin(slot.index(), request)?;
        self.transport.flush(&mut self.exchanges);
        Ok(())
    }

    fn drive(&mut self, deadline: Stamp) -> Result<()> {
        loop {
            if let Some(limit) = self.limit
                && !self.deadlines.is_empty()
            {
                self.expire(limit);
            }
            self.exchanges.end_failing();
            if self.report()? {
                self.reports += 1;
                if self.reports < MAX_REPORTS {
                    return Ok(());
                }
                self.reports = 0;
                return self.transport.turn(Stamp(0), &mut self.exchanges);
            }
            if self.exchanges.unfinished() == 0 && deadline == Stamp::NEVER {
                return Ok(());
            }
            self.reports = 0;
            let late = self.deadlines.front().map_or(Stamp::NEVER, |late| late.0);
            self.transport.turn(deadline.min(late).min(self.exchanges.next_failure()), &mut self.exchanges)?;
            if !self.exchanges.any_over() && Stamp::now() >= deadline {
                self.transport.flush(&mut self.exchanges);
                return Ok(());
            }
        }
    }

    fn awaited(&self) -> Awaited<'_> {
        let awaited = self.transport.awaited();
        let late = self.deadlines.front().map_or(Stamp::NEVER, |late| late.0);
        let due = awaited.until.min(late).min(self.exchanges.next_failure());
        Awaited { until: if self.exchanges.any_over() { Stamp(0) } else { due }, ..awaited }
    }

    fn cancel(&mut self, slot: SlotId, _sent_before: Stamp) -> bool {
        if !self.exchanges.is_pending(slot.index()) {
            return true;
        }
        self.exchanges.now = Stamp::now();
        let error = InferError::new(InferError::CANCELLED, "abandoned by the client");
        let is_given_up = self.transport.give_up(slot.index(), error, true, &mut self.exchanges);
        self.transport.flush(&mut self.exchanges);
        is_given_up
    }

    fn drain(&mut self, limit: Duration) -> usize {
        let deadline = Stamp::now().plus_duration(limit);
        while self.exchanges.unfinished() > 0 && Stamp::now() < deadline && self.drive(deadline).is_ok() {}
        self.exchanges.unfinished()
    }
}

impl<T: Transport> Drop for NetworkClient<T> {
    /// Waits a moment for requests that are still with the server, then forgets them: the server has copies of
    /// everything that they need, and its own mapping of shared memory for as long as it uses it.
    fn drop(&mut self) {
        self.drain(self.drain_limit);
        self.transport.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{Completion, Response};
    use crate::data::PayloadId;

    const REQUEST: Request = Request { payload: PayloadId(0), sequence: None };

    /// Never ends the request in slot 0, and fails all others as soon as they start.
    #[derive(Default)]
    struct Failing {
        turns: u32,
    }

    impl Transport for Failing {
        fn grow(&mut self, _: usize) -> Result<()> {
            Ok(())
        }

        fn connect(&mut self) -> Result<()> {
            Ok(())
        }

        fn enter(&mut self, _: usize, _: &mut Exchanges) {}

        fn start(&mut self, slot: usize, exchanges: &mut Exchanges) -> Result<()> {
            exchanges.sends(slot);
            if slot > 0 {
                exchanges.fail(slot, InferError::new("No", "at once"));
            }
            Ok(())
        }

        fn flush(&mut self, _: &mut Exchanges) {}

        fn turn(&mut self, _: Stamp, _: &mut Exchanges) -> Result<()> {
            self.turns += 1;
            Ok(())
        }

        fn awaited(&self) -> Awaited<'_> {
            Awaited::NOTHING
        }

        fn give_up(&mut self, slot: usize, error: InferError, _: bool, exchanges: &mut Exchanges) -> bool {
            exchanges.fail(slot, error);
            true
        }

        fn release(&mut self, _: usize) {}

        fn close(&mut self) {}
    }

    /// Issues again whatever becomes of a request.
    struct Again;

    impl CompletionSink for Again {
        fn response(&self, _: SlotId, _: &Response<'_>) {}

        fn complete(&self, _: SlotId, _: &Completion<'_>) -> Next {
            Next::Issue(REQUEST)
        }
    }

    /// A client of two slots after so many turns of its worker.
    fn driven(limit: Option<Duration>, turns: usize) -> NetworkClient<Failing> {
        let (models, payloads) = (Arc::new([]), Arc::new([]));
        let spec = ClientSpec { slots: 2, drain_limit: Duration::ZERO, ..ClientSpec::new(models, payloads) };
        let mut client = NetworkClient::open(Failing::default(), &spec, limit, Arc::new(Again)).unwrap();
        (0..2).for_each(|slot| client.submit(SlotId(slot), REQUEST).unwrap());
        (0..turns).for_each(|_| client.drive(Stamp(0)).unwrap());
        client
    }

    #[test]
    fn requests_that_fail_as_soon_as_they_start_leave_the_transport_its_turns() {
        assert_eq!(driven(None, 1000).transport.turns, 1000 / MAX_REPORTS);
    }

    #[test]
    fn deadlines_do_not_pile_up_behind_a_slow_request() {
        let client = driven(Some(Duration::from_secs(3600)), 10_000);
        assert!(client.deadlines.len() <= 2 * 2 + SPARE_DEADLINES, "{}", client.deadlines.len());
        let slow = client.deadlines[0].1;
        assert!(slow.slot() == 0 && client.exchanges.is_current(slow));
    }
}
