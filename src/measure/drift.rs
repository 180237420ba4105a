//! Whether a figure of a level drifts: a cache that fills, a queue that grows, a machine that gets hot. Then all windows
//! together are no picture of any time, however narrow the interval is.

use std::ops::Range;
use std::time::Duration;

use crate::blocks::{Block, Blocks};
use crate::terms::Statistic;

/// The level is compared in this many stretches.
const STRETCHES: usize = 12;
/// Fewer have no order that chance would not bring about.
const FEWEST: usize = 6;
/// Of a single stretch before a step nobody knows how much it varies: both sides are as many times as far apart as the other is wide.
const ALONE: f64 = 2.0;
/// What rose from nothing is said to have risen so many times: files have no infinite numbers.
const MOST_RISE: f64 = 1000.0;
/// What changes this much less in the last windows than over the whole level has come to rest, or nearly.
const STILL: f64 = 1.0 / 3.0;
/// The order of stretches without drift is this many standard deviations from none in one case of a thousand. It is looked
/// at after every window, and what others take of the machine makes neighbouring stretches alike.
const BY_CHANCE: f64 = 3.291;

/// By how much a figure rose from the first third of a level to the last, as a share of it (below 0 where it fell), if that
/// is more than `allowed` and the order of all its stretches says that it is no chance (Mann, 1945).
pub(super) fn drift(statistic: Statistic, blocks: &Blocks, allowed: f64) -> Option<f64> {
    let figures = figures(statistic, blocks);
    if figures.len() < FEWEST || !is_ordered(&figures) {
        return None;
    }
    let Ends { first, last } = Ends::of(&figures);
    let apart = last / first.max(last / MOST_RISE) - 1.0;
    (apart > allowed || apart < -allowed / (1.0 + allowed)).then_some(apart)
}

/// The same of a whole level whose last windows alone show too little of it, if the figure goes on to change in these: what changes
/// evenly without end changes by an ever smaller share of itself.
pub(super) fn goes_on(statistic: Statistic, level: &Blocks, last: &Blocks, allowed: f64) -> Option<f64> {
    let slope = |blocks: &Blocks| {
        let (figures, seconds) = (figures(statistic, blocks), blocks.each().iter().map(|block| block.seconds));
        let Ends { first, last } = Ends::of(&figures);
        (last - first) / seconds.sum::<f64>()
    };
    // So few windows differ by chance more than the figure changes in them.
    let are_few = 3.0 * last.seconds() < level.seconds();
    let share = || if are_few { in_last_third(&figures(statistic, level)) } else { slope(last) / slope(level) };
    drift(statistic, level, allowed).filter(|_| share() > STILL)
}

/// How fast figures change in their last third, as a share of how fast they do on average: its halves are a quarter as far apart
/// as the first third and the last.
fn in_last_third(figures: &[f64]) -> f64 {
    let Ends { first, last } = Ends::of(figures);
    let third = &figures[figures.len() - figures.len() / 3..];
    let (before, after) = third.split_at(third.len() / 2);
    4.0 * (mean(after) - mean(before)) / (last - first)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The one change of a figure that is steady before and after it: a server that has warmed up, if it got better.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Step {
    /// How long after the beginning of the level's first block it was over.
    pub(super) over: Duration,
    /// The same as a share of the level.
    pub(super) share: f64,
    /// Whether two of the stretches that are compared are before it; or one, if it is slow in each of its blocks and further on: in a
    /// pause nothing is answered.
    pub(super) lasting: bool,
    /// The mean of the figure before it, and after it.
    pub(super) before: f64,
    pub(super) after: f64,
    /// How many times as far apart the two sides are as each is wide.
    pub(super) clarity: f64,
}

/// How a figure changes once, by more than `allowed`, in the first two thirds of a level and is steady before and after. The order
/// of so few stretches does not tell that from chance, but their distance does.
pub(super) fn step(statistic: Statistic, blocks: &Blocks, allowed: f64) -> Option<Step> {
    let stretches = timed_figures(statistic, blocks);
    let figures: Vec<f64> = stretches.iter().map(|(_, figure)| *figure).collect();
    let latest = 2 * figures.len() / 3;
    let clarity = |at: usize| {
        // It changes somewhere in one of the stretches.
        let (before, after) = (Extent::of(&figures[..at]), Extent::of(&figures[at + 1..]));
        let (lower, upper) = if before.high < after.low { (before, after) } else { (after, before) };
        let gap = upper.low - lower.high;
        let widest = lower.width().max(upper.width());
        let least = if at > 1 { 1.0 } else { ALONE };
        (gap > allowed * lower.high && gap >= least * widest).then(|| gap / widest.max(f64::MIN_POSITIVE))
    };
    if figures.len() < FEWEST {
        return None;
    }
    let steps = (1..=latest).filter_map(|at| Some((at, clarity(at)?)));
    let (at, clarity) = steps.max_by(|(_, left), (_, right)| left.total_cmp(right))?;
    let (before, after) = (mean(&figures[..at]), mean(&figures[at + 1..]));
    let within = stretches[at - 1].0..stretches[at].0;
    let is_before = |figure: f64| (figure > f64::midpoint(before, after)) == (before > after);
    let seconds = last_of(statistic, blocks, within.clone(), is_before);
    let share = seconds / blocks.seconds();
    let is_answered = |figure: f64| figure > 0.0 && is_before(figure);
    let lasting = at > 1 || seconds > within.start && are_all(statistic, blocks, seconds, is_answered);
    Some(Step { over: Duration::try_from_secs_f64(seconds).ok()?, share, lasting, before, after, clarity })
}

/// When the last block ends that lies `within` these seconds and whose figure `is` so; when they begin, if there is none.
fn last_of(statistic: Statistic, blocks: &Blocks, within: Range<f64>, is: impl Fn(f64) -> bool) -> f64 {
    let (mut now, mut last) = (0.0, within.start);
    for block in blocks.each() {
        let began = now;
        now += block.seconds;
        // Sums of seconds are rounded.
        let is_within = f64::midpoint(began, now) > within.start && f64::midpoint(began, now) < within.end;
        if is_within && figure(statistic, block).is_some_and(&is) {
            last = now;
        }
    }
    last
}

/// Whether the figure of every block before this second `is` so.
fn are_all(statistic: Statistic, blocks: &Blocks, second: f64, is: impl Fn(f64) -> bool) -> bool {
    let mut now = 0.0;
    blocks.each().iter().all(|block| {
        let began = now;
        now += block.seconds;
        f64::midpoint(began, now) > second || figure(statistic, block).is_some_and(&is)
    })
}

/// The least and the most of some figures.
#[derive(Clone, Copy)]
struct Extent {
    low: f64,
    high: f64,
}

impl Extent {
    fn of(figures: &[f64]) -> Self {
        let (low, high) = (f64::INFINITY, f64::NEG_INFINITY);
        figures.iter().fold(Self { low, high }, |range, figure| Self {
            low: range.low.min(*figure),
            high: range.high.max(*figure),
        })
    }

    fn width(self) -> f64 {
        self.high - self.low
    }
}

/// The figure of each stretch.
fn figures(statistic: Statistic, blocks: &Blocks) -> Vec<f64> {
    timed_figures(statistic, blocks).into_iter().map(|(_, figure)| figure).collect()
}

/// The same, each with the seconds from the beginning of the first to the end of this one.
fn timed_figures(statistic: Statistic, blocks: &Blocks) -> Vec<(f64, f64)> {
    let stretches = blocks.stretches(STRETCHES).into_iter().scan(0.0, |now, stretch| {
        *now += stretch.seconds;
        Some((*now, stretch))
    });
    stretches.filter_map(|(now, stretch)| Some((now, figure(statistic, &stretch)?))).collect()
}

fn figure(statistic: Statistic, block: &Block) -> Option<f64> {
    match statistic {
        Statistic::Throughput => (block.seconds > 0.0).then(|| block.requests as f64 / block.seconds),
        Statistic::MeanLatency => block.latency_ns(None),
        Statistic::Percentile(percentile) => block.latency_ns(Some(percentile)),
    }
}

/// The means of the first third of some figures, and of the last.
struct Ends {
    first: f64,
    last: f64,
}

impl Ends {
    fn of(figures: &[f64]) -> Self {
        let third = figures.len() / 3;
        Self { first: mean(&figures[..third]), last: mean(&figures[figures.len() - third..]) }
    }
}

/// What a figure was in the first third of a level, and in the last.
pub(super) fn ends(statistic: Statistic, blocks: &Blocks) -> [f64; 2] {
    let Ends { first, last } = Ends::of(&figures(statistic, blocks));
    [first, last]
}

/// Whether values rise, or fall, more often than chance lets them.
fn is_ordered(values: &[f64]) -> bool {
    let n = values.len() as f64;
    let pairs =
        values.iter().enumerate().flat_map(|(at, earlier)| values[at + 1..].iter().map(move |later| later - earlier));
    let rises: f64 = pairs.map(|rise| if rise == 0.0 { 0.0 } else { rise.signum() }).sum();
    let deviation = (n * (n - 1.0) * (2.0 * n + 5.0) / 18.0).sqrt();
    (rises.abs() - 1.0) / deviation > BY_CHANCE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::summary::sample;
    use crate::seed::{hash, unit};

    fn blocks(requests: impl Fn(u64) -> u64) -> Blocks {
        let mut blocks = Blocks::default();
        (0..48).for_each(|number| blocks.push(Block::new(&sample::client(requests(number), 1_000_000))));
        blocks
    }

    #[test]
    fn what_rises_all_the_time_drifts_and_what_goes_up_and_down_does_not() {
        let found = drift(Statistic::Throughput, &blocks(|number| 1_000 + 10 * number), 0.1).unwrap();
        assert!((found - 0.3).abs() < 0.1, "{found}");
        assert!(drift(Statistic::Throughput, &blocks(|number| 2_000 - 20 * number), 0.1).unwrap() < -0.2);
        assert_eq!(drift(Statistic::Throughput, &blocks(|number| 1_000 + number), 0.1), None, "little");
        let from_nothing = drift(Statistic::Throughput, &blocks(|number| number.saturating_sub(20) * 10), 0.1);
        assert_eq!(from_nothing, Some(MOST_RISE - 1.0), "no infinite number");
        assert_eq!(drift(Statistic::Throughput, &blocks(|number| 1_000 + 500 * (number / 8 % 2)), 0.1), None);
        assert_eq!(drift(Statistic::MeanLatency, &blocks(|number| 1_000 + 10 * number), 0.1), None);
    }

    #[test]
    fn a_server_that_has_warmed_up_takes_one_step() {
        let noise = |number: u64| (unit(hash(1, number)) * 60.0) as u64;
        let step = |at: u64, rate: u64| blocks(move |number| if number < at { rate } else { 1_000 } + noise(number));
        let has_step = |blocks: &Blocks| super::step(Statistic::Throughput, blocks, 0.1).is_some();
        assert!(has_step(&step(10, 500)) && has_step(&step(24, 700)) && has_step(&step(20, 2_000)));
        assert!(!has_step(&step(44, 500)), "what follows is too little");
        assert!(!has_step(&step(10, 980)) && !has_step(&step(0, 0)));
        assert!(!has_step(&blocks(|number| 1_000 + 500 * (number / 8 % 2))), "it goes up and down");
        assert!(
            drift(Statistic::Throughput, &step(20, 500), 0.1).is_none(),
            "what the order of stretches does not tell"
        );
    }

    #[test]
    fn a_step_is_found_to_the_block() {
        for at in [8, 10, 11, 13, 24] {
            let level = blocks(|number| if number < at { 200 } else { 1_000 + number % 5 });
            let found = step(Statistic::Throughput, &level, 0.1).unwrap();
            assert_eq!(found.over, Duration::from_secs(at), "{found:?}");
            assert!((found.before - 200.0).abs() < 1e-9 && (found.after - 1_002.0).abs() < 1.0, "{found:?}");
            assert!(found.clarity > 100.0, "{found:?}");
        }
    }

    #[test]
    fn what_changes_evenly_goes_on_and_what_comes_to_rest_does_not() {
        let level = |latency_ms: &dyn Fn(u64) -> u64| {
            let each = (0..80).map(|number| Block::new(&sample::client(100, 1_000_000 * latency_ms(number))));
            let (mut whole, mut last) = (Blocks::default(), Blocks::default());
            each.enumerate().for_each(|(number, block)| {
                if number >= 68 {
                    last.push(block.clone());
                }
                whole.push(block);
            });
            (drift(Statistic::MeanLatency, &last, 0.1), goes_on(Statistic::MeanLatency, &whole, &last, 0.1))
        };
        let (in_last, even) = level(&|number| 150 + 10 * number);
        assert!(in_last.is_none() && even.is_some_and(|share| share > 1.0), "{in_last:?} {even:?}");
        assert_eq!(level(&|number| 150 + 10 * number.min(60)).1, None, "it has come to rest");
        let (_, odd) = level(&|number| 150 + 10 * number - if number > 75 { 60 } else { 0 });
        assert!(odd.is_some_and(|share| share > 1.0), "its last windows alone look like that");
        assert_eq!(level(&|_| 100).1, None);
    }

    #[test]
    fn chance_drifts_rarely() {
        let noisy = |run: u64| blocks(move |number| 500 + (unit(hash(run, number)) * 1_000.0) as u64);
        let drifts = (0..100).filter(|run| drift(Statistic::Throughput, &noisy(*run), 0.05).is_some()).count();
        assert!(drifts <= 3, "{drifts} of 100");
    }

    #[test]
    fn a_machine_that_is_slow_at_times_drifts_rarely() {
        // Others come and go every five blocks on average, and it is looked at after each of 20 windows of four blocks.
        let rates = |run: u64| {
            let mut rate = 1_000;
            let draw = move |at: u64| unit(hash(run, at));
            (0..80).map(move |at| {
                rate = if draw(2 * at) < 0.2 { 700 + (draw(2 * at + 1) * 600.0) as u64 } else { rate };
                rate
            })
        };
        let drifts = |run: &u64| {
            let mut blocks = Blocks::default();
            rates(*run).enumerate().any(|(at, rate)| {
                blocks.push(Block::new(&sample::client(rate, 1_000_000)));
                at % 4 == 3 && drift(Statistic::Throughput, &blocks, 0.1).is_some()
            })
        };
        let count = (0..100).filter(drifts).count();
        assert!(count <= 15, "{count} of 100");
    }
}
