//! [`ReplicatedClient`]: a worker's client of several servers, of a client for each.
//!
//! A slot of the worker is a slot of the server that its present request is with. What a completion issues next stays in that
//! slot if it is for the same server; otherwise it leaves as soon as that server's client has reported what it had to.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::backend::{
    Client, ClientSpec, Completion, CompletionSink, Generation, Next, Request, RequestTrace, Response, SlotId,
    Uncounted,
};
use crate::chunks::Chunks;
use crate::clock::Stamp;
use crate::engine::wait_for_any;
use crate::error::{Error, Result};
use crate::replicas::dealer::Dealer;
use crate::replicas::places::{Moving, Place, Places};

/// A client of several servers.
pub(super) struct ReplicatedClient {
    branches: Vec<Branch>,
    shared: Arc<Shared>,
    slots: usize,
}

/// The client of one server.
struct Branch {
    client: Box<dyn Client>,
    sink: Arc<BranchSink>,
    slots: usize,
}

/// What a client shares with the sinks of its servers. All of it is used on the worker's thread, so the lock is always free.
struct Shared {
    dealer: Arc<Dealer>,
    sink: Arc<dyn CompletionSink>,
    places: Mutex<Places>,
}

/// Reports what one server's client reports, under the worker's slots.
pub(super) struct BranchSink {
    server: usize,
    shared: Arc<Shared>,
    /// The worker's slot in each of the server's.
    slots: Chunks<AtomicU32>,
}

impl BranchSink {
    fn slot(&self, inner: SlotId) -> SlotId {
        SlotId(self.slots.get(inner.index()).load(Ordering::Relaxed))
    }
}

impl CompletionSink for BranchSink {
    fn response(&self, slot: SlotId, response: &Response<'_>) {
        self.shared.sink.response(self.slot(slot), response);
    }

    fn generated(&self, slot: SlotId, generation: &Generation, uncounted: Uncounted<'_>) {
        self.shared.sink.generated(self.slot(slot), generation, uncounted);
    }

    fn carried(&self, slot: SlotId, text: &[u8]) {
        self.shared.sink.carried(self.slot(slot), text);
    }

    fn traced(&self, slot: SlotId, trace: &RequestTrace) {
        self.shared.sink.traced(self.slot(slot), trace);
    }

    fn complete(&self, inner: SlotId, completion: &Completion<'_>) -> Next {
        let Shared { dealer, sink, places } = &*self.shared;
        let slot = self.slot(inner);
        dealer.over(self.server);
        let next = sink.complete(slot, completion);
        let mut places = places.lock();
        places.reported = true;
        if let Next::Issue(request) = next {
            let server = places.choose(dealer, slot, request);
            if server == self.server {
                dealer.sent(server);
                sink.placed(slot, server);
                return next;
            }
            places.moving.push(Moving { slot, request, server });
        }
        places.leave(slot, Place { server: self.server, slot: inner });
        Next::Idle
    }
}

impl ReplicatedClient {
    /// A client with the slots that `spec` asks for, whose server number `n` is reached by what `open(n, …)` opens.
    ///
    /// # Errors
    /// As `open` fails.
    pub(super) fn open(
        dealer: &Arc<Dealer>,
        spec: &ClientSpec,
        sink: Arc<dyn CompletionSink>,
        open: impl Fn(usize, ClientSpec, Arc<dyn CompletionSink>) -> Result<Box<dyn Client>>,
    ) -> Result<Self> {
        let servers = dealer.servers();
        let places = Mutex::new(Places::new(servers, spec));
        places.lock().grow(dealer, spec.slots);
        let shared = Arc::new(Shared { dealer: Arc::clone(dealer), sink, places });
        let part = |all: usize, server: usize| (all / servers + usize::from(server < all % servers)).max(1);
        let branch = |server| {
            let slots = shared.places.lock().wanted(dealer, server);
            let sink = Arc::new(BranchSink { server, shared: Arc::clone(&shared), slots: Chunks::new(slots) });
            let spec = ClientSpec {
                slots,
                load_slots: spec.load_slots.saturating_mul(servers),
                connections: spec.connections.map(|all| part(all, server)),
                ..spec.clone()
            };
            shared.places.lock().free(server, 0..slots);
            Ok(Branch { client: open(server, spec, Arc::clone(&sink) as Arc<dyn CompletionSink>)?, sink, slots })
        };
        let branches = (0..servers).map(branch).collect::<Result<_>>()?;
        Ok(Self { branches, shared, slots: spec.slots })
    }

    /// Sends a request to a server.
    fn send(&mut self, slot: SlotId, request: Request, server: usize) -> Result<()> {
        let mut free = self.shared.places.lock().take(slot, server);
        if free.is_none() {
            self.grow_one(server, (2 * self.branches[server].slots).max(1))?;
            free = self.shared.places.lock().take(slot, server);
        }
        let inner = free.ok_or_else(|| Error::server("a slot is missing; please report this bug"))?;
        let branch = &mut self.branches[server];
        branch.sink.slots.get(inner.index()).store(slot.0, Ordering::Relaxed);
        self.shared.dealer.sent(server);
        self.shared.sink.placed(slot, server);
        branch.client.submit(inner, request)
    }

    /// Makes sure that there are at least `slots` slots of that server.
    fn grow_one(&mut self, server: usize, slots: usize) -> Result<()> {
        let branch = &mut self.branches[server];
        if slots > branch.slots {
            branch.client.grow(slots)?;
            branch.sink.slots.grow(slots);
            self.shared.places.lock().free(server, branch.slots..slots);
            branch.slots = slots;
        }
        Ok(())
    }

    /// Sends what follows requests of other servers.
    fn send_moving(&mut self) -> Result<()> {
        loop {
            let moving = self.shared.places.lock().moving.pop();
            let Some(Moving { slot, request, server }) = moving else { return Ok(()) };
            self.send(slot, request, server)?;
        }
    }

    /// Drives one server's client, and sends what follows.
    fn drive_one(&mut self, server: usize, deadline: Stamp) -> Result<()> {
        self.branches[server].client.drive(deadline)?;
        self.send_moving()
    }
}

impl Client for ReplicatedClient {
    fn grow(&mut self, slots: usize) -> Result<()> {
        self.shared.places.lock().grow(&self.shared.dealer, slots);
        self.slots = self.slots.max(slots);
        for server in 0..self.branches.len() {
            let wanted = self.shared.places.lock().wanted(&self.shared.dealer, server);
            self.grow_one(server, wanted)?;
        }
        Ok(())
    }

    fn submit(&mut self, slot: SlotId, request: Request) -> Result<()> {
        let server = self.shared.places.lock().choose(&self.shared.dealer, slot, request);
        self.send(slot, request, server)
    }

    fn drive(&mut self, deadline: Stamp) -> Result<()> {
        loop {
            let (only, outstanding) = {
                let mut places = self.shared.places.lock();
                if std::mem::take(&mut places.reported) {
                    return Ok(());
                }
                (places.get(SlotId(0)).filter(|_| self.slots == 1), places.outstanding())
            };
            match only {
                Some(Place { server, .. }) => self.drive_one(server, deadline)?,
                None if outstanding == 0 && deadline == Stamp::NEVER => return Ok(()),
                None => {
                    let awaited = self.branches.iter().map(|branch| branch.client.awaited());
                    let broken = |error: std::io::Error| Error::machine(error.to_string());
                    let ready = wait_for_any(awaited, deadline).map_err(broken)?;
                    for server in (0..self.branches.len()).filter(|server| ready & 1 << server != 0) {
                        self.drive_one(server, Stamp(0))?;
                    }
                }
            }
            if Stamp::now() >= deadline {
                self.shared.places.lock().reported = false;
                return Ok(());
            }
        }
    }

    fn cancel(&mut self, slot: SlotId, sent_before: Stamp) -> bool {
        let place = self.shared.places.lock().get(slot);
        place.is_none_or(|Place { server, slot }| self.branches[server].client.cancel(slot, sent_before))
    }

    fn drain(&mut self, limit: Duration) -> usize {
        let deadline = Stamp::now().plus_duration(limit);
        loop {
            let outstanding = self.shared.places.lock().outstanding();
            if outstanding == 0 || Stamp::now() >= deadline || self.drive(deadline).is_err() {
                return outstanding;
            }
        }
    }
}
