//! The levels of a run, one after the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::app::job::Job;
use crate::app::observe::Observers;
use crate::app::outcome::exit_code;
use crate::app::screen::Screen;
use crate::app::session::Session;
use crate::app::{periodic, remarks, stages, sweep};
use crate::clock::Stamp;
use crate::error::{Error, Result};
use crate::exit;
use crate::load::{LoadReport, RunningLoad, start};
use crate::measure::level::{LevelRun, MeasuredLevel, Measurement, measure};
use crate::measure::server::read_statistics;
use crate::measure::summary::{Ending, LevelSummary};
use crate::measure::window::WindowFacts;
use crate::plan::{LevelValue, LoadMode, MeasurementPlan, Plan, Range, Search, Verdict};
use crate::record::{Recorder, RecorderSpec};
use crate::report::console;

/// Outstanding requests of a rate are waited for this long where another level may follow, which would meet the queue that
/// they are in; as long as they keep coming.
const DRAIN_BETWEEN_LEVELS: Duration = Duration::from_secs(60);

/// An error in the middle of a run, and the levels that were measured before it.
pub struct Stopped {
    /// What happened.
    pub error: Error,
    /// Measured before.
    pub levels: Vec<LevelSummary>,
}

impl Stopped {
    fn at_once(error: Error) -> Self {
        Self { error, levels: Vec::new() }
    }
}

/// What every level of a run is measured with.
pub struct Runner<'a> {
    /// What is to be done.
    pub plan: &'a Plan,
    /// The server, the models, the data.
    pub session: &'a Session,
    /// Where results are printed.
    pub screen: &'a Screen,
    /// How often the user has interrupted.
    pub interrupts: &'a AtomicUsize,
    /// Who else sees requests.
    pub observers: Option<&'a Observers>,
}

impl Runner<'_> {
    /// Measures every level that the plan asks for, and prints each as it is done. With the levels comes the exit code. A
    /// periodic load has no levels.
    ///
    /// # Errors
    /// What keeps a level from being measured, with the levels before it.
    pub fn measure_levels(&self) -> Result<(Vec<LevelSummary>, u8), Stopped> {
        let mut levels = Vec::new();
        if let LoadMode::Periodic(periodic) = &self.plan.load.mode {
            return periodic::run(self, periodic).map(|code| (levels, code)).map_err(Stopped::at_once);
        }
        match self.walk(&mut levels) {
            Ok(()) => {
                // A sweep may have no level to show for it.
                let gone = self.session.backend.is_gone();
                let code = if gone { exit::NO_VALID_REQUESTS } else { exit_code(&self.plan.load.mode, &levels) };
                Ok((levels, code))
            }
            Err(error) => Err(Stopped { error, levels }),
        }
    }

    fn walk(&self, levels: &mut Vec<LevelSummary>) -> Result<()> {
        let (plan, session) = (self.plan, self.session);
        match &plan.load.mode {
            LoadMode::Concurrency(range) => {
                let limit = plan.load.most_concurrency();
                let bounded = Range { end: range.end.or(Some(limit)), ..*range };
                self.search(bounded, levels, |concurrency| Ok(Job::closed(plan, session, concurrency)))?;
                if range.end.is_none() && !self.is_interrupted() && levels.last().is_some_and(passes) {
                    eprintln!("triton-bench: {}", end_of_growth(plan, *range, limit));
                }
                Ok(())
            }
            LoadMode::RequestRate { range, distribution } => {
                self.search(*range, levels, |rate| Job::rate(plan, session, rate, *distribution))
            }
            LoadMode::Intervals(_) | LoadMode::TraceReplay { .. } | LoadMode::FixedSchedule => {
                self.level(&Job::schedule(plan, session, session.schedule()), levels)
            }
            LoadMode::Stages { stages, distribution } => stages::run(self, stages, *distribution, levels),
            LoadMode::Sweep { spacing, points, distribution } => {
                sweep::run(self, (*spacing, *points), *distribution, levels)
            }
            LoadMode::Periodic(_) => Ok(()),
        }
    }

    fn search<T: LevelValue>(
        &self,
        range: Range<T>,
        levels: &mut Vec<LevelSummary>,
        job: impl Fn(T) -> Result<Job>,
    ) -> Result<()> {
        let mut search = Search::new(range, self.plan.measurement.binary_search);
        let mut last = None;
        while let Some(value) = search.next(last) {
            self.level(&job(value)?, levels)?;
            last = levels.last().map(|level| if passes(level) { Verdict::Pass } else { Verdict::Fail });
            if self.is_interrupted() || self.session.backend.is_gone() {
                break;
            }
        }
        Ok(())
    }

    /// Whether the user has asked for the end.
    pub fn is_interrupted(&self) -> bool {
        self.interrupts.load(Ordering::Relaxed) > 0
    }

    /// Measures a level as the plan says, adds it to `levels`, and prints it.
    ///
    /// # Errors
    /// Where it cannot be started, nothing of it could be measured, or it cannot be printed.
    pub fn level(&self, job: &Job, levels: &mut Vec<LevelSummary>) -> Result<()> {
        if let Some(header) = console::header(job.load) {
            self.screen.print(&header)?;
        }
        let summary = self.measure(job, &self.plan.measurement, self.observers)?;
        let results = console::results(self.plan, &self.session.run, &summary);
        let remark = remarks::remark(&self.plan.measurement, &summary);
        // What was measured is kept even where it cannot be printed.
        levels.push(summary);
        self.screen.print(&results)?;
        if let Some(remark) = remark {
            eprintln!("{remark}");
        }
        Ok(())
    }

    /// Prints levels that were measured quietly.
    ///
    /// # Errors
    /// Where standard output is closed or full.
    pub fn show(&self, levels: &[LevelSummary]) -> Result<()> {
        levels.iter().try_for_each(|level| {
            let header = console::header(level.load).unwrap_or_default();
            self.screen.print(&(header + &console::results(self.plan, &self.session.run, level)))
        })
    }

    /// Measures a level by another measurement plan than the run's, without printing and without an experiment of its own in
    /// the export.
    ///
    /// # Errors
    /// Where it cannot be started, or nothing of it could be measured.
    pub fn measure_quietly(&self, job: &Job, plan: &MeasurementPlan) -> Result<LevelSummary> {
        self.measure(job, plan, None)
    }

    /// Measures a level, as an experiment of `exporting`.
    fn measure(&self, job: &Job, plan: &MeasurementPlan, exporting: Option<&Observers>) -> Result<LevelSummary> {
        let mut run = self.level_run(job);
        // Windows that are measured until they agree leave out the time of the warm-up themselves.
        if plan.warmup_requests > 0 || job.finite {
            self.warm_up(job, plan)?;
        }
        if let Some(observers) = exporting {
            observers.begin(job.load);
        }
        if run.finite {
            run.baseline = read_statistics(self.session.backend.as_ref(), &self.session.all_models)?;
        }
        let running = self.start(&run.recorder, job, job.quota)?;
        let measured = self.with_measurement(job, plan, |measurement| measure(measurement, &run, running))?;
        if let Some(observers) = exporting {
            observers.end(measured.boundaries.clone(), &measured.summary, &self.session.run);
        }
        Ok(self.account(measured))
    }

    /// Says what became of a level's requests, where that needs saying.
    pub fn account(&self, measured: MeasuredLevel) -> LevelSummary {
        if let Some(trouble) = measured.trouble {
            eprintln!("triton-bench: the level ended early: {trouble}");
        }
        report_lost(&measured.requests);
        measured.summary
    }

    /// What `job` is recorded and summarised with.
    pub fn level_run(&self, job: &Job) -> LevelRun {
        let open_loop = job.is_open();
        let spec = RecorderSpec {
            open_loop,
            decoupled: self.session.run.decoupled,
            entries: self.session.models.len(),
            cancels: self.plan.data.cancel_after.is_some(),
        };
        LevelRun {
            load: job.load,
            recorder: Arc::new(Recorder::new(spec, job.lanes)),
            facts: WindowFacts {
                batch_size: self.plan.data.batch_size,
                headline: self.session.run.headline,
                requested_rate: job.requested_rate(),
                shares: self.session.run.entries.iter().map(|entry| entry.share).collect(),
                issuers: job.issuers,
                client_cost_ns: self.session.run.client_cost_ns,
            },
            ramp: if open_loop { 1 } else { job.lanes as u64 },
            finite: job.finite,
            baseline: None,
            gap_variation: job.gap_variation,
            sending: job.sending(),
        }
    }

    /// Calls `act` with everything that a measurement needs.
    pub fn with_measurement<T>(&self, job: &Job, plan: &MeasurementPlan, act: impl FnOnce(&Measurement<'_>) -> T) -> T {
        let watcher = self.screen.level(self.plan, job.load);
        let settle = || self.observers.into_iter().for_each(Observers::settle);
        act(&Measurement {
            plan,
            backend: self.session.backend.as_ref(),
            roots: &self.session.roots,
            specs: &self.session.all_models,
            bls: &self.plan.target.bls_composing,
            interrupts: self.interrupts,
            metrics: self.session.metrics.as_ref(),
            watcher: &watcher,
            settle: &settle,
        })
    }

    /// Starts the load of `job`.
    ///
    /// # Errors
    /// Where a client cannot be opened.
    pub fn start(&self, recorder: &Arc<Recorder>, job: &Job, quota: Option<u64>) -> Result<RunningLoad> {
        let observer = self.observers.map(|observers| observers.of_level(recorder));
        let context = self.session.context(self.plan, job, recorder, observer)?;
        let mut running = start(crate::load::LoadContext { quota, ..context }, job.shape.clone())?;
        if self.plan.load.mode.has_levels() {
            running.allow_drain(DRAIN_BETWEEN_LEVELS);
        }
        Ok(running)
    }

    /// Warms up with the load of `job` as far as the measurement itself does not, and forgets what came of it.
    ///
    /// # Errors
    /// Where the load cannot be started or breaks.
    pub fn warm_up(&self, job: &Job, plan: &MeasurementPlan) -> Result<()> {
        let job = job.warm_up.as_deref().unwrap_or(job);
        let quota = (plan.warmup_requests > 0).then_some(plan.warmup_requests);
        if quota.is_none() && plan.warmup.is_zero() {
            return Ok(());
        }
        let running = self.start(&self.level_run(job).recorder, job, quota)?;
        let end = if quota.is_some() { Stamp::NEVER } else { Stamp::now().plus_duration(plan.warmup) };
        while !running.is_finished() && !self.is_interrupted() && Stamp::now() < end {
            thread::sleep(Duration::from_millis(1));
        }
        running.stop().map(drop)
    }
}

/// What is said where a range without an end met the limit of its growth before the latency threshold.
fn end_of_growth(plan: &Plan, range: Range<u32>, limit: u32) -> String {
    let reason = if plan.load.synchronous {
        format!("synchronous requests have a thread each, and --max-threads allows {limit}; raise it, or use --async")
    } else {
        format!("no more than {limit} requests may be outstanding")
    };
    let Range { start, step, .. } = range;
    format!("--concurrency-range {start}:0:{step} ended before the latency threshold was met: {reason}")
}

/// Whether a search may go on above this level.
fn passes(level: &LevelSummary) -> bool {
    matches!(level.ending, Ending::Stable | Ending::Complete)
}

fn report_lost(requests: &LoadReport) {
    if requests.outstanding > 0 {
        eprintln!("triton-bench: {} requests had no answer when the level ended", requests.outstanding);
    }
    if requests.held_back > 0 {
        eprintln!(
            "triton-bench: {} requests found no free slot when they were due; raise --max-outstanding, or with \
             --serial-sequences --num-of-sequences",
            requests.held_back
        );
    }
    if !requests.adds_up() {
        eprintln!("triton-bench: requests do not add up, please report this fault: {requests:?}");
    }
}
