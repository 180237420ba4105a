//! [`Places`]: where the requests of a client are.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use crate::backend::{ClientSpec, Request, SlotId};
use crate::data::Payload;
use crate::model::ModelSpec;
use crate::replicas::dealer::Dealer;

/// A slot of a server's client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The server.
    pub(super) server: usize,
    /// The slot.
    pub(super) slot: SlotId,
}

/// A request that follows one of another server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moving {
    /// The client's slot.
    pub(super) slot: SlotId,
    /// The request.
    pub(super) request: Request,
    /// The server that it is for.
    pub(super) server: usize,
}

/// A slot of the client.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// Its server, where slots keep one.
    home: usize,
    /// Where its request is, if it has one.
    place: Option<Place>,
}

/// Where the requests of a client are, and where those of a sequence belong.
pub(super) struct Places {
    payloads: Arc<[Payload]>,
    /// Of each entry that payloads are for, the first with the same model: turns of a session are entries of one.
    models: Vec<usize>,
    slots: Vec<Slot>,
    /// Free slots of each server.
    free: Vec<Vec<SlotId>>,
    /// The server of each sequence that has not ended, by model and correlation ID.
    sequences: HashMap<(usize, u64), usize>,
    /// Requests that follow one of another server.
    pub(super) moving: Vec<Moving>,
    /// A request is over of which the worker has not heard yet.
    pub(super) reported: bool,
    outstanding: usize,
}

impl Places {
    /// No slots yet.
    pub(super) fn new(servers: usize, spec: &ClientSpec) -> Self {
        let first = |model: &ModelSpec| spec.models.iter().position(|other| other.id == model.id).unwrap_or(0);
        Self {
            payloads: Arc::clone(&spec.payloads),
            models: spec.models.iter().map(first).collect(),
            slots: Vec::new(),
            free: vec![Vec::new(); servers],
            sequences: HashMap::new(),
            moving: Vec::new(),
            reported: false,
            outstanding: 0,
        }
    }

    /// Makes sure that there are at least `slots` slots, and room for what they need.
    pub(super) fn grow(&mut self, dealer: &Dealer, slots: usize) {
        while self.slots.len() < slots {
            self.slots.push(Slot { home: dealer.next_home(), place: None });
        }
        self.moving.reserve(slots);
        self.sequences.reserve(slots);
    }

    /// How many slots this client needs with a server before it needs more.
    pub(super) fn wanted(&self, dealer: &Dealer, server: usize) -> usize {
        let all = self.slots.len();
        let at_home = || self.slots.iter().filter(|slot| slot.home == server).count();
        let wanted = if dealer.is_sticky() { at_home() } else { all };
        // Where several servers are waited for at once, none may block.
        if all > 1 { wanted.max(2) } else { wanted }
    }

    /// These slots of a server are free.
    pub(super) fn free(&mut self, server: usize, slots: Range<usize>) {
        let free = &mut self.free[server];
        free.reserve(slots.end);
        // The first ones, which are connected, come first.
        free.extend(slots.rev().map(|slot| SlotId(slot as u32)));
    }

    /// The server for a request of a slot: that of its sequence, if it belongs to one.
    pub(super) fn choose(&mut self, dealer: &Dealer, slot: SlotId, request: Request) -> usize {
        let choose = || dealer.choose(self.slots[slot.index()].home);
        let Some(position) = request.sequence else { return choose() };
        let key = (self.models[self.payloads[request.payload.0 as usize].model], position.id);
        let sequence_server = self.sequences.get(&key).copied().filter(|_| !position.start);
        let server = sequence_server.unwrap_or_else(choose);
        if position.end {
            self.sequences.remove(&key);
        } else if sequence_server.is_none() {
            self.sequences.insert(key, server);
        }
        server
    }

    /// Takes a free slot of that server, if there is one, for a slot's request.
    pub(super) fn take(&mut self, slot: SlotId, server: usize) -> Option<SlotId> {
        let inner = self.free[server].pop()?;
        self.slots[slot.index()].place = Some(Place { server, slot: inner });
        self.outstanding += 1;
        Some(inner)
    }

    /// A slot's request has left its place.
    pub(super) fn leave(&mut self, slot: SlotId, place: Place) {
        self.slots[slot.index()].place = None;
        self.free[place.server].push(place.slot);
        self.outstanding -= 1;
    }

    /// Where a slot's request is, if it has one.
    pub(super) fn get(&self, slot: SlotId) -> Option<Place> {
        self.slots.get(slot.index())?.place
    }

    /// Number of requests with servers.
    pub(super) fn outstanding(&self) -> usize {
        self.outstanding
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::SequencePosition;
    use crate::data::PayloadId;
    use crate::model::ModelId;
    use crate::plan::Spread;

    #[test]
    fn a_sequence_stays_with_its_server_until_it_ends() {
        let dealer = Dealer::new(Spread::RoundRobin, 2);
        let payload = |model| Payload {
            model,
            batch: 1,
            stream: 0,
            step: 0,
            inputs: Vec::new(),
            parameters: Vec::new(),
            expected: None,
        };
        let model = |name: &str| ModelSpec::plain(&ModelId::latest(name), Vec::new(), Vec::new());
        let models = vec![model("a"), model("a"), model("b")];
        let mut places = Places::new(2, &ClientSpec::new(models.into(), (0..3).map(payload).collect()));
        places.slots = vec![Slot { home: 0, place: None }; 2];
        let mut send_of = |entry: u32, slot: u32, id: u64, flags: &str| {
            let sequence = Some(SequencePosition { id, start: flags.contains('s'), end: flags.contains('e') });
            places.choose(&dealer, SlotId(slot), Request { payload: PayloadId(entry), sequence })
        };
        let mut send = |slot: u32, id: u64, flags: &str| send_of(slot, slot, id, flags);
        assert_eq!((send(0, 7, "s"), send(1, 8, "s")), (0, 1));
        assert_eq!((send(1, 7, ""), send(1, 8, ""), send(0, 7, "e")), (0, 1, 0));
        assert_eq!((send(0, 9, "se"), send(0, 7, "s"), send(0, 7, "s")), (0, 1, 0), "an ID begins again");
        assert_eq!(send(1, 8, "e"), 1);
        assert_eq!((send_of(2, 0, 7, "s"), send_of(2, 0, 7, ""), send_of(1, 0, 7, "e")), (1, 1, 0), "another model's");
        assert_eq!(places.sequences.len(), 1);
    }
}
