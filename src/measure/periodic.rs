//! A periodic load: waits for its end. Where several processes share it, a batch joins when those before it have had their
//! responses, wherever these were sent.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::error::Result;
use crate::heartbeat::{Heartbeat, Progress};
use crate::interrupt;
use crate::load::{BatchProgress, RunningLoad};
use crate::waiting::{try_wait, wait};
use ::ranks::Ranks;

/// Between two exchanges: what all have reached is waited for.
const INTERVAL: Duration = Duration::from_millis(2);
/// How often it is looked for one that is under way.
const EXCHANGE_POLL: Duration = Duration::from_millis(1);
/// How often to check whether a load of this process alone has ended.
const POLL: Duration = Duration::from_millis(5);

/// Waits until the load has ended in this process, or was interrupted, which is passed to `interrupts`. Calls `turn` in
/// between.
pub fn wait_for_end(running: &RunningLoad, interrupts: &AtomicUsize, mut turn: impl FnMut()) {
    wait(|| {
        // Unlike with separate loads, no other code forwards the interrupt.
        interrupts.fetch_max(interrupt::counter().load(Ordering::Relaxed).min(1), Ordering::Relaxed);
        if running.is_finished() || interrupts.load(Ordering::Relaxed) > 0 {
            return ControlFlow::Break(());
        }
        turn();
        ControlFlow::Continue(POLL)
    });
}

/// Tells the load the progress of all, until it has ended in all processes, or one was interrupted, which is passed to
/// `interrupts`.
///
/// # Errors
/// A process is lost, or cannot continue; or the launcher ends this one.
pub fn follow(ranks: &Ranks, running: &RunningLoad, progress: &BatchProgress, interrupts: &AtomicUsize) -> Result<()> {
    let mut heartbeat = Heartbeat::<()>::every(INTERVAL, ranks);
    try_wait(|| {
        let local_progress = || Progress {
            requests: progress.here() as u64,
            broken: running.is_stranded(),
            done: running.is_finished(),
            ..Progress::default()
        };
        let Some(all) = heartbeat.poll(local_progress)? else { return Ok(ControlFlow::Continue(EXCHANGE_POLL)) };
        let reached: u64 = all.iter().map(|rank| rank.requests).sum();
        progress.set_total(usize::try_from(reached).unwrap_or(usize::MAX));
        if all.iter().any(|rank| rank.interrupted) {
            interrupts.fetch_max(1, Ordering::Relaxed);
            return Ok(ControlFlow::Break(()));
        }
        let is_over = all.iter().all(|rank| rank.done) || all.iter().any(|rank| rank.broken);
        Ok(if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(EXCHANGE_POLL) })
    })
    .inspect_err(|error| ranks.break_off(error))
}
