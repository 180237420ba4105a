//! Parses `start[:end[:step]]`, where a step may be a factor (`*2`), and lists of such.

use std::ops::RangeInclusive;

use std::fmt::Display;

use crate::plan::{MAX_CONCURRENCY, MAX_RATE};
use crate::terms::{Periodic, Range};
use crate::values::{decimal, integer};

/// Limit on the values of a list.
const MAX_LISTED: usize = 1000;

/// A range of concurrencies; `4` is that level alone, `4:0` has no end.
pub fn concurrency(text: &str) -> Result<Range<u32>, String> {
    let read = |part: &str| integer(part, 0, u64::from(MAX_CONCURRENCY));
    if !is_list(text) {
        return range(text, read, 0, 1);
    }
    listed(text, Step::Add(1.0), |part| read(part).map(f64::from)).and_then(above_zero).and_then(whole).map(|values| {
        let values: Vec<u32> = values.into_iter().map(|value| value as u32).collect();
        of_list(values, 1)
    })
}

/// Batch sizes: a list of numbers and ranges, which double where they have no step of their own.
pub fn batch_sizes(text: &str) -> Result<BatchSizes, String> {
    let read = |part: &str| integer::<u32>(part, 1, u64::from(u32::MAX)).map(f64::from);
    if !is_list(text) && !text.contains(':') {
        return integer(text, 1, u64::from(u32::MAX)).map(|size| BatchSizes(vec![size]));
    }
    let sizes = listed(text, Step::Times(2.0), read).and_then(whole)?;
    Ok(BatchSizes(sizes.into_iter().map(|size| size as u64).collect()))
}

/// Batch sizes, ascending; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchSizes(pub Vec<u64>);

/// How one value of a range follows the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// Adds this much.
    Add(f64),
    /// Multiplies by this factor.
    Times(f64),
}

/// The values of a list of numbers and of ranges `start:end[:step]`, whose step is `+s`, `s` or `*f`, or `usual` where there is
/// none: ascending, each once.
///
/// # Errors
/// The rule that the text breaks.
pub fn listed(text: &str, usual: Step, read: impl Fn(&str) -> Result<f64, String>) -> Result<Vec<f64>, String> {
    let form = || "it must be a list of numbers and of ranges start:end[:step], such as 1,2,4:64:*2".to_owned();
    let mut values = Vec::new();
    for part in text.split(',') {
        match part.split(':').collect::<Vec<_>>()[..] {
            [""] => return Err(form()),
            [value] => values.push(read(value)?),
            [start, end] => spread(read(start)?..=read(end)?, usual, &mut values)?,
            [start, end, by] => spread(read(start)?..=read(end)?, step(by)?, &mut values)?,
            _ => return Err(form()),
        }
    }
    values.sort_by(f64::total_cmp);
    values.dedup();
    Ok(values)
}

/// `+s`, `s` or `*f`.
fn step(text: &str) -> Result<Step, String> {
    if let Some(factor) = text.strip_prefix('*') {
        let rule = |_| "a factor must be a number above 1, such as *2".to_owned();
        return decimal(factor, 1.001, 1e6).map(Step::Times).map_err(rule);
    }
    let rule = |_| "the step must be above 0".to_owned();
    decimal(text.trim_start_matches('+'), f64::MIN_POSITIVE, f64::MAX).map(Step::Add).map_err(rule)
}

/// Adds the values of a range; a factor's are rounded where both ends are whole.
fn spread(range: RangeInclusive<f64>, by: Step, values: &mut Vec<f64>) -> Result<(), String> {
    let (start, end) = range.into_inner();
    if end < start {
        return Err(format!("the end, {end}, must not be below the start, {start}: a list has an end"));
    }
    let whole = start.fract() == 0.0 && end.fract() == 0.0;
    for index in 0.. {
        let value = match by {
            Step::Add(step) => step.mul_add(f64::from(index), start),
            Step::Times(factor) if whole => (start * factor.powi(index)).round(),
            Step::Times(factor) => start * factor.powi(index),
        };
        if value > end * (1.0 + 1e-9) || (index > 0 && value <= 0.0) {
            break;
        }
        values.push(value.min(end));
        if values.len() > MAX_LISTED {
            return Err(format!("the list has more than {MAX_LISTED} values; take a larger step"));
        }
    }
    Ok(())
}

fn is_list(text: &str) -> bool {
    text.contains([',', '*', '+'])
}

fn above_zero(values: Vec<f64>) -> Result<Vec<f64>, String> {
    match values.iter().any(|value| *value <= 0.0) {
        true => Err("every value of a list must be above 0".to_owned()),
        false => Ok(values),
    }
}

/// The values of a list of whole numbers: only an added step can lead to others.
fn whole(values: Vec<f64>) -> Result<Vec<f64>, String> {
    match values.iter().find(|value| value.fract() != 0.0) {
        Some(value) => Err(format!("its step leads to {value}, and every value must be a whole number")),
        None => Ok(values),
    }
}

/// A list that is not empty; one value is a range of its own.
fn of_list<T: Copy>(values: Vec<T>, step: T) -> Range<T> {
    let (start, end) = (values[0], values[values.len() - 1]);
    let listed = if values.len() > 1 { values } else { Vec::new() };
    Range { start, end: Some(end), step, listed }
}

/// A range of request rates; `100` is that level alone, `100:0` has no end.
pub fn rate(text: &str) -> Result<Range<f64>, String> {
    if text == "inf" {
        return Err(
            "without a rate, --concurrency-range N keeps N requests under way; a list of them finds how many are best"
                .to_owned(),
        );
    }
    let read = |part: &str| decimal(part, 0.0, MAX_RATE);
    if is_list(text) && !text.contains("e+") {
        return listed(text, Step::Add(1.0), read).and_then(above_zero).map(|values| of_list(values, 1.0));
    }
    range(text, read, 0.0, 1.0)
}

/// A periodic growth `start:end:step`, without its request period.
pub fn periodic(text: &str) -> Result<Periodic, String> {
    let Range { start, end, step, listed } = concurrency(text)?;
    if !listed.is_empty() {
        return Err("it must be start:end or start:end:step: a periodic load grows by the same step".to_owned());
    }
    let end = end.ok_or("the end must be above 0: it is the number of requests in total")?;
    if (end - start) % step != 0 {
        return Err(format!("the step must divide end - start, but {step} does not divide {}", end - start));
    }
    Ok(Periodic { start, end, step, request_period: 0 })
}

/// Requests in a sequence; 0 where the text says none or fewer, for which perf_analyzer takes its default.
pub fn sequence_length(text: &str) -> Result<u64, String> {
    match text.parse::<i64>() {
        Ok(i64::MIN..=0) => Ok(0),
        _ => integer(text, 1, u64::from(u32::MAX)),
    }
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
    Ok(Range::with_step(start, (end != zero).then_some(end), step))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_default_as_upstream_has_them() {
        assert_eq!(concurrency("4"), Ok(Range::with_step(4, Some(4), 1)));
        assert_eq!(concurrency("1:8"), Ok(Range::with_step(1, Some(8), 1)));
        assert_eq!(concurrency("1:8:2"), Ok(Range::with_step(1, Some(8), 2)));
        assert_eq!(concurrency("2:0"), Ok(Range::with_step(2, None, 1)));
        assert_eq!(rate("0.5:2:0.5"), Ok(Range::with_step(0.5, Some(2.0), 0.5)));
        assert_eq!(rate("10:0:5"), Ok(Range::with_step(10.0, None, 5.0)));
    }

    #[test]
    fn lists_and_factors() {
        let values = |text| concurrency(text).unwrap().listed;
        assert_eq!(values("1,2,4,8"), [1, 2, 4, 8]);
        assert_eq!(values("1:64:*2"), [1, 2, 4, 8, 16, 32, 64]);
        assert_eq!(values("8,1:3,2"), [1, 2, 3, 8], "ascending, each once");
        assert_eq!(values("1:10:+4"), [1, 5, 9]);
        assert_eq!(values("1:10:*1.5"), [1, 2, 3, 5, 8]);
        let range = concurrency("4,2").unwrap();
        assert_eq!((range.start, range.end), (2, Some(4)));
        assert_eq!(concurrency("4,4"), Ok(Range::with_step(4, Some(4), 1)));
        assert_eq!(rate("0.5,10:40:*2").unwrap().listed, [0.5, 10.0, 20.0, 40.0]);
        assert_eq!(batch_sizes("1,2,4:64"), Ok(BatchSizes(vec![1, 2, 4, 8, 16, 32, 64])));
        assert_eq!(batch_sizes("8"), Ok(BatchSizes(vec![8])));
        assert_eq!(batch_sizes("1:4:1"), Ok(BatchSizes(vec![1, 2, 3, 4])));
        for (text, rule) in [
            ("1,", "list of numbers"),
            ("1,,2", "list of numbers"),
            ("1:0:*2", "has an end"),
            ("1:8:*1", "factor must be"),
            ("1:8:*x", "factor must be"),
            ("0,1", "above 0"),
            ("1:100000:+1", "more than 1000"),
            ("1,a", "whole number"),
            ("1:2:3:4,5", "list of numbers"),
            ("1:4:0.5,8", "leads to 1.5, and every value must be a whole number"),
            ("1:8:+2.5", "leads to 3.5"),
        ] {
            let error = concurrency(text).expect_err(text);
            assert!(error.contains(rule), "{text}: {error}");
        }
        for text in ["1:4:0.5", "1,2:8:1.5"] {
            assert!(batch_sizes(text).unwrap_err().contains("must be a whole number"), "{text}");
        }
        assert_eq!(rate("1:2:+0.5").unwrap().listed, [1.0, 1.5, 2.0]);
        assert!(batch_sizes("0").is_err() && batch_sizes("1,x").is_err() && batch_sizes("").is_err());
        assert!(periodic("1,2").unwrap_err().contains("same step"));
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
