//! [`Exchanges`]: the requests of a client, one in each slot, and their reports to the sink.
//!
//! A service gets these with every piece of an answer and reports what it means: a response, a failure, the end.
//! Nothing else is asked of it; when the sink is called, and what its answer starts, is the engine's business.

use std::sync::Arc;
use std::time::Duration;

use crate::backend::{
    CompletionSink, Generation, InferError, Next, OutputView, Outputs, Request, Response, SlotId, Uncounted,
};
use crate::clock::Stamp;
use crate::exchange::{Exchange, Phase};

/// Identifies a slot's current request where answers may come late: generation and slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeId(pub u64);

impl ExchangeId {
    /// The id of a slot's request with that generation.
    pub fn new(slot: usize, generation: u32) -> Self {
        Self(u64::from(generation) << 32 | slot as u64)
    }

    /// The slot that it names, which may not exist.
    pub fn slot(self) -> usize {
        self.0 as u32 as usize
    }

    /// The generation that it names.
    pub fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// A request that has failed and will be over at `due`.
struct Failing {
    slot: usize,
    due: Stamp,
    error: InferError,
}

/// The requests of a client, one in each slot.
pub struct Exchanges {
    /// When the bytes that are being processed had arrived.
    pub now: Stamp,
    slots: Vec<Exchange>,
    /// Slots whose requests are over and must be reported to the sink.
    over: Vec<u32>,
    failing: Vec<Failing>,
    unfinished: usize,
    /// A request has failed, or was given up.
    ever_failed: bool,
    sink: Arc<dyn CompletionSink>,
    watch: bool,
}

impl Exchanges {
    /// No slots yet. With `watch`, the sink sees every response.
    pub fn new(sink: Arc<dyn CompletionSink>, watch: bool) -> Self {
        let (slots, over, failing) = (Vec::new(), Vec::new(), Vec::new());
        Self { now: Stamp::now(), slots, over, failing, unfinished: 0, ever_failed: false, sink, watch }
    }

    /// Makes room for `slots` slots.
    pub fn grow(&mut self, slots: usize) {
        self.over.reserve(slots.saturating_sub(self.over.len()));
        while self.slots.len() < slots {
            self.slots.push(Exchange::default());
        }
    }

    /// Number of slots.
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Number of requests that are still to be reported to the sink.
    #[inline]
    pub fn unfinished(&self) -> usize {
        self.unfinished
    }

    /// Whether the sink sees every response.
    #[inline]
    pub fn watched(&self) -> bool {
        self.watch
    }

    /// Whether the slot is free.
    #[inline]
    pub fn is_free(&self, slot: usize) -> bool {
        self.slots.get(slot).is_some_and(|exchange| exchange.phase == Phase::Free)
    }

    /// Whether the slot's request is under way or queued.
    #[inline]
    pub fn is_pending(&self, slot: usize) -> bool {
        self.slots.get(slot).is_some_and(Exchange::is_pending)
    }

    /// Whether the slot's request is with the server, or on its way.
    #[inline]
    pub fn is_outstanding(&self, slot: usize) -> bool {
        self.slots[slot].phase == Phase::Outstanding
    }

    /// The slot's request.
    #[inline]
    pub fn request(&self, slot: usize) -> Request {
        self.slots[slot].request
    }

    /// Whether any request has failed so far, or was given up: it may still be answered.
    pub fn has_ever_failed(&self) -> bool {
        self.ever_failed
    }

    /// Whether the slot's request, or one response of it, has failed.
    pub fn has_failed(&self, slot: usize) -> bool {
        self.slots[slot].error.is_some()
    }

    /// The id of the slot's request.
    #[inline]
    pub fn id(&self, slot: usize) -> ExchangeId {
        ExchangeId::new(slot, self.slots[slot].generation)
    }

    /// The slot of a request that is still with the server.
    #[inline]
    pub fn find(&self, id: ExchangeId) -> Option<usize> {
        let exchange = self.slots.get(id.slot())?;
        (exchange.phase == Phase::Outstanding && exchange.generation == id.generation()).then_some(id.slot())
    }

    /// Whether the slot's request is still that one, and not over.
    pub fn is_current(&self, id: ExchangeId) -> bool {
        self.is_pending(id.slot()) && self.slots[id.slot()].generation == id.generation()
    }

    /// Begins a new request in a free slot.
    #[inline]
    pub fn begin(&mut self, slot: usize, request: Request) {
        self.unfinished += 1;
        self.slots[slot].begin(request);
    }

    /// The time of the slot's request starts now, whether it can leave at once or not.
    #[inline]
    pub fn starts(&mut self, slot: usize) {
        self.slots[slot].starts(Stamp::now());
    }

    /// The slot's request is with the transport, and has been since it started.
    #[inline]
    pub fn is_sent(&mut self, slot: usize) {
        self.slots[slot].phase = Phase::Outstanding;
    }

    /// The slot's request starts and is handed to the transport at once.
    #[inline]
    pub fn sends(&mut self, slot: usize) {
        self.starts(slot);
        self.is_sent(slot);
    }

    /// The transport has the slot's request back: nobody has looked at it, and it is to be sent again.
    pub fn returns(&mut self, slot: usize) {
        self.slots[slot].returns();
    }

    /// The last byte of the slot's request has left.
    #[inline]
    pub fn departed(&mut self, slot: usize, now: Stamp) {
        self.slots[slot].departed(now);
    }

    /// Whether the last byte of the slot's request has left.
    #[inline]
    pub fn has_departed(&self, slot: usize) -> bool {
        self.slots[slot].has_departed()
    }

    /// What has arrived is decompressed: only now is it in the client's hands.
    pub fn unpacked(&mut self) {
        self.now = Stamp::now();
    }

    /// A response begins to arrive.
    #[inline]
    pub fn response_begins(&mut self, slot: usize) {
        self.slots[slot].response_begins(self.now);
    }

    /// A response that carries data has arrived; its content is not shown to the sink.
    #[inline]
    pub fn responded(&mut self, slot: usize) {
        self.slots[slot].responded(self.now);
    }

    /// A response that carries data has arrived.
    #[inline]
    pub fn respond(&mut self, slot: usize, outputs: &dyn Outputs) {
        self.responded(slot);
        self.show(slot, outputs, None);
    }

    /// A response has arrived that only ends the request.
    pub fn respond_empty(&self, slot: usize) {
        self.respond_aside(slot, &NoOutputs);
    }

    /// A response has arrived that counts in no figure.
    pub fn respond_aside(&self, slot: usize, outputs: &dyn Outputs) {
        if self.watch {
            let response = Response { at: self.now, empty: true, outputs, error: None };
            self.sink.response(SlotId(slot as u32), &response);
        }
    }

    /// Reports the generated text of the slot's request, once all of it has arrived; its times are taken from the
    /// exchange. What is still to be counted comes with it.
    pub fn generated(&self, slot: usize, generation: Generation, uncounted: Uncounted<'_>) {
        let (sent, last) = self.slots[slot].times();
        let whole = Generation { sent, end: last.unwrap_or(self.now), ..generation };
        self.sink.generated(SlotId(slot as u32), &whole, uncounted);
    }

    /// The slot's request has carried this text in place of its payload's first input.
    pub fn carried(&self, slot: usize, text: &[u8]) {
        if self.watch {
            self.sink.carried(SlotId(slot as u32), text);
        }
    }

    /// A response says that the request, or a part of it, has failed.
    pub fn respond_failed(&mut self, slot: usize, error: InferError) {
        self.show(slot, &NoOutputs, Some(&error));
        self.slots[slot].failed(self.now, error);
    }

    /// The request fails when it ends, unless its end says otherwise.
    pub fn note_failure(&mut self, slot: usize, error: InferError) {
        self.slots[slot].failed(self.now, error);
    }

    fn show(&self, slot: usize, outputs: &dyn Outputs, error: Option<&InferError>) {
        if self.watch {
            let response = Response { at: self.now, empty: false, outputs, error };
            self.sink.response(SlotId(slot as u32), &response);
        }
    }

    /// Ends the request in a slot; whatever still arrives for it is ignored.
    #[inline]
    pub fn end(&mut self, slot: usize) {
        self.slots[slot].phase = Phase::Over;
        self.over.push(slot as u32);
    }

    /// Ends the request in a slot; its last response counts as arriving no earlier than now.
    pub fn end_now(&mut self, slot: usize) {
        self.slots[slot].ends(self.now);
        self.end(slot);
    }

    /// Ends the request in a slot with an error.
    pub fn fail(&mut self, slot: usize, error: InferError) {
        self.ever_failed = true;
        self.respond_failed(slot, error);
        self.end(slot);
    }

    /// Ends the request in a slot with an error, after a pause: a load whose requests all fail at once must not spin.
    pub fn fail_later(&mut self, slot: usize, error: InferError, pause: Duration) {
        self.slots[slot].phase = Phase::Failing;
        self.failing.push(Failing { slot, due: Stamp::now().plus_duration(pause), error });
    }

    /// Ends all requests that are with the server and that are `meant`, with an error; returns how many there were.
    pub fn fail_outstanding(&mut self, error: &InferError, meant: impl Fn(ExchangeId) -> bool) -> usize {
        let is_meant = |slot: &usize| self.is_outstanding(*slot) && meant(self.id(*slot));
        let outstanding: Vec<usize> = (0..self.slots.len()).filter(is_meant).collect();
        outstanding.iter().for_each(|slot| self.fail(*slot, error.clone()));
        outstanding.len()
    }

    /// When the next pause ends; [`Stamp::NEVER`] if there is none.
    pub(super) fn next_failure(&self) -> Stamp {
        self.failing.iter().map(|failing| failing.due).min().unwrap_or(Stamp::NEVER)
    }

    /// Ends requests whose pauses are over.
    pub(super) fn end_failing(&mut self) {
        if self.failing.is_empty() {
            return;
        }
        self.now = Stamp::now();
        while let Some(index) = self.failing.iter().position(|failing| failing.due <= self.now) {
            let Failing { slot, error, .. } = self.failing.swap_remove(index);
            self.fail(slot, error);
        }
    }

    /// Whether any request is over that has not been reported to the sink.
    #[inline]
    pub fn any_over(&self) -> bool {
        !self.over.is_empty()
    }

    /// Takes the slots whose requests are over; `empty` becomes the new list.
    #[inline]
    pub fn take_over(&mut self, empty: Vec<u32>) -> Vec<u32> {
        std::mem::replace(&mut self.over, empty)
    }

    /// Tells the sink that a slot is free again; returns what the slot does next.
    #[inline]
    pub(super) fn complete(&mut self, slot: usize) -> Next {
        let exchange = &mut self.slots[slot];
        exchange.phase = Phase::Free;
        self.unfinished -= 1;
        let error = exchange.error.take();
        let completion = exchange.completion(self.now, error.as_ref());
        self.sink.complete(SlotId(slot as u32), &completion)
    }
}

/// The outputs of a response that has none.
struct NoOutputs;

impl Outputs for NoOutputs {
    fn visit(&self, _: &mut dyn FnMut(OutputView<'_>)) {}
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;
    use crate::backend::Completion;
    use crate::data::PayloadId;

    /// Writes down how requests ended: the slot, its responses, and whether it failed.
    #[derive(Default)]
    struct Log(Mutex<Vec<(u32, u32, bool)>>);

    impl CompletionSink for Log {
        fn response(&self, _: SlotId, _: &Response<'_>) {}

        fn complete(&self, slot: SlotId, completion: &Completion<'_>) -> Next {
            self.0.lock().push((slot.0, completion.responses, completion.error.is_some()));
            Next::Idle
        }
    }

    const REQUEST: Request = Request { payload: PayloadId(0), sequence: None };

    fn begun(slots: usize) -> (Arc<Log>, Exchanges) {
        let log = Arc::new(Log::default());
        let mut exchanges = Exchanges::new(log.clone(), false);
        exchanges.grow(slots);
        for slot in 0..slots {
            exchanges.begin(slot, REQUEST);
            exchanges.sends(slot);
        }
        (log, exchanges)
    }

    #[test]
    fn what_comes_late_for_an_earlier_request_is_nobodys() {
        let (log, mut exchanges) = begun(2);
        let first = exchanges.id(1);
        assert_eq!((exchanges.find(first), first.slot()), (Some(1), 1));
        exchanges.responded(1);
        exchanges.end(1);
        assert!(exchanges.find(first).is_none() && !exchanges.is_current(first) && !exchanges.is_free(1));
        assert_eq!(exchanges.take_over(Vec::new()), [1]);
        exchanges.complete(1);
        exchanges.begin(1, REQUEST);
        exchanges.sends(1);
        assert_eq!((exchanges.find(first), exchanges.find(exchanges.id(1))), (None, Some(1)));
        assert_eq!((exchanges.unfinished(), &log.0.lock()[..]), (2, &[(1, 1, false)][..]));
    }

    #[test]
    fn a_failure_that_waits_is_over_after_its_pause_and_can_be_given_up_no_more() {
        let (log, mut exchanges) = begun(2);
        exchanges.fail_later(0, InferError::new("No", "not yet"), Duration::from_secs(3600));
        exchanges.fail_later(1, InferError::new("No", "at once"), Duration::ZERO);
        assert!(!exchanges.is_pending(0) && !exchanges.is_pending(1));
        exchanges.fail_outstanding(&InferError::new("No", "twice"), |_| true);
        assert!(!exchanges.any_over(), "each ends once");
        exchanges.end_failing();
        assert_eq!(exchanges.take_over(Vec::new()), [1]);
        exchanges.complete(1);
        assert_eq!(log.0.lock()[..], [(1, 0, true)]);
        let left = exchanges.next_failure().from_now();
        assert!(left > Duration::from_secs(3000) && left <= Duration::from_secs(3600), "{left:?}");
    }
}
