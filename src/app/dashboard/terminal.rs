//! The dashboard on the terminal. A separate thread draws it and reads keys; the measuring thread supplies the data.

use std::io::{self, IsTerminal, Stderr};
use std::mem;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen};
use ratatui::prelude::{CrosstermBackend, Terminal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};

use crate::app::signals;
use crate::clock::Stamp;
use crate::error::{Error, Result};
use crate::machine::host_monitor::Machine;
use crate::machine::usage;
use crate::measure::blocks::Block;
use crate::plan::Plan;
use crate::report::live::{self, Board};
use crate::report::progress::Standing;
use crate::result::disturbance::Disturbance;
use crate::stdio::{self, Drawing, Stream};

/// How often it is redrawn.
const REDRAWN_EVERY: Duration = Duration::from_millis(250);
/// How long a key may wait.
const KEYS_EVERY: Duration = Duration::from_millis(50);
/// How often processor time is read, which costs some 20 us for each process.
const USAGE_EVERY: Duration = Duration::from_secs(1);
/// How long closing it waits for the drawing thread.
const PATIENCE: Duration = Duration::from_millis(200);
/// Limit on texts for standard error that are kept until the end; they may include a server's log.
const MAX_KEPT: usize = 1000;

/// A dashboard on the terminal. Dropping it restores the terminal and prints everything that was held back.
pub struct Dashboard {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    board: Mutex<Board>,
    terminal: Mutex<Option<Terminal<CrosstermBackend<Stderr>>>>,
    /// The terminal's earlier modes, if keys are read.
    before: Option<Termios>,
    /// Whether it is closed. Who closes it holds the lock until the terminal is as it was: whoever ends the process meanwhile waits for that.
    left: Mutex<bool>,
    /// Output held back since it was opened; `None` once it is closed.
    kept: Mutex<Option<Kept>>,
}

#[derive(Default)]
struct Kept {
    texts: Vec<(Stream, String)>,
    /// How many of them are for standard error.
    messages: usize,
}

impl Dashboard {
    /// Opens one, without figures yet.
    ///
    /// # Errors
    /// If the terminal does not accept it.
    pub fn start(plan: &Plan) -> Result<Self> {
        let failed = |error: io::Error| Error::machine(format!("--live: cannot draw on the terminal: {error}"));
        let terminal = Terminal::new(CrosstermBackend::new(io::stderr())).map_err(failed)?;
        let title = match &plan.target.mix[..] {
            [] => plan.target.model.to_string(),
            mix => mix.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        };
        let shared = Arc::new(Shared {
            board: Mutex::new(Board::new(&stdio::shown(&title))),
            terminal: Mutex::new(Some(terminal)),
            before: take_keys(),
            left: Mutex::new(false),
            kept: Mutex::new(Some(Kept::default())),
        });
        stdio::draw_beside(Some(shared.clone()));
        let mut dashboard = Self { shared: Arc::clone(&shared), thread: None };
        execute!(io::stderr(), EnterAlternateScreen).map_err(failed)?;
        let thread = thread::Builder::new().name("dashboard".to_owned()).spawn(move || shared.keep_drawn());
        dashboard.thread = Some(thread.map_err(failed)?);
        Ok(dashboard)
    }

    /// A block has ended, `at` seconds after the run began, with this `throughput` in inferences a second.
    pub fn block(&self, at: f64, throughput: f64, block: &Block) {
        let latencies = live::PERCENTILES.map(|(percentile, ..)| block.latency_ns(Some(percentile)));
        let point = live::Point { at, throughput, latencies, late_ns: block.late_ns };
        self.shared.board.lock().push(point, block.slice());
    }

    /// What others took from the last window, where that counts.
    pub fn disturbed(&self, disturbance: Option<Disturbance>) {
        self.shared.board.lock().disturbance = disturbance;
    }

    /// Updates the progress of the run.
    pub fn show(&self, standing: Standing, outstanding: u64, machine: Option<&Machine>) {
        let mut board = self.shared.board.lock();
        (board.standing, board.outstanding) = (standing, outstanding);
        let now = Stamp::now();
        let last = board.busy.as_ref().map(|(at, _)| *at);
        let Some(machine) = machine.filter(|_| last.is_none_or(|last| now - last >= USAGE_EVERY)) else { return };
        let busy = machine.busy();
        if let Some((at, before)) = &board.busy {
            board.usage =
                usage::difference(usage::Reading { at: *at, busy: before }, usage::Reading { at: now, busy: &busy });
        }
        board.busy = Some((now, busy));
    }
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        self.shared.leave();
        stdio::draw_beside(None);
        let Some(thread) = self.thread.take() else { return };
        let limit = Stamp::now().plus_duration(PATIENCE);
        while !thread.is_finished() && Stamp::now() < limit {
            thread::sleep(Duration::from_millis(1));
        }
        // One that is stuck on a terminal that takes nothing must not keep the run from its end.
        if thread.is_finished() {
            drop(thread.join());
        }
    }
}

impl Shared {
    /// Draws and reads keys until it is closed.
    fn keep_drawn(&self) {
        let (mut due, mut keys) = (Stamp::now(), self.before.is_some());
        loop {
            keys = keys && self.read_keys();
            if !keys {
                thread::sleep(KEYS_EVERY);
            }
            let now = Stamp::now();
            if now < due && self.kept.lock().is_some() {
                continue;
            }
            due = now.plus_duration(REDRAWN_EVERY);
            // The measuring thread does not wait for a slow terminal.
            let board = self.board.lock().clone();
            let mut terminal = self.terminal.lock();
            if *self.left.lock() {
                // It took too long to draw, and the terminal has been restored without it.
                mem::forget(terminal.take());
                return;
            }
            let Some(terminal) = terminal.as_mut() else { return };
            let _ = terminal.draw(|frame| board.draw(frame));
        }
    }

    /// Waits briefly for keys. Returns whether there may be more.
    fn read_keys(&self) -> bool {
        let stdin = io::stdin();
        let mut polled = [PollFd::new(&stdin, PollFlags::IN)];
        let limit = Timespec { tv_sec: 0, tv_nsec: KEYS_EVERY.as_nanos() as i64 };
        if !poll(&mut polled, Some(&limit)).is_ok_and(|ready| ready > 0) || self.kept.lock().is_none() {
            return true;
        }
        let mut keys = [0; 64];
        let Ok(count @ 1..) = rustix::io::read(&stdin, &mut keys) else { return false };
        for _ in keys[..count].iter().filter(|key| matches!(key, b'q' | b'Q')) {
            signals::press();
        }
        true
    }

    /// Restores the terminal, and prints what was held back.
    fn leave(&self) {
        // A stuck drawing thread holds the terminal's lock; then no other thread may use the terminal, and that
        // thread draws no more.
        let terminal = self.terminal.try_lock_for(PATIENCE).and_then(|mut terminal| terminal.take());
        let left = self.left.try_lock_for(PATIENCE);
        // Without the lock, another thread is stuck there, on a terminal that takes nothing but its modes.
        let is_first = left.as_ref().is_none_or(|left| !**left);
        if left.is_some() && is_first {
            let _ = execute!(io::stderr(), LeaveAlternateScreen, Show);
        }
        if let Some(before) = self.before.as_ref().filter(|_| is_first) {
            let _ = tcsetattr(io::stdin(), OptionalActions::Flush, before);
        }
        if let Some(mut left) = left {
            *left = true;
        }
        if let Some(mut terminal) = terminal {
            // Dropping it on a terminal that has hung up would panic.
            if terminal.show_cursor().is_err() {
                mem::forget(terminal);
            }
        }
        let kept = self.kept.lock().take();
        let Some(Kept { texts, messages }) = kept else { return };
        for (stream, text) in texts {
            let _ = stream.write(&text);
        }
        if messages > MAX_KEPT {
            let _ =
                Stream::Error.write(&format!("triton-bench: {} messages were left out here\n", messages - MAX_KEPT));
        }
    }
}

/// Makes keys arrive one by one, without echo and without job control; returns the earlier modes. `None` if there are
/// no keys to read.
fn take_keys() -> Option<Termios> {
    let stdin = io::stdin();
    let before = tcgetattr(&stdin).ok()?;
    let mut modes = before.clone();
    modes.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
    // A stopped program would leave its dashboard on the terminal.
    modes.special_codes[SpecialCodeIndex::VSUSP] = 0;
    tcsetattr(&stdin, OptionalActions::Now, &modes).ok()?;
    Some(before)
}

impl Drawing for Shared {
    fn beside(&self, stream: Stream, text: &str) -> io::Result<()> {
        let mut guard = self.kept.lock();
        let Some(kept) = guard.as_mut().filter(|_| stream == Stream::Error || io::stdout().is_terminal()) else {
            // A pipe that nobody reads must not delay the drawing or the end.
            drop(guard);
            return stream.write(text);
        };
        if stream == Stream::Error {
            self.board.lock().say(text);
            kept.messages += 1;
        }
        if stream == Stream::Output || kept.messages <= MAX_KEPT {
            kept.texts.push((stream, text.to_owned()));
        }
        Ok(())
    }

    fn give_way(&self) {
        self.leave();
    }
}
