//! A periodic load that several processes share: a batch joins when those before it have had their responses, wherever
//! these were sent.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::error::Result;
use crate::interrupt;
use crate::load::{BatchProgress, RunningLoad};
use crate::measure::beats::{Beats, State};
use crate::ranks::Ranks;

/// Between two beats: what all have reached is waited for.
const BETWEEN: Duration = Duration::from_millis(2);
/// How often it is looked for one that is under way.
const LOOK: Duration = Duration::from_millis(1);

/// Tells the load the progress of all, until it has ended in all processes, or one was interrupted, which is passed to
/// `interrupts`.
///
/// # Errors
/// A process is lost, or cannot continue; or the launcher ends this one.
pub fn follow(ranks: &Ranks, running: &RunningLoad, progress: &BatchProgress, interrupts: &AtomicUsize) -> Result<()> {
    let mut beats = Beats::<()>::new(ranks).every(BETWEEN);
    loop {
        let own = || State {
            requests: progress.here() as u64,
            interrupted: interrupt::counter().load(Ordering::Relaxed) > 0,
            broken: running.is_stranded(),
            leaves: running.is_finished(),
            ..State::default()
        };
        if let Some(all) = beats.poll(own)? {
            let reached: u64 = all.iter().map(|state| state.requests).sum();
            progress.tell_all(usize::try_from(reached).unwrap_or(usize::MAX));
            if all.iter().any(|state| state.interrupted) {
                interrupts.fetch_max(1, Ordering::Relaxed);
                return Ok(());
            }
            if all.iter().all(|state| state.leaves) || all.iter().any(|state| state.broken) {
                return Ok(());
            }
        }
        thread::sleep(LOOK);
    }
}
