//! Rounds: several subjects (variants of a run, candidates of a search) are measured in turns, each once a round.
//!
//! Rounds take turns so that whatever the machine does meanwhile affects all subjects alike. [`interleave`] knows
//! neither servers nor clocks: its caller measures.

use crate::result::rounds::{Round, Unit};
use crate::terms::Rounds;

/// A subject that has failed so often in a row is given up.
const PATIENCE: usize = 2;

/// What became of a turn.
#[derive(Clone, Debug)]
pub enum Measured {
    /// It was measured, or failed.
    Unit(Unit),
    /// The user asked for the end.
    Interrupted,
}

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The round, from 0.
    pub round: usize,
    /// The number of the subject.
    pub subject: usize,
}

/// How subjects take turns.
#[derive(Clone, Copy, Debug)]
pub struct Interleaving {
    /// How often, and in which order.
    pub rounds: Rounds,
    /// How many subjects there are.
    pub subjects: usize,
    /// Seed of orders that are drawn.
    pub seed: u64,
    /// Rounds that others took something from are measured again, up to half as many as there are.
    pub replaces: bool,
    /// At which start of the servers that is, from 1.
    pub start: u32,
}

/// How often each subject has failed in a row.
struct Failures(Vec<usize>);

impl Failures {
    fn none(subjects: usize) -> Self {
        Self(vec![0; subjects])
    }

    fn is_given_up(&self, subject: usize) -> bool {
        self.0[subject] >= PATIENCE
    }

    fn all_are_given_up(&self) -> bool {
        (0..self.0.len()).all(|subject| self.is_given_up(subject))
    }

    /// The result of `subject` in a round.
    fn record(&mut self, Turn { round, subject }: Turn, unit: &Unit) {
        let at_once = if round == 0 { PATIENCE } else { self.0[subject] + 1 };
        self.0[subject] = if unit.problem.is_some() { at_once } else { 0 };
    }

    /// The results of all in the next round.
    fn record_all(&mut self, number: usize, round: &Round) {
        let units = round.units.iter().enumerate().filter_map(|(subject, unit)| Some((subject, unit.as_ref()?)));
        units.for_each(|(subject, unit)| self.record(Turn { round: number, subject }, unit));
    }
}

impl Interleaving {
    /// The rounds of an earlier run that need not be measured again: those up to the first that was broken off, or is not of this
    /// plan, and to the last in which anything succeeded.
    pub fn kept(&self, earlier: impl IntoIterator<Item = Round>) -> Vec<Round> {
        let mut failures = Failures::none(self.subjects);
        let mut kept: Vec<Round> = Vec::new();
        for round in earlier {
            let number = kept.len();
            let is_there = |subject: usize| round.units[subject].is_some() || failures.is_given_up(subject);
            let is_of_plan = round.start == self.start && round.units.len() == self.subjects;
            let is_of_plan = is_of_plan && round.order == self.rounds.order_of(number, self.subjects, self.seed);
            if !is_of_plan || !(0..self.subjects).all(is_there) {
                break;
            }
            failures.record_all(number, &round);
            kept.push(round);
        }
        let has_success = |round: &Round| round.units.iter().flatten().any(|unit| unit.problem.is_none());
        kept.truncate(kept.iter().rposition(has_success).map_or(0, |last| last + 1));
        kept
    }

    /// Whether there are fewer rounds than planned. Disturbed ones are replaced.
    fn needs_more(&self, all: &[Round]) -> bool {
        let count = self.rounds.count;
        match self.rounds.until_decided {
            Some(_) => all.len() < count,
            None => all.len() < count + if self.replaces { count.div_ceil(2) } else { 0 } && calm(all) < count,
        }
    }

    /// Disturbed rounds do not count if there are enough others. Where rounds go on, that is half of them: if most are
    /// disturbed, that is how the machine is, for all subjects alike.
    fn set_aside(&self, all: &mut [Round]) {
        let enough = if self.rounds.until_decided.is_some() { all.len().div_ceil(2) } else { self.rounds.count };
        let others_suffice = calm(all) >= enough;
        for round in all.iter_mut() {
            round.set_aside = round.is_disturbed() && others_suffice;
        }
    }
}

fn calm(all: &[Round]) -> usize {
    all.iter().filter(|round| !round.is_disturbed()).count()
}

/// Measures all subjects in turns: `measure` one of them at a time, `finished` is called with all rounds so far after
/// each. Rounds that go on until something is decided end where `wants_more` has enough of them. `kept` are rounds that were measured before ([`Interleaving::kept`]), after which it continues. A subject that
/// fails at its first turn, or twice in a row, is given up; an interrupt ends all, and the round that it broke off has
/// no unit of whoever had no turn.
pub fn interleave(
    plan: &Interleaving,
    kept: Vec<Round>,
    mut measure: impl FnMut(Turn) -> Measured,
    mut finished: impl FnMut(&[Round]),
    wants_more: impl Fn(&[Round]) -> bool,
) -> Vec<Round> {
    let mut all = kept;
    let mut failures = Failures::none(plan.subjects);
    all.iter().enumerate().for_each(|(number, round)| failures.record_all(number, round));
    while plan.needs_more(&all) && (plan.rounds.until_decided.is_none() || wants_more(&all)) {
        let round = all.len();
        let order = plan.rounds.order_of(round, plan.subjects, plan.seed);
        let mut units = vec![None; plan.subjects];
        let mut interrupted = false;
        for &subject in &order {
            if failures.is_given_up(subject) {
                continue;
            }
            match measure(Turn { round, subject }) {
                Measured::Interrupted => interrupted = true,
                Measured::Unit(unit) => {
                    failures.record(Turn { round, subject }, &unit);
                    units[subject] = Some(unit);
                }
            }
            if interrupted {
                break;
            }
        }
        let measured = units.iter().any(Option::is_some);
        if measured {
            all.push(Round { start: plan.start, number: round + 1, order, units, set_aside: false });
            plan.set_aside(&mut all);
            finished(&all);
        }
        if interrupted || !measured || failures.all_are_given_up() {
            break;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terms::Order;

    fn plan(count: usize, replaces: bool) -> Interleaving {
        let rounds = Rounds { count, order: Order::Abba, margin: 0.05, until_decided: None };
        Interleaving { rounds, subjects: 2, seed: 1, replaces, start: 1 }
    }

    fn fine() -> Measured {
        Measured::Unit(Unit { requests: 1, ..Unit::default() })
    }

    #[test]
    fn subjects_take_turns_there_and_back() {
        let mut turns = Vec::new();
        let mut lengths = Vec::new();
        let take = |turn: Turn| {
            turns.push((turn.round, turn.subject));
            fine()
        };
        let all = interleave(&plan(3, false), Vec::new(), take, |all| lengths.push(all.len()), |_| true);
        assert_eq!(turns, [(0, 0), (0, 1), (1, 1), (1, 0), (2, 0), (2, 1)]);
        assert_eq!((all.len(), lengths, all[1].order.clone()), (3, vec![1, 2, 3], vec![1, 0]));
    }

    #[test]
    fn disturbed_rounds_are_replaced_while_there_is_hope() {
        let disturbed = || Measured::Unit(Unit { disturbed: true, ..Unit::default() });
        let rounds = |bad: &[usize], replaces| {
            let take = |turn: Turn| if bad.contains(&turn.round) && turn.subject == 1 { disturbed() } else { fine() };
            interleave(&plan(4, replaces), Vec::new(), take, |_| (), |_| true)
        };
        let one_disturbed = rounds(&[1], true);
        assert_eq!(
            one_disturbed.iter().map(|round| round.set_aside).collect::<Vec<_>>(),
            [false, true, false, false, false]
        );
        let all = rounds(&[0, 1, 2, 3, 4, 5], true);
        assert!(all.len() == 6 && all.iter().all(|round| !round.set_aside), "none is calm: all count");
        assert_eq!(rounds(&[0, 1], false).len(), 4);
    }

    #[test]
    fn a_subject_that_fails_is_given_up_and_the_others_go_on() {
        let turns_of = |fails: fn(Turn) -> bool| {
            let mut turns = [0, 0];
            let take = |turn: Turn| {
                turns[turn.subject] += 1;
                if fails(turn) { Measured::Unit(Unit::failed("no")) } else { fine() }
            };
            interleave(&plan(6, false), Vec::new(), take, |_| (), |_| true);
            turns
        };
        assert_eq!(turns_of(|turn| turn.subject == 1), [6, 1], "it never worked");
        assert_eq!(turns_of(|turn| turn.subject == 1 && turn.round > 1), [6, 4]);
        assert_eq!(turns_of(|turn| turn.subject == 1 && turn.round == 2), [6, 6], "once is chance");
        assert_eq!(turns_of(|_| true), [1, 1]);
    }

    #[test]
    fn an_interrupt_keeps_what_there_is() {
        let take = |turn: Turn| if turn == (Turn { round: 1, subject: 0 }) { Measured::Interrupted } else { fine() };
        let all = interleave(&plan(6, false), Vec::new(), take, |_| (), |_| true);
        // Round 1 goes back: the second had its turn.
        assert_eq!(all.len(), 2);
        assert!(all[1].counted(0).is_none() && all[1].counted(1).is_some());
        assert!(interleave(&plan(6, false), Vec::new(), |_| Measured::Interrupted, |_| (), |_| true).is_empty());
    }

    #[test]
    fn what_was_measured_before_is_not_measured_again() {
        for order in [Order::Abba, Order::Random] {
            let rounds = Rounds { count: 6, order, margin: 0.05, until_decided: None };
            let plan = Interleaving { rounds, subjects: 3, seed: 7, replaces: true, start: 1 };
            // Subject 2 is given up after two rounds, and round 3 was disturbed.
            let unit = |turn: Turn| {
                let problem = (turn.subject == 2 && turn.round >= 1).then(|| "no".to_owned());
                Unit { requests: turn.round as u64, disturbed: turn.round == 3, problem, ..Unit::default() }
            };
            let whole = interleave(&plan, Vec::new(), |turn| Measured::Unit(unit(turn)), |_| (), |_| true);
            assert_eq!(whole.len(), 7);
            for cut in 0..=whole.len() {
                let kept = plan.kept(whole[..cut].to_vec());
                let first = kept.len();
                // Until something is given up, a round that nothing is missing from is kept.
                assert_eq!(first, cut, "{order:?}");
                let take = |turn: Turn| {
                    assert!(turn.round >= first);
                    Measured::Unit(unit(turn))
                };
                assert_eq!(interleave(&plan, kept, take, |_| (), |_| true), whole, "{order:?} {cut}");
            }
        }
    }

    #[test]
    fn a_round_that_was_broken_off_is_measured_anew_and_so_is_what_no_subject_survived() {
        let plan = plan(4, false);
        let whole = interleave(&plan, Vec::new(), |_| fine(), |_| (), |_| true);
        let lengths = |change: &dyn Fn(&mut Vec<Round>)| {
            let mut rounds = whole.clone();
            change(&mut rounds);
            plan.kept(rounds).len()
        };
        assert_eq!(lengths(&|_| ()), 4);
        assert_eq!(lengths(&|rounds| rounds[2].units[0] = None), 2);
        assert_eq!(lengths(&|rounds| rounds[1].order.reverse()), 1);
        assert_eq!(lengths(&|rounds| rounds[3].start = 2), 3);
        let fail = |round: &mut Round, subject: usize| round.units[subject] = Some(Unit::failed("no"));
        assert_eq!(lengths(&|rounds| fail(&mut rounds[3], 1)), 4, "one that fails is a result");
        let all_fail = |rounds: &mut Vec<Round>| {
            fail(&mut rounds[2], 1);
            (0..2).for_each(|subject| fail(&mut rounds[3], subject));
        };
        assert_eq!(lengths(&all_fail), 3);
    }
}
