use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

use parking_lot::Mutex;

use super::*;
use crate::backend::{
    Backend, Capabilities, Client, ClientSpec, Completion, CompletionSink, InferError, Next, Request, SlotId,
};
use crate::clock::Stamp;
use crate::data::PayloadId;
use crate::error::{Error, Result};
use crate::input_source::{EntryAssignment, InputSource, PayloadIndex};
use crate::mix::Mix;
use crate::model::statistics::StatisticsSnapshot;
use crate::model::{ModelId, ModelSpec};
use crate::pace::DEFAULT_SPIN;
use crate::record::LoadReport;
use crate::record::{Recorder, RecorderSpec, Tally};
use crate::run::{RunningLoad, start};
use crate::sequence::{SequenceLength, SequenceSpec};
use crate::terms::GapDistribution;

/// A server that answers each request a fixed time after it came, but for a pause, and keeps a log.
struct Server {
    delay: Duration,
    /// Nothing is answered between these times after the first request.
    pause: Option<(Duration, Duration)>,
    fail: bool,
    /// It does one request after the other, each for as long.
    serial: bool,
    threading: Threading,
    log: Arc<Mutex<Vec<(Stamp, Request)>>>,
    first: Arc<AtomicU64>,
    cancelled: Arc<AtomicU64>,
}

impl Server {
    fn with_delay(delay: Duration) -> Self {
        Self {
            delay,
            pause: None,
            fail: false,
            serial: false,
            threading: Threading::Own,
            log: Arc::default(),
            first: Arc::default(),
            cancelled: Arc::default(),
        }
    }

    fn answer_at(&self, sent: Stamp) -> Stamp {
        let first =
            self.first.compare_exchange(0, sent.0, Ordering::Relaxed, Ordering::Relaxed).map_or_else(Stamp, |_| sent);
        let ready = sent.plus_duration(self.delay);
        match self.pause {
            Some((from, to)) if ready >= first.plus_duration(from) => ready.max(first.plus_duration(to)),
            _ => ready,
        }
    }
}

/// The same server as a backend.
struct Shared(Arc<Server>);

impl Backend for Shared {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            service_kind: "TEST",
            threading: self.0.threading,
            client_times: None,
            cancels_alone: false,
            statistics: false,
        }
    }
    fn model(&self, _: &ModelId) -> Result<ModelSpec> {
        Err(Error::server("none"))
    }
    fn statistics(&self, _: &ModelId) -> Result<StatisticsSnapshot> {
        Err(Error::server("none"))
    }
    fn metrics(&self, _: usize, _: &mut dyn FnMut(&str)) -> Result<()> {
        Err(Error::server("none"))
    }
    fn open_client(&self, spec: ClientSpec, sink: Arc<dyn CompletionSink>) -> Result<Box<dyn Client>> {
        let line = Line { server: Arc::clone(&self.0), sink, slots: spec.slots };
        if self.0.threading == Threading::Driven {
            return Ok(Box::new(DrivenClient { line, waiting: Vec::new() }));
        }
        let (requests, inbox) = mpsc::channel::<(SlotId, Stamp)>();
        thread::spawn({
            let line = Line { server: Arc::clone(&line.server), sink: Arc::clone(&line.sink), slots: 0 };
            move || inbox.iter().for_each(|(slot, sent)| line.answer(slot, sent))
        });
        Ok(Box::new(ThreadedClient { line, requests }))
    }
}

/// What both kinds of client have in common.
struct Line {
    server: Arc<Server>,
    sink: Arc<dyn CompletionSink>,
    slots: usize,
}

impl Line {
    fn take(&self, slot: SlotId, request: Request) -> Stamp {
        assert!(slot.index() < self.slots, "slot {slot:?} of {}", self.slots);
        let now = Stamp::now();
        self.server.log.lock().push((now, request));
        now
    }

    fn answer(&self, slot: SlotId, sent: Stamp) {
        thread::sleep(if self.server.serial { self.server.delay } else { self.server.answer_at(sent).from_now() });
        let now = Stamp::now();
        let error = InferError { code: "Internal".into(), message: "no".into() };
        let error = self.server.fail.then_some(&error);
        let (first_response, last_response) = (now, now);
        let completion = Completion { sent, send_end: None, first_response, last_response, responses: 1, error };
        assert_eq!(self.sink.complete(slot, &completion), Next::Idle);
    }
}

struct ThreadedClient {
    line: Line,
    requests: mpsc::Sender<(SlotId, Stamp)>,
}

impl Client for ThreadedClient {
    fn grow(&mut self, slots: usize) -> Result<()> {
        self.line.slots = slots;
        Ok(())
    }
    fn submit(&mut self, slot: SlotId, request: Request) -> Result<()> {
        let sent = self.line.take(slot, request);
        self.requests.send((slot, sent)).map_err(|_| Error::server("gone"))
    }
    fn drive(&mut self, _: Stamp) -> Result<()> {
        Ok(())
    }
    fn cancel(&mut self, _: SlotId, _: Stamp) -> bool {
        self.line.server.cancelled.fetch_add(1, Ordering::Relaxed);
        true
    }
    fn drain(&mut self, _: Duration) -> usize {
        0
    }
}

struct DrivenClient {
    line: Line,
    waiting: Vec<(SlotId, Stamp)>,
}

impl Client for DrivenClient {
    fn grow(&mut self, slots: usize) -> Result<()> {
        self.line.slots = slots;
        Ok(())
    }
    fn submit(&mut self, slot: SlotId, request: Request) -> Result<()> {
        let sent = self.line.take(slot, request);
        self.waiting.push((slot, sent));
        Ok(())
    }
    fn drive(&mut self, deadline: Stamp) -> Result<()> {
        let Some(&(slot, sent)) = self.waiting.first() else { return Ok(()) };
        let ready = self.line.server.answer_at(sent);
        if ready <= deadline.max(Stamp::now()) {
            self.waiting.remove(0);
            self.line.answer(slot, sent);
        } else {
            thread::sleep(deadline.from_now());
        }
        Ok(())
    }
    fn cancel(&mut self, _: SlotId, _: Stamp) -> bool {
        self.line.server.cancelled.fetch_add(1, Ordering::Relaxed);
        true
    }
    fn drain(&mut self, _: Duration) -> usize {
        0
    }
}

/// A load to run against a server.
struct Setup {
    server: Arc<Server>,
    input_source: InputSource,
    shape: OpenLoop,
    quota: Option<u64>,
    cancel_after: Option<Duration>,
    drain_limit: Duration,
    recorder: Arc<Recorder>,
}

impl Setup {
    fn new(server: Server, rate: f64, threads: usize) -> Self {
        let index = PayloadIndex { cycle: (0..1000).map(PayloadId).collect(), streams: Vec::new() };
        let shape = OpenLoop {
            arrivals: Arrivals::at_rate(rate, GapDistribution::Constant).unwrap(),
            seed: 1,
            threads,
            max_outstanding: DEFAULT_MAX_OUTSTANDING,
            serial: false,
            part: Part::WHOLE,
            until: None,
            spin: DEFAULT_SPIN,
        };
        Self {
            server: Arc::new(server),
            input_source: InputSource::independent(vec![index], Mix::single(), threads, EntryAssignment::InStep, 0)
                .unwrap(),
            shape,
            quota: None,
            cancel_after: None,
            drain_limit: Duration::from_secs(5),
            recorder: Arc::new(Recorder::new(
                RecorderSpec { open_loop: true, sequences: true, ..RecorderSpec::default() },
                2,
            )),
        }
    }

    /// Two sequences at a time, three requests each.
    fn with_sequences(mut self, serial: bool) -> Self {
        let index = PayloadIndex { cycle: Vec::new(), streams: vec![(0..3).map(PayloadId).collect()] };
        let spec = SequenceSpec { first_id: 10, ids: 100, length: SequenceLength::Stream, seed: 1 };
        self.input_source = InputSource::sequences(vec![index], Mix::single(), spec, 2).unwrap();
        self.shape.serial = serial;
        self
    }

    fn start(self) -> RunningLoad {
        let cancels = self.cancel_after.is_some();
        let client = ClientSpec { cancels, ..ClientSpec::new([].into(), [].into()) };
        let context = LoadContext {
            quota: self.quota,
            cancel_after: self.cancel_after,
            drain_limit: self.drain_limit,
            ..LoadContext::new(Arc::new(Shared(Arc::clone(&self.server))), client, self.input_source, self.recorder)
        };
        start(context, self.shape).unwrap()
    }

    /// Runs until the load ends by itself.
    fn run(self) -> (LoadReport, Tally) {
        let recorder = Arc::clone(&self.recorder);
        let load = self.start();
        let begun = Stamp::now();
        while !load.is_finished() {
            assert!(Stamp::now() - begun < Duration::from_secs(30), "the load does not end");
            thread::sleep(Duration::from_millis(1));
        }
        let report = load.stop().unwrap();
        assert!(report.adds_up(), "{report:?}");
        (report, recorder.close())
    }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn every_request_of_a_schedule_leaves_once_and_in_time() {
    for (threading, threads) in [(Threading::Own, 1), (Threading::Own, 3), (Threading::Driven, 2)] {
        let mut setup =
            Setup::new(Server { threading, ..Server::with_delay(Duration::from_micros(100)) }, 1.0, threads);
        setup.shape.arrivals = Arrivals::once((0..200).map(|i| i * 1_000_000).collect()).unwrap();
        let log = Arc::clone(&setup.server.log);
        let (report, tally) = setup.run();
        assert_eq!((report.sent, report.completed, report.outstanding, report.held_back), (200, 200, 0, 0));
        assert_eq!((tally.sent, tally.requests), (200, 200));
        let mut payloads: Vec<u32> = log.lock().iter().map(|(_, request)| request.payload.0).collect();
        payloads.sort_unstable();
        assert_eq!(payloads, (0..200).collect::<Vec<_>>());
        let times: Vec<u64> = log.lock().iter().map(|(at, _)| at.0).collect();
        let first = times.iter().min().unwrap();
        assert!(times.iter().max().unwrap() - first > 100_000_000, "the schedule was cut short");
        let (response, delay) = tally.open_loop.unwrap();
        assert_eq!(delay.count(), 200);
        assert!(response.percentile_ns(0.0) >= 100_000);
    }
}

#[test]
fn timed_a_pause_of_the_server_shows_in_the_response_time_and_stops_no_send() {
    // 500 a second for two seconds; a pause from 300 ms to 1100 ms holds up some 400 requests, by 400 ms in the mean.
    let server = Server { pause: Some((ms(300), ms(1100))), ..Server::with_delay(ms(1)) };
    let mut setup = Setup::new(server, 500.0, 1);
    setup.quota = Some(1000);
    let log = Arc::clone(&setup.server.log);
    let (report, tally) = setup.run();
    assert_eq!((report.sent, report.completed), (1000, 1000));
    let times: Vec<u64> = log.lock().iter().map(|(at, _)| at.0).collect();
    let longest_gap = times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
    assert!(longest_gap < 600_000_000, "the issuer waited {longest_gap} ns");
    let (response, _) = tally.open_loop.unwrap();
    let p80 = response.percentile_ns(80.0);
    assert!((250_000_000..650_000_000).contains(&p80), "a fifth of the requests waited for 400 ms and more: p80 {p80}");
    assert!(response.percentile_ns(100.0) > 750_000_000);
}

#[test]
fn the_bound_on_outstanding_requests_holds_back_and_the_wait_is_response_time() {
    let mut setup = Setup::new(Server::with_delay(ms(20)), 1000.0, 1);
    setup.shape.max_outstanding = 2;
    setup.quota = Some(40);
    let (report, tally) = setup.run();
    assert_eq!((report.sent, report.completed), (40, 40));
    assert!(report.held_back >= 15, "{report:?}");
    let (response, delay) = tally.open_loop.unwrap();
    // Two at a time, 20 ms each: the last pair leaves 380 ms after the start, 340 ms after its time.
    assert!(delay.percentile_ns(100.0) > 300_000_000, "{}", delay.percentile_ns(100.0));
    assert!(response.percentile_ns(100.0) > 320_000_000);
    assert!(tally.service.percentile_ns(50.0) < 100_000_000);
    assert!(tally.delayed >= 30);
}

#[test]
fn a_counted_load_sends_every_entry_though_a_worker_is_ahead() {
    // The first worker may have two requests outstanding, the others one.
    let mut setup = Setup::new(Server::with_delay(ms(1)), 10_000.0, 3);
    setup.shape.max_outstanding = 4;
    setup.quota = Some(1000);
    let log = Arc::clone(&setup.server.log);
    let (report, _) = setup.run();
    assert_eq!((report.sent, report.completed), (1000, 1000));
    let mut payloads: Vec<u32> = log.lock().iter().map(|(_, request)| request.payload.0).collect();
    payloads.sort_unstable();
    assert_eq!(payloads, (0..1000).collect::<Vec<_>>());
}

#[test]
fn outstanding_requests_grow_as_far_as_they_must() {
    let mut setup = Setup::new(Server::with_delay(ms(200)), 2000.0, 2);
    setup.quota = Some(500);
    let (report, _) = setup.run();
    assert_eq!((report.completed, report.held_back), (500, 0));
}

#[test]
fn timed_stopping_ends_an_endless_schedule_and_counts_add_up() {
    for threading in [Threading::Own, Threading::Driven] {
        let setup = Setup::new(Server { threading, ..Server::with_delay(ms(5)) }, 400.0, 2);
        let load = setup.start();
        thread::sleep(ms(200));
        let under_way = load.under_way();
        assert!(under_way < 100, "{under_way}");
        let stopping = Stamp::now();
        let report = load.stop().unwrap();
        assert!(Stamp::now() - stopping < Duration::from_secs(3));
        assert!(report.adds_up() && report.sent > 20 && report.outstanding == 0, "{report:?}");
    }
}

#[test]
fn timed_outstanding_requests_that_keep_coming_are_waited_for() {
    // 40 requests are answered one after the other, 25 ms each, by a server that is given 200 ms.
    for (most, lost) in [(ms(200), true), (ms(20_000), false)] {
        let mut setup = Setup::new(Server { serial: true, ..Server::with_delay(ms(25)) }, 1000.0, 1);
        setup.drain_limit = ms(200);
        setup.shape.max_outstanding = 40;
        let mut load = setup.start();
        load.allow_drain(most);
        thread::sleep(ms(100));
        let report = load.stop().unwrap();
        assert!(report.adds_up() && report.sent >= 40, "{report:?}");
        assert_eq!(report.outstanding > 0, lost, "{report:?}");
    }
}

#[test]
fn stopping_leaves_a_far_schedule_entry_alone() {
    let mut setup = Setup::new(Server::with_delay(ms(1)), 1.0, 1);
    setup.shape.arrivals = Arrivals::once(vec![0, 3_600_000_000_000]).unwrap();
    let load = setup.start();
    thread::sleep(ms(50));
    assert_eq!(load.stop().unwrap().sent, 1);
}

#[test]
fn serial_sequences_never_overlap_and_are_ended() {
    let mut setup = Setup::new(Server::with_delay(ms(10)), 1000.0, 2).with_sequences(true);
    setup.quota = Some(31);
    let log = Arc::clone(&setup.server.log);
    let (report, tally) = setup.run();
    // 31 requests over two sequences of three at a time: at least one is open at the end, and is closed.
    assert!((32..=33).contains(&report.sent), "{report:?}");
    assert!(report.held_back > 0);
    let log = log.lock();
    let mut by_id: std::collections::BTreeMap<u64, Vec<(Stamp, Request)>> = std::collections::BTreeMap::new();
    log.iter().for_each(|&(at, request)| by_id.entry(request.sequence.unwrap().id).or_default().push((at, request)));
    assert_eq!(tally.sequences, by_id.len() as u64);
    let cut_short = report.sent - 31;
    assert_eq!(tally.sequence_times.unwrap().count(), tally.sequences - cut_short, "those that are whole");
    for requests in by_id.values() {
        assert!(requests.windows(2).all(|pair| pair[1].0.since(pair[0].0) >= 10_000_000), "they overlap: {requests:?}");
        let last = requests.len() - 1;
        for (at, (_, request)) in requests.iter().enumerate() {
            let position = request.sequence.unwrap();
            assert_eq!((position.start, position.end), (at == 0, at == last), "{requests:?}");
        }
    }
}

#[test]
fn other_sequences_may_overlap_but_keep_their_order() {
    let mut setup = Setup::new(Server::with_delay(ms(20)), 1000.0, 1).with_sequences(false);
    setup.quota = Some(30);
    let log = Arc::clone(&setup.server.log);
    let (report, tally) = setup.run();
    assert_eq!((report.sent, report.held_back), (30, 0));
    // A request every millisecond, of each sequence every two; each is answered after 20.
    let times = tally.sequence_times.unwrap();
    assert_eq!((times.count(), times.last.count()), (10, 10));
    assert!(times.duration.percentile_ns(0.0) >= 23_900_000 && times.last.percentile_ns(0.0) >= 19_900_000);
    assert!(times.duration.mean_ns() > times.last.mean_ns() + 3_900_000.0);
    let starts: Vec<(u64, u32)> = log.lock().iter().map(|(_, r)| (r.sequence.unwrap().id, r.payload.0)).collect();
    for request_stream in 0..2 {
        let steps: Vec<u32> = starts.iter().filter(|(id, _)| id % 2 == request_stream).map(|&(_, step)| step).collect();
        assert_eq!(steps, [0, 1, 2].repeat(5));
    }
}

#[test]
fn timed_failures_are_counted_and_failed_starts_are_ended() {
    let mut setup = Setup::new(Server { fail: true, ..Server::with_delay(ms(1)) }, 500.0, 1).with_sequences(true);
    setup.quota = Some(10);
    let log = Arc::clone(&setup.server.log);
    let (report, tally) = setup.run();
    // Ten, and the ends of the two sequences that are open then.
    assert_eq!((report.sent, report.failed, tally.failed), (12, 12, 12));
    assert_eq!(tally.sequence_times.unwrap().count(), 0);
    let mut sequences = BTreeMap::<u64, Vec<(bool, bool)>>::new();
    for position in log.lock().iter().map(|(_, request)| request.sequence.unwrap()) {
        sequences.entry(position.id).or_default().push((position.start, position.end));
    }
    assert!(sequences.values().all(|flags| flags == &[(true, false), (false, true)]), "{sequences:?}");
}

#[test]
fn timed_requests_that_take_too_long_are_cancelled_once() {
    for threading in [Threading::Own, Threading::Driven] {
        let mut setup = Setup::new(Server { threading, ..Server::with_delay(ms(60)) }, 200.0, 1);
        setup.quota = Some(10);
        setup.cancel_after = Some(ms(20));
        let cancelled = Arc::clone(&setup.server.cancelled);
        setup.run();
        assert_eq!(cancelled.load(Ordering::Relaxed), 10);
    }
}

#[test]
fn request_streams_and_outstanding_requests_are_assigned_to_workers() {
    let shape = |threads, max_outstanding, serial| OpenLoop {
        arrivals: Arrivals::at_rate(1.0, GapDistribution::Constant).unwrap(),
        seed: 0,
        threads,
        max_outstanding,
        serial,
        part: Part::WHOLE,
        until: None,
        spin: DEFAULT_SPIN,
    };
    let assigned = |shape: OpenLoop, request_streams| {
        shape.shares(request_streams).iter().map(|s| (s.request_streams, s.slots)).collect::<Vec<_>>()
    };
    assert_eq!(assigned(shape(3, 10, false), 5), [(2, 4), (2, 3), (1, 3)]);
    assert_eq!(assigned(shape(3, 2, false), 5), [(3, 1), (2, 1)]);
    assert_eq!(assigned(shape(3, 2, true), 5), [(2, 2), (2, 2), (1, 1)]);
    assert_eq!(assigned(shape(16, 100, false), 1), [(1, 100)]);
}

#[test]
fn few_threads_issue_and_never_more_than_allowed() {
    assert_eq!(issuing_threads(1000.0, 16, Threading::Own), 1);
    assert_eq!(issuing_threads(250_000.0, 16, Threading::Own), 3);
    assert_eq!(issuing_threads(250_000.0, 16, Threading::Driven), 13);
    assert_eq!(issuing_threads(250_000.0, 2, Threading::Driven), 2);
    assert_eq!(issuing_threads(0.1, 0, Threading::Own), 1);
}

#[test]
fn outputs_of_outstanding_requests_fit_into_memory() {
    const GIB: u64 = 1 << 30;
    assert_eq!(default_outstanding(64, None), DEFAULT_MAX_OUTSTANDING);
    assert_eq!(default_outstanding(64, Some(16 * GIB)), DEFAULT_MAX_OUTSTANDING);
    assert_eq!(default_outstanding(16 << 20, Some(16 * GIB)), 511);
    assert_eq!(default_outstanding(u64::MAX, Some(GIB)), 1);
}
