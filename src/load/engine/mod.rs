//! What every load has in common: slots, recording, cancelling, waiting, draining, and counting its requests.
//!
//! A load is a [`Policy`] and a plan for it. The engine owns the outstanding requests ([`InFlight`], the completion
//! side, on whichever thread that runs) and the thread that issues ([`Issuer`]); a policy decides *when a slot sends,
//! and what*: at once when its request is over, by a schedule, or when others have made progress. In synchronous loads
//! the waiting thread records requests, with the same [`booking`](self::booking::Over).

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

/// Decides when a load sends, and what. Called on whichever thread completes a request; never waits and never
/// allocates.
pub(super) trait Policy: Send + Sync + Sized {
    /// Whether requests have times at which they should be sent.
    const SCHEDULED: bool = false;

    /// The slot's request is over. Returns the request to send in it at once, if any; otherwise the slot is free until
    /// its worker takes it again.
    fn next(&self, flight: &InFlight<Self>, slot: SlotId) -> Next;

    /// The slot's request is over and recorded, as `turn`; it may have `failed`.
    fn recorded(&self, _flight: &InFlight<Self>, _slot: SlotId, _turn: &Sample, _failed: bool) {}

    /// A response with data arrived at `at`, `gap_ns` after the one before it.
    fn responded(&self, _flight: &InFlight<Self>, _slot: SlotId, _at: Stamp, _gap_ns: Option<u64>) {}
}
