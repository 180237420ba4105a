//! The load of one level with all decisions made: shape, lanes, threads, when it ends.

use std::time::Duration;

use crate::affinity::client_processors;
use crate::app::session::{Lanes, Session};
use crate::backend::Capabilities;
use crate::error::Result;
use crate::load::closed;
use crate::load::feed::Deal;
use crate::load::open::issuing_threads;
use crate::load::pace::DEFAULT_SPIN;
use crate::load::schedule::Arrivals;
use crate::load::{ClosedLoop, LoadShape, OpenLoop, SessionLoop};
use crate::measure::sending::Sending;
use crate::measure::summary::LevelLoad;
use crate::plan::{GapDistribution, Stage, StageLength, StageLoad};

/// A level's load.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its name in reports.
    pub load: LevelLoad,
    /// How requests leave.
    pub shape: LoadShape,
    /// How its requests are dealt.
    pub lanes: Lanes,
    /// Threads that issue.
    pub issuers: usize,
    /// Total number of requests; unlimited if absent.
    pub quota: Option<u64>,
    /// Whether the load ends by itself.
    pub finite: bool,
    /// Standard deviation of the gaps between intended sends, as a multiple of their mean.
    pub gap_variation: f64,
    /// The load of the warm-up, if it differs from this one.
    pub warm_up: Option<Box<Job>>,
}

impl Job {
    /// Keeps a number of requests outstanding.
    pub fn closed(session: &Session, concurrency: u32) -> Self {
        Self::outstanding(session, concurrency, session.setup.synchronous)
    }

    /// Keeps a number of requests outstanding from threads that do not wait, whatever the plan says.
    pub fn burst(session: &Session, concurrency: u32) -> Self {
        Self::outstanding(session, concurrency, false)
    }

    fn outstanding(session: &Session, concurrency: u32, synchronous: bool) -> Self {
        let plan = &session.plan;
        let (whole, part) = (concurrency as usize, plan.load.ranks.part);
        let outstanding = part.of(whole);
        let Capabilities { threading, cancels_alone, .. } = session.backend.capabilities();
        // If a request can be cancelled only while it is alone on its thread, each should have its own thread.
        let processors = match plan.data.cancel_after.is_some() && cancels_alone {
            true => usize::MAX,
            false => client_processors(plan.load.worker_cpus.as_deref()),
        };
        let max_threads = closed::issuing_threads(plan.load.max_threads, threading, processors);
        Self {
            load: LevelLoad::Concurrency(concurrency),
            shape: ClosedLoop { concurrency: outstanding, max_threads, synchronous }.into(),
            lanes: Lanes { whole, part, ..Lanes::new(outstanding, Deal::OnDemand) },
            issuers: if synchronous { outstanding } else { outstanding.min(max_threads) },
            quota: plan.measurement.request_count,
            finite: plan.measurement.request_count.is_some(),
            gap_variation: 0.0,
            warm_up: None,
        }
    }

    /// Runs a number of conversations at a time, each played once.
    pub fn sessions(session: &Session, concurrency: u32) -> Self {
        let base = Self::outstanding(session, concurrency, false);
        let part = base.lanes.part;
        let shape = SessionLoop {
            concurrency: part.of(concurrency as usize),
            max_threads: base.issuers,
            sessions: session.conversations.clone(),
            part,
        };
        Self { shape: LoadShape::Sessions(shape), quota: None, finite: true, ..base }
    }

    /// Sends a number of requests a second.
    ///
    /// # Errors
    /// If the rate or the distribution is out of range.
    pub fn rate(session: &Session, rate: f64, distribution: GapDistribution) -> Result<Self> {
        let arrivals = Arrivals::at_rate(rate, distribution)?;
        let gap_variation = arrivals.gap_variation();
        Ok(Self { gap_variation, ..Self::open(session, LevelLoad::RequestRate(rate), arrivals) })
    }

    /// Sends requests at given times. In a schedule that is played once, the first requests are the warm-up; the others
    /// keep their times and their data.
    pub fn schedule(session: &Session, arrivals: Arrivals) -> Self {
        let play = |arrivals: Arrivals| {
            let load = LevelLoad::Schedule(arrivals.mean_rate());
            Self::open(session, load, arrivals)
        };
        let first_entry = session.plan.measurement.warmup_requests;
        match arrivals.split(usize::try_from(first_entry).unwrap_or(usize::MAX)) {
            Some((before, after)) => {
                let after = play(after);
                let lanes = Lanes { first_entry, ..after.lanes };
                Self { lanes, warm_up: Some(Box::new(play(before))), ..after }
            }
            None => play(arrivals),
        }
    }

    /// A stage's load.
    ///
    /// # Errors
    /// As [`Job::rate`].
    pub fn stage(session: &Session, stage: &Stage, distribution: GapDistribution) -> Result<Self> {
        match stage.load {
            StageLoad::Concurrency(concurrency) => Ok(Self::closed(session, concurrency)),
            StageLoad::RequestRate(rate) => Self::rate(session, rate, distribution),
            StageLoad::Ramp(ramp) => {
                let seconds = match stage.length {
                    StageLength::Time(time) => time.as_secs_f64(),
                    StageLength::Requests(requests) => requests as f64 / ramp.mean(),
                };
                let arrivals = Arrivals::ramp(ramp, seconds, distribution, session.plan.seed)?;
                Ok(Self::open(session, LevelLoad::Schedule(arrivals.mean_rate()), arrivals))
            }
        }
    }

    fn open(session: &Session, load: LevelLoad, arrivals: Arrivals) -> Self {
        let plan = &session.plan;
        let sequences = session.setup.sequences;
        let threading = session.backend.capabilities().threading;
        let part = plan.load.ranks.part;
        let most_threads = match sequences {
            // The same number in every process, so that they take turns.
            true => plan.load.max_threads.min((plan.load.sequences.concurrent / part.size).max(1)),
            false => plan.load.max_threads,
        };
        let threads = issuing_threads(arrivals.mean_rate() / part.size as f64, most_threads, threading);
        let length = arrivals.len().map(|length| length as u64);
        let shape = OpenLoop {
            arrivals,
            seed: plan.seed,
            threads,
            max_outstanding: plan.load.max_outstanding.unwrap_or_else(|| session.most_outstanding()),
            serial: sequences && plan.load.sequences.serial,
            part,
            until: None,
            spin: DEFAULT_SPIN,
        };
        let quota = plan.measurement.request_count;
        let whole = match sequences {
            // The data are one sequence, whose steps have their times.
            true if plan.load.mode.is_fixed_schedule() => 1,
            true => plan.load.sequences.concurrent,
            false => threads * part.size,
        };
        Self {
            load,
            shape: shape.into(),
            lanes: Lanes { whole, part, ..Lanes::new(part.of(whole), Deal::InStep) },
            issuers: threads,
            quota,
            finite: quota.is_some() || length.is_some(),
            gap_variation: 0.0,
            warm_up: None,
        }
    }

    /// Intended sends a second, in open loops.
    pub fn requested_rate(&self) -> Option<f64> {
        match self.load {
            LevelLoad::Concurrency(_) => None,
            LevelLoad::RequestRate(rate) | LevelLoad::Schedule(rate) => Some(rate),
        }
    }

    /// How many of `requests` this process sends alone. The threads of a schedule know their own parts.
    pub fn own(&self, requests: u64) -> u64 {
        if self.is_open() { requests } else { self.lanes.part.of_many(requests) }
    }

    /// How long an open loop sends, if the number of its requests is known.
    pub fn sending(&self) -> Option<Sending> {
        let LoadShape::Open(shape) = &self.shape else { return None };
        match self.load {
            LevelLoad::RequestRate(rate) => {
                Duration::try_from_secs_f64(self.quota? as f64 / rate).ok().map(Sending::steady)
            }
            _ => Sending::of_times(shape.times(self.requests()?)),
        }
    }

    /// Number of requests of the whole load, if it ends by itself.
    pub fn requests(&self) -> Option<u64> {
        let LoadShape::Open(shape) = &self.shape else { return self.quota };
        self.quota.or_else(|| shape.arrivals.len().map(|length| length as u64))
    }

    /// Whether each request has a waiting thread.
    pub fn is_synchronous(&self) -> bool {
        matches!(&self.shape, LoadShape::Closed(closed) if closed.synchronous)
    }

    /// Whether requests follow a schedule.
    pub fn is_open(&self) -> bool {
        matches!(self.shape, LoadShape::Open(_))
    }
}
