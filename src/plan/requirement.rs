//! Conditions that a run must meet (`--require`).

use std::path::PathBuf;
use std::time::Duration;

use crate::terms::{FigureName, Statistic};

/// Conditions that a run must meet.
#[derive(Clone, Debug, Default)]
pub struct GatePlan {
    /// What must hold.
    pub requirements: Vec<Requirement>,
    /// A result to compare with.
    pub baseline: Option<PathBuf>,
    /// What becomes of an undecided requirement; if absent, [`Decision::More`], where more can be measured.
    pub undecided: Option<Decision>,
    /// How long a level, or the rounds of variants at it, are measured at most for it.
    pub time: Duration,
    /// Where the outcomes are written as JUnit XML.
    pub junit: Option<PathBuf>,
}

impl GatePlan {
    /// The percentiles that requirements are about.
    pub fn percentiles(&self) -> Vec<f64> {
        let percentile = |requirement: &Requirement| match requirement.figure {
            Figure::Statistic(Statistic::Percentile(percentile)) => Some(percentile),
            _ => None,
        };
        self.requirements.iter().filter_map(percentile).collect()
    }

    /// The latency that the first requirement on one is about.
    pub fn latency(&self) -> Option<Statistic> {
        self.requirements.iter().find_map(|requirement| match requirement.figure {
            Figure::Statistic(statistic) if statistic != Statistic::Throughput => Some(statistic),
            _ => None,
        })
    }

    /// Whether what is undecided is measured further.
    pub fn goes_on(&self) -> bool {
        matches!(self.undecided, None | Some(Decision::More)) && !self.time.is_zero() && !self.requirements.is_empty()
    }

    /// The largest share of requests that a requirement on every level lets fail; none if no such requirement bounds it.
    pub fn most_errors(&self) -> Option<f64> {
        let everywhere = self.requirements.iter().filter(|requirement| requirement.level.is_none());
        let bounds = everywhere.filter(|requirement| requirement.bounds_errors());
        let shares = bounds.map(|requirement| match requirement.bound {
            Bound::Value(share) => share,
            // What the baseline has is not known yet.
            Bound::Change(_) => 0.0,
        });
        shares.reduce(f64::max)
    }

    /// Whether a requirement compares with a baseline.
    pub fn needs_baseline(&self) -> bool {
        self.requirements.iter().any(|requirement| matches!(requirement.bound, Bound::Change(_)))
    }
}

/// What becomes of an undecided requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It counts as held.
    Pass,
    /// It counts as not held.
    Fail,
    /// Its level is measured further until it is decided; what is undecided even then has an exit code of its own.
    More,
}

/// A condition on a figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Requirement {
    /// As written.
    pub text: String,
    /// Which figure.
    pub figure: Figure,
    /// How it must stand to the bound.
    pub relation: Relation,
    /// The bound.
    pub bound: Bound,
    /// The level that it is about; all if absent.
    pub level: Option<LevelName>,
}

impl Requirement {
    /// Whether it says how many requests may fail.
    pub fn bounds_errors(&self) -> bool {
        self.figure == Figure::Errors && self.relation.is_upper()
    }
}

/// A figure that can be required.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Figure {
    /// Throughput in inferences a second, or a latency in nanoseconds.
    Statistic(Statistic),
    /// Share of requests that failed, 0 to 1.
    Errors,
    /// Any other of the catalogue of figures.
    Named(FigureName),
}

/// How a figure must compare with its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// `<`
    Below,
    /// `<=`
    AtMost,
    /// `>`
    Above,
    /// `>=`
    AtLeast,
}

impl Relation {
    /// Whether `value` compares with `bound` in this way.
    pub fn holds(self, value: f64, bound: f64) -> bool {
        match self {
            Self::Below => value < bound,
            Self::AtMost => value <= bound,
            Self::Above => value > bound,
            Self::AtLeast => value >= bound,
        }
    }

    /// Whether the bound is a maximum.
    pub fn is_upper(self) -> bool {
        matches!(self, Self::Below | Self::AtMost)
    }
}

/// What a figure is compared with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// A value, in the figure's unit.
    Value(f64),
    /// The baseline's value, changed by this share: 0.05 is 5 % more.
    Change(f64),
}

/// A level, by its load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LevelName {
    /// So many requests outstanding.
    Concurrency(u32),
    /// So many requests a second.
    Rate(f64),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_is_about_its_first_latency() {
        let require = |figure| Requirement {
            text: String::new(),
            figure,
            relation: Relation::Below,
            bound: Bound::Change(0.05),
            level: None,
        };
        let latency_of = |figures: &[Figure]| {
            let requirements = figures.iter().map(|figure| require(*figure)).collect();
            GatePlan { requirements, ..GatePlan::default() }.latency()
        };
        let (rate, p50) = (Figure::Statistic(Statistic::Throughput), Statistic::Percentile(50.0));
        assert_eq!(latency_of(&[rate, Figure::Errors, Figure::Statistic(p50)]), Some(p50));
        assert_eq!(latency_of(&[rate]), None);
        assert!(require(Figure::Errors).bounds_errors() && !require(rate).bounds_errors());
        assert!(!Requirement { relation: Relation::Above, ..require(Figure::Errors) }.bounds_errors());
    }

    #[test]
    fn what_holds_for_one_level_allows_no_other_its_errors() {
        let errors = |share, level| Requirement {
            text: String::new(),
            figure: Figure::Errors,
            relation: Relation::Below,
            bound: Bound::Value(share),
            level,
        };
        let most = |requirements: &[Requirement]| {
            GatePlan { requirements: requirements.to_vec(), ..GatePlan::default() }.most_errors()
        };
        assert_eq!(most(&[]), None);
        assert_eq!(most(&[errors(0.05, Some(LevelName::Concurrency(8)))]), None);
        assert_eq!(most(&[errors(0.05, None), errors(0.01, None)]), Some(0.05));
        assert_eq!(most(&[Requirement { relation: Relation::Above, ..errors(0.05, None) }]), None);
    }
}
