//! [`Planner`]: calibration, and the race in rungs.

use crate::answer::{leader, meets};
use crate::calibration::{Calibration, DOUBT};
use crate::field::{Forecast, MAX_RACING, MIN_RACING};
use crate::planner::{KEPT, Planner, SMALL, SearchStage};
use crate::race::{Standings, is_violated, median, repeatability};
use crate::reason::Reason;
use crate::space::Place;
use crate::trial::{MeasuredTrial, Phase, Status};

/// How often one point is measured in the calibration.
pub(super) const REPEATS: usize = 3;
/// Minimum and maximum number of rounds of a rung.
pub(super) const ROUNDS: (usize, usize) = (2, 8);
/// How often units double from rung to rung.
const DOUBLINGS: usize = 2;
/// Confidence with which a candidate must be worse to leave the race, over all comparisons of a rung together.
pub(super) const CONFIDENCE: f64 = 0.90;
/// A candidate is given up if it is behind by more than the doubt, plus this many standard errors.
const FAR: f64 = 3.0;

impl Planner {
    /// Measures the present configuration, which shows how long a trial takes.
    pub(super) fn measure_base(&mut self) {
        self.stage = SearchStage::MeasuringBase;
        self.queue_round(&[0], Phase::Calibration, self.settings.unit_s);
    }

    pub(super) fn calibrate(&mut self) {
        self.stage = SearchStage::Calibrating;
        let mut points = Vec::new();
        if self.space.early() > SMALL {
            let base = self.space.base();
            for place in self.space.axes(&base) {
                // Points of an earlier calibration need no other measurement.
                let is_new = !self.is_tried(&place);
                let number = self.number(place);
                points.extend((number != 0 && is_new).then_some(number));
            }
        }
        self.queue_round(&points, Phase::Calibration, self.settings.unit_s);
    }

    /// Repeats the quickest point, which shows how much two measurements differ.
    pub(super) fn repeat_base(&mut self) {
        self.stage = SearchStage::Repeating;
        if self.space.early() <= SMALL || repeatability(&self.candidates, |trial| trial.score).1 >= (REPEATS - 1) as f64
        {
            return;
        }
        let price = |number: &usize| self.budget.price_of(*number, 0.0);
        let numbers = (0..self.candidates.len()).filter(|number| !self.candidates[*number].trials.is_empty());
        let Some(number) = numbers.min_by(|left, right| price(left).total_cmp(&price(right))) else { return };
        self.queue_round(&[number; REPEATS - 1], Phase::Calibration, self.settings.unit_s);
    }

    /// Chooses the candidates of the race.
    pub(super) fn line_up(&mut self) {
        let field = if self.space.early() > SMALL { self.with_forecast(|forecast| forecast.choose()) } else { None };
        let (chosen, excluded) = field.unwrap_or_else(|| (self.spread(), Vec::new()));
        let chosen = if self.has_narrowed { self.line_up_measured() } else { chosen };
        for (place, reason) in excluded {
            let number = self.number(place);
            // A measurement of the point itself takes precedence over its prediction.
            let is_measured = (self.has_narrowed || self.since > 0) && !self.candidates[number].trials.is_empty();
            let candidate = &mut self.candidates[number];
            if number != 0 && candidate.is_open() && !is_measured {
                candidate.status = Status::RuledOut(reason);
            }
        }
        let chosen: Vec<usize> = chosen.into_iter().map(|place| self.number(place)).collect();
        let confirmed = self.open_finalists();
        let adds_none = !confirmed.is_empty() && chosen.iter().all(|number| *number == 0 || confirmed.contains(number));
        self.members = confirmed;
        for number in chosen {
            if !self.members.contains(&number) {
                self.members.push(number);
            }
        }
        if !self.members.contains(&0) {
            self.members.insert(0, 0);
        }
        if adds_none {
            return self.begin_steps();
        }
        self.stage = SearchStage::Racing;
        self.queue_rung();
    }

    /// As many points as there is time for in two rounds: those along each setting first, because they are the most
    /// informative.
    fn spread(&self) -> Vec<Place> {
        let mut places = self.space.axes(&self.space.base());
        let others: Vec<Place> = self.space.places().take(MAX_RACING).filter(|place| !places.contains(place)).collect();
        places.extend(others);
        places.retain(|place| !self.is_behind(place));
        places.truncate((2 * self.capacity()).clamp(MIN_RACING, MAX_RACING));
        places
    }

    /// Number of candidates that there is time for in the first rung, if half of the race's time is spent on it.
    pub(super) fn capacity(&self) -> usize {
        let left = self.budget.for_race(self.reserve()) / 2.0;
        (left / ROUNDS.0 as f64 / self.budget.price(self.settings.unit_s)) as usize
    }

    /// Calls `act` with what is known before the race; `None` if not even the base was measured.
    pub(super) fn with_forecast<T>(&self, act: impl FnOnce(&Forecast<'_>) -> T) -> Option<T> {
        let found = |place: &Place| {
            let trials = &self.candidates[*self.numbers.get(place)?].trials;
            let count = trials.len() as f64;
            let sums = trials.iter().fold((0.0, 0.0), |(score, violation), trial| {
                (score + trial.score / count, violation + trial.violation / count)
            });
            (count > 0.0).then_some(sums)
        };
        let noise = |value: fn(&MeasuredTrial) -> f64| repeatability(&self.candidates, value).0;
        let calibration = Calibration::new(&self.space, self.space.base(), found)?;
        let able = self.candidates.iter().filter(|candidate| meets(candidate, |_| true));
        let best = able.flat_map(|candidate| &candidate.trials).map(|trial| trial.score).max_by(f64::total_cmp);
        let forecast = Forecast {
            space: &self.space,
            calibration: &calibration,
            behind: &|place| self.is_behind(place),
            failed: &|place| self.numbers.get(place).is_some_and(|number| self.candidates[*number].has_failed()),
            best,
            noise: (noise(|trial| trial.score), noise(|trial| trial.violation)),
            capacity: self.capacity(),
        };
        Some(act(&forecast))
    }

    pub(super) fn queue_rung(&mut self) {
        let unit = self.rung_unit();
        let members = self.members.clone();
        let rungs = (members.len() as f64 / KEPT as f64).log2().ceil().max(1.0);
        let rounds = self.budget.for_race(self.reserve()) / rungs / self.price_of_round(&members, unit);
        // Who is confirmed anyway needs no longer race than to show who is far behind.
        let most = if members.len() <= KEPT + 1 { ROUNDS.0 } else { ROUNDS.1 };
        for _ in 0..(rounds as usize).clamp(ROUNDS.0, most) {
            self.queue_round(&members, Phase::Race, unit);
        }
        self.rung += 1;
    }

    /// The unit of the next rung.
    fn rung_unit(&self) -> f64 {
        self.settings.unit_s * f64::from(1_u32 << self.rung.min(DOUBLINGS))
    }

    /// Whether a candidate of the race is skipped from here on, because its measurements are far behind the best.
    ///
    /// The present configuration remains a candidate: the confirmation compares the best with it.
    pub(super) fn is_given_up(&mut self, number: usize) -> bool {
        let is_racing = match self.stage {
            SearchStage::Racing => true,
            // The first is where the steps start from.
            SearchStage::Stepping => self.members.first() != Some(&number),
            _ => false,
        };
        let Some(share) = is_racing.then(|| self.share_of_best(number)).flatten() else { return false };
        if number == 0 {
            self.members.retain(|member| *member != 0);
        } else {
            self.drop_candidate(number, Reason::FarBehind(share));
        }
        true
    }

    /// A far-behind candidate's score as a share of the best one's; `None` if it is not far behind.
    pub(super) fn share_of_best(&self, number: usize) -> Option<f64> {
        let mean = |number: usize| Some((self.mean_score(number)?, self.candidates[number].trials.len() as f64));
        // A single measurement may have met a machine that stood still. The present configuration is measured again
        // anyway.
        let (own_score, count) = mean(number).filter(|(_, count)| number == 0 || *count > 1.0)?;
        let ahead = (0..self.candidates.len()).filter_map(|other| Some((other, mean(other)?)));
        let ahead = ahead.filter(|(_, (score, _))| *score > own_score + DOUBT);
        let able = ahead.filter(|(other, _)| meets(&self.candidates[*other], |_| true));
        let (_, (best, best_count)) = able.max_by(|(_, (left, _)), (_, (right, _))| left.total_cmp(right))?;
        let (noise, freedom) = repeatability(&self.candidates, |trial| trial.score);
        if freedom < 2.0 {
            return None;
        }
        let doubt = FAR * noise * f64::sqrt(1.0 / count + 1.0 / best_count);
        (own_score + DOUBT + doubt < best).then(|| (own_score - best).exp())
    }

    /// Drops a candidate that is proven worse.
    pub(super) fn drop_candidate(&mut self, number: usize, reason: Reason) {
        self.drop_for(number, reason, true);
    }

    /// Drops a candidate that there is no time for.
    pub(super) fn leave(&mut self, number: usize, reason: Reason) {
        self.drop_for(number, reason, false);
    }

    fn drop_for(&mut self, number: usize, reason: Reason, is_shown: bool) {
        if self.candidates[number].is_open() {
            self.candidates[number].status = Status::Dropped { rung: self.rung, reason, is_shown };
        }
        self.members.retain(|member| *member != number);
    }

    /// Drops candidates that are worse or miss a constraint, then the worse half.
    pub(super) fn judge_rung(&mut self) {
        self.drop_failed();
        for number in self.members.clone() {
            if number != 0 && is_violated(&self.candidates[number].violations(|_| true)) {
                let missed = median(&self.candidates[number].violations(|_| true)).exp();
                self.drop_candidate(number, Reason::Misses(missed));
            }
        }
        let raced = self.raced();
        for number in self.members.clone() {
            if number != 0 && !raced.contains(&number) {
                self.leave(number, Reason::NoTime);
            }
        }
        let standings = Standings::new(&self.candidates, &raced, is_race);
        let best = leader(&standings, |number| meets(&self.candidates[number], |_| true));
        let Some(best) = best.or_else(|| leader(&standings, |_| true)) else { return self.begin_steps() };
        let others: Vec<usize> =
            self.members.iter().copied().filter(|number| *number != 0 && *number != best).collect();
        let half_width = standings.half_width(CONFIDENCE, others.len());
        for number in &others {
            let difference = standings.difference(*number, best, half_width);
            if let Some(worse) = difference.filter(|difference| difference.high < 0.0) {
                let middle = (worse.low + worse.high) / 2.0;
                self.drop_candidate(*number, Reason::Worse(middle.exp()));
            }
        }
        self.halve(&standings, best);
        let left = self.members.iter().filter(|number| **number != 0).count();
        let round = self.price_of_round(&self.members, self.rung_unit());
        if left <= KEPT || self.budget.for_race(self.reserve()) < round {
            return self.begin_steps();
        }
        self.queue_rung();
    }

    /// The race's candidates that were measured in it.
    pub(super) fn raced(&self) -> Vec<usize> {
        let is_new = |trial: &MeasuredTrial| is_race(trial) && trial.round >= self.since;
        let raced = |number: &usize| self.candidates[*number].trials.iter().any(is_new);
        self.members.iter().copied().filter(raced).collect()
    }

    pub(super) fn drop_failed(&mut self) {
        self.members.retain(|number| *number == 0 || !self.candidates[*number].has_failed());
    }

    /// Keeps the better half: first the cheapest of those within the margin of the best, then the others by their
    /// means.
    pub(super) fn halve(&mut self, standings: &Standings, best: usize) {
        let mut others: Vec<usize> =
            self.members.iter().copied().filter(|number| *number != 0 && *number != best).collect();
        let top = standings.mean(best).unwrap_or_default() - (1.0 + self.settings.margin).ln();
        let mean = |number: usize| standings.mean(number).unwrap_or(f64::NEG_INFINITY);
        let cost = |number: usize| self.candidates[number].place.as_ref().map(|place| self.space.cost(place));
        others.sort_by(|left, right| {
            let (a, b) = (mean(*left), mean(*right));
            if a > top && b > top { cost(*left).cmp(&cost(*right)) } else { b.total_cmp(&a) }
        });
        let keep = (others.len() + 1).div_ceil(2).max(KEPT) - 1;
        for number in others.into_iter().skip(keep) {
            let share = (mean(number) - mean(best)).exp();
            self.leave(number, Reason::WorseHalf(share));
        }
    }
}

/// Whether a trial was made beside others.
pub(super) fn is_race(trial: &MeasuredTrial) -> bool {
    matches!(trial.phase, Phase::Race | Phase::Step)
}
