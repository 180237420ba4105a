//! The slots of one client, and the rules for dropping them.

use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use crate::backend::{ClientSpec, CompletionSink, Request, SlotId};
use crate::c_api::ffi::allocator::{AllocatorCallbacks, ResponseAllocator};
use crate::c_api::ffi::callbacks;
use crate::c_api::ffi::exchange::ExchangeTables;
use crate::c_api::ffi::server::Server;
use crate::c_api::ffi::shared::{Reuse, Shared};
use crate::c_api::ffi::slot::Slot;
use crate::clock::Stamp;
use crate::error::{Error, Result};

/// A client's slots. Dropping waits for outstanding requests; a slot with a remaining hold after that is leaked.
pub struct Slots {
    shared: Arc<Shared>,
    /// C holds their addresses. Each is live: only dropping frees them.
    slots: Vec<NonNull<Slot>>,
    /// How slots beyond the initial ones reuse request objects.
    further: Reuse,
    tables: Arc<ExchangeTables>,
}

/// Parameters of slots.
pub struct SlotsSpec {
    /// The server of the requests.
    pub server: Arc<Server>,
    /// The client's specification.
    pub client: ClientSpec,
    /// Whether the server may see a request object twice.
    pub may_reuse: bool,
    /// Whether a request object must keep the data that it was first issued with.
    pub must_keep_data: bool,
    /// Where exchange tables are kept.
    pub tables: Arc<ExchangeTables>,
}

/// Limit on prepared request objects of a load, over all its clients; about 2 KiB each.
const MAX_PREPARED: usize = 32_768;
/// How often a drain polls.
const DRAIN_POLL: Duration = Duration::from_micros(100);

impl Slots {
    /// Prepares the slots and their requests.
    ///
    /// # Errors
    /// If a request is refused: an unknown input, a wrong type.
    pub fn open(spec: SlotsSpec, sink: Arc<dyn CompletionSink>) -> Result<Self> {
        let (first, further) = reuse(&spec);
        let SlotsSpec { server, client, tables, .. } = spec;
        let allocator = ResponseAllocator::new(
            &server.library,
            &AllocatorCallbacks {
                allocate: Some(callbacks::allocate),
                release: Some(callbacks::release),
                query: Some(callbacks::query),
            },
        )?;
        let count = client.slots;
        let mut slots = Self {
            shared: Arc::new(Shared {
                server,
                allocator,
                on_release: Some(callbacks::on_release),
                on_response: Some(callbacks::on_response),
                sink,
                spec: client,
                exchange: OnceLock::new(),
            }),
            slots: Vec::new(),
            further,
            tables,
        };
        slots.add(count, first)?;
        Ok(slots)
    }

    /// Makes sure that there are `count` slots.
    ///
    /// # Errors
    /// As [`Slots::open`].
    pub fn grow(&mut self, count: usize) -> Result<()> {
        self.add(count, self.further)
    }

    fn add(&mut self, count: usize, reuse: Reuse) -> Result<()> {
        if reuse == Reuse::Exchange {
            self.shared.exchange.get_or_init(|| self.tables.table(&self.shared.spec.payloads));
        }
        for index in self.slots.len()..count {
            self.slots.push(Slot::new(SlotId(index as u32), &self.shared, reuse)?);
        }
        Ok(())
    }

    /// Sends a request in a free slot.
    ///
    /// # Errors
    /// If the slot is not free, which is a bug of the caller.
    pub fn submit(&mut self, slot: SlotId, request: Request) -> Result<()> {
        if self.slot(slot).is_outstanding() {
            return Err(Error::server(
                "a request was submitted in a slot whose last one is outstanding; please report this bug",
            ));
        }
        // SAFETY: live; free, as just seen, and only this call, which has all slots for itself, can change that.
        unsafe { Slot::issue(self.slots[slot.index()], request) };
        Ok(())
    }

    fn slot(&self, slot: SlotId) -> &Slot {
        // SAFETY: every slot is live.
        unsafe { self.slots[slot.index()].as_ref() }
    }

    /// Asks the server to cancel the request in `slot`, if it was sent before `sent_before`; returns whether it did.
    pub fn cancel(&self, slot: SlotId, sent_before: Stamp) -> bool {
        self.slot(slot).cancel(sent_before)
    }

    /// Waits at most `limit` until nothing is outstanding; returns how many requests are left.
    pub fn drain(&self, limit: Duration) -> usize {
        let started = Stamp::now();
        loop {
            // SAFETY: every slot is live.
            let left = self.slots.iter().filter(|slot| !unsafe { slot.as_ref() }.is_idle()).count();
            if left == 0 || Stamp::now() - started >= limit {
                return left;
            }
            thread::sleep(DRAIN_POLL);
        }
    }
}

/// How the initial slots reuse request objects, and how later ones do. Later ones are made while a schedule runs, which
/// must not wait for objects that may never be needed.
fn reuse(spec: &SlotsSpec) -> (Reuse, Reuse) {
    let (slots, payloads) = (spec.client.load_slots.max(spec.client.slots), spec.client.payloads.len());
    let fallback = if spec.must_keep_data { Reuse::Never } else { Reuse::Exchange };
    match slots.saturating_mul(payloads) {
        _ if !spec.may_reuse => (Reuse::Never, Reuse::Never),
        // One object per slot anyway.
        _ if payloads <= 1 => (Reuse::PerPayload, Reuse::PerPayload),
        0..=MAX_PREPARED => (Reuse::PerPayload, fallback),
        _ => (fallback, fallback),
    }
}

// SAFETY: slots may be used on any thread; a pointer to one is like a box here.
unsafe impl Send for Slots {}

impl Drop for Slots {
    fn drop(&mut self) {
        self.drain(self.shared.spec.drain_limit);
        for slot in self.slots.drain(..) {
            // SAFETY: live. An idle slot stays idle, since nothing is left that could submit in it; one that is not
            // idle keeps what it shares with the others.
            unsafe {
                if slot.as_ref().is_idle() {
                    Slot::free(slot);
                }
            }
        }
    }
}
