//! The load of one level with all decisions made: shape, request streams, threads, when it ends.

use std::ops::Range;
use std::time::Duration;

use crate::affinity::client_processors;
use crate::app::session::{RequestStreams, Session};
use crate::backend::Capabilities;
use crate::data::ConversationTurns;
use crate::error::Result;
use crate::load::closed;
use crate::load::input_source::EntryAssignment;
use crate::load::open::issuing_threads;
use crate::load::pace::DEFAULT_SPIN;
use crate::load::schedule::Arrivals;
use crate::load::{ClosedLoop, LoadShape, OpenLoop, SessionLoop, TurnLoop};
use crate::measure::sending::Sending;
use crate::result::summary::LevelLoad;
use crate::terms::{GapDistribution, Stage, StageLength, StageLoad};

/// A level's load.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its name in reports.
    pub load: LevelLoad,
    /// How requests leave.
    pub shape: LoadShape,
    /// How its requests are assigned.
    pub request_streams: RequestStreams,
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
        let job = Self::outstanding(session, concurrency, session.setup.synchronous);
        job.in_turns(session, concurrency as usize, None)
    }

    /// Keeps a number of requests outstanding from threads that do not wait, whatever the plan says.
    pub fn burst(session: &Session, concurrency: u32) -> Self {
        Self::outstanding(session, concurrency, false)
    }

    fn outstanding(session: &Session, concurrency: u32, synchronous: bool) -> Self {
        let plan = &session.plan;
        let (whole, part) = (concurrency as usize, plan.load.ranks.part);
        let outstanding = part.share(whole);
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
            request_streams: RequestStreams {
                whole,
                part,
                ..RequestStreams::new(outstanding, EntryAssignment::OnDemand)
            },
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
        let part = base.request_streams.part;
        let shape = SessionLoop {
            concurrency: part.share(concurrency as usize),
            max_threads: base.issuers,
            sessions: session.conversations.clone(),
            first: 0,
            count: session.conversations.len(),
            rate: None,
            part,
        };
        Self { shape: LoadShape::Sessions(shape), quota: None, finite: true, ..base }
    }

    /// Runs the conversations of a stage, each played once: all at a time where `concurrency` is 0.
    pub fn some_sessions(session: &Session, conversations: Range<usize>, concurrency: u32, rate: Option<f64>) -> Self {
        let (first, count) = (conversations.start, conversations.len());
        let at_a_time = if concurrency == 0 { count.max(1) } else { concurrency as usize };
        let job = Self::sessions(session, u32::try_from(at_a_time).unwrap_or(u32::MAX));
        match job.shape {
            LoadShape::Sessions(shape) => {
                Self { shape: LoadShape::Sessions(SessionLoop { first, count, rate, ..shape }), ..job }
            }
            shape => Self { shape, ..job },
        }
    }

    /// The same load, if requests are turns of conversations that take turns: at most `outstanding` of them.
    fn in_turns(self, session: &Session, outstanding: usize, arrivals: Option<(Arrivals, u64)>) -> Self {
        if session.conversations.is_empty() {
            return self;
        }
        let endless = session
            .plan
            .data
            .source
            .conversations()
            .is_some_and(|conversations| conversations.turns == ConversationTurns::Endless);
        let sessions = session.conversations.clone();
        let shape = TurnLoop { sessions, endless, outstanding, arrivals, until: None };
        Self { shape: LoadShape::Turns(shape), issuers: 1, ..self }
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

    /// Keeps so many streams going, each of which sends a request every `interval`: together a rate, whose requests they take
    /// in turn.
    ///
    /// # Errors
    /// If that rate is out of range.
    pub fn paced(session: &Session, streams: u32, interval: Duration) -> Result<Self> {
        let rate = f64::from(streams) / interval.as_secs_f64();
        let arrivals = Arrivals::at_rate(rate, GapDistribution::Constant)?;
        Ok(Self::open(session, LevelLoad::Streams(streams), arrivals))
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
                let request_streams = RequestStreams { first_entry, ..after.request_streams };
                Self { request_streams, warm_up: Some(Box::new(play(before))), ..after }
            }
            None => play(arrivals),
        }
    }

    /// A stage's load; stages before it have `begun` that many conversations.
    ///
    /// # Errors
    /// As [`Job::rate`].
    pub fn stage(session: &Session, stage: &Stage, distribution: GapDistribution, begun: &mut usize) -> Result<Self> {
        match stage.load {
            StageLoad::Concurrency(concurrency) => Ok(Self::closed(session, concurrency)),
            StageLoad::RequestRate(rate) => Self::rate(session, rate, distribution),
            StageLoad::Ramp(ramp) => {
                let seconds = match stage.length {
                    StageLength::Time(time) => time.as_secs_f64(),
                    StageLength::Requests(count) | StageLength::Sessions(Some(count)) => count as f64 / ramp.mean(),
                    StageLength::Sessions(None) | StageLength::Recorded => 0.0,
                };
                let arrivals = Arrivals::ramp(ramp, seconds, distribution, session.plan.seed)?;
                Ok(Self::open(session, LevelLoad::Schedule(arrivals.mean_rate()), arrivals))
            }
            StageLoad::Replay { speed } => {
                let whole = session.schedule();
                let first = match stage.length {
                    StageLength::Requests(count) => whole.split(usize::try_from(count).unwrap_or(usize::MAX)),
                    _ => None,
                };
                let arrivals = first.map_or(whole, |(first, _)| first).faster(speed);
                Ok(Self::open(session, LevelLoad::Schedule(arrivals.mean_rate()), arrivals))
            }
            StageLoad::Sessions { concurrency, rate } => {
                let left = session.conversations.len().saturating_sub(*begun);
                let count = match stage.length {
                    StageLength::Sessions(Some(count)) => left.min(usize::try_from(count).unwrap_or(usize::MAX)),
                    _ => left,
                };
                let first = std::mem::replace(begun, *begun + count);
                Ok(Self::some_sessions(session, first..*begun, concurrency, rate))
            }
        }
    }

    /// The same load in a stage, which has its own part of the generated conversations that take turns.
    pub fn in_stage(mut self, session: &Session, number: usize) -> Self {
        let stages = session.plan.load.stages_of_turns() as usize;
        if let LoadShape::Turns(shape) = &mut self.shape
            && let Some(part) = shape.sessions.chunks(shape.sessions.len().div_ceil(stages)).nth(number)
            && !shape.endless
            && session.plan.data.source.conversations().is_some()
        {
            shape.sessions = part.into();
        }
        self
    }

    fn open(session: &Session, load: LevelLoad, arrivals: Arrivals) -> Self {
        let plan = &session.plan;
        let sequences = session.setup.sequences;
        let threading = session.backend.capabilities().threading;
        let part = plan.load.ranks.part;
        let streams = if let LevelLoad::Streams(streams) = load { Some(streams as usize) } else { None };
        let concurrent = streams.unwrap_or(plan.load.sequences.concurrent);
        let most_threads = match sequences {
            // The same number in every process, so that they take turns.
            true => plan.load.max_threads.min((concurrent / part.size).max(1)),
            false => plan.load.max_threads,
        };
        let in_turns = (arrivals.clone(), plan.seed);
        let max_outstanding = plan.load.max_outstanding.unwrap_or_else(|| session.most_outstanding());
        let threads = issuing_threads(arrivals.mean_rate() / part.size as f64, most_threads, threading);
        let threads = streams.map_or(threads, |streams| evenly(streams / part.size, threads));
        let length = arrivals.len().map(|length| length as u64);
        let shape = OpenLoop {
            arrivals,
            seed: plan.seed,
            threads,
            max_outstanding,
            serial: sequences && plan.load.sequences.serial && streams.is_none(),
            part,
            until: None,
            spin: DEFAULT_SPIN,
        };
        let quota = plan.measurement.request_count;
        let whole = match sequences {
            // The data are one sequence, whose steps have their times.
            true if plan.load.mode.is_fixed_schedule() => 1,
            true => concurrent,
            false => threads * part.size,
        };
        let job = Self {
            load,
            shape: shape.into(),
            request_streams: RequestStreams {
                whole,
                part,
                ..RequestStreams::new(part.share(whole), EntryAssignment::InStep)
            },
            issuers: threads,
            quota,
            finite: quota.is_some() || length.is_some(),
            gap_variation: 0.0,
            warm_up: None,
        };
        job.in_turns(session, max_outstanding, Some(in_turns))
    }

    /// Intended sends a second, in open loops.
    pub fn requested_rate(&self) -> Option<f64> {
        match self.load {
            LevelLoad::Concurrency(_) => None,
            LevelLoad::RequestRate(rate) | LevelLoad::Schedule(rate) => Some(rate),
            LevelLoad::Streams(_) => match &self.shape {
                LoadShape::Open(shape) => Some(shape.arrivals.mean_rate()),
                _ => None,
            },
        }
    }

    /// How many of `requests` this process sends alone. The threads of a schedule know their own parts.
    pub fn local_requests(&self, requests: u64) -> u64 {
        if self.is_open() { requests } else { self.request_streams.part.of_many(requests) }
    }

    /// How long an open loop sends, if the number of its requests is known.
    pub fn sending(&self) -> Option<Sending> {
        if !self.is_open() {
            return None;
        }
        match self.load {
            LevelLoad::RequestRate(_) | LevelLoad::Streams(_) => {
                Duration::try_from_secs_f64(self.quota? as f64 / self.requested_rate()?).ok().map(Sending::steady)
            }
            _ => match &self.shape {
                LoadShape::Open(shape) => Sending::of_times(shape.times(self.requests()?)),
                _ => None,
            },
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
        match &self.shape {
            LoadShape::Open(_) => true,
            LoadShape::Turns(shape) => shape.arrivals.is_some(),
            _ => false,
        }
    }
}

/// How many threads, at most `most`, have equally many of the streams: each sends its streams' requests in turn.
fn evenly(streams: usize, most: usize) -> usize {
    (1..=most).rev().find(|threads| streams.is_multiple_of(*threads)).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_have_equally_many_streams() {
        let found = [(12, 4), (9, 4), (7, 4), (7, 8), (1, 4), (4, 1)].map(|(streams, most)| evenly(streams, most));
        assert_eq!(found, [4, 3, 1, 7, 1, 1]);
    }
}
