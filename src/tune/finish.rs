//! [`Planner`]: steps from the best, and its confirmation.

use crate::answer::{self, Answer, cheapest, confirmed, leader, meets};
use crate::planner::{CONFIRMATION, KEPT, Planner, SearchStage};
use crate::race::Standings;
use crate::racing::{CONFIDENCE, is_race};
use crate::reason::Reason;
use crate::space::Place;
use crate::trial::{MeasuredTrial, Phase, Status};

/// Rounds in which a step is compared with the best.
const STEP_ROUNDS: usize = 4;
/// Rounds that show that the present configuration is far behind.
const FAR_ROUNDS: usize = 4;
/// Minimum rounds that every finalist should have.
pub(super) const ENOUGH_ROUNDS: usize = 6;

impl Planner {
    /// Measures the unmeasured neighbours of the best.
    pub(super) fn begin_steps(&mut self) {
        self.stage = SearchStage::Stepping;
        let best = self.best_measured();
        let (place, bottleneck) = (self.candidates[best].place.clone(), self.candidates[best].bottleneck);
        let neighbours = place.map(|place| self.space.neighbours(&place, bottleneck)).unwrap_or_default();
        let is_new = |place: &Place| {
            self.numbers.get(place).is_none_or(|number| {
                let candidate = &self.candidates[*number];
                candidate.is_open() && !candidate.trials.iter().any(|trial| trial.phase != Phase::Calibration)
            })
        };
        let fresh: Vec<Place> = neighbours.into_iter().filter(is_new).collect();
        let unit = 2.0 * self.settings.unit_s;
        // A single round proves nothing.
        let round_limit = self.budget.for_steps(self.reserve()) / 2.0;
        let mut beside = vec![best];
        let joins = !self.candidates[0].has_failed() && self.share_of_best(0).is_none();
        let round = |beside: &[usize]| -> Vec<usize> {
            let others = beside.iter().copied().filter(|number| *number != 0 || !joins);
            joins.then_some(0).into_iter().chain(others).collect()
        };
        for place in fresh {
            let number = self.number(place);
            beside.push(number);
            if self.price_of_round(&round(&beside), unit) > round_limit {
                beside.pop();
                self.leave(number, Reason::NoTime);
                break;
            }
        }
        if beside.len() < 2 {
            return self.begin_confirmation(best);
        }
        let round = round(&beside);
        (0..STEP_ROUNDS).for_each(|_| self.queue_round(&round, Phase::Step, unit));
        self.members = beside;
    }

    /// The best of the race; if that did not get far, of everything measured.
    fn best_measured(&self) -> usize {
        let of_race = Standings::new(&self.candidates, &self.raced(), is_race);
        let all: Vec<usize> =
            (0..self.candidates.len()).filter(|number| !self.candidates[*number].has_failed()).collect();
        let mean = |number: usize| Some((number, self.mean_score(number)?));
        let of_all = Standings { means: all.into_iter().filter_map(mean).collect(), ..Standings::default() };
        let able = |number: usize| meets(&self.candidates[number], |_| true);
        let by_race = leader(&of_race, able);
        by_race
            .or_else(|| self.best_confirmed())
            .or_else(|| leader(&of_all, able))
            .or_else(|| leader(&of_race, |_| true))
            .unwrap_or(0)
    }

    /// Moves to a neighbour that is better by the margin; else the best one stays.
    pub(super) fn judge_steps(&mut self) {
        let best = self.members.first().copied().unwrap_or(0);
        self.drop_failed();
        let last = self.round.saturating_sub(STEP_ROUNDS);
        let able: Vec<usize> =
            self.members.iter().copied().filter(|number| meets(&self.candidates[*number], is_race)).collect();
        let standings =
            Standings::new(&self.candidates, &able, |trial| trial.phase == Phase::Step && trial.round >= last);
        let ahead = leader(&standings, |_| true).unwrap_or(best);
        let half_width = standings.half_width(CONFIDENCE, able.len().saturating_sub(1));
        let gain = standings.difference(ahead, best, half_width);
        let moves = ahead != best
            && gain
                .is_none_or(|gain| gain.low > 0.0 && (gain.low + gain.high) / 2.0 >= (1.0 + self.settings.margin).ln());
        for number in self.members.clone() {
            if number != 0 && number != best && number != ahead {
                let stepped = self.candidates[number].trials.iter().any(|trial| trial.phase == Phase::Step);
                let reason = if stepped { Reason::NoBetterThanNeighbour } else { Reason::NoTime };
                self.leave(number, reason);
            }
        }
        if moves && self.budget.for_steps(self.reserve()) > 0.0 {
            self.members = vec![ahead];
            return self.begin_steps();
        }
        self.begin_confirmation(if moves { ahead } else { best });
    }

    /// The best, the cheapest of those as good, the next best, and the present configuration.
    pub(super) fn begin_confirmation(&mut self, best: usize) {
        self.stage = SearchStage::Confirming;
        self.drop_far_behind(best);
        let raced = self.candidates[best].trials.iter().any(is_race);
        let beside = |number: usize| {
            let standings = Standings::new(&self.candidates, &[best, number], |trial| !raced || is_race(trial));
            standings.mean(number).zip(standings.mean(best)).map(|(score, best)| score - best)
        };
        let able = (1..self.candidates.len()).filter(|number| {
            let is_near = self.share_of_best(*number).is_none();
            *number != best && is_near && meets(&self.candidates[*number], |_| true)
        });
        let mut others: Vec<(usize, f64)> = able.filter_map(|number| Some((number, beside(number)?))).collect();
        others.sort_by(|(_, left), (_, right)| right.total_cmp(left));
        let means = others.iter().copied().chain([(best, 0.0)]).collect();
        let cheap = cheapest(
            &self.space,
            &self.candidates,
            &Standings { means, ..Standings::default() },
            best,
            self.settings.margin,
        );
        // With little time, fewer are confirmed, rather than all of them badly.
        let unit = self.settings.unit_s;
        let present = self.rounds_of_present().min(ENOUGH_ROUNDS) as f64 * self.budget.price_of(0, unit);
        let capacity = 1.0 + (self.budget.left() - present) / (ENOUGH_ROUNDS as f64 * self.budget.price(unit));
        let mut finalists = vec![0, cheap];
        finalists.extend([best].into_iter().chain(others.iter().map(|(number, _)| *number)));
        let mut distinct = Vec::new();
        finalists.retain(|number| {
            let is_new = !distinct.contains(number);
            distinct.push(*number);
            is_new
        });
        finalists.truncate((capacity as usize).clamp(2, KEPT + 1));
        self.set_finalists(finalists, best, cheap);
        for number in self.finalists.clone() {
            if matches!(self.candidates[number].status, Status::Dropped { .. }) {
                self.candidates[number].status = Status::Open;
            }
        }
        self.judge_confirmation();
    }

    /// Drops those that can no longer win: each would take as much of the time as the best one.
    fn drop_far_behind(&mut self, best: usize) {
        for number in (1..self.candidates.len()).filter(|number| *number != best) {
            let share = self.share_of_best(number).filter(|_| self.candidates[number].is_open());
            share.into_iter().for_each(|share| self.drop_candidate(number, Reason::FarBehind(share)));
        }
    }

    /// Continues with another pair of rounds, unless the answer is known or time is up.
    pub(super) fn judge_confirmation(&mut self) {
        let is_new = |trial: &&MeasuredTrial| answer::confirms(trial) && trial.round >= self.since;
        let confirmations = |number: &usize| self.candidates[*number].trials.iter().filter(is_new).count();
        let rounds = self.finalists.iter().map(confirmations).max().unwrap_or(0);
        let works = |number: &usize| !self.candidates[*number].has_failed();
        let mut finalists: Vec<usize> = self.finalists.iter().copied().filter(works).collect();
        let of_present = self.rounds_of_present();
        if rounds >= of_present && of_present < CONFIRMATION.0 {
            // How far it is behind is known; which of the others is best may not be.
            finalists.retain(|number| *number != 0);
        }
        let fewest = if finalists.contains(&0) { of_present } else { CONFIRMATION.0 };
        let pairs = fewest.saturating_sub(rounds).max(2) / 2;
        let unit = self.confirmation_unit();
        // A first pair is begun if there is time for one trial, because it may take less than expected.
        let least =
            if rounds >= 2 { 2.0 * self.price_of_round(&finalists, unit) } else { self.budget.price_of(0, unit) };
        let over = self.budget.left() < least;
        if finalists.len() < 2 || rounds >= CONFIRMATION.1 || over || (rounds >= CONFIRMATION.0 && self.is_settled()) {
            self.stage = SearchStage::Done;
            return;
        }
        self.round += self.round % 2;
        for _ in 0..pairs {
            self.queue_round(&finalists, Phase::Confirmation, unit);
            self.queue_round(&finalists, Phase::Confirmation, unit);
        }
    }

    /// Minimum number of rounds that confirm the present configuration: few are enough if it is already known to be far
    /// behind.
    pub(super) fn rounds_of_present(&self) -> usize {
        if self.share_of_best(0).is_some() { FAR_ROUNDS } else { CONFIRMATION.0 }
    }

    /// A unit for which the minimum of rounds fits, at most four times the shortest.
    pub(super) fn confirmation_unit(&self) -> f64 {
        let rounds = CONFIRMATION.0 as f64;
        let shortest = self.settings.unit_s;
        let overhead = |number: &usize| self.budget.price_of(*number, 0.0);
        let extra = self.finalists.iter().map(overhead).sum::<f64>() / self.finalists.len().max(1) as f64;
        let per_trial = self.budget.left() / (rounds * self.finalists.len() as f64);
        (per_trial * 0.9 - extra).clamp(shortest, 4.0 * shortest)
    }

    /// Whether further rounds could not change the answer by much.
    pub(super) fn is_settled(&self) -> bool {
        match confirmed(&self.space, &self.candidates, &self.finalists, self.settings.margin) {
            Some(Answer::Better(..) | Answer::Meets(_)) => true,
            Some(Answer::Kept(Some((_, gain)))) => gain.interval.high < 1.0 + self.settings.margin,
            _ => false,
        }
    }
}
