//! Messages that a command writes: each after its length, 4 bytes in native byte order. A length of 0 ends them.

use std::io::Read;
use std::process::{Command, Stdio};
use std::thread;

use crate::signals;
use crate::stdio::shown;
use crate::wire::grpc::MAX_MESSAGE;

/// The input that holds the command.
pub const INPUT: &str = "message_generator";

/// Limit on the output of a command in bytes, as for the messages of one call.
const MOST: u64 = MAX_MESSAGE as u64;
/// Bytes of its standard error that are kept.
const KEPT: u64 = 4096;
/// Characters shown of the command, and of its standard error.
const SHOWN: usize = 200;

/// Runs the command in a shell, and reads its messages: at least one.
///
/// # Errors
/// If it fails, breaks off or writes none; the command is named.
pub fn messages(command: &str) -> Result<Vec<Vec<u8>>, String> {
    let failed = |why: String| format!("{INPUT} '{}': {why}", excerpt(command));
    let written = run(command).map_err(failed)?;
    frames(&written).map_err(failed)
}

/// What the command writes.
fn run(command: &str) -> Result<Vec<u8>, String> {
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = signals::released(|| shell.spawn()).map_err(|error| format!("it cannot be started: {error}"))?;
    let mut complaints = child.stderr.take().map(|mut stderr| {
        thread::spawn(move || {
            let mut text = Vec::new();
            let _ = stderr.by_ref().take(KEPT).read_to_end(&mut text);
            // The rest is read, too, so that the command can continue.
            let _ = std::io::copy(&mut stderr, &mut std::io::sink());
            text
        })
    });
    let mut written = Vec::new();
    let read = child.stdout.take().map_or(Ok(0), |stdout| stdout.take(MOST + 1).read_to_end(&mut written));
    if written.len() as u64 > MOST {
        let _ = child.kill();
    }
    let status = child.wait().map_err(|error| format!("its end is unknown: {error}"))?;
    read.map_err(|error| format!("its output cannot be read: {error}"))?;
    if written.len() as u64 > MOST {
        return Err(format!("it writes more than {MOST} bytes"));
    }
    if status.success() {
        return Ok(written);
    }
    let complaint = complaints.take().and_then(|reader| reader.join().ok()).unwrap_or_default();
    let complaint = excerpt(String::from_utf8_lossy(&complaint).trim());
    Err(if complaint.is_empty() {
        format!("it ended with {status}")
    } else {
        format!("it ended with {status}: {complaint}")
    })
}

/// Parses the output of a command.
///
/// # Errors
/// If it breaks off, contains no message, or continues after the end.
pub fn frames(written: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let (mut messages, mut remaining) = (Vec::new(), written);
    while !remaining.is_empty() {
        let number = messages.len() + 1;
        let Some((length, after)) = remaining.split_first_chunk::<4>() else {
            return Err(format!(
                "its output is cut off in the length of message {number}, after {} bytes",
                remaining.len()
            ));
        };
        let length = u32::from_ne_bytes(*length) as usize;
        if length == 0 {
            if after.is_empty() {
                break;
            }
            return Err(format!("{} bytes follow the length of 0 that ends its messages", after.len()));
        }
        let Some((message, after)) = after.split_at_checked(length) else {
            let came = after.len();
            return Err(format!("its output is cut off in message {number}: {came} of {length} bytes came"));
        };
        messages.push(message.to_vec());
        remaining = after;
    }
    if messages.is_empty() { Err("it wrote no message".to_owned()) } else { Ok(messages) }
}

/// The beginning of a text, in one line.
fn excerpt(text: &str) -> String {
    let cut: String = text.chars().take(SHOWN).collect();
    let dots = if cut.len() < text.len() { "…" } else { "" };
    format!("{}{dots}", shown(&cut))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(messages: &[&[u8]]) -> Vec<u8> {
        messages.iter().flat_map(|message| [&(message.len() as u32).to_ne_bytes()[..], message].concat()).collect()
    }

    #[test]
    fn frames_are_read_whole_or_not_at_all() {
        let two = framed(&[b"ab", b"c"]);
        let messages = [b"ab".to_vec(), b"c".to_vec()];
        assert_eq!(frames(&two).unwrap(), messages);
        assert_eq!(frames(&[&two[..], &[0; 4]].concat()).unwrap(), messages);
        for end in 1..two.len() {
            match frames(&two[..end]) {
                Ok(read) => assert!(end == 6 && read == [b"ab"], "{end}"),
                Err(why) => assert!(why.contains("is cut off"), "{why}"),
            }
        }
        assert!(frames(&[]).unwrap_err().contains("no message"));
        assert!(frames(&[0; 4]).unwrap_err().contains("no message"));
        assert!(frames(&[&[0; 4], &two[..]].concat()).unwrap_err().contains("11 bytes follow"));
        assert!(frames(&[0xff; 8]).unwrap_err().contains("4 of 4294967295"));
    }

    #[test]
    fn commands_write_messages_or_fail_in_their_own_words() {
        let write = r"printf '\002\000\000\000hi'; printf '\001\000\000\000!'";
        if cfg!(target_endian = "little") {
            assert_eq!(messages(write).unwrap(), [b"hi".to_vec(), b"!".to_vec()]);
        }
        for (command, words) in [
            ("true", "message_generator 'true': it wrote no message"),
            ("echo to no avail >&2; exit 3", "exit status: 3: to no avail"),
            ("printf ab", "in the length of message 1, after 2 bytes"),
            (r"printf '\002\000\000\000h'", "in message 1"),
            ("no-such-command-at-all", "exit status: 127"),
            ("kill -9 $$", "signal: 9"),
            ("printf '\\001\\000\\000\\000a'; false", "exit status: 1"),
        ] {
            let why = messages(command).unwrap_err();
            assert!(why.contains(words), "{why}");
        }
    }
}
