//! Failure reasons, merged to as few as are informative: servers put numbers into their texts, and a level may have any
//! number of windows.

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::backend::{ErrorCode, InferError};
use crate::record::{FURTHER_REASONS, without_numbers};

/// Maximum number of distinguished reasons, besides one for the rest of each code.
const MOST: usize = 32;

/// The reasons, most frequent first. Where there are many, those that differ in numbers only become one; where there are still
/// too many, the rarest are counted under their codes alone.
pub fn few(mut errors: Vec<(InferError, u64)>) -> Vec<(InferError, u64)> {
    sort_by_frequency(&mut errors);
    if errors.len() > MOST {
        errors = alike(errors);
        sort_by_frequency(&mut errors);
    }
    if errors.len() > MOST {
        errors = rest(errors);
        sort_by_frequency(&mut errors);
    }
    errors
}

/// The reasons of both.
pub fn sum(mut errors: Vec<(InferError, u64)>, more: &[(InferError, u64)]) -> Vec<(InferError, u64)> {
    if more.is_empty() {
        return errors;
    }
    for (error, count) in more {
        match errors.iter_mut().find(|(reason, _)| reason == error) {
            Some((_, sum)) => *sum += count,
            None => errors.push((error.clone(), *count)),
        }
    }
    few(errors)
}

/// Takes those of a part away, which may tell apart what the whole has as one.
pub fn take_away(errors: &mut Vec<(InferError, u64)>, part: &[(InferError, u64)]) {
    for (error, count) in part {
        let alike = without_numbers(&error.message);
        let is_same = |reason: &InferError| reason.code == error.code && reason.message == error.message;
        let is_alike = |reason: &InferError| {
            reason.code == error.code
                && (reason.message == FURTHER_REASONS || without_numbers(&reason.message) == alike)
        };
        let mut left = *count;
        let same = errors.iter().position(|(reason, _)| is_same(reason));
        let others = (0..errors.len()).filter(|&index| is_alike(&errors[index].0)).collect::<Vec<_>>();
        for index in same.into_iter().chain(others) {
            let taken = left.min(errors[index].1);
            errors[index].1 -= taken;
            left -= taken;
        }
    }
    errors.retain(|(_, count)| *count > 0);
}

/// Most frequent reasons first; what stands for several comes last, however many there were.
fn sort_by_frequency(errors: &mut [(InferError, u64)]) {
    let further = |reason: &InferError| reason.message == FURTHER_REASONS;
    errors.sort_by(|(left, left_count), (right, right_count)| {
        (further(left).cmp(&further(right)))
            .then(right_count.cmp(left_count))
            .then_with(|| left.message.cmp(&right.message))
            .then_with(|| left.code.to_string().cmp(&right.code.to_string()))
    });
}

/// Reasons that differ in numbers only as one.
fn alike(errors: Vec<(InferError, u64)>) -> Vec<(InferError, u64)> {
    let mut groups: HashMap<InferError, (InferError, u64)> = HashMap::new();
    for (error, count) in errors {
        let key = InferError { code: error.code.clone(), message: without_numbers(&error.message) };
        match groups.get_mut(&key) {
            Some((reason, sum)) => {
                *sum += count;
                reason.message.clone_from(&key.message);
            }
            None => drop(groups.insert(key, (error, count))),
        }
    }
    groups.into_values().collect()
}

/// The most frequent ones, and one for the others of each code.
fn rest(mut errors: Vec<(InferError, u64)>) -> Vec<(InferError, u64)> {
    errors.sort_by_key(|(error, count)| (error.message == FURTHER_REASONS, Reverse(*count)));
    let mut others: HashMap<ErrorCode, u64> = HashMap::new();
    for (error, count) in errors.split_off(MOST) {
        *others.entry(error.code).or_default() += count;
    }
    let further = |(code, count)| (InferError { code, message: FURTHER_REASONS.to_owned() }, count);
    errors.into_iter().chain(others.into_iter().map(further)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(message: impl Into<String>) -> InferError {
        InferError { code: "Internal".into(), message: message.into() }
    }

    #[test]
    fn frequent_reasons_come_first_and_the_rest_last() {
        let errors = [(FURTHER_REASONS, 9), ("b", 2), ("c", 5), ("a", 2)];
        let reasons = few(errors.map(|(message, count)| (reason(message), count)).into());
        let messages: Vec<&str> = reasons.iter().map(|(error, _)| error.message.as_str()).collect();
        assert_eq!(messages, ["c", "a", "b", FURTHER_REASONS]);
    }

    #[test]
    fn few_reasons_stay_as_they_are() {
        let errors: Vec<_> = (0..MOST as u64).map(|number| (reason(format!("request {number}")), number + 1)).collect();
        let reasons = few(errors.clone());
        assert_eq!((reasons.len(), &reasons[0]), (MOST, &errors[MOST - 1]));
        assert_eq!(few(Vec::new()), []);
    }

    #[test]
    fn many_that_differ_in_numbers_are_one_and_nothing_is_lost() {
        let mut errors: Vec<_> = (0..5_000).map(|number| (reason(format!("request {number} failed")), 1)).collect();
        errors.push((reason("no memory"), 7));
        errors.push((reason("request # failed"), 3));
        assert_eq!(few(errors), [(reason("request # failed"), 5_003), (reason("no memory"), 7)]);
    }

    #[test]
    fn many_that_differ_in_words_are_counted_under_their_codes() {
        let name = |number: u8| format!("{}{}", char::from(b'a' + number % 26), char::from(b'a' + number / 26));
        let mut errors: Vec<_> = (0..200).map(|number| (reason(name(number)), u64::from(number) + 1)).collect();
        errors.push((reason(FURTHER_REASONS), 1_000_000));
        errors.push((InferError { code: "Late".into(), message: "too late".into() }, 1));
        let reasons = few(errors.clone());
        assert_eq!((reasons.len(), &reasons[0]), (MOST + 2, &errors[199]));
        assert_eq!(reasons[MOST].0, reason(FURTHER_REASONS));
        let sum = |all: &[(InferError, u64)]| all.iter().map(|(_, count)| count).sum::<u64>();
        assert_eq!(sum(&reasons), sum(&errors));
        assert_eq!(few(reasons.clone()), reasons);
    }
}
