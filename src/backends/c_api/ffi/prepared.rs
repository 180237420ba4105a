//! The request objects of one slot: made once, and reused without an allocation if the server allows it.

use crate::c_api::ffi::exchange::Change;
use crate::c_api::ffi::request::{Callbacks, InferenceRequest};
use crate::c_api::ffi::shared::{Reuse, Shared};
use crate::c_api::ffi::status::Status;
use crate::data::PayloadId;

/// This many objects stay in a processor's cache by themselves.
const CACHED: usize = 64;

/// The numbers of `payloads` payloads, starting with those that are `slots` apart. A slot of a closed loop with that
/// many slots works through these for a while (`load::entry_order`): objects that are made in this order, and used together,
/// fill few pages.
pub(super) fn order_of_use(payloads: usize, slots: usize) -> impl Iterator<Item = PayloadId> {
    let stride = slots.max(1);
    (0..stride.min(payloads))
        .flat_map(move |first| (first..payloads).step_by(stride))
        .map(|payload| PayloadId(payload as u32))
}

/// The request objects of a slot.
pub(super) struct Requests {
    reuse: Reuse,
    /// One per payload, or a single one.
    prepared: Vec<Option<InferenceRequest>>,
    /// Index of the last issued one, and the number of issues.
    current: usize,
    /// The payload that it carries.
    payload: Option<PayloadId>,
    issued: u32,
    /// Number of the next traced request; 0 for none.
    next_traced: u32,
}

impl Requests {
    /// Room for the objects of a slot for `payloads` payloads; none is made yet. The slot's first request is traced, or
    /// none is.
    pub(super) fn new(payloads: usize, reuse: Reuse, traces: bool) -> Self {
        let objects = if reuse == Reuse::PerPayload { payloads } else { 1 };
        Self {
            reuse,
            prepared: (0..objects).map(|_| None).collect(),
            current: 0,
            payload: None,
            issued: 0,
            next_traced: traces.into(),
        }
    }

    /// Counts a request and returns its number, from 1, and whether it should be traced.
    #[inline]
    pub(super) fn count_issue(&mut self) -> (u32, bool) {
        self.issued = self.issued.wrapping_add(1);
        (self.issued, self.issued == self.next_traced)
    }

    /// Traces the request that comes after `requests` others.
    pub(super) fn trace_after(&mut self, requests: u32) {
        self.next_traced = self.issued.wrapping_add(requests);
    }

    /// The most recently prepared object.
    pub(super) fn current(&self) -> Option<&InferenceRequest> {
        self.prepared[self.current].as_ref()
    }

    /// The payload that it carries.
    pub(super) fn payload(&self) -> Option<PayloadId> {
        self.payload
    }

    /// An object that carries `payload`, ready to be issued.
    ///
    /// # Errors
    /// The server's, where it refuses an input or an option.
    ///
    /// # Safety
    /// None of the objects is in the server's hands, and the promise of [`InferenceRequest::new`].
    pub(super) unsafe fn prepare(
        &mut self,
        shared: &Shared,
        payload: PayloadId,
        callbacks: &Callbacks,
    ) -> Result<&mut InferenceRequest, Status> {
        self.current = if self.reuse == Reuse::PerPayload { payload.0 as usize } else { 0 };
        let before = self.payload.replace(payload);
        let carries = self.reuse == Reuse::PerPayload || (self.reuse == Reuse::Exchange && before == Some(payload));
        if carries && self.prepared[self.current].is_some() {
            if self.prepared.len() > CACHED {
                self.fetch_following(before, payload);
            }
            return Ok(self.prepared[self.current].as_mut().expect("was just seen"));
        }
        let object = &mut self.prepared[self.current];
        let next = &shared.spec.payloads[payload.0 as usize];
        // Taken out, so that an object with half-replaced inputs is dropped on an error.
        if let (Some(table), Some(mut kept), Some(before)) = (shared.exchange.get(), object.take(), before)
            && table.exchange(&mut kept, Change { from: before, to: payload }, next)?
        {
            return Ok(object.insert(kept));
        }
        let model = &shared.spec.models[next.model];
        // SAFETY: guaranteed by the caller.
        let mut fresh = unsafe { InferenceRequest::new(&shared.server, model, &shared.spec.options, callbacks) }?;
        fresh.set_parameters(&shared.spec.options, next)?;
        fresh.set_inputs(next)?;
        Ok(object.insert(fresh))
    }
}

impl Requests {
    /// Prefetches the object that will be needed next, assuming that the step from one payload to the next stays the
    /// same.
    #[inline]
    fn fetch_following(&self, before: Option<PayloadId>, now: PayloadId) {
        let Some(before) = before else { return };
        let next = now.0.wrapping_add(now.0.wrapping_sub(before.0));
        if let Some(Some(object)) = self.prepared.get(next as usize) {
            object.prefetch();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_slot_goes_through_is_made_together() {
        let order = |payloads, slots| order_of_use(payloads, slots).map(|payload| payload.0).collect::<Vec<_>>();
        assert_eq!(order(7, 3), [0, 3, 6, 1, 4, 2, 5]);
        assert_eq!(order(3, 8), [0, 1, 2]);
        assert_eq!(order(3, 0), [0, 1, 2]);
        assert!(order(0, 4).is_empty());
    }
}
