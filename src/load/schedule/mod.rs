//! When requests are meant to leave: a sequence of intended offsets, fixed before the level starts.
//!
//! A [`Schedule`] is made from a plan and a seed and nothing else. It has no way to learn about responses, so it cannot
//! be re-based, cannot skip and cannot slow down with the server: that keeps coordinated omission out.
//!
//! Offsets are nanoseconds from the start of the level and never decrease. Generated schedules (rates) never end and
//! take constant memory; the first request leaves at offset 0. Interval lists repeat for ever and start one interval
//! after the level does, as in the example of perf_analyzer's documentation. Fixed schedules and traces are played
//! once.
//!
//! Several threads can issue one schedule: [`Schedule::share`] gives thread `t` of `T` the entries `t, t + T, t + 2T,
//! …`.

mod datetime;
mod files;
mod trace;

use std::sync::Arc;

use rand::SeedableRng;
use rand_distr::{Distribution as _, Exp1, Gamma};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::error::{Error, Result};
use crate::plan::MAX_RATE;
use crate::seed::{self, Purpose};
use crate::terms::{GapDistribution, Ramp};

pub use files::{parse_intervals, read_intervals};
pub use trace::{Lengths, Trace, parse_lengths, parse_trace, read_trace};

const NS_PER_SECOND: f64 = 1e9;
const NS_PER_MS: u64 = 1_000_000;
/// Most requests of a ramp, whose times are all made before it begins.
const MAX_RAMP: f64 = 1e7;

/// How the intended times of a level are generated.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrivals {
    /// Request `i` at `i / rate`, rounded to a nanosecond: no drift, however long the level.
    Constant {
        /// Requests a second.
        rate: f64,
    },
    /// Independent gamma-distributed gaps with mean `1 / rate`; shape 1 is a Poisson process.
    Gamma {
        /// Requests a second.
        rate: f64,
        /// Shape; the variance of a gap is `1 / (rate² · shape)`.
        shape: f64,
    },
    /// Gaps from a list, in nanoseconds, repeated. Not empty, not all zero.
    Looped(Arc<[u64]>),
    /// Offsets in nanoseconds, in order, once. Not empty.
    Once(Arc<[u64]>),
}

impl Arrivals {
    /// Arrivals at a mean rate (requests a second).
    ///
    /// # Errors
    /// If the rate is not above 0 and at most [`MAX_RATE`], or the shape of a gamma distribution is not positive.
    pub fn at_rate(rate: f64, distribution: GapDistribution) -> Result<Self> {
        if !(rate > 0.0 && rate <= MAX_RATE) {
            return Err(Error::usage(format!(
                "request rate {rate} is not usable: it must be above 0 and at most {MAX_RATE:.0} requests a second"
            )));
        }
        let shape = match distribution {
            GapDistribution::Constant => return Ok(Self::Constant { rate }),
            GapDistribution::Poisson => 1.0,
            GapDistribution::Gamma(shape) => shape,
        };
        if !(shape > 0.0 && shape.is_finite()) {
            return Err(Error::usage(format!(
                "--burstiness {shape} is not usable: the shape of the gamma distribution must be a number above 0 \
                 (1 is a Poisson process, less comes in bursts)"
            )));
        }
        Ok(Self::Gamma { rate, shape })
    }

    /// A rate that changes evenly from one value to another within `seconds`: the requests that leave at one a second are put
    /// where the ramp should have sent as many, so that gaps have the same distribution anywhere, in units of their mean.
    ///
    /// # Errors
    /// If it is empty, or has more than ten million requests; as [`Arrivals::at_rate`].
    pub fn ramp(ramp: Ramp, seconds: f64, distribution: GapDistribution, run_seed: u64) -> Result<Self> {
        let Ramp { from, to } = ramp;
        let count = ramp.mean() * seconds;
        if count > MAX_RAMP {
            return Err(Error::usage(format!(
                "--stage ramp:{from}-{to}: {count:.0} requests are too many for a ramp: at most {MAX_RAMP:.0}"
            )));
        }
        // The root of `from·t + (to - from)·t² / (2·seconds) = sent`, in the form that holds for equal rates, too.
        let when = |sent: f64| {
            let speed = (from * from + 2.0 * (to - from) * sent / seconds).max(0.0).sqrt();
            if sent == 0.0 { 0.0 } else { 2.0 * sent / (from + speed) }
        };
        let sent =
            Schedule::new(&Self::at_rate(1.0, distribution)?, run_seed).map(|offset| offset as f64 / NS_PER_SECOND);
        Self::once(
            sent.take_while(|sent| *sent < count).map(|sent| (when(sent) * NS_PER_SECOND).round() as u64).collect(),
        )
    }

    /// Gaps in nanoseconds, repeated.
    ///
    /// # Errors
    /// If the list is empty, all zero, or so long that one round does not fit 64 bits of nanoseconds.
    pub fn looped(gaps: Vec<u64>) -> Result<Self> {
        let total = gaps.iter().try_fold(0_u64, |sum, &gap| sum.checked_add(gap));
        match total {
            _ if gaps.is_empty() => Err(Error::input("there is no interval: give at least one, in microseconds")),
            None => Err(Error::input("the intervals add up to more than 584 years")),
            Some(0) => {
                Err(Error::input("every interval is zero: at least one must be longer, or the rate has no bound"))
            }
            Some(_) => Ok(Self::Looped(gaps.into())),
        }
    }

    /// Timestamps in milliseconds from the start of the level, played once.
    ///
    /// # Errors
    /// If the list is empty or not in ascending order.
    pub fn fixed_ms(timestamps: &[u64]) -> Result<Self> {
        let offsets: Option<Vec<u64>> = timestamps.iter().map(|ms| ms.checked_mul(NS_PER_MS)).collect();
        let offsets = offsets.ok_or_else(|| Error::input("a timestamp lies more than 584 years ahead"))?;
        Self::once(offsets)
    }

    /// Offsets in nanoseconds from the start of the level, played once.
    ///
    /// # Errors
    /// If the list is empty or not in ascending order.
    pub fn once(offsets: Vec<u64>) -> Result<Self> {
        if offsets.is_empty() {
            return Err(Error::input("the schedule is empty: give at least one timestamp"));
        }
        if let Some(at) = offsets.windows(2).position(|pair| pair[1] < pair[0]) {
            return Err(Error::input(format!(
                "the schedule is out of order: entry {} is due at {} ns, after entry {} at {} ns; sort it by time",
                at + 2,
                offsets[at + 1],
                at + 1,
                offsets[at]
            )));
        }
        Ok(Self::Once(offsets.into()))
    }

    /// The first `count` entries of a schedule that is played once, and the others, with their offsets unchanged.
    /// `None` if it repeats for ever or one of the parts would be empty.
    pub fn split(&self, count: usize) -> Option<(Self, Self)> {
        let Self::Once(offsets) = self else { return None };
        let (before, after) = offsets.split_at_checked(count)?;
        let once = |part: &[u64]| (!part.is_empty()).then(|| Self::Once(part.into()));
        once(before).zip(once(after))
    }

    /// The same so many times as fast, if it is played once.
    #[must_use]
    pub fn faster(&self, speed: f64) -> Self {
        match self {
            Self::Once(offsets) => Self::Once(offsets.iter().map(|offset| (*offset as f64 / speed) as u64).collect()),
            other => other.clone(),
        }
    }

    /// Mean rate in requests a second. For a schedule that is played once: its gaps by the time from the first entry to
    /// the last, 0 if all entries are due at one moment.
    pub fn mean_rate(&self) -> f64 {
        let per_second = |gaps: usize, span_ns: u64| match span_ns {
            0 => 0.0,
            _ => gaps as f64 * NS_PER_SECOND / span_ns as f64,
        };
        match self {
            Self::Constant { rate } | Self::Gamma { rate, .. } => *rate,
            Self::Looped(gaps) => per_second(gaps.len(), gaps.iter().sum()),
            Self::Once(offsets) => per_second(offsets.len() - 1, offsets[offsets.len() - 1] - offsets[0]),
        }
    }

    /// Standard deviation of the gaps as a multiple of their mean, to judge whether chance explains a missed rate; 0
    /// for constant rates and, because they are fixed, for lists.
    pub fn gap_variation(&self) -> f64 {
        match self {
            Self::Gamma { shape, .. } => shape.sqrt().recip(),
            Self::Constant { .. } | Self::Looped(_) | Self::Once(_) => 0.0,
        }
    }

    /// Number of requests in the schedule; `None` if it never ends.
    pub fn len(&self) -> Option<usize> {
        match self {
            Self::Once(offsets) => Some(offsets.len()),
            _ => None,
        }
    }

    /// Whether the schedule is empty, which constructors refuse.
    pub fn is_empty(&self) -> bool {
        self.len() == Some(0)
    }
}

/// Intended offsets in nanoseconds from the start of the level, in order; see the module's documentation.
#[derive(Clone, Debug)]
pub struct Schedule {
    source: Source,
    /// The next entry of the whole schedule.
    index: u64,
    /// Distance to the entry after it: how many threads share the schedule.
    stride: u64,
}

#[derive(Clone, Debug)]
enum Source {
    Constant {
        rate: f64,
    },
    Drawn(Draw),
    /// Offsets within a round (ends of gaps) and the length of a round.
    Looped {
        ends: Arc<[u64]>,
        round: u64,
    },
    Once(Arc<[u64]>),
}

impl Schedule {
    /// The whole schedule, for one issuing thread.
    pub fn new(arrivals: &Arrivals, run_seed: u64) -> Self {
        Self::share(arrivals, run_seed, 0, 1)
    }

    /// The entries `thread, thread + threads, thread + 2 · threads, …` of the schedule that [`Schedule::new`] gives.
    ///
    /// # Panics
    /// Where `threads` is 0 or `thread` is not below it.
    pub fn share(arrivals: &Arrivals, run_seed: u64, thread: usize, threads: usize) -> Self {
        assert!(thread < threads, "thread {thread} of {threads} does not exist");
        let source = match arrivals {
            Arrivals::Constant { rate } => Source::Constant { rate: *rate },
            Arrivals::Gamma { rate, shape } => Source::Drawn(Draw::new(*rate, *shape, run_seed)),
            Arrivals::Looped(gaps) => {
                let ends: Arc<[u64]> = gaps
                    .iter()
                    .scan(0, |end, gap| {
                        *end += gap;
                        Some(*end)
                    })
                    .collect();
                Source::Looped { round: ends[ends.len() - 1], ends }
            }
            Arrivals::Once(offsets) => Source::Once(Arc::clone(offsets)),
        };
        Self { source, index: thread as u64, stride: threads as u64 }
    }

    /// Number of the next entry in the whole schedule.
    pub fn position(&self) -> u64 {
        self.index
    }
}

impl Iterator for Schedule {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let index = self.index;
        let offset = match &mut self.source {
            Source::Constant { rate } => Some((index as f64 * NS_PER_SECOND / *rate).round() as u64),
            Source::Drawn(draw) => Some(draw.offset(index)),
            Source::Looped { ends, round } => {
                let length = ends.len() as u64;
                Some((index / length).saturating_mul(*round).saturating_add(ends[(index % length) as usize]))
            }
            Source::Once(offsets) => offsets.get(index as usize).copied(),
        }?;
        self.index += self.stride;
        Some(offset)
    }
}

/// Random gaps, drawn one by one. Threads that share a schedule each draw all of it, at a few nanoseconds per entry, so
/// that they need no communication.
#[derive(Clone, Debug)]
struct Draw {
    random: Xoshiro256PlusPlus,
    gap: Gap,
    mean_ns: f64,
    /// Entry that `offset_ns` belongs to.
    entry: u64,
    offset_ns: f64,
}

/// Gap distributions with mean 1.
#[derive(Clone, Copy, Debug)]
enum Gap {
    Exponential,
    Gamma(Gamma<f64>),
}

impl Draw {
    fn new(rate: f64, shape: f64, run_seed: u64) -> Self {
        let gap = match Gamma::new(shape, 1.0 / shape) {
            Ok(gamma) if shape != 1.0 => Gap::Gamma(gamma),
            _ => Gap::Exponential,
        };
        let random = Xoshiro256PlusPlus::seed_from_u64(seed::derive(run_seed, Purpose::Gaps));
        Self { random, gap, mean_ns: NS_PER_SECOND / rate, entry: 0, offset_ns: 0.0 }
    }

    fn offset(&mut self, index: u64) -> u64 {
        while self.entry < index {
            let gap: f64 = match self.gap {
                Gap::Exponential => Exp1.sample(&mut self.random),
                Gap::Gamma(gamma) => gamma.sample(&mut self.random),
            };
            self.offset_ns += gap * self.mean_ns;
            self.entry += 1;
        }
        self.offset_ns.round() as u64
    }
}

#[cfg(test)]
mod tests;
