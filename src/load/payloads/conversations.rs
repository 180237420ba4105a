//! `--session-concurrency`: groups payloads into the turns of sessions, as the input data say.

use std::collections::HashMap;
use std::time::Duration;

use crate::data::{InputTensor, Payload, PayloadId};
use crate::error::{Error, Result};
use crate::load::Turn;

/// The input that names a payload's session.
const SESSION: &str = "session_id";
/// The input that says how long a session pauses after a turn, in milliseconds.
const DELAY: &str = "delay";
/// Turns beyond this number are reported together with the last.
const MAX_TURNS: usize = 32;

/// The sessions of `payloads`, in the order in which they begin. Each payload's model becomes the number of its turn,
/// so that turns are reported separately.
///
/// # Errors
/// If there are fewer sessions than should run at a time.
pub fn group(payloads: &mut [Payload], concurrency: u32) -> Result<Vec<Vec<Turn>>> {
    let (mut sessions, mut known) = (Vec::<Vec<Turn>>::new(), HashMap::new());
    for (index, payload) in payloads.iter_mut().enumerate() {
        let bytes = |name: &str| payload.inputs.iter().find(|input| &*input.name == name).map(bytes).transpose();
        let name = bytes(SESSION)?.ok_or_else(|| Error::input(format!("a payload lacks its '{SESSION}'")))?;
        let delay = bytes(DELAY)?.and_then(|delay| delay.first_chunk().map(|bytes| u64::from_le_bytes(*bytes)));
        let session = *known.entry(name).or_insert_with(|| {
            sessions.push(Vec::new());
            sessions.len() - 1
        });
        payload.model = sessions[session].len().min(MAX_TURNS - 1);
        let delay = Duration::from_millis(delay.unwrap_or(0));
        sessions[session].push(Turn { payload: PayloadId(index as u32), delay });
    }
    if sessions.len() < concurrency as usize {
        return Err(Error::input(format!(
            "--session-concurrency {concurrency}: the input data have {} sessions, and at least as many are needed as are \
             to be under way at a time",
            sessions.len()
        )));
    }
    Ok(sessions)
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
    fn turns_have_their_share_and_late_ones_are_told_together() {
        let turn = Turn { payload: PayloadId(0), delay: Duration::ZERO };
        let shares = turns(&[vec![turn; 2], vec![turn; 2], vec![turn]]);
        assert_eq!(shares.iter().map(|(_, share)| *share).collect::<Vec<_>>(), [0.6, 0.4]);
        assert!(turns(&[vec![turn], vec![turn]]).is_empty());
        let long = turns(&[vec![turn; 40]]);
        assert_eq!((long.len(), long[31].0.as_str(), long[31].1), (32, "turn 32 and later", 9.0 / 40.0));
    }
}
