//! `--session-concurrency`: groups payloads into the turns of sessions, as the input data say.

use std::collections::HashMap;
use std::time::Duration;

use crate::Turn;
use crate::data::{InputTensor, Payload, PayloadId};
use crate::error::{Error, Result};

/// The input that names a payload's session.
const SESSION: &str = "session_id";
/// The input that says how long a session pauses after a turn, in milliseconds.
const DELAY: &str = "delay";
/// The input with the turns of its session that a turn follows, if these are not just the one before it.
const AFTER: &str = "after";
/// The input that says how long the session pauses before a turn with [`AFTER`], in milliseconds.
const WAIT: &str = "wait";
/// Turns beyond this number are reported together with the last.
const MAX_TURNS: usize = 32;

/// The sessions of `payloads`, in the order in which they begin. Each payload's model becomes the number of its turn, so that
/// turns are reported separately, and its step, so that others can refer to its answer.
///
/// # Errors
/// If there are fewer sessions than should run at a time, or a turn follows none of its session's.
pub fn group(payloads: &mut [Payload], at_least: usize) -> Result<Vec<Vec<Turn>>> {
    let (mut sessions, mut indexes) = (Vec::<Vec<Turn>>::new(), HashMap::new());
    for (index, payload) in payloads.iter_mut().enumerate() {
        let bytes = |name: &str| payload.inputs.iter().find(|input| &*input.name == name).map(bytes).transpose();
        let time = |name: &str| -> Result<Duration> {
            let number = bytes(name)?.and_then(|time| time.first_chunk().map(|bytes| u64::from_le_bytes(*bytes)));
            Ok(Duration::from_millis(number.unwrap_or(0)))
        };
        let name = bytes(SESSION)?.ok_or_else(|| Error::input(format!("a payload lacks its '{SESSION}'")))?;
        let (delay, wait, after) = (time(DELAY)?, time(WAIT)?, bytes(AFTER)?);
        let session = *indexes.entry(name).or_insert_with(|| {
            sessions.push(Vec::new());
            sessions.len() - 1
        });
        let number = sessions[session].len();
        let after = match after {
            Some(list) => followed(&list, number)?,
            None => number.checked_sub(1).map(|before| before as u32).into_iter().collect(),
        };
        payload.model = number.min(MAX_TURNS - 1);
        payload.step = number as u32;
        sessions[session].push(Turn { payload: PayloadId(index as u32), after, wait, delay });
    }
    if sessions.len() < at_least {
        return Err(Error::input(format!(
            "--session-concurrency {at_least}: the input data have {} sessions, and at least as many are needed as are \
             to be under way at a time",
            sessions.len()
        )));
    }
    Ok(sessions)
}

/// The turns that turn `number` of a session follows; -1 stands for none.
fn followed(list: &[u8], number: usize) -> Result<Box<[u32]>> {
    let numbers = list.chunks_exact(4).filter_map(|bytes| bytes.first_chunk()).map(|bytes| i32::from_le_bytes(*bytes));
    let mut after = Vec::new();
    for before in numbers.filter(|before| *before != -1) {
        match u32::try_from(before).ok().filter(|before| (*before as usize) < number) {
            Some(before) if after.contains(&before) => {}
            Some(before) => after.push(before),
            None => {
                return Err(Error::input(format!(
                    "'{AFTER}' of turn {number} of a session names turn {before}: turns are numbered from 0 within their \
                     session, and follow earlier ones"
                )));
            }
        }
    }
    Ok(after.into())
}

fn bytes(input: &InputTensor) -> Result<Vec<u8>> {
    input.region.bytes(input.offset, input.len).map(std::borrow::Cow::into_owned)
}

/// Names of the turns in reports, each with its share of all; empty if no session has several.
pub fn turns(sessions: &[Vec<Turn>]) -> Vec<(String, f64)> {
    let all: usize = sessions.iter().map(Vec::len).sum();
    let longest = sessions.iter().map(Vec::len).max().unwrap_or(0).min(MAX_TURNS);
    let count = |turn: usize| -> usize {
        let beyond = if turn + 1 == MAX_TURNS { usize::MAX } else { 1 };
        sessions.iter().map(|session| session.len().saturating_sub(turn).min(beyond)).sum()
    };
    let named = |turn: usize| {
        let more = if turn + 1 == MAX_TURNS { " and later" } else { "" };
        (format!("turn {}{more}", turn + 1), count(turn) as f64 / all.max(1) as f64)
    };
    if longest > 1 { (0..longest).map(named).collect() } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_follows_earlier_ones_of_its_session() {
        let list = |numbers: &[i32]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>();
        assert!(followed(&list(&[-1]), 3).unwrap().is_empty());
        assert_eq!(*followed(&list(&[0, 2, 0]), 3).unwrap(), [0, 2]);
        assert!(followed(&list(&[3]), 3).is_err() && followed(&list(&[-2]), 3).is_err());
    }

    #[test]
    fn turns_have_their_share_and_late_ones_are_told_together() {
        let turn = Turn { payload: PayloadId(0), after: [].into(), wait: Duration::ZERO, delay: Duration::ZERO };
        let shares = turns(&[vec![turn.clone(); 2], vec![turn.clone(); 2], vec![turn.clone()]]);
        assert_eq!(shares.iter().map(|(_, share)| *share).collect::<Vec<_>>(), [0.6, 0.4]);
        assert!(turns(&[vec![turn.clone()], vec![turn.clone()]]).is_empty());
        let long = turns(&[vec![turn; 40]]);
        assert_eq!((long.len(), long[31].0.as_str(), long[31].1), (32, "turn 32 and later", 9.0 / 40.0));
    }
}
