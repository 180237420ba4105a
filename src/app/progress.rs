//! The progress of a run: which level it is at, and the expected time left.

use std::time::Duration;

use crate::app::job::Job;
use crate::clock::Stamp;
use crate::measure::measurement::Moment;
use crate::terms::{LoadMode, MeasurementPlan, Stage, StageLength, StageLoad};

/// The fewest windows that can agree.
const MIN_WINDOWS: usize = 3;

/// The length of a level.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Length {
    /// Windows until they agree.
    #[default]
    Windows,
    /// A fixed time.
    Time(Duration),
    /// A number of requests, at a rate if that is known.
    Requests(u64, Option<f64>),
}

impl Length {
    /// The length of a level.
    pub fn new(job: &Job) -> Self {
        let requests = job.requests().filter(|_| job.finite);
        requests.map_or(Self::Windows, |requests| Self::Requests(requests, job.requested_rate()))
    }

    /// The length of a stage.
    pub fn of_stage(stage: &Stage) -> Self {
        match (stage.length, stage.load) {
            (StageLength::Time(time), _) => Self::Time(time),
            (StageLength::Sessions(_) | StageLength::Recorded, _) => Self::Windows,
            (StageLength::Requests(requests), StageLoad::RequestRate(rate)) => Self::Requests(requests, Some(rate)),
            (StageLength::Requests(requests), StageLoad::Ramp(ramp)) => Self::Requests(requests, Some(ramp.mean())),
            (StageLength::Requests(requests), _) => Self::Requests(requests, None),
        }
    }

    /// The time left at a moment, if it can be estimated.
    fn rest(self, plan: &MeasurementPlan, moment: &Moment) -> Option<Duration> {
        match self {
            Self::Time(time) => Some(time.saturating_sub(moment.elapsed)),
            Self::Requests(requests, Some(rate)) => Some(whole(requests, rate)?.saturating_sub(moment.elapsed)),
            Self::Requests(requests, None) => at_its_pace(requests, moment),
            Self::Windows => {
                let (window, least) = (moment.window.unwrap_or(1), MIN_WINDOWS.min(plan.max_trials));
                let further = u32::try_from(least.saturating_sub(window)).unwrap_or(u32::MAX);
                let remaining = match plan.window.length() {
                    Some(length) => length.saturating_sub(moment.elapsed),
                    None => at_its_pace(plan.window.requests()?, moment)?,
                };
                let length = plan.window.length().unwrap_or(remaining.saturating_add(moment.elapsed));
                Some(remaining.saturating_add(length.saturating_mul(further)))
            }
        }
    }

    /// The whole length, if it is known beforehand.
    fn known_duration(self) -> Option<Duration> {
        match self {
            Self::Time(time) => Some(time),
            Self::Requests(requests, rate) => whole(requests, rate?),
            Self::Windows => None,
        }
    }
}

/// How long requests take at a rate.
fn whole(requests: u64, rate: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(requests as f64 / rate).ok()
}

/// How long it takes until this many requests are over, at the pace so far.
fn at_its_pace(requests: u64, moment: &Moment) -> Option<Duration> {
    let done = moment.completed.all();
    let left = requests.saturating_sub(done) as f64;
    (done > 0).then(|| Duration::try_from_secs_f64(moment.elapsed.as_secs_f64() * left / done as f64).ok())?
}

/// The levels of a run, one after the other.
#[derive(Debug)]
pub struct LevelProgress {
    /// The word for a level.
    noun: &'static str,
    /// Their number, if it is known.
    total: Option<usize>,
    /// Number of the current one, from 1.
    number: usize,
    /// Time taken by the measured levels, and their number.
    spent: (Duration, u32),
    /// Length of each, if it is known.
    lengths: Vec<Length>,
    /// When the level began.
    began: Stamp,
}

/// Where a run is that does not go through levels.
#[derive(Clone, Copy)]
pub struct Parts {
    /// How many are over.
    pub over: usize,
    /// How many there are.
    pub total: usize,
}

impl LevelProgress {
    /// Before the first level.
    pub fn new(mode: &LoadMode, binary: bool) -> Self {
        let lengths: Vec<Length> = mode.stages().iter().map(Length::of_stage).collect();
        let noun = if lengths.is_empty() { "level" } else { "stage" };
        Self { noun, total: mode.levels(binary), number: 0, spent: Default::default(), lengths, began: Stamp::now() }
    }

    /// Starts the next level. Returns its name; empty if it is the only one.
    pub fn next(&mut self) -> String {
        self.number += 1;
        self.began = Stamp::now();
        let (noun, number) = (self.noun, self.number);
        match self.total {
            Some(1) => String::new(),
            Some(total) if number <= total => format!("{noun} {number}/{total}"),
            _ => format!("{noun} {number}"),
        }
    }

    /// Counts `parts` instead of levels; `None` if their number is not known.
    pub fn at(&mut self, parts: Option<Parts>) {
        if self.number > 0 && parts.is_some() {
            self.finished();
        }
        self.total = parts.map(|parts| parts.total);
        self.number = parts.map_or(0, |parts| parts.over + 1);
        self.began = Stamp::now();
    }

    /// The level has been measured.
    pub fn finished(&mut self) {
        self.spent = (self.spent.0 + (Stamp::now() - self.began), self.spent.1 + 1);
    }

    /// The expected time left after the parts that are over, from how long these took; none before the first.
    pub fn left(&self) -> Option<Duration> {
        let (spent, parts) = self.spent;
        let further = u32::try_from(self.total?.saturating_sub(self.number)).ok()?;
        (parts > 0).then(|| spent.saturating_mul(further) / parts)
    }

    /// The expected time left, if it can be estimated.
    pub fn rest(&self, length: Length, plan: &MeasurementPlan, moment: &Moment) -> Option<Duration> {
        let remaining = length.rest(plan, moment)?;
        let further = u32::try_from(self.total?.saturating_sub(self.number)).ok()?;
        if let Some(later) = self.lengths.get(self.number..) {
            return later.iter().try_fold(remaining, |sum, length| Some(sum.saturating_add(length.known_duration()?)));
        }
        let average = match self.spent {
            (_, 0) => (Stamp::now() - self.began).saturating_add(remaining),
            (spent, levels) => spent / levels,
        };
        Some(remaining.saturating_add(average.saturating_mul(further)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Completed;
    use crate::result::summary::sample;
    use crate::terms::{GapDistribution, Range, StageEdges, WindowRule};

    fn moment(window: Option<usize>, elapsed: u64, succeeded: u64) -> Moment {
        let completed = Completed { succeeded, ..Completed::default() };
        Moment { window, elapsed: Duration::from_secs(elapsed), completed, under_way: 0 }
    }

    fn stages(all: &[Stage]) -> LevelProgress {
        let mode = LoadMode::Stages {
            stages: all.to_vec(),
            distribution: GapDistribution::Constant,
            edges: StageEdges::Overlap,
            trace: None,
        };
        LevelProgress::new(&mode, false)
    }

    #[test]
    fn what_is_left_of_a_level_follows_from_its_kind() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        let window = Duration::from_secs(5);
        let timed = MeasurementPlan { window: WindowRule::Time(window), max_trials: 10, ..sample::plan() };
        let counted = MeasurementPlan { window: WindowRule::Count(50), ..timed.clone() };
        let remaining = |length: Length, plan, at| length.rest(plan, &at);
        assert_eq!(remaining(Length::Windows, &timed, moment(Some(1), 2, 0)), seconds(13));
        assert_eq!(
            remaining(Length::Windows, &timed, moment(Some(7), 2, 0)),
            seconds(3),
            "the fourth on may be the last"
        );
        let single = MeasurementPlan { max_trials: 1, ..timed.clone() };
        assert_eq!(remaining(Length::Windows, &single, moment(Some(1), 2, 0)), seconds(3));
        assert_eq!(remaining(Length::Windows, &counted, moment(Some(2), 2, 25)), seconds(6));
        assert_eq!(remaining(Length::Windows, &counted, moment(Some(2), 2, 0)), None, "nothing tells its pace");
        assert_eq!(remaining(Length::Time(window), &timed, moment(None, 9, 0)), seconds(0));
        assert_eq!(remaining(Length::Requests(100, Some(10.0)), &timed, moment(None, 4, 1)), seconds(6));
        assert_eq!(remaining(Length::Requests(100, None), &timed, moment(None, 4, 40)), seconds(6));
    }

    #[test]
    fn stages_know_those_after_them() {
        let timed = |seconds| Stage {
            load: StageLoad::Concurrency(1),
            length: StageLength::Time(Duration::from_secs(seconds)),
            pause: Duration::ZERO,
        };
        let rate =
            Stage { load: StageLoad::RequestRate(20.0), length: StageLength::Requests(100), pause: Duration::ZERO };
        let counted =
            Stage { load: StageLoad::Concurrency(1), length: StageLength::Requests(100), pause: Duration::ZERO };
        let mut progress = stages(&[timed(10), timed(20), rate]);
        assert_eq!(progress.next(), "stage 1/3");
        let (plan, length) = (sample::plan(), Length::of_stage(&timed(10)));
        let remaining = progress.rest(length, &plan, &moment(None, 4, 0));
        assert_eq!(remaining, Some(Duration::from_secs(6 + 20 + 5)));
        let mut progress = stages(&[timed(10), counted]);
        progress.next();
        assert_eq!(progress.rest(length, &plan, &moment(None, 4, 0)), None);
        assert_eq!(stages(&[counted]).next(), "", "there is but one");
    }

    #[test]
    fn levels_are_taken_to_last_as_long_as_those_before() {
        let range = Range::with_step(1, Some(4), 1);
        let mut progress = LevelProgress::new(&LoadMode::Concurrency(range), false);
        let names: Vec<String> = (0..2).map(|_| progress.next()).collect();
        assert_eq!(names, ["level 1/4", "level 2/4"]);
        progress.spent = (Duration::from_secs(8), 1);
        let (plan, at) = (sample::plan(), moment(None, 1, 0));
        let remaining = progress.rest(Length::Time(Duration::from_secs(5)), &plan, &at);
        assert_eq!(remaining, Some(Duration::from_secs(4 + 2 * 8)));
        let endless = Range::with_step(1, None, 1);
        let mut progress = LevelProgress::new(&LoadMode::Concurrency(endless), false);
        assert_eq!(progress.next(), "level 1");
        assert_eq!(progress.rest(Length::Time(Duration::from_secs(5)), &plan, &at), None);
    }
}
