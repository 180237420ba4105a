//! The program on a terminal: its screen, as an emulator would show it.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Termios, Winsize, tcgetattr, tcsetwinsize};

use super::watched::Watched;

/// A run that takes longer has hung.
const PATIENCE: Duration = Duration::from_secs(60);

/// A program whose standard streams are a terminal, which it is ended with.
pub struct Terminal {
    process: Watched,
    master: File,
    /// Keeps the terminal, and its modes, when the program is gone.
    line: File,
    before: Termios,
    output: Arc<Mutex<Output>>,
    reader: JoinHandle<()>,
    closing: Arc<AtomicBool>,
    started: Instant,
}

struct Output {
    parser: vt100::Parser,
    /// What came since the program's start.
    bytes: Vec<u8>,
    /// When parts of it came, and how long it was then.
    parts: Vec<(Instant, usize)>,
}

impl Terminal {
    /// Starts a command on a terminal of so many rows and columns.
    pub fn start(command: &Command, rows: u16, columns: u16) -> Self {
        Self::start_with(command, rows, columns, |setsid| setsid)
    }

    /// The same, where `change` says which streams are no terminal.
    pub fn start_with(
        command: &Command,
        rows: u16,
        columns: u16,
        change: impl FnOnce(&mut Command) -> &mut Command,
    ) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let line = File::options().read(true).write(true).open(name).unwrap();
        tcsetwinsize(&line, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let before = tcgetattr(&line).unwrap();
        let stream = || Stdio::from(OwnedFd::from(line.try_clone().unwrap()));
        // Its terminal sends it the signals of keys.
        let mut setsid = Command::new("setsid");
        setsid.arg("--ctty").arg(command.get_program()).args(command.get_args());
        setsid.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?)))).env("TERM", "xterm-256color");
        setsid.stdin(stream()).stdout(stream()).stderr(stream());
        let process = Watched::start(change(&mut setsid));
        drop(setsid);
        let parser = vt100::Parser::new(rows, columns, 1000);
        let output = Arc::new(Mutex::new(Output { parser, bytes: Vec::new(), parts: Vec::new() }));
        let master = File::from(master);
        let (mut from, into) = (master.try_clone().unwrap(), Arc::clone(&output));
        let closing = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&closing);
        let reader = thread::spawn(move || {
            let mut part = [0; 65536];
            loop {
                let limit = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
                if poll(&mut [PollFd::new(&from, PollFlags::IN)], Some(&limit)).is_ok_and(|ready| ready == 0) {
                    if until.load(Ordering::Relaxed) {
                        break;
                    }
                    continue;
                }
                let Ok(count @ 1..) = from.read(&mut part) else { break };
                let mut output = into.lock().unwrap();
                output.parser.process(&part[..count]);
                output.bytes.extend_from_slice(&part[..count]);
                let length = output.bytes.len();
                output.parts.push((Instant::now(), length));
            }
        });
        Self { process, master, line, before, output, reader, closing, started: Instant::now() }
    }

    /// Presses keys.
    pub fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    /// Sends the program a signal.
    pub fn signal(&self, signal: i32) {
        self.process.signal(signal);
    }

    /// Gives the terminal another size.
    pub fn resize(&self, rows: u16, columns: u16) {
        self.output.lock().unwrap().parser.screen_mut().set_size(rows, columns);
        tcsetwinsize(&self.line, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    }

    /// What it shows, line by line.
    pub fn screen(&self) -> String {
        self.output.lock().unwrap().parser.screen().contents()
    }

    /// Whether it shows the screen that programs draw on, instead of the one with the lines before.
    pub fn is_drawn_on(&self) -> bool {
        self.output.lock().unwrap().parser.screen().alternate_screen()
    }

    /// All that was sent to it.
    pub fn bytes(&self) -> String {
        String::from_utf8_lossy(&self.output.lock().unwrap().bytes).into_owned()
    }

    /// The moments at which something came.
    pub fn moments(&self) -> Vec<(Instant, usize)> {
        self.output.lock().unwrap().parts.clone()
    }

    /// Waits until what it shows is as wanted; returns that.
    pub fn wait_until(&self, label: &str, is_wanted: impl Fn(&str) -> bool) -> String {
        loop {
            let screen = self.screen();
            if is_wanted(&screen) {
                return screen;
            }
            assert!(self.started.elapsed() < PATIENCE, "{label} never came:\n{screen}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until it shows a text; returns all that it shows.
    pub fn wait_for(&self, text: &str) -> String {
        self.wait_until(text, |screen| screen.contains(text))
    }

    /// Takes the terminal away, as a connection that is lost does; returns how the program ended.
    pub fn hang_up(self) -> ExitStatus {
        let Self { mut process, master, line, reader, closing, .. } = self;
        closing.store(true, Ordering::Relaxed);
        reader.join().unwrap();
        drop((master, line));
        process.wait(PATIENCE)
    }

    /// Waits for the program's end. Returns how it ended and all lines that the terminal shows then, scrolled ones too, once it has
    /// made sure that the terminal is as it was before.
    pub fn finish(mut self) -> (ExitStatus, String) {
        let status = self.process.wait(PATIENCE.saturating_sub(self.started.elapsed()));
        if let Some(death) = self.process.death() {
            panic!("{death}\n{}", self.screen());
        }
        let after = tcgetattr(&self.line).unwrap();
        assert_eq!((after.local_modes, after.input_modes), (self.before.local_modes, self.before.input_modes));
        assert!(after.local_modes.contains(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG));
        // Nobody has the terminal any more, so that its reader comes to an end.
        drop(self.line);
        self.reader.join().unwrap();
        let mut output = self.output.lock().unwrap();
        let screen = output.parser.screen_mut();
        assert!(!screen.alternate_screen() && !screen.hide_cursor(), "{}", screen.contents());
        let rows = usize::from(screen.size().0);
        screen.set_scrollback(usize::MAX);
        let (mut lines, mut at) = (Vec::new(), screen.scrollback());
        let columns = screen.size().1;
        loop {
            let shown: Vec<String> = screen.rows(0, columns).collect();
            if at < rows {
                lines.extend(shown.into_iter().take(at));
                screen.set_scrollback(0);
                lines.extend(screen.rows(0, columns));
                break;
            }
            lines.extend(shown);
            at -= rows;
            screen.set_scrollback(at);
        }
        (status, lines.join("\n"))
    }
}
