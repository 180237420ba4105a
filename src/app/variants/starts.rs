//! Starts of the servers that variants are measured at: as many as were asked for, or as many as a gate needs.

use std::time::Duration;

use crate::app::variants::Comparison;
use crate::app::variants::field::Servers;
use crate::clock::Stamp;
use crate::error::Result;
use crate::gate;
use crate::report;
use crate::stdio::note;

/// At how many starts of the servers at most a gate looks whose variants run in this process: two starts of one model may differ
/// by more than any of them shows, and where two contradict each other the third decides.
const STARTS_OF_GATE: u32 = 3;

/// One of the starts of the servers.
#[derive(Clone, Copy)]
pub struct Start {
    /// From one on.
    pub number: u32,
    /// How many there are; none if that is not known yet.
    pub total: Option<u32>,
}

impl Comparison<'_> {
    /// Measures everything, once for each start of the servers.
    pub(super) fn measure(&mut self) -> Result<()> {
        let asked = self.plan.measurement.restarts;
        let goes_on = asked == 1 && self.rounds.until_decided.is_some() && self.field.is_embedded();
        let total = (!goes_on).then_some(asked);
        let mut running = None;
        for number in 1.. {
            let begun = Stamp::now();
            let ended = self.start(Start { number, total }, &mut running);
            if number > 1 && self.is_interrupted() {
                break;
            }
            if let (Err(error), true) = (&ended, goes_on && number > 1) {
                note!("start {number}: {error}; what the earlier starts say has to do");
                break;
            }
            ended?;
            let is_last = total.map_or_else(|| !self.wants_start_after(number, begun), |total| number == total);
            if is_last || self.is_interrupted() {
                break;
            }
            if !self.field.is_embedded() && number == 1 {
                note!("--restarts: servers on the network are not restarted; each start only opens new connections");
            }
        }
        self.print_cells(usize::MAX)
    }

    /// Starts the servers, again if they are `running`, and measures everything once.
    fn start(&mut self, start: Start, running: &mut Option<Servers>) -> Result<()> {
        if let Some(before) = running.take() {
            before.halt()?;
        }
        let servers = running.insert(self.field.serve(self.context)?);
        self.at_start(start, servers)
    }

    /// Whether a gate should look at another start of the servers: there is time for one, and what this one says is not yet what
    /// two starts say.
    fn wants_start_after(&self, number: u32, begun: Stamp) -> bool {
        let Some(variants) = self.result.as_ref().and_then(|result| result.variants.as_ref()) else { return false };
        let is_open = variants.cells.iter().any(|cell| gate::is_undecided(variants, &self.plan.gate, cell));
        // As many rounds as so far must be left where `--rounds` bounds them.
        let has_rounds = variants.cells.iter().all(|cell| 2 * cell.rounds.len() <= self.rounds.count);
        // A start that could not decide had all the time.
        let wants = number < STARTS_OF_GATE && is_open == (number > 1);
        wants && has_rounds && Stamp::now() - begun <= self.time_left()
    }

    /// How long rounds of one of so many cells, which begin now, may go on at a start.
    pub(super) fn time_of(&mut self, start: Start, cells: usize) -> Duration {
        self.began.get_or_insert_with(Stamp::now);
        let left = start.total.map_or(1, |total| total - start.number + 1);
        self.time_left() / left.saturating_mul(u32::try_from(cells).unwrap_or(u32::MAX)).max(1)
    }

    /// How much time there is for further rounds that go on until something is decided.
    fn time_left(&self) -> Duration {
        let cells = self.result.as_ref().and_then(|result| result.variants.as_ref()).map_or(1, |all| all.cells.len());
        let spent = self.began.map(|began| Stamp::now() - began).unwrap_or_default();
        (self.plan.gate.time * u32::try_from(cells.max(1)).unwrap_or(u32::MAX)).saturating_sub(spent)
    }

    /// Prints those of the first `count` cells that have not been printed yet.
    pub(super) fn print_cells(&mut self, count: usize) -> Result<()> {
        let Some(variants) = self.result.as_ref().and_then(|result| result.variants.as_ref()) else { return Ok(()) };
        let cells = variants.cells.iter().take(count).skip(self.printed);
        for cell in cells.filter(|cell| !cell.rounds.is_empty()) {
            self.context.screen.print(&report::variants::cell(variants, cell))?;
        }
        self.printed = self.printed.max(count);
        Ok(())
    }
}
