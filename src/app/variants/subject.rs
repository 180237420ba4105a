//! One variant of a run: how it is opened, measured and left.

use std::sync::Arc;
use std::time::Duration;

use crate::app::context::RunContext;
use crate::app::job::Job;
use crate::app::resume::EarlierRun;
use crate::app::runner::Runner;
use crate::app::session::Session;
use crate::app::variants::probe;
use crate::app::{ending, levels, tensors};
use crate::backends::{self, Connect, Connected};
use crate::clock::Stamp;
use crate::error::{Error, Result};
use crate::exit;
use crate::measure::rounds::Measured;
use crate::observe::Observers;
use crate::plan::{Figure as Required, Plan};
use crate::result::Setup;
use crate::result::rounds::{Figure, Unit, needed};
use crate::result::summary::LevelLoad;
use crate::result::tensors::TensorBytes;
use crate::terms::{MeasurementPlan, OnDisturbance, Statistic};

/// A turn begins with a lead-in of this fraction of its window, which does not count.
const SETTLE: u32 = 5;
/// The same if the model was loaded for it.
const SETTLE_LOADED: u32 = 2;
/// Default limit on the lead-in.
const MAX_SETTLE: Duration = Duration::from_secs(2);
/// The lead-in if windows are counted in requests.
const SETTLE_COUNTED: Duration = Duration::from_millis(300);
/// A window in which no request ended is repeated with a longer one, up to this length.
const LONGEST_AGAIN: Duration = Duration::from_secs(120);
/// The longer one has room for this many of the time that the first took with what was still outstanding.
const HEADROOM: u32 = 2;
/// One in which too few did, up to this many times its length.
const MOST_TIMES: u32 = 32;
/// Requests of the next window may take this much longer.
const SPARE: f64 = 1.3;
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
    pub preview: Option<Preview>,
}

/// What is learnt about a subject once it is open.
#[derive(Clone)]
pub struct Preview {
    /// What is measured, and how.
    pub setup: Arc<Setup>,
    /// Bytes of the tensors of an inference, as far as they are known beforehand.
    pub tensors: TensorBytes,
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
    /// No level of it was measured before.
    nothing: EarlierRun,
}

/// A turn that was taken.
pub struct Taken {
    /// What became of it.
    pub measured: Measured,
    /// How many times as long as planned the next windows should be.
    pub times: u32,
}

impl Subject {
    /// A subject that stays open over all rounds.
    pub fn kept(name: String, plan: Plan, server: Result<Connected>) -> Self {
        let open = server.and_then(|server| Open::new(server, plan.clone()));
        let preview = open.as_ref().ok().map(|open| open.preview(&plan));
        let (open, preview) = match preview.transpose() {
            Ok(preview) => (open.map(Some), preview),
            Err(error) => (Err(error), None),
        };
        Self { name, plan, open, preview }
    }

    /// A subject whose server or settings are made for each turn. It is opened once now, so that errors are reported
    /// before anything is measured.
    pub fn per_turn(name: String, plan: Plan, connect: Connect) -> Self {
        let poll = || {
            let open = Open::new(connect(&plan)?, plan.clone())?;
            let preview = open.preview(&plan);
            open.close()?;
            leave(&plan)?;
            preview
        };
        let preview = poll();
        let (open, preview) = match preview {
            Ok(preview) => (Ok(None), Some(preview)),
            Err(error) => (Err(error), None),
        };
        Self { name, plan, open, preview }
    }

    /// A subject that is not available.
    pub fn unusable(name: String, plan: Plan, error: Error) -> Self {
        Self { name, plan, open: Err(error), preview: None }
    }

    /// Measures a level, by its number, for one window, `times` as long as planned. If no request ends in it, because
    /// one takes longer or others use the processors, a longer one is measured.
    pub fn measure(&self, level: usize, times: u32, context: RunContext<'_>) -> Taken {
        let asked = times;
        let mut times = times;
        loop {
            let began = Stamp::now();
            let unit = self.measure_once(level, times, context);
            let longer = match &unit {
                Ok(Some(unit)) if unit.requests + unit.failed == 0 => self.longer(times, Stamp::now() - began),
                Ok(Some(unit)) => self.complete(times, unit),
                _ => None,
            };
            match longer.filter(|_| !is_interrupted(context)) {
                Some(longer) => times = longer,
                None => {
                    let times = if times > asked { self.lasting(asked, times, unit.as_ref()) } else { asked };
                    return Taken { measured: measured(unit, context), times };
                }
            }
        }
    }

    fn measure_once(&self, level: usize, times: u32, context: RunContext<'_>) -> Result<Option<Unit>> {
        let measurement = self.measurement(times);
        match &self.open {
            Ok(Some(open)) => open.measure(level, &measurement, context),
            Ok(None) => self.measure_reopened(level, &measurement, context),
            Err(error) => Err(error.clone()),
        }
    }

    /// How long a turn takes, if windows have a length.
    pub fn turn(&self) -> Option<Duration> {
        let plan = self.measurement(1);
        plan.window.length().filter(|_| plan.request_count.is_none()).map(|length| length + plan.warmup)
    }

    /// How many times as long as planned a window is that has room for what `took` so long; none if that is too long.
    fn longer(&self, times: u32, took: Duration) -> Option<u32> {
        let length = self.plan.measurement.window.length()?;
        let wanted = (took * HEADROOM).as_secs_f64() / length.as_secs_f64();
        let wanted = (wanted.ceil() as u32).max(times.saturating_mul(2));
        (length.checked_mul(wanted)? <= LONGEST_AGAIN).then_some(wanted)
    }

    /// How long the next windows are, after one that had to be `taken` times as long as planned: no longer than requests
    /// take by what was measured, since what kept them from the first window may have been a stall.
    fn lasting(&self, asked: u32, taken: u32, unit: Result<&Option<Unit>, &Error>) -> u32 {
        let (Some(length), Ok(Some(unit))) = (self.plan.measurement.window.length(), unit) else { return asked };
        let mean_ns = unit.get(Figure::Client(Statistic::MeanLatency)).unwrap_or(0.0);
        let windows_per_request = f64::from(HEADROOM) * mean_ns / length.as_nanos() as f64;
        let enough = self.wanted(taken, unit).unwrap_or(0.0);
        (windows_per_request.max(enough).ceil() as u32).clamp(asked, taken)
    }

    /// How many times as long as planned a window of a study is that has enough requests for the percentile that it is
    /// judged by, at the rate of one that was `times` as long.
    fn wanted(&self, times: u32, unit: &Unit) -> Option<f64> {
        let percentile = self.plan.measurement.percentile.filter(|_| self.plan.matrix.is_some())?;
        Some(SPARE * f64::from(times) * needed(percentile) / unit.requests.max(1) as f64)
    }

    /// The same of a study where a round would lack the percentile that it is judged by, for having too few requests: a
    /// table with holes does not say which way is fastest.
    fn complete(&self, times: u32, unit: &Unit) -> Option<u32> {
        let plan = &self.plan.measurement;
        let percentile = plan.percentile.filter(|_| self.plan.matrix.is_some())?;
        plan.window.length()?;
        let lacks = unit.problem.is_none() && unit.get(Figure::Client(Statistic::Percentile(percentile))).is_none();
        let wanted = self.wanted(times, unit)?.ceil().max(f64::from(times) + 1.0);
        (lacks && wanted <= f64::from(MOST_TIMES)).then_some(wanted as u32)
    }

    /// Bytes of the output tensors of an inference, as the answer to one request has them; none if there is none.
    pub fn output_bytes(&self, context: RunContext<'_>) -> Option<f64> {
        let Ok(Some(open)) = &self.open else { return None };
        let runner = open.runner(context);
        probe::output_bytes(&runner, self.plan.data.batch_size).ok().flatten()
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
        let window = plan.window.lengthened(times);
        let asked = plan.warmup_requests > 0 || !plan.warmup.is_zero();
        let counted_out = self.plan.load.mode.is_recorded() || self.plan.load.mode.sessions().is_some();
        let share = if matches!(self.open, Ok(None)) { SETTLE_LOADED } else { SETTLE };
        let usual = window.length().map_or(SETTLE_COUNTED, |length| (length / share).min(MAX_SETTLE));
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
        Ok(Self { observers: session.observers()?, session, nothing: EarlierRun::default() })
    }

    fn preview(&self, plan: &Plan) -> Result<Preview> {
        let count = plan.load.mode.separate_levels().unwrap_or(1);
        let loads = (0..count).map(|level| Ok(self.job(level)?.load));
        Ok(Preview {
            setup: Arc::clone(&self.session.setup),
            tensors: tensors::tensor_bytes(&self.session),
            loads: loads.collect::<Result<_>>()?,
            notes: plan.notes_on(&self.session.models).map(ToString::to_string).collect(),
        })
    }

    fn runner<'a>(&'a self, context: RunContext<'a>) -> Runner<'a> {
        let (session, observers) = (&self.session, self.observers.as_ref());
        Runner { context, session, earlier: &self.nothing, baseline: None, observers }
    }

    /// One turn.
    fn measure(&self, level: usize, plan: &MeasurementPlan, context: RunContext<'_>) -> Result<Option<Unit>> {
        let runner = self.runner(context);
        let summary = runner.measure_quietly(&self.job(level)?, plan)?;
        let unit = Unit::new(&summary, &plan.asked_percentiles().collect::<Vec<_>>());
        let named = self.session.plan.gate.requirements.iter().filter_map(|requirement| match requirement.figure {
            Required::Named(name) => Some(name),
            Required::Statistic(_) | Required::Errors => None,
        });
        Ok(unit.filter(|_| !runner.is_interrupted()).map(|unit| unit.with_named(&summary, named)))
    }

    fn job(&self, level: usize) -> Result<Job> {
        levels::nth(&self.session, u32::try_from(level).unwrap_or(u32::MAX))
    }

    fn close(self) -> Result<()> {
        self.session.close();
        self.observers.map_or(Ok(()), Observers::finish)
    }
}

/// What became of a turn.
fn measured(unit: Result<Option<Unit>>, context: RunContext<'_>) -> Measured {
    match unit {
        Ok(Some(unit)) => Measured::Unit(unit),
        Ok(None) => Measured::Interrupted,
        Err(_) if is_interrupted(context) => Measured::Interrupted,
        Err(error) => Measured::Unit(Unit::failed(error.to_string())),
    }
}
