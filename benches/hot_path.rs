//! Instructions per request of the client itself, counted by valgrind so that a noisy machine does not matter: `cargo
//! bench --bench hot_path` (needs valgrind, and gungraun-runner of the same version as the crate).

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use gungraun::{Callgrind, EntryPoint, LibraryBenchmarkConfig, library_benchmark, library_benchmark_group, main};
use triton_bench::backend::{Backend, ClientSpec};
use triton_bench::backends::null::NullBackend;
use triton_bench::clock::Stamp;
use triton_bench::data::{Payload, PayloadId};
use triton_bench::load::input_source::{EntryAssignment, InputSource, PayloadIndex};
use triton_bench::load::mix::Mix;
use triton_bench::load::{ClosedLoop, LoadContext, start};
use triton_bench::model::ModelId;
use triton_bench::record::{LoadReport, Recorder, RecorderSpec, Sample, Source};

const CALLS: u64 = 1_000;

fn input_source() -> InputSource {
    let index = PayloadIndex { cycle: (0..7).map(PayloadId).collect(), streams: Vec::new() };
    InputSource::independent(vec![index], Mix::single(), 1, EntryAssignment::OnDemand, 0).expect("there are data")
}

fn recorder() -> Recorder {
    Recorder::new(RecorderSpec::default(), 1)
}

// A thousand successful requests are recorded.
#[library_benchmark]
#[bench::closed_loop(recorder())]
fn record(recorder: Recorder) -> Recorder {
    for request in 0..CALLS {
        let end = Stamp(request * 1_000 + 1_500);
        recorder.record(
            Source { writer: 0, part: 0 },
            &Sample {
                intended: None,
                sent: Stamp(request * 1_000),
                first_response: end,
                end,
                send_ns: None,
                turnaround_ns: 100,
                responses: 1,
            },
        );
    }
    black_box(recorder)
}

// A thousand requests are drawn.
#[library_benchmark]
#[bench::cycle(input_source())]
fn next_request(input_source: InputSource) -> InputSource {
    for _ in 0..CALLS {
        black_box(input_source.next(0));
    }
    input_source
}

fn context(requests: u64) -> LoadContext {
    let backend: Arc<dyn Backend> = Arc::new(NullBackend);
    let model = backend.model(&ModelId::latest("null")).expect("the null backend knows every model");
    let payload =
        Payload { model: 0, batch: 1, stream: 0, step: 0, inputs: Vec::new(), parameters: Vec::new(), expected: None };
    let client = ClientSpec::new([model].into(), vec![payload; 7].into());
    LoadContext { quota: Some(requests), ..LoadContext::new(backend, client, input_source(), Arc::new(recorder())) }
}

// Whole requests, from the draw to the record, on the null backend. The difference between the two counts is the price of
// 90 000 requests without the start and end of the load.
// The work is done by the load's own thread, so everything is counted, not this function alone.
#[library_benchmark(config = LibraryBenchmarkConfig::default().tool(Callgrind::default().entry_point(EntryPoint::None)))]
#[bench::requests_10_000(context(10_000))]
#[bench::requests_100_000(context(100_000))]
fn closed_loop(context: LoadContext) -> LoadReport {
    let load =
        start(context, ClosedLoop { concurrency: 1, max_threads: 1, synchronous: false }).expect("a thread starts");
    while !load.is_finished() {
        std::thread::sleep(Duration::from_millis(1));
    }
    load.stop().expect("the null backend does not break")
}

library_benchmark_group!(name = hot_path, benchmarks = [record, next_request, closed_loop]);
main!(library_benchmark_groups = hot_path);
