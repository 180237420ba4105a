//! Copies every response, and hands the request over when it is over.

use std::fmt::Write;
use std::mem;
use std::sync::Arc;

use crossbeam::utils::CachePadded;
use parking_lot::Mutex;

use crate::backend::Response;
use crate::chunks::Chunks;
use crate::observer::{Finished, Observer};
use crate::pool::RecordPool;
use crate::raw::RawRecord;

/// Receives captured requests. Called by the threads that complete requests, so it neither waits nor allocates.
pub trait Destination: Send + Sync {
    /// Whether this request is wanted.
    fn wants(&self, finished: &Finished<'_>) -> bool;

    /// Whether what responses carried is wanted, and not only when they came.
    fn wants_contents(&self) -> bool {
        true
    }

    /// Receives a request that it wants. The record must eventually go back to its pool.
    fn take(&self, finished: &Finished<'_>, record: Box<RawRecord>);

    /// A request that it wants could not be kept: there was no memory for it.
    fn lost(&self, finished: &Finished<'_>);
}

/// An observer that copies requests. Each request stream has its own record to copy into; its lock is never contended, because
/// calls for one request stream never overlap.
pub struct Capture<D> {
    request_streams: Chunks<CachePadded<Mutex<CaptureState>>>,
    pool: Arc<RecordPool>,
    destination: D,
}

/// The request of a request stream.
#[derive(Default)]
enum CaptureState {
    /// No response has arrived.
    #[default]
    Silent,
    /// Its responses so far.
    Copied(Box<RawRecord>),
    /// There was no memory for one of its responses.
    Lost,
}

impl<D: Destination> Capture<D> {
    /// Copies into records of `pool`.
    pub fn new(pool: Arc<RecordPool>, destination: D) -> Self {
        Self { request_streams: Chunks::default(), pool, destination }
    }

    /// Adds to the record of a request stream's request; `copy` returns `false` if there is no memory for it.
    fn add(&self, request_stream: usize, copy: impl FnOnce(&RecordPool, &mut RawRecord) -> bool) {
        let mut request_stream = self.request_streams.get(request_stream).lock();
        let record = match mem::replace(&mut *request_stream, CaptureState::Lost) {
            CaptureState::Silent => self.pool.take(),
            CaptureState::Copied(record) => Some(record),
            CaptureState::Lost => return,
        };
        let Some(mut record) = record else { return };
        if copy(&self.pool, &mut record) {
            *request_stream = CaptureState::Copied(record);
        } else {
            self.pool.give_back(record);
        }
    }
}

impl<D: Destination> Observer for Capture<D> {
    fn reserve(&self, request_streams: usize) {
        self.request_streams.grow(request_streams);
    }

    fn response(&self, request_stream: usize, response: &Response<'_>) {
        let whole = self.destination.wants_contents();
        self.add(
            request_stream,
            |pool, record| if whole { pool.copy(response, record) } else { pool.note(response, record) },
        );
    }

    fn carried(&self, request_stream: usize, text: &[u8]) {
        if self.destination.wants_contents() {
            self.add(request_stream, |pool, record| pool.carry(text, record));
        }
    }

    fn complete(&self, request_stream: usize, finished: &Finished<'_>) {
        let copied = mem::take(&mut *self.request_streams.get(request_stream).lock());
        let wanted = self.destination.wants(finished);
        let record = match copied {
            CaptureState::Copied(record) if !wanted => return self.pool.give_back(record),
            _ if !wanted => return,
            CaptureState::Copied(record) => Some(record),
            CaptureState::Silent => self.pool.take(),
            CaptureState::Lost => None,
        };
        let Some(mut record) = record else { return self.destination.lost(finished) };
        record.sent = finished.sent;
        record.intended = finished.intended;
        record.end = finished.end;
        record.sequence_id = finished.request.sequence.map_or(0, |position| position.id);
        (record.payload, record.server) = (finished.request.payload, finished.server);
        if let Some(error) = finished.error {
            let result = write!(record.failure, "{}", error.code);
            debug_assert!(result.is_ok(), "writing to memory does not fail");
        }
        self.destination.take(finished, record);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{OutputView, Request};
    use crate::clock::Stamp;
    use crate::data::PayloadId;
    use crate::model::DataType;
    use crate::raw::TestOutputs;

    /// Keeps what it is given, and counts what is lost; the first payload is not wanted.
    #[derive(Default)]
    struct Shelf {
        kept: Mutex<Vec<RawRecord>>,
        lost: Mutex<u64>,
    }

    impl Destination for Arc<Shelf> {
        fn wants(&self, finished: &Finished<'_>) -> bool {
            finished.request.payload.0 != 0
        }

        fn take(&self, _finished: &Finished<'_>, record: Box<RawRecord>) {
            self.kept.lock().push(*record);
        }

        fn lost(&self, _finished: &Finished<'_>) {
            *self.lost.lock() += 1;
        }
    }

    #[test]
    fn what_does_not_fit_is_counted_and_later_requests_are_whole_again() {
        let (pool, shelf) = (Arc::new(RecordPool::new(64 << 10)), Arc::<Shelf>::default());
        let capture = Capture::new(Arc::clone(&pool), Arc::clone(&shelf));
        capture.reserve(3);
        let respond = |request_stream, bytes: &[u8]| {
            let outputs = TestOutputs(vec![OutputView { name: "Y", datatype: DataType::Uint8, shape: &[1], bytes }]);
            capture.response(request_stream, &Response { at: Stamp(1), empty: false, outputs: &outputs, error: None });
        };
        let end = |request_stream, payload| {
            let request = Request { payload: PayloadId(payload), sequence: None };
            capture.complete(
                request_stream,
                &Finished { request, server: 0, sent: Stamp(1), intended: None, end: Stamp(2), error: None },
            );
        };
        let carried = |request_stream, bytes: usize| capture.carried(request_stream, &vec![b'x'; bytes]);
        // Two request streams at once, whose responses alternate; the second response of one does not fit.
        respond(0, b"small");
        respond(2, b"other");
        respond(0, &vec![1; 70 << 10]);
        respond(0, b"small");
        end(0, 1);
        end(2, 2);
        respond(0, b"again");
        end(0, 3);
        respond(1, b"unwanted");
        end(1, 0);
        end(1, 4);
        // What a request carried is a part of its record, and counts like one.
        respond(1, b"small");
        carried(1, 9);
        end(1, 5);
        carried(1, 70 << 10);
        end(1, 6);
        let kept = shelf.kept.lock();
        let records: Vec<_> = kept.iter().map(|record| (record.payload.0, record.responses().count())).collect();
        assert_eq!((records, *shelf.lost.lock()), (vec![(2, 1), (3, 1), (4, 0), (5, 1)], 2));
        let texts: Vec<_> = kept.iter().map(|record| record.carried().map(<[u8]>::len)).collect();
        assert_eq!(texts, [None, None, None, Some(9)]);
    }
}
