//! [`Planner`]: gives more time to a search that has spent its budget, or a good part of it.

use crate::answer::{Answer, confirmed, confirms, leader, meets};
use crate::budget::MAX_CONFIRMATION;
use crate::field::MIN_RACING;
use crate::finish::ENOUGH_ROUNDS;
use crate::planner::{KEPT, Planner, SMALL, SearchStage};
use crate::race::Standings;
use crate::racing::{REPEATS, ROUNDS};
use crate::space::Place;
use crate::trial::Status;

impl Planner {
    /// Extends the budget to `budget_s` seconds in all, if that is more than it has; earlier measurements count.
    ///
    /// While the search still explores, the larger budget simply applies. Later it goes back: candidates that were
    /// dropped without being proven worse are measured and raced again, if there is time to confirm the result;
    /// otherwise the best are confirmed further.
    pub fn extend_budget(&mut self, budget_s: f64) {
        if budget_s <= self.settings.budget_s {
            return;
        }
        self.settings.budget_s = budget_s;
        match self.stage {
            SearchStage::Racing | SearchStage::Stepping | SearchStage::Confirming | SearchStage::Done => {
                self.open_again(budget_s);
            }
            _ => self.budget.set_limit(budget_s),
        }
    }

    /// Seconds with which a search like this one would compare others with the present configuration: those of one look
    /// along each setting, of a short race, and of a confirmation of the best.
    pub(super) fn needed_s(&self) -> f64 {
        let unit = self.settings.unit_s;
        let (yours, other) = (self.budget.price_of(0, unit), self.budget.price(unit));
        let looks: usize = self.space.dimensions.iter().map(|dimension| dimension.tried() - 1).sum();
        let (looks, racing) = match self.space.early() {
            points if points > SMALL => (looks + REPEATS - 1, MIN_RACING.max(KEPT)),
            points => (0, points - usize::from(self.space.present().is_some())),
        };
        let explored = yours + looks as f64 * other + ROUNDS.0 as f64 * (yours + racing as f64 * other);
        let confirmed = ENOUGH_ROUNDS as f64 * (yours + other);
        (explored + confirmed).max(explored / (1.0 - MAX_CONFIRMATION)).max(self.settings.budget_s)
    }

    fn open_again(&mut self, budget_s: f64) {
        let can_race = self.reserve() <= MAX_CONFIRMATION * (budget_s - self.spent());
        let is_confirming = !self.finalists.is_empty();
        if !can_race && !is_confirming && self.stage != SearchStage::Done {
            return self.budget.set_limit(budget_s);
        }
        self.budget.extend(budget_s);
        self.queue.clear();
        self.since = self.round;
        if !can_race && is_confirming {
            self.stage = SearchStage::Confirming;
            return;
        }
        self.rung = 0;
        self.has_narrowed = false;
        for candidate in &mut self.candidates {
            if matches!(candidate.status, Status::RuledOut(_) | Status::Dropped { is_shown: false, .. }) {
                candidate.status = Status::Open;
            }
        }
        self.stage = SearchStage::MeasuringBase;
    }

    /// Whether a point was dropped, and more time would not bring it back.
    pub(super) fn is_behind(&self, place: &Place) -> bool {
        self.numbers.get(place).is_some_and(|number| self.is_left_behind(*number))
    }

    /// Like [`Self::is_behind`], for a candidate.
    pub(super) fn is_left_behind(&self, number: usize) -> bool {
        matches!(self.candidates[number].status, Status::Dropped { .. })
    }

    /// Finalists that may still be the best.
    pub(super) fn open_finalists(&self) -> Vec<usize> {
        self.finalists.iter().copied().filter(|number| *number != 0 && self.candidates[*number].is_open()).collect()
    }

    /// The best finalist; `None` before the confirmation.
    pub(super) fn best_confirmed(&self) -> Option<usize> {
        let able: Vec<usize> =
            self.open_finalists().into_iter().filter(|number| meets(&self.candidates[*number], confirms)).collect();
        leader(&Standings::new(&self.candidates, &able, confirms), |_| true)
            .filter(|_| self.is_confirmed(&self.finalists))
    }

    /// Sets the finalists. If the earlier ones have been confirmed, they stay if the best are among them; otherwise
    /// their result is kept, and the best of them is compared with the others.
    pub(super) fn set_finalists(&mut self, mut chosen: Vec<usize>, best: usize, cheap: usize) {
        let is_known = |number: usize| number == 0 || self.finalists.contains(&number);
        if self.is_confirmed(&self.finalists) {
            if is_known(best) && is_known(cheap) {
                return;
            }
            let shown = confirmed(&self.space, &self.candidates, &self.finalists, self.settings.margin);
            if let Some(winner) = self.best_confirmed().filter(|winner| !chosen.contains(winner)) {
                chosen.push(winner);
            }
            self.earlier = match shown {
                Some(Answer::Better(winner, _)) => vec![0, winner],
                _ => self.finalists.clone(),
            };
        }
        self.finalists = chosen;
    }

    /// The outcome of the confirmation, or of an earlier one if that says more.
    pub(super) fn shown(&self) -> Option<Answer> {
        let answer_of = |finalists: &[usize]| {
            let answer = confirmed(&self.space, &self.candidates, finalists, self.settings.margin);
            answer.filter(|_| self.is_confirmed(finalists))
        };
        let answer = answer_of(&self.finalists);
        if matches!(answer, Some(Answer::Better(..) | Answer::Meets(_))) {
            return answer;
        }
        let earlier = answer_of(&self.earlier);
        if matches!(earlier, Some(Answer::Better(..))) { earlier } else { answer.or(earlier) }
    }
}
