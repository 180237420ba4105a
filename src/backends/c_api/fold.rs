//! [`Fold`]: shows repeated lines once, with a count.

use std::time::Duration;

use crate::clock::Stamp;

/// Limit on the different lines that are kept; beyond it all are dropped, and shown again.
const MAX_LINES: usize = 256;
/// How often counts are shown.
const EVERY: Duration = Duration::from_secs(10);

/// The lines that have been shown.
#[derive(Default)]
pub(super) struct Fold(Vec<LogLine>);

struct LogLine {
    /// Its latest form.
    line: String,
    /// Repetitions since the count was last shown.
    repeated: u64,
    last_shown: Stamp,
}

impl Fold {
    /// What to show when this line arrives.
    pub(super) fn line(&mut self, line: String, now: Stamp) -> Vec<String> {
        if let Some(entry) = self.0.iter_mut().find(|entry| message(&entry.line) == message(&line)) {
            entry.line = line;
            entry.repeated += 1;
            return Vec::new();
        }
        let mut shown = if self.0.len() < MAX_LINES { Vec::new() } else { self.end() };
        shown.push(line.clone());
        self.0.push(LogLine { line, repeated: 0, last_shown: now });
        shown
    }

    /// The counts that are due.
    pub(super) fn due(&mut self, now: Stamp) -> Vec<String> {
        self.0.iter_mut().filter(|entry| now - entry.last_shown >= EVERY).filter_map(|entry| entry.say(now)).collect()
    }

    /// All counts; drops every line.
    pub(super) fn end(&mut self) -> Vec<String> {
        self.0.drain(..).filter_map(|mut entry| entry.say(Stamp::now())).collect()
    }
}

impl LogLine {
    fn say(&mut self, now: Stamp) -> Option<String> {
        self.last_shown = now;
        let times = match std::mem::take(&mut self.repeated) {
            0 => return None,
            1 => "once more".to_owned(),
            count => format!("{count} more times"),
        };
        Some(format!("triton-bench: the server logged {times}: {}", self.line))
    }
}

/// The text of a line, without the stamp and the process before it: `E0102 03:04:05.678901 123 file.cc:45] "text"` or
/// `2024-01-02T03:04:05Z E 123 file.cc:45] "text"`.
fn message(line: &str) -> &str {
    let index = line.find("] ").and_then(|end| line[..end].rfind(' '));
    index.map_or(line, |index| &line[index + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Stamp {
        Stamp::now().plus_duration(Duration::from_secs(seconds))
    }

    fn error(second: u32, text: &str) -> String {
        format!("E1122 07:14:{second:02}.000001 {second} pb_stub.cc:714] \"{text}\"")
    }

    #[test]
    fn a_line_is_shown_once_and_counted_whatever_comes_between() {
        let mut fold = Fold::default();
        assert_eq!(fold.line(error(1, "a"), at(0)), [error(1, "a")]);
        assert_eq!(fold.line(error(2, "b"), at(0)), [error(2, "b")]);
        for second in 3..9 {
            assert!(fold.line(error(second, "a"), at(0)).is_empty());
        }
        assert!(fold.line(error(9, "b"), at(0)).is_empty());
        assert!(fold.due(at(5)).is_empty());
        let lines = fold.due(at(11));
        let [a, b] = &lines[..] else { panic!("{lines:?}") };
        assert_eq!(*a, format!("triton-bench: the server logged 6 more times: {}", error(8, "a")));
        assert!(b.contains("once more: E1122 07:14:09"), "{b}");
        assert!(fold.due(at(40)).is_empty(), "nothing has come since");
        assert!(fold.line(error(10, "a"), at(40)).is_empty());
        assert_eq!(fold.end().len(), 1);
        assert_eq!(fold.line(error(11, "a"), at(41)), [error(11, "a")], "a new beginning");
    }

    #[test]
    fn different_lines_without_end_take_no_memory_without_end() {
        let mut fold = Fold::default();
        let shown: usize = (0..10_000).map(|line| fold.line(error(1, &line.to_string()), at(0)).len()).sum();
        assert_eq!(shown, 10_000);
        assert!(fold.0.len() <= MAX_LINES);
    }

    #[test]
    fn only_the_stamp_may_differ() {
        assert_eq!(
            message("2024-01-02T03:04:05Z E 123 f.cc:45] \"x\""),
            message("2025-01-02T03:04:05Z E 9 f.cc:45] \"x\"")
        );
        assert_ne!(message(&error(1, "m1")), message(&error(1, "m2")));
        assert_eq!(message("no stamp"), "no stamp");
        assert_eq!(message("] x"), "] x");
    }
}
