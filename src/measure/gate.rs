//! Requirements of a level, judged while it is measured.
//!
//! A level whose requirements are undecided is measured on. It is looked at again only when it has been measured for twice as
//! long.

use std::time::Duration;

use crate::history::WindowSet;
use crate::plan::{Figure, Requirement};
use crate::result::checked::Judgement;
use crate::result::ratio::Figures;
use crate::result::summary::{LevelSummary, StatisticEstimate};

/// A requirement of a level.
#[derive(Clone, Debug)]
pub struct Question {
    /// The requirement.
    pub requirement: Requirement,
    /// The baseline's level, if the requirement is a change from it.
    pub baseline: Option<LevelSummary>,
}

/// What is to be decided of a level while it is measured.
#[derive(Clone, Debug, Default)]
pub struct Questions {
    /// The requirements.
    pub all: Vec<Question>,
    /// How long it is measured at most for them.
    pub time: Duration,
}

impl Questions {
    /// The first that windows do not decide at that look.
    fn open(&self, windows: &WindowSet, looks: u32) -> Option<&Question> {
        self.all.iter().find(|question| {
            let Figure::Statistic(statistic) = question.requirement.figure else {
                return question.is_open(windows, &[], looks);
            };
            question.is_open(windows, &[windows.estimate(statistic)], looks)
        })
    }
}

impl Question {
    fn is_open(&self, windows: &WindowSet, estimates: &[StatisticEstimate], looks: u32) -> bool {
        let bursts = Some(windows.blocks.bursts());
        let figures = Figures { client: &windows.client, estimates, bursts, restarts: None, at_starts: &[], looks };
        let found = gate::find(figures, &self.requirement, self.baseline.as_ref().map(Figures::new));
        found.is_ok_and(|found| found.judge(&self.requirement) == Judgement::Undecided)
    }
}

/// The looks at a level's requirements so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Looks {
    /// How many there were.
    pub count: u32,
    /// When the next is due.
    next: Duration,
}

impl Looks {
    /// Whether a level that would end here is measured on, for the question that is returned: `measured` is how long it was,
    /// and `window` how long another window is.
    pub(super) fn open<'q>(
        &mut self,
        questions: &'q Questions,
        measured: Duration,
        window: Duration,
        windows: impl FnOnce() -> Option<WindowSet>,
    ) -> Option<&'q Question> {
        let question = questions.all.first()?;
        let is_last = measured + window > questions.time;
        if measured < self.next && !is_last {
            return Some(question);
        }
        (self.count, self.next) = (self.count + 1, measured * 2);
        questions.open(&windows()?, self.count).filter(|_| !is_last)
    }
}

#[cfg(test)]
mod tests;
