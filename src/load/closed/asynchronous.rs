//! Several requests outstanding on one worker, each followed by the next inside its own completion.
//!
//! With a backend that completes on the server's threads, the worker sends its first requests and then sleeps: the load
//! goes on inside the server's callbacks, without a hand-over to another thread.

use std::sync::Arc;

use crate::backend::{Next, SlotId};
use crate::clock::Stamp;
use crate::error::Result;
use crate::load::context::LoadContext;
use crate::load::control::Control;
use crate::load::engine::{self, InFlight, Issuer, Numbers, Policy, Setup};
use crate::load::worker::WorkerShare;

/// A slot sends its next request when its last one is over.
struct Reissue;

impl Policy for Reissue {
    #[inline]
    fn next(&self, flight: &InFlight<Self>, slot: SlotId) -> Next {
        let lane = flight.numbers.of(slot);
        if flight.control.may_send() {
            return Next::Issue(flight.context.feed.next(lane));
        }
        // Ended at once, not when all slots are idle: the server may hold back another slot's sequence until this one
        // ends.
        flight.context.feed.close(lane).map_or(Next::Idle, Next::Issue)
    }
}

/// The body of a worker's thread.
pub(super) fn work(context: &Arc<LoadContext>, control: &Arc<Control>, share: &WorkerShare) -> Result<()> {
    let numbers = Numbers { first: share.first_lane, stride: 1 };
    let (policy, slots) = (Reissue, share.slots);
    let worker = (share.worker, share.workers);
    let setup = Setup { policy, numbers, worker, slots, alone: true, reissues: true, watches: false };
    engine::work(context, control, setup, |issuer| {
        send_first(issuer)?;
        issuer.settle()
    })
}

/// Sends a request in every slot.
fn send_first(issuer: &mut Issuer<Reissue>) -> Result<()> {
    for slot in (0..issuer.slots as u32).map(SlotId) {
        let lane = issuer.flight.numbers.of(slot);
        // An unused slot stays at the end of the free list.
        if !issuer.flight.control.may_send() {
            return Ok(());
        }
        issuer.free.pop_front();
        let request = issuer.flight.context.feed.next(lane);
        issuer.submit(slot, request, lane, Stamp::now())?;
    }
    Ok(())
}
