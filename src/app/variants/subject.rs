//! One variant of a run: how it is opened, measured and left.

use std::sync::Arc;
use std::time::Duration;

use crate::app::ending;
use crate::app::job::Job;
use crate::app::resume::EarlierRun;
use crate::app::runner::Runner;
use crate::app::screen::Screen;
use crate::app::session::Session;
use crate::backends::{self, Connect, Connected};
use crate::error::{Error, Result};
use crate::exit::{self, Codes};
use crate::measure::rounds::{Measured, Unit};
use crate::measure::summary::LevelLoad;
use crate::observe::Observers;
use crate::plan::{GapDistribution, LevelValue, LoadMode, MeasurementPlan, OnDisturbance, Plan, Range, WindowRule};
use crate::report::Interrupts;
use crate::result::Setup;

/// A turn begins with a lead-in of this fraction of its window, which does not count.
const SETTLE: u32 = 5;
/// The same if the model was loaded for it.
const SETTLE_LOADED: u32 = 2;
/// Default limit on the lead-in.
const MAX_SETTLE: Duration = Duration::from_secs(2);
/// The lead-in if windows are counted in requests.
const SETTLE_COUNTED: Duration = Duration::from_millis(300);
/// A window without a request is repeated with a longer one, up to this length.
const LONGEST_AGAIN: Duration = Duration::from_secs(2);
/// How long a server in this process may take to stop in the middle of a run.
const STOP_LIMIT: Duration = Duration::from_secs(60);

/// What all turns share.
#[derive(Clone, Copy)]
pub struct Course<'a> {
    /// Where progress is shown.
    pub screen: &'a Screen,
    /// How often the user has interrupted.
    pub interrupts: Interrupts,
    /// Which program's conventions apply.
    pub codes: Codes,
    /// How servers are reached.
    pub connect: Connect,
}

/// One variant of a run.
pub struct Subject {
    /// Its name in reports.
    pub name: String,
    /// What it does.
    pub plan: Plan,
    /// Its session; `None` if it is opened for each turn. Or why it is not available.
    pub open: Result<Option<Open>>,
    /// What was learnt when it was first opened.
    pub seen: Option<Seen>,
}

/// What is learnt about a subject once it is open.
#[derive(Clone)]
pub struct Seen {
    /// What is measured, and how.
    pub setup: Arc<Setup>,
    /// Bytes of the input tensors of an inference.
    pub input_bytes: Option<f64>,
    /// The loads of its levels.
    pub loads: Vec<LevelLoad>,
    /// Notes on its flags, now that its models are known.
    pub notes: Vec<String>,
}

/// A subject that is ready to be measured. Its fields are dropped in order: the session before what it needs.
pub struct Open {
    session: Session,
    /// Validates its outputs, if the data give expected ones.
    observers: Option<Observers>,
}

impl Subject {
    /// A subject that stays open over all rounds.
    pub fn kept(name: String, plan: Plan, server: Result<Connected>) -> Self {
        let open = server.and_then(|server| Open::new(server, plan.clone()));
        let seen = open.as_ref().ok().map(|open| open.seen(&plan));
        let (open, seen) = match seen.transpose() {
            Ok(seen) => (open.map(Some), seen),
            Err(error) => (Err(error), None),
        };
        Self { name, plan, open, seen }
    }

    /// A subject whose server or settings are made for each turn. It is opened once now, so that errors are reported
    /// before anything is measured.
    pub fn per_turn(name: String, plan: Plan, connect: Connect) -> Self {
        let poll = || {
            let open = Open::new(connect(&plan)?, plan.clone())?;
            let seen = open.seen(&plan);
            open.close()?;
            leave(&plan)?;
            seen
        };
        let seen = poll();
        let (open, seen) = match seen {
            Ok(seen) => (Ok(None), Some(seen)),
            Err(error) => (Err(error), None),
        };
        Self { name, plan, open, seen }
    }

    /// A subject that is not available.
    pub fn unusable(name: String, plan: Plan, error: Error) -> Self {
        Self { name, plan, open: Err(error), seen: None }
    }

    /// Measures a level, by its number, for one window.
    pub fn measure(&self, level: usize, course: Course<'_>) -> Measured {
        let unit = match &self.open {
            Ok(Some(open)) => open.measure(level, &self.measurement(), course),
            Ok(None) => self.measure_reopened(level, course),
            Err(error) => Err(error.clone()),
        };
        match unit {
            Ok(Some(unit)) => Measured::Unit(unit),
            Ok(None) => Measured::Interrupted,
            Err(_) if is_interrupted(course) => Measured::Interrupted,
            Err(error) => Measured::Unit(Unit::failed(error.to_string())),
        }
    }

    fn measure_reopened(&self, level: usize, course: Course<'_>) -> Result<Option<Unit>> {
        let open = Open::new((course.connect)(&self.plan)?, self.plan.clone())?;
        let unit = open.measure(level, &self.measurement(), course);
        let closed = open.close().and_then(|()| leave(&self.plan));
        let unit = unit?;
        closed.map(|()| unit)
    }

    /// One window, after a lead-in that does not count.
    fn measurement(&self) -> MeasurementPlan {
        let plan = &self.plan.measurement;
        let asked = plan.warmup_requests > 0 || !plan.warmup.is_zero();
        let counted_out = matches!(
            self.plan.load.mode,
            LoadMode::FixedSchedule | LoadMode::TraceReplay { .. } | LoadMode::Sessions(_)
        );
        let share = if matches!(self.open, Ok(None)) { SETTLE_LOADED } else { SETTLE };
        let usual = match plan.window {
            WindowRule::Time(length) => (length / share).min(MAX_SETTLE),
            WindowRule::Count(_) => SETTLE_COUNTED,
        };
        MeasurementPlan {
            max_trials: 1,
            precision: None,
            level_time: None,
            latency_threshold: None,
            restarts: 1,
            warmup: if asked || counted_out { plan.warmup } else { usual },
            // Rounds are replaced as a whole.
            on_disturbance: plan.on_disturbance.map(|on| match on {
                OnDisturbance::Replace => OnDisturbance::Mark,
                other => other,
            }),
            ..plan.clone()
        }
    }

    /// Leaves its server.
    ///
    /// # Errors
    /// If observers could not finish.
    pub fn close(self) -> Result<()> {
        self.open.ok().flatten().map_or(Ok(()), Open::close)
    }
}

fn is_interrupted(course: Course<'_>) -> bool {
    course.interrupts.load(std::sync::atomic::Ordering::Relaxed) > 0
}

/// Stops the server in this process that was started for this plan alone.
fn leave(plan: &Plan) -> Result<()> {
    if plan.target.service.is_embedded() { halt() } else { Ok(()) }
}

/// Stops the servers in this process; if that takes too long, leaves the program.
///
/// # Errors
/// If one could not be stopped.
pub fn halt() -> Result<()> {
    ending::bound(STOP_LIMIT, exit::FAILED, "it was to be restarted");
    let halted = backends::halt_servers(&|_| ());
    ending::unbound();
    halted
}

impl Open {
    fn new(server: Connected, plan: Plan) -> Result<Self> {
        let session = Session::through(server, plan)?;
        Ok(Self { observers: session.observers()?, session })
    }

    fn seen(&self, plan: &Plan) -> Result<Seen> {
        let loads = (0..levels(&plan.load.mode)).map(|level| Ok(job(&self.session, level)?.load));
        Ok(Seen {
            setup: Arc::clone(&self.session.setup),
            input_bytes: self.session.input_bytes(),
            loads: loads.collect::<Result<_>>()?,
            notes: plan.notes_on(&self.session.models).map(ToString::to_string).collect(),
        })
    }

    /// One turn. If others use the processors, a short window may pass without a request: then a longer one is
    /// measured.
    fn measure(&self, level: usize, plan: &MeasurementPlan, course: Course<'_>) -> Result<Option<Unit>> {
        let mut plan = plan.clone();
        loop {
            let unit = self.measure_once(level, &plan, course)?;
            let is_empty = unit.as_ref().is_some_and(|unit| unit.requests + unit.failed == 0);
            match longer(plan.window).filter(|_| is_empty) {
                Some(window) => plan.window = window,
                None => return Ok(unit),
            }
        }
    }

    fn measure_once(&self, level: usize, plan: &MeasurementPlan, course: Course<'_>) -> Result<Option<Unit>> {
        let Course { screen, interrupts, codes, .. } = course;
        let runner = Runner {
            earlier: &EarlierRun::default(),
            baseline: None,
            session: &self.session,
            screen,
            interrupts,
            codes,
            observers: self.observers.as_ref(),
            ranks: None,
        };
        let summary = runner.measure_quietly(&job(&self.session, level)?, plan)?;
        Ok(Unit::of(&summary, &plan.asked_percentiles().collect::<Vec<_>>()).filter(|_| !runner.is_interrupted()))
    }

    fn close(self) -> Result<()> {
        self.session.close();
        self.observers.map_or(Ok(()), Observers::finish)
    }
}

/// A window four times as long, while that is still short.
fn longer(window: WindowRule) -> Option<WindowRule> {
    match window {
        WindowRule::Time(length) => Some(length * 4).filter(|length| *length <= LONGEST_AGAIN).map(WindowRule::Time),
        WindowRule::Count(_) => None,
    }
}

/// Number of levels of a load.
pub fn levels(mode: &LoadMode) -> usize {
    match mode {
        LoadMode::Concurrency(range) => range.count(),
        LoadMode::RequestRate { range, .. } => range.count(),
        _ => 1,
    }
}

fn nth<T: LevelValue>(range: &Range<T>, index: u32) -> Option<T> {
    if !range.listed.is_empty() {
        return range.listed.get(index as usize).copied();
    }
    let end = range.end?;
    if index > 0 && range.start >= end {
        return None;
    }
    T::nth(range.start, range.step, index)?.within(end)
}

/// The load of the level with that number.
fn job(session: &Session, level: usize) -> Result<Job> {
    let none = || Error::usage("there is no such level");
    let level = u32::try_from(level).map_err(|_| none())?;
    let rate = |rate, distribution: GapDistribution| Job::rate(session, rate, distribution);
    match &session.plan.load.mode {
        LoadMode::Concurrency(range) => nth(range, level).map(|value| Job::closed(session, value)).ok_or_else(none),
        LoadMode::RequestRate { range, distribution } => {
            nth(range, level).ok_or_else(none).and_then(|value| rate(value, *distribution))
        }
        LoadMode::Sessions(concurrency) => Ok(Job::sessions(session, *concurrency)),
        LoadMode::Intervals(_) | LoadMode::TraceReplay { .. } | LoadMode::FixedSchedule => {
            Ok(Job::schedule(session, session.schedule()))
        }
        LoadMode::Stages { .. } | LoadMode::Sweep { .. } | LoadMode::Periodic(_) => Err(none()),
    }
}
