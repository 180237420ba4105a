//! Records a finished request: one place for all loads.

use crate::backend::{InferError, Request, RequestTrace};
use crate::clock::Stamp;
use crate::context::LoadContext;
use crate::record::{Finished, Observer, Sample, Source, TracedRequest, WholeSequence};

/// A finished request.
pub(crate) struct Over<'a> {
    /// The source of its record, by whose writer observers know its slot.
    pub(crate) source: Source,
    /// Its times.
    pub(crate) sample: Sample,
    /// Why it failed, if it did.
    pub(crate) error: Option<&'a InferError>,
}

impl LoadContext {
    /// Records a finished request, then shows it to the observer with the details from `request`.
    #[inline(always)]
    pub(crate) fn book(&self, over: &Over<'_>, request: impl FnOnce() -> Request) {
        let Over { source, sample, error } = over;
        match error {
            None => self.recorder.record(*source, sample),
            Some(error) => self.recorder.fail(*source, sample.end, error),
        }
        if let Some(observer) = &self.observer {
            self.show(&**observer, over, request());
        }
    }

    /// Notes when a sequence of a request stream with one request at a time began, if a request is its first.
    #[inline]
    pub(crate) fn begin_sequence(&self, request_stream: usize, request: Request, sent: Stamp) {
        if request.sequence.is_some_and(|position| position.start) {
            self.input_source.begin(request_stream, sent);
        }
    }

    /// Records a sequence, of which a finished request is the last; `begun` tells when its first was due, if all of it was played.
    /// Out of the way of requests that end none.
    #[cold]
    #[inline(never)]
    pub(crate) fn end_sequence(&self, over: &Over<'_>, begun: Option<Stamp>) {
        let Over { source, sample: Sample { sent, intended, end, .. }, error } = *over;
        if error.is_none() {
            let whole = begun.map(|begun| WholeSequence { begun, last: intended.unwrap_or(sent), end });
            self.recorder.sequence(source, end, whole.as_ref());
        }
    }

    /// Shows a finished request to an observer, out of the way of those that nobody observes.
    #[inline(never)]
    fn show(&self, observer: &dyn Observer, over: &Over<'_>, request: Request) {
        let Over { source, sample: Sample { sent, intended, end, .. }, error } = *over;
        let server = self.recorder.spec().server_of(source.part);
        observer.complete(source.writer, &Finished { request, server, sent, intended, end, error });
    }

    /// Keeps the trace of a traced request.
    #[cold]
    pub(crate) fn keep_trace(&self, trace: &RequestTrace, intended: Option<Stamp>, awake: Option<Stamp>) {
        if let Some(traces) = &self.traces {
            traces.keep(TracedRequest { trace: *trace, intended, awake });
        }
    }

    /// Handles a failed request on a request stream with no other under way: if it should have started a sequence, the next
    /// request ends it.
    #[cold]
    pub(crate) fn cut_short(&self, request: Request, request_stream: usize) {
        if request.sequence.is_some_and(|position| position.start) {
            self.input_source.cut_short(request_stream);
        }
    }
}
