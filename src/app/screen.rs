//! What is printed during the run: data on standard output; on standard error a progress line, a dashboard, or log
//! lines.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use crate::app::dashboard::Dashboard;
use crate::app::exposition::Page;
use crate::app::job::Job;
use crate::app::progress::{Length, LevelProgress, Parts};
use crate::app::session::Session;
use crate::clock::Stamp;
use crate::error::{ErrorKind, Result};
use crate::exit::Codes;
use crate::measure::blocks::Block;
use crate::measure::measurement::{Moment, Watcher};
use crate::plan::Plan;
use crate::record::Recorder;
use crate::report::console;
use crate::report::level_name;
use crate::report::progress::{Progress, REDRAWN, Standing, clock, digits, latency};
use crate::result::disturbance::Disturbance;
use crate::result::outcome::Outcome;
use crate::result::summary::{ClientSummary, LevelLoad, LevelSummary};
use crate::stdio::{self, note};
use crate::terms::{LoadMode, Stage};

/// How often progress is logged without a progress line.
const BETWEEN_LINES: Duration = Duration::from_secs(30);
/// Maximum length of a log line.
const LOG_COLUMNS: usize = 200;

/// The terminal, or its replacement.
pub struct Screen {
    /// perf_analyzer's callers expect nothing on standard error.
    quiet: bool,
    /// The current position in the run; empty if there is only one level.
    position: RefCell<String>,
    progress: RefCell<LevelProgress>,
    level: Cell<Level>,
    live: RefCell<Option<Dashboard>>,
    /// The page of figures that others read.
    page: Option<Page>,
    began: Stamp,
    /// When progress was last logged.
    last_logged: Cell<Stamp>,
}

/// The level being measured.
#[derive(Clone, Copy, Default)]
struct Level {
    load: Option<LevelLoad>,
    length: Length,
    /// Finished requests of its earlier windows, and how many of them failed.
    earlier: (u64, u64),
    /// Recent throughput and key latency.
    lately: (Option<f64>, Option<f64>),
}

impl Screen {
    /// The process' standard output and standard error, with triton-bench's conventions.
    pub fn new() -> Self {
        Self {
            quiet: false,
            position: RefCell::default(),
            progress: RefCell::new(LevelProgress::new(&LoadMode::one_concurrency(1), false)),
            level: Cell::default(),
            live: RefCell::default(),
            page: None,
            began: Stamp::now(),
            last_logged: Cell::new(Stamp::now()),
        }
    }

    /// The same for the levels of `plan`, with the conventions of the program name that `codes` stands for.
    ///
    /// # Errors
    /// If a dashboard is wanted and the terminal does not support it.
    pub fn for_plan(plan: &Plan, codes: Codes) -> Result<Self> {
        let progress = RefCell::new(LevelProgress::new(&plan.load.mode, plan.measurement.binary_search));
        let live = if plan.output.live { Some(Dashboard::start(plan)?) } else { None };
        let page = Page::start(plan)?;
        Ok(Self { quiet: codes == Codes::PerfAnalyzers, progress, live: RefCell::new(live), page, ..Self::new() })
    }

    /// Measuring is over: shows what was held back.
    pub fn end(&self) {
        self.live.take();
    }

    /// Whether others read figures while a load runs.
    pub fn is_watched(&self) -> bool {
        self.page.is_some()
    }

    fn begins(&self) {
        if let Some(page) = &self.page {
            page.begins();
        }
    }

    /// The recorder of a load that is about to begin.
    pub fn watched(&self, load: LevelLoad, recorder: Recorder) -> Arc<Recorder> {
        let recorder = Arc::new(recorder);
        if let Some(page) = &self.page {
            page.add(load, &recorder);
        }
        recorder
    }

    /// Prints text on standard output. Under perf_analyzer's name a reader that has seen enough, as `head` has, ends nothing: the
    /// files that were asked for are still to come.
    ///
    /// # Errors
    /// If standard output is closed or full.
    pub fn print(&self, text: &str) -> Result<()> {
        if !self.quiet {
            return stdio::print(text);
        }
        let printed = stdio::print(&console::as_upstream(text));
        printed.or_else(|error| if error.kind() == ErrorKind::Closed { Ok(()) } else { Err(error) })
    }

    /// Sets the position of a run that does not walk through levels, with its parts where their number is known.
    pub fn at(&self, position: &str, parts: Option<Parts>) {
        self.progress.borrow_mut().at(parts);
        self.call(position);
    }

    /// A level is measured once more: its number is not that of the last one.
    pub fn again(&self) {
        if !self.position.borrow().is_empty() {
            self.call("again");
        }
    }

    fn call(&self, position: &str) {
        stdio::shown(position).as_ref().clone_into(&mut self.position.borrow_mut());
    }

    /// Logs that one of several parts of a run is done, and how long the rest will take, if there is no progress line.
    pub fn done(&self, message: &str) {
        if self.has_log() {
            self.last_logged.set(Stamp::now());
            let left = self.progress.borrow().left().filter(|left| !left.is_zero());
            note!("{message}{}", left.map(|left| format!(", {} left", clock(left))).unwrap_or_default());
        }
    }

    /// A part of the run is over, and was the last for now.
    pub fn end_part(&self) {
        self.progress.borrow_mut().finished();
    }

    /// The next level begins.
    pub fn next(&self) {
        let position = self.progress.borrow_mut().next();
        self.call(&position);
    }

    /// The next of several stages begins.
    pub fn stage(&self, load: LevelLoad, stage: &Stage) {
        self.next();
        self.begins();
        self.level.set(Level { load: Some(load), length: Length::of_stage(stage), ..Level::default() });
    }

    /// A level has been measured, and is printed.
    pub fn finished(&self, level: &LevelSummary) {
        self.finished_at(&self.position(), level);
    }

    /// The current position in the run.
    pub fn position(&self) -> String {
        self.position.borrow().clone()
    }

    /// A level has been measured that was at `position`, and is printed.
    pub fn finished_at(&self, position: &str, level: &LevelSummary) {
        self.progress.borrow_mut().finished();
        if self.has_log() && !position.is_empty() {
            self.last_logged.set(Stamp::now());
            let (name, client) = (level_name(level.load), &level.client);
            let (rate, mean) = (digits(client.throughput()), latency(client.latency.mean_ns()));
            note!("{position}, {name}: {rate} infer/s, mean latency {mean}, {}", Outcome::new(level).name());
        }
    }

    /// Logs that something is done, if there is no progress line, but not too often.
    pub fn log(&self, message: &str) {
        if self.has_log() && Stamp::now() - self.last_logged.get() >= BETWEEN_LINES {
            self.last_logged.set(Stamp::now());
            note!("{message}");
        }
    }

    fn has_log(&self) -> bool {
        !self.quiet && !Progress::is_possible()
    }

    /// Follows one level.
    pub fn level<'a>(&'a self, session: &'a Session, job: &Job) -> LevelScreen<'a> {
        self.begins();
        self.level.set(Level { load: Some(job.load), length: Length::new(job), ..Level::default() });
        let line = if self.quiet || self.live.borrow().is_some() { None } else { Progress::new() };
        LevelScreen { screen: self, session, plan: &session.plan, line, due: Cell::new(Stamp::now()) }
    }
}

/// Follows one level: a line per window where asked for, and the progress line.
pub struct LevelScreen<'a> {
    screen: &'a Screen,
    session: &'a Session,
    plan: &'a Plan,
    line: Option<Progress>,
    /// When the line is redrawn.
    due: Cell<Stamp>,
}

impl LevelScreen<'_> {
    fn standing(&self, moment: &Moment) -> Standing {
        let (screen, plan) = (self.screen, &self.plan.measurement);
        let level = screen.level.get();
        let (over, failed) = (moment.completed.all(), moment.completed.failed);
        let total = match level.length {
            Length::Requests(total, _) => Some(total),
            Length::Windows => plan.window.requests(),
            Length::Time(_) => None,
        };
        let earlier = if total.is_some() { 0 } else { level.earlier.0 };
        Standing {
            position: screen.position.borrow().clone(),
            load: level.load,
            // Requirements may need more windows.
            window: moment.window.map(|window| (window, plan.most_windows().max(window))),
            requests: earlier + over,
            total,
            failed: level.earlier.1 + failed,
            throughput: level.lately.0,
            latency_ns: level.lately.1,
            elapsed: Stamp::now() - screen.began,
            rest: screen.progress.borrow().rest(level.length, plan, moment),
        }
    }
}

impl Watcher for LevelScreen<'_> {
    fn window(&self, trial: usize, window: &ClientSummary, disturbance: Option<Disturbance>) {
        if let Some(live) = &*self.screen.live.borrow() {
            live.disturbed(disturbance);
        }
        let mut level = self.screen.level.get();
        if level.length == Length::Windows {
            level.earlier = (level.earlier.0 + window.completed(), level.earlier.1 + window.failed);
            self.screen.level.set(level);
        }
        let percentile = self.plan.measurement.percentile;
        if self.plan.output.verbosity > 0 {
            // If standard output is gone, printing the level's results will report it.
            let _ = self.screen.print(&console::pass(trial, window, percentile));
        }
        if self.plan.output.verbosity > 1 {
            let _ = self.screen.print(&console::pass_detail(window));
        }
    }

    fn block(&self, block: &Block) {
        let inferences = block.requests as f64 * self.plan.data.batch_size as f64;
        let throughput = (block.seconds > 0.0).then(|| inferences / block.seconds);
        let latency = block.latency_ns(self.plan.measurement.percentile);
        self.screen.level.set(Level { lately: (throughput, latency), ..self.screen.level.get() });
        if let Some(live) = &*self.screen.live.borrow() {
            live.block((Stamp::now() - self.screen.began).as_secs_f64(), throughput.unwrap_or(0.0), block);
        }
    }

    fn progress(&self, poll: &dyn Fn() -> Moment) {
        let now = Stamp::now();
        if now < self.due.get() {
            return;
        }
        self.due.set(now.plus_duration(Duration::from_secs(1) / u32::from(REDRAWN)));
        if let Some(live) = &*self.screen.live.borrow() {
            let moment = poll();
            let outstanding = match self.screen.level.get().load {
                Some(LevelLoad::Concurrency(requests)) => u64::from(requests),
                _ => moment.under_way,
            };
            return live.show(self.standing(&moment), outstanding, self.session.host_monitor.as_ref());
        }
        match &self.line {
            Some(line) => line.show(&self.standing(&poll())),
            None if now - self.screen.last_logged.get() >= BETWEEN_LINES => {
                self.screen.log(&self.standing(&poll()).line(LOG_COLUMNS));
            }
            None => {}
        }
    }
}
