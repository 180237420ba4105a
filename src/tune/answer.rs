//! The outcome of a search.

use crate::race::{Standings, median};
use crate::space::Space;
use crate::trial::{Candidate, Phase, Visit};
use stats::Interval;

/// Confidence of all statements.
const CONFIDENCE: f64 = 0.95;

/// How much better one candidate is than another, as a factor: 1.1 is 10 % more throughput, or a latency that is 10 % lower.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gain {
    /// The estimate.
    pub factor: f64,
    /// Where the true factor lies, with all contenders considered.
    pub interval: Interval,
}

/// The outcome of a search. Numbers are those of candidates.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// This candidate is better than the present configuration, by more than the margin.
    Better(usize, Gain),
    /// None is proven better; the best of the others would gain this much, at most the interval's upper end.
    Kept(Option<(usize, Gain)>),
    /// The present configuration violates the constraints or does not work; this candidate meets them.
    Meets(usize),
    /// None meets the constraints; this one is nearest.
    NoneMeets(usize),
    /// The search was broken off before the best could be confirmed; this one is ahead.
    Unconfirmed(usize),
    /// Nothing could be measured.
    Nothing,
}

impl Answer {
    /// The configuration to take.
    pub fn winner(&self) -> Option<usize> {
        match self {
            Self::Better(number, _) | Self::Meets(number) | Self::Unconfirmed(number) => Some(*number),
            Self::Kept(_) => Some(0),
            Self::NoneMeets(_) | Self::Nothing => None,
        }
    }
}

/// Whether the visit is one of those that decide.
pub fn confirms(visit: &Visit) -> bool {
    visit.phase == Phase::Confirmation
}

/// Whether a candidate meets the constraints in its median visit.
pub fn meets(candidate: &Candidate, counts: impl Fn(&Visit) -> bool) -> bool {
    let violations = candidate.violations(counts);
    !candidate.has_failed() && !violations.is_empty() && median(&violations) <= 0.0
}

/// The finalists that meet the constraints in the confirmation.
fn able(candidates: &[Candidate], finalists: &[usize]) -> Vec<usize> {
    finalists.iter().copied().filter(|number| meets(&candidates[*number], confirms)).collect()
}

/// The standings of `able` without the present configuration: if that is far behind, it has fewer rounds than the
/// others have among themselves.
fn of_others(candidates: &[Candidate], able: &[usize]) -> Standings {
    let others: Vec<usize> = able.iter().copied().filter(|number| *number != 0).collect();
    Standings::of(candidates, &others, confirms)
}

/// The outcome of the confirmation of `finalists`, the first of which is the present configuration.
pub fn confirmed(space: &Space, candidates: &[Candidate], finalists: &[usize], margin: f64) -> Option<Answer> {
    let able = able(candidates, finalists);
    let among = of_others(candidates, &able);
    let Some(best) = leader(&among, |_| true) else {
        return able.contains(&0).then_some(Answer::Kept(None));
    };
    let cheap = cheapest(space, candidates, (&among, best), margin);
    if !able.contains(&0) {
        return Some(Answer::Meets(cheap));
    }
    let standings = Standings::of(candidates, &able, confirms);
    let half_width = standings.half_width(CONFIDENCE, able.len() - 1);
    let gain = |number: usize| {
        let interval = standings.difference(number, 0, half_width)?;
        let factor = (standings.mean(number)? - standings.mean(0)?).exp();
        Some(Gain { factor, interval: Interval { low: interval.low.exp(), high: interval.high.exp() } })
    };
    let is_better = |gain: &Gain| gain.interval.low >= 1.0 + margin;
    let of_best = gain(best)?;
    if !is_better(&of_best) {
        return Some(Answer::Kept(Some((best, of_best))));
    }
    Some(match gain(cheap).filter(is_better) {
        Some(gain) => Answer::Better(cheap, gain),
        None => Answer::Better(best, of_best),
    })
}

/// The finalists that the confirmation shows to be worse than the best of them, by more than the margin, and how good
/// each is as a share of it.
pub fn shown_worse(candidates: &[Candidate], finalists: &[usize], margin: f64) -> Vec<(usize, f64)> {
    let able = able(candidates, finalists);
    let mut standings = Standings::of(candidates, &able, confirms);
    if leader(&standings, |_| true) != Some(0) {
        standings = of_others(candidates, &able);
    }
    let Some(best) = leader(&standings, |_| true) else { return Vec::new() };
    let half_width = standings.half_width(CONFIDENCE, standings.means.len() - 1);
    let share = |(number, _): &(usize, f64)| {
        let worse = standings.difference(*number, best, half_width)?;
        (worse.high < -(1.0 + margin).ln()).then(|| (*number, worse.low.midpoint(worse.high).exp()))
    };
    standings.means.iter().filter_map(share).collect()
}

/// The candidate with the highest mean among those that `counts` accepts.
pub fn leader(standings: &Standings, counts: impl Fn(usize) -> bool) -> Option<usize> {
    let all = standings.means.iter().filter(|(number, _)| counts(*number));
    all.max_by(|(_, one), (_, other)| one.total_cmp(other)).map(|(number, _)| *number)
}

/// The cheapest of the candidates that are within the margin of `best`.
pub fn cheapest(space: &Space, candidates: &[Candidate], (standings, best): (&Standings, usize), margin: f64) -> usize {
    let top = standings.mean(best).unwrap_or(f64::NEG_INFINITY);
    let near = standings.means.iter().filter(|(number, mean)| *number != 0 && *mean > top - (1.0 + margin).ln());
    let cost = |number: usize| candidates[number].place.as_ref().map(|place| space.cost(place)).unwrap_or_default();
    near.map(|(number, _)| *number).min_by_key(|number| cost(*number)).unwrap_or(best)
}
