//! `--sweep linear|geometric[:N]`: finds the rate that the server sustains, then measures rates up to and just past it.
//!
//! A state machine of values: [`Sweep::next`] says what to run, [`Sweep::observe`] takes the result. Three phases:
//!
//! 1. *Burst*: many requests at once, as fast as they complete. Their completion rate is a first guess.
//! 2. *Confirm*: an open loop at the guess. While the server sustains it, the rate is raised; while it does not, lowered;
//!    once one of each is known, the gap is halved until it is within [`RESOLUTION`]. A rate a little above must then not be
//!    sustained either: if it is, a pause of the machine was taken for saturation, and the search is resumed from there. The
//!    highest rate that was sustained is the saturation rate.
//! 3. *Measure*: N rates up to the saturation rate, and one just past it. Where a rate was not sustained although a higher one
//!    was, both are measured once more: one of them was disturbed. If the saturation rate is not sustained for as long as a level
//!    takes, lower ones follow until one is.
//!
//! The answer is conservative: the highest rate that was sustained below the lowest that was not.

use crate::result::sweep::{RESOLUTION, StepTaken, SweepObservation, SweepResult, SweepStep};
use crate::terms::Spacing;

/// Factor by which a rate is raised or lowered while only one side is known.
const STRETCH: f64 = 1.25;
/// The last measured rate, as a multiple of the saturation rate.
const JUST_PAST: f64 = 1.1;
/// Smallest measured rate, as a share of the saturation rate, in a geometric sweep.
const GEOMETRIC_FLOOR: f64 = 1.0 / 16.0;
/// Most runs of the confirming phase, from its beginning or since it was resumed.
const MAX_CONFIRMATIONS: usize = 16;
/// The rate that must not be sustained if the search is right, as a multiple of the saturation rate.
const COUNTER_CHECK: f64 = 1.05;
/// How often the search is resumed at most.
const MAX_RESUMPTIONS: usize = 3;
/// How many rates are measured below a saturation rate that was not sustained.
const MAX_LOWER: usize = 3;

/// What a sweep measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SweepPlan {
    /// Spread of the rates.
    pub spacing: Spacing,
    /// Rates up to the saturation rate, at least 2.
    pub rates: usize,
}

/// The steps that an earlier run of a sweep has taken. They answer as long as the same steps are asked for in the same order; what
/// comes after another one follows from something else.
#[derive(Clone, Debug)]
pub struct Replay<'a>(&'a [StepTaken]);

impl<'a> Replay<'a> {
    /// From the first of these.
    pub fn new(steps: &'a [StepTaken]) -> Self {
        Self(steps)
    }

    /// The earlier result of `step`; none if it must be run now.
    pub fn answer(&mut self, step: SweepStep) -> Option<SweepObservation> {
        let found = self.0.split_first().filter(|(taken, _)| taken.step == step);
        self.0 = found.map_or(&[], |(_, remaining)| remaining);
        found.map(|(taken, _)| taken.observed)
    }
}

/// A sweep under way.
#[derive(Clone, Debug)]
pub struct Sweep {
    plan: SweepPlan,
    phase: Phase,
    points: Vec<SweepPoint>,
    resumptions: usize,
}

#[derive(Clone, Debug)]
enum Phase {
    Burst,
    Confirm(Bracket),
    /// Between the highest rate that was sustained and the lowest that was not.
    CounterCheck {
        saturation: f64,
        unsustained: f64,
    },
    Measure(Measuring),
    Failed,
}

/// The rates that are measured.
#[derive(Clone, Debug)]
struct Measuring {
    /// What the search found.
    sustained: f64,
    unsustained: Option<f64>,
    rates: Vec<f64>,
    /// How many of them the plan asks for.
    asked: usize,
    /// Points that are measured once more, the next one last; absent until every rate was measured.
    again: Option<Vec<usize>>,
}

/// One measured rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SweepPoint {
    /// Intended sends a second.
    pub rate: f64,
    /// Its result.
    pub observed: SweepObservation,
}

impl SweepPoint {
    /// What was completed, not what was asked for: random gaps may have brought fewer requests.
    fn completed(&self) -> f64 {
        self.rate.min(self.observed.completed_rate)
    }
}

/// What is known of the saturation rate while it is searched.
#[derive(Clone, Copy, Debug)]
struct Bracket {
    sustained: f64,
    unsustained: f64,
    rate: f64,
    runs: usize,
}

impl Sweep {
    /// A sweep that has not begun.
    pub fn new(plan: SweepPlan) -> Self {
        Self { plan, phase: Phase::Burst, points: Vec::new(), resumptions: 0 }
    }

    /// What to run now; `None` when the sweep is over.
    pub fn next(&self) -> Option<SweepStep> {
        match &self.phase {
            Phase::Burst => Some(SweepStep::Burst),
            Phase::Confirm(bracket) => Some(SweepStep::Confirm(bracket.rate)),
            Phase::CounterCheck { saturation, .. } => Some(SweepStep::Confirm(saturation * COUNTER_CHECK)),
            Phase::Measure(measuring) => match measuring.again.as_ref().and_then(|again| again.last()) {
                Some(&index) => Some(SweepStep::Again(index, self.points[index].rate)),
                None => measuring.rates.get(self.points.len()).copied().map(SweepStep::Measure),
            },
            Phase::Failed => None,
        }
    }

    /// Takes the result of the step of [`Sweep::next`].
    pub fn observe(&mut self, observed: SweepObservation) {
        match &mut self.phase {
            Phase::Burst if observed.completed_rate > 0.0 => {
                self.phase = Phase::Confirm(Bracket::above(0.0, observed.completed_rate));
            }
            Phase::Burst => self.phase = Phase::Failed,
            Phase::Confirm(bracket) => {
                if let Some(saturation) = bracket.observe(observed) {
                    self.phase = match saturation {
                        0.0 => Phase::Failed,
                        _ if bracket.unsustained.is_infinite() => self.measure(saturation, None),
                        _ => Phase::CounterCheck { saturation, unsustained: bracket.unsustained },
                    };
                }
            }
            Phase::CounterCheck { saturation, unsustained } => {
                let (saturation, unsustained, above) = (*saturation, *unsustained, *saturation * COUNTER_CHECK);
                self.phase = match observed.sustained {
                    true if self.resumptions < MAX_RESUMPTIONS => {
                        self.resumptions += 1;
                        Phase::Confirm(Bracket::above(above, above * STRETCH))
                    }
                    true => self.measure(above, None),
                    // The check lies above what the search has found, unless that ran out of steps.
                    false => self.measure(saturation, Some(unsustained.min(above))),
                };
            }
            Phase::Measure(measuring) => measuring.observe(&mut self.points, observed),
            Phase::Failed => {}
        }
    }

    fn measure(&self, sustained: f64, unsustained: Option<f64>) -> Phase {
        let rates = rates(self.plan, sustained);
        Phase::Measure(Measuring { sustained, unsustained, asked: rates.len(), rates, again: None })
    }

    /// The highest rate that the search has sustained, once it has ended.
    pub fn searched(&self) -> Option<f64> {
        if let Phase::Measure(measuring) = &self.phase { Some(measuring.sustained) } else { None }
    }

    /// What was found so far; `None` if the server sustained no rate, or the search has not ended.
    pub fn result(&self) -> Option<SweepResult> {
        match &self.phase {
            Phase::Measure(measuring) => measuring.result(&self.points),
            _ => None,
        }
    }
}

impl Measuring {
    fn observe(&mut self, points: &mut Vec<SweepPoint>, observed: SweepObservation) {
        if let Some(index) = self.again.as_mut().and_then(Vec::pop) {
            points[index].observed = observed;
        } else if let Some(&rate) = self.rates.get(points.len()) {
            points.push(SweepPoint { rate, observed });
        }
        if points.len() == self.rates.len() {
            let again = self.again.take().unwrap_or_else(|| self.contradictions(points));
            let further = if again.is_empty() { self.lower(points) } else { None };
            self.rates.extend(further);
            self.again = Some(again);
        }
    }

    /// The next lower rate, where what the search found was not sustained for as long as a level takes, and nothing close to it was.
    fn lower(&self, points: &[SweepPoint]) -> Option<f64> {
        let lowest = points.iter().filter(|point| !point.observed.sustained).map(SweepPoint::completed);
        let lowest = lowest.fold(f64::INFINITY, f64::min);
        let is_close = |point: &SweepPoint| self.proves(point) && point.rate > lowest * (1.0 - 2.0 * RESOLUTION);
        let is_known = lowest > self.sustained || points.iter().any(is_close);
        let tried = self.rates.len() - self.asked;
        // What fails far below says nothing of the edge.
        let is_edge = lowest > self.sustained * (1.0 - RESOLUTION * (MAX_LOWER + 1) as f64);
        (!is_known && is_edge && tried < MAX_LOWER).then_some(lowest * (1.0 - RESOLUTION))
    }

    /// The points that were not sustained although a higher rate was, and the lowest of those that were above them.
    fn contradictions(&self, points: &[SweepPoint]) -> Vec<usize> {
        let numbered = || points.iter().enumerate();
        let highest = numbered().filter(|(_, point)| self.proves(point)).map(|(_, point)| point.rate);
        let highest = highest.fold(self.sustained, f64::max);
        let failed = |point: &SweepPoint| !point.observed.sustained && point.rate <= highest;
        let lowest = points.iter().filter(|point| failed(point)).map(|point| point.rate);
        let lowest = lowest.chain(self.unsustained).fold(f64::INFINITY, f64::min);
        let odd = |point: &SweepPoint| failed(point) || (self.proves(point) && point.rate >= lowest);
        numbered().filter(|(_, point)| odd(point)).map(|(index, _)| index).collect()
    }

    /// Whether the point shows that its rate is sustained.
    fn proves(&self, point: &SweepPoint) -> bool {
        point.observed.sustained && (point.observed.settled || point.rate <= self.sustained)
    }

    fn result(&self, points: &[SweepPoint]) -> Option<SweepResult> {
        // A rate that was searched counts unless it was measured too, which is longer.
        let measured = |rate: f64| points.iter().any(|point| (point.rate / rate - 1.0).abs() < RESOLUTION / 2.0);
        let of_points = points.iter().filter(|point| !point.observed.sustained).map(|point| point.rate);
        let searched = self
            .unsustained
            .filter(|&rate| !measured(rate) && !points.iter().any(|point| self.proves(point) && point.rate >= rate));
        let lowest = of_points.chain(searched).fold(f64::INFINITY, f64::min);
        let proven = points.iter().filter(|point| self.proves(point) && point.rate < lowest);
        let sustained = proven.map(SweepPoint::completed).fold(0.0, f64::max);
        let searched = (self.sustained < lowest).then_some(self.sustained);
        // A rate at the edge that a longer run did not sustain, and nothing close to it: what the server completed of it is what it
        // can do.
        let at_edge =
            |point: &&SweepPoint| !point.observed.sustained && (point.rate / self.sustained - 1.0).abs() < RESOLUTION;
        let is_far = |rate: &f64| *rate < lowest && sustained < *rate * (1.0 - 2.0 * RESOLUTION);
        let edge = points.iter().filter(at_edge).map(SweepPoint::completed).filter(is_far);
        let saturation = edge.chain(searched).fold(sustained, f64::max);
        (saturation > 0.0).then(|| SweepResult {
            saturation,
            unsustained: lowest.is_finite().then_some(lowest),
            // A rate that was sustained above one that was not was luck.
            knee: knee(&points.iter().copied().filter(|point| point.rate < lowest).collect::<Vec<_>>()),
        })
    }
}

impl Bracket {
    /// A search that begins at `rate`, where `sustained` is known to be sustained.
    fn above(sustained: f64, rate: f64) -> Self {
        Self { sustained, unsustained: f64::INFINITY, rate, runs: 0 }
    }

    /// Takes a confirming run. `Some` is the saturation rate, 0 where no rate was sustained.
    fn observe(&mut self, observed: SweepObservation) -> Option<f64> {
        self.runs += 1;
        if observed.sustained {
            self.sustained = self.sustained.max(self.rate);
        } else {
            self.unsustained = self.unsustained.min(self.rate);
        }
        let close = self.unsustained.is_finite() && self.unsustained - self.sustained <= RESOLUTION * self.unsustained;
        if close || self.runs >= MAX_CONFIRMATIONS {
            return Some(self.sustained);
        }
        self.rate = match (self.sustained > 0.0, self.unsustained.is_finite()) {
            (true, true) => (self.sustained + self.unsustained) / 2.0,
            (_, false) => self.rate * STRETCH,
            (false, true) => self.rate / STRETCH,
        };
        None
    }
}

/// The measured rates: as many as planned up to the saturation rate, and one just past it.
fn rates(plan: SweepPlan, saturation: f64) -> Vec<f64> {
    let last = (plan.rates - 1) as f64;
    let share = |i: usize| match plan.spacing {
        Spacing::Linear => (i + 1) as f64 / plan.rates as f64,
        Spacing::Geometric => GEOMETRIC_FLOOR.powf(1.0 - i as f64 / last),
    };
    (0..plan.rates).map(share).chain([JUST_PAST]).map(|share| saturation * share).collect()
}

/// The knee of latency over rate among the sustained points: the rate at which the curve, both axes scaled to 0 to 1, lies
/// farthest below its chord (Satopää and others, "Finding a Kneedle in a Haystack", 2011). `None` with fewer than three
/// points, or where latency does not rise.
pub fn knee(points: &[SweepPoint]) -> Option<f64> {
    let mut sorted: Vec<SweepPoint> = points.iter().copied().filter(|point| point.observed.sustained).collect();
    sorted.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    let (first, last) = (sorted.first()?, sorted.last()?);
    let (span, rise) = (last.rate - first.rate, last.observed.latency_ns - first.observed.latency_ns);
    if sorted.len() < 3 || !(span > 0.0 && rise > 0.0) {
        return None;
    }
    let below = |point: &SweepPoint| {
        (point.rate - first.rate) / span - (point.observed.latency_ns - first.observed.latency_ns) / rise
    };
    let deepest = sorted.iter().max_by(|a, b| below(a).total_cmp(&below(b)))?;
    (below(deepest) > 0.0).then_some(deepest.rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINEAR: SweepPlan = SweepPlan { spacing: Spacing::Linear, rates: 4 };

    /// A server that sustains rates below `capacity`, with the latency of an M/M/1 queue.
    fn server(capacity: f64) -> impl Fn(SweepStep) -> SweepObservation {
        move |step| match step {
            SweepStep::Burst => {
                SweepObservation { completed_rate: capacity * 1.3, sustained: false, settled: true, latency_ns: 1e9 }
            }
            SweepStep::Confirm(rate) | SweepStep::Measure(rate) | SweepStep::Again(_, rate) => SweepObservation {
                completed_rate: rate.min(capacity),
                sustained: rate <= capacity,
                settled: true,
                latency_ns: 1e9 / (capacity - rate).max(capacity / 100.0),
            },
        }
    }

    fn run(plan: SweepPlan, server: impl Fn(SweepStep) -> SweepObservation) -> Sweep {
        let mut sweep = Sweep::new(plan);
        for _ in 0..100 {
            let Some(step) = sweep.next() else { return sweep };
            sweep.observe(server(step));
        }
        panic!("the sweep does not end");
    }

    #[test]
    fn saturation_is_found_within_the_resolution() {
        for capacity in [0.5, 730.0, 48_000.0] {
            let sweep = run(LINEAR, server(capacity));
            let saturation = sweep.result().unwrap().saturation;
            assert!(
                saturation <= capacity && saturation >= capacity * (1.0 - 2.0 * RESOLUTION),
                "{saturation} of {capacity}"
            );
            assert_eq!(sweep.points.len(), 5);
            assert!((sweep.points[4].rate / saturation - 1.1).abs() < 1e-9);
            let unsustained = sweep.result().unwrap().unsustained.unwrap();
            assert!(unsustained > capacity && unsustained / saturation <= 1.11, "{unsustained} of {capacity}");
        }
    }

    #[test]
    fn a_burst_that_is_far_off_is_corrected_either_way() {
        for burst in [0.2, 3.0] {
            let behind = server(1000.0);
            let sweep = run(LINEAR, |step| match step {
                SweepStep::Burst => SweepObservation { completed_rate: 1000.0 * burst, ..behind(step) },
                step => behind(step),
            });
            assert!((sweep.result().unwrap().saturation / 1000.0 - 1.0).abs() < 0.05);
        }
    }

    #[test]
    fn a_search_that_was_disturbed_is_resumed() {
        // Some confirming runs meet a pause of the machine; everything after them is as it should be.
        for disturbed in [1, 3] {
            let (behind, runs) = (server(1000.0), std::cell::Cell::new(0));
            let sweep = run(LINEAR, |step| {
                runs.set(runs.get() + 1);
                match step {
                    SweepStep::Burst => SweepObservation { completed_rate: 1000.0, ..behind(step) },
                    SweepStep::Confirm(_) if runs.get() <= 1 + disturbed => {
                        SweepObservation { sustained: false, ..behind(step) }
                    }
                    step => behind(step),
                }
            });
            let saturation = sweep.result().unwrap().saturation;
            assert!((0.95..=1.0).contains(&(saturation / 1000.0)), "{saturation}");
            let (past, before) = sweep.points.split_last().unwrap();
            assert!(!past.observed.sustained && before.iter().all(|point| point.observed.sustained));
            assert_eq!(before.len(), 4);
        }
    }

    #[test]
    fn a_rate_that_was_measured_and_sustained_is_not_past_saturation() {
        let mut sweep = Sweep::new(LINEAR);
        let observation =
            |sustained| SweepObservation { completed_rate: 1000.0, sustained, settled: true, latency_ns: 1.0 };
        while sweep.next().is_some() {
            let measuring = sweep.result().is_some();
            let confirmed = matches!(sweep.next(), Some(SweepStep::Confirm(rate)) if rate < 900.0);
            sweep.observe(observation(measuring || confirmed));
        }
        assert_eq!(sweep.result().unwrap().saturation, sweep.points[4].rate);
    }

    #[test]
    fn the_lowest_rate_that_was_not_sustained_is_named() {
        for capacity in [200.0, 730.0, 48_000.0] {
            let lowest = std::cell::Cell::new(f64::INFINITY);
            let behind = server(capacity);
            let sweep = run(LINEAR, |step| {
                let observed = behind(step);
                if let SweepStep::Confirm(rate) = step
                    && !observed.sustained
                {
                    lowest.set(lowest.get().min(rate));
                }
                observed
            });
            let found = sweep.result().unwrap();
            assert_eq!(found.unsustained, Some(lowest.get()), "{found:?}");
        }
    }

    #[test]
    fn what_is_only_sustained_in_the_search_is_no_result() {
        let behind = server(1000.0);
        let sweep = run(LINEAR, |step| match step {
            SweepStep::Measure(_) | SweepStep::Again(..) => SweepObservation { sustained: false, ..behind(step) },
            step => behind(step),
        });
        assert_eq!((sweep.result(), sweep.next()), (None, None));
        assert!(sweep.searched().is_some_and(|rate| (950.0..=1000.0).contains(&rate)), "{:?}", sweep.searched());
        let lame = SweepObservation { completed_rate: 5.0, sustained: false, settled: true, latency_ns: 1.0 };
        assert_eq!(run(LINEAR, |_| lame).searched(), None);
    }

    /// Goes through a sweep of which `earlier` steps were taken before. All steps, and how many were taken now.
    fn resumed(earlier: &[StepTaken], server: impl Fn(SweepStep) -> SweepObservation) -> (Vec<StepTaken>, usize) {
        let (mut sweep, mut replay) = (Sweep::new(LINEAR), Replay::new(earlier));
        let (mut all, mut now) = (Vec::new(), 0);
        while let Some(step) = sweep.next() {
            let observed = replay.answer(step).unwrap_or_else(|| {
                now += 1;
                server(step)
            });
            sweep.observe(observed);
            all.push(StepTaken { step, observed });
        }
        (all, now)
    }

    #[test]
    fn a_sweep_goes_on_where_it_stood() {
        // One of its rates is disturbed, and is measured again.
        let disturbed = |step| match step {
            SweepStep::Measure(rate) if (rate / 350.0 - 1.0).abs() < 0.1 => {
                SweepObservation { sustained: false, ..server(730.0)(step) }
            }
            step => server(730.0)(step),
        };
        let (whole, taken) = resumed(&[], disturbed);
        assert!(taken == whole.len() && matches!(whole[taken - 1].step, SweepStep::Again(..)), "{whole:?}");
        for count in 0..=whole.len() {
            assert_eq!(resumed(&whole[..count], disturbed), (whole.clone(), whole.len() - count));
        }
    }

    #[test]
    fn what_follows_another_step_is_not_taken_for_an_answer() {
        let (mut steps, _) = resumed(&[], server(730.0));
        steps[2].step = SweepStep::Confirm(1.0);
        let (all, now) = resumed(&steps, server(500.0));
        assert_eq!((&all[..2], now), (&steps[..2], all.len() - 2));
    }

    #[test]
    fn steps_are_read_as_they_are_written() {
        let (steps, _) = resumed(&[], server(0.1 + 0.2));
        let text = serde_json::to_string(&steps).unwrap();
        assert_eq!(serde_json::from_str::<Vec<StepTaken>>(&text).unwrap(), steps);
        assert!(text.starts_with(r#"[{"step":"burst","observed":{"completed_rate":"#), "{text}");
    }

    #[test]
    fn a_server_without_a_limit_ends_the_sweep() {
        let sweep = run(LINEAR, |step| SweepObservation { sustained: true, ..server(1e300)(step) });
        assert_eq!((sweep.next(), sweep.points.len()), (None, 5));
    }

    #[test]
    fn no_knee_lies_above_a_rate_that_was_not_sustained() {
        let mut sweep = Sweep::new(SweepPlan { rates: 8, ..LINEAR });
        let smooth = server(1000.0);
        while let Some(step) = sweep.next() {
            let mut observed = smooth(step);
            // A pause of the machine at every try of one low rate.
            if let SweepStep::Measure(rate) | SweepStep::Again(_, rate) = step
                && (240.0..260.0).contains(&rate)
            {
                observed.sustained = false;
            }
            sweep.observe(observed);
        }
        let found = sweep.result().unwrap();
        assert!(found.unsustained.unwrap() < 260.0, "{found:?}");
        assert!(found.knee.is_none_or(|knee| knee < 260.0), "{found:?}");
    }

    #[test]
    fn what_was_not_completed_is_no_saturation() {
        let measured = |step| match step {
            // Random gaps brought fewer requests than the rate says, and nothing piled up.
            SweepStep::Measure(rate) | SweepStep::Again(_, rate) => {
                SweepObservation { completed_rate: rate * 0.8, sustained: true, settled: true, latency_ns: 1.0 }
            }
            search => server(1000.0)(search),
        };
        let sweep = run(LINEAR, measured);
        let saturation = sweep.result().unwrap().saturation;
        assert!((0.95..=1.0).contains(&(saturation / 1000.0)), "{saturation}");
    }

    #[test]
    fn points_that_contradict_the_order_are_measured_again() {
        // The second of four rates meets a pause of the machine; once more, it is as it should be.
        let behind = server(1000.0);
        let repeated = std::cell::RefCell::new(Vec::new());
        let sweep = run(LINEAR, |step| match step {
            SweepStep::Burst => SweepObservation { completed_rate: 1000.0, ..behind(step) },
            SweepStep::Measure(rate) if (400.0..600.0).contains(&rate) => {
                SweepObservation { sustained: false, ..behind(step) }
            }
            SweepStep::Again(index, _) => {
                repeated.borrow_mut().push(index);
                behind(step)
            }
            step => behind(step),
        });
        assert_eq!(*repeated.borrow(), [3, 2, 1], "what was above it, too");
        assert!((0.95..=1.0).contains(&(sweep.result().unwrap().saturation / 1000.0)));
    }

    #[test]
    fn the_answer_is_below_every_rate_that_was_not_sustained() {
        let behind = server(1000.0);
        let sweep = run(LINEAR, |step| match step {
            SweepStep::Burst => SweepObservation { completed_rate: 1000.0, ..behind(step) },
            SweepStep::Measure(rate) | SweepStep::Again(_, rate) if rate > 600.0 => {
                SweepObservation { sustained: false, ..behind(step) }
            }
            step => behind(step),
        });
        let found = sweep.result().unwrap();
        assert!((400.0..600.0).contains(&found.saturation), "{found:?}");
        assert!((700.0..800.0).contains(&found.unsustained.unwrap()), "{found:?}");
        assert_eq!(sweep.points.len(), 5, "what fails far below the edge is not looked for");
    }

    #[test]
    fn an_edge_that_is_not_sustained_for_long_is_looked_for_lower() {
        let found = |capacity: f64| {
            let behind = server(1000.0);
            let sweep = run(SweepPlan { rates: 2, ..LINEAR }, |step| match step {
                SweepStep::Burst => SweepObservation { completed_rate: 1000.0, ..behind(step) },
                SweepStep::Measure(rate) | SweepStep::Again(_, rate) if rate > capacity => {
                    SweepObservation { sustained: false, completed_rate: 960.0, ..behind(step) }
                }
                step => behind(step),
            });
            (sweep.result().unwrap(), sweep.points.len())
        };
        let (once, points) = found(950.0);
        assert!((920.0..=950.0).contains(&once.saturation) && points == 4, "{once:?} of {points}");
        assert!((950.0..=1000.0).contains(&once.unsustained.unwrap()), "{once:?}");
        let (twice, points) = found(930.0);
        assert!((900.0..=930.0).contains(&twice.saturation) && points == 5, "{twice:?} of {points}");
        // Far below it is not looked for.
        let (far, points) = found(700.0);
        assert!(points == 6 && far.saturation < 700.0, "{far:?} of {points}");
    }

    #[test]
    fn windows_that_disagree_prove_no_higher_rate() {
        let behind = server(1000.0);
        let sweep = run(LINEAR, |step| match step {
            SweepStep::Burst => SweepObservation { completed_rate: 1000.0, ..behind(step) },
            SweepStep::Measure(rate) | SweepStep::Again(_, rate) => {
                SweepObservation { completed_rate: rate, sustained: true, settled: false, latency_ns: 1.0 }
            }
            step => behind(step),
        });
        let found = sweep.result().unwrap();
        assert!(found.saturation <= 1000.0 && found.unsustained.is_some(), "{found:?}");
    }

    #[test]
    fn rates_are_spread_as_asked() {
        assert_eq!(rates(LINEAR, 100.0), [25.0, 50.0, 75.0, 100.0, 100.0 * JUST_PAST]);
        let geometric = rates(SweepPlan { spacing: Spacing::Geometric, rates: 5 }, 160.0);
        for (rate, expected) in geometric.iter().zip([10.0, 20.0, 40.0, 80.0, 160.0, 176.0]) {
            assert!((rate - expected).abs() < 1e-9);
        }
    }

    #[test]
    fn a_server_that_sustains_nothing_ends_the_sweep() {
        let dead = SweepObservation { completed_rate: 0.0, sustained: false, settled: true, latency_ns: 0.0 };
        assert_eq!(run(LINEAR, |_| dead).result(), None);
        let lame = run(LINEAR, |_| SweepObservation { completed_rate: 5.0, ..dead });
        assert_eq!((lame.result(), lame.next()), (None, None));
    }

    #[test]
    fn the_knee_of_a_hockey_stick_is_its_bend() {
        let points = |latencies: &[f64]| {
            let point = |(i, &latency_ns): (usize, &f64)| SweepPoint {
                rate: i as f64,
                observed: SweepObservation { completed_rate: 0.0, sustained: true, settled: true, latency_ns },
            };
            latencies.iter().enumerate().map(point).collect::<Vec<_>>()
        };
        assert_eq!(knee(&points(&[1.0, 1.0, 1.0, 1.1, 5.0, 9.0])), Some(3.0));
        assert_eq!(knee(&points(&[1.0, 1.0])), None);
        assert_eq!(knee(&points(&[1.0, 1.0, 1.0])), None);
        assert_eq!(knee(&points(&[1.0, 2.0, 3.0])), None);
        assert_eq!(knee(&[]), None);
        let mut past = points(&[1.0, 1.0, 1.0, 1.1, 5.0, 9.0, 900.0]);
        past[6].observed.sustained = false;
        assert_eq!(knee(&past), Some(3.0));
    }
}
