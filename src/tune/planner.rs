//! [`Planner`]: the search as a state machine.

use std::collections::{HashMap, VecDeque};

use crate::answer::{self, Answer, Beside, leader, meets};
use crate::budget::Budget;
use crate::calibration::DOUBT;
use crate::race::{Standings, median};
use crate::space::{Place, Space};
use crate::trial::{Candidate, Found, MeasuredTrial, Observation, Phase, Settings, Status, Trial};
use stats::seed::{Purpose, derive, hash};

/// Spaces up to this size race without a calibration.
pub(super) const SMALL: usize = 12;
/// This many always stay in the race, beside the present configuration.
pub(super) const KEPT: usize = 3;
/// Minimum and maximum number of confirmation rounds, which come in pairs.
pub(super) const CONFIRMATION: (usize, usize) = (10, 60);

/// Disturbed trials are repeated up to this number, and as long as at most one in so many is disturbed. A machine that is
/// always busy is no quieter the next time, and all candidates are measured on it alike.
const DISTURBED: (u64, u64) = (2, 3);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SearchStage {
    Start,
    MeasuringBase,
    Calibrating,
    Repeating,
    Narrowing,
    Racing,
    Stepping,
    Confirming,
    Done,
}

/// The search. See the module.
#[derive(Clone, Debug)]
pub struct Planner {
    pub(super) space: Space,
    pub(super) settings: Settings,
    pub(super) candidates: Vec<Candidate>,
    pub(super) numbers: HashMap<Place, usize>,
    pub(super) budget: Budget,
    pub(super) stage: SearchStage,
    pub(super) queue: VecDeque<Trial>,
    /// Number of the next round, and of the next trial; each is used once.
    pub(super) round: usize,
    pub(super) trials: u64,
    pub(super) rung: usize,
    /// Whether narrowing is done.
    pub(super) has_narrowed: bool,
    /// Candidates in the race or beside the best one.
    pub(super) members: Vec<usize>,
    /// Candidates in the confirmation, the present configuration first.
    pub(super) finalists: Vec<usize>,
    /// Finalists of an earlier confirmation that showed something, before others joined.
    pub(super) earlier: Vec<usize>,
    /// The first round since the budget was extended.
    pub(super) since: usize,
    /// Number of trials that came to something, repeats apart, and of those that others have disturbed.
    observed: u64,
    disturbed: u64,
}

impl Planner {
    /// A search of `space`; the present configuration is candidate 0.
    pub fn new(space: Space, settings: Settings) -> Self {
        let present = space.present();
        let numbers = present.iter().map(|place| (place.clone(), 0)).collect();
        Self {
            candidates: vec![Candidate::new(present)],
            numbers,
            budget: Budget::new(settings.budget_s),
            stage: SearchStage::Start,
            queue: VecDeque::new(),
            round: 0,
            trials: 0,
            rung: 0,
            has_narrowed: false,
            members: Vec::new(),
            finalists: Vec::new(),
            earlier: Vec::new(),
            since: 0,
            observed: 0,
            disturbed: 0,
            space,
            settings,
        }
    }

    /// All candidates so far, by their numbers.
    pub fn candidates(&self) -> &[Candidate] {
        &self.candidates
    }

    /// What is searched.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// Seconds that the search may take in all.
    pub fn budget(&self) -> f64 {
        self.settings.budget_s
    }

    /// Seconds that were spent.
    pub fn spent(&self) -> f64 {
        self.budget.spent()
    }

    /// The next trial to measure; `None` at the end.
    pub fn next_trial(&mut self) -> Option<Trial> {
        let mut before = None;
        loop {
            if let Some(trial) = self.queued() {
                return Some(trial);
            }
            // If there is no trial, there must at least be a new stage.
            if before == Some(self.stage) {
                self.stage = SearchStage::Done;
            }
            if self.stage == SearchStage::Done {
                return None;
            }
            before = Some(self.stage);
            self.advance();
        }
    }

    /// The next trial of the queue that there is a reason and time for. The first that would take too long ends the
    /// stage.
    fn queued(&mut self) -> Option<Trial> {
        while let Some(trial) = self.queue.pop_front() {
            if self.candidates[trial.candidate].has_failed() || self.is_given_up(trial.candidate) {
                continue;
            }
            if self.is_affordable(&trial) {
                return Some(trial);
            }
            // What the present configuration is compared with comes first, and others may race without it.
            let is_needless = trial.candidate == 0 && (self.is_alone() || self.stage == SearchStage::Racing);
            if !is_needless {
                self.queue.clear();
            }
        }
        None
    }

    /// Sets the minimum length of a measurement from here on. The first trial, of the present configuration, shows what
    /// the model needs.
    pub fn set_unit(&mut self, unit_s: f64) {
        self.settings.unit_s = unit_s;
    }

    /// Records the result of the last trial.
    pub fn observe(&mut self, trial: &Trial, observation: &Observation) {
        self.budget.spend(trial.candidate, trial.unit_s, observation.seconds);
        let candidate = &mut self.candidates[trial.candidate];
        match &observation.found {
            Ok(found) => {
                if trial.again {
                    candidate.trials.pop();
                }
                candidate.trials.push(MeasuredTrial {
                    phase: trial.phase,
                    round: trial.round,
                    unit_s: trial.unit_s,
                    score: found.score,
                    violation: found.violation,
                    disturbed: found.disturbed,
                });
                candidate.bottleneck = found.bottleneck;
                self.react(trial, found);
            }
            Err(reason) => candidate.status = Status::Failed(reason.clone()),
        }
    }

    /// What a measurement changes in the plan: the first shows which model to search first, and one that others have
    /// disturbed is repeated, unless they do so all the time.
    fn react(&mut self, trial: &Trial, found: &Found) {
        if let Some(group) = found.bottleneck.filter(|_| self.stage == SearchStage::MeasuringBase)
            && self.space.size() > SMALL
        {
            self.space.search_first(group);
        }
        self.observed += u64::from(!trial.again);
        if !found.disturbed || trial.again {
            return;
        }
        self.disturbed += 1;
        let is_rare = self.disturbed <= DISTURBED.0 || self.disturbed * DISTURBED.1 <= self.observed;
        let again =
            Trial { seed: hash(derive(self.settings.seed, Purpose::Tuning), self.trials), again: true, ..*trial };
        if is_rare && self.is_affordable(&again) {
            self.trials += 1;
            self.queue.push_front(again);
        }
    }

    /// What is proven so far.
    pub fn answer(&self) -> Answer {
        if let Some(answer) = self.shown() {
            return answer;
        }
        let is_able = |number: &usize| meets(&self.candidates[*number], |_| true);
        let able: Vec<usize> = (0..self.candidates.len()).filter(is_able).collect();
        if able.is_empty() {
            return self.nearest().map_or(Answer::Nothing, Answer::NoneMeets);
        }
        if !able.contains(&0) {
            let works = self.candidates[0].has_failed();
            let is_sure = |number: &usize| works || answer::meets_surely(&self.candidates[*number], |_| true);
            let sure: Vec<usize> = able.into_iter().filter(is_sure).collect();
            let best = self.best_of(&sure).map(Answer::Meets);
            return best.unwrap_or_else(|| Answer::TooShort { needed_s: self.needed_s(), meets: false });
        }
        let is_out = |candidate: &Candidate| {
            candidate.has_failed()
                || matches!(candidate.status, Status::RuledOut(_) | Status::Dropped { is_shown: true, .. })
        };
        let is_over = self.stage == SearchStage::Done;
        if is_over && self.candidates[1..].iter().all(is_out) {
            return Answer::Kept(None);
        }
        let ahead = answer::ahead_side_by_side(&self.candidates, self.settings.margin);
        match ahead {
            // So much is not gained by being the luckiest of those that were compared.
            Some((number, gain)) if gain.interval.low.ln() > DOUBT => Answer::Better(number, gain),
            Some((number, gain)) => Answer::Unconfirmed(number, gain),
            None => Answer::TooShort { needed_s: self.needed_s(), meets: true },
        }
    }

    /// The best of `able`: of those that are left in the race, where there are any.
    fn best_of(&self, able: &[usize]) -> Option<usize> {
        let last: Vec<usize> = able.iter().copied().filter(|number| self.members.contains(number)).collect();
        let scored = able.iter().filter_map(|number| Some((self.mean_score(*number)?, *number)));
        let best = scored.max_by(|(left, _), (right, _)| left.total_cmp(right)).map(|(_, number)| number);
        leader(&Standings::new(&self.candidates, &last, |_| true), |_| true).or(best)
    }

    /// The candidate that is nearest to meeting the constraints.
    fn nearest(&self) -> Option<usize> {
        let distance = |number: &usize| median(&self.candidates[*number].violations(|_| true));
        let works = |number: &usize| !self.candidates[*number].has_failed() && self.trials_of(*number) > 0;
        let numbers = (0..self.candidates.len()).filter(works);
        numbers.min_by(|left, right| distance(left).total_cmp(&distance(right)))
    }

    /// How the confirmed candidates compare with the best of them. What an earlier confirmation has shown counts for those
    /// that the last one left out.
    pub fn beside_best(&self) -> Vec<Beside> {
        let beside_of = |finalists: &[usize]| answer::beside_best(&self.candidates, finalists, self.settings.margin);
        let earlier = beside_of(&self.earlier).into_iter().filter(|beside| !self.finalists.contains(&beside.number));
        beside_of(&self.finalists).into_iter().chain(earlier).collect()
    }

    /// Whether every one of `finalists` that works was measured in enough rounds to say something.
    pub(super) fn is_confirmed(&self, finalists: &[usize]) -> bool {
        let rounds = |number: &usize| {
            let trials = &self.candidates[*number].trials;
            trials.iter().filter(|trial| answer::confirms(trial)).count()
        };
        let works = |number: &&usize| !self.candidates[**number].has_failed();
        !finalists.is_empty() && finalists.iter().filter(works).map(rounds).all(|rounds| rounds >= 4)
    }

    fn is_affordable(&self, trial: &Trial) -> bool {
        // A stage may exceed its share a little, but must not stop before a candidate because those before it were
        // slow.
        let price = self.budget.least_price_of(trial.candidate, trial.unit_s);
        let left = match self.stage {
            // Without a second candidate there is nothing to confirm, which the rest is reserved for.
            _ if trial.candidate != 0 && self.is_alone() => self.budget.left(),
            // Without the far end of a setting nothing can be predicted about it.
            SearchStage::Calibrating if self.has_unmeasured_ends() => self.budget.for_ends(),
            // Partly measured settings are narrowed from the best, not measured along.
            SearchStage::Calibrating => {
                self.budget.for_calibration() - self.queue.len() as f64 * self.budget.price(trial.unit_s)
            }
            // The difference between two measurements of a point decides what counts as far behind.
            SearchStage::Repeating => self.budget.for_ends(),
            SearchStage::Narrowing => self.for_narrowing(),
            SearchStage::Racing => self.budget.for_race(self.reserve()),
            SearchStage::Stepping => self.budget.for_steps(self.reserve()),
            _ => self.budget.left(),
        };
        // The present configuration is always measured, once.
        price <= left || (trial.candidate == 0 && self.trials_of(0) == 0)
    }

    /// Whether the calibration has not reached the far end of every setting, which it measures first.
    fn has_unmeasured_ends(&self) -> bool {
        let searched = self.space.dimensions.iter().filter(|dimension| dimension.tried() > 1).count();
        let tried = |candidate: &&Candidate| candidate.has_failed() || !candidate.trials.is_empty();
        self.candidates[1..].iter().filter(tried).count() < searched
    }

    /// Whether only the present configuration has been measured.
    fn is_alone(&self) -> bool {
        self.candidates[1..].iter().all(|candidate| candidate.trials.is_empty())
    }

    pub(super) fn trials_of(&self, number: usize) -> usize {
        self.candidates[number].trials.len()
    }

    /// Time that the confirmation needs, for the likely finalists: the candidates that look best.
    pub(super) fn reserve(&self) -> f64 {
        let unit = self.settings.unit_s;
        let present = self.rounds_of_present() as f64 * self.budget.price_of(0, unit);
        let able = (1..self.candidates.len()).filter(|number| meets(&self.candidates[*number], |_| true));
        let mut best: Vec<(f64, usize)> = able.filter_map(|number| Some((self.mean_score(number)?, number))).collect();
        best.sort_by(|(left, _), (right, _)| right.total_cmp(left));
        let prices = best.iter().take(KEPT).map(|(_, number)| self.budget.price_of(*number, unit));
        let unknown = KEPT.saturating_sub(best.len()) as f64 * self.budget.price(unit);
        present + CONFIRMATION.0 as f64 * (prices.sum::<f64>() + unknown)
    }

    /// The mean score of a candidate; `None` if it was not measured.
    pub(super) fn mean_score(&self, number: usize) -> Option<f64> {
        let trials = &self.candidates[number].trials;
        (!trials.is_empty()).then(|| trials.iter().map(|trial| trial.score).sum::<f64>() / trials.len() as f64)
    }

    /// Time of a round of these candidates.
    pub(super) fn price_of_round(&self, members: &[usize], unit_s: f64) -> f64 {
        members.iter().map(|number| self.budget.price_of(*number, unit_s)).sum()
    }

    fn advance(&mut self) {
        match self.stage {
            SearchStage::Start => self.measure_base(),
            SearchStage::MeasuringBase => self.calibrate(),
            SearchStage::Calibrating => self.repeat_base(),
            SearchStage::Repeating | SearchStage::Narrowing => self.narrow(),
            SearchStage::Racing => self.judge_rung(),
            SearchStage::Stepping => self.judge_steps(),
            SearchStage::Confirming => self.judge_confirmation(),
            SearchStage::Done => {}
        }
    }

    /// The number of a point; a new one if it is not a candidate yet.
    pub(super) fn number(&mut self, place: Place) -> usize {
        let next = self.candidates.len();
        let number = *self.numbers.entry(place.clone()).or_insert(next);
        if number == next {
            self.candidates.push(Candidate::new(Some(place)));
        }
        number
    }

    /// Queues a round: each of `members` once, the present configuration first, so that whatever ends the search, others
    /// were measured beside it. The order of the others is drawn from the seed; those that differ only in their instances
    /// are next to each other, because instances are changed in place.
    pub(super) fn queue_round(&mut self, members: &[usize], phase: Phase, unit_s: f64) {
        let (round, stream) = (self.round, derive(self.settings.seed, Purpose::Tuning));
        self.round += 1;
        let mut order = members.to_vec();
        if phase == Phase::Race || phase == Phase::Step {
            let family = |number: usize| self.space.family(self.candidates[number].place.as_ref());
            let draw = |number: usize| hash(stream, (round as u64) << 32 | number as u64);
            let of_family = |number: usize| {
                let folded = family(number).into_iter().fold(round as u64, |seed, index| hash(seed, index as u64));
                hash(stream, folded)
            };
            order.sort_by_key(|number| (of_family(*number), draw(*number)));
        } else if phase == Phase::Confirmation && round % 2 == 1 {
            order.reverse();
        }
        order.sort_by_key(|number| *number != 0);
        for candidate in order {
            let seed = hash(stream, self.trials);
            self.trials += 1;
            self.queue.push_back(Trial { candidate, phase, round, unit_s, seed, again: false });
        }
    }
}
