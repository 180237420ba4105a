//! `--metrics-listen`: a page of the run's figures while it goes on. A thread sleeps until somebody asks, and reads them then.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;

use crate::clock::Stamp;
use crate::engine::Endpoint;
use crate::error::{Error, Result};
use crate::plan::{ConnectionPlan, ListenAddress, Plan};
use crate::record::{Distribution, Recorder, Tally};
use crate::report::exposition::{Exposition, ServerFigures, page};
use crate::result::summary::LevelLoad;
use crate::stdio::note;
use crate::terms::LatencyOrigin;

/// Longest time that a request may take to arrive, or its answer to leave.
const PATIENCE: Duration = Duration::from_secs(1);
/// Most bytes of a request's head.
const MAX_HEAD: usize = 8192;

/// The page, until this is dropped.
pub struct Page {
    board: Arc<Board>,
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// What is known of the run.
struct Board {
    model: String,
    service: &'static str,
    /// Addresses of the servers.
    servers: Vec<String>,
    batch_size: u64,
    /// Whether latency runs from when a request was due.
    from_due: bool,
    loads: Mutex<Loads>,
}

/// The loads of the run.
#[derive(Default)]
struct Loads {
    begun: u64,
    /// When one last began to be measured.
    began: Stamp,
    /// Sums of those that are over, by servers.
    over: Vec<Sum>,
    /// Those that are not, as far as is known.
    open: Vec<OpenLoad>,
}

/// A load that may be under way.
struct OpenLoad {
    load: LevelLoad,
    recorder: Arc<Recorder>,
    /// When it was prepared.
    prepared: Stamp,
}

/// Counts of requests, and the sum of their latencies.
#[derive(Clone, Copy, Default)]
struct Sum {
    succeeded: u64,
    failed: u64,
    cancelled: u64,
    ns: f64,
}

/// Fails if the plan's page cannot be offered.
///
/// # Errors
/// Why its address cannot be listened at.
pub fn check(plan: &Plan) -> Result<()> {
    plan.output.metrics_listen.as_ref().map_or(Ok(()), |wanted| listen(wanted).map(drop))
}

fn listen(wanted: &ListenAddress) -> Result<TcpListener> {
    let ListenAddress { host, port } = wanted;
    TcpListener::bind((host.as_str(), *port)).map_err(|error| {
        Error::usage(format!("--metrics-listen {host}:{port}: {error}; name a free port of this machine, or 0 for any"))
    })
}

impl Page {
    /// Offers the page of a run, if the plan asks for it.
    ///
    /// # Errors
    /// If its address cannot be listened at, or its thread cannot be started.
    pub fn start(plan: &Plan) -> Result<Option<Self>> {
        let Some(wanted) = &plan.output.metrics_listen else { return Ok(None) };
        let listener = listen(wanted)?;
        let broken = |error: io::Error| Error::machine(format!("--metrics-listen: {error}"));
        let address = listener.local_addr().map_err(broken)?;
        let target = &plan.target;
        let port = |connection: &ConnectionPlan| target.service.port(&connection.protocol);
        let shown = |connection: &ConnectionPlan| {
            Endpoint::parse(&connection.url, port(connection)).map(|endpoint| endpoint.to_string())
        };
        let servers = match target.service.is_remote() {
            true => target.connections().map(shown).collect::<Result<_>>()?,
            false => vec!["in-process".to_owned()],
        };
        let board = Arc::new(Board {
            model: target.model.to_string(),
            service: target.service.name(),
            servers,
            batch_size: plan.data.batch_size,
            from_due: plan.measurement.latency_from == LatencyOrigin::Intended,
            loads: Mutex::default(),
        });
        let stop = Arc::new(AtomicBool::new(false));
        let (shared, ended) = (Arc::clone(&board), Arc::clone(&stop));
        let thread = thread::Builder::new().name("metrics-page".to_owned());
        let thread = thread.spawn(move || serve(&listener, &shared, &ended)).map_err(broken)?;
        note!("the run's metrics are at http://{address}/metrics");
        Ok(Some(Self { board, address, stop, thread: Some(thread) }))
    }

    /// A load is about to record there.
    pub fn add(&self, load: LevelLoad, recorder: &Arc<Recorder>) {
        let mut loads = self.board.loads.lock();
        loads.begun += 1;
        self.board.close(&mut loads);
        loads.open.push(OpenLoad { load, recorder: Arc::clone(recorder), prepared: Stamp::now() });
    }

    /// A load begins to be measured: one may have been prepared while another was under way.
    pub fn begins(&self) {
        self.board.loads.lock().began = Stamp::now();
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        // It sleeps until somebody asks.
        let awake = TcpStream::connect_timeout(&self.address, PATIENCE).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| awake) {
            let _ = thread.join();
        }
    }
}

impl Board {
    /// Adds up loads that nobody records to any more.
    fn close(&self, loads: &mut Loads) {
        let Loads { over, open, .. } = loads;
        over.resize(self.servers.len(), Sum::default());
        open.retain(|load| {
            let is_open = Arc::strong_count(&load.recorder) > 1;
            if !is_open {
                over.iter_mut().zip(load.recorder.so_far()).for_each(|(sum, tally)| sum.add(&tally, self));
            }
            is_open
        });
    }

    /// The latencies of a tally.
    fn latency<'a>(&self, tally: &'a Tally) -> &'a Distribution {
        match &tally.open_loop {
            Some((response_time, _)) if self.from_due => response_time,
            _ => &tally.service,
        }
    }

    fn exposition(&self) -> Exposition {
        let mut loads = self.loads.lock();
        self.close(&mut loads);
        let read: Vec<Vec<Tally>> = loads.open.iter().map(|load| load.recorder.so_far()).collect();
        let has_any = |tallies: &Vec<Tally>| tallies.iter().any(|tally| tally.requests + tally.failed > 0);
        // The next load may be prepared while one is under way.
        let under_way = read.iter().rposition(has_any);
        let figures = |(number, address): (usize, &String)| {
            let mut sum = loads.over.get(number).copied().unwrap_or_default();
            read.iter().filter_map(|tallies| tallies.get(number)).for_each(|tally| sum.add(tally, self));
            let current = under_way.and_then(|load| read[load].get(number));
            let began = under_way.map(|load| loads.open[load].prepared.max(loads.began));
            let seconds = began.map_or(0.0, |began| (Stamp::now() - began).as_secs_f64());
            let answered = current.map_or(0, |tally| tally.requests * self.batch_size) as f64;
            let latency = current.map(|tally| self.latency(tally)).filter(|latency| latency.count() > 0);
            ServerFigures {
                address: address.clone(),
                succeeded: sum.succeeded,
                failed: sum.failed,
                cancelled: sum.cancelled,
                seconds: sum.ns / 1e9,
                throughput: if seconds > 0.0 { answered / seconds } else { 0.0 },
                quantiles: latency.map(|latency| ServerFigures::quantiles_of(|share| latency.percentile_ns(share))),
            }
        };
        Exposition {
            model: self.model.clone(),
            service: self.service,
            loads: loads.begun,
            load: under_way.map(|load| loads.open[load].load),
            servers: self.servers.iter().enumerate().map(figures).collect(),
        }
    }
}

impl Sum {
    fn add(&mut self, tally: &Tally, board: &Board) {
        let latency = board.latency(tally);
        self.succeeded += tally.requests;
        self.failed += tally.failed;
        self.cancelled += tally.cancelled;
        self.ns += latency.mean_ns() * latency.count() as f64;
    }
}

/// Answers one after the other.
fn serve(listener: &TcpListener, board: &Board, stop: &AtomicBool) {
    for stream in listener.incoming() {
        if stop.load(Ordering::Acquire) {
            return;
        }
        match stream {
            // A request that cannot be answered must not disturb the run.
            Ok(stream) => drop(answer(stream, board)),
            // Such as too many open files.
            Err(_) => thread::sleep(Duration::from_millis(10)),
        }
    }
}

fn answer(mut stream: TcpStream, board: &Board) -> io::Result<()> {
    let question = question(&mut stream)?;
    let mut words = question.split_ascii_whitespace();
    let path = |path: &str| path.split('?').next().unwrap_or_default().to_owned();
    let (status, kind, body) = match (words.next(), words.next().map(path).as_deref()) {
        (Some("GET" | "HEAD"), Some("/metrics" | "/")) => {
            ("200 OK", "text/plain; version=0.0.4; charset=utf-8", page(&board.exposition()))
        }
        (Some("GET" | "HEAD"), _) => ("404 Not Found", "text/plain", "The metrics are at /metrics.\n".to_owned()),
        _ => ("405 Method Not Allowed", "text/plain", "GET /metrics\n".to_owned()),
    };
    let length = body.len();
    let body = if question.starts_with("HEAD") { "" } else { &body };
    stream.set_write_timeout(Some(PATIENCE))?;
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    stream.write_all((head + body).as_bytes())
}

/// The head of a request.
fn question(stream: &mut TcpStream) -> io::Result<String> {
    let end = Stamp::now().plus_duration(PATIENCE);
    let (mut head, mut buffer) = (Vec::new(), [0; 1024]);
    while !head.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
        let left = end.from_now();
        if left.is_zero() || head.len() > MAX_HEAD {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut buffer)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => head.extend_from_slice(&buffer[..count]),
        }
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}
