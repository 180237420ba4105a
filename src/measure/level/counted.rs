//! Windows of a number of requests, of a load that several processes share. Only all of them together know how many
//! there are, so they report while the window is open; it ends a moment after all know that it is complete.

use std::collections::VecDeque;
use std::thread;
use std::time::Duration;

use crate::clock::{Stamp, TimeSpan};
use crate::error::Result;
use crate::measure::beats::{Beats, State};
use crate::measure::level::{COUNT_POLL, GRACE, Trials};
use crate::measure::metrics::MetricsFold;
use crate::measure::ranks::{EarlyEnd, Told};
use crate::measure::summary::Ending;
use crate::ranks::Ranks;

/// A window ends this long after all have reported their progress.
const LEAD: Duration = Duration::from_millis(50);

/// Minimum length of a window of requests: a few fast requests fit into one time slice of a thread, and such windows
/// never agree.
const COUNT_WINDOW_LEAST: Duration = Duration::from_millis(500);
/// The same for perf_analyzer's, by its documentation.
const UPSTREAM_COUNT_WINDOW_LEAST: Duration = Duration::from_secs(1);

/// What is exchanged about windows.
struct Talk<'a> {
    beats: Beats<'a, Told>,
    /// The server's metrics of windows that not all have reported.
    readings: VecDeque<Option<MetricsFold>>,
    /// Requests that a window has at least.
    requests: u64,
}

impl Trials<'_> {
    /// Windows that abut, the first from `start` on, until those of all together agree or there are enough.
    pub(super) fn until_counts_agree(&mut self, ranks: &Ranks, requests: u64, start: Stamp) -> Result<Ending> {
        let mut talk = Talk { beats: Beats::new(ranks), readings: VecDeque::new(), requests };
        let mut start = start;
        self.open_first(start, Stamp::NEVER);
        for number in 0.. {
            let end = match self.count_together(ranks, &mut talk, number, start)? {
                (Some(ending), _) => return Ok(ending),
                (None, end) => end,
            };
            self.counters.ask();
            thread::sleep(GRACE);
            let (window, disturbance) = self.cut(TimeSpan { start, end }, Stamp::NEVER, |_, _| ());
            let early_end = EarlyEnd { interrupted: self.is_interrupted_here(), broken: self.is_broken() };
            talk.beats.tell(Told::of(ranks, &window, disturbance, early_end));
            talk.readings.push_back(window.readings);
            self.boundaries.push(end);
            start = end;
        }
        Ok(Ending::Unstable)
    }

    /// Waits for the end of window `number`, which began at `start`, and meanwhile processes what all have reported
    /// about earlier ones. Returns what the level ends with, or when the window ended.
    fn count_together(
        &mut self,
        ranks: &Ranks,
        talk: &mut Talk<'_>,
        number: usize,
        start: Stamp,
    ) -> Result<(Option<Ending>, Stamp)> {
        let mut end_is_known = false;
        loop {
            self.running.settle_if_stranded();
            self.counters.poll()?;
            if let Some(states) = talk.beats.poll(|| self.state(number, start))? {
                while let Some(told) = talk.beats.take() {
                    let readings = talk.readings.pop_front().flatten();
                    if let Some(ending) = self.hear(ranks, told, readings) {
                        return Ok((Some(ending), start));
                    }
                }
                if !end_is_known && is_over(&states, number, talk.requests) {
                    end_is_known = true;
                    self.slicer.end_at(&self.run.recorder, talk.beats.after(&states, LEAD));
                }
            }
            if let Some(end) = self.slicer.poll(&self.run.recorder, &self.run.facts, self.measurement.watcher) {
                return Ok((None, end));
            }
            self.measurement.watcher.progress(&|| self.moment(Some(self.history.closed() + 1), start));
            let looks = self.under_way.get().and(self.running.under_way());
            self.under_way.set(looks);
            thread::sleep(looks.uneven(COUNT_POLL).min(self.slicer.end().from_now()));
        }
    }

    fn state(&self, number: usize, start: Stamp) -> State {
        State {
            over: number,
            requests: self.run.recorder.completed().all(),
            long_enough: self.is_long_enough(start),
            interrupted: self.is_interrupted_here(),
            broken: self.is_broken(),
            ..State::default()
        }
    }

    /// Whether a window of requests that began at `start` has reached its least length.
    pub(super) fn is_long_enough(&self, start: Stamp) -> bool {
        let long = self.measurement.plan.long_count_windows;
        Stamp::now() - start >= if long { UPSTREAM_COUNT_WINDOW_LEAST } else { COUNT_WINDOW_LEAST }
    }

    fn is_broken(&self) -> bool {
        self.running.is_stranded() || self.running.is_finished() || self.fails_too_often()
    }
}

/// Whether the window with that number ends: all processes are in it, and together they have what it needs, or one
/// cannot continue. It follows from what all have said, and from nothing else, so that all find the same.
fn is_over(states: &[State], number: usize, requests: u64) -> bool {
    let is_full = states.iter().map(|state| state.requests).sum::<u64>() >= requests
        && states.iter().all(|state| state.long_enough);
    let ends_early = states.iter().any(|state| state.interrupted || state.broken);
    states.iter().all(|state| state.over == number) && (is_full || ends_early)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_over_when_all_together_have_its_requests() {
        let state = |over, requests| State { over, requests, long_enough: true, ..State::default() };
        let is_over = |states: &[State]| is_over(states, 3, 100);
        assert!(is_over(&[state(3, 60), state(3, 40)]));
        let late = State { long_enough: false, ..state(3, 40) };
        assert!(!is_over(&[state(3, 60), late]), "one has opened it later than the other");
        assert!(!is_over(&[state(3, 60), state(3, 39)]));
        assert!(!is_over(&[state(3, 60), state(2, 90)]), "one still has the window before");
        let interrupted = State { interrupted: true, ..late };
        assert!(is_over(&[state(3, 1), interrupted]));
    }
}
