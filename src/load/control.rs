//! [`Control`]: starts and stops a load's workers, and collects their counts.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crossbeam::utils::CachePadded;

use crate::clock::Stamp;

/// Shared state of a load's workers.
pub(super) struct Control {
    pub(super) stop: AtomicBool,
    /// When waiting for outstanding requests ends; set when the load is stopped.
    pub(super) give_up_at: AtomicU64,
    pub(super) quota: Option<AtomicI64>,
    pub(super) ready: AtomicUsize,
    pub(super) go: AtomicBool,
    pub(super) broken: AtomicBool,
    /// When the level starts; offsets of schedules count from here.
    pub(super) started: AtomicU64,
    /// Outstanding requests, in open loops and of conversations.
    pub(super) under_way: CachePadded<AtomicI64>,
    pub(super) held_back: AtomicU64,
    /// Workers of a schedule with an end that have not sent everything that is due before it.
    pub(super) behind: AtomicUsize,
    /// When the last request was over, or the last worker ended its load.
    pub(super) ended: AtomicU64,
    /// First and last send of a schedule.
    pub(super) first_sent: AtomicU64,
    pub(super) last_sent: AtomicU64,
    /// When the quota was used up, or the load told to stop; 0 before.
    pub(super) closed: AtomicU64,
    /// Workers that have sent their part of a schedule.
    pub(super) played: AtomicUsize,
    /// Requests sent by schedules, without those that end sequences.
    pub(super) scheduled: AtomicU64,
    pub(super) sent: AtomicU64,
    pub(super) completed: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) outstanding: AtomicU64,
}

impl Control {
    pub(super) fn new(quota: Option<u64>) -> Self {
        Self {
            stop: AtomicBool::new(false),
            give_up_at: AtomicU64::new(Stamp::NEVER.0),
            quota: quota.map(|quota| AtomicI64::new(i64::try_from(quota).unwrap_or(i64::MAX))),
            ready: AtomicUsize::new(0),
            go: AtomicBool::new(false),
            broken: AtomicBool::new(false),
            started: AtomicU64::new(0),
            under_way: CachePadded::default(),
            held_back: AtomicU64::new(0),
            behind: AtomicUsize::new(0),
            first_sent: AtomicU64::new(Stamp::NEVER.0),
            last_sent: AtomicU64::new(0),
            closed: AtomicU64::new(0),
            played: AtomicUsize::new(0),
            scheduled: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            completed: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            outstanding: AtomicU64::new(0),
        }
    }

    /// Whether another request may be sent; counts it against the quota.
    #[inline]
    pub(super) fn may_send(&self) -> bool {
        if self.stop.load(Ordering::Relaxed) {
            return false;
        }
        let Some(quota) = &self.quota else { return true };
        let left = quota.fetch_sub(1, Ordering::Relaxed);
        if left == 1 {
            self.note_close();
        }
        left > 0
    }

    /// No request is sent from now on, or none after this one.
    #[cold]
    pub(super) fn note_close(&self) {
        let _ = self.closed.compare_exchange(0, Stamp::now().0, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Whether no further request will be sent.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.quota.as_ref().is_some_and(|quota| quota.load(Ordering::Relaxed) <= 0)
    }

    /// Whether the load was told to stop.
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// When the level starts. Known once [`Control::wait_for_go`] has returned.
    pub(super) fn started(&self) -> Stamp {
        Stamp(self.started.load(Ordering::Acquire))
    }

    /// An open loop or a conversation issued a request.
    #[inline]
    pub(super) fn note_issue(&self) {
        self.under_way.fetch_add(1, Ordering::Relaxed);
    }

    /// A request of an open loop or a conversation is over.
    #[inline]
    pub(super) fn note_end(&self) {
        self.under_way.fetch_sub(1, Ordering::Relaxed);
    }

    /// An open loop had no slot for a request that was due.
    pub(super) fn note_held_back(&self) {
        self.held_back.fetch_add(1, Ordering::Relaxed);
    }

    /// A worker has sent everything that is due before its schedule's end.
    pub(super) fn note_caught_up(&self) {
        self.behind.fetch_sub(1, Ordering::AcqRel);
    }

    /// Whether the load was stopped so long ago that nothing waits for outstanding requests any more.
    pub(super) fn has_given_up(&self) -> bool {
        self.stop.load(Ordering::Relaxed) && Stamp::now().0 >= self.give_up_at.load(Ordering::Acquire)
    }

    /// Called by a worker that is ready to send: waits until all are.
    pub(super) fn wait_for_go(&self) -> bool {
        self.ready.fetch_add(1, Ordering::AcqRel);
        while !self.go.load(Ordering::Acquire) {
            // The starter unparks as well; a prepared load may wait for long, beside one that is being measured.
            thread::park_timeout(Duration::from_millis(50));
        }
        !self.stop.load(Ordering::Acquire)
    }

    /// Called by a worker whose client broke.
    pub(super) fn report_broken(&self) {
        self.broken.store(true, Ordering::Release);
    }

    /// Called by an open loop's worker at the end of its schedule: its first and last send, and their number.
    pub(super) fn report_sends(&self, sends: Option<(Stamp, Stamp)>, count: u64) {
        if let Some((first, last)) = sends {
            self.scheduled.fetch_add(count, Ordering::AcqRel);
            self.first_sent.fetch_min(first.0, Ordering::AcqRel);
            self.last_sent.fetch_max(last.0, Ordering::AcqRel);
        }
        self.played.fetch_add(1, Ordering::AcqRel);
    }

    /// Called by a worker as its last act: how many requests it sent, and how many of them succeeded and failed.
    pub(super) fn report_end(&self, sent: u64, completed: u64, failed: u64, ended: Stamp) {
        self.sent.fetch_add(sent, Ordering::AcqRel);
        self.completed.fetch_add(completed, Ordering::AcqRel);
        self.failed.fetch_add(failed, Ordering::AcqRel);
        self.outstanding.fetch_add(sent - completed - failed, Ordering::AcqRel);
        self.ended.fetch_max(ended.0, Ordering::AcqRel);
    }
}
