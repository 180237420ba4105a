//! `--stage`, several of them: one load after the other, a row of results for each.
//!
//! The next stage's clients are opened while the stage before it still runs. At the boundary the next load starts, and only
//! then the one before it stops sending: the server sees no pause and is not drained. What was outstanding then completes
//! beside the next stage's requests and counts for no stage, because it completes after its own stage's end.

use std::cell::{Cell, RefCell};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use crate::clock::Stamp;
use crate::error::{Error, Result};
use crate::load::{LoadReport, PreparedLoad, RunningLoad};
use crate::measure::blocks::Blocks;
use crate::measure::growth::{Growth, settle_rates};
use crate::measure::history::Stretch;
use crate::measure::level::{LevelRun, MeasuredLevel, Measurement};
use crate::measure::precision::{WindowFigures, intervals};
use crate::measure::summary::{Ending, LevelSummary};
use crate::measure::verdict::{Circumstances, judge};
use crate::measure::window::summarize;
use crate::model::statistics::StatisticsSnapshot;
use crate::plan::{StageLength, Statistic};

/// How often a waiting stage looks around.
const LOOK_UP: Duration = Duration::from_millis(1);
/// Threads that were recording when a stage ended get this long to finish.
const GRACE: Duration = Duration::from_micros(200);

/// A stage that is ready to start.
pub struct StageRun {
    /// How it is reported, and where it records; nothing is left out at its start.
    pub level: LevelRun,
    /// How long it lasts. Where that is a number of requests, the load was prepared with it as its quota.
    pub length: StageLength,
    /// Its load.
    pub prepared: PreparedLoad,
}

/// A stage under way, or over.
struct Stage {
    growth: Cell<Growth>,
    blocks: RefCell<Blocks>,
    level: LevelRun,
    load: RunningLoad,
    planned_end: Stamp,
}

/// Who makes stages ready, and is told when they begin and end.
pub trait Director {
    /// Makes the stage with that number (from 0) ready.
    ///
    /// # Errors
    /// Where it cannot be.
    fn prepare(&self, number: usize) -> Result<StageRun>;

    /// A stage has just begun, or is about to.
    fn begun(&self, number: usize);

    /// A stage is over, though requests of it may still be outstanding.
    fn ended(&self, summary: &LevelSummary);
}

/// Measures `count` stages, at least one. Ends early when the user interrupts, when a client breaks, or when more requests of
/// a stage fail than may, after a second of it.
///
/// # Errors
/// Where a stage cannot be made ready, or the server's statistics cannot be read before the first.
pub fn measure_stages(
    measurement: &Measurement<'_>,
    count: usize,
    director: &dyn Director,
) -> Result<Vec<MeasuredLevel>> {
    let mut played: Vec<(Stage, LevelSummary, Option<Error>)> = Vec::with_capacity(count);
    let mut before = measurement.statistics()?;
    let first = director.prepare(0)?;
    director.begun(0);
    let mut current = Some(Stage::begin(first));
    drop(measurement.readings());
    while let Some(stage) = current.take() {
        let number = played.len() + 1;
        let next = if number < count { Some(director.prepare(number)?) } else { None };
        let ending = stage.wait(measurement);
        let end = stage.end();
        stage.level.recorder.set_boundary(end);
        // The next load starts before this one stops, so that the server sees no pause.
        current = next.filter(|_| ending == Ending::Complete).map(Stage::begin);
        stage.load.halt();
        thread::sleep(GRACE);
        let (after, trouble) = match measurement.statistics() {
            Ok(after) => (after, None),
            Err(error) => (None, Some(error)),
        };
        let ending = if trouble.is_some() { Ending::Failed } else { ending };
        if let Some(next) = current.take_if(|_| trouble.is_some()) {
            // The server is gone: what the next stage came to is not worth telling.
            drop(next.load.stop());
        }
        let summary = stage.summarize(measurement, (end, ending), [before, after.clone()]);
        measurement.watcher.window(number, &summary.client);
        director.ended(&summary);
        if current.is_some() {
            director.begun(number);
        }
        before = after;
        played.push((stage, summary, trouble));
    }
    Ok(played.into_iter().map(|(stage, summary, trouble)| stage.finish(summary, trouble)).collect())
}

impl Stage {
    fn begin(run: StageRun) -> Self {
        let StageRun { level, length, prepared } = run;
        let load = prepared.go();
        let planned_end = match length {
            StageLength::Time(length) => load.started().plus_duration(length),
            StageLength::Requests(_) => Stamp::NEVER,
        };
        level.recorder.set_boundary(planned_end);
        let timed = if let StageLength::Time(length) = length { Some(length) } else { None };
        let growth = Cell::new(Growth::of(level.sending.or(timed)));
        Self { growth, blocks: RefCell::new(Blocks::new()), level, load, planned_end }
    }

    /// Waits until the stage is over.
    fn wait(&self, measurement: &Measurement<'_>) -> Ending {
        while Stamp::now() < self.planned_end {
            if measurement.interrupts.load(Ordering::Relaxed) > 0 {
                return Ending::Interrupted;
            }
            if measurement.fails_too_often(&self.level.recorder, self.load.started()) {
                return Ending::Failed;
            }
            if self.load.is_finished() {
                self.load.settle_if_stranded();
                let complete = self.planned_end == Stamp::NEVER && !self.load.is_stranded();
                return if complete { Ending::Complete } else { Ending::Failed };
            }
            let mut growth = self.growth.get();
            let elapsed = Stamp::now() - self.load.started();
            growth.look(elapsed, self.load.under_way());
            self.blocks.borrow_mut().look(elapsed, self.level.recorder.completed().succeeded);
            self.growth.set(growth);
            thread::sleep(LOOK_UP.min(self.planned_end.from_now()));
        }
        Ending::Complete
    }

    fn end(&self) -> Stamp {
        self.planned_end.min(self.load.ended().unwrap_or_else(Stamp::now))
    }

    fn summarize(
        &self,
        measurement: &Measurement<'_>,
        (end, ending): (Stamp, Ending),
        [before, after]: [Option<StatisticsSnapshot>; 2],
    ) -> LevelSummary {
        let start = self.load.started();
        (measurement.settle)();
        let mut client = summarize(self.level.recorder.advance(Stamp::NEVER), start, end - start, &self.level.facts);
        settle_rates(&mut client, self.load.sends(), &self.growth.get());
        let ending = match ending {
            Ending::Complete if measurement.exceeds_errors(client.requests, client.failed) => Ending::Failed,
            Ending::Complete if measurement.is_over_threshold(&client) => Ending::OverThreshold,
            other => other,
        };
        let circumstances = Circumstances {
            percentile: measurement.plan.percentile,
            precision: measurement.plan.precision,
            max_errors: measurement.plan.max_errors,
            gap_variation: self.level.gap_variation,
            outstanding: None,
            held_back: self.load.report().held_back,
        };
        let percentile = measurement.plan.percentile;
        let pace = self.blocks.borrow().throughput(client.batch_size).map(|pace| (Statistic::Throughput, pace));
        let figures = intervals(&[WindowFigures::of(&client)], &client, percentile);
        let intervals = pace.into_iter().chain(figures).collect();
        let window = Stretch { client, before, after, readings: measurement.readings() };
        let mut summary = window.summarize(measurement, self.level.load, (ending, intervals));
        summary.verdict = judge(&summary, &circumstances);
        summary
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::backend::{Backend, ClientSpec, MAX_REPLY_BYTES, OutputPlan, RequestOptions};
    use crate::backends::null::NullBackend;
    use crate::data::PayloadId;
    use crate::load::feed::{Deal, Feed, PayloadIndex};
    use crate::load::mix::Mix;
    use crate::load::pace::DEFAULT_SPIN;
    use crate::load::schedule::Arrivals;
    use crate::load::{ClosedLoop, LoadContext, LoadShape, OpenLoop, prepare};
    use crate::measure::level::Watcher;
    use crate::measure::summary::{ClientSummary, Headline, LevelLoad, sample};
    use crate::measure::window::WindowFacts;
    use crate::model::ModelId;
    use crate::plan::{Distribution, Wait};
    use crate::record::{Recorder, RecorderSpec};
    use crate::shm::Placement;

    struct Silent;

    impl Watcher for Silent {
        fn window(&self, _: usize, _: &ClientSummary) {}
        fn progress(&self, _: usize) {}
    }

    fn stage(backend: &Arc<NullBackend>, load: LevelLoad, length: StageLength) -> StageRun {
        let rate = if let LevelLoad::RequestRate(rate) = load { Some(rate) } else { None };
        let recorder =
            Arc::new(Recorder::new(RecorderSpec { open_loop: rate.is_some(), ..RecorderSpec::default() }, 1));
        let shape = match rate {
            Some(rate) => LoadShape::Open(OpenLoop {
                arrivals: Arrivals::at_rate(rate, Distribution::Constant).unwrap(),
                seed: 0,
                threads: 1,
                max_outstanding: 100,
                serial: false,
                until: None,
                spin: DEFAULT_SPIN,
            }),
            None => LoadShape::Closed(ClosedLoop { concurrency: 1, max_threads: 1, synchronous: false }),
        };
        let index = PayloadIndex { cycle: vec![PayloadId(0)], streams: Vec::new() };
        let context = LoadContext {
            backend: Arc::clone(backend) as Arc<dyn Backend>,
            client: ClientSpec {
                models: Arc::new([]),
                payloads: Arc::new([]),
                outputs: OutputPlan { placements: Placement::Pageable.into(), variable_bytes: 0 },
                slots: 0,
                load_slots: 0,
                options: Arc::new(RequestOptions::default()),
                max_reply_bytes: MAX_REPLY_BYTES,
                validate_replies: false,
                watch_responses: false,
                cancels: false,
                drain_limit: Duration::from_secs(1),
            },
            feed: Arc::new(Feed::independent(vec![index], Mix::single(), (1, Deal::InStep), 0).unwrap()),
            recorder: Arc::clone(&recorder),
            wait: Wait::Park,
            worker_cpus: None,
            quota: if let StageLength::Requests(requests) = length { Some(requests) } else { None },
            cancel_after: None,
            drain_limit: Duration::from_secs(1),
            observer: None,
        };
        let headline = if rate.is_some() { Headline::ResponseTime } else { Headline::ServiceTime };
        let facts = WindowFacts {
            batch_size: 1,
            headline,
            requested_rate: rate,
            shares: [].into(),
            issuers: 1,
            client_cost_ns: 0.0,
        };
        StageRun {
            level: LevelRun {
                load,
                recorder,
                facts,
                ramp: 0,
                finite: false,
                baseline: None,
                gap_variation: 0.0,
                sending: None,
            },
            length,
            prepared: prepare(context, shape).unwrap(),
        }
    }

    struct Script {
        backend: Arc<NullBackend>,
        stages: Vec<(LevelLoad, StageLength)>,
        told: RefCell<Vec<String>>,
    }

    impl Director for Script {
        fn prepare(&self, number: usize) -> Result<StageRun> {
            Ok(stage(&self.backend, self.stages[number].0, self.stages[number].1))
        }
        fn begun(&self, number: usize) {
            self.told.borrow_mut().push(format!("begun {number}"));
        }
        fn ended(&self, _: &LevelSummary) {
            self.told.borrow_mut().push("ended".to_owned());
        }
    }

    fn run(stages: &[(LevelLoad, StageLength)], interrupts: usize) -> Vec<MeasuredLevel> {
        let backend = Arc::new(NullBackend);
        let plan = sample::plan();
        let specs = [backend.model(&ModelId::latest("null")).unwrap()];
        let interrupts = AtomicUsize::new(interrupts);
        let measurement = Measurement {
            roots: &[],
            plan: &plan,
            backend: backend.as_ref(),
            specs: &specs,
            bls: &[],
            metrics: None,
            interrupts: &interrupts,
            watcher: &Silent,
            settle: &|| (),
        };
        let director = Script { backend: Arc::clone(&backend), stages: stages.to_vec(), told: RefCell::default() };
        let played = measure_stages(&measurement, stages.len(), &director).unwrap();
        let order = |number: usize| [format!("begun {number}"), "ended".to_owned()];
        assert_eq!(*director.told.borrow(), (0..played.len()).flat_map(order).collect::<Vec<_>>());
        played
    }

    const LONG: StageLength = StageLength::Time(Duration::from_millis(300));

    #[test]
    fn each_stage_has_its_row_and_the_next_begins_as_it_ends() {
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
