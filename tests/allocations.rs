//! Between submit and record nothing is allocated: once a load is warm, its threads and the completing ones ask the heap for
//! nothing, however many requests go through.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use triton_bench::backend::{Backend, ClientSpec, MAX_REPLY_BYTES, OutputPlan, RequestOptions};
use triton_bench::backends::null::NullBackend;
use triton_bench::data::{Payload, PayloadId};
use triton_bench::load::feed::{Deal, Feed, PayloadIndex};
use triton_bench::load::mix::Mix;
use triton_bench::load::{ClosedLoop, LoadContext, RunningLoad, start};
use triton_bench::model::ModelId;
use triton_bench::plan::Wait;
use triton_bench::record::{Recorder, RecorderSpec};
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

fn load(shape: ClosedLoop) -> (RunningLoad, Arc<Recorder>) {
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
            watch_responses: false,
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
        observer: None,
    };
    (start(context, shape).unwrap(), recorder)
}

/// Allocations while at least a hundred thousand requests go through a warm load.
fn allocations(shape: ClosedLoop) -> (u64, u64) {
    const REQUESTS: u64 = 100_000;
    let (running, recorder) = load(shape);
    let wait_for = |requests| {
        while recorder.completed().succeeded < requests {
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    wait_for(REQUESTS);
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
        let (allocations, requests) = allocations(ClosedLoop { concurrency, max_threads, synchronous });
        assert_eq!(
            allocations, 0,
            "concurrency {concurrency} on {max_threads} threads, synchronous {synchronous}: in {requests} requests"
        );
    }
}
