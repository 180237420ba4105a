//! What is printed while the run goes on: data on standard output, the progress line on standard error.

use std::cell::RefCell;

use crate::error::Result;
use crate::measure::measurement::Watcher;
use crate::measure::summary::{ClientSummary, LevelLoad};
use crate::plan::Plan;
use crate::report::console;
use crate::report::progress::{Progress, Standing};
use crate::stdio;

/// The terminal, or whatever stands in its place.
pub struct Screen {
    progress: RefCell<Progress>,
}

impl Screen {
    /// The process' standard output and standard error.
    pub fn new() -> Self {
        Self { progress: RefCell::new(Progress::new()) }
    }

    /// Prints text on standard output, over the progress line.
    ///
    /// # Errors
    /// Where standard output is closed or full.
    pub fn print(&self, text: &str) -> Result<()> {
        self.progress.borrow_mut().clear();
        stdio::print(text)
    }

    /// Follows one level.
    pub fn level<'a>(&'a self, plan: &'a Plan, load: LevelLoad) -> LevelScreen<'a> {
        LevelScreen { screen: self, plan, load, last: RefCell::new(None) }
    }
}

/// Follows one level: a line per window where asked for, and the progress line.
pub struct LevelScreen<'a> {
    screen: &'a Screen,
    plan: &'a Plan,
    load: LevelLoad,
    /// Throughput and key latency of the last window.
    last: RefCell<Option<(f64, f64)>>,
}

impl Watcher for LevelScreen<'_> {
    fn window(&self, trial: usize, window: &ClientSummary) {
        let percentile = self.plan.measurement.percentile;
        *self.last.borrow_mut() = Some((window.throughput(), window.key_latency_ns(percentile)));
        if self.plan.output.verbosity > 0 {
            // If standard output is gone, printing the level's results will say so.
            let _ = self.screen.print(&console::pass(trial, window, percentile));
        }
        if self.plan.output.verbosity > 1 {
            let _ = self.screen.print(&console::pass_detail(window));
        }
    }

    fn progress(&self, trial: usize) {
        let last = *self.last.borrow();
        self.screen.progress.borrow_mut().show(&Standing {
            load: self.load,
            window: trial,
            windows: self.plan.measurement.max_trials,
            throughput: last.map(|(throughput, _)| throughput),
            latency_ns: last.map(|(_, latency)| latency),
        });
    }
}
