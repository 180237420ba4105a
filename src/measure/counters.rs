//! Reads the server's counters beside the load. A reading may take longer than a window (a slow network, an ensemble of
//! many models), so a separate thread waits for it, and windows end on time.

use std::collections::VecDeque;
use std::thread::{self, Scope};
use std::time::Duration;

use crossbeam::channel::{Receiver, Sender, TryRecvError, bounded};

use crate::backend::Backend;
use crate::clock::Stamp;
use crate::error::{Error, Result};
use crate::model::ModelSpec;
use crate::model::statistics::StatisticsSnapshot;
use crate::result::remark::{Remark, RemarkKind};
use crate::result::summary::{ClientSummary, ServerSummary};
use crate::server::read_statistics;

/// A server that tells nothing for so long is busy: one that refuses says so at once.
const LATE: Duration = Duration::from_secs(1);
/// So many of the latest readings are kept, for windows that make a result. They take a few hundred bytes a model.
const RECENT: usize = 128;

/// Counters of another time than the windows' are said to be, once they differ by more than this share of it.
const SPAN_TOLERANCE: f64 = 0.05;

/// The server's count and the client's may differ by this share: requests that the client gave up, and the ends of windows.
const COUNT_TOLERANCE: f64 = 0.1;

/// Where the readings are of another time than the windows, the load may have been so many times as fast then on a busy machine.
const OTHER_PACE: f64 = 3.0;

/// The server's counters at a moment.
#[derive(Clone)]
struct Reading {
    /// The middle of the exchange that brought them.
    at: Stamp,
    /// How long the exchange took.
    took: Duration,
    counters: StatisticsSnapshot,
}

/// An exchange with the server that was to bring its counters.
struct Exchange {
    begun: Stamp,
    took: Duration,
    /// Nothing if the server does not answer but may come back.
    brought: Result<Option<StatisticsSnapshot>>,
}

/// What the server counted over some windows, as nearly as its readings tell.
#[derive(Clone)]
pub(super) struct Counted {
    /// Differences of its counters.
    pub(super) delta: StatisticsSnapshot,
    /// The time between the two readings, where that is not the windows'.
    pub(super) other_span: Option<Duration>,
    /// By how much the moments of the two readings differ from the windows' start and end, together.
    pub(super) off: Duration,
}

impl Counted {
    /// Of a load that is a single window: nothing but the load happened between its edges and the readings.
    pub(super) fn of_whole_load(self) -> Self {
        Self { other_span: None, off: Duration::ZERO, ..self }
    }

    /// Of windows that lasted this long together, where others lie between them that were measured again.
    pub(super) fn of_windows(self, measured: Duration, first_to_last: Duration) -> Self {
        let is_other = first_to_last.as_secs_f64() > (1.0 + SPAN_TOLERANCE) * measured.as_secs_f64();
        Self { other_span: self.other_span.or(is_other.then_some(first_to_last)), ..self }
    }

    /// What there is to say if the server's count, of which `server` is the load's only model, cannot be of the client's
    /// requests. Its readings are not of the windows' edges. Decoupled models count otherwise.
    pub(super) fn remark(&self, client: &ClientSummary, server: &ServerSummary) -> Option<Remark> {
        if client.decoupled.is_some() || server.several_versions || client.completed() == 0 {
            return None;
        }
        let (delta, completed) = (&server.delta, client.completed());
        let fail = delta.fail.count;
        // A request that fails in a step of an ensemble is counted there, and for the ensemble: twice.
        let failed = if server.composing.is_empty() { fail } else { fail.min(client.failed).max(fail.div_ceil(2)) };
        let counted = match delta.success.count.saturating_add(failed) {
            // Some servers count nothing but inferences.
            0 => delta.inferences / client.batch_size.max(1),
            requests => requests,
        };
        let rate = client.request_rate();
        let slack = COUNT_TOLERANCE * completed as f64 + rate * client.service_time().mean_ns() / 1e9 + 2.0;
        let (least, most) = match self.other_span {
            // Of another stretch of a load whose pace may change.
            Some(span) => {
                let expected = rate * span.as_secs_f64();
                (expected / OTHER_PACE - slack, expected * OTHER_PACE + slack + client.failed as f64)
            }
            None => {
                let slack = slack + rate * self.off.as_secs_f64();
                (client.requests as f64 - slack, completed as f64 + slack)
            }
        };
        // In whatever time, as many requests are no others' than the client's.
        let as_many = counted.abs_diff(completed) as f64 <= COUNT_TOLERANCE * completed as f64;
        if as_many || (least..=most).contains(&(counted as f64)) {
            return None;
        }
        let text = format!(
            "the server counted {counted} requests for model '{}' while the client counted {completed}: another client, \
             several servers behind one address, or a restart; the server's figures are not those of these requests",
            server.name
        );
        Some(Remark { kind: RemarkKind::ServerCounts, count: counted, total: Some(completed), text })
    }
}

/// Reads the server's counters when asked, one reading at a time.
pub(super) struct Counters {
    /// Absent where the server keeps none.
    thread: Option<(Sender<()>, Receiver<Exchange>)>,
    under_way: bool,
    /// The last wish came while a reading was under way.
    missed: bool,
    /// How long the last exchange took, whatever it brought.
    last_took: Duration,
    first: Option<Reading>,
    recent: VecDeque<Reading>,
}

impl Counters {
    /// No readings, and nobody to make any.
    fn without_thread() -> Self {
        let recent = VecDeque::new();
        Self { thread: None, under_way: false, missed: false, last_took: Duration::ZERO, first: None, recent }
    }

    /// Starts the thread that reads the counters of `specs`, which ends with the value.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(super) fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        backend: &'scope dyn Backend,
        specs: &'scope [ModelSpec],
    ) -> Result<Self> {
        let mut counters = Self::without_thread();
        if !backend.capabilities().statistics {
            return Ok(counters);
        }
        let ((ask, asked), (respond, replies)) = (bounded::<()>(1), bounded(1));
        let read = move || {
            for () in asked {
                if respond.send(Exchange::with(backend, specs)).is_err() {
                    return;
                }
            }
        };
        let failed = |error| Error::machine(format!("a thread for the server's statistics cannot be started: {error}"));
        thread::Builder::new().name("statistics".to_owned()).spawn_scoped(scope, read).map_err(failed)?;
        counters.thread = Some((ask, replies));
        Ok(counters)
    }

    /// Takes counters that were read at `at` by other means for a reading.
    pub(super) fn add(&mut self, at: Stamp, counters: StatisticsSnapshot) {
        self.keep(Reading { at, took: Duration::ZERO, counters });
    }

    /// Begins a reading. Where the one before is still under way, that has to do.
    pub(super) fn ask(&mut self) {
        let Some((ask, _)) = &self.thread else { return };
        self.missed = self.under_way;
        if !self.under_way {
            self.under_way = ask.send(()).is_ok();
        }
    }

    /// Takes the reading that has come, if one has; returns whether none is under way.
    ///
    /// # Errors
    /// If the server refuses to tell its counters, or cannot be reached.
    pub(super) fn poll(&mut self) -> Result<bool> {
        let come = match &self.thread {
            Some((_, replies)) if self.under_way => replies.try_recv(),
            _ => return Ok(true),
        };
        match come {
            Ok(exchange) => self.take(exchange).map(|()| true),
            Err(TryRecvError::Empty) => Ok(false),
            Err(TryRecvError::Disconnected) => self.take(Exchange::broken()).map(|()| true),
        }
    }

    /// Whether a reading that has just failed took so long that the server has too much to do, and did not refuse it. When its
    /// failure is noticed says nothing: nobody looks while a rank waits for others.
    pub(super) fn was_late(&self) -> bool {
        self.last_took >= LATE
    }

    /// Waits until every wish has been read.
    ///
    /// # Errors
    /// As [`Counters::poll`].
    pub(super) fn wait(&mut self) -> Result<()> {
        self.wait_for_one()?;
        if self.missed {
            self.ask();
            self.wait_for_one()?;
        }
        Ok(())
    }

    fn wait_for_one(&mut self) -> Result<()> {
        let come = match &self.thread {
            Some((_, replies)) if self.under_way => replies.recv(),
            _ => return Ok(()),
        };
        self.take(come.unwrap_or_else(|_| Exchange::broken()))
    }

    /// What was counted over the windows from `start` to `end`, by the readings nearest to these; `None` if there are not
    /// two.
    pub(super) fn difference(&self, start: Stamp, end: Stamp) -> Option<Counted> {
        let all = || self.first.iter().chain(&self.recent);
        let pairs = all().flat_map(|before| all().map(move |after| (before, after)));
        let ordered = pairs.filter(|(before, after)| before.at < after.at);
        // Two readings on one side of a short time are nearer to it than one on either side, and tell nothing of it.
        let reaches = |(before, after): &(&Reading, &Reading)| before.at < end && after.at > start;
        let off = |(before, after): &(&Reading, &Reading)| distance(before.at, start) + distance(after.at, end);
        let (before, after) = ordered.min_by_key(|pair| (!reaches(pair), off(pair)))?;
        let (span, windows) = (after.at - before.at, end - start);
        let off = (span.as_secs_f64() - windows.as_secs_f64()).abs();
        let is_other = off > SPAN_TOLERANCE * windows.as_secs_f64();
        let shift = Duration::from_nanos(distance(before.at, start) + distance(after.at, end));
        let delta = after.counters.since(&before.counters);
        Some(Counted { delta, other_span: is_other.then_some(span), off: shift + before.took + after.took })
    }

    fn take(&mut self, exchange: Exchange) -> Result<()> {
        let Exchange { begun, took, brought } = exchange;
        self.under_way = false;
        self.last_took = took;
        if let Some(counters) = brought? {
            self.keep(Reading { at: begun.plus_duration(took / 2), took, counters });
        }
        Ok(())
    }

    fn keep(&mut self, reading: Reading) {
        if self.first.is_none() {
            self.first = Some(reading);
            return;
        }
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(reading);
    }
}

impl Exchange {
    fn with(backend: &dyn Backend, specs: &[ModelSpec]) -> Self {
        let begun = Stamp::now();
        let brought = read_statistics(backend, specs);
        Self { begun, took: Stamp::now() - begun, brought }
    }

    /// What comes where the thread has panicked, and has said so on standard error.
    fn broken() -> Self {
        let brought = Err(Error::server("the thread that reads the server's statistics has ended"));
        Self { begun: Stamp::now(), took: Duration::ZERO, brought }
    }
}

fn distance(left: Stamp, right: Stamp) -> u64 {
    left.since(right).max(right.since(left))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::statistics::{CountedTime, ModelStatistics};
    use crate::result::summary::sample;

    /// Readings at these milliseconds, each of which counts its time.
    fn read_at(milliseconds: &[u64]) -> Counters {
        let mut counters = Counters::without_thread();
        for &executions in milliseconds {
            let statistics = ModelStatistics { executions, ..ModelStatistics::default() };
            let models = [(("m".to_owned(), "1".to_owned()), statistics)].into();
            counters.add(at(executions), StatisticsSnapshot { models });
        }
        counters
    }

    fn at(ms: u64) -> Stamp {
        Stamp(ms * 1_000_000)
    }

    fn counted(milliseconds: &[u64], start: u64, end: u64) -> Option<(u64, Option<u64>)> {
        let counted = read_at(milliseconds).difference(at(start), at(end))?;
        let executions = counted.delta.models.values().next().unwrap().executions;
        Some((executions, counted.other_span.map(|span| span.as_millis() as u64)))
    }

    #[test]
    fn the_readings_nearest_to_both_edges_count() {
        assert_eq!(counted(&[0, 505, 1_010, 1_500, 2_005], 500, 2_000), Some((1_500, None)));
        assert_eq!(counted(&[0, 900, 1_800, 2_700], 1_000, 2_500), Some((1_800, Some(1_800))), "of another time");
        // A load that ends before its counters can be read should still have some.
        assert_eq!(counted(&[7, 12], 10, 11), Some((5, Some(5))));
        assert_eq!(counted(&[7], 10, 11), None);
    }

    #[test]
    fn a_refusal_that_is_noticed_late_came_in_time() {
        let mut counters = read_at(&[]);
        let mut fails_after = |took: Duration| {
            let begun = at(0);
            let failed = counters.take(Exchange { begun, took, brought: Err(Error::server("refused")) });
            failed.is_err() && counters.was_late()
        };
        assert_eq!([Duration::from_millis(1), LATE].map(&mut fails_after), [false, true]);
    }

    #[test]
    fn old_readings_are_forgotten_but_the_first() {
        let times: Vec<u64> = (0..1000).map(|number| number * 10).collect();
        assert_eq!(counted(&times, 0, 9_990), Some((9_990, None)));
        assert_eq!(read_at(&times).recent.len(), RECENT);
    }

    #[test]
    fn windows_with_others_between_them_are_not_counted_alone() {
        let counted = || Counted { delta: StatisticsSnapshot::default(), other_span: None, off: Duration::ZERO };
        let of = |seconds| counted().of_windows(Duration::from_secs(2), Duration::from_secs(seconds)).other_span;
        assert_eq!([of(2), of(5)], [None, Some(Duration::from_secs(5))]);
    }

    fn contradicts(client: &ClientSummary, success: u64, fail: u64, off_ms: u64) -> bool {
        let off = Duration::from_millis(off_ms);
        let counted = Counted { delta: StatisticsSnapshot::default(), other_span: None, off };
        says(&counted, client, success, fail)
    }

    fn says(counted: &Counted, client: &ClientSummary, success: u64, fail: u64) -> bool {
        counted.remark(client, &server(success, fail)).is_some()
    }

    fn server(success: u64, fail: u64) -> ServerSummary {
        let at = |count| CountedTime { count, ns: 0 };
        ServerSummary {
            name: "m".to_owned(),
            version: "1".to_owned(),
            delta: ModelStatistics { success: at(success), fail: at(fail), ..ModelStatistics::default() },
            cached: false,
            several_versions: false,
            composing: Vec::new(),
        }
    }

    #[test]
    fn an_ensemble_counts_a_failed_step_twice() {
        let client = ClientSummary { failed: 800, ..sample::client(1600, 1_000_000) };
        let counted = Counted { delta: StatisticsSnapshot::default(), other_span: None, off: Duration::from_millis(5) };
        let remark = |fail: u64, composing: Vec<ServerSummary>| {
            let ensemble = ServerSummary { composing, ..server(1600, fail) };
            counted.remark(&client, &ensemble).is_some()
        };
        let step = || vec![server(1600, 800)];
        assert!(!remark(1600, step()) && !remark(800, step()), "its own requests");
        assert!(remark(3000, step()), "another's as well");
        assert!(remark(1600, Vec::new()), "a model that calls no other counts once");
    }

    #[test]
    fn counts_that_cannot_be_of_the_same_requests_are_said() {
        // A thousand a second, of a millisecond each.
        let client = sample::client(1000, 1_000_000);
        for counted in [0, 82, 500, 2000] {
            assert!(contradicts(&client, counted, 0, 5), "{counted}");
        }
        for counted in [901, 1000, 1099] {
            assert!(!contradicts(&client, counted, 0, 5), "{counted}");
        }
        assert!(!contradicts(&client, 1300, 0, 250), "read a quarter of a second apart");
        let half = Duration::from_millis(500);
        let late = Counted { delta: StatisticsSnapshot::default(), other_span: Some(half), off: half };
        for counted in [150, 500, 1500] {
            assert!(!says(&late, &client, counted, 0), "{counted} in half the time, on a machine whose pace changes");
        }
        assert!(says(&late, &client, 0, 0) && says(&late, &client, 3000, 0));
        let longer = Counted { other_span: Some(Duration::from_secs(9)), ..late };
        assert!(!says(&longer, &client, 1000, 0), "as many as the client's");
        assert!(says(&longer, &client, 500, 0));
        let failing = ClientSummary { failed: 1000, ..client.clone() };
        assert!(
            !contradicts(&failing, 1000, 1000, 0) && !contradicts(&failing, 1000, 0, 0),
            "what the server never saw"
        );
        assert!(!contradicts(&failing, 2000, 0, 0), "what the client found wanting");
        assert!(contradicts(&failing, 2600, 0, 0));
        let few = sample::client(2, 400_000_000);
        assert!(!contradicts(&few, 0, 0, 5) && !contradicts(&few, 4, 0, 5), "too few to tell");
    }
}
