//! Cuts the open window into blocks of time as it runs.

use std::time::Duration;

use crate::blocks::{Block, Blocks};
use crate::clock::Stamp;
use crate::measurement::Watcher;
use crate::record::Recorder;
use crate::result::summary::ClientSummary;
use crate::window_summary::{WindowFacts, summarize};

/// Blocks of a window whose length is known. While one is closed nobody counts the requests under way, so blocks must not fall in
/// with requests that are sent at a steady rate: neither this nor the shortest length is a round number.
const OF_A_WINDOW: f64 = 15.427;
/// No block is shorter: each takes the recorder's histograms out once. Those of windows whose length is not known begin so.
const SHORTEST_BLOCK: Duration = Duration::from_micros(51_803);
/// Minimum length of a window's last block: when it begins, the end of the window is announced to the recorder, and a
/// thread that a busy machine delays by less than this does not postpone it.
const MIN_AT_END: Duration = Duration::from_millis(200);

/// The open window: when it ends, and its blocks so far.
#[derive(Debug)]
pub(super) struct Slicer {
    window_end: Stamp,
    start: Stamp,
    end: Stamp,
    blocks: Blocks,
}

impl Slicer {
    /// A window from `start` on that ends at `window_end`, or [`Stamp::NEVER`] where that is not known.
    pub(super) fn new(start: Stamp, window_end: Stamp) -> Self {
        let length = if window_end == Stamp::NEVER {
            SHORTEST_BLOCK
        } else {
            SHORTEST_BLOCK.max((window_end - start).div_f64(OF_A_WINDOW))
        };
        let mut slicer = Self { window_end, start, end: start, blocks: Blocks::new(length) };
        slicer.end = slicer.end_after(start);
        slicer
    }

    /// A window from `start` on whose end is not known, but which is to take about as long as `length`.
    pub(super) fn of_about(start: Stamp, length: Duration) -> Self {
        let length = SHORTEST_BLOCK.max(length.div_f64(OF_A_WINDOW));
        let (window_end, end) = (Stamp::NEVER, start.plus_duration(length));
        Self { window_end, start, end, blocks: Blocks::new(length) }
    }

    /// The longest time in the blocks that are over.
    pub(super) fn longest(&self) -> Duration {
        let longest = self.blocks.each().iter().filter_map(|block| block.counts().last()).max();
        Duration::from_nanos(longest.map_or(0, |(ns, _)| ns))
    }

    /// When the open block ends, as announced to the recorder.
    pub(super) fn end(&self) -> Stamp {
        self.end
    }

    /// The recorder has put the end of the open block off.
    pub(super) fn put_off(&mut self, end: Stamp) {
        self.end = end;
    }

    /// The window ends at `end`, or a moment from now where that has passed, unless it ends before that anyway.
    pub(super) fn end_at(&mut self, recorder: &Recorder, end: Stamp) {
        if end >= self.window_end {
            return;
        }
        self.window_end = end;
        if self.end.plus_duration(MIN_AT_END) > end {
            self.end = recorder.end_window(end);
            self.window_end = self.end;
        }
    }

    /// When a block ends that begins at `start`; the last one takes in what would be too short.
    fn end_after(&self, start: Stamp) -> Stamp {
        let length = self.blocks.length();
        let end = start.plus_duration(length);
        let last = MIN_AT_END.max(length / 2);
        if end.plus_duration(last) > self.window_end { self.window_end } else { end }
    }

    /// Opens the next block when one is over, and notifies `watcher`. Returns when the window ended, if it has.
    pub(super) fn poll(&mut self, recorder: &Recorder, facts: &WindowFacts, watcher: &dyn Watcher) -> Option<Stamp> {
        if Stamp::now() < self.end {
            return None;
        }
        if self.end >= self.window_end {
            return Some(self.end);
        }
        let (tally, end) = recorder.next_block(self.end_after(self.end));
        let block = Block::new(&summarize(tally, self.start, self.end - self.start, facts));
        (self.start, self.end) = (self.end, end);
        watcher.block(&block);
        self.blocks.push(block);
        None
    }

    /// The blocks of the window, which came to `whole`.
    pub(super) fn blocks(self, whole: &ClientSummary) -> Blocks {
        self.blocks.completed(whole)
    }
}
