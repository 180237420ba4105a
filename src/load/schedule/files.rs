//! `--request-intervals FILE`: microseconds, one number per line.

use std::path::Path;

use crate::data::read_text;
use crate::error::{Error, Result};
use crate::schedule::Arrivals;

const NS_PER_US: f64 = 1e3;
const US_PER_YEAR: f64 = 365.25 * 86_400e6;

/// Reads a file of intervals; see [`parse_intervals`].
///
/// # Errors
/// If the file cannot be read or does not follow the form. Messages name the file and the line.
pub fn read_intervals(path: &Path) -> Result<Arrivals> {
    let text = read_text(path).map_err(|rule| {
        Error::input(format!(
            "--request-intervals {}: {rule}; it must be text, a number of microseconds a line",
            path.display()
        ))
    })?;
    parse_intervals(&text).map_err(|error| error.context(format_args!("--request-intervals {}", path.display())))
}

/// Parses intervals: one per line, in microseconds, fractions allowed. Blank lines are allowed only at the end.
///
/// # Errors
/// If a line is not a number from 0 to a year, or if the file is empty or all its intervals are zero.
pub fn parse_intervals(text: &str) -> Result<Arrivals> {
    let gaps: Result<Vec<u64>> = text.trim_end().lines().enumerate().map(|(at, line)| interval(at + 1, line)).collect();
    Arrivals::looped(gaps?)
}

fn interval(number: usize, line: &str) -> Result<u64> {
    let value = line.trim();
    let wrong = |why: &str| {
        Error::input(format!("line {number}: '{value}' {why}; write one interval in microseconds a line, such as 2000"))
    };
    if value.is_empty() {
        return Err(wrong("is blank"));
    }
    let microseconds: f64 = value.parse().map_err(|_| wrong("is not a number"))?;
    if !(0.0..=US_PER_YEAR).contains(&microseconds) {
        return Err(wrong("is not between 0 and a year"));
    }
    Ok((microseconds * NS_PER_US).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Schedule;

    fn message(text: &str) -> String {
        parse_intervals(text).unwrap_err().to_string()
    }

    #[test]
    fn intervals_loop_as_documented() {
        let arrivals = parse_intervals("100000\n200000\n500000\n\n").unwrap();
        let ms: Vec<u64> = Schedule::new(&arrivals, 1).take(6).map(|ns| ns / 1_000_000).collect();
        assert_eq!(ms, [100, 300, 800, 900, 1100, 1600]);
        assert!((arrivals.mean_rate() - 3.75).abs() < 1e-12);
    }

    #[test]
    fn fractions_of_a_microsecond_count() {
        assert_eq!(parse_intervals("0.25\r\n0\r\n1.5").unwrap(), Arrivals::Looped([250, 0, 1500].into()));
    }

    #[test]
    fn unusable_files_are_refused_with_the_line() {
        assert!(message("").contains("no interval"));
        assert!(message("\n \n").contains("no interval"));
        assert!(message("0\n0\n").contains("every interval is zero"));
        assert!(message("10\n\n20\n").contains("line 2: '' is blank"));
        assert!(message("10\nten\n").contains("line 2: 'ten' is not a number"));
        assert!(message("-1").contains("line 1: '-1' is not between"));
        assert!(message("NaN").contains("not between"));
        assert!(message("1e300").contains("not between"));
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = read_intervals(Path::new("/nonexistent/gaps.txt")).unwrap_err().to_string();
        assert!(error.starts_with("--request-intervals /nonexistent/gaps.txt"), "{error}");
    }
}
