//! Data on standard output, what is said besides on standard error.

use std::borrow::Cow;
use std::fmt::{Display, Write as _};
use std::io::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};

/// Whether a character acts on a terminal instead of being shown: all controls, and those that turn the direction of writing.
fn acts(letter: char) -> bool {
    let turns = '\u{061c}' == letter
        || matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    letter.is_control() || turns
}

/// A name or a reason that comes from a file or a server, as it may stand in a line of ours: what acts on a terminal is shown as an
/// escape, ends of lines and tabs too.
pub fn shown(text: &str) -> Cow<'_, str> {
    escaped(text, acts)
}

/// The same of a whole text, whose ends of lines and tabs are our own.
fn harmless(text: &str) -> Cow<'_, str> {
    escaped(text, |letter| acts(letter) && !matches!(letter, '\n' | '\t'))
}

fn escaped(text: &str, acts: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&acts) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        match acts(letter) {
            true => drop(write!(shown, "{}", letter.escape_default())),
            false => shown.push(letter),
        }
    }
    Cow::Owned(shown)
}

/// Whether the program is being left, and has nothing more to say.
static SILENT: AtomicBool = AtomicBool::new(false);

/// Lets nothing be printed or said any more: what becomes of a run while everything is taken away from it is no news.
pub fn fall_silent() {
    SILENT.store(true, Ordering::SeqCst);
}

/// Prints data on standard output.
///
/// # Errors
/// Where it is closed or full.
pub fn print(text: &str) -> Result<()> {
    if SILENT.load(Ordering::SeqCst) {
        return Ok(());
    }
    let mut out = io::stdout().lock();
    let written = out.write_all(harmless(text).as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| Error::output(format!("standard output cannot be written: {error}")))
}

/// Says a text on standard error, in one piece. Where that is closed or full, nobody hears it, and the exit code
/// has to do.
pub fn say(text: impl Display) {
    if SILENT.load(Ordering::SeqCst) {
        return;
    }
    let _ = io::stderr().write_all(harmless(&text.to_string()).as_bytes());
}

/// Says a line, formatted as by `format!`, after the program's name.
macro_rules! note {
    ($($argument:tt)*) => {
        $crate::stdio::say(format_args!("triton-bench: {}\n", $crate::stdio::shown(&format!($($argument)*))))
    };
}
pub(crate) use note;

#[cfg(test)]
mod tests {
    use super::{harmless, shown};

    #[test]
    fn what_acts_on_a_terminal_is_shown() {
        assert_eq!(harmless("a name\tof é\n"), "a name\tof é\n");
        assert_eq!(harmless("X\0 \x1b[31m\r\u{9b}"), "X\\u{0} \\u{1b}[31m\\r\\u{9b}");
        assert_eq!(shown("m\n  Throughput: 9\tx"), "m\\n  Throughput: 9\\tx");
        let turning = ['\u{61c}', '\u{200e}', '\u{200f}']
            .into_iter()
            .chain('\u{202a}'..='\u{202e}')
            .chain('\u{2066}'..='\u{2069}');
        for letter in turning.chain('\u{80}'..='\u{9f}') {
            let name = format!("a{letter}b");
            assert_eq!(
                (harmless(&name), shown(&name)),
                (format!("a{}b", letter.escape_default()).into(), harmless(&name))
            );
        }
    }
}
