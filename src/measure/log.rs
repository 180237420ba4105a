//! Keeps a level's timeline while it is measured, from data that the measuring thread has at a window's end anyway. It
//! does not grow with the run.

use crate::backend::InferError;
use crate::blocks::{Block, Blocks};
use crate::clock::Stamp;
use crate::record::without_numbers;
use crate::result::disturbance::Disturbance;
use crate::result::summary::{ClientSummary, Disturbances};
use crate::result::timeline::{Slice, Timeline, WindowRow, class};
use crate::terms::{ALL_PERCENTILES, MeasurementPlan};

/// Most rows of a level; then each two neighbours become one.
const MAX_WINDOWS: usize = 1024;
/// Most slices of a level.
const MAX_SLICES: usize = 64;
/// Most reasons of failure that windows tell apart.
const MAX_REASONS: usize = 12;

/// Pieces of time one after the other: when there are too many, they become longer, all alike.
#[derive(Debug)]
struct Pieces<T> {
    all: Vec<T>,
    /// The size that they have; that of the first until there are too many.
    size: f64,
    most: usize,
    size_of: fn(&T) -> f64,
    absorb: fn(&mut T, &T),
}

impl<T> Pieces<T> {
    fn push(&mut self, piece: T) {
        match self.all.last_mut() {
            None if self.size == 0.0 => self.size = (self.size_of)(&piece),
            Some(last) if (self.size_of)(last) + (self.size_of)(&piece) / 2.0 < self.size => {
                return (self.absorb)(last, &piece);
            }
            _ => {}
        }
        self.all.push(piece);
        if self.all.len() > self.most {
            self.size *= 2.0;
            std::mem::take(&mut self.all).into_iter().for_each(|piece| self.push(piece));
        }
    }
}

/// The timeline of a level so far.
#[derive(Debug)]
pub(super) struct Log {
    windows: Pieces<WindowRow>,
    slices: Pieces<Slice>,
    /// Why requests failed, the first reasons that there were.
    reasons: Vec<InferError>,
}

impl Default for Log {
    fn default() -> Self {
        let (most, size_of) = (MAX_WINDOWS, |row: &WindowRow| row.windows as f64);
        let windows = Pieces { all: Vec::new(), size: 0.0, most, size_of, absorb: WindowRow::absorb };
        let (most, size_of) = (MAX_SLICES, |slice: &Slice| slice.duration_s);
        let slices = Pieces { all: Vec::new(), size: 0.0, most, size_of, absorb: Slice::absorb };
        Self { windows, slices, reasons: Vec::new() }
    }
}

impl Log {
    /// Adds a window that has ended.
    pub(super) fn push(
        &mut self,
        client: &ClientSummary,
        blocks: &Blocks,
        disturbance: Option<Disturbance>,
        plan: &MeasurementPlan,
    ) {
        let failed_for = self.by_reason(&client.errors);
        self.windows.push(WindowRow { failed_for, ..row(client, disturbance, plan) });
        for block in blocks.each() {
            let failed_for = self.by_reason(&block.errors);
            self.slices.push(Slice { failed_for, ..block.slice() });
        }
    }

    /// Number of failures for each distinguished reason.
    fn by_reason(&mut self, errors: &[(InferError, u64)]) -> Vec<u64> {
        let mut counts = Vec::new();
        for (error, count) in errors {
            let Some(index) = self.index_of(error) else { continue };
            counts.resize(counts.len().max(index + 1), 0);
            counts[index] += count;
        }
        counts
    }

    /// Which of the reasons it is; none if there are too many. Those that differ in numbers only, such as that of the
    /// request, are one, and are called so from the second on.
    fn index_of(&mut self, error: &InferError) -> Option<usize> {
        let alike = without_numbers(&error.message);
        let is_same = |reason: &InferError| reason.code == error.code && without_numbers(&reason.message) == alike;
        let position = self.reasons.iter().position(is_same);
        if let Some(index) = position {
            if self.reasons[index] != *error {
                self.reasons[index].message = alike;
            }
            return position;
        }
        (self.reasons.len() < MAX_REASONS).then(|| self.reasons.push(error.clone())).map(|()| self.reasons.len() - 1)
    }

    /// The rows, with those that make the result, and the timeline of a load that began then.
    pub(super) fn finish(mut self, began: Stamp, result: &Disturbances) -> (Vec<WindowRow>, Timeline) {
        let mut left = result.windows;
        for row in self.windows.all.iter_mut().rev() {
            row.counted = left > 0 && (result.replaced == 0 || row.disturbance.is_none());
            left = left.saturating_sub(if row.counted { row.windows } else { 0 });
        }
        (self.windows.all, Timeline { began, slices: self.slices.all, reasons: self.reasons })
    }
}

fn row(client: &ClientSummary, disturbance: Option<Disturbance>, plan: &MeasurementPlan) -> WindowRow {
    let percentiles = ALL_PERCENTILES.into_iter().chain(plan.asked_percentiles());
    WindowRow {
        start: client.start,
        duration: client.duration,
        windows: 1,
        counted: false,
        rate: client.request_rate(),
        sent: client.sent,
        requests: client.requests,
        failed: client.failed,
        avg_ns: client.latency.mean_ns(),
        percentiles_ns: percentiles.map(|p| (p.to_string(), client.latency.percentile_ns(p))).collect(),
        max_ns: client.latency.percentile_ns(100.0),
        late_ns: client.open_loop.as_ref().map(|open| open.schedule_delay.percentile_ns(99.0)),
        disturbance,
        failed_for: Vec::new(),
    }
}

impl Block {
    /// The same as a slice of a timeline.
    pub fn slice(&self) -> Slice {
        let mut slice =
            Slice { duration_s: self.seconds.max(0.0), failed: self.failed, late_ns: self.late_ns, ..Slice::default() };
        for (ns, count) in self.counts() {
            slice.max_ns = slice.max_ns.max(ns);
            slice.add(class(ns), count);
        }
        slice
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::summary::sample;
    use crate::result::timeline::{lower_edge_ns, thinned};

    /// A result of three windows, none of them disturbed.
    fn of_three() -> Disturbances {
        Disturbances { windows: 3, ..Disturbances::default() }
    }

    fn log(windows: u64) -> Log {
        let mut log = Log::default();
        for number in 0..windows {
            let client = ClientSummary {
                start: Stamp(number * 1_000_000_000),
                ..sample::client(100, 1_000_000 * (1 + number % 10))
            };
            let mut blocks = Blocks::default();
            blocks.push(Block::new(&client));
            log.push(&client, &blocks, None, &sample::plan());
        }
        log
    }

    #[test]
    fn windows_are_told_one_by_one_and_the_last_ones_count() {
        let (windows, timeline) = log(5).finish(Stamp(7), &of_three());
        assert_eq!(windows.iter().map(|row| row.counted).collect::<Vec<_>>(), [false, false, true, true, true]);
        let row = &windows[1];
        assert_eq!((row.start, row.requests, row.rate, row.windows), (Stamp(1_000_000_000), 100, 100.0, 1));
        let p99 = row.percentiles_ns["99"];
        assert!((1_998_000..=2_002_000).contains(&p99) && row.max_ns == p99, "{row:?}");
        assert!(row.percentiles_ns.contains_key("99.9") && row.late_ns.is_none());
        assert_eq!((timeline.began, timeline.slices.len()), (Stamp(7), 5));
        let slice = &timeline.slices[1];
        assert_eq!((slice.requests(), slice.duration_s, slice.counts.len()), (100, 1.0, 1));
        let edges = [slice.first, slice.first + 1].map(|class| lower_edge_ns(class.into()));
        assert!(edges[0] <= 2_000_000.0 && edges[1] > 2_000_000.0, "{edges:?}");
        assert!(slice.quantile_ns(0.5).is_some_and(|ns| ns >= edges[0] && ns < edges[1]));
    }

    #[test]
    fn failures_are_told_by_their_first_reasons() {
        let error = |number: u8| InferError::new("Unavailable", format!("reason {}", char::from(b'a' + number)));
        let mut log = Log::default();
        for number in 0..20 {
            let errors = vec![(error(number), 3), (error(0), 2)];
            let client = ClientSummary { failed: 5, errors, ..sample::client(100, 1_000_000) };
            let mut blocks = Blocks::default();
            blocks.push(Block::new(&client));
            log.push(&client, &blocks, None, &sample::plan());
        }
        let (windows, timeline) = log.finish(Stamp(0), &of_three());
        assert_eq!((timeline.reasons.len(), &timeline.reasons[1]), (MAX_REASONS, &error(1)));
        assert_eq!((&windows[0].failed_for[..], &windows[2].failed_for[..]), (&[5][..], &[2, 0, 3][..]));
        assert_eq!((&windows[19].failed_for[..], windows[19].failed), (&[2][..], 5), "the rest is for others");
        assert_eq!(timeline.slices[2].failed_for, [2, 0, 3]);
        let few = thinned(windows, 1);
        assert_eq!((few[0].failed, few[0].failed_for[0], few[0].failed_for[1]), (100, 43, 3));
    }

    #[test]
    fn reasons_that_differ_in_numbers_are_one() {
        let error = |number: u64| InferError::new("Internal", format!("request {number} failed"));
        let mut log = Log::default();
        assert_eq!(log.by_reason(&[(error(7), 2)]), [2]);
        assert_eq!(log.reasons, [error(7)]);
        assert_eq!(
            log.by_reason(&[(error(7), 1), (error(8), 1), (InferError::new("Late", "request 7 failed"), 4)]),
            [2, 4]
        );
        assert_eq!(log.reasons[0].message, "request # failed");
        assert_eq!(log.by_reason(&[(error(9), 1)]), [1]);
    }

    #[test]
    fn a_long_level_takes_no_more_room_and_loses_nothing() {
        let (windows, timeline) = log(1_100).finish(Stamp(0), &of_three());
        assert!(windows.len() <= MAX_WINDOWS && timeline.slices.len() <= MAX_SLICES);
        assert_eq!(windows.iter().map(|row| row.requests).sum::<u64>(), 110_000);
        assert_eq!(windows.iter().map(|row| row.windows).sum::<usize>(), 1_100);
        assert_eq!(timeline.slices.iter().map(Slice::requests).sum::<u64>(), 110_000);
        assert!(timeline.slices.iter().rev().skip(1).all(|slice| slice.max_ns > 9_000_000), "peaks are kept");
        assert!((timeline.slices.iter().map(|slice| slice.duration_s).sum::<f64>() - 1_100.0).abs() < 1e-6);
        assert!(windows.iter().rev().skip(1).all(|row| row.windows == windows[0].windows), "all alike");
        let lengths = timeline.slices.iter().rev().skip(1).map(|slice| slice.duration_s);
        assert!(lengths.clone().all(|length| length == timeline.slices[0].duration_s), "{lengths:?}");
        let (last, earlier) = windows.split_last().unwrap();
        assert!(last.counted && earlier.iter().filter(|row| row.counted).count() <= 2);
        let few = thinned(windows, 10);
        assert!(few.len() <= 10 && few.iter().map(|row| row.requests).sum::<u64>() == 110_000);
        assert!(few.iter().all(|row| (row.rate - 100.0).abs() < 1e-9));
    }
}
