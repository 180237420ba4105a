//! Progress on one line: redrawn on a terminal, or in a log.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rustix::termios::tcgetwinsize;

use crate::result::summary::LevelLoad;
use crate::stdio::{self, Drawing, Stream};
use crate::{is_burst, level_name, load_value};

/// Maximum redraws a second.
pub const REDRAWN: u8 = 5;

/// How often a line that is too long can be shortened.
const SHORTENED: u8 = 5;

/// The progress of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Standing {
    /// Which part of the run this is, such as `level 2/5` or `round 3/10, B`; empty if there is only one.
    pub position: String,
    /// The level.
    pub load: Option<LevelLoad>,
    /// The open window, from 1, and the maximum number; `None` if the level is one window.
    pub window: Option<(usize, usize)>,
    /// Number of finished requests.
    pub requests: u64,
    /// Their total number, if it is known.
    pub total: Option<u64>,
    /// How many of them failed.
    pub failed: u64,
    /// Recent inferences a second; `None` before anything is known.
    pub throughput: Option<f64>,
    /// Recent latency, in nanoseconds.
    pub latency_ns: Option<f64>,
    /// Since the run began to measure.
    pub elapsed: Duration,
    /// Expected time left.
    pub rest: Option<Duration>,
}

impl Standing {
    /// The line, fitted into `columns`.
    pub fn line(&self, columns: usize) -> String {
        let fitting = (0..SHORTENED).map(|step| self.parts(step).join(", ")).find(|line| line.len() <= columns);
        fitting.unwrap_or_else(|| self.parts(SHORTENED).join(", ").chars().take(columns).collect())
    }

    /// Its parts, `shortened` of which have given up a word.
    fn parts(&self, shortened: u8) -> Vec<String> {
        let word = |step: u8, long: &'static str, short: &'static str| if shortened >= step { short } else { long };
        let position = (!self.position.is_empty()).then(|| match shortened {
            5.. => self.position.replace("level ", "").replace("stage ", "").replace("round ", ""),
            _ => self.position.clone(),
        });
        let name = self.load.map(|load| if shortened >= 4 { brief_name(load) } else { level_name(load) });
        let window = self.window.map(|(window, most)| format!("{} {window}/{most}", word(3, "window", "w")));
        let requests = match self.total {
            Some(total) => format!("{} of {total}", self.requests),
            None => format!("{} {}", self.requests, word(2, "requests", "req")),
        };
        let rate = self.throughput.map(|rate| format!("{}{}", digits(rate), word(1, " infer/s", "/s")));
        let failed = (self.failed > 0).then(|| format!("{} {}", self.failed, word(2, "errors", "err")));
        let latency = self.latency_ns.map(latency);
        let remaining = self.rest.map(|remaining| format!("{} left", clock(remaining)));
        let parts =
            [position, name, window, Some(requests), rate, latency, failed, Some(clock(self.elapsed)), remaining];
        parts.into_iter().flatten().collect()
    }
}

/// A level's short name.
fn brief_name(load: LevelLoad) -> String {
    match load {
        LevelLoad::Concurrency(_) => format!("conc. {}", load_value(load)),
        LevelLoad::Streams(1) => "1 stream".to_owned(),
        LevelLoad::Streams(_) => format!("{} streams", load_value(load)),
        _ if is_burst(load) => "burst".to_owned(),
        LevelLoad::RequestRate(_) | LevelLoad::Schedule(_) => format!("{}/s", load_value(load)),
    }
}

/// At least three significant digits: `0.0512`, `12.3`, `81371`.
pub fn digits(value: f64) -> String {
    let decimals = match value.abs() {
        0.0 => 0,
        size => (2.0 - size.log10().floor()).clamp(0.0, 12.0) as usize,
    };
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// A latency in a suitable unit: `850 ns`, `12.3 us`, `4 ms`, `1.25 s`.
pub fn latency(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns < 999.5 => (ns, "ns"),
        ns if ns < 999_500.0 => (ns / 1e3, "us"),
        ns if ns < 999_500_000.0 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    format!("{} {unit}", digits(value))
}

/// A length of time as on a clock: `0:07`, `1:02:03`.
pub fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

/// The progress line of a terminal on standard error; other output is printed beside it. Dropping it removes the line.
pub struct Progress {
    bar: Arc<Bar>,
}

struct Bar(ProgressBar);

impl Progress {
    /// Whether standard error is a terminal that can draw a line.
    pub fn is_possible() -> bool {
        !ProgressDrawTarget::stderr().is_hidden()
    }

    /// A line, if the terminal supports it.
    pub fn new() -> Option<Self> {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(REDRAWN));
        if bar.is_hidden() {
            return None;
        }
        bar.set_style(ProgressStyle::with_template("{wide_msg}").ok()?);
        let bar = Arc::new(Bar(bar));
        stdio::draw_beside(Some(bar.clone()));
        Some(Self { bar })
    }

    /// Shows the progress, replacing what was shown before.
    pub fn show(&self, standing: &Standing) {
        // The last column stays free: some terminals begin a new line after it.
        let columns = tcgetwinsize(io::stderr()).map_or(80, |size| usize::from(size.ws_col));
        self.bar.0.set_message(standing.line(columns.saturating_sub(1)));
        go_back();
    }
}

/// Leaves the cursor at the line's beginning: terminals print `^C` there, which must not begin a new line.
fn go_back() {
    let _ = Stream::Error.write("\r");
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.0.finish_and_clear();
        stdio::draw_beside(None);
    }
}

impl Drawing for Bar {
    fn beside(&self, stream: Stream, text: &str) -> io::Result<()> {
        let written = self.0.suspend(|| stream.write(text));
        go_back();
        written
    }

    fn give_way(&self) {
        // Without the bar's lock, which this thread may hold.
        let _ = Stream::Error.write("\r\x1b[K");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing() -> Standing {
        Standing {
            position: "level 2/5".to_owned(),
            load: Some(LevelLoad::Concurrency(4)),
            window: Some((3, 10)),
            requests: 4711,
            elapsed: Duration::from_secs(12),
            ..Standing::default()
        }
    }

    #[test]
    fn the_line_says_what_is_known() {
        let mut standing = standing();
        assert_eq!(standing.line(200), "level 2/5, concurrency 4, window 3/10, 4711 requests, 0:12");
        (standing.throughput, standing.latency_ns, standing.failed) = (Some(813.71), Some(12_345_678.0), 3);
        standing.rest = Some(Duration::from_secs(64));
        let line =
            "level 2/5, concurrency 4, window 3/10, 4711 requests, 814 infer/s, 12.3 ms, 3 errors, 0:12, 1:04 left";
        assert_eq!(standing.line(200), line);
        (standing.position, standing.window, standing.total) = (String::new(), None, Some(5000));
        assert_eq!(standing.line(200), "concurrency 4, 4711 of 5000, 814 infer/s, 12.3 ms, 3 errors, 0:12, 1:04 left");
    }

    #[test]
    fn figures_are_short() {
        let shown = [0.0, 0.05123, 5.0, 12.34, 99.96, 813.7, 81_371.6].map(digits);
        assert_eq!(shown, ["0", "0.0512", "5", "12.3", "100", "814", "81372"]);
        assert_eq!([0.0, 850.0, 12_345.0, 4e6, 1.25e9].map(latency), ["0 ns", "850 ns", "12.3 us", "4 ms", "1.25 s"]);
        assert_eq!([7, 67, 3_723].map(|seconds| clock(Duration::from_secs(seconds))), ["0:07", "1:07", "1:02:03"]);
    }

    #[test]
    fn a_usual_line_fits_a_usual_terminal() {
        let (throughput, latency_ns, remaining) = (Some(484.2), Some(2_080_000.0), Some(Duration::from_secs(64)));
        let standing = Standing { throughput, latency_ns, rest: remaining, ..standing() };
        let line = "level 2/5, concurrency 4, window 3/10, 4711 req, 484/s, 2.08 ms, 0:12, 1:04 left";
        assert_eq!((standing.line(80).as_str(), line.len()), (line, 80));
        let line = "level 2/5, concurrency 4, w 3/10, 4711 req, 484/s, 2.08 ms, 0:12, 1:04 left";
        assert_eq!(standing.line(79), line);
    }

    #[test]
    fn no_line_is_longer_than_the_terminal() {
        let standing = Standing {
            throughput: Some(81_371.0),
            latency_ns: Some(12_345_678.0),
            failed: 12,
            rest: Some(Duration::from_secs(3_700)),
            requests: 1_234_567,
            ..standing()
        };
        let line = "2/5, conc. 4, w 3/10, 1234567 req, 81371/s, 12.3 ms, 12 err, 0:12, 1:01:40 left";
        assert_eq!(standing.line(80), line);
        let position = "round 3/10, a variant with quite a long name that says a lot of things".to_owned();
        let huge = Standing { position, load: Some(LevelLoad::RequestRate(1.234_567e-300)), ..standing };
        assert_eq!(huge.line(79).chars().count(), 79);
    }
}
