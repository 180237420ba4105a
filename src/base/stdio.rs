//! Data goes to standard output, everything else to standard error.

mod writing;

use std::borrow::Cow;
use std::env;
use std::fmt::{Display, Write as _};
use std::io::{self, IsTerminal as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::stdio::writing::Patience;

/// Whether a terminal interprets a character instead of showing it: all control characters, and those that change the
/// direction of writing.
pub fn acts(ch: char) -> bool {
    let turns =
        '\u{061c}' == ch || matches!(ch, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    ch.is_control() || turns
}

/// A name or a reason from a file or a server, made safe for one of our lines: characters that a terminal interprets
/// are escaped, including line ends and tabs.
pub fn shown(text: &str) -> Cow<'_, str> {
    escaped(text, acts)
}

/// The same for a whole text, whose line ends and tabs are our own.
fn harmless(text: &str) -> Cow<'_, str> {
    escaped(text, |ch| acts(ch) && !matches!(ch, '\n' | '\t'))
}

fn escaped(text: &str, acts: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&acts) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for ch in text.chars() {
        match acts(ch) {
            true => drop(write!(shown, "{}", ch.escape_default())),
            false => shown.push(ch),
        }
    }
    Cow::Owned(shown)
}

/// Whether the program is leaving and prints nothing more.
static SILENT: AtomicBool = AtomicBool::new(false);

/// Suppresses all further output: while everything is torn down, errors of the run are no news.
pub fn fall_silent() {
    SILENT.store(true, Ordering::SeqCst);
}

/// Suppresses output, or allows it again: one of several processes speaks for all.
pub fn hush(silent: bool) {
    SILENT.store(silent, Ordering::SeqCst);
}

/// Width of the terminal on standard output; `None` if it is not a terminal.
pub fn columns() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0).then(|| size.ws_col.into())
}

/// Whether standard output is a terminal that shows colours and the user wants them (no-color.org).
pub fn is_coloured() -> bool {
    let unwanted = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    io::stdout().is_terminal() && !unwanted && env::var_os("TERM").is_some_and(|name| name != "dumb")
}

/// Prints our own text on standard output unescaped, including terminal control sequences.
///
/// # Errors
/// If it is closed or full.
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

/// Whether the user has interrupted.
static IS_INTERRUPTED: AtomicBool = AtomicBool::new(false);
static READER_OF_OUTPUT: Patience = Patience::until(&IS_INTERRUPTED);
static READER_OF_ERRORS: Patience = Patience::until(&IS_INTERRUPTED);

/// The user has interrupted: readers that read nothing are not waited for without end any more.
pub fn lose_patience() {
    IS_INTERRUPTED.store(true, Ordering::Relaxed);
}

impl Stream {
    /// Writes a text as it is, a short one in one piece.
    ///
    /// # Errors
    /// If the stream is closed or full, or takes nothing although the user has interrupted.
    pub fn write(self, text: &str) -> io::Result<()> {
        match self {
            Self::Output => READER_OF_OUTPUT.write(io::stdout().lock(), text),
            Self::Error => READER_OF_ERRORS.write(io::stderr().lock(), text),
        }
    }
}

/// Something drawn on a terminal, which other output must not run into.
pub trait Drawing: Send + Sync {
    /// Writes `text` while nothing is drawn, or keeps it until then.
    ///
    /// # Errors
    /// If the stream is closed or full.
    fn beside(&self, stream: Stream, text: &str) -> io::Result<()>;

    /// The program is about to end, or to report a panic: restores the terminal and stops drawing. May be called on any
    /// thread, at any time.
    fn give_way(&self);
}

/// What is drawn now.
static DRAWING: Mutex<Option<Arc<dyn Drawing>>> = Mutex::new(None);

/// Sends all output through a drawing, until it is called with `None`.
pub fn draw_beside(drawing: Option<Arc<dyn Drawing>>) {
    *DRAWING.lock() = drawing;
}

/// Removes the drawing for good, whatever the program is doing.
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
/// If it is closed or full.
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

/// Writes a text to standard error in one piece. If that is closed or full, the text is lost; the exit code remains.
pub fn say(text: impl Display) {
    if SILENT.load(Ordering::SeqCst) {
        return;
    }
    let _ = write(Stream::Error, &harmless(&text.to_string()));
}

/// Writes a line, formatted as by `format!`, after the program's name.
#[macro_export]
macro_rules! note {
    ($($argument:tt)*) => {
        $crate::stdio::say(format_args!("triton-bench: {}\n", $crate::stdio::shown(&format!($($argument)*))))
    };
}
pub use note;

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
        for ch in turning.chain('\u{80}'..='\u{9f}') {
            let name = format!("a{ch}b");
            assert_eq!((harmless(&name), shown(&name)), (format!("a{}b", ch.escape_default()).into(), harmless(&name)));
        }
    }
}
