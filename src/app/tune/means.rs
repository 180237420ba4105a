//! How a candidate is measured: in this process, or in one of its own.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::app::tune::assignment::Assignment;
use crate::app::tune::isolated::{Isolated, Order};
use crate::app::tune::subject::Subject;
use crate::error::{Error, Result};
use crate::plan::Searched;
use crate::report::Interrupts;
use crate::result::TrialFigures;
use crate::tune::Trial;

/// What candidates are measured with.
pub struct Means<'a> {
    /// The model and its server.
    pub subject: Subject<'a>,
    /// Measures instead, if candidates run in their own processes.
    pub isolated: Option<Isolated>,
    /// The user's.
    pub interrupts: Interrupts,
}

impl Means<'_> {
    /// Whether the user wants the search to end.
    pub fn is_interrupted(&self) -> bool {
        self.interrupts.load(Ordering::Relaxed) > 0
    }

    /// After a trial that failed: why none can follow, if the server is gone.
    pub fn lost_server(&mut self) -> Option<Error> {
        if self.is_interrupted() { None } else { self.subject.lost_server() }
    }

    /// Measures the candidate at `indexes` (`None` is the present configuration), within the time left; `None` if that was not
    /// enough.
    ///
    /// # Errors
    /// Why it could not be measured.
    pub fn run_trial(
        &mut self,
        search: &[Searched],
        indexes: Option<Vec<usize>>,
        trial: &Trial,
        left: Duration,
    ) -> Result<Option<TrialFigures>> {
        let subject = &mut self.subject;
        match &self.isolated {
            Some(isolated) => {
                let assignment = assignment(search, indexes.clone());
                subject.note_loads(&assignment)?;
                let bases = subject.bases().to_vec();
                let expected_rate = subject.expected_rate(trial.candidate, &assignment);
                let load = subject.expected_load(trial.candidate);
                isolated.run_trial(Order { place: indexes, trial: *trial, expected_rate, load, bases }, left)
            }
            None => subject.run_trial(&assignment(search, indexes), trial, left).map(Some),
        }
    }
}

/// The settings of the candidate at `indexes`; the present configuration sets nothing.
pub fn assignment(search: &[Searched], indexes: Option<Vec<usize>>) -> Assignment {
    indexes.map_or_else(Assignment::default, |indexes| Assignment::new(search, &indexes))
}
