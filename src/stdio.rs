//! Data on standard output, what is said besides on standard error.

use std::borrow::Cow;
use std::env;
use std::fmt::{Display, Write as _};
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::error::{Error, Result};

/// Whether a character acts on a terminal instead of being shown: all controls, and those that turn the direction of writing.
pub fn acts(letter: char) -> bool {
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

/// Lets nothing be printed or said until further notice, or something again: one of several processes speaks for all.
pub fn hush(silent: bool) {
    SILENT.store(silent, Ordering::SeqCst);
}

/// Columns of the terminal that standard output is; `None` where it is none.
pub fn columns() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0).then(|| size.ws_col.into())
}

/// Whether standard output is a terminal that shows colours to somebody who wants them (no-color.org).
pub fn is_coloured() -> bool {
    let unwanted = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    io::stdout().is_terminal() && !unwanted && env::var_os("TERM").is_some_and(|name| name != "dumb")
}

/// Prints a text of our own on standard output as it is, with what acts on a terminal.
///
/// # Errors
/// Where it is closed or full.
pub fn print_styled(text: &str) -> Result<()> {
    output(text)
}

/// Where a text goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Output,
    /// Standard error.
    Error,
}

impl Stream {
    /// Writes a text as it is, in one piece.
    ///
    /// # Errors
    /// Where the stream is closed or full.
    pub fn write(self, text: &str) -> io::Result<()> {
        match self {
            Self::Output => {
                let mut out = io::stdout().lock();
                out.write_all(text.as_bytes()).and_then(|()| out.flush())
            }
            Self::Error => io::stderr().write_all(text.as_bytes()),
        }
    }
}

/// Something that is drawn on a terminal, where texts must not run into it.
pub trait Drawing: Send + Sync {
    /// Has `text` written while nothing is drawn, or keeps it until then.
    ///
    /// # Errors
    /// Where the stream is closed or full.
    fn beside(&self, stream: Stream, text: &str) -> io::Result<()>;

    /// The program is about to end, or to tell of a panic: leaves the terminal as it was, and draws no more. May be called on any
    /// thread, at any time.
    fn give_way(&self);
}

/// What is drawn now.
static DRAWING: Mutex<Option<Arc<dyn Drawing>>> = Mutex::new(None);

/// Lets every text go through a drawing, until it is said that there is none.
pub fn draw_beside(drawing: Option<Arc<dyn Drawing>>) {
    *DRAWING.lock() = drawing;
}

/// Takes what is drawn away for good, wherever the program is.
pub fn give_way() {
    let drawing = DRAWING.lock().take();
    drawing.into_iter().for_each(|drawing| drawing.give_way());
}

fn write(stream: Stream, text: &str) -> io::Result<()> {
    let drawing = DRAWING.lock().clone();
    match drawing {
        Some(drawing) => drawing.beside(stream, text),
        None => stream.write(text),
    }
}

/// Prints data on standard output.
///
/// # Errors
/// Where it is closed or full.
pub fn print(text: &str) -> Result<()> {
    output(&harmless(text))
}

fn output(text: &str) -> Result<()> {
    if SILENT.load(Ordering::SeqCst) {
        return Ok(());
    }
    write(Stream::Output, text).map_err(|error| {
        let message = format!("standard output cannot be written: {error}");
        if error.kind() == io::ErrorKind::BrokenPipe { Error::closed(message) } else { Error::output(message) }
    })
}

/// Says a text on standard error, in one piece. Where that is closed or full, nobody hears it, and the exit code
/// has to do.
pub fn say(text: impl Display) {
    if SILENT.load(Ordering::SeqCst) {
        return;
    }
    let _ = write(Stream::Error, &harmless(&text.to_string()));
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
