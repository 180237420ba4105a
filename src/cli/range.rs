//! Reads `start[:end[:step]]`.

use std::fmt::Display;

use crate::cli::values::{decimal, integer};
use crate::plan::{MAX_CONCURRENCY, MAX_RATE, Periodic, Range};

/// A range of concurrencies; `4` is that level alone, `4:0` has no end.
pub fn concurrency(text: &str) -> Result<Range<u32>, String> {
    range(text, |part| integer(part, 0, u64::from(MAX_CONCURRENCY)), 0, 1)
}

/// A range of request rates; `100` is that level alone, `100:0` has no end.
pub fn rate(text: &str) -> Result<Range<f64>, String> {
    range(text, |part| decimal(part, 0.0, MAX_RATE), 0.0, 1.0)
}

/// A periodic growth `start:end:step`, without its request period.
pub fn periodic(text: &str) -> Result<Periodic, String> {
    let Range { start, end, step } = concurrency(text)?;
    let end = end.ok_or("the end must be above 0: it is the number of requests in all")?;
    if (end - start) % step != 0 {
        return Err(format!("the step must divide end - start, but {step} does not divide {}", end - start));
    }
    Ok(Periodic { start, end, step, request_period: 0 })
}

/// Correlation IDs `start[:end)`: the first, and how many there are.
pub fn sequence_ids(text: &str) -> Result<SequenceIds, String> {
    const LAST: u64 = u32::MAX as u64;
    let (start, end) = match text.split_once(':') {
        Some((start, end)) => (start, Some(end)),
        None => (text, None),
    };
    // 0 means "no sequence" to the server.
    let first = integer::<u64>(start, 0, LAST)?.max(1);
    let Some(end) = end else {
        return Ok(SequenceIds { first, count: LAST });
    };
    let end = integer::<u64>(end, 0, LAST + 1)?;
    if end <= first {
        return Err(format!("it holds no ID: the end, which is not part of it, must be above {first}"));
    }
    Ok(SequenceIds { first, count: end - first })
}

/// A range of correlation IDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceIds {
    /// The first.
    pub first: u64,
    /// How many.
    pub count: u64,
}

fn range<T: PartialOrd + Copy + Display>(
    text: &str,
    read: impl Fn(&str) -> Result<T, String>,
    zero: T,
    one: T,
) -> Result<Range<T>, String> {
    let parts: Vec<&str> = text.split(':').collect();
    if parts.len() > 3 || parts.iter().any(|part| part.is_empty()) {
        return Err("it must be start, start:end or start:end:step".to_owned());
    }
    let at = |index: usize, absent: T| parts.get(index).map_or(Ok(absent), |part| read(part));
    let start = at(0, one)?;
    let (end, step) = (at(1, start)?, at(2, one)?);
    if start <= zero {
        return Err("the start must be above 0".to_owned());
    }
    if step <= zero {
        return Err("the step must be above 0".to_owned());
    }
    if end != zero && end < start {
        return Err(format!("the end, {end}, must not be below the start, {start} (0 is without end)"));
    }
    Ok(Range { start, end: (end != zero).then_some(end), step })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_default_as_upstream_has_them() {
        assert_eq!(concurrency("4"), Ok(Range { start: 4, end: Some(4), step: 1 }));
        assert_eq!(concurrency("1:8"), Ok(Range { start: 1, end: Some(8), step: 1 }));
        assert_eq!(concurrency("1:8:2"), Ok(Range { start: 1, end: Some(8), step: 2 }));
        assert_eq!(concurrency("2:0"), Ok(Range { start: 2, end: None, step: 1 }));
        assert_eq!(rate("0.5:2:0.5"), Ok(Range { start: 0.5, end: Some(2.0), step: 0.5 }));
        assert_eq!(rate("10:0:5"), Ok(Range { start: 10.0, end: None, step: 5.0 }));
    }

    #[test]
    fn bad_ranges_name_the_rule() {
        for (text, rule) in [
            ("", "start:end:step"),
            ("1:2:3:4", "start:end:step"),
            ("1:", "start:end:step"),
            (":4", "start:end:step"),
            ("0", "start must be above 0"),
            ("0:4", "start must be above 0"),
            ("-1", "whole number"),
            ("1:-1", "whole number"),
            ("4:1", "must not be below"),
            ("1:4:0", "step must be above 0"),
            ("4x", "whole number"),
            ("1.5", "whole number"),
            ("99999999999", "whole number from 0 to 100000"),
            ("1 :2", "whole number"),
        ] {
            let error = concurrency(text).expect_err(text);
            assert!(error.contains(rule), "{text}: {error}");
        }
        for text in ["nan", "inf", "-5", "0", "1e300", "10:5", "10:20:0", "10:20:nan", "5q"] {
            assert!(rate(text).is_err(), "{text}");
        }
    }

    #[test]
    fn periodic_steps_must_fit() {
        assert_eq!(periodic("10:100:30"), Ok(Periodic { start: 10, end: 100, step: 30, request_period: 0 }));
        assert!(periodic("10:100:40").unwrap_err().contains("does not divide 90"));
        assert!(periodic("10:0:1").unwrap_err().contains("above 0"));
        assert!(periodic("10:5:1").is_err());
    }

    #[test]
    fn sequence_ids_exclude_their_end() {
        assert_eq!(sequence_ids("1:5"), Ok(SequenceIds { first: 1, count: 4 }));
        assert_eq!(sequence_ids("7"), Ok(SequenceIds { first: 7, count: 4_294_967_295 }));
        assert_eq!(sequence_ids("0:5"), Ok(SequenceIds { first: 1, count: 4 }));
        for text in ["5:5", "5:4", "0:1", "a", "1:b", "-1", "1:99999999999"] {
            assert!(sequence_ids(text).is_err(), "{text}");
        }
    }
}
