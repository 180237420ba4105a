//! How a request that is over is recorded: one way for all loads.

use crate::backend::{InferError, Request, RequestTrace};
use crate::clock::Stamp;
use crate::data::PayloadId;
use crate::load::context::LoadContext;
use crate::record::{Finished, Sample, Source, TracedRequest};

/// A request that is over.
pub(in crate::load) struct Over<'a> {
    /// What it carried.
    pub(in crate::load) payload: PayloadId,
    /// Where its record comes from, and what observers know its place by.
    pub(in crate::load) number: usize,
    /// Its times.
    pub(in crate::load) sample: Sample,
    /// Why it failed, if it did.
    pub(in crate::load) error: Option<&'a InferError>,
}

impl LoadContext {
    /// Records a request that is over, then shows it, with all that `request` tells of it, to whoever else wants to see it.
    #[inline(always)]
    pub(in crate::load) fn book(&self, over: &Over<'_>, request: impl FnOnce() -> Request) {
        let Over { payload, number, sample, error } = over;
        let source: Source = self.source(*number, *payload);
        match error {
            None => self.recorder.record(source, sample),
            Some(error) => self.recorder.fail(source, sample.end, error),
        }
        if let Some(observer) = &self.observer {
            let Sample { sent, intended, end, .. } = *sample;
            observer.complete(*number, &Finished { request: request(), sent, intended, end, error: *error });
        }
    }

    /// Keeps what the server told of a traced request.
    #[cold]
    pub(in crate::load) fn keep_trace(&self, trace: &RequestTrace, intended: Option<Stamp>, awake: Option<Stamp>) {
        if let Some(traces) = &self.traces {
            traces.keep(TracedRequest { trace: *trace, intended, awake });
        }
    }

    /// A request that failed, of whose lane no other is under way: if it should have started a sequence, the next one ends it.
    #[cold]
    pub(in crate::load) fn cut_short(&self, request: Request, lane: usize) {
        if request.sequence.is_some_and(|position| position.start) {
            self.feed.cut_short(lane);
        }
    }
}
