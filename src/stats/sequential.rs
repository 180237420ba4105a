//! What rounds say about their middle, however often they are looked at.
//!
//! An interval of a fixed number of rounds is wrong more often than it says once rounds go on until it has an answer. Here a
//! value bets against every place that the middle might have: round by round its capital is multiplied by
//! `1 + stake * tanh(pace * (x - place))`. If values lie symmetrically about a middle that is not above the place, whatever
//! their distribution, the capital is expected to shrink, and the probability that it is ever `n` times what it began with is
//! at most `1 / n` (Ville's inequality, 1939). So a place that has lost by that much lies below the middle, and the bound
//! holds at all looks together. Betting on bounded values: Waudby-Smith and Ramdas, "Estimating means of bounded random
//! variables by betting" (2024), whose `pace` (their equation 26) is used; `tanh` makes any symmetric value a bounded one,
//! and a stall costs no more than the stake. On a machine that others use, every third value may be one of those: the spread
//! is that of the values near the middle, and the stake is what is best if half of the far ones lose it (Kelly, 1956).
//!
//! Values that differ by several times their middle's distance from a place lose whole stakes against it in the long run, however many
//! there are. So the capital is divided, and a part of it bets less; what all parts are expected to have still does not grow where
//! the place is the middle, so the bound holds for their sum.

use crate::{Bounds, Interval};

/// Confidence of the interval; each of its ends may be wrong half as often as that leaves.
const CONFIDENCE: f64 = 0.95;
/// The largest share of the capital that a round may cost. With it, six rounds that agree are the fewest that decide.
const STAKE: f64 = 0.93;
/// The first part decides soonest where values differ little; the second is near the best where their spread is four times what
/// is to be told apart, as on a crowded machine (simulated below).
const PORTIONS: [Portion; 2] = [Portion { weight: 0.84, of_stake: 1.0 }, Portion { weight: 0.16, of_stake: 0.4 }];
/// A value is far from the middle if it is this many spreads away.
const FAR: f64 = 3.0;
/// Of so many values, that many more are taken to be near.
const SURELY_NEAR: f64 = 2.0;
/// The spread that values have until some are there, and how many values that is worth.
const USUAL_SPREAD: (f64, f64) = (0.03, 2.0);
/// Values whose spread is less are too few to tell it.
const LEAST_SPREAD: f64 = 0.002;
/// So many values tell something of their spread.
const TELLING: usize = 3;
/// What makes a normal distribution's median deviation its standard deviation, and the deviation that three tenths of it do
/// not exceed.
const OF_MEDIAN: f64 = 1.4826;
const OF_THREE_TENTHS: f64 = 2.5954;
/// From so many values on three tenths of them tell the spread.
const THREE_TENTHS_TELL: usize = 8;
/// How steeply values bet, in spreads: the first ones at most, and the last ones at least, because a slighter bet against a
/// place nearby still loses all of its stake to a stall.
const STEEPEST: f64 = 1.2;
const SLIGHTEST: f64 = 0.7;
/// Halvings of a bracket: finer than any value is known.
const HALVINGS: usize = 40;

/// A part of the capital.
struct Portion {
    /// Its share of the whole, at first.
    weight: f64,
    /// How much of each stake it bets.
    of_stake: f64,
}

/// A value, how steeply it bets, and what share of the capital.
#[derive(Clone, Copy, Debug)]
struct Bet {
    value: f64,
    pace: f64,
    stake: f64,
}

/// Values that come one by one, such as logarithms of rounds' ratios, and the bounds of their middle.
#[derive(Clone, Debug, Default)]
pub struct Sequence {
    bets: Vec<Bet>,
    bounds: Bounds,
}

impl Sequence {
    /// Fewer values do not decide.
    pub const FEWEST: usize = 6;

    /// Of these values, in the order in which they came.
    pub fn new(values: &[f64]) -> Self {
        let mut all = Self::default();
        values.iter().for_each(|value| all.push(*value));
        all
    }

    /// Between which values the middle lies that most of several starts have, each of which is heard by itself.
    pub fn bounds_of_most(starts: &[Vec<f64>]) -> Bounds {
        let bounds = Bounds::of_most(&starts.iter().map(|values| Self::new(values).bounds()).collect::<Vec<_>>());
        match bounds {
            // Values that change for good may rule out every place.
            Bounds { low: Some(low), high: Some(high) } if low > high => Bounds { low: Some(high), high: Some(low) },
            bounds => bounds,
        }
    }

    /// The middle that these bounds are of: the median of each start's, and of several starts that of theirs. Bounds hold at
    /// every look, so of values that drift it may leave them: then it is their nearer end. There must be a value.
    pub fn middle_of_most(starts: &[Vec<f64>], bounds: Bounds) -> f64 {
        let middles = starts.iter().filter(|values| !values.is_empty()).map(|values| median(values.clone()));
        let middle = median(middles.collect());
        let at_least = bounds.low.map_or(middle, |low| middle.max(low));
        bounds.high.map_or(at_least, |high| at_least.min(high))
    }

    /// Adds the next value.
    pub fn push(&mut self, value: f64) {
        // What has been seen before decides how a value bets, never the value itself.
        let (pace, stake) = (self.pace(), self.stake());
        self.bets.push(Bet { value, pace, stake });
        let middles = self.bets.iter().map(|bet| bet.value);
        let (least, most) = middles.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)));
        if self.may_move(1.0, self.bounds.low)
            && let Some(low) = self.farthest(1.0, least, most)
        {
            self.bounds.low = Some(self.bounds.low.map_or(low, |before| before.max(low)));
        }
        if self.may_move(-1.0, self.bounds.high)
            && let Some(high) = self.farthest(-1.0, most, least)
        {
            self.bounds.high = Some(self.bounds.high.map_or(high, |before| before.min(high)));
        }
    }

    /// Whether a bound is further now than it was: only then is it looked for.
    fn may_move(&self, side: f64, bound: Option<f64>) -> bool {
        bound.is_none_or(|bound| self.has_lost(side, bound))
    }

    /// Whether a location has lost to values on its upper side or its lower one.
    fn has_lost(&self, side: f64, location: f64) -> bool {
        self.capitals(side, location).last().is_some_and(|capital| capital >= 2.0 / (1.0 - CONFIDENCE))
    }

    /// What all that was bet against `location`, on its upper side or its lower one, has become of 1 after each value.
    fn capitals(&self, side: f64, location: f64) -> impl Iterator<Item = f64> {
        let mut parts = PORTIONS.map(|portion| portion.weight);
        self.bets.iter().map(move |bet| {
            let win = bet.stake * (side * bet.pace * (bet.value - location)).tanh();
            for (part, portion) in parts.iter_mut().zip(&PORTIONS) {
                *part *= 1.0 + portion.of_stake * win;
            }
            parts.iter().sum()
        })
    }

    /// Between which values their middle lies; a side is missing while too little is known.
    pub fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// Both of them.
    pub fn interval(&self) -> Option<Interval> {
        let (low, high) = self.bounds.low.zip(self.bounds.high)?;
        // Values that change for good may rule out every place.
        Some(Interval { low: low.min(high), high: high.max(low) })
    }

    /// How probable at most a run of values that speaks as clearly against the middle being at `location`, on either side.
    pub fn p(&self, location: f64) -> f64 {
        let most = [1.0, -1.0].into_iter().flat_map(|side| self.capitals(side, location)).fold(1.0, f64::max);
        (2.0 / most).min(1.0)
    }

    /// The place that is farthest from `from`, on the way to `to`, and has lost to values on its other side.
    fn farthest(&self, side: f64, from: f64, to: f64) -> Option<f64> {
        let room = 1.0 + (to - from).abs();
        let (mut lost, mut open) = (from - side * room, to);
        if !self.has_lost(side, lost) {
            return None;
        }
        for _ in 0..HALVINGS {
            let middle = lost.midpoint(open);
            if self.has_lost(side, middle) { lost = middle } else { open = middle }
        }
        Some(lost)
    }

    /// How steeply the next value bets: less the more there are, because then little differences decide.
    fn pace(&self) -> f64 {
        let next = self.bets.len() as f64 + 1.0;
        let shrinking = (2.0 * (2.0 / (1.0 - CONFIDENCE)).ln() / (next * next.ln_1p())).sqrt();
        shrinking.clamp(SLIGHTEST, STEEPEST) / self.spread().max(LEAST_SPREAD)
    }

    /// What the next value bets: the less, the more of those before were far from the middle. Few values do not tell which are.
    fn stake(&self) -> f64 {
        if self.bets.len() < Self::FEWEST {
            return STAKE;
        }
        let (middle, far) = (self.middle(), FAR * self.spread());
        let count = self.bets.iter().filter(|bet| (bet.value - middle).abs() > far).count() as f64;
        STAKE * (1.0 - count / (self.bets.len() as f64 + SURELY_NEAR))
    }

    /// That of the values near the middle.
    fn spread(&self) -> f64 {
        let (usual, worth) = USUAL_SPREAD;
        if self.bets.len() < TELLING {
            return usual;
        }
        let (n, middle) = (self.bets.len() as f64, self.middle());
        let mut away: Vec<f64> = self.bets.iter().map(|bet| (bet.value - middle).abs()).collect();
        away.sort_by(f64::total_cmp);
        let three_tenths = OF_THREE_TENTHS * away[(0.3 * n).ceil() as usize - 1];
        let all = OF_MEDIAN * median(away);
        let observed = if self.bets.len() < THREE_TENTHS_TELL { all } else { all.min(three_tenths) };
        (observed * n + usual * worth) / (n + worth)
    }

    fn middle(&self) -> f64 {
        if self.bets.is_empty() { 0.0 } else { median(self.bets.iter().map(|bet| bet.value).collect()) }
    }
}

/// How alike neighbours among values are that come one by one: their correlation, 0 if each comes by itself. Values far from the
/// middle count as what is three spreads from it, so that a stall does not hide what the others say.
pub fn likeness_of_neighbours(values: &[f64]) -> f64 {
    let Some(middle) = (!values.is_empty()).then(|| median(values.to_vec())) else { return 0.0 };
    let far = FAR * OF_MEDIAN * median(values.iter().map(|value| (value - middle).abs()).collect());
    let away: Vec<f64> = values.iter().map(|value| (value - middle).clamp(-far, far)).collect();
    let squares: f64 = away.iter().map(|value| value * value).sum();
    let products: f64 = away.iter().zip(&away[1..]).map(|(value, next)| value * next).sum();
    if squares > 0.0 { products / squares } else { 0.0 }
}

/// The middle value, or the mean of the two in the middle. There must be one.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    if values.len() % 2 == 1 { values[half] } else { values[half - 1].midpoint(values[half]) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::{hash, unit};

    #[test]
    fn six_that_agree_are_the_fewest_that_decide() {
        assert_eq!(Sequence::new(&[0.1; 5]).bounds(), Bounds::default());
        let six = Sequence::new(&[0.1; 6]);
        let interval = six.interval().unwrap();
        assert!(interval.low < 0.1 && interval.low > 0.0 && interval.high > 0.1 && interval.high < 0.2, "{interval:?}");
        assert!(six.p(0.0) < 0.05 && six.p(0.1) > 0.5 && Sequence::default().p(0.0) == 1.0);
    }

    #[test]
    fn the_middle_is_within_the_bounds_whatever_the_values_do() {
        let of = |starts: &[Vec<f64>]| {
            let bounds = Sequence::bounds_of_most(starts);
            (Sequence::middle_of_most(starts, bounds), bounds)
        };
        let stalled: Vec<f64> =
            (0..20).map(|number| if number % 5 == 0 { 3.0 } else { 0.001 * f64::from(number) }).collect();
        let (middle, bounds) = of(&[stalled]);
        assert!(
            middle < 0.02 && bounds.low.unwrap() <= middle && middle <= bounds.high.unwrap(),
            "{middle} {bounds:?}"
        );
        // A machine that gets slower for good.
        let moved: Vec<f64> = (0..60).map(|number| if number < 20 { 0.0 } else { 0.5 }).collect();
        let (middle, bounds) = of(&[moved]);
        let (low, high) = (bounds.low.unwrap(), bounds.high.unwrap());
        assert!(low <= high && (low..=high).contains(&middle), "{middle} {bounds:?}");
        assert_eq!(of(&[vec![1.0, 2.0, 9.0], vec![], vec![4.0]]).0, 3.0, "each start counts once");
    }

    #[test]
    fn bounds_never_grow_and_one_stall_undoes_nothing() {
        let mut all = Sequence::new(&[0.0, 0.01, -0.01, 0.005, 0.0, -0.005, 0.01, 0.0]);
        let before = all.interval().unwrap();
        all.push(3.0);
        let after = all.interval().unwrap();
        assert!(after.low >= before.low && after.high <= before.high);
        (0..20).for_each(|number| all.push(if number % 2 == 0 { 0.01 } else { -0.01 }));
        let later = all.interval().unwrap();
        assert!(later.high < 0.03 && later.low > -0.03, "{later:?}");
    }

    /// Where simulated values lie, as logarithms of ratios: what is above ln 1.05 is found, and what is below holds.
    struct World {
        middle: f64,
        noise: f64,
        /// Shares of values that a stall moves, to either side.
        stalls: f64,
        /// Every other value is that much above the others, as where order matters.
        order: f64,
    }

    const QUIET: World = World { middle: 0.0, noise: 0.01, stalls: 0.0, order: 0.0 };

    /// How many runs are simulated, of how many values at most.
    #[derive(Clone, Copy)]
    struct Length {
        runs: u64,
        rounds: usize,
    }

    /// How often bounds of values in that world are below `bound`, above it, or neither; and the median of how many that took.
    fn counts(world: &World, bound: f64, length: Length) -> ([usize; 3], usize) {
        let (mut counts, mut lengths) = ([0; 3], Vec::new());
        for seed in 0..length.runs {
            let mut number = 0;
            let mut draw = || {
                number += 1;
                unit(hash(seed, number))
            };
            let mut all = Sequence::default();
            let mut outcome = 2;
            for round in 0..length.rounds {
                let normal = (-2.0 * (1.0 - draw()).ln()).sqrt() * (std::f64::consts::TAU * draw()).cos();
                let (stall, up) = (draw() < world.stalls, draw() < 0.5);
                let order = if round % 2 == 0 { world.order } else { -world.order } / 2.0;
                let moved = if stall { 0.5 * if up { 1.0 } else { -1.0 } } else { 0.0 };
                all.push(world.middle + world.noise * normal + order + moved);
                let Bounds { low, high } = all.bounds();
                outcome = match (low, high) {
                    (_, Some(high)) if high < bound => 0,
                    (Some(low), _) if low > bound => 1,
                    _ => continue,
                };
                break;
            }
            counts[outcome] += 1;
            lengths.push(all.bets.len());
        }
        lengths.sort_unstable();
        (counts, lengths[lengths.len() / 2])
    }

    #[test]
    fn what_is_alike_holds_what_is_slower_is_found_and_at_the_bound_few_are_wrong() {
        let bound = 1.05_f64.ln();
        let worlds = [
            (World { noise: 0.005, ..QUIET }, 7),
            (World { noise: 0.03, ..QUIET }, 9),
            (World { stalls: 0.1, noise: 0.02, ..QUIET }, 9),
            (World { order: 0.04, noise: 0.02, ..QUIET }, 11),
        ];
        let many = Length { runs: 1_000, rounds: 45 };
        for (number, (world, most)) in worlds.into_iter().enumerate() {
            let ([held, failed, _], length) = counts(&world, bound, many);
            assert!(held >= 970 && failed <= 5 && length <= most, "{number}, alike: {held}, {failed} after {length}");
            let ([held, found, _], length) = counts(&World { middle: 1.1_f64.ln(), ..world }, bound, many);
            assert!(found >= 970 && held <= 5 && length <= most, "{number}, slower: {held}, {found} after {length}");
            let ([held, failed, _], _) = counts(&World { middle: bound, ..world }, bound, many);
            assert!(held <= 40 && failed <= 40, "{number}, at the bound: {held}, {failed}");
        }
    }

    #[test]
    fn six_of_which_some_are_farther_than_others_decide() {
        let low = Sequence::new(&[0.98, 0.981, 0.979, 1.1, 0.85, 1.2]).bounds().low;
        assert!(low.is_some_and(|low| low > 1.05_f64.ln()), "{low:?}");
    }

    /// A round may differ by four times what is to be told apart: it takes a hundred of them, and no longer.
    #[test]
    fn values_that_differ_by_much_more_than_the_bound_decide_too() {
        let bound = 1.05_f64.ln();
        let crowded = World { noise: 0.2, ..QUIET };
        let ([held, failed, open], length) = counts(&crowded, bound, Length { runs: 60, rounds: 400 });
        assert!(held >= 54 && failed <= 1 && length <= 200, "alike: {held}, {failed}, {open} after {length}");
        let slower = World { middle: 1.1_f64.ln(), ..crowded };
        let ([held, found, open], length) = counts(&slower, bound, Length { runs: 60, rounds: 400 });
        assert!(found >= 54 && held <= 1 && length <= 200, "slower: {held}, {found}, {open} after {length}");
        let ([held, failed, _], _) =
            counts(&World { middle: bound, ..crowded }, bound, Length { runs: 60, rounds: 400 });
        assert!(held <= 3 && failed <= 3, "at the bound: {held}, {failed}");
    }

    #[test]
    fn neighbours_are_told_from_values_that_come_by_themselves() {
        let alternating: Vec<f64> = (0..40).map(|number| if number % 2 == 0 { 0.1 } else { -0.1 }).collect();
        let in_fours: Vec<f64> = (0..40).map(|number| if number % 8 < 4 { 0.1 } else { -0.1 }).collect();
        assert!(likeness_of_neighbours(&alternating) < -0.9 && likeness_of_neighbours(&in_fours) > 0.4);
        let mut stalled = in_fours.clone();
        stalled[7] = 50.0;
        assert!(likeness_of_neighbours(&stalled) > 0.3);
        let alone: Vec<f64> = (0..400).map(|number| unit(hash(1, number))).collect();
        assert!(likeness_of_neighbours(&alone).abs() < 0.15);
        assert_eq!(
            [likeness_of_neighbours(&[]), likeness_of_neighbours(&[1.0]), likeness_of_neighbours(&[1.0; 9])],
            [0.0; 3]
        );
    }

    #[test]
    fn a_machine_that_moves_every_third_value_delays_the_answer_only() {
        let bound = 1.05_f64.ln();
        let shared = World { noise: 0.02, stalls: 0.3, ..QUIET };
        let some = Length { runs: 300, rounds: 45 };
        let ([held, failed, _], length) = counts(&shared, bound, some);
        assert!(held >= 240 && failed <= 6 && length <= 24, "alike: {held}, {failed} after {length}");
        let ([held, found, _], length) = counts(&World { middle: 1.1_f64.ln(), ..shared }, bound, some);
        assert!(found >= 240 && held <= 6 && length <= 24, "slower: {held}, {found} after {length}");
        let ([held, failed, _], _) = counts(&World { middle: bound, ..shared }, bound, some);
        assert!(held <= 15 && failed <= 15, "at the bound: {held}, {failed}");
    }

    #[test]
    fn sides_are_alike() {
        let values = [0.02, -0.01, 0.03, 0.04, 0.01, 0.02, 0.05, 0.0];
        let (plain, mirrored) = (Sequence::new(&values), Sequence::new(&values.map(|value| -value)));
        let (plain, mirrored) = (plain.interval().unwrap(), mirrored.interval().unwrap());
        assert!((plain.low + mirrored.high).abs() < 1e-9 && (plain.high + mirrored.low).abs() < 1e-9);
    }
}
