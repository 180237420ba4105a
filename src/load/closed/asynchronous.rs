//! Several requests outstanding on one worker, each followed by the next inside its own completion.
//!
//! With a backend that completes on the server's threads, the worker sends its first requests and then sleeps: the load
//! goes on inside the server's callbacks, without a hand-over to another thread.
//!
//! A server that answers from a cache does so inside the call that asks. Whoever asks again from a callback would then
//! never return from it: the server's thread would compute nothing for the other slots, and where the server holds a
//! lock around its callbacks, it would wait for itself. So there the worker sends all requests.

use std::sync::Arc;

use crate::backend::{Next, SlotId};
use crate::clock::Stamp;
use crate::context::LoadContext;
use crate::control::Control;
use crate::engine::{self, InFlight, Issuer, Numbers, Policy, Setup};
use crate::error::Result;
use crate::worker::WorkerShare;

/// A slot sends its next request when its last one is over.
struct Reissue;

impl Policy for Reissue {
    #[inline]
    fn next(&self, flight: &InFlight<Self>, slot: SlotId) -> Next {
        let request_stream = flight.numbers.number(slot);
        if flight.control.may_send() {
            return Next::Issue(flight.context.input_source.next(request_stream));
        }
        // Ended at once, not when all slots are idle: the server may hold back another slot's sequence until this one
        // ends.
        flight.context.input_source.close(request_stream).map_or(Next::Idle, Next::Issue)
    }
}

/// A slot whose request is over waits for its worker.
struct HandBack;

impl Policy for HandBack {
    fn next(&self, _: &InFlight<Self>, _: SlotId) -> Next {
        Next::Idle
    }
}

/// The body of a worker's thread.
pub(super) fn work(context: &Arc<LoadContext>, control: &Arc<Control>, share: &WorkerShare) -> Result<()> {
    let numbers = Numbers { first: share.first_request_stream, stride: 1 };
    let WorkerShare { worker, workers, slots, .. } = *share;
    if context.answers_at_once {
        let setup =
            Setup { policy: HandBack, numbers, worker, workers, slots, alone: true, reissues: true, watches: false };
        return engine::work(context, control, setup, send_all);
    }
    let setup = Setup { policy: Reissue, numbers, worker, workers, slots, alone: true, reissues: true, watches: false };
    engine::work(context, control, setup, |issuer| {
        send_first(issuer)?;
        issuer.settle()
    })
}

/// Sends a request in every slot.
fn send_first(issuer: &mut Issuer<Reissue>) -> Result<()> {
    for slot in (0..issuer.slots as u32).map(SlotId) {
        let request_stream = issuer.flight.numbers.number(slot);
        // An unused slot stays at the end of the free list.
        if !issuer.flight.control.may_send() {
            return Ok(());
        }
        issuer.free.pop_front();
        let request = issuer.flight.context.input_source.next(request_stream);
        issuer.submit(slot, request, request_stream, Stamp::now())?;
    }
    Ok(())
}

/// Sends a request in every slot that is free, until the load ends.
fn send_all(issuer: &mut Issuer<HandBack>) -> Result<()> {
    let mut retired = Vec::new();
    while retired.len() < issuer.slots && !issuer.flight.control.has_given_up() {
        let Some(slot) = issuer.take_free() else {
            issuer.rest(|| false)?;
            continue;
        };
        let (request_stream, now) = (issuer.flight.numbers.number(slot), Stamp::now());
        let is_going_on = issuer.flight.control.may_send();
        let input_source = &issuer.flight.context.input_source;
        match if is_going_on { Some(input_source.next(request_stream)) } else { input_source.close(request_stream) } {
            Some(request) => issuer.submit(slot, request, request_stream, now)?,
            None => retired.push(slot),
        }
        if issuer.next_look() <= now {
            issuer.cancel_overdue();
        }
    }
    issuer.free.extend(retired);
    issuer.settle()
}
