//! Between submit and record nothing is allocated: once a load is warm, its threads and the completing ones ask the heap for
//! nothing, however many requests go through. Neither do they where every request is copied for an observer.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use triton_bench::backend::{Backend, ClientSpec, MAX_REPLY_BYTES, OutputPlan, RequestOptions};
use triton_bench::backends::null::NullBackend;
use triton_bench::data::{Payload, PayloadId};
use triton_bench::inbox::{Outbox, Received, inbox};
use triton_bench::load::feed::{Deal, Feed, PayloadIndex};
use triton_bench::load::mix::Mix;
use triton_bench::load::{ClosedLoop, LoadContext, RunningLoad, start};
use triton_bench::model::ModelId;
use triton_bench::plan::Wait;
use triton_bench::record::{Capture, Destination, Finished, Observer, RawRecord, RecordPool, Recorder, RecorderSpec};
use triton_bench::shm::Placement;

/// Counts what the heap is asked for.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

#[global_allocator]
static HEAP: Counting = Counting;

// SAFETY: everything is handed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// Hands copies to a thread, as the export and the validator do.
struct Exporting {
    outbox: Outbox<Box<RawRecord>, ()>,
    pool: Arc<RecordPool>,
    lost: Arc<AtomicU64>,
}

impl Destination for Exporting {
    fn wants(&self, finished: &Finished<'_>) -> bool {
        finished.error.is_none()
    }

    fn take(&self, _finished: &Finished<'_>, record: Box<RawRecord>) {
        if let Err(record) = self.outbox.give(record) {
            self.pool.give_back(record);
        }
    }

    fn lost(&self, _finished: &Finished<'_>) {
        self.lost.fetch_add(1, Ordering::Relaxed);
    }
}

/// An observer, and the number of requests that were looked at. The thread that looks at them begins when there was no memory for
/// one, so that no record is to be made after that.
fn exporting() -> (Arc<dyn Observer>, Arc<AtomicU64>) {
    let pool = Arc::new(RecordPool::new(256 << 10));
    let (outbox, inbox) = inbox::<Box<RawRecord>, ()>(pool.most_records());
    let [seen, lost] = [Arc::<AtomicU64>::default(), Arc::default()];
    let (back, count, exhausted) = (Arc::clone(&pool), Arc::clone(&seen), Arc::clone(&lost));
    std::thread::spawn(move || {
        while exhausted.load(Ordering::Relaxed) == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        for received in inbox {
            let Received::Item(record) = received else { continue };
            let outputs = record.responses().flat_map(|response| response.outputs());
            count.fetch_add(outputs.filter(|output| output.bytes == [0; 64]).count() as u64, Ordering::Relaxed);
            back.give_back(record);
        }
    });
    let destination = Exporting { outbox, pool: Arc::clone(&pool), lost };
    (Arc::new(Capture::new(pool, destination)), seen)
}

fn load(shape: ClosedLoop, observer: Option<Arc<dyn Observer>>) -> (RunningLoad, Arc<Recorder>) {
    let backend: Arc<dyn Backend> = Arc::new(NullBackend);
    let model = backend.model(&ModelId::latest("null")).unwrap();
    let payload =
        Payload { model: 0, batch: 1, stream: 0, step: 0, inputs: Vec::new(), parameters: Vec::new(), expected: None };
    let index = PayloadIndex { cycle: (0..3).map(PayloadId).collect(), streams: Vec::new() };
    let recorder = Arc::new(Recorder::new(RecorderSpec::default(), shape.concurrency));
    let context = LoadContext {
        backend,
        client: ClientSpec {
            models: [model].into(),
            payloads: vec![payload; 3].into(),
            outputs: OutputPlan { placements: Placement::Pageable.into(), variable_bytes: 0 },
            slots: 1,
            load_slots: 1,
            options: Arc::new(RequestOptions::default()),
            max_reply_bytes: MAX_REPLY_BYTES,
            validate_replies: false,
            watch_responses: observer.is_some(),
            cancels: false,
            drain_limit: Duration::from_secs(1),
        },
        feed: Arc::new(Feed::independent(vec![index], Mix::single(), (shape.concurrency, Deal::OnDemand), 0).unwrap()),
        recorder: Arc::clone(&recorder),
        wait: Wait::Park,
        worker_cpus: None,
        quota: None,
        cancel_after: None,
        drain_limit: Duration::from_secs(1),
        observer,
    };
    (start(context, shape).unwrap(), recorder)
}

/// Allocations while at least a hundred thousand requests go through a warm load.
fn allocations(shape: ClosedLoop, observed: Option<(Arc<dyn Observer>, Arc<AtomicU64>)>) -> (u64, u64) {
    let (observer, seen) = observed.unzip();
    const REQUESTS: u64 = 100_000;
    let (running, recorder) = load(shape, observer);
    let wait_for = |requests| {
        while recorder.completed().succeeded < requests {
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    wait_for(REQUESTS);
    while seen.as_ref().is_some_and(|seen| seen.load(Ordering::Relaxed) < REQUESTS / 10) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let (before, from) = (ALLOCATIONS.load(Ordering::Relaxed), recorder.completed().succeeded);
    wait_for(from + REQUESTS);
    let (after, to) = (ALLOCATIONS.load(Ordering::Relaxed), recorder.completed().succeeded);
    running.stop().unwrap();
    (after - before, to - from)
}

/// One test, because the heap is everybody's.
#[test]
fn nothing_is_allocated_between_submit_and_record() {
    let shapes = [(1, 1, false), (8, 2, false), (1, 1, true), (3, 3, true)];
    for (concurrency, max_threads, synchronous) in shapes {
        let shape = ClosedLoop { concurrency, max_threads, synchronous };
        for observed in [None, Some(exporting())] {
            let is_observed = observed.is_some();
            let (allocations, requests) = allocations(shape, observed);
            assert_eq!(allocations, 0, "{shape:?}, observed {is_observed}: in {requests} requests");
        }
    }
}
