//! What every load has in common: slots, recording, cancelling, waiting, draining, and the account of its requests.
//!
//! A load is a [`Policy`] and a plan for it. The engine owns the requests under way ([`InFlight`], the completion side, on
//! whichever thread that runs) and the thread that issues ([`Issuer`]); a policy decides *when a slot sends, and what*: at once
//! when its request is over, by a schedule, or when others have made progress. Requests of synchronous loads are recorded
//! by the thread that waited for them, with the same [`booking`](self::booking::Over).

mod booking;
mod cancel;
mod flight;
mod issuer;
mod slots;

pub(super) use booking::Over;
pub(super) use flight::{InFlight, Numbers};
pub(super) use issuer::{Issuer, Setup, work};

use crate::backend::{Next, SlotId};
use crate::clock::Stamp;
use crate::record::Sample;

/// When a load sends, and what. Called on whichever thread completes a request; never waits and never allocates.
pub(super) trait Policy: Send + Sync + Sized {
    /// Whether requests have times at which they should be sent.
    const SCHEDULED: bool = false;

    /// The slot's request is over: what is sent in it at once, if anything; else it is free until its worker takes it again.
    fn next(&self, flight: &InFlight<Self>, slot: SlotId) -> Next;

    /// The slot's request is over and recorded, as `turn`; it may have `failed`.
    fn recorded(&self, _flight: &InFlight<Self>, _slot: SlotId, _turn: &Sample, _failed: bool) {}

    /// A response with data came at `at`, `gap_ns` after the one before it.
    fn responded(&self, _flight: &InFlight<Self>, _slot: SlotId, _at: Stamp, _gap_ns: Option<u64>) {}
}
