//! What a backend reports to the load.

use crate::clock::Stamp;
use crate::data::OutputView;
use crate::{Generation, InferError, Request, RequestTrace, SlotId, Uncounted};

/// Called on whichever thread completes a request; see the module's contract.
pub trait CompletionSink: Send + Sync {
    /// A response has arrived. Called for every response, in order and one at a time for each slot, if the client was
    /// opened with `watch_responses`.
    fn response(&self, slot: SlotId, response: &Response<'_>);

    /// The slot's request has succeeded and brought generated text. Called before [`CompletionSink::complete`], by
    /// services that generate text ([`Backend::generates`](crate::Backend::generates)), with what is still to be counted.
    fn generated(&self, _slot: SlotId, _generation: &Generation, _uncounted: Uncounted<'_>) {}

    /// The first input of the slot's request was this text and not its payload's. Called before
    /// [`CompletionSink::complete`], if the client was opened with `watch_responses`.
    fn carried(&self, _slot: SlotId, _text: &[u8]) {}

    /// The slot's request was traced. A call of its own before [`CompletionSink::complete`], by backends that trace
    /// ([`Backend::traces`](crate::Backend::traces)), so that untraced requests carry nothing for it. If a
    /// server on the network writes its traces itself ([`ServerTraces`](crate::ServerTraces)), it is called
    /// for every request, with a single model that has no moments and the slot's name as its id.
    fn traced(&self, _slot: SlotId, _trace: &RequestTrace) {}

    /// The slot's next request goes to that server of [`Backend::servers`](crate::Backend::servers). Called
    /// before it is sent, if there are several.
    fn placed(&self, _slot: SlotId, _server: usize) {}

    /// The slot is free again. The return value says what it does next.
    fn complete(&self, slot: SlotId, completion: &Completion<'_>) -> Next;
}

/// What a slot does after a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Send this request at once.
    Issue(Request),
    /// Nothing, until its worker submits again.
    Idle,
}

/// A finished request.
#[derive(Clone, Copy, Debug)]
pub struct Completion<'a> {
    /// Just before it was handed to the server or to the transport.
    pub sent: Stamp,
    /// When the hand-over ended, if the backend took that stamp.
    pub send_end: Option<Stamp>,
    /// When its first response that carries data, or an error, arrived (over a network: began to arrive).
    pub first_response: Stamp,
    /// When its last response that carries data, or an error, had arrived.
    pub last_response: Stamp,
    /// Responses that carried data.
    pub responses: u32,
    /// Why it failed, if it did. With several responses: the first error.
    pub error: Option<&'a InferError>,
}

/// One response of a request that is still under way.
pub struct Response<'a> {
    /// When it arrived.
    pub at: Stamp,
    /// Whether it counts in no figure: it only ends the request, or carries nothing that was asked for.
    pub empty: bool,
    /// Its outputs; none if it failed or is empty.
    pub outputs: &'a dyn Outputs,
    /// Why it failed, if it did.
    pub error: Option<&'a InferError>,
}

/// The outputs of a response.
pub trait Outputs {
    /// Visits every output in the response's order.
    fn visit(&self, visitor: &mut dyn FnMut(OutputView<'_>));
}
