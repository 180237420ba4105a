//! What the gRPC client costs beside `h2load`, which sends the same message to the same server.
//!
//! `cargo bench --bench grpc -- HOST:PORT MODEL [ELEMENTS]` needs a running Triton whose model takes one FP32 input with a
//! free or fitting dimension. For 1, 4 and 16 outstanding requests on one connection it alternates between both for
//! seven rounds of a second, and prints the medians of requests a second and processor time of the client per request;
//! then the client alone with a common stream.

#[path = "../tests/support/load.rs"]
#[allow(dead_code)]
mod load;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use triton_bench::backend::{
    Backend, ClientSpec, Completion, CompletionSink, Next, OutputPlan, Request, Response, SlotId,
};
use triton_bench::backends::grpc::GrpcBackend;
use triton_bench::clock::Stamp;
use triton_bench::data::PayloadId;
use triton_bench::model::ModelId;
use triton_bench::plan::{Compression, Connection, Protocol, Tls};
use triton_bench::shm::Placement;

const ROUND: Duration = Duration::from_secs(1);
const ROUNDS: usize = 7;
const REQUEST: Request = Request { payload: PayloadId(0), sequence: None };

/// Requests a second and microseconds of processor time per request.
#[derive(Clone, Copy, Debug)]
struct Figures {
    rate: f64,
    cpu_us: f64,
}

#[derive(Default)]
struct Count {
    good: AtomicU64,
    over: AtomicBool,
}

impl CompletionSink for Count {
    fn response(&self, _slot: SlotId, _response: &Response<'_>) {}

    fn complete(&self, _slot: SlotId, completion: &Completion<'_>) -> Next {
        assert!(completion.error.is_none(), "{:?}", completion.error);
        self.good.fetch_add(1, Ordering::Relaxed);
        if self.over.load(Ordering::Relaxed) { Next::Idle } else { Next::Issue(REQUEST) }
    }
}

fn connection(url: &str, streaming: bool) -> Connection {
    Connection {
        protocol: Protocol::Grpc { streaming, compression: Compression::None },
        url: url.to_owned(),
        headers: Vec::new(),
        tls: Tls::default(),
        server_wait: Duration::ZERO,
        reconnect: false,
        client_timeout: None,
    }
}

fn spec(backend: &GrpcBackend, (model, elements): (&str, usize), slots: usize) -> ClientSpec {
    let model = backend.model(&ModelId::latest(model)).expect("the model is known");
    let values = vec![0.5; elements];
    ClientSpec {
        payloads: Arc::from([load::payload(&load::RunSpec { values, ..load::RunSpec::default() }, &model)]),
        models: Arc::from([model]),
        outputs: OutputPlan { placements: Placement::Pageable.into(), variable_bytes: 1024 },
        slots,
        options: Arc::default(),
        watch_responses: false,
        cancels: false,
        drain_limit: Duration::from_secs(1),
    }
}

/// Processor time of this thread in microseconds.
fn own_cpu_us() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("proc is mounted");
    text.split(' ').next().unwrap().parse::<f64>().unwrap() / 1000.0
}

/// User and system time of waited-for children in microseconds.
fn children_cpu_us() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").expect("proc is mounted");
    let fields: Vec<&str> = text.rsplit(')').next().unwrap().split_whitespace().collect();
    (fields[13].parse::<f64>().unwrap() + fields[14].parse::<f64>().unwrap()) * 10_000.0
}

fn ours(backend: &GrpcBackend, subject: (&str, usize), slots: usize) -> Figures {
    let sink = Arc::new(Count::default());
    let mut client = backend.open_client(spec(backend, subject, slots), sink.clone()).expect("a client");
    let (started, cpu) = (Instant::now(), own_cpu_us());
    (0..slots as u32).for_each(|slot| client.submit(SlotId(slot), REQUEST).expect("a free slot"));
    while started.elapsed() < ROUND {
        client.drive(Stamp::now().plus(200_000_000)).expect("a sound client");
    }
    let good = sink.good.load(Ordering::Relaxed) as f64;
    let figures = Figures { rate: good / started.elapsed().as_secs_f64(), cpu_us: (own_cpu_us() - cpu) / good };
    sink.over.store(true, Ordering::Relaxed);
    assert_eq!(client.drain(Duration::from_secs(1)), 0);
    figures
}

/// The body that our client sends, taken from the wire by a listener that answers nothing: the client for it is opened
/// with what the real server says of the model.
fn our_body(backend: &GrpcBackend, subject: (&str, usize)) -> Vec<u8> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().unwrap().to_string();
    let server = std::thread::spawn(move || {
        // The control plane asks twice on the first connection: whether the server is ready, and for its metadata.
        let (mut control, _) = listener.accept().unwrap();
        greet(&mut control);
        for answer in [&[8, 1][..], &[]] {
            let (stream, _) = request(&mut control);
            control.write_all(&reply(stream, answer)).unwrap();
        }
        let (mut client, _) = listener.accept().unwrap();
        greet(&mut client);
        request(&mut client).1
    });
    let fake = GrpcBackend::connect(&connection(&address, false), None).expect("the listener answers");
    let client_spec = ClientSpec { drain_limit: Duration::ZERO, ..spec(backend, subject, 1) };
    let mut client = fake.open_client(client_spec, Arc::new(Count::default())).expect("a client");
    client.submit(SlotId(0), REQUEST).expect("a free slot");
    server.join().expect("a request")
}

/// Takes the preface and says settings with a wide window.
fn greet(stream: &mut std::net::TcpStream) {
    stream.read_exact(&mut [0; 24]).unwrap();
    stream.write_all(&[0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4, 0x7f, 0xff, 0xff, 0xff]).unwrap();
    stream.write_all(&[0, 0, 4, 8, 0, 0, 0, 0, 0, 0x7f, 0, 0, 0]).unwrap();
}

/// Stream and body of the next request.
fn request(stream: &mut std::net::TcpStream) -> (u8, Vec<u8>) {
    let mut body = Vec::new();
    loop {
        let mut header = [0; 9];
        stream.read_exact(&mut header).unwrap();
        let mut payload = vec![0; u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize];
        stream.read_exact(&mut payload).unwrap();
        if header[3] == 0 {
            body.extend_from_slice(&payload);
            if header[4] & 1 == 1 {
                return (header[8], body);
            }
        }
    }
}

/// A whole successful answer with a short message.
fn reply(stream: u8, message: &[u8]) -> Vec<u8> {
    let length = message.len() as u8;
    let trailers = [&[0, 11][..], b"grpc-status", &[1, b'0']].concat();
    [
        &[0, 0, 1, 1, 4, 0, 0, 0, stream, 0x88][..],
        &[0, 0, 5 + length, 0, 0, 0, 0, 0, stream, 0, 0, 0, 0, length],
        message,
        &[0, 0, trailers.len() as u8, 1, 5, 0, 0, 0, stream],
        &trailers,
    ]
    .concat()
}

fn h2load(url: &str, body: &Path, streams: usize) -> Figures {
    let before = children_cpu_us();
    let output = Command::new("h2load")
        .args(["-t1", "-c1", &format!("-m{streams}"), &format!("--duration={}", ROUND.as_secs())])
        .args(["-H", "content-type: application/grpc", "-H", "te: trailers", "-d"])
        .arg(body)
        .arg(format!("http://{url}/inference.GRPCInferenceService/ModelInfer"))
        .output()
        .expect("h2load is installed");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let finished = text.lines().find(|line| line.starts_with("finished in")).expect("h2load reports");
    let rate = finished.split(' ').find_map(|word| word.parse::<f64>().ok()).expect("a rate");
    let requests = text.lines().find_map(|line| line.strip_prefix("requests: ")).expect("h2load reports");
    let words: Vec<&str> = requests.split(' ').collect();
    let succeeded = words.iter().position(|word| word.starts_with("succeeded")).expect("h2load reports") - 1;
    let count: f64 = words[succeeded].parse().expect("a number of requests");
    Figures { rate, cpu_us: (children_cpu_us() - before) / count }
}

fn median(mut figures: Vec<Figures>) -> Figures {
    figures.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    figures[figures.len() / 2]
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let [url, model, rest @ ..] = arguments.as_slice() else {
        println!("skipped: pass HOST:PORT and MODEL of a running server after --");
        return;
    };
    let elements = rest.first().map_or(16, |text| text.parse().expect("a number of elements"));
    let subject = (model.as_str(), elements);
    let [unary, streaming] = [false, true]
        .map(|streaming| GrpcBackend::connect(&connection(url, streaming), None).expect("the server is there"));
    let body = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(body.path(), our_body(&unary, subject)).expect("a temporary file");
    println!(
        "{:>11} {:>12} {:>12} {:>7} {:>12} {:>12} {:>7} {:>14} {:>11}",
        "outstanding", "ours req/s", "h2load", "ratio", "ours us", "h2load us", "ratio", "stream req/s", "stream us"
    );
    for outstanding in [1, 4, 16] {
        let (mut mine, mut theirs, mut streamed) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            mine.push(ours(&unary, subject, outstanding));
            theirs.push(h2load(url, body.path(), outstanding));
            streamed.push(ours(&streaming, subject, outstanding));
        }
        let (mine, theirs, streamed) = (median(mine), median(theirs), median(streamed));
        println!(
            "{outstanding:>11} {:>12.0} {:>12.0} {:>7.2} {:>12.2} {:>12.2} {:>7.2} {:>14.0} {:>11.2}",
            mine.rate,
            theirs.rate,
            mine.rate / theirs.rate,
            mine.cpu_us,
            theirs.cpu_us,
            mine.cpu_us / theirs.cpu_us,
            streamed.rate,
            streamed.cpu_us
        );
    }
}
