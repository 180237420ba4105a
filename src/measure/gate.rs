//! Requirements of a level, judged while it is measured and once it is over: the same functions of its figures.
//!
//! A level whose requirements are undecided is measured on. It is looked at again only when it has been measured for twice as
//! long, and bounds are further away at each look, so that all looks together are as often wrong as one at the usual
//! confidence is allowed to be on both sides: half of that goes to the first look, a quarter to the second, and so on (Lan
//! and DeMets, "Discrete sequential boundaries for clinical trials", 1983; that the shares add up needs nothing else).

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::measure::bounds::ALIKE_IF_UNKNOWN;
use crate::measure::history::WindowSet;
use crate::measure::precision::{CONFIDENCE, value};
use crate::measure::ratio::{Side, Starts, bounds_of_ratio};
use crate::measure::summary::{ClientSummary, Known, LevelLoad, LevelSummary, Restarts};
use crate::measure::unit::Unit;
use crate::plan::{Bound, Figure, LevelName, Requirement, Statistic};
use crate::stats::{
    Bounds, CERTAIN_HALF_WIDTH, Interval, Proportion, share_difference, share_interval, student_t_quantile,
};

/// Outcome of a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Judgement {
    /// At 95 % confidence it is met.
    Passed,
    /// At 95 % confidence it is not met, or there is nothing to judge.
    Failed,
    /// Neither is certain.
    Undecided,
}

/// A figure, and the bound that it is compared with.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// What both are.
    pub unit: Unit,
    /// The figure's value.
    pub value: f64,
    /// Its interval; none if there is too little data.
    pub interval: Option<Interval>,
    /// Its one-sided bounds, by which it is judged.
    pub bounds: Bounds,
    /// What it is compared with.
    pub bound: f64,
}

impl Found {
    /// A figure of which bounds on both sides are its interval.
    pub fn by(unit: Unit, value: f64, bounds: Bounds, bound: f64) -> Self {
        let interval = bounds.low.zip(bounds.high).map(|(low, high)| Interval { low, high });
        Self { unit, value, interval, bounds, bound }
    }

    /// How it stands to the bound.
    pub fn judge(&self, requirement: &Requirement) -> Judgement {
        let holds = |value: f64| requirement.relation.holds(value, self.bound);
        let (worst, best) = match requirement.relation.is_upper() {
            true => (self.bounds.high, self.bounds.low),
            false => (self.bounds.low, self.bounds.high),
        };
        match (worst.map(holds), best.map(holds)) {
            _ if self.is_without_errors(requirement) => Judgement::Passed,
            (Some(true), _) => Judgement::Passed,
            (_, Some(false)) => Judgement::Failed,
            _ => Judgement::Undecided,
        }
    }

    /// Whether errors are allowed to grow, and there are none: with none in the reference either, no ratio or interval would
    /// ever show that.
    fn is_without_errors(&self, requirement: &Requirement) -> bool {
        let may_grow = matches!(requirement.bound, Bound::Change(change) if change >= 0.0);
        requirement.of == Figure::Errors && may_grow && requirement.relation.is_upper() && self.value == 0.0
    }

    /// The same with bounds that are `times` as far away.
    fn wider(self, times: f64) -> Self {
        let further = |end: Option<f64>| {
            let end = end?;
            let is_factor = end > 0.0 && self.value > 0.0 && self.unit != Unit::Share;
            Some(match is_factor {
                true => self.value * (end / self.value).powf(times),
                false => self.value + (end - self.value) * times,
            })
        };
        let bounds = Bounds { low: further(self.bounds.low), high: further(self.bounds.high) };
        let interval = self
            .interval
            .and_then(|known| Some(Interval { low: further(Some(known.low))?, high: further(Some(known.high))? }));
        Self { bounds, interval, ..self }
    }
}

/// The figures of a level that is over, or still measured.
#[derive(Clone, Copy)]
pub struct Figures<'a> {
    /// Its requests.
    pub client: &'a ClientSummary,
    /// How well their figures are known.
    pub known: &'a [Known],
    /// What they are at further starts.
    pub restarts: Option<&'a Restarts>,
    /// How often they were looked at.
    pub looks: u32,
}

impl<'a> Figures<'a> {
    /// Those of a level that is over.
    pub fn of(level: &'a LevelSummary) -> Self {
        let LevelSummary { client, intervals: known, restarts, looks, .. } = level;
        Self { client, known, restarts: restarts.as_ref(), looks: *looks }
    }

    /// One of them, as one side of a ratio; `None` where nothing is known of it, or there is no ratio to it.
    pub fn side(&self, of: Statistic) -> Option<Side> {
        let bounds = match Known::find(self.known, of) {
            Some(interval) => Some(interval).into(),
            None => self.bounds(of),
        };
        let between = self.restarts.and_then(|all| all.figures.iter().find(|figure| figure.of == of));
        let side = Side { value: value(of, self.client), bounds, starts: between.and_then(Starts::of) };
        (side.value > 0.0 && (side.starts.is_some() || side.bounds != Bounds::default())).then_some(side)
    }

    /// The bounds of a figure. A rate is known by the number of its requests, where nothing else tells: so many alike.
    fn bounds(&self, of: Statistic) -> Bounds {
        let known = Known::find_bounds(self.known, of);
        let independent = self.client.requests as f64 / ALIKE_IF_UNKNOWN;
        if of != Statistic::Throughput || known != Bounds::default() || independent < 1.0 {
            return known;
        }
        let (rate, factor) = (value(of, self.client), (CERTAIN_HALF_WIDTH / independent.sqrt()).exp());
        Bounds { low: Some(rate / factor), high: Some(rate * factor) }
    }

    /// The share of failures among requests.
    fn failures(&self) -> Proportion {
        Proportion { hits: self.client.failed, all: self.client.requests + self.client.failed }
    }

    /// The figure that a requirement is about, compared with its bound; or why there is none. `baseline` is the level that
    /// changes are from.
    ///
    /// # Errors
    /// What is missing.
    pub fn find(&self, requirement: &Requirement, baseline: Option<Figures<'_>>) -> Result<Found, &'static str> {
        let of = match requirement.of {
            Figure::Statistic(of) => Some(of),
            Figure::Errors => None,
            Figure::Named(_) => return Err("it is known once the level is over"),
        };
        let (unit, wider) = (of.map_or(Unit::Share, Unit::of), wider(self.looks));
        let change = match requirement.bound {
            Bound::Value(bound) => return Ok(self.own(of, unit, bound).wider(wider)),
            Bound::Change(change) => change,
        };
        let baseline = baseline.ok_or("there is no baseline")?;
        let Some(of) = of else {
            return Ok(errors_against(self.failures(), baseline.failures(), change).wider(wider));
        };
        let theirs = baseline.side(of).ok_or("the baseline tells nothing of that figure")?;
        let unknown = || Side { value: value(of, self.client), bounds: Bounds::default(), starts: None };
        let (ratio, bounds) = bounds_of_ratio(&self.side(of).unwrap_or_else(unknown), &theirs, wider);
        Ok(Found::by(Unit::Ratio, ratio, bounds, 1.0 + change))
    }

    /// A figure by itself; the share of errors, if it is no statistic.
    fn own(&self, of: Option<Statistic>, unit: Unit, bound: f64) -> Found {
        match of {
            Some(of) => Found {
                unit,
                value: value(of, self.client),
                interval: Known::find(self.known, of),
                bounds: self.bounds(of),
                bound,
            },
            None => {
                let interval = share_interval(self.failures(), CONFIDENCE);
                Found { unit, value: self.client.failed_share(), interval, bounds: interval.into(), bound }
            }
        }
    }
}

/// Whether a requirement is about levels with this load.
pub fn is_about(requirement: &Requirement, load: LevelLoad) -> bool {
    match (load, requirement.level) {
        (_, None) => true,
        (LevelLoad::Concurrency(one) | LevelLoad::Streams(one), Some(LevelName::Concurrency(other))) => one == other,
        (LevelLoad::RequestRate(one), Some(LevelName::Rate(other))) => (one - other).abs() <= 1e-9 * other,
        _ => false,
    }
}

/// The share of errors among requests against that of a reference, which may grow by `change`. Shares are often 0, which has
/// no ratio, so the interval is that of their difference, from the reference's share on.
pub fn errors_against(own: Proportion, reference: Proportion, change: f64) -> Found {
    let base = reference.share();
    let interval = share_difference(own, reference, CONFIDENCE)
        .map(|known| Interval { low: (base + known.low).max(0.0), high: (base + known.high).min(1.0) });
    Found::by(Unit::Share, own.share(), interval.into(), base * (1.0 + change))
}

/// How many times as far away bounds are at that look as at the first, or at the only one.
fn wider(look: u32) -> f64 {
    if look <= 1 {
        return 1.0;
    }
    let tail = (1.0 - CONFIDENCE) / 2.0;
    // With this many degrees of freedom, Student's t is the normal distribution.
    let quantile = |tail: f64| student_t_quantile(1.0 - tail, 1e5);
    quantile(tail / 2.0_f64.powi(look.min(30) as i32 - 1)) / quantile(tail)
}

/// A requirement of a level.
#[derive(Clone, Debug)]
pub struct Question {
    /// The requirement.
    pub requirement: Requirement,
    /// The baseline's level, if the requirement is a change from it.
    pub baseline: Option<LevelSummary>,
}

/// What is to be decided of a level while it is measured.
#[derive(Clone, Debug, Default)]
pub struct Questions {
    /// The requirements.
    pub all: Vec<Question>,
    /// How long it is measured at most for them.
    pub time: Duration,
}

impl Questions {
    /// The first that windows do not decide at that look.
    fn open(&self, windows: &WindowSet, looks: u32) -> Option<&Question> {
        self.all.iter().find(|question| {
            let Figure::Statistic(of) = question.requirement.of else { return question.is_open(windows, &[], looks) };
            question.is_open(windows, &[windows.known(of)], looks)
        })
    }
}

impl Question {
    fn is_open(&self, windows: &WindowSet, known: &[Known], looks: u32) -> bool {
        let figures = Figures { client: &windows.client, known, restarts: None, looks };
        let found = figures.find(&self.requirement, self.baseline.as_ref().map(Figures::of));
        found.is_ok_and(|found| found.judge(&self.requirement) == Judgement::Undecided)
    }
}

/// The looks at a level's requirements so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Looks {
    /// How many there were.
    pub count: u32,
    /// When the next is due.
    next: Duration,
}

impl Looks {
    /// Whether a level that would end here is measured on, for the question that is returned: `measured` is how long it was,
    /// and `window` how long another window is.
    pub(super) fn open<'q>(
        &mut self,
        questions: &'q Questions,
        measured: Duration,
        window: Duration,
        windows: impl FnOnce() -> Option<WindowSet>,
    ) -> Option<&'q Question> {
        let question = questions.all.first()?;
        let is_last = measured + window > questions.time;
        if measured < self.next && !is_last {
            return Some(question);
        }
        (self.count, self.next) = (self.count + 1, measured * 2);
        questions.open(&windows()?, self.count).filter(|_| !is_last)
    }
}

#[cfg(test)]
mod tests;
