//! Responses: records them, checks them against the model and shows them to observers.

use std::sync::atomic::Ordering;

use crate::backend::{InferError, ReplyForm, ReplySource, Response};
use crate::c_api::ffi::response::{InferenceResponse, NoOutputs};
use crate::c_api::ffi::slot::Slot;
use crate::clock::Stamp;
use crate::data::Payload;

impl Slot {
    /// Processes one response, `before` others having come.
    #[inline(always)]
    pub(super) fn take_in(&self, at: Stamp, response: InferenceResponse<'_>, before: u32) {
        if before == 0 {
            self.progress.first_response.store(at.0, Ordering::Relaxed);
        }
        // Of two that arrive at once, either may be the last.
        if at.0 > self.progress.last_response.load(Ordering::Relaxed) {
            self.progress.last_response.store(at.0, Ordering::Relaxed);
        }
        let mut failure = response.error().map_err(InferError::from).err();
        if self.checks.any_due() && failure.is_none() {
            failure = self.check(&response).err();
        }
        if self.shared.spec.watch_responses {
            self.show(&Response { at, empty: false, outputs: &response, error: failure.as_ref() });
        }
        if let Some(reason) = failure {
            self.fail(reason);
        }
    }

    /// A null response ends a request; if none came before it, its time counts as the response's.
    #[cold]
    pub(super) fn end_without_data(&self, at: Stamp, before: u32) {
        if before == 0 {
            self.progress.first_response.store(at.0, Ordering::Relaxed);
            self.progress.last_response.store(at.0, Ordering::Relaxed);
        }
        if self.shared.spec.watch_responses {
            self.show(&Response { at, empty: true, outputs: &NoOutputs, error: None });
        }
    }

    fn show(&self, response: &Response<'_>) {
        let _one_at_a_time = self.watched.lock();
        self.shared.sink.response(self.id, response);
    }

    /// Whether a final response carries nothing: decoupled models may end a request with one that has no outputs.
    #[inline]
    pub(super) fn only_ends(&self, response: &InferenceResponse<'_>) -> bool {
        // Responses of decoupled models are always watched, and others rarely.
        self.shared.spec.watch_responses && self.is_decoupled() && response.is_empty()
    }

    #[cold]
    fn is_decoupled(&self) -> bool {
        // SAFETY: a response is being taken in, so a request is outstanding.
        self.shared.spec.models[unsafe { self.outstanding_model() }].decoupled
    }

    /// Checks a response against the model, if that is due.
    #[cold]
    fn check(&self, response: &InferenceResponse<'_>) -> Result<(), InferError> {
        // SAFETY: a response is being processed, so its request is not over and nothing changes `requests`.
        let payload = unsafe { &*self.requests.get() }.payload();
        let Some(id) = payload.filter(|id| self.checks.is_due(*id)) else { return Ok(()) };
        let Payload { model, batch, .. } = self.shared.spec.payloads[id.0 as usize];
        let model = &self.shared.spec.models[model];
        // The response carries the model's name, but the server itself wrote it there.
        let found = ReplyForm { model, batch, contents: true }.check(ReplySource::default(), response);
        self.checks.settle(id, model, found)
    }
}
