//! A load that ends by itself: one window, from its first request to its last answer.

use std::ops::ControlFlow;
use std::thread;

use crate::backlog::{BacklogTrend, settle};
use crate::clock::{Stamp, TimeSpan};
use crate::cost::CostMeter;
use crate::error::Result;
use crate::level::{COUNT_POLL, Trials, WINDOW_POLL};
use crate::measurement::Outlook;
use crate::result::summary::{ClientSummary, Distribution, Ending};
use crate::slicer::Slicer;
use crate::stall::{LONGEST_SILENCE, say_given_up};
use crate::stdio::note;
use crate::waiting::{GRACE, Sampled, Sampler, try_wait};

/// After the whole time so far over this a load is looked at again.
const LOOKS: u32 = 64;

impl Trials<'_> {
    /// One window over the whole load, which ends by itself.
    pub(super) fn until_finished(&mut self) -> Result<Ending> {
        if let Some((at, counters)) = &self.run.baseline {
            self.counters.add(*at, counters.clone());
        }
        drop(self.measurement.readings());
        self.sentry.prepare();
        self.sentry.edge();
        self.cost = self.run.tracing.cost.then(CostMeter::begin);
        let start = self.running.started();
        self.boundaries.push(start);
        let load = Sampled { run: self.run, load: self.running };
        self.sampler = Sampler::of_whole(Slicer::new(start, Stamp::NEVER), load, BacklogTrend::new(self.run.sending));
        try_wait(|| {
            // In this order: the last requests may all have failed.
            let is_over = self.running.is_finished() || self.is_interrupted();
            let sample = self.look(start)?;
            let outlook = Outlook::planned(self.run.requests);
            let fails = self.measurement.fails_too_often(&self.run.recorder, start, outlook);
            if fails && !is_over && !self.measurement.breaker.is_open() {
                self.say_it_fails();
            }
            if fails || is_over {
                return Ok(ControlFlow::Break(()));
            }
            if sample.silence >= LONGEST_SILENCE {
                say_given_up(sample.silence);
                self.running.give_up();
                return Ok(ControlFlow::Break(()));
            }
            // When it ended is known whenever that is seen: the longer it takes, the less it matters to see it at once.
            let about = (Stamp::now() - start) / LOOKS;
            Ok(ControlFlow::Continue(self.sampler.pause(about.clamp(COUNT_POLL, WINDOW_POLL))))
        })?;
        self.running.settle_if_stranded();
        // What was recorded after the open block's end belongs to the load, too.
        let now = self.end_now();
        self.run.recorder.take_back();
        let end = self.running.ended().unwrap_or(now);
        if self.measurement.joint().is_none() {
            self.counters.ask();
        }
        thread::sleep(GRACE);
        let (running, trend) = (self.running, self.sampler.trend());
        let complete =
            |client: &mut ClientSummary, early: Option<&Distribution>| settle(client, running, &trend, early);
        let (window, disturbance) = self.cut(TimeSpan { start, end }, Stamp::NEVER, complete);
        self.boundaries.push(end);
        self.whole(window, disturbance)
    }

    /// Why fewer requests are sent than were asked for.
    fn say_it_fails(&self) {
        let completed = self.run.recorder.completed();
        let before = self.run.requests.map(|all| format!(" before all {all} requests are sent")).unwrap_or_default();
        note!(
            "{} of {} requests failed, more than --max-errors allows: the load ends{before}",
            completed.failed,
            completed.all()
        );
    }
}
