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
        match errors.iter_mut().find(|(known, _)| known == error) {
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
        let is_same = |known: &InferError| known.code == error.code && known.message == error.message;
        let is_alike = |known: &InferError| {
            known.code == error.code && (known.message == FURTHER_REASONS || without_numbers(&known.message) == alike)
        };
        let mut left = *count;
        let same = errors.iter().position(|(known, _)| is_same(known));
        let others = (0..errors.len()).filter(|&place| is_alike(&errors[place].0)).collect::<Vec<_>>();
        for place in same.into_iter().chain(others) {
            let taken = left.min(errors[place].1);
            errors[place].1 -= taken;
            left -= taken;
        }
    }
    errors.retain(|(_, count)| *count > 0);
}

/// Most frequent reasons first; what stands for several comes last, however many there were.
fn sort_by_frequency(errors: &mut [(InferError, u64)]) {
    let further = |reason: &InferError| reason.message == FURTHER_REASONS;
    errors.sort_by(|(one, count), (other, count_of_other)| {
        (further(one).cmp(&further(other)))
            .then(count_of_other.cmp(count))
            .then_with(|| one.message.cmp(&other.message))
            .then_with(|| one.code.to_string().cmp(&other.code.to_string()))
    });
}

/// Reasons that differ in numbers only as one.
fn alike(errors: Vec<(InferError, u64)>) -> Vec<(InferError, u64)> {
    let mut groups: HashMap<InferError, (InferError, u64)> = HashMap::new();
    for (error, count) in errors {
        let key = InferError { code: error.code.clone(), message: without_numbers(&error.message) };
        match groups.get_mut(&key) {
            Some((known, sum)) => {
                *sum += count;
                known.message.clone_from(&key.message);
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
        let given = [(FURTHER_REASONS, 9), ("b", 2), ("c", 5), ("a", 2)];
        let told = few(given.map(|(message, count)| (reason(message), count)).into());
        let messages: Vec<&str> = told.iter().map(|(error, _)| error.message.as_str()).collect();
        assert_eq!(messages, ["c", "a", "b", FURTHER_REASONS]);
    }

    #[test]
    fn few_reasons_stay_as_they_are() {
        let given: Vec<_> = (0..MOST as u64).map(|number| (reason(format!("request {number}")), number + 1)).collect();
        let told = few(given.clone());
        assert_eq!((told.len(), &told[0]), (MOST, &given[MOST - 1]));
        assert_eq!(few(Vec::new()), []);
    }

    #[test]
    fn many_that_differ_in_numbers_are_one_and_nothing_is_lost() {
        let mut given: Vec<_> = (0..5_000).map(|number| (reason(format!("request {number} failed")), 1)).collect();
        given.push((reason("no memory"), 7));
        given.push((reason("request # failed"), 3));
        assert_eq!(few(given), [(reason("request # failed"), 5_003), (reason("no memory"), 7)]);
    }

    #[test]
    fn many_that_differ_in_words_are_counted_under_their_codes() {
        let name = |number: u8| format!("{}{}", char::from(b'a' + number % 26), char::from(b'a' + number / 26));
        let mut given: Vec<_> = (0..200).map(|number| (reason(name(number)), u64::from(number) + 1)).collect();
        given.push((reason(FURTHER_REASONS), 1_000_000));
        given.push((InferError { code: "Late".into(), message: "too late".into() }, 1));
        let told = few(given.clone());
        assert_eq!((told.len(), &told[0]), (MOST + 2, &given[199]));
        assert_eq!(told[MOST].0, reason(FURTHER_REASONS));
        let sum = |all: &[(InferError, u64)]| all.iter().map(|(_, count)| count).sum::<u64>();
        assert_eq!(sum(&told), sum(&given));
        assert_eq!(few(told.clone()), told);
    }
}
