//! The gate: conditions that a run must meet, judged on the bounds of its figures, while a level is measured and once it is
//! over: the same functions.
//!
//! A level whose requirements are undecided is measured on and looked at again. Bounds are further away at each look, so that
//! all looks together are as often wrong as one at the usual confidence is allowed to be on both sides: half of that goes to
//! the first look, a quarter to the second, and so on (Lan and DeMets, "Discrete sequential boundaries for clinical trials",
//! 1983; that the shares add up needs nothing else).

#![deny(unsafe_code, clippy::print_stderr, clippy::print_stdout)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![warn(missing_docs)]

mod baseline;
mod levels;
mod unseen;
mod variants;

use ::{plan, result, stats, terms};
#[cfg(test)]
use ::stats::seed;
#[cfg(test)]
use base::exit;

use crate::plan::{Bound, Figure, LevelName, Requirement};
use crate::result::Unit;
use crate::result::checked::Judgement;
use crate::result::figures::{FigureAt, Value};
use crate::result::ratio::{Figures, Side, Starts, bounds_of_ratio, ratio};
use crate::result::statistic::{CONFIDENCE, value};
use crate::result::summary::{LevelLoad, StatisticEstimate};
use crate::stats::{Bounds, Clustered, Interval, share_difference, share_interval, student_t_quantile};
use crate::terms::{FigureName, Statistic};

pub use baseline::{Finding, Lack, Planned, lacks};
pub use levels::judge;
pub use variants::{is_undecided, judge_variants, lacks_figure};

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
        requirement.figure == Figure::Errors && may_grow && requirement.relation.is_upper() && self.value == 0.0
    }

    /// The same with bounds that are `times` as far away.
    fn wider(self, times: f64) -> Self {
        let further = |end: Option<f64>| {
            let end = end?;
            let is_factor = end > 0.0 && self.value > 0.0 && self.unit != Unit::Share;
            let moved = match is_factor {
                true => self.value * (end / self.value).powf(times),
                false => self.value + (end - self.value) * times,
            };
            // No figure is below nothing, and no share is more than all.
            Some(moved.clamp(0.0, if self.unit == Unit::Share { 1.0 } else { f64::INFINITY }))
        };
        let bounds = Bounds { low: further(self.bounds.low), high: further(self.bounds.high) };
        let interval = self.interval.and_then(|interval| {
            Some(Interval { low: further(Some(interval.low))?, high: further(Some(interval.high))? })
        });
        Self { bounds, interval, ..self }
    }
}

/// The figure that a requirement is about, compared with its bound; or why there is none. `baseline` is the level that
/// changes are from.
///
/// # Errors
/// What is missing.
pub fn find(
    figures: Figures<'_>,
    requirement: &Requirement,
    baseline: Option<Figures<'_>>,
) -> Result<Found, &'static str> {
    let statistic = match requirement.figure {
        Figure::Statistic(statistic) => Some(statistic),
        Figure::Errors => None,
        Figure::Named(name) => return Ok(named(figures, name, requirement, baseline)?.wider(wider(figures.looks))),
    };
    let (unit, wider) = (statistic.map_or(Unit::Share, Unit::new), wider(figures.looks));
    let change = match requirement.bound {
        Bound::Value(bound) => {
            let over_starts = statistic.and_then(|statistic| over_starts(figures, statistic, bound));
            return Ok(over_starts.unwrap_or_else(|| by_value(figures, statistic, unit, bound).wider(wider)));
        }
        Bound::Change(change) => change,
    };
    let baseline = baseline.ok_or("there is no baseline")?;
    let Some(statistic) = statistic else {
        return Ok(errors_against(figures.failures(), baseline.failures(), change).wider(wider));
    };
    let theirs = baseline.side(statistic).ok_or("the baseline tells nothing of that figure")?;
    let unknown = || Side { value: value(statistic, figures.client), bounds: Bounds::default(), starts: None };
    let (ratio, bounds) = bounds_of_ratio(&figures.side(statistic).unwrap_or_else(unknown), &theirs, wider);
    Ok(Found::by(Unit::Ratio, ratio, bounds, 1.0 + change))
}

/// A figure by itself over all starts, if there were several: what one of them was is not what another will be. How often the
/// first was looked at does not matter.
fn over_starts(figures: Figures<'_>, statistic: Statistic, bound: f64) -> Option<Found> {
    let across = figures.over_starts(statistic)?;
    Some(Found {
        unit: Unit::new(statistic),
        value: across.mean,
        interval: across.interval,
        bounds: across.interval.into(),
        bound,
    })
}

/// A figure by itself; the share of errors, if it is no statistic.
fn by_value(figures: Figures<'_>, statistic: Option<Statistic>, unit: Unit, bound: f64) -> Found {
    match statistic {
        Some(statistic) => Found {
            unit,
            value: value(statistic, figures.client),
            interval: StatisticEstimate::find(figures.estimates, statistic),
            bounds: figures.bounds(statistic),
            bound,
        },
        None => {
            let failures = figures.failures();
            let interval = share_interval(failures, CONFIDENCE);
            Found { unit, value: failures.proportion.share(), interval, bounds: interval.into(), bound }
        }
    }
}

/// A figure of the catalogue that levels are not measured by; or why there is none.
fn named(
    figures: Figures<'_>,
    name: FigureName,
    requirement: &Requirement,
    baseline: Option<Figures<'_>>,
) -> Result<Found, &'static str> {
    let figure = FigureAt::new(name);
    let none = "the level does not have this figure";
    let ours = value_of(figures, figure).ok_or(none)?;
    let Value { value, interval, bounds } = ours;
    let unit = figure.figure.unit;
    let change = match requirement.bound {
        Bound::Value(bound) => return Ok(Found { unit, value, interval, bounds, bound }),
        Bound::Change(change) => change,
    };
    let their_none = "the baseline's level does not have this figure";
    let baseline = baseline.ok_or("there is no baseline")?;
    let theirs = value_of(baseline, figure).ok_or(their_none)?;
    if theirs.value <= 0.0 {
        return Ok(Found { unit, value, interval, bounds, bound: theirs.value * (1.0 + change) });
    }
    let change = 1.0 + change;
    let starts = [figures, baseline].map(|figures| starts_of(figures, figure));
    if value > 0.0 && starts.iter().any(Option::is_some) {
        let side = |Value { value, bounds, .. }, starts| Side { value, bounds, starts };
        let [our_starts, their_starts] = starts;
        let (ratio, bounds) = bounds_of_ratio(&side(ours, our_starts), &side(theirs, their_starts), 1.0);
        return Ok(Found::by(Unit::Ratio, ratio, bounds, change));
    }
    let interval = ratio(ours.estimate(), theirs.estimate());
    let ratio = value / theirs.value;
    let bounds = if is_taken_as_it_is(name) { Bounds { low: Some(ratio), high: Some(ratio) } } else { interval.into() };
    Ok(Found { unit: Unit::Ratio, value: ratio, interval, bounds, bound: change })
}

/// A figure of the catalogue, over all starts if there were several.
fn value_of(figures: Figures<'_>, figure: FigureAt) -> Option<Value> {
    if let Some(all) = figures.at_starts(&figure.key()) {
        return Some(Value::by(all.value(), all.interval()));
    }
    let found = figure.value_with(figures.client, figures.bursts)?;
    let certain = Bounds { low: Some(found.value), high: Some(found.value) };
    Some(if is_taken_as_it_is(figure.name()) { Value { bounds: certain, ..found } } else { found })
}

/// How it differs between starts; not that of shares, whose intervals have it in them.
fn starts_of(figures: Figures<'_>, figure: FigureAt) -> Option<Starts> {
    figures.at_starts(&figure.key()).filter(|all| all.cases.is_none()).and_then(|all| Starts::of(&all.values))
}

/// Whether nothing tells how well a figure is known, as of rates of tokens: it is judged by its value.
fn is_taken_as_it_is(name: FigureName) -> bool {
    FigureAt::new(name).figure.is_a_value()
}

/// Whether a requirement is about levels with this load.
pub fn is_about(requirement: &Requirement, load: LevelLoad) -> bool {
    match (load, requirement.level) {
        (_, None) => true,
        (LevelLoad::Concurrency(count) | LevelLoad::Streams(count), Some(LevelName::Concurrency(named))) => {
            count == named
        }
        (LevelLoad::RequestRate(rate), Some(LevelName::Rate(named))) => (rate - named).abs() <= 1e-9 * named,
        _ => false,
    }
}

/// The share of errors among requests against that of a reference, which may grow by `change`. Shares are often 0, which has
/// no ratio, so the interval is that of their difference, from the reference's share on.
pub fn errors_against(share: Clustered, reference: Clustered, change: f64) -> Found {
    let base = reference.proportion.share();
    let interval = share_difference(share, reference, CONFIDENCE)
        .map(|difference| Interval { low: (base + difference.low).max(0.0), high: (base + difference.high).min(1.0) });
    Found::by(Unit::Share, share.proportion.share(), interval.into(), base * (1.0 + change))
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

/// The same of what is looked at after every one of `count` parts: as at a look two further on than those whenever there are twice as
/// many, because a share that wanders between two of these passes a bound up to four times as often as at one of them.
fn wider_at_every(count: usize) -> f64 {
    wider(3 + count.max(1).ilog2())
}

#[cfg(test)]
mod tests;
