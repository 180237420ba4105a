//! The outcome of a search.

use crate::race::{Standings, median};
use crate::space::Space;
use crate::trial::{Candidate, MeasuredTrial, Phase};
use stats::Interval;

/// Numbers of trials from which on constraints are known to be met, if all of them meet them, and if most do.
const FEW: usize = 3;
const MANY: usize = 6;

/// No constraint is met by this much, as a logarithm: there is none.
const UNLIMITED: f64 = -50.0;

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
    /// The search was broken off before the best could be confirmed; this one was better than the present configuration
    /// by more than the margin, in the rounds that both took part in.
    Unconfirmed(usize, Gain),
    /// Too little was measured side by side to say anything about others.
    TooShort {
        /// A budget that would do, in seconds.
        needed_s: f64,
        /// Whether the present configuration meets the constraints; if so, it stays.
        meets: bool,
    },
    /// Nothing could be measured.
    Nothing,
}

impl Answer {
    /// The configuration to take.
    pub fn winner(&self) -> Option<usize> {
        match self {
            Self::Better(number, _) | Self::Meets(number) | Self::Unconfirmed(number, _) => Some(*number),
            Self::Kept(_) | Self::TooShort { meets: true, .. } => Some(0),
            Self::NoneMeets(_) | Self::TooShort { meets: false, .. } | Self::Nothing => None,
        }
    }
}

/// Whether the trial is one of those that decide.
pub fn confirms(trial: &MeasuredTrial) -> bool {
    trial.phase == Phase::Confirmation
}

/// Whether the trial was made in a round with others.
pub fn is_beside(trial: &MeasuredTrial) -> bool {
    trial.phase != Phase::Calibration
}

/// Whether a candidate meets the constraints in its median trial.
pub fn meets(candidate: &Candidate, counts: impl Fn(&MeasuredTrial) -> bool) -> bool {
    let violations = candidate.violations(counts);
    !candidate.has_failed() && !violations.is_empty() && median(&violations) <= 0.0
}

/// Whether a candidate meets the constraints in enough trials to be recommended: each of a few, or most of many, because
/// a few readings may have met a kinder moment.
pub fn meets_surely(candidate: &Candidate, counts: impl Fn(&MeasuredTrial) -> bool) -> bool {
    let violations = candidate.violations(counts);
    let all = violations.iter().all(|violation| *violation <= 0.0);
    !candidate.has_failed()
        && match violations.len() {
            0..FEW => false,
            FEW..MANY => all,
            _ => median(&violations) <= 0.0,
        }
}

/// The finalists that meet the constraints in the confirmation.
fn able(candidates: &[Candidate], finalists: &[usize]) -> Vec<usize> {
    let is_able = |number: usize| match number {
        0 => meets(&candidates[0], confirms),
        _ => meets_surely(&candidates[number], confirms),
    };
    finalists.iter().copied().filter(|number| is_able(*number)).collect()
}

/// The standings of `able` without the present configuration: if that is far behind, it has fewer rounds than the
/// others have among themselves.
fn of_others(candidates: &[Candidate], able: &[usize]) -> Standings {
    let others: Vec<usize> = able.iter().copied().filter(|number| *number != 0).collect();
    Standings::new(candidates, &others, confirms)
}

/// The outcome of the confirmation of `finalists`, the first of which is the present configuration.
pub fn confirmed(space: &Space, candidates: &[Candidate], finalists: &[usize], margin: f64) -> Option<Answer> {
    let able = able(candidates, finalists);
    let among = of_others(candidates, &able);
    let Some(best) = leader(&among, |_| true) else {
        return able.contains(&0).then_some(Answer::Kept(None));
    };
    let cheap = cheapest(space, candidates, &among, best, margin);
    if !able.contains(&0) {
        return Some(Answer::Meets(cheap));
    }
    let standings = Standings::new(candidates, &able, confirms);
    let gain = |number: usize| gain(&standings, number, able.len() - 1);
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

/// How much better than the present configuration a candidate is, where so many are compared with it.
fn gain(standings: &Standings, number: usize, comparisons: usize) -> Option<Gain> {
    let interval = standings.difference(number, 0, standings.half_width(CONFIDENCE, comparisons))?;
    let factor = (standings.mean(number)? - standings.mean(0)?).exp();
    Some(Gain { factor, interval: Interval { low: interval.low.exp(), high: interval.high.exp() } })
}

/// The candidate that is better than the present configuration by more than the margin, in rounds that both took part
/// in: of those with most such rounds, the best. All that were compared count as comparisons, because the best of many
/// is ahead by chance.
pub fn ahead_side_by_side(candidates: &[Candidate], margin: f64) -> Option<(usize, Gain)> {
    let rounds_of = |number: usize| -> Vec<usize> {
        candidates[number].trials.iter().filter(|trial| is_beside(trial)).map(|trial| trial.round).collect()
    };
    let of_present = rounds_of(0);
    let shared = |number: usize| rounds_of(number).iter().filter(|round| of_present.contains(round)).count();
    let beside: Vec<(usize, usize)> =
        (1..candidates.len()).map(|number| (number, shared(number))).filter(|(_, rounds)| *rounds > 0).collect();
    let able = beside.iter().filter(|(number, rounds)| {
        let violations = candidates[*number].violations(|_| true);
        // Two readings may both have met a kinder moment.
        let is_limited = violations.iter().any(|violation| *violation > UNLIMITED);
        *rounds > 1 && violations.iter().all(|violation| *violation <= 0.0) && (violations.len() >= FEW || !is_limited)
    });
    let most = able.clone().map(|(_, rounds)| *rounds).max()?;
    let pool: Vec<usize> =
        [0].into_iter().chain(able.filter(|(_, rounds)| *rounds == most).map(|(number, _)| *number)).collect();
    let standings = Standings::new(candidates, &pool, is_beside);
    let best = leader(&standings, |number| number != 0)?;
    gain(&standings, best, beside.len()).filter(|gain| gain.interval.low >= 1.0 + margin).map(|gain| (best, gain))
}

/// A finalist beside the best one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Beside {
    /// Its number.
    pub number: usize,
    /// How good it is as a factor of the best: less than 1 is worse.
    pub share: f64,
    /// Where that factor lies.
    pub interval: Interval,
    /// Whether it is shown to be worse by more than the margin, or not to be; `None` if neither is.
    pub is_worse: Option<bool>,
}

/// What the confirmation shows of the finalists beside the best of them.
pub fn beside_best(candidates: &[Candidate], finalists: &[usize], margin: f64) -> Vec<Beside> {
    let able = able(candidates, finalists);
    let mut standings = Standings::new(candidates, &able, confirms);
    if leader(&standings, |_| true) != Some(0) {
        standings = of_others(candidates, &able);
    }
    let Some(best) = leader(&standings, |_| true) else { return Vec::new() };
    let half_width = standings.half_width(CONFIDENCE, standings.means.len() - 1);
    let beside = |(number, _): &(usize, f64)| {
        let Interval { low, high } = standings.difference(*number, best, half_width)?;
        let least = -(1.0 + margin).ln();
        let is_worse = if high < least { Some(true) } else { (low >= least).then_some(false) };
        let interval = Interval { low: low.exp(), high: high.exp() };
        Some(Beside { number: *number, share: low.midpoint(high).exp(), interval, is_worse })
    };
    standings.means.iter().filter(|(number, _)| *number != best).filter_map(beside).collect()
}

/// The candidate with the highest mean among those that `counts` accepts.
pub fn leader(standings: &Standings, counts: impl Fn(usize) -> bool) -> Option<usize> {
    let all = standings.means.iter().filter(|(number, _)| counts(*number));
    all.max_by(|(_, left), (_, right)| left.total_cmp(right)).map(|(number, _)| *number)
}

/// The cheapest of the candidates that are within the margin of `best`.
pub fn cheapest(space: &Space, candidates: &[Candidate], standings: &Standings, best: usize, margin: f64) -> usize {
    let top = standings.mean(best).unwrap_or(f64::NEG_INFINITY);
    let near = standings.means.iter().filter(|(number, mean)| *number != 0 && *mean > top - (1.0 + margin).ln());
    let cost = |number: usize| candidates[number].place.as_ref().map(|place| space.cost(place)).unwrap_or_default();
    near.map(|(number, _)| *number).min_by_key(|number| cost(*number)).unwrap_or(best)
}
