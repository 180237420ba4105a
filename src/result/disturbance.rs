//! What others took from a window: the hypervisor, other processes, a quota, a processor that had to slow down.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What may disturb a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The hypervisor gave the processors to other machines.
    Steal,
    /// Other processes had processors.
    Others,
    /// Our threads waited while other processes ran.
    Waiting,
    /// The quota of a control group stopped us.
    Throttled,
    /// The processors ran slower than before, against their governor.
    Slowed,
}

impl Cause {
    /// All of them, gravest first.
    pub const ALL: [Self; 5] = [Self::Steal, Self::Throttled, Self::Others, Self::Waiting, Self::Slowed];

    /// A short stable word for machine-readable output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Steal => "steal",
            Self::Others => "other_processes",
            Self::Waiting => "waiting",
            Self::Throttled => "throttled",
            Self::Slowed => "slowed",
        }
    }

    /// Up to this share a window counts as its own. A quiet machine stays far below: daemons take less than 2 % of two
    /// processors, a quiet host steals less than 1 %.
    const fn allowed(self) -> f64 {
        match self {
            // Of the time that processors were wanted.
            Self::Steal => 0.05,
            // Of all that the processors could do, as the next. On many of them, threads find another one to run on.
            Self::Waiting => 0.05,
            // Where nobody of ours waits this matters less.
            Self::Others => 0.2,
            // A quota throttles for tens of milliseconds at a time: every such pause is in the latencies.
            Self::Throttled => 0.01,
            // All processors together run up to a quarter slower than one of them alone.
            Self::Slowed => 0.3,
        }
    }
}

/// How much other processes and the system disturbed a window, or the maximum over several windows: shares from 0 to 1,
/// and only those that count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Disturbance {
    /// By cause, in the order of [`Cause::ALL`].
    shares: [f64; Cause::ALL.len()],
    /// How often one of our threads was preempted.
    pub switches: u64,
}

impl Disturbance {
    /// Why it counts, gravest first, and how much of the window that was, 0 to 1.
    pub fn causes(&self) -> impl Iterator<Item = (Cause, f64)> {
        Cause::ALL.into_iter().zip(self.shares).filter(|(_, share)| *share > 0.0)
    }

    /// One of a single cause.
    #[cfg(any(test, feature = "testing"))]
    pub fn new(cause: Cause, share: f64) -> Self {
        Self { shares: Cause::ALL.map(|candidate| if candidate == cause { share } else { 0.0 }), switches: 0 }
    }

    /// Of each cause the larger share.
    #[must_use]
    pub fn worst(mut self, other: &Self) -> Self {
        self.shares.iter_mut().zip(other.shares).for_each(|(share, other)| *share = share.max(other));
        self.switches = self.switches.max(other.switches);
        self
    }

    /// What the shares come to, where one of them is more than is allowed.
    pub fn judged(shares: [Option<f64>; Cause::ALL.len()], switches: u64) -> Option<Self> {
        let mut found = Self { switches, ..Self::default() };
        for (slot, (cause, share)) in found.shares.iter_mut().zip(Cause::ALL.into_iter().zip(shares)) {
            *slot = share.filter(|share| *share > cause.allowed()).unwrap_or(0.0);
        }
        found.causes().next().is_some().then_some(found)
    }
}

impl fmt::Display for Disturbance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (cause, share)) in self.causes().enumerate() {
            f.write_str(if number == 0 { "" } else { ", " })?;
            let percent = (share * 100.0).round();
            match cause {
                Cause::Steal => write!(f, "the hypervisor took {percent}% of the processors' time")?,
                Cause::Others => write!(f, "other processes used {percent}% of the processors")?,
                Cause::Waiting => {
                    let is_reported = self.causes().any(|(cause, _)| cause == Cause::Others);
                    if is_reported {
                        write!(f, "{percent}% while our threads waited")?;
                    } else {
                        write!(f, "other processes used {percent}% of the processors while our threads waited")?;
                    }
                    let ending = if self.switches == 1 { "" } else { "es" };
                    write!(f, " ({} involuntary context switch{ending})", self.switches)?;
                }
                Cause::Throttled => write!(f, "a control group's quota throttled us {percent}% of the time")?,
                Cause::Slowed => write!(f, "the processors ran {percent}% slower than before")?,
            }
        }
        Ok(())
    }
}
