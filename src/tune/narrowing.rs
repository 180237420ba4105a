//! [`Planner`]: if there is no time to measure along every setting, bisection narrows down the best point.
//!
//! The ends of a setting say nothing about an optimum between them. So single measurements move from the best known
//! point to the middle of the gaps beside it, the widest gap of all settings first, until its neighbours are known or
//! time is up. The best measured points then race.

use std::cmp::Ordering;

use crate::answer::meets;
use crate::calibration::DOUBT;
use crate::field::{Forecast, MIN_RACING};
use crate::planner::{KEPT, Planner, SMALL, SearchStage};
use crate::race::median;
use crate::racing::ROUNDS;
use crate::reason::Reason;
use crate::space::{Place, Space};
use crate::trial::Phase;

/// Unmeasured points along a setting, beside the best.
struct Gap {
    /// Their share of the setting's values.
    share: f64,
    /// The point in the middle.
    middle: Place,
    /// Whether the next point beyond them was tried.
    is_between: bool,
}

impl Planner {
    /// Goes on to the race, after narrowing if the calibration has not covered every setting.
    pub(super) fn narrow(&mut self) {
        self.stage = SearchStage::Narrowing;
        let place = if self.must_narrow() { self.next_look() } else { None };
        let Some(place) = place else { return self.line_up() };
        self.has_narrowed = true;
        let number = self.number(place);
        self.queue_round(&[number], Phase::Calibration, self.settings.unit_s);
    }

    /// Seconds left for single measurements: the best must still be able to race after them, and these are quick.
    pub(super) fn for_narrowing(&self) -> f64 {
        let rung = (ROUNDS.0 * KEPT) as f64 * self.budget.least_price(self.settings.unit_s);
        self.budget.for_race(self.reserve()) - rung
    }

    /// The best of the measured points, for the race; the others are dropped.
    pub(super) fn line_up_measured(&mut self) -> Vec<Place> {
        let mut numbers: Vec<usize> = (1..self.candidates.len())
            .filter(|number| self.is_measured(*number) && !self.is_left_behind(*number))
            .collect();
        numbers.sort_by(|left, right| ahead(self.standing(*right), self.standing(*left)));
        let score = |number: usize| self.mean_score(number).unwrap_or(f64::NEG_INFINITY);
        let best = numbers.first().map_or(0.0, |best| score(*best));
        // One reading is not enough to leave out what may be as good, as long as there is room.
        let near = numbers.iter().filter(|number| score(**number) > best - DOUBT).count();
        let others = numbers.split_off(self.capacity().clamp(KEPT, near.max(MIN_RACING)).min(numbers.len()));
        let reason = |number: usize| match meets(&self.candidates[number], |_| true) {
            true => Reason::BehindAtFirst((score(number) - best).exp()),
            false => Reason::MissedAtFirst,
        };
        let reasons: Vec<(usize, Reason)> = others.into_iter().map(|number| (number, reason(number))).collect();
        reasons.into_iter().for_each(|(number, reason)| self.leave(number, reason));
        numbers.into_iter().filter_map(|number| self.candidates[number].place.clone()).collect()
    }

    /// Whether there was no time to measure along every setting of a large space, and there is time for a further
    /// measurement.
    fn must_narrow(&self) -> bool {
        self.space.early() > SMALL
            && !self.space.axes(&self.space.base()).iter().all(|place| self.is_tried(place))
            && self.budget.least_price(self.settings.unit_s) <= self.for_narrowing()
    }

    /// The next point to measure: the most promising one, then the middle of the widest gap beside the best.
    fn next_look(&self) -> Option<Place> {
        self.with_forecast(|forecast| {
            let promising = Some(forecast.calibration.most_promising());
            let promising = promising.filter(|place| !self.is_tried(place) && forecast.exclusion(place).is_none());
            promising.or_else(|| self.widest_gap(forecast))
        })?
    }

    fn widest_gap(&self, forecast: &Forecast<'_>) -> Option<Place> {
        let numbers = (0..self.candidates.len()).filter(|number| self.is_measured(*number));
        let placed = numbers.filter_map(|number| Some((self.standing(number), self.candidates[number].place.clone()?)));
        let (_, centre) = placed.max_by(|(left, _), (right, _)| ahead(*left, *right))?;
        let early = (0..centre.len()).filter(|dimension| !forecast.space.dimensions[*dimension].is_late);
        let gaps = early.flat_map(|dimension| self.gaps(forecast.space, &centre, dimension));
        // A prediction is a line between ends, and says nothing against a peak between two points of it.
        let is_open = |gap: &Gap| match gap.is_between {
            true => forecast.failed_setting(&gap.middle).is_none(),
            false => forecast.exclusion(&gap.middle).is_none(),
        };
        // The first of equally wide gaps.
        let widest = gaps.filter(is_open).fold(None, |widest: Option<Gap>, gap| match widest {
            Some(widest) if widest.share >= gap.share => Some(widest),
            _ => Some(gap),
        });
        widest.map(|gap| gap.middle)
    }

    /// The gaps below and above `centre` along a setting; `None` if the neighbour was tried, or does not exist.
    fn gaps(&self, space: &Space, centre: &Place, dimension: usize) -> Vec<Gap> {
        let (start, count) = (centre[dimension], space.dimensions[dimension].values.len());
        let at = |index: usize| {
            let mut place = centre.clone();
            place[dimension] = index;
            place
        };
        let is_tried = |index: &usize| self.is_tried(&at(*index));
        let (below, above) = ((0..start).rev().find(is_tried), (start + 1..count).find(is_tried));
        // Beyond an unmeasured end there is the edge.
        let down = start - below.map_or(0, |index| index + 1);
        let up = above.unwrap_or(count) - start - 1;
        let gap = |untried: usize, middle: usize, is_between: bool| {
            (untried > 0).then(|| Gap { share: untried as f64 / count as f64, middle: at(middle), is_between })
        };
        let gaps =
            [gap(down, start - down.div_ceil(2), below.is_some()), gap(up, start + up.div_ceil(2), above.is_some())];
        gaps.into_iter().flatten().collect()
    }

    /// Whether a candidate was measured and works.
    fn is_measured(&self, number: usize) -> bool {
        !self.candidates[number].has_failed() && !self.candidates[number].trials.is_empty()
    }

    /// Whether a point was measured, or could not be.
    pub(super) fn is_tried(&self, place: &Place) -> bool {
        let candidate_of = |number: &usize| &self.candidates[*number];
        self.numbers
            .get(place)
            .map(candidate_of)
            .is_some_and(|candidate| candidate.has_failed() || !candidate.trials.is_empty())
    }

    /// How a candidate stands to others.
    fn standing(&self, number: usize) -> Standing {
        let candidate = &self.candidates[number];
        match meets(candidate, |_| true) {
            true => Standing { meets: true, score: self.mean_score(number).unwrap_or(f64::NEG_INFINITY) },
            false => Standing { meets: false, score: -median(&candidate.violations(|_| true)) },
        }
    }
}

/// The order of candidates: first those that meet the constraints by their scores, then the others by their violations.
#[derive(Clone, Copy)]
struct Standing {
    /// Whether it meets the constraints.
    meets: bool,
    /// Its score, or how little it violates them.
    score: f64,
}

/// Orders standings; scores are numbers.
fn ahead(left: Standing, right: Standing) -> Ordering {
    left.meets.cmp(&right.meets).then(left.score.total_cmp(&right.score))
}
