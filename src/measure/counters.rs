//! Reads the server's counters beside the load. A reading may take longer than a window (a slow network, an ensemble of
//! many models), so a separate thread waits for it, and windows end on time.

use std::collections::VecDeque;
use std::thread::{self, Scope};
use std::time::Duration;

use crossbeam::channel::{Receiver, Sender, TryRecvError, bounded};

use crate::backend::Backend;
use crate::clock::Stamp;
use crate::error::{Error, Result};
use crate::measure::disagreement::STABLE_WINDOWS;
use crate::measure::server::read_statistics;
use crate::model::ModelSpec;
use crate::model::statistics::StatisticsSnapshot;

/// So many of the latest readings are kept: those of the windows that make a result, and some for readings that took longer
/// than a window.
const RECENT: usize = 3 * (STABLE_WINDOWS + 1);

/// Counters of another time than the windows' are said to be, once they differ by more than this share of it.
const SPAN_TOLERANCE: f64 = 0.05;

/// The server's counters at a moment.
#[derive(Clone)]
struct Reading {
    /// The middle of the exchange that brought them.
    at: Stamp,
    counters: StatisticsSnapshot,
}

/// The result of a reading; nothing if the server does not answer but may come back.
type Come = Result<Option<Reading>>;

/// What the server counted over some windows, as nearly as its readings tell.
#[derive(Clone)]
pub(super) struct Counted {
    /// Differences of its counters.
    pub(super) delta: StatisticsSnapshot,
    /// The time between the two readings, where that is not the windows'.
    pub(super) other_span: Option<Duration>,
}

/// Reads the server's counters when asked, one reading at a time.
pub(super) struct Counters {
    /// Absent where the server keeps none.
    thread: Option<(Sender<()>, Receiver<Come>)>,
    under_way: bool,
    /// The last wish came while a reading was under way.
    missed: bool,
    first: Option<Reading>,
    recent: VecDeque<Reading>,
}

impl Counters {
    /// Starts the thread that reads the counters of `specs`, which ends with the value.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(super) fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        backend: &'scope dyn Backend,
        specs: &'scope [ModelSpec],
    ) -> Result<Self> {
        let mut counters = Self { thread: None, under_way: false, missed: false, first: None, recent: VecDeque::new() };
        if !backend.capabilities().statistics {
            return Ok(counters);
        }
        let ((ask, asked), (tell, told)) = (bounded::<()>(1), bounded(1));
        let read = move || {
            for () in asked {
                if tell.send(read(backend, specs)).is_err() {
                    return;
                }
            }
        };
        let failed = |error| Error::machine(format!("a thread for the server's statistics cannot be started: {error}"));
        thread::Builder::new().name("statistics".to_owned()).spawn_scoped(scope, read).map_err(failed)?;
        counters.thread = Some((ask, told));
        Ok(counters)
    }

    /// Takes counters that were read at `at` by other means for a reading.
    pub(super) fn add(&mut self, at: Stamp, counters: StatisticsSnapshot) {
        self.keep(Reading { at, counters });
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
            Some((_, told)) if self.under_way => told.try_recv(),
            _ => return Ok(true),
        };
        match come {
            Ok(reading) => self.take(reading).map(|()| true),
            Err(TryRecvError::Empty) => Ok(false),
            Err(TryRecvError::Disconnected) => self.take(Err(broken())).map(|()| true),
        }
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
            Some((_, told)) if self.under_way => told.recv(),
            _ => return Ok(()),
        };
        self.take(come.unwrap_or_else(|_| Err(broken())))
    }

    /// What was counted over the windows from `start` to `end`, by the readings nearest to these; `None` if there are not
    /// two.
    pub(super) fn between(&self, start: Stamp, end: Stamp) -> Option<Counted> {
        let all = || self.first.iter().chain(&self.recent);
        let pairs = all().flat_map(|before| all().map(move |after| (before, after)));
        let ordered = pairs.filter(|(before, after)| before.at < after.at);
        let (before, after) =
            ordered.min_by_key(|(before, after)| distance(before.at, start) + distance(after.at, end))?;
        let (span, windows) = (after.at - before.at, end - start);
        let off = (span.as_secs_f64() - windows.as_secs_f64()).abs();
        let is_other = off > SPAN_TOLERANCE * windows.as_secs_f64();
        Some(Counted { delta: after.counters.since(&before.counters), other_span: is_other.then_some(span) })
    }

    fn take(&mut self, come: Come) -> Result<()> {
        self.under_way = false;
        if let Some(reading) = come? {
            self.keep(reading);
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

fn read(backend: &dyn Backend, specs: &[ModelSpec]) -> Come {
    let begun = Stamp::now();
    let counters = read_statistics(backend, specs)?;
    let at = begun.plus(Stamp::now().since(begun) / 2);
    Ok(counters.map(|counters| Reading { at, counters }))
}

/// The thread has panicked, and said so on standard error.
fn broken() -> Error {
    Error::server("the thread that reads the server's statistics has ended")
}

fn distance(one: Stamp, other: Stamp) -> u64 {
    one.since(other).max(other.since(one))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::statistics::ModelStatistics;

    /// Readings at these milliseconds, each of which counts its time.
    fn read_at(milliseconds: &[u64]) -> Counters {
        let mut counters =
            Counters { thread: None, under_way: false, missed: false, first: None, recent: VecDeque::new() };
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
        let counted = read_at(milliseconds).between(at(start), at(end))?;
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
    fn old_readings_are_forgotten_but_the_first() {
        let each: Vec<u64> = (0..100).map(|number| number * 10).collect();
        assert_eq!(counted(&each, 0, 990), Some((990, None)));
        assert_eq!(read_at(&each).recent.len(), RECENT);
    }
}
