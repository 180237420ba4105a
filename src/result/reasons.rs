//! Reasons against a level, and what to change.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::advice::{self, Setting};
use crate::disagreement::{Disagreement, STABLE_WINDOWS};
use crate::number::counted;
use crate::terms::{MeasurementPlan, Precision, Statistic};

/// Whether a level's figures are valid.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// All checks passed.
    Valid,
    /// The failed checks, most serious first; never empty.
    Invalid(Vec<InvalidReason>),
}

/// One reason why a level is invalid. `Display` says it with its numbers, [`InvalidReason::remedy`] what to change.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InvalidReason {
    /// No request succeeded, and some failed.
    Nothing,
    /// No request ended at all.
    NoneEnded,
    /// Every request was cancelled before it was answered: how many.
    AllCancelled(u64),
    /// More requests failed than are allowed: failed, all.
    Errors(u64, u64),
    /// The user ended it.
    Interrupted,
    /// Fewer requests were sent than intended: requested and achieved sends a second.
    RateNotReached(f64, f64),
    /// The server completed fewer requests than were sent: sent and completed a second.
    Overloaded(f64, f64),
    /// Number of sends that waited for `--max-outstanding`, or for their serial sequence.
    HeldBack(u64),
    /// Too many requests were sent late: share of requests, 0 to 1.
    IssuersLate(f64),
    /// The load ended early: a client failed, or the server no longer answers.
    BrokenOff,
    /// The last windows disagree: in which figures, if there are enough windows to compare.
    Unstable(Option<Disagreement>),
    /// A figure is not known to within what `-s` allows: that, and the interval's half-width as a share of the figure, if there
    /// is an interval.
    Unsettled(Precision, Option<f64>),
    /// A figure changes all the time: which, and by what share from the first third of the level to the last (signed).
    Drifting(Statistic, f64),
    /// A figure is less precise than requested: the requested precision, and the interval's half-width as a share of
    /// the figure, if there is an interval.
    Imprecise(Precision, Option<f64>),
    /// Too few samples for a percentile: percentile, samples, samples needed.
    TooFewSamples(f64, u64, u64),
    /// Of several processes that share the load, this one sent too many requests late: its number, share of requests, 0 to 1.
    RankLate(usize, f64),
    /// Of several processes that share the load, no request of this one succeeded: its number.
    RankWithout(usize),
    /// The client's process stood still for this many seconds while it was measured.
    StoodStill(f64),
    /// Of several processes that share the load, this one did, and for the longest: its number, seconds.
    RankStoodStill(usize, f64),
    /// Rate times latency differs from the requests under way by this share (signed).
    LittlesLaw(f64),
}

impl InvalidReason {
    /// A short stable word for machine-readable output.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Nothing | Self::NoneEnded | Self::AllCancelled(_) => "no_valid_requests",
            Self::Errors(..) => "errors",
            Self::Interrupted => "interrupted",
            Self::RateNotReached(..) => "rate_not_reached",
            Self::Overloaded(..) => "overloaded",
            Self::HeldBack(_) => "held_back",
            Self::IssuersLate(_) | Self::RankLate(..) => "issuers_late",
            Self::RankWithout(_) => "no_valid_requests",
            Self::BrokenOff => "broken_off",
            Self::Unstable(_) | Self::Unsettled(..) | Self::Drifting(..) => "unstable",
            Self::Imprecise(..) => "imprecise",
            Self::TooFewSamples(..) => "too_few_samples",
            Self::StoodStill(_) | Self::RankStoodStill(..) => "stood_still",
            Self::LittlesLaw(_) => "littles_law",
        }
    }

    /// The flag of the measurement that would probably do, if one would.
    pub fn setting(&self, plan: &MeasurementPlan) -> Option<Setting> {
        match *self {
            Self::Unstable(Some(apart)) => advice::length(plan, &apart),
            Self::Unstable(None) => Some(advice::usual_windows(plan)),
            Self::Unsettled(wanted, half_width) | Self::Imprecise(wanted, half_width) => {
                advice::windows(plan, wanted, half_width)
            }
            Self::TooFewSamples(_, count, needed) => Some(advice::samples(plan, count, needed)),
            _ => None,
        }
    }

    /// Whether the latency went on to grow, as it does where a rate is a little too high.
    pub fn is_a_growing_latency(&self) -> bool {
        matches!(self, Self::Drifting(statistic, share) if *statistic != Statistic::Throughput && *share > 0.0)
    }

    /// What to change in a plan like `plan`, with a sufficient value if it is known. `disturbed`: others took processors
    /// meanwhile.
    pub fn remedy(&self, plan: &MeasurementPlan, disturbed: bool) -> String {
        let text = match *self {
            Self::Nothing => "see the errors and the server's log; check that the input data fit the model",
            Self::NoneEnded => "raise --measurement-interval, or see the server's log where requests hang",
            Self::AllCancelled(_) => "raise --cancel-after-us above what an answer takes",
            Self::Errors(..) => "see the errors and the server's log, or allow more with --max-errors",
            Self::Interrupted => "let it run to its end",
            Self::RateNotReached(..) | Self::IssuersLate(_) if disturbed => {
                "stop what else uses the processors, or give issuing threads some that it does not use (--worker-cpus)"
            }
            Self::RateNotReached(..) | Self::IssuersLate(_) => {
                "give issuing threads more processors (--max-threads, --worker-cpus) or lower the rate"
            }
            Self::Overloaded(_, completed) => return advice::slower(completed),
            Self::RankLate(..) => {
                "give that rank's machine more room (fewer ranks on it, --max-threads), or lower the rate"
            }
            Self::RankWithout(_) => "check that rank's machine, and whether it reaches the server",
            Self::HeldBack(_) => {
                "raise --max-outstanding (with --serial-sequences: --num-of-sequences) or lower the rate"
            }
            Self::BrokenOff => {
                "see the errors, standard error and the server's log; over a network --reconnect goes on"
            }
            Self::Unstable(Some(apart)) => return advice::steadier(plan, &apart),
            Self::Unstable(None) => return advice::more_windows(plan),
            Self::Drifting(..) => {
                "warm up longer (--warmup-duration); if it stays, the server slows down, or does not quite keep up with a \
                 rate: -v shows how windows differ"
            }
            Self::Unsettled(wanted, half_width) | Self::Imprecise(wanted, half_width) => {
                return advice::more_precise(plan, wanted, half_width);
            }
            Self::TooFewSamples(_, count, needed) => return advice::more_samples(plan, count, needed),
            Self::StoodStill(_) | Self::RankStoodStill(..) => {
                "measure again, without stopping the program or suspending the machine"
            }
            Self::LittlesLaw(_) => {
                "measure longer; if it stays, requests are delayed or lost outside the measured time"
            }
        };
        text.to_owned()
    }
}

impl fmt::Display for InvalidReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Nothing => f.write_str("no request succeeded"),
            Self::NoneEnded => f.write_str("no request ended while it was measured"),
            Self::AllCancelled(1) => f.write_str("the only request was cancelled before it was answered"),
            Self::AllCancelled(all) => write!(f, "all of {all} requests were cancelled before they were answered"),
            Self::Errors(failed, all) => write!(f, "{failed} of {} failed", counted(all, "request")),
            Self::Interrupted => f.write_str("interrupted"),
            Self::RateNotReached(wanted, reached) => {
                write!(f, "sent {reached:.1} requests a second instead of {wanted:.1}")
            }
            Self::Overloaded(sent, completed) => {
                write!(f, "the server completed {completed:.1} of {sent:.1} requests a second")
            }
            Self::HeldBack(count) => {
                let requests = if count == 1 { "of the requests" } else { "requests" };
                write!(f, "{count} {requests} waited because of --max-outstanding or --serial-sequences")
            }
            Self::IssuersLate(share) => write!(
                f,
                "{:.1}% of the requests left too late: by more than 1 ms, and 5% of the median answer",
                share * 100.0
            ),
            Self::RankLate(rank, share) => {
                write!(f, "rank {rank} sent {:.1}% of its requests too late", share * 100.0)
            }
            Self::RankWithout(rank) => write!(f, "no request of rank {rank} succeeded"),
            Self::BrokenOff => f.write_str("the load ended early"),
            Self::Unstable(None) => write!(f, "there were fewer windows than the {STABLE_WINDOWS} that have to agree"),
            Self::Unstable(Some(apart)) => write!(f, "{apart}"),
            Self::Unsettled(precision, None) => write!(f, "the windows do not tell the {precision}, as -s asks"),
            Self::Unsettled(Precision { statistic, share }, Some(half_width)) => {
                let allowed = (share * 1e8).round() / 1e6;
                write!(f, "{statistic} is known to within {:.1}%, where -s allows {allowed}%", half_width * 100.0)
            }
            Self::Drifting(statistic, share) => {
                write!(f, "{statistic} changed by {:+.0}% from beginning to end", share * 100.0)
            }
            Self::Imprecise(precision, None) => write!(f, "not known: {precision}"),
            Self::Imprecise(precision, Some(share)) => {
                write!(f, "not known: {precision}, only to within {:.1}%", share * 100.0)
            }
            Self::TooFewSamples(percentile, count, needed) => {
                let verb = if count == 1 { "is" } else { "are" };
                write!(f, "p{percentile} needs {needed} samples, there {verb} {count}")
            }
            Self::StoodStill(seconds) => write!(
                f,
                "this process stood still for {seconds:.1} s while it was measured (stopped, suspended, or without a processor)"
            ),
            Self::RankStoodStill(rank, seconds) => write!(
                f,
                "rank {rank} stood still for {seconds:.1} s while it was measured (stopped, suspended, or without a processor)"
            ),
            Self::LittlesLaw(gap) => {
                write!(f, "rate times latency is {:+.1}% off the requests under way", gap * 100.0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disturbance::{Cause, Disturbance};

    #[test]
    fn one_is_told_as_one() {
        let texts = [
            InvalidReason::AllCancelled(1),
            InvalidReason::Errors(1, 1),
            InvalidReason::HeldBack(1),
            InvalidReason::TooFewSamples(99.0, 1, 662),
            InvalidReason::HeldBack(2),
        ]
        .map(|reason| reason.to_string());
        assert_eq!(
            texts,
            [
                "the only request was cancelled before it was answered",
                "1 of 1 request failed",
                "1 of the requests waited because of --max-outstanding or --serial-sequences",
                "p99 needs 662 samples, there is 1",
                "2 requests waited because of --max-outstanding or --serial-sequences",
            ]
        );
        let waited = |switches| {
            let shares = Cause::ALL.map(|cause| matches!(cause, Cause::Waiting).then_some(0.5));
            Disturbance::judged(shares, switches).unwrap().to_string()
        };
        assert!(waited(1).ends_with("(1 involuntary context switch)"), "{}", waited(1));
        assert!(waited(2).ends_with("(2 involuntary context switches)"), "{}", waited(2));
    }
}
