//! `--stage`, several of them: one load after the other, a row of results for each.
//!
//! The next stage's clients are opened while the stage before it still runs. At the boundary the next load starts, and
//! only then the one before it stops sending: the server sees no pause and is not drained. What was outstanding then
//! completes beside the next stage's requests and counts for no stage, because it completes after its own stage's end.
//! A stage with a *rest* before it waits for outstanding requests, and for this long.
//!
//! Several processes that share the stages walk through them in [`together`].

use std::cell::{Cell, RefCell};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use crate::clock::Stamp;
use crate::error::{Error, Result};
use crate::load::{LoadReport, PreparedLoad, RunningLoad};
use crate::machine::pauses::Vigil;
use crate::measure::backlog::BacklogTrend;
use crate::measure::counters::Counters;
use crate::measure::disturbance::Sentry;
use crate::measure::level::{LevelRun, MeasuredLevel};
use crate::measure::measurement::{Measurement, Moment};
use crate::measure::pulse::Pulse;
use crate::measure::sending::Sending;
use crate::measure::slicer::Slicer;
use crate::measure::stages::over::FinishedStage;
use crate::measure::summary::{Ending, LevelSummary};
use crate::plan::StageLength;

/// Poll interval of a waiting stage.
const STAGE_POLL: Duration = Duration::from_millis(1);
/// How long requests of a stage may delay the next one if that must find the server idle.
const LONGEST_DRAIN: Duration = Duration::from_secs(600);
/// Poll interval during a pause.
const REST_POLL: Duration = Duration::from_millis(20);
/// Threads that were recording when a stage ended get this long to finish.
const GRACE: Duration = Duration::from_micros(200);
/// How long a stage whose time is over may still send what was due before; who is behind by more does not hold its rate.
const CATCH_UP: Duration = Duration::from_millis(100);

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

/// A stage under way, or over.
struct RunningStage {
    trend: Cell<BacklogTrend>,
    slicer: RefCell<Slicer>,
    level: LevelRun,
    load: RunningLoad,
    planned_end: Stamp,
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

    /// A stage is over, though requests of it may still be outstanding.
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
        let sentry = Sentry::new(measurement.gauge);
        sentry.prepare();
        let (start, pulse) = (director.agree()?, Pulse::of(measurement));
        let played = Vec::with_capacity(count);
        let mut play = Play { measurement, director, counters, sentry, over: None, pulse, played };
        match measurement.joint() {
            Some(ranks) => play.all_together(ranks, count, (first, start))?,
            None => play.all(count, (first, start))?,
        }
        let finish = |(stage, summary, trouble): Played| stage.finish(summary, trouble);
        let measured = play.played.into_iter().map(finish).collect();
        match measurement.joint() {
            Some(ranks) => together::account(ranks, measured),
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
    over: Option<FinishedStage>,
    /// Keeps in touch with other processes, each with its own stages.
    pulse: Pulse<'a>,
    played: Vec<Played>,
}

impl Play<'_> {
    fn all(&mut self, count: usize, first: (StageRun, Option<Stamp>)) -> Result<()> {
        self.walk(count, first)?;
        // Others may have more to do; their outcome is reported at the end of the run.
        drop(self.pulse.wait_with(Ending::Complete));
        Ok(())
    }

    fn walk(&mut self, count: usize, (first, start): (StageRun, Option<Stamp>)) -> Result<()> {
        let mut current = Some(self.begin_first(first, start));
        let mut number = 0;
        while let Some(stage) = current.take() {
            number += 1;
            let prepared = (number < count).then(|| self.director.prepare(number)).transpose();
            let ending = stage.wait(self.measurement, || self.poll());
            self.settle();
            if self.is_in_trouble() {
                // The server is gone: this stage's result is not worth reporting.
                drop(stage.load.stop());
                return Ok(());
            }
            let end = stage.end(self.measurement);
            self.counters.ask();
            // What keeps the next stage from beginning does not keep this one from its end.
            let (next, error) = prepared.map_or_else(|error| (None, Some(error)), |next| (next, None));
            let next = next.filter(|_| ending == Ending::Complete);
            let resting = next.as_ref().and_then(|next| next.rest);
            // Where there is no rest, the next load starts before this one stops, so that the server sees no pause.
            let mut later = None;
            match resting {
                None => current = next.map(|next| RunningStage::begin(next, None)),
                Some(_) => later = next,
            }
            self.leave(stage, (end, ending), current.is_some().then_some(number));
            if current.is_none() {
                self.settle();
            }
            error.map_or(Ok(()), Err)?;
            if let (Some(next), Some(rest)) = (later, resting) {
                current = self.begin_after(rest, next, number);
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
    fn leave(&mut self, stage: RunningStage, (end, ending): (Stamp, Ending), next: Option<usize>) {
        if ending == Ending::Complete {
            stage.load.catch_up(CATCH_UP);
        }
        stage.load.halt();
        thread::sleep(GRACE);
        let disturbance = self.sentry.edge();
        let (usage, readings) = (self.sentry.usage(), self.measurement.readings());
        self.sentry.begin();
        self.over = Some(FinishedStage { stage, end, ending, readings, disturbance, usage, next });
    }

    /// Begins a stage once everything that is outstanding has been answered, and `rest` has gone by. None begins after an interrupt.
    fn begin_after(&mut self, rest: Duration, next: StageRun, number: usize) -> Option<RunningStage> {
        // Other processes hear of this one meanwhile.
        let is_interrupted = || self.pulse.is_over() || self.measurement.interrupts.load(Ordering::Relaxed) > 0;
        let (last, _, trouble) = self.played.last()?;
        if trouble.is_some() {
            return None;
        }
        last.load.drain(LONGEST_DRAIN, is_interrupted);
        let until = Stamp::now().plus_duration(rest);
        while Stamp::now() < until && !is_interrupted() {
            thread::sleep(until.from_now().min(REST_POLL));
        }
        if is_interrupted() {
            return None;
        }
        // A reading that fails does so again at the stage's end.
        self.counters.ask();
        drop(self.counters.wait());
        Some(self.begin_idle(next, (number, None)))
    }

    /// Begins a stage where none runs, and the server's counters have been read.
    fn begin_idle(&mut self, next: StageRun, (number, start): (usize, Option<Stamp>)) -> RunningStage {
        self.director.begun(number);
        let stage = RunningStage::begin(next, start);
        drop(self.measurement.readings());
        let _ = self.sentry.edge();
        self.sentry.begin();
        stage
    }

    /// Sums up the stage that ended last as soon as the server's counters have arrived. Returns whether the next may
    /// continue.
    fn poll(&mut self) -> bool {
        if self.over.is_some() {
            let read = self.counters.poll();
            match read {
                Ok(false) => {}
                Ok(true) => self.sum_up(None),
                Err(error) => self.sum_up(Some(error)),
            }
        }
        !self.is_in_trouble() && !self.pulse.is_over()
    }

    /// The same, waiting for the counters.
    fn settle(&mut self) {
        if self.over.is_some() {
            let read = self.counters.wait();
            self.sum_up(read.err());
        }
    }

    fn is_in_trouble(&self) -> bool {
        self.played.last().is_some_and(|(_, _, trouble)| trouble.is_some())
    }

    fn sum_up(&mut self, trouble: Option<Error>) {
        let Some(mut over) = self.over.take() else { return };
        if trouble.is_some() && over.ending != Ending::Interrupted {
            over.ending = Ending::Failed;
        }
        let counted = self.counters.between(over.stage.load.started(), over.end);
        let (window, disturbance) = over.window(self.measurement);
        let (summary, _) = over.summarize(self.measurement, (window, disturbance), counted);
        self.keep(over, summary, trouble);
    }

    /// Remembers and shows a stage that is over.
    fn keep(&mut self, over: FinishedStage, summary: LevelSummary, trouble: Option<Error>) {
        self.measurement.watcher.window(self.played.len() + 1, &summary.client);
        let trouble = trouble.or(self.director.ended(&summary).err());
        if let (Some(next), None) = (over.next, &trouble) {
            self.director.begun(next);
        }
        self.played.push((over.stage, summary, trouble));
    }
}

impl RunningStage {
    /// Begins at `start`, for which it waits, or at once.
    fn begin(run: StageRun, start: Option<Stamp>) -> Self {
        let StageRun { level, length, prepared, rest: _ } = run;
        let load = match start {
            Some(start) => prepared.go_at(start),
            None => prepared.go(),
        };
        let planned_end = match length {
            StageLength::Time(length) => load.started().plus_duration(length),
            StageLength::Requests(_) => Stamp::NEVER,
        };
        let mut slicer = Slicer::new(load.started(), planned_end);
        slicer.put_off(level.recorder.end_window(slicer.end()));
        let timed = if let StageLength::Time(length) = length { Some(Sending::steady(length)) } else { None };
        let trend = Cell::new(BacklogTrend::of(level.sending.or(timed)));
        Self { trend, slicer: RefCell::new(slicer), level, load, planned_end }
    }

    /// Waits until the stage is over, or must not continue.
    fn wait(&self, measurement: &Measurement<'_>, mut may_go_on: impl FnMut() -> bool) -> Ending {
        let mut vigil = Vigil::begin();
        while self.poll(measurement).is_none() {
            let may_go_on = may_go_on();
            if measurement.interrupts.load(Ordering::Relaxed) > 0 {
                return Ending::Interrupted;
            }
            if !may_go_on {
                return Ending::Failed;
            }
            if self.fails_too_often(measurement) {
                return Ending::Failed;
            }
            if self.load.is_finished() {
                self.load.settle_if_stranded();
                // The last requests may all have failed since the last poll.
                let fails = self.fails_too_often(measurement);
                let complete = self.planned_end == Stamp::NEVER && !self.load.is_stranded() && !fails;
                return if complete { Ending::Complete } else { Ending::Failed };
            }
            let mut trend = self.trend.get();
            let elapsed = Stamp::now() - self.load.started();
            trend.poll(elapsed, self.load.under_way());
            self.trend.set(trend);
            measurement.watcher.progress(&|| {
                let (completed, under_way) = (self.level.recorder.completed(), self.load.under_way());
                Moment { window: None, elapsed, completed, under_way }
            });
            vigil.sleep(STAGE_POLL.min(self.slicer.borrow().end().from_now()));
        }
        match measurement.has_failed(&self.level.recorder, self.load.started()) {
            true => Ending::Failed,
            false => Ending::Complete,
        }
    }

    fn fails_too_often(&self, measurement: &Measurement<'_>) -> bool {
        let LevelRun { recorder, requests, .. } = &self.level;
        measurement.fails_too_often(recorder, self.load.started(), *requests)
    }

    /// Opens the next block when one is over. Returns when the stage ended, if its time has passed.
    fn poll(&self, measurement: &Measurement<'_>) -> Option<Stamp> {
        self.slicer.borrow_mut().poll((&self.level.recorder, &self.level.facts), measurement.watcher)
    }

    /// When the stage ended, which may be now.
    fn end(&self, measurement: &Measurement<'_>) -> Stamp {
        if let Some(end) = self.poll(measurement) {
            return end;
        }
        // What was recorded after the open block's end belongs to the stage, too.
        let now = self.level.recorder.end_window(Stamp::now());
        self.load.ended().unwrap_or(now)
    }

    /// Waits for what is outstanding and gives the account of all requests.
    fn finish(self, summary: LevelSummary, trouble: Option<Error>) -> MeasuredLevel {
        let boundaries = boundaries(&summary);
        let stopped = if trouble.is_none() { self.load.stop() } else { self.load.abandon() };
        let (requests, broken) = match stopped {
            Ok(requests) => (requests, None),
            Err(error) => (LoadReport::default(), Some(error)),
        };
        MeasuredLevel { summary, requests, boundaries, trouble: trouble.or(broken) }
    }
}

/// When a stage began and ended.
pub fn boundaries(stage: &LevelSummary) -> Vec<Stamp> {
    vec![stage.client.start, stage.client.start.plus_duration(stage.client.duration)]
}

mod over;
mod together;

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::backend::{Backend, ClientSpec};
    use crate::backends::null::NullBackend;
    use crate::data::PayloadId;
    use crate::load::feed::{Deal, Feed, PayloadIndex};
    use crate::load::mix::Mix;
    use crate::load::pace::DEFAULT_SPIN;
    use crate::load::schedule::Arrivals;
    use crate::load::{ClosedLoop, LoadContext, LoadShape, OpenLoop, prepare};
    use crate::machine::gauge::Gauge;
    use crate::measure::blocks::Block;
    use crate::measure::breaker::Breaker;
    use crate::measure::disturbance::sample::Quota;
    use crate::measure::measurement::Watcher;
    use crate::measure::server::Models;
    use crate::measure::summary::{ClientSummary, Headline, LevelLoad, sample};
    use crate::measure::waterfall::Tracing;
    use crate::measure::window::WindowFacts;
    use crate::model::ModelId;
    use crate::plan::GapDistribution;
    use crate::record::{Recorder, RecorderSpec};

    struct Silent;

    impl Watcher for Silent {
        fn window(&self, _: usize, _: &ClientSummary) {}
        fn block(&self, _: &Block) {}
        fn progress(&self, _: &dyn Fn() -> Moment) {}
    }

    fn stage(backend: &Arc<NullBackend>, load: LevelLoad, length: StageLength) -> StageRun {
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
                part: crate::ranks::Part::WHOLE,
                until: None,
                spin: DEFAULT_SPIN,
            }),
            None => LoadShape::Closed(ClosedLoop { concurrency: 1, max_threads: 1, synchronous: false }),
        };
        let index = PayloadIndex { cycle: vec![PayloadId(0)], streams: Vec::new() };
        let feed = Feed::independent(vec![index], Mix::single(), (1, Deal::InStep), 0).unwrap();
        let (backend, client) = (Arc::clone(backend) as Arc<dyn Backend>, ClientSpec::new([].into(), [].into()));
        let context = LoadContext {
            quota: if let StageLength::Requests(requests) = length { Some(requests) } else { None },
            ..LoadContext::new(backend, client, feed, Arc::clone(&recorder))
        };
        let headline = if rate.is_some() { Headline::ResponseTime } else { Headline::ServiceTime };
        let facts = WindowFacts {
            batch_size: 1,
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
            },
            length,
            prepared: prepare(context, shape).unwrap(),
            rest: None,
        }
    }

    struct Script {
        backend: Arc<NullBackend>,
        stages: Vec<(LevelLoad, StageLength)>,
        rest: Option<Duration>,
        /// The stage that cannot be made ready.
        broken: Option<usize>,
        told: RefCell<Vec<String>>,
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
            self.told.borrow_mut().push(format!("begun {number}"));
        }
        fn ended(&self, _: &LevelSummary) -> Result<()> {
            self.told.borrow_mut().push("ended".to_owned());
            Ok(())
        }
    }

    fn run(stages: &[(LevelLoad, StageLength)], interrupts: usize) -> Vec<MeasuredLevel> {
        run_on((None, None), stages, interrupts)
    }

    fn run_on(
        (gauge, rest): (Option<&dyn Gauge>, Option<Duration>),
        stages: &[(LevelLoad, StageLength)],
        interrupts: usize,
    ) -> Vec<MeasuredLevel> {
        let (played, told) = play((gauge, rest), stages, (interrupts, None));
        let (played, order) = (played.unwrap(), |number: usize| [format!("begun {number}"), "ended".to_owned()]);
        assert_eq!(told, (0..played.len()).flat_map(order).collect::<Vec<_>>());
        played
    }
    /// With so many interrupts, and a stage that cannot be made ready; and what the director was told.
    fn play(
        (gauge, rest): (Option<&dyn Gauge>, Option<Duration>),
        stages: &[(LevelLoad, StageLength)],
        (interrupts, broken): (usize, Option<usize>),
    ) -> (Result<Vec<MeasuredLevel>>, Vec<String>) {
        let backend = Arc::new(NullBackend);
        let plan = sample::plan();
        let specs = [backend.model(&ModelId::latest("null")).unwrap()];
        let interrupts = AtomicUsize::new(interrupts);
        let measurement = Measurement {
            plan: &plan,
            backend: backend.as_ref(),
            models: Models { roots: &[], specs: &specs, bls: &[] },
            metrics: None,
            gauge,
            interrupts: &interrupts,
            breaker: Breaker::new(&[]),
            watcher: &Silent,
            settle: &|| (),
            ranks: None,
        };
        let (backend, told) = (Arc::clone(&backend), RefCell::default());
        let director = Script { backend, stages: stages.to_vec(), rest, broken, told };
        let played = measure_stages(&measurement, stages.len(), &director);
        (played, director.told.into_inner())
    }

    #[test]
    fn a_stage_that_cannot_be_made_ready_takes_nothing_from_those_before_it() {
        let stages = [(LevelLoad::RequestRate(500.0), StageLength::Time(Duration::from_millis(50))); 4];
        let (played, told) = play((None, None), &stages, (0, Some(2)));
        assert_eq!(played.err().map(|error| error.to_string()), Some("broken".to_owned()));
        assert_eq!(told, ["begun 0", "ended", "begun 1", "ended"]);
    }

    #[test]
    fn a_disturbed_stage_is_marked() {
        let stages = [(LevelLoad::RequestRate(500.0), StageLength::Time(Duration::from_millis(50))); 3];
        let quota = Quota::stopping(&[false, true]);
        let levels = run_on((Some(&quota), None), &stages, 0);
        let found: Vec<_> = levels.iter().map(|level| level.summary.disturbances.disturbed).collect();
        assert_eq!(found, [0, 1, 0]);
    }

    #[test]
    fn a_rest_is_kept_between_stages() {
        let stages = [(LevelLoad::Concurrency(1), StageLength::Requests(50)); 3];
        let rest = Duration::from_millis(60);
        let edges: Vec<Vec<Stamp>> =
            run_on((None, Some(rest)), &stages, 0).into_iter().map(|level| level.boundaries).collect();
        assert_eq!(edges.len(), 3);
        assert!(edges.windows(2).all(|pair| pair[1][0] - pair[0][1] >= rest), "{edges:?}");
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
        assert_eq!(counts[2], 500);
        for level in &levels {
            assert!(level.requests.adds_up());
            assert_eq!((level.summary.ending, level.requests.outstanding), (Ending::Complete, 0));
        }
        for pair in levels.windows(2) {
            let pause = pair[1].boundaries[0].since(pair[0].boundaries[1]);
            assert!(pause < 100_000_000, "{pause} ns between stages");
        }
        assert_eq!(levels[0].summary.client.duration, Duration::from_millis(300));
    }

    #[test]
    fn an_interrupt_ends_the_stages_with_what_is_there() {
        let levels = run(&[(LevelLoad::RequestRate(500.0), LONG), (LevelLoad::RequestRate(500.0), LONG)], 1);
        assert_eq!(levels.len(), 1);
        assert!(levels[0].requests.adds_up());
    }
}
