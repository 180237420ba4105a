//! What is going on, on one line of a terminal. Where standard error is no terminal, nothing.

use std::io::{IsTerminal, Write};

use crate::measure::summary::LevelLoad;
use crate::report::number::{significant, whole_us};
use crate::report::{load_name, load_value};

/// Columns that a line may take, so that it never wraps on a usual terminal.
const COLUMNS: usize = 79;

/// Where a level stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standing {
    /// The level.
    pub load: LevelLoad,
    /// The window that is open, from 1.
    pub window: usize,
    /// Most windows that the level may take.
    pub windows: usize,
    /// Inferences a second so far; `None` before anything is known.
    pub throughput: Option<f64>,
    /// The latency so far, in nanoseconds.
    pub latency_ns: Option<f64>,
}

/// The progress line.
#[derive(Debug)]
pub struct Progress {
    shown: bool,
    drawn: bool,
}

impl Progress {
    /// A progress line on standard error, if that is a terminal.
    pub fn new() -> Self {
        Self { shown: std::io::stderr().is_terminal(), drawn: false }
    }

    /// Shows where the level stands, over what was shown before.
    pub fn show(&mut self, standing: &Standing) {
        if self.shown {
            self.drawn = true;
            print(&format!("\r{}\x1b[K", line(standing)));
        }
    }

    /// Takes the line away, so that something else can be printed.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.drawn) {
            print("\r\x1b[K");
        }
    }
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

/// A terminal that is gone is no reason to stop measuring.
fn print(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

fn line(standing: &Standing) -> String {
    let name = load_name(standing.load);
    let mut text = format!("{name} {}, window {}/{}", load_value(standing.load), standing.window, standing.windows);
    if let Some(throughput) = standing.throughput {
        text += &format!(": {} infer/sec", significant(throughput));
    }
    if let Some(latency) = standing.latency_ns {
        text += &format!(", {} usec", whole_us(latency));
    }
    text.chars().take(COLUMNS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_what_is_known() {
        let mut standing =
            Standing { load: LevelLoad::Concurrency(4), window: 1, windows: 10, throughput: None, latency_ns: None };
        assert_eq!(line(&standing), "Concurrency 4, window 1/10");
        standing.load = LevelLoad::RequestRate(12.5);
        standing.throughput = Some(81.371_61);
        standing.latency_ns = Some(12_345_678.0);
        assert_eq!(line(&standing), "Request Rate 12.5, window 1/10: 81.3716 infer/sec, 12345 usec");
        standing.window = usize::MAX;
        standing.windows = usize::MAX;
        standing.load = LevelLoad::RequestRate(1.234_567e-300);
        assert!(line(&standing).chars().count() <= COLUMNS);
    }

    #[test]
    fn nothing_is_printed_where_there_is_no_terminal() {
        let mut progress = Progress { shown: false, drawn: false };
        progress.show(&Standing {
            load: LevelLoad::Concurrency(1),
            window: 1,
            windows: 1,
            throughput: None,
            latency_ns: None,
        });
        assert!(!progress.drawn);
    }
}
