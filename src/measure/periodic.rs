//! A periodic load: waits for its end. Where several processes share it, a batch joins when those before it have had their
//! responses, wherever these were sent.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::breaker::Breaker;
use crate::clock::Stamp;
use crate::error::Result;
use crate::heartbeat::{Heartbeat, Progress};
use crate::interrupt;
use crate::load::{BatchProgress, RunningLoad};
use crate::record::Recorder;
use crate::waiting::{try_wait, wait};
use ::ranks::Ranks;

/// Between two exchanges: what all have reached is waited for.
const INTERVAL: Duration = Duration::from_millis(2);
/// How often it is looked for one that is under way.
const EXCHANGE_POLL: Duration = Duration::from_millis(1);
/// How often to check whether a load of this process alone has ended.
const POLL: Duration = Duration::from_millis(5);

/// A periodic load under way.
pub struct PeriodicRun<'a> {
    /// The load.
    pub running: &'a RunningLoad,
    /// Where it records.
    pub recorder: &'a Recorder,
    /// Ends it where too many requests fail.
    pub breaker: &'a Breaker<'a>,
    /// Interrupts are passed on to this.
    pub interrupts: &'a AtomicUsize,
}

impl PeriodicRun<'_> {
    /// Waits until the load has ended in this process, was interrupted, or fails too often. Calls `turn` in between.
    pub fn wait_for_end(&self, mut turn: impl FnMut()) {
        wait(|| {
            // Unlike with separate loads, no other code forwards the interrupt.
            self.interrupts.fetch_max(interrupt::counter().load(Ordering::Relaxed).min(1), Ordering::Relaxed);
            // In this order: the last requests may all have failed.
            let is_over = self.running.is_finished() || self.interrupts.load(Ordering::Relaxed) > 0;
            if self.fails() || is_over {
                return ControlFlow::Break(());
            }
            turn();
            ControlFlow::Continue(POLL)
        });
    }

    /// Tells the load the progress of all, until it has ended in all processes, one was interrupted, or it fails too often.
    ///
    /// # Errors
    /// A process is lost, or cannot continue; or the launcher ends this one.
    pub fn follow(&self, ranks: &Ranks, progress: &BatchProgress) -> Result<()> {
        let mut heartbeat = Heartbeat::<()>::every(INTERVAL, ranks, self.breaker);
        try_wait(|| {
            self.fails();
            let local_progress = || Progress {
                requests: progress.here() as u64,
                broken: self.running.is_stranded(),
                done: self.running.is_finished(),
                ..Progress::default()
            };
            let Some(all) = heartbeat.poll(local_progress)? else { return Ok(ControlFlow::Continue(EXCHANGE_POLL)) };
            let reached: u64 = all.iter().map(|rank| rank.requests).sum();
            progress.set_total(usize::try_from(reached).unwrap_or(usize::MAX));
            if all.iter().any(|rank| rank.interrupted) {
                self.interrupts.fetch_max(1, Ordering::Relaxed);
                return Ok(ControlFlow::Break(()));
            }
            let is_over = all.iter().all(|rank| rank.done)
                || all.iter().any(|rank| rank.broken)
                || self.breaker.is_open_for_all();
            Ok(if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(EXCHANGE_POLL) })
        })
        .inspect_err(|error| ranks.break_off(error))
    }

    /// Counts the requests that are over; whether too many of them have failed.
    fn fails(&self) -> bool {
        self.breaker.poll(Stamp::now(), self.recorder.completed(), self.recorder.failed_in_a_row())
    }
}
