//! The outcome of a level, in one word: the same in every report, and the basis of the exit code.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::reasons::{InvalidReason, Verdict};
use crate::summary::{Ending, LevelSummary};

/// The outcome of a level. If several apply, the most serious.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Measured, and within the latency threshold if there is one.
    #[serde(alias = "disturbed")]
    Valid,
    /// The latency is above the threshold.
    #[serde(rename = "over latency threshold")]
    OverThreshold,
    /// The confidence interval of the latency contains the threshold: the value is below it, but the true latency may
    /// be above.
    Undecided,
    /// Rate and latency do not belong to the same requests (Little's law), or the client stood still meanwhile.
    Inconsistent,
    /// Fewer requests than the percentile needs, or a figure is less precise than `--precision` asks for.
    Imprecise,
    /// The client did not send the requested load.
    #[serde(rename = "load not delivered")]
    Undelivered,
    /// The windows did not agree.
    Unstable,
    /// The server did not keep up with the rate.
    Overloaded,
    /// The user interrupted.
    Interrupted,
    /// Nothing succeeded, or more requests failed than allowed.
    Failed,
}

impl Outcome {
    /// The outcome of `level`.
    pub fn new(level: &LevelSummary) -> Self {
        let reasons = match &level.verdict {
            Verdict::Valid => &[][..],
            Verdict::Invalid(reasons) => reasons,
        };
        let of_reasons = reasons.iter().map(Self::of_reason).max_by_key(|outcome| *outcome as u8);
        let of_ending = match level.ending {
            Ending::Failed => Self::Failed,
            Ending::Interrupted => Self::Interrupted,
            Ending::OverThreshold => {
                return of_reasons.filter(|gravest| gravest.is_grave()).unwrap_or(Self::OverThreshold);
            }
            Ending::Unstable => Self::Unstable,
            Ending::Stable | Ending::Complete if level.limit.is_some_and(|check| !check.certain) => Self::Undecided,
            Ending::Stable | Ending::Complete => Self::Valid,
        };
        match of_reasons {
            Some(gravest) if gravest as u8 > of_ending as u8 => gravest,
            _ => of_ending,
        }
    }

    /// What a level with this reason comes to.
    pub fn of_reason(reason: &InvalidReason) -> Self {
        match reason {
            InvalidReason::Nothing
            | InvalidReason::NoneEnded
            | InvalidReason::AllCancelled(_)
            | InvalidReason::Errors(..)
            | InvalidReason::BrokenOff => Self::Failed,
            InvalidReason::Interrupted => Self::Interrupted,
            InvalidReason::Unstable(_) | InvalidReason::Unsettled(..) | InvalidReason::Drifting(..) => Self::Unstable,
            InvalidReason::Overloaded(..) | InvalidReason::HeldBack(_) => Self::Overloaded,
            InvalidReason::RateNotReached(..)
            | InvalidReason::IssuersLate(_)
            | InvalidReason::RankLate(..)
            | InvalidReason::RankWithout(_) => Self::Undelivered,
            InvalidReason::TooFewSamples(..) | InvalidReason::Imprecise(..) => Self::Imprecise,
            InvalidReason::LittlesLaw(_) | InvalidReason::StoodStill(_) | InvalidReason::RankStoodStill(..) => {
                Self::Inconsistent
            }
        }
    }

    /// Whether the figures can be believed.
    pub fn is_valid(self) -> bool {
        self == Self::Valid
    }

    /// The word that every report has for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::OverThreshold => "over latency threshold",
            Self::Undecided => "undecided",
            Self::Inconsistent => "inconsistent",
            Self::Imprecise => "imprecise",
            Self::Undelivered => "load not delivered",
            Self::Overloaded => "overloaded",
            Self::Unstable => "unstable",
            Self::Interrupted => "interrupted",
            Self::Failed => "failed",
        }
    }

    /// Whether it is a fact about the load, of which more of the same measurement would change nothing.
    pub fn is_certain(self) -> bool {
        matches!(self, Self::Undelivered | Self::Overloaded | Self::Interrupted | Self::Failed)
    }

    /// Whether the level did not come to its end, or to nothing.
    fn is_grave(self) -> bool {
        matches!(self, Self::Interrupted | Self::Failed)
    }
}

/// Whether the figures of a level can be compared with others or with a bound. On which side of the latency threshold
/// they lie does not matter, nor how precise they are: intervals and bounds have that in them. And Little's law alone is a
/// hint: in a short run on a busy machine it does not hold to a few percent.
pub fn is_comparable(level: &LevelSummary) -> bool {
    is_comparable_but_for(level, level.ending, |_| false)
}

/// Whether they could be, had the client's process not stood still: then nothing is known against the server.
pub fn stood_still_alone(level: &LevelSummary) -> bool {
    let stood_still =
        |reason: &InvalidReason| matches!(reason, InvalidReason::StoodStill(_) | InvalidReason::RankStoodStill(..));
    !is_comparable(level) && is_comparable_but_for(level, level.ending, stood_still)
}

/// Whether they could be, had fewer requests failed: how many do is a figure, too. The level may have ended with them.
pub fn fails_too_often_alone(level: &LevelSummary) -> bool {
    let ending = if level.ending == Ending::Failed { Ending::Complete } else { level.ending };
    let is_errors = |reason: &InvalidReason| matches!(reason, InvalidReason::Errors(..));
    level.client.requests > 0 && !is_comparable(level) && is_comparable_but_for(level, ending, is_errors)
}

fn is_comparable_but_for(level: &LevelSummary, ending: Ending, is_excepted: impl Fn(&InvalidReason) -> bool) -> bool {
    let is_hint = |reason: &InvalidReason| {
        matches!(
            reason,
            InvalidReason::LittlesLaw(_)
                | InvalidReason::TooFewSamples(..)
                | InvalidReason::Imprecise(..)
                | InvalidReason::Unsettled(..)
                // There were too few windows to compare.
                | InvalidReason::Unstable(None)
        )
    };
    let has_ended = matches!(ending, Ending::Stable | Ending::Complete | Ending::OverThreshold | Ending::Unstable);
    has_ended
        && match &level.verdict {
            // Without a reason, nothing says how far off it is.
            Verdict::Valid => ending != Ending::Unstable,
            Verdict::Invalid(reasons) => reasons.iter().all(|reason| is_hint(reason) || is_excepted(reason)),
        }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::summary::{Disturbances, LevelLoad, LimitCheck, sample};
    use crate::terms::{Precision, Statistic};

    fn outcome(ending: Ending, reasons: &[InvalidReason]) -> Outcome {
        let verdict = if reasons.is_empty() { Verdict::Valid } else { Verdict::Invalid(reasons.to_vec()) };
        Outcome::new(&LevelSummary { ending, verdict, ..sample::level(LevelLoad::Concurrency(1), 100, 1_000) })
    }

    #[test]
    fn the_gravest_thing_is_the_outcome() {
        assert_eq!(outcome(Ending::Stable, &[]), Outcome::Valid);
        assert_eq!(outcome(Ending::OverThreshold, &[]), Outcome::OverThreshold);
        assert_eq!(outcome(Ending::Stable, &[InvalidReason::TooFewSamples(99.0, 7, 662)]), Outcome::Imprecise);
        assert_eq!(outcome(Ending::Unstable, &[InvalidReason::Unstable(None)]), Outcome::Unstable);
        let overloaded = [InvalidReason::Overloaded(9.0, 5.0), InvalidReason::Unstable(None)];
        assert_eq!(outcome(Ending::Unstable, &overloaded), Outcome::Overloaded);
        assert_eq!(outcome(Ending::Stable, &overloaded[..1]), Outcome::Overloaded);
        assert_eq!(outcome(Ending::Stable, &[InvalidReason::IssuersLate(0.1)]), Outcome::Undelivered);
        assert_eq!(outcome(Ending::Interrupted, &[InvalidReason::Interrupted]), Outcome::Interrupted);
        assert_eq!(outcome(Ending::Failed, &[InvalidReason::Nothing]), Outcome::Failed);
        assert_eq!(outcome(Ending::OverThreshold, &[InvalidReason::Errors(9, 10)]), Outcome::Failed);
    }

    #[test]
    fn a_disturbance_is_a_remark_and_no_outcome() {
        let disturbances = Disturbances { windows: 3, disturbed: 1, replaced: 0, worst: None };
        let level =
            |ending| LevelSummary { ending, disturbances, ..sample::level(LevelLoad::Concurrency(1), 100, 1_000) };
        assert_eq!(Outcome::new(&level(Ending::Stable)), Outcome::Valid);
        assert_eq!(Outcome::new(&level(Ending::OverThreshold)), Outcome::OverThreshold);
        assert_eq!(serde_json::from_str::<Outcome>("\"disturbed\"").unwrap(), Outcome::Valid, "an earlier file");
    }

    #[test]
    fn a_level_that_is_not_precise_is_compared_by_its_intervals() {
        let level = |reason| LevelSummary {
            ending: Ending::Unstable,
            verdict: Verdict::Invalid(vec![reason]),
            ..sample::level(LevelLoad::Concurrency(1), 100, 1_000)
        };
        let precision = Precision { statistic: Statistic::Throughput, share: 0.1 };
        assert!(is_comparable(&level(InvalidReason::Unsettled(precision, Some(0.14)))));
        assert!(is_comparable(&level(InvalidReason::Unstable(None))), "a single window");
        assert!(!is_comparable(&level(InvalidReason::Drifting(Statistic::Throughput, 0.5))));
    }

    #[test]
    fn a_limit_within_the_interval_is_undecided() {
        let limit = Some(LimitCheck { limit: Duration::from_millis(1), over: false, certain: false });
        let level = LevelSummary { limit, ..sample::level(LevelLoad::Concurrency(1), 100, 1_000) };
        assert_eq!(Outcome::new(&level), Outcome::Undecided);
    }
}
