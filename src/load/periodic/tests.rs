use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

use super::*;
use crate::backend::{
    Backend, Capabilities, Client, ClientSpec, Completion, CompletionSink, InferError, OutputView, Outputs, Request,
    Response, Threading,
};
use crate::data::PayloadId;
use crate::error::Error;
use crate::input_source::{EntryAssignment, InputSource, PayloadIndex};
use crate::mix::Mix;
use crate::model::statistics::StatisticsSnapshot;
use crate::model::{ModelId, ModelSpec};
use crate::record::LoadReport;
use crate::record::{Recorder, RecorderSpec, Tally};
use crate::run::start;

/// A decoupled server with one thread that goes round the requests under way and gives each one response a turn. Of every
/// request it keeps, for each response of the whole run, how many requests it had been sent until then.
struct Decoupled {
    responses: u32,
    fail: bool,
    turns: Arc<Mutex<Vec<(SlotId, u32, usize)>>>,
    threading: Threading,
}

struct NoOutputs;

impl Outputs for NoOutputs {
    fn visit(&self, _: &mut dyn FnMut(OutputView<'_>)) {}
}

impl Backend for Decoupled {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            service_kind: "TEST",
            threading: self.threading,
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
        assert!(spec.watch_responses);
        let (requests, inbox) = mpsc::channel();
        let turns = Turns {
            responses: self.responses,
            fail: self.fail,
            log: Arc::clone(&self.turns),
            sink,
            inbox,
            live: Vec::new(),
            completed: 0,
        };
        if self.threading == Threading::Driven {
            return Ok(Box::new(TestClient { requests, turns: Some(turns) }));
        }
        thread::spawn(move || {
            let mut turns = turns;
            while turns.turn() {
                thread::sleep(Duration::from_millis(2));
            }
        });
        Ok(Box::new(TestClient { requests, turns: None }))
    }
}

/// The server's side of a client.
struct Turns {
    responses: u32,
    fail: bool,
    log: Arc<Mutex<Vec<(SlotId, u32, usize)>>>,
    sink: Arc<dyn CompletionSink>,
    inbox: mpsc::Receiver<(SlotId, Stamp)>,
    live: Vec<(SlotId, Stamp, u32)>,
    completed: usize,
}

impl Turns {
    /// One response, or the empty end, for each live request. `false`: the client is gone.
    fn turn(&mut self) -> bool {
        loop {
            match self.inbox.try_recv() {
                Ok((slot, sent)) => {
                    self.live.push((slot, sent, 0));
                    self.completed += 1;
                }
                Err(mpsc::TryRecvError::Empty) => break,
                Err(mpsc::TryRecvError::Disconnected) => return false,
            }
        }
        let error = InferError { code: "Internal".into(), message: "no".into() };
        for (slot, sent, had) in &mut self.live {
            let now = Stamp::now();
            let over = *had == self.responses;
            self.sink.response(*slot, &Response { at: now, empty: over, outputs: &NoOutputs, error: None });
            if over {
                let completion = Completion {
                    sent: *sent,
                    send_end: None,
                    first_response: now,
                    last_response: now,
                    responses: *had,
                    error: self.fail.then_some(&error),
                };
                self.sink.complete(*slot, &completion);
            } else {
                self.log.lock().push((*slot, *had, self.completed));
            }
            *had += 1;
        }
        self.live.retain(|(_, _, had)| *had <= self.responses);
        true
    }
}

struct TestClient {
    requests: mpsc::Sender<(SlotId, Stamp)>,
    turns: Option<Turns>,
}

impl Client for TestClient {
    fn grow(&mut self, _: usize) -> Result<()> {
        Ok(())
    }
    fn submit(&mut self, slot: SlotId, _: Request) -> Result<()> {
        self.requests.send((slot, Stamp::now())).map_err(|_| Error::server("gone"))
    }
    fn drive(&mut self, _: Stamp) -> Result<()> {
        if let Some(turns) = &mut self.turns {
            turns.turn();
        }
        Ok(())
    }
    fn cancel(&mut self, _: SlotId, _: Stamp) -> bool {
        true
    }
    fn drain(&mut self, _: Duration) -> usize {
        0
    }
}

fn shape(start: u32, end: u32, step: u32, period: u32) -> PeriodicLoop {
    PeriodicLoop {
        start,
        end,
        step,
        period,
        book: Arc::new(BatchBook::new(end)),
        part: Part::WHOLE,
        progress: Arc::default(),
    }
}

fn run(server: Decoupled, shape: PeriodicLoop) -> (LoadReport, Tally) {
    let cycle = (0..shape.end).map(PayloadId).collect();
    let index = PayloadIndex { cycle, streams: Vec::new() };
    let recorder = Arc::new(Recorder::new(RecorderSpec { decoupled: true, ..RecorderSpec::default() }, 1));
    let input_source =
        InputSource::independent(vec![index], Mix::single(), shape.end as usize, EntryAssignment::InStep, 0).unwrap();
    let client = ClientSpec::new([].into(), [].into());
    let context = LoadContext::new(Arc::new(server), client, input_source, Arc::clone(&recorder));
    let load = start(context, shape).unwrap();
    let begun = Stamp::now();
    while !load.is_finished() {
        assert!(Stamp::now() - begun < Duration::from_secs(30), "the load does not end");
        thread::sleep(Duration::from_millis(1));
    }
    let report = load.stop().unwrap();
    assert!(report.adds_up(), "{report:?}");
    (report, recorder.close())
}

fn server(responses: u32, threading: Threading) -> Decoupled {
    Decoupled { responses, fail: false, turns: Arc::default(), threading }
}

#[test]
fn batches_grow_to_the_end_and_no_further() {
    let batches = |start, end, step| shape(start, end, step, 1).batches().collect::<Vec<_>>();
    assert_eq!(batches(10, 100, 30), [0..10, 10..40, 40..70, 70..100]);
    assert_eq!(batches(2, 5, 2), [0..2, 2..4, 4..5]);
    assert_eq!(batches(4, 4, 9), std::iter::once(0..4).collect::<Vec<_>>());
}

#[test]
fn a_batch_follows_when_all_of_the_latest_have_had_the_period() {
    for threading in [Threading::Own, Threading::Driven] {
        let server = server(10, threading);
        let turns = Arc::clone(&server.turns);
        let shape = shape(2, 6, 2, 4);
        let (report, tally) = run(server, shape.clone());
        assert_eq!((report.sent, report.completed, report.outstanding), (6, 6, 0));
        assert_eq!((tally.requests, tally.responses), (6, 60));
        // Until the requests of a batch have had four responses each, the server has seen no later batch.
        for &(slot, had, requests) in turns.lock().iter() {
            let batch_end = (slot.index() / 2 + 1) * 2;
            assert!(had >= 4 || requests <= batch_end, "slot {slot:?} had {had} when {requests} requests were there");
        }
        let stages = shape.results();
        assert_eq!(
            stages.iter().map(|s| (s.concurrency, s.requests, s.responses)).collect::<Vec<_>>(),
            [(2, 2, 20), (4, 2, 20), (6, 2, 20)]
        );
        assert!(stages.iter().all(|stage| stage.first_response.count() == 2
            && stage.gap_max_ns as f64 >= stage.gap.mean_ns()
            && stage.gap.count() == stage.responses - 2));
        assert_eq!(tally.decoupled.unwrap().1.count(), 54);
    }
}

#[test]
fn requests_that_end_before_the_period_do_not_hang_it() {
    let (report, _) = run(server(2, Threading::Own), shape(1, 4, 1, 100));
    assert_eq!(report.completed, 4);
    let (report, tally) = run(Decoupled { fail: true, ..server(0, Threading::Own) }, shape(2, 4, 1, 1));
    assert_eq!((report.failed, tally.failed), (4, 4));
}
