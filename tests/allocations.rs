//! The path from submit to record allocates nothing: once a load is warm, neither its threads nor the completing ones
//! allocate, however many requests pass, and neither does the C border. That also holds when every request is copied
//! for an observer.
//!
//! A separate test program, because its allocator counts the allocations of all its threads.

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use support::Scripted;
use triton_bench::backend::{Backend, ClientSpec, OutputPlan};
use triton_bench::backends::null::NullBackend;
use triton_bench::cli::{self, Command};
use triton_bench::data::{InputTensor, Payload, PayloadId};
use triton_bench::inbox::{Outbox, Received, inbox};
use triton_bench::load::input_source::{EntryAssignment, InputSource, PayloadIndex};
use triton_bench::load::mix::Mix;
use triton_bench::load::{ClosedLoop, LoadContext, RunningLoad, start};
use triton_bench::model::{DataType, ModelId};
use triton_bench::record::{Capture, Destination, Finished, Observer, RawRecord, RecordPool, Recorder, RecorderSpec};
use triton_bench::shm::{Placement, Region};

/// Counts what the heap is asked for.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The thread looks at copies, and may ask the heap for what it likes: its first sleep does.
    static LOOKS_ON: Cell<bool> = const { Cell::new(false) };
}

fn count() {
    if !LOOKS_ON.get() {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    }
}

#[global_allocator]
static HEAP: Counting = Counting;

// SAFETY: everything is handed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
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
    let [exported, lost] = [Arc::<AtomicU64>::default(), Arc::default()];
    let (back, count, exhausted) = (Arc::clone(&pool), Arc::clone(&exported), Arc::clone(&lost));
    std::thread::spawn(move || {
        LOOKS_ON.set(true);
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
    (Arc::new(Capture::new(pool, destination)), exported)
}

/// What a load is sent to.
struct Target {
    backend: Arc<dyn Backend>,
    model: &'static str,
    inputs: Vec<InputTensor>,
    payloads: usize,
}

fn load(target: &Target, shape: ClosedLoop, observer: Option<Arc<dyn Observer>>) -> (RunningLoad, Arc<Recorder>) {
    let backend = Arc::clone(&target.backend);
    let model = backend.model(&ModelId::latest(target.model)).unwrap();
    let inputs = target.inputs.clone();
    let payload = Payload { model: 0, batch: 1, stream: 0, step: 0, inputs, parameters: Vec::new(), expected: None };
    let cycle = (0..target.payloads as u32).map(PayloadId).collect();
    let index = PayloadIndex { cycle, streams: Vec::new() };
    let recorder = Arc::new(Recorder::new(RecorderSpec::default(), shape.concurrency));
    let client = ClientSpec {
        outputs: OutputPlan { placements: Placement::Pageable.into(), variable_bytes: 64 },
        watch_responses: observer.is_some(),
        ..ClientSpec::new([model].into(), vec![payload; target.payloads].into())
    };
    let input_source =
        InputSource::independent(vec![index], Mix::single(), shape.concurrency, EntryAssignment::OnDemand, 0).unwrap();
    let context = LoadContext { observer, ..LoadContext::new(backend, client, input_source, Arc::clone(&recorder)) };
    (start(context, shape).unwrap(), recorder)
}

/// How often as many requests are looked at. In one of these stretches a thread or a slot may have its first request, which a busy
/// machine put off until others had thousands.
const STRETCHES: usize = 3;

/// Loads of every shape, once warm, allocate nothing while at least so many requests go through; with an observer, whose count of
/// requests that were looked at comes with it.
fn allocates_nothing(target: &Target, requests: u64, observed: bool) {
    for (concurrency, max_threads, synchronous) in [(1, 1, false), (8, 2, false), (1, 1, true), (3, 3, true)] {
        let (observer, exported) = observed.then(exporting).unzip();
        let (running, recorder) = load(target, ClosedLoop { concurrency, max_threads, synchronous }, observer);
        let completed = || recorder.completed().all();
        let wait_for = |requests| {
            while completed() < requests {
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        wait_for(requests);
        while exported.as_ref().is_some_and(|exported| exported.load(Ordering::Relaxed) < requests / 10) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let stretches = (0..STRETCHES).map(|_| {
            let (before, from) = (ALLOCATIONS.load(Ordering::Relaxed), completed());
            wait_for(from + requests);
            ALLOCATIONS.load(Ordering::Relaxed) - before
        });
        let allocations: Vec<u64> = stretches.collect();
        assert_eq!(recorder.completed().failed, 0);
        running.stop().unwrap();
        assert!(
            allocations.iter().filter(|count| **count > 0).count() <= 1,
            "{}, observed {observed}: concurrency {concurrency} on {max_threads} threads, synchronous {synchronous}: \
             {allocations:?} in stretches of {requests} requests",
            target.model
        );
    }
}

/// The border to C, with no server behind it; the library has a heap of its own, which is not counted.
fn across_the_border(script: &Value, payloads: usize) {
    let scripted = Scripted::script(script);
    // SAFETY: no other thread reads the environment: there is one test, and its loads are over.
    unsafe { scripted.environment().into_iter().for_each(|(name, value)| std::env::set_var(name, value)) };
    let Ok(Command::Run(plan)) = cli::parse(scripted.arguments(), triton_bench::exit::Codes::Own) else {
        panic!("a run was asked for")
    };
    let region = Arc::new(Region::filled(Placement::Pageable, &[7; 16]).unwrap());
    let input =
        InputTensor { name: "INPUT0".into(), datatype: DataType::Int32, shape: [4].into(), region, offset: 0, len: 16 };
    let backend = triton_bench::backends::connect(&plan).unwrap().backend;
    allocates_nothing(&Target { backend, model: "fake", inputs: vec![input], payloads }, 5_000, false);
    assert!(triton_bench::backends::stop_servers(&|_| {}), "nothing of it can still run");
    let violations = scripted.events("violation");
    assert!(violations.is_empty(), "{violations:?}");
    assert_eq!(scripted.events("server_delete").len(), 1);
}

/// One test, because the heap is everybody's.
#[test]
fn nothing_is_allocated_between_submit_and_record() {
    let null = Target { backend: Arc::new(NullBackend), model: "null", inputs: Vec::new(), payloads: 3 };
    allocates_nothing(&null, 30_000, false);
    allocates_nothing(&null, 30_000, true);
    let orders = json!([{}, {"thread": "caller"}, {"order": "release_first"}, {"release_thread": "other"}]);
    across_the_border(&json!({ "requests": orders }), 3);
    // More than there may be objects for: each slot has one, which gets other inputs.
    across_the_border(&json!({ "requests": orders }), 40_000);
    let many = json!([{"responses": 3}, {"responses": 2, "final": "null"}, {"responses": 0}]);
    across_the_border(&support::decoupled(&many), 3);
}
