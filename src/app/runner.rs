//! [`Runner`]: measures one level, or warms up for it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use log::debug;

use crate::app::context::RunContext;
use crate::app::job::Job;
use crate::app::resume::EarlierRun;
use crate::app::session::Session;
use crate::app::{peers, questions, report as pages, restarts, tensors};
use crate::backend::Threading;
use crate::clock::Stamp;
use crate::error::Result;
use crate::exit::Codes;
use crate::interrupt;
use crate::load::{LoadContext, PreparedLoad, RunningLoad, prepare};
use crate::machine::host_monitor::HostMonitor;
use crate::measure::breaker::Breaker;
use crate::measure::gate::Questions;
use crate::measure::level::measure;
use crate::measure::level_run::{LevelRun, MeasuredLevel};
use crate::measure::measurement::Measurement;
use crate::measure::server::{Models, read_statistics};
use crate::measure::waterfall::Tracing;
use crate::measure::window_summary::WindowFacts;
use crate::observe::Observers;
use crate::plan::{Plan, Wait};
use crate::ranks::Ranks;
use crate::record::LoadReport;
use crate::record::{Limits, Recorder, RecorderSpec};
use crate::report::{self, console, remarks};
use crate::result::RunResult;
use crate::result::summary::{Ending, LevelSummary};
use crate::stdio::{self, note};
use crate::terms::{Goodput, LatencyEnd, MeasurementPlan, StopRule};

/// How long to wait for outstanding requests of a rate if another level may follow, which would inherit their queue;
/// only while they keep returning.
const DRAIN_BETWEEN_LEVELS: Duration = Duration::from_secs(60);

/// Everything needed to measure the levels of a run.
pub struct Runner<'a> {
    /// What it shares with other parts of the run.
    pub context: RunContext<'a>,
    /// The plan, the server, the models, the data.
    pub session: &'a Session,
    /// What an earlier run has finished.
    pub earlier: &'a EarlierRun,
    /// What requirements are compared with.
    pub baseline: Option<&'a RunResult>,
    /// Observers of requests, if any.
    pub observers: Option<&'a Observers>,
}

impl<'a> Runner<'a> {
    /// The plan.
    pub fn plan(&self) -> &'a Plan {
        &self.session.plan
    }

    /// Whether the user has interrupted.
    pub fn is_interrupted(&self) -> bool {
        self.context.interrupts.load(Ordering::Relaxed) > 0
    }

    /// Whether no further level can be measured: the user has interrupted, or the server is gone.
    pub fn must_stop(&self) -> bool {
        self.is_interrupted() || self.session.backend.is_gone() || self.is_deserted()
    }

    /// Whether the other processes of the run no longer measure with this one: the launcher ends all, or one is lost.
    pub fn is_deserted(&self) -> bool {
        self.context.ranks.is_some_and(|ranks| interrupt::is_terminated() || ranks.over().is_some())
    }

    /// Measures a level as the plan says, adds it to `result`, and prints it. Returns whether it was measured now,
    /// rather than by an earlier run (`--resume`).
    ///
    /// # Errors
    /// If it cannot be started, nothing of it could be measured, or it cannot be printed.
    pub fn level(&self, job: &Job, result: &mut RunResult) -> Result<bool> {
        self.context.screen.next();
        let batch_size = self.plan().data.batch_size;
        if let Some(level) = self.earlier.level(job.load, batch_size) {
            note!("{}: measured before (--resume)", report::level_name(job.load));
            result.levels.push(level.clone());
            return Ok(false);
        }
        debug!("measuring {:?}", job.load);
        self.show_measured(job, &self.plan().measurement, |level| {
            result.levels.push(self.earlier.better(level));
            self.save(result);
        })?;
        Ok(true)
    }

    /// Updates the files that are kept current during the run. Levels of an earlier run that this one has not reached
    /// yet stay there.
    pub fn save(&self, result: &RunResult) {
        if self.saves() {
            self.save_summary(result);
            pages::save(self.plan(), self.context.interrupts, &self.earlier.with(result));
        }
    }

    /// Updates the summary alone.
    pub fn save_summary(&self, result: &RunResult) {
        let path = self.plan().output.summary.as_deref();
        report::summary::save(path, self.context.interrupts, &self.earlier.with(result));
    }

    /// Whether there is a file for the result so far.
    pub fn saves(&self) -> bool {
        let output = &self.plan().output;
        output.summary.is_some() || output.csv.is_some() || output.pages.html.is_some()
    }

    /// Measures `level` again by a measurement plan, and prints it; the new result counts.
    ///
    /// # Errors
    /// As [`Runner::level`].
    pub fn again(&self, job: &Job, measurement: &MeasurementPlan, level: &mut LevelSummary) -> Result<()> {
        self.context.screen.again();
        self.show_measured(job, measurement, |repeated| {
            // A repetition that the user broke off, or without an answer, says less than the first measurement.
            if repeated.ending != Ending::Interrupted && repeated.client.requests > 0 {
                *level = repeated;
            }
        })
    }

    /// Measures a level by a measurement plan, passes it to `keep`, and prints it.
    ///
    /// # Errors
    /// As [`Runner::level`].
    pub fn show_measured(
        &self,
        job: &Job,
        measurement: &MeasurementPlan,
        keep: impl FnOnce(LevelSummary),
    ) -> Result<()> {
        if let Some(header) = console::header(job.load) {
            self.context.screen.print(&header)?;
        }
        let level = self.measure(job, measurement, self.observers, true)?;
        if let Some(agreement) = self.context.ranks.and_then(|ranks| peers::agreement(ranks, self.plan(), &level)) {
            self.context.screen.print(agreement)?;
        }
        let results = console::results(&self.session.setup, &level);
        let failure = || remarks::failure(&level).filter(|_| self.context.codes == Codes::PerfAnalyzers);
        let remark = remarks::remark(measurement, &level).or_else(failure);
        // What was measured is kept even if it cannot be printed.
        keep(level.clone());
        self.context.screen.print(&(results + &self.losses()))?;
        self.context.screen.finished(&level);
        if let Some(remark) = remark {
            stdio::say(format_args!("{remark}\n"));
        }
        Ok(())
    }

    /// Prints levels that were measured quietly.
    ///
    /// # Errors
    /// If standard output is closed or full.
    pub fn show(&self, levels: &[LevelSummary]) -> Result<()> {
        levels.iter().try_for_each(|level| {
            let header = console::header(level.load).unwrap_or_default();
            self.context.screen.print(&(header + &console::results(&self.session.setup, level)))
        })?;
        self.context.screen.print(&self.losses())
    }

    /// What observers missed of the ended levels, for the report.
    pub fn losses(&self) -> String {
        let remarks = self.observers.map(Observers::take_remarks).filter(|remarks| !remarks.is_empty());
        remarks.map_or_else(String::new, |remarks| remarks + "\n")
    }

    /// Measures a level by another measurement plan than the run's, without printing it and without a separate
    /// experiment in the export.
    ///
    /// # Errors
    /// It cannot be started, or nothing of it could be measured.
    pub fn measure_quietly(&self, job: &Job, plan: &MeasurementPlan) -> Result<LevelSummary> {
        self.measure(job, plan, None, false)
    }

    /// Measures a level, as an experiment of `exporting`, and at further starts if the plan asks for them and `repeats`
    /// is set.
    fn measure(
        &self,
        job: &Job,
        plan: &MeasurementPlan,
        exporting: Option<&Observers>,
        repeats: bool,
    ) -> Result<LevelSummary> {
        let mut run = self.level_run(job);
        if repeats && self.context.ranks.is_none() {
            run.questions = questions::open_questions(self.plan(), plan, job, self.baseline);
        }
        if let Some(log) = &self.session.trace_log {
            log.begin_level(self.plan().tracing.has_files());
        }
        let began = Stamp::now();
        // Windows that are measured until they agree skip the warm-up time themselves.
        if plan.warmup_requests > 0 || job.finite {
            self.warm_up(job, plan)?;
        }
        if let Some(observers) = exporting {
            observers.begin(job.load);
        }
        let measured = self.measure_load(job, plan, run);
        if let Some(observers) = exporting.filter(|_| measured.is_err() && self.is_interrupted()) {
            observers.discard();
        }
        let mut measured = measured?;
        measured.summary.timeline.began = began;
        if repeats {
            let again = |is_first| self.measure_restarted(job, plan, is_first);
            restarts::repeat(plan, &mut measured.summary, |is_of_use| self.all_repeat(is_of_use), again);
        }
        if let Some(observers) = exporting {
            observers.end(measured.boundaries.clone(), &measured.summary, &self.session.setup);
        }
        Ok(self.account(measured))
    }

    /// Starts the load of a level and measures it.
    fn measure_load(&self, job: &Job, plan: &MeasurementPlan, mut run: LevelRun) -> Result<MeasuredLevel> {
        if run.finite {
            let counters = read_statistics(self.session.backend.as_ref(), &self.session.all_models)?;
            run.baseline = counters.map(|counters| (Stamp::now(), counters));
        }
        let running = self.begin(&run.recorder, job)?;
        self.with_measurement(job, plan, |measurement| measure(measurement, &run, running))
    }

    /// Reports problems with a level's requests, if there were any.
    pub fn account(&self, measured: MeasuredLevel) -> LevelSummary {
        if let Some(trouble) = measured.trouble {
            note!("the level ended early: {trouble}");
        }
        report_lost(&measured.requests);
        measured.summary
    }

    /// The settings for recording and summarising `job`.
    pub fn level_run(&self, job: &Job) -> LevelRun {
        let open_loop = job.is_open();
        let spec = RecorderSpec {
            open_loop,
            early: open_loop,
            decoupled: self.session.setup.decoupled,
            generates: self.session.backend.generates(),
            sessions: self.session.plays_whole_sessions(),
            sequences: self.session.setup.sequences,
            pace: self.plan().load.mode.pace(),
            limits: limits(&self.plan().measurement.goodput),
            entries: self.session.models.len(),
            servers: self.session.setup.servers.len(),
            keeps: self.context.screen.is_watched(),
            cancels: self.plan().data.cancel_after.is_some(),
            streaks: self.plan().measurement.stop_on.iter().any(|rule| matches!(rule, StopRule::InARow { .. })),
            wakeups: self.wakes_up(job),
            until_wakeup: job.is_synchronous() && self.plan().measurement.latency_to == LatencyEnd::Wakeup,
        };
        LevelRun {
            load: job.load,
            recorder: self.context.screen.watched(job.load, Recorder::new(spec, job.request_streams.count)),
            facts: WindowFacts {
                batch_size: self.plan().data.batch_size,
                tensors: tensors::tensor_bytes(self.session),
                headline: self.session.setup.headline,
                requested_rate: job.requested_rate().map(|rate| rate / job.request_streams.part.size as f64),
                shares: self.session.setup.entries.iter().map(|entry| entry.share).collect(),
                models: self.session.models.iter().map(|model| model.id.clone()).collect(),
                issuers: job.issuers,
                client_cost_ns: self.session.setup.client_cost_ns,
                wakeups_apart: spec.wakeups && !spec.until_wakeup && self.plan().load.wait != Wait::Spin,
            },
            ramp: if open_loop { 1 } else { job.request_streams.count as u64 },
            finite: job.finite,
            requests: job.requests(),
            baseline: None,
            gap_variation: job.gap_variation,
            sending: job.sending(),
            tracing: Tracing {
                log: self.session.trace_log.clone(),
                breakdown: self.plan().tracing.breakdown,
                cost: self.plan().tracing.breakdown && self.plan().target.service.is_embedded(),
            },
            questions: Questions::default(),
        }
    }

    /// Whether the threads of `job` wait while others bring their responses.
    fn wakes_up(&self, job: &Job) -> bool {
        job.is_synchronous() && self.session.backend.capabilities().threading == Threading::Own
    }

    /// Calls `act` with everything that a measurement needs.
    pub fn with_measurement<T>(&self, job: &Job, plan: &MeasurementPlan, act: impl FnOnce(&Measurement<'_>) -> T) -> T {
        let watcher = self.context.screen.level(self.session, job);
        let settle = || self.observers.into_iter().for_each(Observers::settle);
        act(&Measurement {
            plan,
            backend: self.session.backend.as_ref(),
            models: Models {
                roots: &self.session.roots,
                specs: &self.session.all_models,
                bls: &self.plan().target.bls_composing,
            },
            interrupts: self.context.interrupts,
            metrics: self.session.metrics.as_ref(),
            host_monitor: self.session.host_monitor.as_ref().map(|machine| machine as &dyn HostMonitor),
            breaker: Breaker::new(&plan.stop_on).shared(self.context.ranks.is_some_and(Ranks::is_joint)),
            watcher: &watcher,
            settle: &settle,
            ranks: self.context.ranks,
        })
    }

    /// Starts the load of `job` alone.
    ///
    /// # Errors
    /// If a client cannot be opened.
    pub fn start(&self, recorder: &Arc<Recorder>, job: &Job, quota: Option<u64>) -> Result<RunningLoad> {
        self.prepare(recorder, job, quota).map(|prepared| self.let_go(prepared.go()))
    }

    /// Starts the load of `job`, at the same time as the other processes, if any.
    ///
    /// # Errors
    /// As [`Runner::start`]; or one of the others cannot continue.
    pub fn begin(&self, recorder: &Arc<Recorder>, job: &Job) -> Result<RunningLoad> {
        let prepared = self.prepare(recorder, job, job.quota)?;
        let running = match self.context.ranks {
            Some(ranks) => prepared.go_at(peers::agree_on_start(ranks, self.plan(), job, self.context.interrupts)?),
            None => prepared.go(),
        };
        Ok(self.let_go(running))
    }

    fn prepare(&self, recorder: &Arc<Recorder>, job: &Job, quota: Option<u64>) -> Result<PreparedLoad> {
        let observer = self.observers.map(|observers| observers.of_level(recorder));
        let context = self.session.context(job.request_streams, recorder, observer)?;
        let quota = quota.map(|quota| job.local_requests(quota));
        prepare(LoadContext { quota, ..context }, job.shape.clone())
    }

    fn let_go(&self, mut running: RunningLoad) -> RunningLoad {
        if self.plan().load.mode.has_levels() {
            running.allow_drain(DRAIN_BETWEEN_LEVELS);
        }
        running
    }
}

fn report_lost(requests: &LoadReport) {
    if requests.outstanding > 0 {
        note!("{} requests had no answer when the level ended", requests.outstanding);
    }
    if requests.held_back > 0 {
        note!(
            "{} requests found no free slot when they were due; raise --max-outstanding, or with \
             --serial-sequences --num-of-sequences",
            requests.held_back
        );
    }
    if !requests.adds_up() {
        note!("requests do not add up, please report this bug: {requests:?}");
    }
}

/// The limits of good requests, in the form for recording.
fn limits(goodput: &Goodput) -> Limits {
    let ns = |limit: Option<Duration>| limit.map(|limit| u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX));
    let Goodput { latency, first_token, inter_token, normalized } = *goodput;
    Limits {
        latency: ns(latency),
        first_token: ns(first_token),
        inter_token: ns(inter_token),
        normalized: ns(normalized),
    }
}
