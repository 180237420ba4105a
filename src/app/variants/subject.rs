//! One variant of a run: how it is opened, measured and left.

use std::sync::Arc;
use std::time::Duration;

use crate::app::context::RunContext;
use crate::app::job::Job;
use crate::app::resume::EarlierRun;
use crate::app::runner::Runner;
use crate::app::session::Session;
use crate::app::{ending, levels};
use crate::backends::{self, Connect, Connected};
use crate::error::{Error, Result};
use crate::exit;
use crate::measure::rounds::{Measured, Unit};
use crate::measure::summary::LevelLoad;
use crate::observe::Observers;
use crate::plan::{MeasurementPlan, OnDisturbance, Plan, WindowRule};
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

    /// Measures a level, by its number, for one window, `times` as long as planned.
    pub fn measure(&self, level: usize, times: u32, context: RunContext<'_>) -> Measured {
        let measurement = self.measurement(times);
        let unit = match &self.open {
            Ok(Some(open)) => open.measure(level, &measurement, context),
            Ok(None) => self.measure_reopened(level, &measurement, context),
            Err(error) => Err(error.clone()),
        };
        match unit {
            Ok(Some(unit)) => Measured::Unit(unit),
            Ok(None) => Measured::Interrupted,
            Err(_) if is_interrupted(context) => Measured::Interrupted,
            Err(error) => Measured::Unit(Unit::failed(error.to_string())),
        }
    }

    fn measure_reopened(&self, level: usize, plan: &MeasurementPlan, context: RunContext<'_>) -> Result<Option<Unit>> {
        let open = Open::new((context.connect)(&self.plan)?, self.plan.clone())?;
        let unit = open.measure(level, plan, context);
        let closed = open.close().and_then(|()| leave(&self.plan));
        let unit = unit?;
        closed.map(|()| unit)
    }

    /// One window, `times` as long as planned, after a lead-in that does not count.
    fn measurement(&self, times: u32) -> MeasurementPlan {
        let plan = &self.plan.measurement;
        let window = match plan.window {
            WindowRule::Time(length) => WindowRule::Time(length * times),
            WindowRule::Count(count) => WindowRule::Count(count.saturating_mul(u64::from(times))),
        };
        let asked = plan.warmup_requests > 0 || !plan.warmup.is_zero();
        let counted_out = self.plan.load.mode.is_recorded() || self.plan.load.mode.sessions().is_some();
        let share = if matches!(self.open, Ok(None)) { SETTLE_LOADED } else { SETTLE };
        let usual = match window {
            WindowRule::Time(length) => (length / share).min(MAX_SETTLE),
            WindowRule::Count(_) => SETTLE_COUNTED,
        };
        MeasurementPlan {
            window,
            warmup: if asked || counted_out { plan.warmup } else { usual },
            // Rounds are replaced as a whole.
            on_disturbance: plan.on_disturbance.map(|on| match on {
                OnDisturbance::Replace => OnDisturbance::Mark,
                other => other,
            }),
            ..plan.clone().once()
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

/// Whether the user has interrupted.
pub fn is_interrupted(context: RunContext<'_>) -> bool {
    context.interrupts.load(std::sync::atomic::Ordering::Relaxed) > 0
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
    ending::within(STOP_LIMIT, exit::FAILED, "it was to be restarted", || backends::halt_servers(&|_| ()))
}

impl Open {
    fn new(server: Connected, plan: Plan) -> Result<Self> {
        let session = Session::through(server, plan)?;
        Ok(Self { observers: session.observers()?, session })
    }

    fn seen(&self, plan: &Plan) -> Result<Seen> {
        let count = plan.load.mode.separate_levels().unwrap_or(1);
        let loads = (0..count).map(|level| Ok(self.job(level)?.load));
        Ok(Seen {
            setup: Arc::clone(&self.session.setup),
            input_bytes: self.session.input_bytes(),
            loads: loads.collect::<Result<_>>()?,
            notes: plan.notes_on(&self.session.models).map(ToString::to_string).collect(),
        })
    }

    /// One turn. If others use the processors, a short window may pass without a request: then a longer one is
    /// measured.
    fn measure(&self, level: usize, plan: &MeasurementPlan, context: RunContext<'_>) -> Result<Option<Unit>> {
        let mut plan = plan.clone();
        loop {
            let unit = self.measure_once(level, &plan, context)?;
            let is_empty = unit.as_ref().is_some_and(|unit| unit.requests + unit.failed == 0);
            match longer(plan.window).filter(|_| is_empty) {
                Some(window) => plan.window = window,
                None => return Ok(unit),
            }
        }
    }

    fn measure_once(&self, level: usize, plan: &MeasurementPlan, context: RunContext<'_>) -> Result<Option<Unit>> {
        let runner = Runner {
            context,
            session: &self.session,
            earlier: &EarlierRun::default(),
            baseline: None,
            observers: self.observers.as_ref(),
        };
        let summary = runner.measure_quietly(&self.job(level)?, plan)?;
        Ok(Unit::of(&summary, &plan.asked_percentiles().collect::<Vec<_>>()).filter(|_| !runner.is_interrupted()))
    }

    fn job(&self, level: usize) -> Result<Job> {
        levels::nth(&self.session, u32::try_from(level).unwrap_or(u32::MAX))
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
