//! Which level is measured next: linear or binary search, as a state machine that knows only whether a level passed.

use crate::terms::{LevelValue, Range};

/// The outcome of a level, as far as the search needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Stable and within the latency threshold.
    Pass,
    /// Unstable, above the latency threshold, or failed.
    Fail,
}

/// The levels of a range, in the order in which they are measured.
///
/// *Linear*: start, start + step, … to the end (without one, for ever), until a level fails. *Binary*: first the start,
/// which must pass; then the end, which is the answer if it passes; then halves between the highest level that passed
/// and the lowest that failed, until these are no further apart than the step.
#[derive(Clone, Debug)]
pub struct Search<T> {
    range: Range<T>,
    state: State<T>,
}

#[derive(Clone, Copy, Debug)]
enum State<T> {
    Linear { index: u32 },
    BinaryStart,
    BinaryEnd { end: T },
    Halving { low: T, high: T, tried: T },
    Done,
}

impl<T: LevelValue> Search<T> {
    /// A search over `range`. A binary search needs an end; without one it is linear.
    pub fn new(range: Range<T>, binary: bool) -> Self {
        let state = if binary && range.end.is_some() { State::BinaryStart } else { State::Linear { index: 0 } };
        Self { range, state }
    }

    /// The next level to measure, given the outcome of the previous one (`None` before the first); `None` at the end.
    pub fn next(&mut self, last: Option<Outcome>) -> Option<T> {
        let Some(outcome) = last else {
            return Some(self.range.start);
        };
        let (state, level) = match self.state {
            State::Linear { index } => self.after_linear(index, outcome),
            State::BinaryStart => self.after_start(outcome),
            State::BinaryEnd { end } => self.after_end(end, outcome),
            State::Halving { low, high, tried } => match outcome {
                Outcome::Pass => self.halve(tried, high),
                Outcome::Fail => self.halve(low, tried),
            },
            State::Done => (State::Done, None),
        };
        self.state = state;
        level
    }

    fn after_linear(&self, index: u32, outcome: Outcome) -> (State<T>, Option<T>) {
        if outcome == Outcome::Fail {
            return (State::Done, None);
        }
        match self.range.nth(index + 1) {
            Some(level) => (State::Linear { index: index + 1 }, Some(level)),
            None => (State::Done, None),
        }
    }

    fn after_start(&self, outcome: Outcome) -> (State<T>, Option<T>) {
        match self.range.end {
            Some(end) if outcome == Outcome::Pass => {
                if end > self.range.start {
                    (State::BinaryEnd { end }, Some(end))
                } else {
                    (State::Done, None)
                }
            }
            _ => (State::Done, None),
        }
    }

    fn after_end(&self, end: T, outcome: Outcome) -> (State<T>, Option<T>) {
        if outcome == Outcome::Pass {
            return (State::Done, None);
        }
        self.halve(self.range.start, end)
    }

    fn halve(&self, low: T, high: T) -> (State<T>, Option<T>) {
        if !T::apart(low, high, self.range.step) {
            return (State::Done, None);
        }
        let tried = T::middle(low, high);
        (State::Halving { low, high, tried }, Some(tried))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a search where levels up to `knee` pass; gives the levels and the highest that passed.
    fn run<T: LevelValue>(range: Range<T>, binary: bool, knee: T) -> (Vec<T>, Option<T>) {
        let mut search = Search::new(range, binary);
        let (mut levels, mut last) = (Vec::new(), None);
        while let Some(level) = search.next(last) {
            levels.push(level);
            assert!(levels.len() <= 1000, "the search does not end");
            last = Some(if level <= knee { Outcome::Pass } else { Outcome::Fail });
        }
        let best = levels.iter().copied().filter(|&level| level <= knee).reduce(|a, b| if a > b { a } else { b });
        (levels, best)
    }

    fn range<T>(start: T, end: Option<T>, step: T) -> Range<T> {
        Range::with_step(start, end, step)
    }

    #[test]
    fn levels_are_counted_where_they_are_known() {
        for (start, end, step) in [(1, 8, 1), (1, 8, 3), (4, 4, 1), (5, 4, 1), (1, 10_000, 7)] {
            let range = range(start, Some(end), step);
            assert_eq!(range.levels(false), Some(run_long(range.clone())), "{range:?}");
        }
        assert_eq!(range(0.1, Some(0.5), 0.1).levels(false), Some(5));
        assert_eq!((range(1, None, 1).levels(false), range(1, Some(1 << 20), 1).levels(false)), (None, None));
        assert_eq!((range(1, Some(8), 1).levels(true), range(8, Some(8), 1).levels(true)), (None, Some(1)));
    }

    #[test]
    fn levels_are_counted_without_walking_through_them() {
        assert_eq!((range(1, Some(u32::MAX), 1).count(), range(2, Some(9), 3).count()), (u32::MAX as usize, 3));
        assert_eq!((range(5, Some(5), 1).count(), range(5, Some(4), 1).count(), range(5, None, 1).count()), (1, 0, 0));
        assert_eq!((range(0.1, Some(0.3), 0.1).count(), range(1.0, Some(10.0), 0.1).count()), (3, 91));
        assert_eq!(range(100.0, Some(200.0), 1e-300).count(), usize::MAX);
        let listed = Range { listed: vec![1, 2, 4], ..range(1, Some(4), 1) };
        assert_eq!(listed.count(), 3);
    }

    /// How many levels a search has where all pass.
    fn run_long(range: Range<u32>) -> usize {
        let mut search = Search::new(range, false);
        let first = search.next(None);
        std::iter::successors(first, |_| search.next(Some(Outcome::Pass))).count()
    }

    #[test]
    fn linear_walks_to_the_end() {
        assert_eq!(run(range(1, Some(4), 1), false, 100), (vec![1, 2, 3, 4], Some(4)));
        assert_eq!(run(range(1, Some(8), 3), false, 100), (vec![1, 4, 7], Some(7)));
        assert_eq!(run(range(5, Some(5), 1), false, 100), (vec![5], Some(5)));
    }

    #[test]
    fn linear_stops_after_the_first_failure() {
        assert_eq!(run(range(1, Some(10), 2), false, 4), (vec![1, 3, 5], Some(3)));
        assert_eq!(run(range(9, Some(10), 1), false, 4), (vec![9], None));
    }

    #[test]
    fn linear_without_an_end_grows_until_it_fails() {
        assert_eq!(run(range(2, None, 2), false, 7), (vec![2, 4, 6, 8], Some(6)));
        let (levels, best) = run(range(u32::MAX - 1, None, 1), false, u32::MAX);
        assert_eq!((levels.len(), best), (2, Some(u32::MAX)));
    }

    #[test]
    fn rates_do_not_drift_and_reach_the_end() {
        let (levels, best) = run(range(0.1, Some(0.3), 0.1), false, 1.0);
        assert_eq!((levels.len(), best.is_some()), (3, true));
        assert_eq!(levels.last(), Some(&0.3));
        let (levels, _) = run(range(1.0, Some(10.0), 0.1), false, 100.0);
        assert_eq!(levels.len(), 91);
        assert!((levels[90] - 10.0).abs() < 1e-12);
        let (levels, _) = run(range(10.0, None, 0.5), false, 12.0);
        assert_eq!(levels, [10.0, 10.5, 11.0, 11.5, 12.0, 12.5]);
    }

    #[test]
    fn binary_finds_the_knee_from_every_side() {
        for knee in 1..=64 {
            let (levels, best) = run(range(1, Some(64), 1), true, knee);
            assert_eq!(best, Some(knee));
            assert!(levels.len() <= 9, "{levels:?}");
        }
        assert_eq!(run(range(1, Some(8), 1), true, 5), (vec![1, 8, 4, 6, 5], Some(5)));
    }

    #[test]
    fn binary_ends_early_where_start_fails_or_end_passes() {
        assert_eq!(run(range(4, Some(8), 1), true, 3), (vec![4], None));
        assert_eq!(run(range(1, Some(8), 1), true, 9), (vec![1, 8], Some(8)));
        assert_eq!(run(range(8, Some(8), 1), true, 9), (vec![8], Some(8)));
    }

    #[test]
    fn binary_over_rates_stops_at_its_precision() {
        let (levels, best) = run(range(100.0, Some(200.0), 1.0), true, 150.3);
        let best = best.expect("the start passes");
        assert!((149.3..=150.3).contains(&best), "{best}");
        assert!(levels.len() <= 9);
        let (levels, _) = run(range(1.0, Some(2.0), 1e-300), true, 1.5);
        assert!(levels.len() < 70, "a tiny step must not halve for ever");
    }

    #[test]
    fn no_search_goes_on_after_its_end() {
        let mut search = Search::new(range(1, Some(1), 1), false);
        assert_eq!(search.next(None), Some(1));
        assert_eq!(search.next(Some(Outcome::Pass)), None);
        assert_eq!(search.next(Some(Outcome::Pass)), None);
    }
}
