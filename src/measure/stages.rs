//! `--stage`, several of them: one load after the other, a row of results for each.
//!
//! The next stage's clients are opened while the stage before it still runs. At the boundary the next load starts, and
//! only then the one before it stops sending: the server sees no pause and is not drained. What was outstanding then
//! completes beside the next stage's requests and counts for its own stage, which is summed up once all its requests are over.
//! A stage with a *rest* before it waits for outstanding requests, and for this long.
//!
//! Several processes that share the stages walk through them in `joint`.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use crate::clock::Stamp;
use crate::counters::Counters;
use crate::disturbance::Sentry;
use crate::end_barrier::EndBarrier;
use crate::error::{Error, Result};
use crate::level_run::{LevelRun, MeasuredLevel};
use crate::load::PreparedLoad;
use crate::measurement::Measurement;
use crate::record::Completed;
use crate::result::summary::{Ending, LevelSummary};
use crate::stages::over::{CounterReading, EndingStage};
use crate::stages::running::RunningStage;
use crate::terms::StageLength;
use crate::waiting::wait;

/// Poll interval of a waiting stage.
const STAGE_POLL: Duration = Duration::from_millis(1);
/// Poll interval during a pause.
const REST_POLL: Duration = Duration::from_millis(20);
/// How long a stage whose time is over may still send what was due before; who is behind by more does not hold its rate.
const CATCH_UP: Duration = Duration::from_millis(100);
/// After an interrupt, the outstanding requests of all stages get this long before they are left behind.
const INTERRUPTED_DRAIN: Duration = Duration::from_secs(1);

/// A stage that is ready to start.
pub struct StageRun {
    /// How it is reported, and where it records; nothing is left out at its start.
    pub level: LevelRun,
    /// How long it lasts. Where that is a number of requests, the load was prepared with it as its quota.
    pub length: StageLength,
    /// Its load.
    pub prepared: PreparedLoad,
    /// How long the server rests before it, once it is idle; none if it is not to be idle.
    pub rest: Option<Duration>,
}

/// Prepares stages, and is notified when they begin and end.
pub trait Director {
    /// Makes the stage with that number (from 0) ready.
    ///
    /// # Errors
    /// If it cannot be.
    fn prepare(&self, number: usize) -> Result<StageRun>;

    /// When the first stage begins, where other processes begin with this one: a moment that all agree on.
    ///
    /// # Errors
    /// One of them cannot continue.
    fn agree(&self) -> Result<Option<Stamp>>;

    /// A stage has just begun, or is about to.
    fn begun(&self, number: usize);

    /// A stage is over, with all its requests; later ones may have begun.
    ///
    /// # Errors
    /// What keeps the next from going on.
    fn ended(&self, summary: &LevelSummary) -> Result<()>;
}

/// Measures `count` stages, at least one. Ends early when the user interrupts, when a client breaks, or when more requests of
/// a stage fail than may, after a second of it.
///
/// # Errors
/// If a stage cannot be made ready, or the server's statistics cannot be read before the first.
pub fn measure_stages(
    measurement: &Measurement<'_>,
    count: usize,
    director: &dyn Director,
) -> Result<Vec<MeasuredLevel>> {
    thread::scope(|scope| {
        let mut counters = Counters::start(scope, measurement.backend, measurement.models.specs)?;
        let first = director.prepare(0)?;
        counters.ask();
        counters.wait()?;
        let sentry = Sentry::new(measurement.host_monitor);
        sentry.prepare();
        let (start, barrier) = (director.agree()?, EndBarrier::for_level(measurement));
        let played = Vec::with_capacity(count);
        let ending = VecDeque::new();
        let mut play = Play { measurement, director, counters, sentry, ending, barrier, played };
        match measurement.joint() {
            Some(ranks) => play.all_together(ranks, count, first, start)?,
            None => play.all(count, first, start)?,
        }
        // None waits after the others.
        let last = Stamp::now().plus_duration(INTERRUPTED_DRAIN);
        let is_interrupted = measurement.interrupts.load(Ordering::Relaxed) > 0;
        let finish = |(mut stage, summary, trouble): Played| {
            if is_interrupted {
                stage.load.limit_drain(last.from_now());
            }
            stage.finish(summary, trouble)
        };
        let measured = play.played.into_iter().map(finish).collect();
        match measurement.joint() {
            Some(ranks) => joint::account(ranks, measured),
            None => Ok(measured),
        }
    })
}

/// A stage, its result, and what ended it early.
type Played = (RunningStage, LevelSummary, Option<Error>);

/// The stages so far.
struct Play<'a> {
    measurement: &'a Measurement<'a>,
    director: &'a dyn Director,
    counters: Counters,
    sentry: Sentry<'a>,
    /// Stages that send nothing more, in order.
    ending: VecDeque<EndingStage>,
    /// Holds until other processes, each with its own stages, are done.
    barrier: EndBarrier<'a>,
    played: Vec<Played>,
}

impl Play<'_> {
    fn all(&mut self, count: usize, first: StageRun, start: Option<Stamp>) -> Result<()> {
        self.run_stages(count, first, start)?;
        // Others may have more to do; their outcome is reported at the end of the run.
        drop(self.barrier.wait_with(Ending::Complete));
        Ok(())
    }

    fn run_stages(&mut self, count: usize, first: StageRun, start: Option<Stamp>) -> Result<()> {
        let mut current = Some(self.begin_first(first, start));
        let mut number = 0;
        while let Some(mut stage) = current.take() {
            number += 1;
            let prepared = (number < count).then(|| self.director.prepare(number)).transpose();
            let ending = stage.wait(self.measurement, |_| {
                let may_go_on = self.poll();
                self.goes_on(may_go_on, Completed::default())
            });
            self.read_the_last();
            if self.is_in_trouble() {
                // The server is gone: this stage's result is not worth reporting.
                drop(stage.load.stop());
                return Ok(());
            }
            let stopped = stage.stopped();
            self.counters.ask();
            // What keeps the next stage from beginning does not keep this one from its end.
            let (next, error) = prepared.map_or_else(|error| (None, Some(error)), |next| (next, None));
            let next = next.filter(|_| ending == Ending::Complete && !stage.has_failed(self.measurement));
            let resting = next.as_ref().and_then(|next| next.rest);
            // Where there is no rest, the next load starts before this one stops, so that the server sees no pause.
            let mut later = None;
            match resting {
                None => {
                    current = next.map(|next| {
                        self.director.begun(number);
                        RunningStage::begin(next, None)
                    });
                }
                Some(_) => later = next,
            }
            self.leave(stage, stopped, ending, current.is_some().then_some(number));
            if current.is_none() {
                self.settle();
            }
            error.map_or(Ok(()), Err)?;
            if let (Some(next), Some(rest_time)) = (later, resting) {
                current = self.begin_after(rest_time, next, number);
            }
        }
        Ok(())
    }

    fn begin_first(&mut self, first: StageRun, start: Option<Stamp>) -> RunningStage {
        self.director.begun(0);
        let stage = RunningStage::begin(first, start);
        drop(self.measurement.readings());
        self.sentry.edge();
        stage
    }

    /// Stops a stage whose time has passed. `next`: the number of the one that already runs.
    fn leave(&mut self, stage: RunningStage, stopped: Stamp, ending: Ending, next: Option<usize>) {
        if ending == Ending::Complete {
            stage.load.catch_up(CATCH_UP);
        }
        stage.load.drain();
        let disturbance = self.sentry.edge();
        let (usage, readings) = (self.sentry.usage(), self.measurement.readings());
        let beside_others = self.sentry.others_at_work();
        self.sentry.begin();
        // Where the next one runs, the counters were asked for as it began.
        let reading = if next.is_some() { CounterReading::Asked } else { CounterReading::Due };
        let mut over = EndingStage {
            stage,
            stopped,
            end: None,
            ending,
            readings,
            disturbance,
            usage,
            beside_others,
            next,
            reading,
        };
        if over.is_cut_short() {
            over.cut();
        }
        self.ending.push_back(over);
    }

    /// Begins a stage after `rest_time`, once everything that was outstanding is over. None begins after an interrupt.
    fn begin_after(&mut self, rest_time: Duration, next: StageRun, number: usize) -> Option<RunningStage> {
        let (last, _, trouble) = self.played.last()?;
        // A server that leaves requests unanswered is not idle.
        if trouble.is_some() || last.load.report().outstanding > 0 {
            return None;
        }
        let until = Stamp::now().plus_duration(rest_time);
        wait(|| match until.from_now() {
            left if left.is_zero() || self.is_interrupted() => ControlFlow::Break(()),
            left => ControlFlow::Continue(left.min(REST_POLL)),
        });
        if self.is_interrupted() {
            return None;
        }
        // A reading that fails does so again at the stage's end.
        self.counters.ask();
        drop(self.counters.wait());
        Some(self.begin_idle(next, number, None))
    }

    /// Whether nothing more is to be sent: the user has asked for the end, here or in another process.
    fn is_interrupted(&self) -> bool {
        self.barrier.is_over() || self.measurement.interrupts.load(Ordering::Relaxed) > 0
    }

    /// Begins a stage where none runs, and the server's counters have been read.
    fn begin_idle(&mut self, next: StageRun, number: usize, start: Option<Stamp>) -> RunningStage {
        self.director.begun(number);
        let stage = RunningStage::begin(next, start);
        drop(self.measurement.readings());
        let _ = self.sentry.edge();
        self.sentry.begin();
        stage
    }

    /// Looks after stages that send nothing more, and sums up those that are over. Returns whether the next may continue.
    fn poll(&mut self) -> bool {
        match self.look_after() {
            Ok(()) => {
                while self.ending.front().is_some_and(EndingStage::is_over) {
                    self.sum_up(None);
                }
            }
            Err(error) => self.break_off(&error),
        }
        !self.is_in_trouble() && !self.barrier.is_over()
    }

    /// Whether the stage under way goes on, as far as interrupts and the rest of the run are concerned; `others` is what other
    /// processes have done of it.
    fn goes_on(&self, may_go_on: bool, others: Completed) -> ControlFlow<Ending, Completed> {
        match (self.measurement.interrupts.load(Ordering::Relaxed), may_go_on) {
            (0, true) => ControlFlow::Continue(others),
            (0, false) => ControlFlow::Break(Ending::Failed),
            _ => ControlFlow::Break(Ending::Interrupted),
        }
    }

    /// Looks after the last requests of stages and the server's counters.
    fn look_after(&mut self) -> Result<()> {
        let is_interrupted = self.is_interrupted();
        let mut is_idle = self.counters.poll()?;
        for over in &mut self.ending {
            over.poll(self.measurement, is_interrupted);
            is_idle = is_idle && !over.read(&mut self.counters);
        }
        Ok(())
    }

    /// Waits for the counters that were asked for.
    fn read_the_last(&mut self) {
        match self.counters.wait() {
            Ok(()) => drop(self.poll()),
            Err(error) => self.break_off(&error),
        }
    }

    /// Waits until all stages that send nothing more are over.
    fn settle(&mut self) {
        wait(|| {
            self.poll();
            let Some(over) = self.ending.front() else { return ControlFlow::Break(()) };
            over.stage.show(self.measurement);
            ControlFlow::Continue(STAGE_POLL)
        });
    }

    /// The server's counters cannot be read any more: sums up what there is.
    fn break_off(&mut self, error: &Error) {
        let mut trouble = Some(error.clone());
        while let Some(over) = self.ending.front_mut() {
            if over.end.is_none() {
                over.cut();
            }
            self.sum_up(trouble.take());
        }
    }

    fn is_in_trouble(&self) -> bool {
        self.played.iter().any(|(_, _, trouble)| trouble.is_some())
    }

    fn sum_up(&mut self, trouble: Option<Error>) {
        let Some(mut over) = self.ending.pop_front() else { return };
        let is_interrupt = trouble.as_ref().is_some_and(Error::is_of_an_interrupt);
        if trouble.is_some() && over.ending != Ending::Interrupted {
            over.ending = if is_interrupt { Ending::Interrupted } else { Ending::Failed };
        }
        let trouble = trouble.filter(|_| !is_interrupt);
        let (window, disturbance) = over.window(self.measurement);
        let (summary, _) = over.summarize(self.measurement, window, disturbance);
        self.keep(over, summary, trouble);
    }

    /// Remembers and shows a stage that is over.
    fn keep(&mut self, over: EndingStage, summary: LevelSummary, trouble: Option<Error>) {
        self.measurement.watcher.window(self.played.len() + 1, &summary.client, over.disturbance);
        let trouble = trouble.or(self.director.ended(&summary).err());
        self.played.push((over.stage, summary, trouble));
    }
}

/// When a stage began and ended.
pub fn boundaries(stage: &LevelSummary) -> Vec<Stamp> {
    vec![stage.client.start, stage.client.start.plus_duration(stage.client.duration)]
}

mod joint;
mod over;
mod running;

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::backend::null::NullBackend;
    use crate::backend::{Backend, ClientSpec};
    use crate::blocks::Block;
    use crate::breaker::Breaker;
    use crate::data::PayloadId;
    use crate::disturbance::sample::Quota;
    use crate::gate::Questions;
    use crate::load::input_source::{EntryAssignment, InputSource, PayloadIndex};
    use crate::load::mix::Mix;
    use crate::load::pace::DEFAULT_SPIN;
    use crate::load::schedule::Arrivals;
    use crate::load::{ClosedLoop, LoadContext, LoadShape, OpenLoop, prepare};
    use crate::machine::host_monitor::HostMonitor;
    use crate::measurement::{Moment, Watcher};
    use crate::model::ModelId;
    use crate::record::{Recorder, RecorderSpec};
    use crate::result::disturbance::Disturbance;
    use crate::result::summary::{ClientSummary, Headline, LevelLoad, sample};
    use crate::result::tensors::TensorBytes;
    use crate::scripted::{Fate, Scripted};
    use crate::server::Models;
    use crate::terms::{GapDistribution, MeasurementPlan};
    use crate::waterfall::Tracing;
    use crate::window_summary::WindowFacts;
    use ::ranks::threads::together;

    struct Silent;

    impl Watcher for Silent {
        fn window(&self, _: usize, _: &ClientSummary, _: Option<Disturbance>) {}
        fn block(&self, _: &Block) {}
        fn progress(&self, _: &dyn Fn() -> Moment) {}
    }

    fn stage(backend: &Arc<dyn Backend>, load: LevelLoad, length: StageLength) -> StageRun {
        let rate = if let LevelLoad::RequestRate(rate) = load { Some(rate) } else { None };
        let recorder =
            Arc::new(Recorder::new(RecorderSpec { open_loop: rate.is_some(), ..RecorderSpec::default() }, 1));
        let shape = match rate {
            Some(rate) => LoadShape::Open(OpenLoop {
                arrivals: Arrivals::at_rate(rate, GapDistribution::Constant).unwrap(),
                seed: 0,
                threads: 1,
                max_outstanding: 100,
                serial: false,
                part: ::ranks::Part::WHOLE,
                until: if let StageLength::Time(length) = length { Some(length) } else { None },
                spin: DEFAULT_SPIN,
            }),
            None => LoadShape::Closed(ClosedLoop { concurrency: 1, max_threads: 1, synchronous: false }),
        };
        let index = PayloadIndex { cycle: vec![PayloadId(0)], streams: Vec::new() };
        let input_source = InputSource::independent(vec![index], Mix::single(), 1, EntryAssignment::InStep, 0).unwrap();
        let (backend, client) = (Arc::clone(backend), ClientSpec::new([].into(), [].into()));
        let context = LoadContext {
            quota: if let StageLength::Requests(requests) = length { Some(requests) } else { None },
            ..LoadContext::new(backend, client, input_source, Arc::clone(&recorder))
        };
        let headline = if rate.is_some() { Headline::ResponseTime } else { Headline::ServiceTime };
        let facts = WindowFacts {
            batch_size: 1,
            tensors: TensorBytes::default(),
            headline,
            requested_rate: rate,
            shares: [].into(),
            models: [].into(),
            issuers: 1,
            client_cost_ns: 0.0,
            wakeups_apart: false,
        };
        StageRun {
            level: LevelRun {
                load,
                recorder,
                facts,
                ramp: 0,
                finite: false,
                requests: None,
                baseline: None,
                gap_variation: 0.0,
                sending: None,
                tracing: Tracing::default(),
                questions: Questions::default(),
            },
            length,
            prepared: prepare(context, shape).unwrap(),
            rest: None,
        }
    }

    struct Script {
        backend: Arc<dyn Backend>,
        stages: Vec<(LevelLoad, StageLength)>,
        rest: Option<Duration>,
        /// The stage that cannot be made ready.
        broken: Option<usize>,
        events: RefCell<Vec<String>>,
    }

    impl Director for Script {
        fn prepare(&self, number: usize) -> Result<StageRun> {
            if self.broken == Some(number) {
                return Err(Error::machine("broken"));
            }
            let run = stage(&self.backend, self.stages[number].0, self.stages[number].1);
            Ok(StageRun { rest: self.rest, ..run })
        }
        fn agree(&self) -> Result<Option<Stamp>> {
            Ok(None)
        }
        fn begun(&self, number: usize) {
            self.events.borrow_mut().push(format!("begun {number}"));
        }
        fn ended(&self, _: &LevelSummary) -> Result<()> {
            self.events.borrow_mut().push("ended".to_owned());
            Ok(())
        }
    }

    fn run(stages: &[(LevelLoad, StageLength)], interrupts: usize) -> Vec<MeasuredLevel> {
        run_on(None, None, stages, interrupts)
    }

    fn run_on(
        host_monitor: Option<&dyn HostMonitor>,
        rest_time: Option<Duration>,
        stages: &[(LevelLoad, StageLength)],
        interrupts: usize,
    ) -> Vec<MeasuredLevel> {
        let (played, events) = play(host_monitor, rest_time, stages, interrupts, None);
        let played = played.unwrap();
        let begun: Vec<&String> = events.iter().filter(|event| event.starts_with("begun")).collect();
        assert_eq!(
            begun,
            (0..played.len()).map(|number| format!("begun {number}")).collect::<Vec<_>>().iter().collect::<Vec<_>>()
        );
        assert_eq!(events.len(), 2 * played.len(), "each has ended: {events:?}");
        played
    }
    /// With so many interrupts, and a stage that cannot be made ready; and what the director was told.
    fn play(
        host_monitor: Option<&dyn HostMonitor>,
        rest_time: Option<Duration>,
        stages: &[(LevelLoad, StageLength)],
        interrupts: usize,
        broken: Option<usize>,
    ) -> (Result<Vec<MeasuredLevel>>, Vec<String>) {
        let backend: Arc<dyn Backend> = Arc::new(NullBackend);
        let plan = sample::plan();
        let specs = [backend.model(&ModelId::latest("null")).unwrap()];
        let interrupts = AtomicUsize::new(interrupts);
        let measurement = Measurement {
            plan: &plan,
            backend: backend.as_ref(),
            models: Models { roots: &[], specs: &specs, bls: &[] },
            metrics: None,
            host_monitor,
            interrupts: &interrupts,
            breaker: Breaker::new(&[]),
            watcher: &Silent,
            settle: &|| (),
            ranks: None,
        };
        let (backend, events) = (Arc::clone(&backend), RefCell::default());
        let director = Script { backend, stages: stages.to_vec(), rest: rest_time, broken, events };
        let played = measure_stages(&measurement, stages.len(), &director);
        (played, director.events.into_inner())
    }

    #[test]
    fn a_stage_that_cannot_be_made_ready_takes_nothing_from_those_before_it() {
        let stages = [(LevelLoad::RequestRate(500.0), StageLength::Time(Duration::from_millis(50))); 4];
        let (played, events) = play(None, None, &stages, 0, Some(2));
        assert_eq!(played.err().map(|error| error.to_string()), Some("broken".to_owned()));
        assert_eq!(events, ["begun 0", "begun 1", "ended", "ended"]);
    }

    #[test]
    fn a_disturbed_stage_is_marked() {
        let stages = [(LevelLoad::RequestRate(500.0), StageLength::Time(Duration::from_millis(50))); 3];
        let quota = Quota::stopping(&[false, true]);
        let levels = run_on(Some(&quota), None, &stages, 0);
        let found: Vec<_> = levels.iter().map(|level| level.summary.disturbances.disturbed).collect();
        assert_eq!(found, [0, 1, 0]);
    }

    #[test]
    fn a_rest_is_kept_between_stages() {
        let stages = [(LevelLoad::Concurrency(1), StageLength::Requests(50)); 3];
        let rest_time = Duration::from_millis(60);
        let edges: Vec<Vec<Stamp>> =
            run_on(None, Some(rest_time), &stages, 0).into_iter().map(|level| level.boundaries).collect();
        assert_eq!(edges.len(), 3);
        assert!(edges.windows(2).all(|pair| pair[1][0] - pair[0][1] >= rest_time), "{edges:?}");
    }

    const LONG: StageLength = StageLength::Time(Duration::from_millis(300));

    #[test]
    fn timed_each_stage_has_its_row_and_the_next_begins_as_it_ends() {
        let requests = StageLength::Requests(500);
        let levels = run(
            &[
                (LevelLoad::RequestRate(500.0), LONG),
                (LevelLoad::RequestRate(2000.0), LONG),
                (LevelLoad::Concurrency(1), requests),
            ],
            0,
        );
        let counts: Vec<u64> = levels.iter().map(|level| level.summary.client.requests).collect();
        // What is due is sent, but for what a busy machine left too late for the stage.
        assert!((100..=150).contains(&counts[0]) && (400..=600).contains(&counts[1]), "{counts:?}");
        assert_eq!(levels[0].summary.client.requests, levels[0].requests.sent);
        assert_eq!(counts[2], 500);
        for level in &levels {
            assert!(level.requests.adds_up());
            assert_eq!((level.summary.ending, level.requests.outstanding), (Ending::Complete, 0));
        }
        for pair in levels.windows(2) {
            let pause = pair[1].boundaries[0].since(pair[0].boundaries[1]);
            assert!(pause < 100_000_000, "{pause} ns between stages");
        }
        // The last request is due 2 ms before the end, and answered at once.
        let sending = levels[0].summary.client.sending.unwrap();
        let duration = levels[0].summary.client.duration;
        assert!(sending.last >= Duration::from_millis(290) && duration >= sending.last, "{sending:?} {duration:?}");
    }

    /// Of 400 requests a second one server fails 15 in a thousand, and the other none: together that is less than one in a hundred.
    #[test]
    fn timed_what_fails_of_one_process_is_judged_with_what_all_have() {
        let good = |_, _| Fate { takes: Duration::from_millis(1), fails: false };
        let failing = |number: u64, _| Fate { takes: Duration::from_millis(1), fails: number % 67 == 66 };
        let (plan, interrupts) = (MeasurementPlan { max_errors: 0.01, ..sample::plan() }, AtomicUsize::new(0));
        let endings = together(2, |ranks| {
            let script = if ranks.part().rank == 0 { good } else { failing };
            let backend: Arc<dyn Backend> = Arc::new(Scripted::new(script));
            let specs = [backend.model(&ModelId::latest("null")).unwrap()];
            let measurement = Measurement {
                plan: &plan,
                backend: backend.as_ref(),
                models: Models { roots: &[], specs: &specs, bls: &[] },
                metrics: None,
                host_monitor: None,
                interrupts: &interrupts,
                breaker: Breaker::new(&[]),
                watcher: &Silent,
                settle: &|| (),
                ranks: Some(&ranks),
            };
            let length = StageLength::Time(Duration::from_millis(1_600));
            let stages = vec![(LevelLoad::RequestRate(200.0), length); 2];
            let (backend, events) = (Arc::clone(&backend), RefCell::default());
            let director = Script { backend, stages, rest: None, broken: None, events };
            let played = measure_stages(&measurement, 2, &director).unwrap();
            played.into_iter().map(|level| (level.summary.ending, level.summary.client.failed)).collect::<Vec<_>>()
        });
        for endings in &endings {
            let is_whole = |(ending, failed): &(Ending, u64)| *ending == Ending::Complete && *failed >= 2;
            assert!(endings.len() == 2 && endings.iter().all(is_whole), "{endings:?}");
        }
    }

    #[test]
    fn an_interrupt_ends_the_stages_with_what_is_there() {
        let levels = run(&[(LevelLoad::RequestRate(500.0), LONG), (LevelLoad::RequestRate(500.0), LONG)], 1);
        assert_eq!(levels.len(), 1);
        assert!(levels[0].requests.adds_up());
    }
}
