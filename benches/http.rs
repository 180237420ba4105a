//! What the HTTP client costs beside `wrk`, which sends the same bytes to the same server.
//!
//! `cargo bench --bench http -- HOST:PORT MODEL [ELEMENTS]` needs a running Triton whose model takes one FP32 input with a
//! free or fitting dimension. For 1, 4 and 16 connections it alternates between both for seven rounds of a second
//! and prints medians: requests a second, and processor time of the client per request.

#[path = "../tests/support/load.rs"]
#[allow(dead_code)]
mod load;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use triton_bench::backend::{
    Backend, ClientSpec, Completion, CompletionSink, Next, OutputPlan, Request, Response, SlotId,
};
use triton_bench::backends::http::HttpBackend;
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

fn connection(url: &str) -> Connection {
    Connection {
        protocol: Protocol::Http { json_inputs: false, json_outputs: false, compression: Compression::None },
        url: url.to_owned(),
        headers: Vec::new(),
        tls: Tls::default(),
        server_wait: Duration::ZERO,
        reconnect: false,
        client_timeout: None,
    }
}

fn spec(backend: &HttpBackend, (model, elements): (&str, usize), slots: usize) -> ClientSpec {
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

/// User and system time of this thread, or of waited-for children, in microseconds.
fn cpu_us(children: bool) -> f64 {
    let path = if children { "/proc/self/stat" } else { "/proc/thread-self/schedstat" };
    let text = std::fs::read_to_string(path).expect("proc is mounted");
    if children {
        let fields: Vec<&str> = text.rsplit(')').next().unwrap().split_whitespace().collect();
        (fields[13].parse::<f64>().unwrap() + fields[14].parse::<f64>().unwrap()) * 10_000.0
    } else {
        text.split(' ').next().unwrap().parse::<f64>().unwrap() / 1000.0
    }
}

fn ours(url: &str, subject: (&str, usize), slots: usize) -> Figures {
    let backend = HttpBackend::connect(&connection(url), None).expect("the server is there");
    let sink = Arc::new(Count::default());
    let mut client = backend.open_client(spec(&backend, subject, slots), sink.clone()).expect("a client");
    let (started, cpu) = (Instant::now(), cpu_us(false));
    (0..slots as u32).for_each(|slot| client.submit(SlotId(slot), REQUEST).expect("a free slot"));
    while started.elapsed() < ROUND {
        client.drive(Stamp::now().plus(200_000_000)).expect("a sound client");
    }
    let good = sink.good.load(Ordering::Relaxed) as f64;
    let figures = Figures { rate: good / started.elapsed().as_secs_f64(), cpu_us: (cpu_us(false) - cpu) / good };
    sink.over.store(true, Ordering::Relaxed);
    assert_eq!(client.drain(Duration::from_secs(1)), 0);
    figures
}

/// The bytes that our client sends, taken from the wire.
fn our_bytes(url: &str, subject: (&str, usize)) -> Vec<u8> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let fake = listener.local_addr().unwrap().to_string();
    let real = url.to_owned();
    let relay = std::thread::spawn(move || {
        let mut seen = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = vec![0; 64];
            let mut count = stream.read(&mut request).unwrap_or(0);
            request.truncate(count);
            if request.starts_with(b"POST") {
                seen.extend_from_slice(&request);
                let mut buffer = vec![0; 1 << 20];
                stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
                while let Ok(more) = stream.read(&mut buffer) {
                    seen.extend_from_slice(&buffer[..more]);
                    if more == 0 {
                        break;
                    }
                }
                return seen;
            }
            if count == 0 {
                continue;
            }
            let mut server = std::net::TcpStream::connect(&real).unwrap();
            server.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
            stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
            let mut rest = [0; 4096];
            while let Ok(more) = stream.read(&mut rest) {
                request.extend_from_slice(&rest[..more]);
                count += more;
            }
            server.write_all(&request[..count]).unwrap();
            while let Ok(more) = server.read(&mut rest) {
                if more == 0 || stream.write_all(&rest[..more]).is_err() {
                    break;
                }
            }
        }
        seen
    });
    let backend = HttpBackend::connect(&connection(&fake), None).expect("the relay answers");
    let mut client_spec = spec(&backend, subject, 1);
    client_spec.drain_limit = Duration::ZERO;
    // Opening connects once and sends nothing; the relay takes that connection when the request comes.
    let sink = Arc::new(Count::default());
    let mut client = backend.open_client(client_spec, sink).expect("a client");
    client.submit(SlotId(0), REQUEST).expect("a free slot");
    let deadline = Stamp::now().plus(400_000_000);
    while Stamp::now() < deadline {
        client.drive(deadline).expect("a sound client");
        if relay.is_finished() {
            break;
        }
    }
    relay.join().expect("the relay has seen the request")
}

fn wrk(url: &str, script: &str, connections: usize) -> Figures {
    let before = cpu_us(true);
    let output = Command::new("wrk")
        .args(["-t1", &format!("-c{connections}"), &format!("-d{}s", ROUND.as_secs()), "-s", script])
        .arg(format!("http://{url}/"))
        .output()
        .expect("wrk is installed");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!text.contains("Non-2xx"), "{text}");
    let requests = text.lines().find(|line| line.contains(" requests in ")).expect("wrk reports").trim().to_owned();
    let rate = text.lines().find_map(|line| line.strip_prefix("Requests/sec:")).expect("wrk reports").trim().to_owned();
    let count: f64 = requests.split(' ').next().unwrap().parse().unwrap();
    Figures { rate: rate.parse().unwrap(), cpu_us: (cpu_us(true) - before) / count }
}

/// A script with which wrk sends exactly `bytes`.
fn wrk_script(bytes: &[u8]) -> std::path::PathBuf {
    let path = std::env::temp_dir().join(format!("http-bench-{}.lua", std::process::id()));
    let raw = path.with_extension("bin");
    std::fs::write(&raw, bytes).expect("a temporary file");
    let text = format!(
        "local f = io.open({:?}, 'rb')\nlocal r = f:read('*a')\nf:close()\nrequest = function() return r end\n",
        raw
    );
    std::fs::write(&path, text).expect("a temporary file");
    path
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
    let script = wrk_script(&our_bytes(url, subject));
    println!(
        "{:>11} {:>12} {:>12} {:>7} {:>12} {:>12} {:>7}",
        "connections", "ours req/s", "wrk req/s", "ratio", "ours us", "wrk us", "ratio"
    );
    for connections in [1, 4, 16] {
        let (mut mine, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            mine.push(ours(url, subject, connections));
            theirs.push(wrk(url, &script.to_string_lossy(), connections));
        }
        let (mine, theirs) = (median(mine), median(theirs));
        println!(
            "{connections:>11} {:>12.0} {:>12.0} {:>7.2} {:>12.2} {:>12.2} {:>7.2}",
            mine.rate,
            theirs.rate,
            mine.rate / theirs.rate,
            mine.cpu_us,
            theirs.cpu_us,
            mine.cpu_us / theirs.cpu_us
        );
    }
    let _ = std::fs::remove_file(script.with_extension("bin"));
    let _ = std::fs::remove_file(script);
}
