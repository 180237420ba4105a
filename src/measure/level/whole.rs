//! A load that ends by itself: one window, from its first request to its last answer.

use std::thread;
use std::time::Duration;

use crate::clock::{Stamp, TimeSpan};
use crate::error::Result;
use crate::machine::pauses::Vigil;
use crate::measure::backlog::{BacklogTrend, settle};
use crate::measure::cost::CostMeter;
use crate::measure::level::{COUNT_POLL, GRACE, Trials};
use crate::measure::slicer::Slicer;
use crate::measure::stall::{LONGEST_SILENCE, StallWatch, say_given_up};
use crate::measure::summary::{ClientSummary, Distribution, Ending};

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
        self.slicer = Slicer::new(start, Stamp::NEVER);
        self.slicer.put_off(self.run.recorder.end_window(self.slicer.end()));
        let mut trend = BacklogTrend::of(self.run.sending);
        let mut stall = StallWatch::of(self.run.load, self.run.recorder.spec().sessions);
        self.run.recorder.keep_early(start.plus_duration(trend.early_until()));
        let (mut silence, mut vigil) = (Duration::ZERO, Vigil::begin());
        loop {
            if silence >= LONGEST_SILENCE {
                say_given_up(silence);
                self.running.give_up();
                break;
            }
            // In this order: the last requests may all have failed.
            let is_over = self.running.is_finished() || self.is_interrupted();
            if self.measurement.fails_too_often(&self.run.recorder, start, self.run.requests) || is_over {
                break;
            }
            let (elapsed, completed) = (Stamp::now() - start, self.run.recorder.completed().all());
            trend.poll(elapsed, self.running.under_way());
            self.slicer.poll(&self.run.recorder, &self.run.facts, self.measurement.watcher);
            silence = stall.poll(elapsed, completed, self.running.under_way());
            self.measurement.watcher.progress(&|| self.moment(None, start));
            vigil.sleep(COUNT_POLL);
        }
        self.running.settle_if_stranded();
        // What was recorded after the open block's end belongs to the load, too.
        let now = self.end_now();
        let end = self.running.ended().unwrap_or(now);
        self.counters.ask();
        thread::sleep(GRACE);
        let running = self.running;
        let complete =
            |client: &mut ClientSummary, early: Option<&Distribution>| settle(client, running, &trend, early);
        let (window, disturbance) = self.cut(TimeSpan { start, end }, Stamp::NEVER, complete);
        self.boundaries.push(end);
        self.whole(window, disturbance)
    }
}
