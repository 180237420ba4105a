//! Parsers of single values. Each returns the value, or the rule that the text breaks.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;

/// The last of those with the same name, in their order.
pub fn last_of_each<T: Clone>(all: &[T], name: impl Fn(&T) -> String) -> Vec<T> {
    let mut names = HashSet::new();
    let mut kept: Vec<T> = all.iter().rev().filter(|item| names.insert(name(item))).cloned().collect();
    kept.reverse();
    kept
}

/// A whole number from `low` to `high`; nothing may follow it.
pub fn integer<T: TryFrom<u64>>(text: &str, low: u64, high: u64) -> Result<T, String> {
    let rule = || match (low, high) {
        (low, u64::MAX) => format!("it must be a whole number of at least {low}"),
        _ => format!("it must be a whole number from {low} to {high}"),
    };
    let number: u64 = text.parse().map_err(|_| rule())?;
    if !(low..=high).contains(&number) {
        return Err(rule());
    }
    T::try_from(number).map_err(|_| rule())
}

/// A reader of whole numbers from `low` to `high`.
pub fn whole<T>(low: u64, high: u64) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: TryFrom<u64>,
{
    move |text| integer(text, low, high)
}

/// A number of bytes; `K`, `M`, `G` and `T`, with `iB` or without, are powers of 1024.
pub fn size(text: &str) -> Result<u64, String> {
    const UNITS: [(char, u32); 4] = [('K', 10), ('M', 20), ('G', 30), ('T', 40)];
    let rule = || "it must be a number of bytes of at least 1, or as in 512M or 8G".to_owned();
    let upper = text.to_ascii_uppercase();
    let bare = upper.strip_suffix("IB").unwrap_or(&upper);
    let unit = UNITS.iter().find(|(suffix, _)| bare.ends_with(*suffix));
    let number = if unit.is_some() { &bare[..bare.len() - 1] } else { upper.as_str() };
    let bytes =
        number.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << unit.map_or(0, |(_, shift)| *shift)));
    bytes.filter(|&bytes| bytes > 0).ok_or_else(rule)
}

/// A finite number from `low` to `high`; nothing may follow it.
pub fn decimal(text: &str, low: f64, high: f64) -> Result<f64, String> {
    let rule = || match (low == f64::MIN, high == f64::MAX) {
        (true, _) => "it must be a finite number".to_owned(),
        (_, true) => format!("it must be a finite number of at least {low}"),
        _ => format!("it must be a number from {low} to {high}"),
    };
    // Rust reads "inf" and "nan" as numbers; neither is within any bounds.
    let number: f64 = text.parse().map_err(|_| rule())?;
    if number >= low && number <= high && number.is_finite() { Ok(number) } else { Err(rule()) }
}

/// A reader of finite numbers from `low` to `high`.
pub fn number(low: f64, high: f64) -> impl Fn(&str) -> Result<f64, String> + Clone + Send + Sync + 'static {
    move |text| decimal(text, low, high)
}

/// A reader of one of several words, in any case.
pub fn one_of<T>(words: &'static [(&'static str, T)]) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync
where
    T: Copy + Send + Sync + 'static,
{
    move |text| {
        let found = words.iter().find(|(word, _)| word.eq_ignore_ascii_case(text));
        found.map(|&(_, value)| value).ok_or_else(|| {
            let names: Vec<&str> = words.iter().map(|&(word, _)| word).collect();
            format!("it must be one of {}", names.join(", "))
        })
    }
}

/// `true` or `false`, also as `on`, `off`, 1 and 0.
pub fn boolean(text: &str) -> Result<bool, String> {
    const WORDS: [(&str, bool); 6] =
        [("true", true), ("false", false), ("on", true), ("off", false), ("1", true), ("0", false)];
    let found = WORDS.iter().find(|(word, _)| word.eq_ignore_ascii_case(text));
    found.map(|&(_, value)| value).ok_or_else(|| "it must be true or false (or on, off, 1, 0)".to_owned())
}

/// A time: a number and `us`, `ms`, `s`, `m` or `h`; a bare number counts in `unit`.
pub fn time(text: &str, unit: Duration) -> Result<Duration, String> {
    const UNITS: [(&str, f64); 5] = [("us", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    let rule = || "it must be a time such as 500ms, 2s or 1.5m, of at most 1000 h".to_owned();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let scale = match &text[digits.len()..] {
        "" => unit.as_secs_f64(),
        suffix => UNITS.iter().find(|(name, _)| *name == suffix).map(|&(_, scale)| scale).ok_or_else(rule)?,
    };
    let seconds = decimal(digits, 0.0, f64::MAX).map_err(|_| rule())? * scale;
    if seconds > 3_600_000.0 { Err(rule()) } else { Ok(Duration::from_secs_f64(seconds)) }
}

/// A millisecond, as a unit of [`period`].
pub const MS: Duration = Duration::from_millis(1);
/// A second.
pub const SECOND: Duration = Duration::from_secs(1);
/// A microsecond.
pub const US: Duration = Duration::from_micros(1);

/// A reader of times from `least` to a day; a bare number counts in `unit`.
pub fn period(
    unit: Duration,
    least: Duration,
) -> impl Fn(&str) -> Result<Duration, String> + Clone + Send + Sync + 'static {
    const MOST: Duration = Duration::from_secs(86_400);
    move |text| {
        let rule = || {
            let unit = match unit {
                MS => "milliseconds",
                SECOND => "seconds",
                _ => "microseconds",
            };
            format!("it must be a number of {unit} or a time such as 500us, 20ms or 2s, from {least:?} to a day")
        };
        time(text, unit).ok().filter(|time| (least..=MOST).contains(time)).ok_or_else(rule)
    }
}

/// A share of a whole: `0.05` or `5%`.
pub fn share(text: &str) -> Result<f64, String> {
    let rule = |_| "it must be a share from 0 to 1, or from 0% to 100%".to_owned();
    match text.strip_suffix('%') {
        Some(percent) => decimal(percent, 0.0, 100.0).map_err(rule).map(|percent| percent / 100.0),
        None => decimal(text, 0.0, 1.0).map_err(rule),
    }
}

/// A list of processors, ascending, without repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processors(pub Vec<usize>);

/// A list of processors such as `0,2-5`.
pub fn processors(text: &str) -> Result<Processors, String> {
    const LAST: u64 = 4095;
    let mut list = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let read = |text| {
            integer::<usize>(text, 0, LAST).map_err(|_| format!("it must be a list such as 0,2-5, of at most {LAST}"))
        };
        let (first, last) = (read(first)?, read(last)?);
        if last < first {
            return Err(format!("'{part}' runs backwards"));
        }
        list.extend(first..=last);
    }
    list.sort_unstable();
    list.dedup();
    Ok(Processors(list))
}

/// A file that must exist.
pub fn file(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match path.metadata() {
        Ok(found) if found.is_file() => Ok(path),
        Ok(found) if found.is_dir() => Err("that is a directory, but a file is needed".to_owned()),
        Ok(_) => Err("that is not a regular file".to_owned()),
        Err(_) => Err("there is no such file".to_owned()),
    }
}

/// A text with something in it.
pub fn filled(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("it must not be empty".to_owned()) } else { Ok(text.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_may_follow_a_number() {
        assert_eq!(integer::<u32>("7", 0, 10), Ok(7));
        for text in ["", "7x", " 7", "7.0", "-1", "11", "99999999999999999999999", "0x1"] {
            assert!(integer::<u32>(text, 0, 10).is_err(), "{text}");
        }
        assert_eq!(decimal("1e-3", 0.0, 1.0), Ok(1e-3));
        for text in ["", "nan", "inf", "-inf", "1e999", "0.5s", "1,5", "-0.1", "1.1"] {
            assert!(decimal(text, 0.0, 1.0).is_err(), "{text}");
        }
    }

    #[test]
    fn times_carry_their_unit() {
        let unit = Duration::from_millis(1);
        assert_eq!(time("250", unit), Ok(Duration::from_millis(250)));
        assert_eq!(time("2s", unit), Ok(Duration::from_secs(2)));
        assert_eq!(time("1.5m", unit), Ok(Duration::from_secs(90)));
        assert_eq!(time("20us", unit), Ok(Duration::from_micros(20)));
        assert!(["", "s", "-1s", "1d", "1e9h", "nan", "infs"].iter().all(|text| time(text, unit).is_err()));
    }

    #[test]
    fn periods_have_bounds() {
        let ms = Duration::from_millis(1);
        let read = period(ms, Duration::from_micros(100));
        assert_eq!(read("0.5"), Ok(Duration::from_micros(500)));
        assert_eq!(read("86400s"), Ok(Duration::from_secs(86_400)));
        assert_eq!(
            read("0.05"),
            Err("it must be a number of milliseconds or a time such as 500us, 20ms or 2s, from 100µs to a day".into())
        );
        assert!(["0", "25h", "", "5x"].iter().all(|text| read(text).is_err()));
    }

    #[test]
    fn processors_are_sorted_and_distinct() {
        assert_eq!(processors("4,0-2,1"), Ok(Processors(vec![0, 1, 2, 4])));
        assert!(["", "a", "2-1", "1,", "0-99999999", "-1"].iter().all(|text| processors(text).is_err()));
    }

    #[test]
    fn words_and_shares() {
        const WORDS: &[(&str, u8)] = &[("none", 0), ("gzip", 1)];
        assert_eq!(one_of(WORDS)("GZIP"), Ok(1));
        assert_eq!(one_of(WORDS)("zip"), Err("it must be one of none, gzip".into()));
        assert_eq!(share("5%"), Ok(0.05));
        assert!(["", "%", "101%", "1.1", "-0.1", "nan"].iter().all(|text| share(text).is_err()));
        assert_eq!(boolean("ON"), Ok(true));
        assert!(boolean("2").is_err());
    }
}
